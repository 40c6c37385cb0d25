//! Builds the C shim to DPDK, where the feature `dpdk` wants it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "dpdk")]
    dpdk::build();
}

#[cfg(feature = "dpdk")]
mod dpdk {
    use std::process::Command;

    /// The sources, and what they include.
    const SOURCES: &[&str] = &["shim/eal.c", "shim/flow.c", "shim/frames.c", "shim/port.c"];
    const HEADERS: &[&str] = &["shim/dpdk.h"];
    /// The libraries that the shim calls itself. Drivers are loaded when the program
    /// starts DPDK, from DPDK's own directory.
    const LIBRARIES: &[&str] = &["rte_ethdev", "rte_net", "rte_mbuf", "rte_mempool", "rte_eal"];

    /// What `pkg-config` says.
    fn ask(what: &str) -> String {
        let program = std::env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".to_owned());
        let answer = Command::new(&program).args([what, "libdpdk"]).output();
        match answer {
            Ok(answer) if answer.status.success() => {
                String::from_utf8_lossy(&answer.stdout).into_owned()
            }
            Ok(answer) => panic!(
                "the feature `dpdk` needs DPDK's development files (Debian: apt-get install \
                 libdpdk-dev): {}",
                String::from_utf8_lossy(&answer.stderr).trim()
            ),
            Err(error) => panic!(
                "the feature `dpdk` needs {program} (Debian: apt-get install pkg-config \
                 libdpdk-dev): {error}"
            ),
        }
    }

    pub fn build() {
        println!("cargo::rerun-if-env-changed=PKG_CONFIG");
        println!("cargo::rerun-if-env-changed=PKG_CONFIG_PATH");
        for file in SOURCES.iter().chain(HEADERS) {
            println!("cargo::rerun-if-changed={file}");
        }
        let mut shim = cc::Build::new();
        shim.files(SOURCES);
        // In pkg-config's order: it names a file to include first, and the processor that DPDK was
        // built for at least, without which its inline functions do not compile.
        for flag in ask("--cflags").split_whitespace() {
            shim.flag(flag);
        }
        shim.compile("thruway_dpdk");
        for flag in ask("--libs-only-L").split_whitespace() {
            println!("cargo::rustc-link-search=native={}", flag.trim_start_matches("-L"));
        }
        for library in LIBRARIES {
            println!("cargo::rustc-link-lib=dylib={library}");
        }
    }
}

//! The EAL's arguments: the user's, and what they leave open.

/// Options by which the user says which processors the EAL has.
const CORES: &[&str] = &["-l", "-c", "-s", "-S", "--lcores", "--main-lcore"];
/// Options by which the user says what memory the EAL has.
const MEMORY: &[&str] = &[
    "--in-memory",
    "--no-huge",
    "--no-shconf",
    "--legacy-mem",
    "--file-prefix",
    "--proc-type",
    "--huge-dir",
    "--huge-unlink",
];
/// Options by which the user says which devices there are.
const DEVICES: &[&str] = &["-a", "--allow", "-b", "--block", "--no-pci"];

/// What the EAL finds on this host.
#[derive(Debug, Clone, Copy)]
pub struct Host {
    /// A processor that this process may use.
    pub cpu: usize,
    /// Whether huge pages are free.
    pub has_huge_pages: bool,
}

/// Whether one of these options is given: by itself, with `=VALUE`, or with a value glued to a
/// short one.
fn gives(arguments: &[String], options: &[&str]) -> bool {
    let is = |argument: &str, option: &str| match argument.strip_prefix(option) {
        Some("") => true,
        Some(rest) => rest.starts_with('=') || !option.starts_with("--"),
        None => false,
    };
    arguments.iter().any(|argument| options.iter().any(|option| is(argument, option)))
}

/// The whole command line of the EAL.
pub fn complete(given: &[String], host: Host) -> Vec<String> {
    let mut all = vec!["thruway".to_owned()];
    all.extend(given.iter().cloned());
    let mut add = |options: &[&str], wanted: &[&str]| {
        if !gives(given, options) {
            all.extend(wanted.iter().map(|&word| word.to_owned()));
        }
    };
    // One processor: the EAL makes a thread of its own for every further one, and we have threads.
    let cores = format!("0@{}", host.cpu);
    add(CORES, &["--lcores", &cores]);
    // Without shared files nothing is left behind. (--no-huge and --in-memory exclude each other.)
    match (gives(given, MEMORY), host.has_huge_pages) {
        (true, _) if gives(given, &["--no-huge"]) => add(&["--no-shconf"], &["--no-shconf"]),
        (true, _) => {}
        (false, true) => add(&[], &["--in-memory"]),
        (false, false) => add(&[], &["--no-huge", "--no-shconf"]),
    }
    add(&["--telemetry", "--no-telemetry"], &["--no-telemetry"]);
    // Devices get the frames' virtual addresses.
    add(&["--iova-mode"], &["--iova-mode=va"]);
    // Warnings and worse, for our own messages.
    add(&["--log-level"], &["--log-level=5"]);
    // No PCI device but those that are asked for; this one, if any, is a bridge without a driver.
    add(DEVICES, &["-a", "0000:00:00.0"]);
    all
}

/// Whether the user wants to see what DPDK logs.
pub fn shows_log(given: &[String]) -> bool {
    gives(given, &["--log-level"])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(given: &str, has_huge_pages: bool) -> String {
        let given: Vec<String> = given.split_whitespace().map(str::to_owned).collect();
        complete(&given, Host { cpu: 3, has_huge_pages }).join(" ")
    }

    #[test]
    fn what_is_left_open_is_filled_in() {
        let rest = "--no-telemetry --iova-mode=va --log-level=5 -a 0000:00:00.0";
        assert_eq!(completed("", true), format!("thruway --lcores 0@3 --in-memory {rest}"));
        assert_eq!(
            completed("", false),
            format!("thruway --lcores 0@3 --no-huge --no-shconf {rest}")
        );
    }

    #[test]
    fn what_the_user_says_counts() {
        let given = "-l1 --legacy-mem --telemetry --iova-mode=pa --log-level=8 --no-pci";
        assert_eq!(completed(given, false), format!("thruway {given}"));
        let given = "--allow=0000:02:00.0 --vdev=net_null0 --lcores=0@1 --file-prefix x";
        assert!(completed(given, true).starts_with(&format!("thruway {given} --no-telemetry")));
        assert!(!completed(given, true).contains("-a "));
        assert!(completed("--no-huge", true).contains("--no-huge --lcores 0@3 --no-shconf"));
        // A device's name is no option.
        assert!(completed("--vdev=net_null0,-a", true).contains("-a 0000:00:00.0"));
        assert!(shows_log(&["--log-level=lib.eal:8".to_owned()]));
    }
}

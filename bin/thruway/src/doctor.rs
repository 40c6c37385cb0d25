//! `thruway doctor`: what this host offers, and what is missing for more speed.

use std::fmt::Write as _;

/// The report.
pub fn report() -> String {
    let mut text = String::new();
    for (what, state, remedy) in [cores(), huge_pages(), raw_sockets(), af_xdp(), tap(), counters()]
    {
        let _ = writeln!(text, "{what:<22} {state}");
        if let Some(remedy) = remedy {
            let _ = writeln!(text, "{:<22} -> {remedy}", "");
        }
    }
    text
}

type Finding = (&'static str, String, Option<&'static str>);

fn cores() -> Finding {
    let n = std::thread::available_parallelism().map_or(1, usize::from);
    ("processor cores", format!("{n}: up to -j {n} is of use"), None)
}

fn huge_pages() -> Finding {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let free: u64 = info
        .lines()
        .find_map(|line| line.strip_prefix("HugePages_Free:"))
        .and_then(|rest| rest.trim().parse().ok())
        .unwrap_or(0);
    let remedy = (free == 0)
        .then_some("fewer misses with large tables: write a number to /proc/sys/vm/nr_hugepages");
    ("huge pages", format!("{free} free of 2 MB"), remedy)
}

fn raw_sockets() -> Finding {
    let able = has_capability(13);
    let remedy = (!able).then_some("to use interfaces: run as root, or setcap cap_net_raw+ep");
    ("network interfaces", state(able, "AF_PACKET can be opened", "no CAP_NET_RAW"), remedy)
}

fn af_xdp() -> Finding {
    // CAP_NET_ADMIN, CAP_NET_RAW, and CAP_BPF or CAP_SYS_ADMIN.
    let able =
        has_capability(12) && has_capability(13) && [39, 21].map(has_capability).contains(&true);
    let remedy = (!able).then_some(
        "to take packets by AF_XDP: run as root, or setcap cap_net_raw,cap_net_admin,cap_bpf+ep",
    );
    let interfaces = thruway_port::interface::list().unwrap_or_default();
    let ethernet = interfaces.iter().filter(|interface| interface.is_ethernet);
    let modes = ethernet.map(|interface| {
        let mode = match thruway_port::af_xdp::features(interface.index) {
            None => "unknown mode",
            Some(features) if features.zero_copy => {
                "native mode, zero copy (wants run --huge-pages)"
            }
            Some(features) if features.native => "native mode",
            Some(_) => "generic mode only",
        };
        format!("{}: {mode}", interface.name)
    });
    let modes: Vec<String> = modes.collect();
    ("AF_XDP", modes.join("; "), remedy)
}

fn tap() -> Finding {
    let there = std::path::Path::new("/dev/net/tun").exists();
    let able = there && has_capability(12);
    let remedy = (!able).then_some("to use KernelTap: load the tun module, run as root");
    ("TAP devices", state(able, "can be made", "no /dev/net/tun or no CAP_NET_ADMIN"), remedy)
}

fn counters() -> Finding {
    let level = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    let devices = std::path::Path::new("/sys/bus/event_source/devices/cpu").exists();
    let able = level.is_ok() && devices;
    let remedy = (!able)
        .then_some("benches print cycles of the time stamp counter; instructions need a host PMU");
    ("performance counters", state(able, "there", "none on this host"), remedy)
}

fn state(good: bool, yes: &str, no: &str) -> String {
    if good { yes.to_owned() } else { no.to_owned() }
}

/// Whether this process has a capability effectively, by its number.
fn has_capability(number: u32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let caps = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|rest| u64::from_str_radix(rest.trim(), 16).ok());
    caps.is_some_and(|caps| caps & (1 << number) != 0)
}

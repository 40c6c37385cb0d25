//! What this process may do, and what the kernel has.

use super::finding::Finding;
use super::host::Host;

/// Capabilities by their numbers (<linux/capability.h>).
#[derive(Debug, Clone, Copy)]
pub enum Capability {
    NetAdmin = 12,
    NetRaw = 13,
    IpcLock = 14,
    SysAdmin = 21,
    Bpf = 39,
}

/// Whether this process has a capability effectively.
pub fn has_capability(host: &Host, capability: Capability) -> bool {
    let caps = host.field("proc/self/status", "CapEff");
    let caps = caps.and_then(|caps| u64::from_str_radix(&caps, 16).ok());
    caps.is_some_and(|caps| caps & 1 << capability as u32 != 0)
}

/// Kernel versions from which something is there.
const KERNELS: &[((u32, u32), &str)] = &[
    ((5, 4), "AF_XDP that sleeps (need-wakeup)"),
    ((5, 9), "XDP programs that go with their process (links)"),
    ((5, 11), "busy polling of AF_XDP"),
    ((5, 13), "Landlock for isolated functions"),
    ((6, 3), "the modes of AF_XDP reported beforehand"),
];

/// Everything about rights and the kernel.
pub fn findings(host: &Host) -> Vec<Finding> {
    let mut found = vec![sockets(host), xdp(host), kernel(host)];
    found.extend(compiler(host));
    found.extend(unprivileged(host));
    found.push(tap(host));
    found
}

fn sockets(host: &Host) -> Finding {
    let what = "network interfaces";
    match has_capability(host, Capability::NetRaw) {
        true => Finding::good(what, "packet sockets (AF_PACKET) can be opened"),
        false => Finding::missing(
            what,
            "no CAP_NET_RAW: captures only",
            "run as root, or setcap cap_net_raw+ep on the program",
        ),
    }
}

/// The capabilities for AF_XDP that this process lacks.
pub fn lacks_for_xdp(host: &Host) -> Vec<&'static str> {
    let has = |capability| has_capability(host, capability);
    let needed = [
        ("CAP_NET_ADMIN", has(Capability::NetAdmin)),
        ("CAP_NET_RAW", has(Capability::NetRaw)),
        ("CAP_BPF", has(Capability::Bpf) || has(Capability::SysAdmin)),
    ];
    needed.into_iter().filter_map(|(name, has)| (!has).then_some(name)).collect()
}

fn xdp(host: &Host) -> Finding {
    let what = "AF_XDP";
    let lacks = lacks_for_xdp(host);
    if lacks.is_empty() {
        return Finding::good(what, "allowed");
    }
    Finding::missing(
        what,
        format!("not allowed: no {}", lacks.join(", ")),
        "run as root, or setcap cap_net_raw,cap_net_admin,cap_bpf,cap_ipc_lock+ep on the program",
    )
}

fn kernel(host: &Host) -> Finding {
    let what = "kernel";
    let Some(release) = host.line("proc/sys/kernel/osrelease") else {
        return Finding::unknown(what, "its version is unavailable");
    };
    let numbers = |text: &str| {
        let mut parts = text.split(|c: char| !c.is_ascii_digit());
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    };
    let Some(version) = numbers(&release) else {
        return Finding::unknown(what, format!("'{release}' is no version"));
    };
    let lacks: Vec<&str> =
        KERNELS.iter().filter(|(since, _)| version < *since).map(|(_, what)| *what).collect();
    if lacks.is_empty() {
        return Finding::good(what, release);
    }
    Finding::better(what, format!("{release}, without {}", lacks.join("; ")), "take 6.3 or newer")
}

/// Whether XDP programs run as machine code.
fn compiler(host: &Host) -> Option<Finding> {
    let what = "BPF compiler";
    Some(match host.number("proc/sys/net/core/bpf_jit_enable")? {
        0 => Finding::better(
            what,
            "off: steering for AF_XDP is interpreted",
            "write 1 to /proc/sys/net/core/bpf_jit_enable",
        ),
        _ => Finding::good(what, "on"),
    })
}

/// BPF for processes without rights does not matter to Thruway, and is better off.
fn unprivileged(host: &Host) -> Option<Finding> {
    let status = match host.number("proc/sys/kernel/unprivileged_bpf_disabled")? {
        0 => "allowed; XDP programs need CAP_BPF and CAP_NET_ADMIN all the same",
        _ => "not allowed, as is usual; XDP programs need CAP_BPF and CAP_NET_ADMIN",
    };
    Some(Finding::good("unprivileged BPF", status))
}

fn tap(host: &Host) -> Finding {
    let what = "TAP devices";
    match (host.has("dev/net/tun"), has_capability(host, Capability::NetAdmin)) {
        (true, true) => Finding::good(what, "can be made"),
        (false, _) => Finding::missing(
            what,
            "no /dev/net/tun",
            "for KernelTap and FromHost: modprobe tun, or give the container the device",
        ),
        (true, false) => Finding::missing(
            what,
            "no CAP_NET_ADMIN",
            "for KernelTap and FromHost: run as root, or setcap cap_net_admin+ep on the program",
        ),
    }
}

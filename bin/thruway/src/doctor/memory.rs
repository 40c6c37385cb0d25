//! Memory: pages, and how much may be held.

use super::finding::Finding;
use super::host::Host;
use super::rights::{Capability, has_capability};

/// Bytes of the packet memory at its default size, with what AF_XDP keeps beside it.
const PACKET_MEMORY: u64 = 140 << 20;
/// Open files that a large configuration may need.
const FILES: u64 = 4096;
const PAGES: &str = "sys/kernel/mm/hugepages";

/// Everything about memory.
pub fn findings(host: &Host) -> Vec<Finding> {
    let mut found = vec![huge_pages(host)];
    found.extend(transparent(host));
    found.extend([locked(host), files(host)]);
    found.extend(available(host));
    found
}

/// `4 of 8 free of 2 MB`, for each size, and by node where there are several.
fn huge_pages(host: &Host) -> Finding {
    let what = "huge pages";
    let sizes: Vec<(u64, String)> = host
        .list(PAGES)
        .into_iter()
        .filter_map(|name| {
            let size = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
            Some((size, name))
        })
        .collect();
    if sizes.is_empty() {
        return Finding::unknown(what, "this kernel has none");
    }
    let count = |place: &str, file: &str| host.number(&format!("{place}/{file}")).unwrap_or(0);
    let status: Vec<String> = sizes
        .iter()
        .map(|(size, name)| {
            let place = format!("{PAGES}/{name}");
            let (all, free) = (count(&place, "nr_hugepages"), count(&place, "free_hugepages"));
            format!("{free} of {all} free of {}{}", amount(*size << 10), by_node(host, name))
        })
        .collect();
    let free = |name: &str| count(&format!("{PAGES}/{name}"), "free_hugepages");
    let status = status.join("; ");
    let small = sizes.iter().find(|(size, _)| *size == 2048);
    if sizes.iter().any(|(_, name)| free(name) > 0) {
        return Finding::good(what, status);
    }
    let pages = PACKET_MEMORY.div_ceil(2 << 20);
    let remedy = match small {
        Some(_) => format!(
            "fewer misses with large tables, and what zero-copy AF_XDP and DPDK want: write {pages} (for \
             140 MB) or more to /proc/sys/vm/nr_hugepages, early after boot; then thruway run \
             --huge-pages"
        ),
        None => "reserve some at boot: hugepagesz=2M hugepages=128".to_owned(),
    };
    Finding::better(what, status, remedy)
}

fn by_node(host: &Host, name: &str) -> String {
    let nodes = "sys/devices/system/node";
    let numbers = host.processors(&format!("{nodes}/online")).unwrap_or_default();
    if numbers.len() < 2 {
        return String::new();
    }
    let free = numbers.iter().map(|node| {
        let file = format!("{nodes}/node{node}/hugepages/{name}/free_hugepages");
        format!("node {node}: {}", host.number(&file).unwrap_or(0))
    });
    format!(" ({})", free.collect::<Vec<_>>().join(", "))
}

fn amount(bytes: u64) -> String {
    match bytes {
        0..0x10_0000 => format!("{} kB", bytes >> 10),
        0x10_0000..0x4000_0000 => format!("{} MB", bytes >> 20),
        _ => format!("{} GB", bytes >> 30),
    }
}

fn transparent(host: &Host) -> Option<Finding> {
    let what = "transparent huge pages";
    let line = host.line("sys/kernel/mm/transparent_hugepage/enabled")?;
    let chosen = line.split('[').nth(1)?.split(']').next()?.to_owned();
    Some(match &chosen[..] {
        "always" | "madvise" => Finding::good(what, chosen),
        _ => Finding::better(
            what,
            chosen,
            "large tables miss less: write madvise to /sys/kernel/mm/transparent_hugepage/enabled",
        ),
    })
}

/// The soft limit of `/proc/self/limits`: `None` in it for no limit.
fn limit(host: &Host, name: &str) -> Option<Option<u64>> {
    let text = host.text("proc/self/limits")?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(None),
        number => number.parse().ok().map(Some),
    }
}

fn locked(host: &Host) -> Finding {
    let what = "locked memory";
    match limit(host, "Max locked memory") {
        None => Finding::unknown(what, "the limit is unavailable"),
        Some(None) => Finding::good(what, "no limit"),
        Some(Some(bytes)) if bytes >= PACKET_MEMORY => Finding::good(what, amount(bytes)),
        Some(Some(bytes)) if has_capability(host, Capability::IpcLock) => Finding::good(
            what,
            format!("{}, which does not count with CAP_IPC_LOCK", amount(bytes)),
        ),
        Some(Some(bytes)) => Finding::missing(
            what,
            format!("{} at most: AF_XDP's frames do not fit", amount(bytes)),
            "ulimit -l unlimited (systemd LimitMEMLOCK=infinity), or give CAP_IPC_LOCK",
        ),
    }
}

fn files(host: &Host) -> Finding {
    let what = "open files";
    match limit(host, "Max open files") {
        None => Finding::unknown(what, "the limit is unavailable"),
        Some(Some(count)) if count < FILES => Finding::better(
            what,
            format!("{count} at most: enough for small configurations"),
            "for many interfaces, queues and functions: ulimit -n 65536 (systemd LimitNOFILE=)",
        ),
        Some(limit) => {
            Finding::good(what, limit.map_or("no limit".to_owned(), |count| count.to_string()))
        }
    }
}

fn available(host: &Host) -> Option<Finding> {
    let text = host.field("proc/meminfo", "MemAvailable")?;
    let kilobytes: u64 = text.split_whitespace().next()?.parse().ok()?;
    let bytes = kilobytes.saturating_mul(1024);
    let what = "memory";
    Some(if bytes < 2 * PACKET_MEMORY {
        Finding::better(
            what,
            format!("{} available; packet memory takes up to 140 MB as it is used", amount(bytes)),
            "free some, or give the machine more",
        )
    } else {
        Finding::good(what, format!("{} available", amount(bytes)))
    })
}

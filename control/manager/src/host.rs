//! What this host is, read from `/proc` and `/sys` without privileges.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Longest text that is read of a file, in bytes.
const TEXT_LEN_MAX: u64 = 1 << 20;

/// Interfaces that are reported at most.
const INTERFACES_MAX: usize = 1024;

/// What is observed of a host. What the kernel does not report is null or missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostStatus {
    /// Release of the kernel: `6.12.1-amd64`.
    pub kernel: Option<String>,
    /// Processors.
    pub processors: Processors,
    /// Memory.
    pub memory: Memory,
    /// Pools of huge pages, by the size of a page.
    pub huge_pages: Vec<HugePages>,
    /// Network interfaces of the manager's network namespace, by name.
    pub interfaces: Vec<Interface>,
}

/// Processors of a host.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Processors {
    /// Those that run: `0-3,8`.
    pub online: Option<String>,
    /// How many run.
    pub count: u32,
    /// Model of the first one.
    pub model: Option<String>,
}

/// Memory of a host.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Memory {
    /// All that the kernel has, in bytes.
    pub total_bytes: Option<u64>,
    /// What programs could still get, in bytes.
    pub available_bytes: Option<u64>,
}

/// A pool of huge pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HugePages {
    /// Size of a page, in bytes.
    pub page_bytes: u64,
    /// Pages that there are.
    pub total: u64,
    /// Pages that nobody uses.
    pub free: u64,
}

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Address of its link: `02:00:00:00:00:01`.
    pub address: Option<String>,
    /// Longest packet, in bytes.
    pub mtu: Option<u32>,
    /// State as the kernel tells it (RFC 2863): `up`, `down`, `unknown`.
    pub state: Option<String>,
    /// Speed, in megabits a second.
    pub speed_mbps: Option<u32>,
    /// Driver of the device: `ixgbe`.
    pub driver: Option<String>,
    /// Queues by which it receives.
    pub receive_queues: u32,
}

/// Name of the host.
pub fn name(root: &Path) -> String {
    line(&root.join("proc/sys/kernel/hostname")).unwrap_or_else(|| "localhost".to_owned())
}

/// What is observed of the host whose `/proc` and `/sys` are below `root`.
pub fn observe(root: &Path) -> HostStatus {
    let meminfo = text(&root.join("proc/meminfo")).unwrap_or_default();
    HostStatus {
        kernel: line(&root.join("proc/sys/kernel/osrelease")),
        processors: processors(root),
        memory: Memory {
            total_bytes: meminfo_bytes(&meminfo, "MemTotal"),
            available_bytes: meminfo_bytes(&meminfo, "MemAvailable"),
        },
        huge_pages: huge_pages(&root.join("sys/kernel/mm/hugepages")),
        interfaces: interfaces(&root.join("sys/class/net")),
    }
}

fn processors(root: &Path) -> Processors {
    let online = line(&root.join("sys/devices/system/cpu/online"));
    let cpuinfo = text(&root.join("proc/cpuinfo")).unwrap_or_default();
    Processors {
        count: online.as_deref().and_then(list_len).unwrap_or(0),
        online,
        model: field(&cpuinfo, "model name").map(str::to_owned),
    }
}

/// Numbers in a list of the kernel: 5 in `0-3,8`.
fn list_len(list: &str) -> Option<u32> {
    let count = |range: &str| -> Option<u32> {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        last.checked_sub(first)?.checked_add(1)
    };
    list.split(',').try_fold(0u32, |sum, range| sum.checked_add(count(range)?))
}

/// The value behind a name and a colon, the first one.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
}

/// A line of `/proc/meminfo`, in bytes: `MemTotal:  1024 kB`.
fn meminfo_bytes(text: &str, name: &str) -> Option<u64> {
    let kilobytes: u64 = field(text, name)?.strip_suffix(" kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// Pools below `hugepages`, which has a directory `hugepages-2048kB` for each.
fn huge_pages(dir: &Path) -> Vec<HugePages> {
    let pool = |(name, path): &(String, PathBuf)| {
        let size = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse::<u64>().ok()?;
        Some(HugePages {
            page_bytes: size.checked_mul(1024)?,
            total: number(&path.join("nr_hugepages"))?,
            free: number(&path.join("free_hugepages"))?,
        })
    };
    let mut pools: Vec<HugePages> = entries(dir).iter().filter_map(pool).collect();
    pools.sort_by_key(|pool| pool.page_bytes);
    pools
}

fn interfaces(dir: &Path) -> Vec<Interface> {
    // Beside interfaces there is a file, `bonding_masters`.
    let all = entries(dir).into_iter().filter(|(_, path)| path.is_dir());
    all.take(INTERFACES_MAX).map(|(name, path)| interface(name, &path)).collect()
}

fn interface(name: String, path: &Path) -> Interface {
    let driver = fs::read_link(path.join("device/driver")).ok();
    let driver = driver.and_then(|link| Some(link.file_name()?.to_str()?.to_owned()));
    let queues = entries(&path.join("queues"));
    let receive_queues = queues.iter().filter(|(queue, _)| queue.starts_with("rx-")).count();
    Interface {
        name,
        address: line(&path.join("address")),
        mtu: number(&path.join("mtu")),
        state: line(&path.join("operstate")),
        // -1 where there is none.
        speed_mbps: number(&path.join("speed")),
        driver,
        receive_queues: u32::try_from(receive_queues).unwrap_or(u32::MAX),
    }
}

/// Names and paths in a directory, by name; none if it is not there.
fn entries(dir: &Path) -> Vec<(String, PathBuf)> {
    let found = fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    let named = found.filter_map(|one| Some((one.file_name().into_string().ok()?, one.path())));
    let mut all: Vec<_> = named.collect();
    all.sort();
    all
}

fn text(path: &Path) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.take(TEXT_LEN_MAX).read_to_string(&mut text).ok()?;
    Some(text)
}

/// A file of one line, which is not empty.
fn line(path: &Path) -> Option<String> {
    let text = text(path)?.trim().to_owned();
    if text.is_empty() { None } else { Some(text) }
}

fn number<T: std::str::FromStr>(path: &Path) -> Option<T> {
    line(path)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    /// A root with files; a text that begins with `->` is a link.
    fn root(files: &[(&str, &str)]) -> TempDir {
        let dir = TempDir::new().expect("a directory");
        for (path, text) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            match text.strip_prefix("->") {
                Some(target) => std::os::unix::fs::symlink(target, path).expect("a link"),
                None => fs::write(path, text).expect("written"),
            }
        }
        dir
    }

    #[test]
    fn a_host_is_what_its_kernel_tells() {
        let net = "sys/class/net";
        let files = [
            ("proc/sys/kernel/hostname", "edge-1\n"),
            ("proc/sys/kernel/osrelease", "6.12.1-amd64\n"),
            ("proc/meminfo", "MemTotal:        2048 kB\nMemFree: 1 kB\nMemAvailable: 1024 kB\n"),
            ("proc/cpuinfo", "processor\t: 0\nmodel name\t: AMD EPYC\n\nmodel name\t: other\n"),
            ("sys/devices/system/cpu/online", "0-3,8\n"),
            ("sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "0\n"),
            ("sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages", "0\n"),
            ("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "512\n"),
            ("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "500\n"),
            (&format!("{net}/bonding_masters"), "bond0\n"),
            (&format!("{net}/lo/address"), "00:00:00:00:00:00\n"),
            (&format!("{net}/lo/speed"), "-1\n"),
            (&format!("{net}/eth0/address"), "02:00:00:00:00:01\n"),
            (&format!("{net}/eth0/mtu"), "1500\n"),
            (&format!("{net}/eth0/operstate"), "up\n"),
            (&format!("{net}/eth0/speed"), "10000\n"),
            (&format!("{net}/eth0/device/driver"), "->../../bus/pci/drivers/ixgbe"),
            (&format!("{net}/eth0/queues/rx-0/x"), ""),
            (&format!("{net}/eth0/queues/rx-1/x"), ""),
            (&format!("{net}/eth0/queues/tx-0/x"), ""),
        ];
        let dir = root(&files);
        assert_eq!(name(dir.path()), "edge-1");
        let pool = |page_bytes, total, free| HugePages { page_bytes, total, free };
        let lo = Interface {
            name: "lo".into(),
            address: Some("00:00:00:00:00:00".into()),
            mtu: None,
            state: None,
            speed_mbps: None,
            driver: None,
            receive_queues: 0,
        };
        let eth0 = Interface {
            name: "eth0".into(),
            address: Some("02:00:00:00:00:01".into()),
            mtu: Some(1500),
            state: Some("up".into()),
            speed_mbps: Some(10_000),
            driver: Some("ixgbe".into()),
            receive_queues: 2,
        };
        let expected = HostStatus {
            kernel: Some("6.12.1-amd64".into()),
            processors: Processors {
                online: Some("0-3,8".into()),
                count: 5,
                model: Some("AMD EPYC".into()),
            },
            memory: Memory { total_bytes: Some(2 << 20), available_bytes: Some(1 << 20) },
            huge_pages: vec![pool(2 << 20, 512, 500), pool(1 << 30, 0, 0)],
            interfaces: vec![eth0, lo],
        };
        assert_eq!(observe(dir.path()), expected);
    }

    #[test]
    fn what_is_not_told_is_missing() {
        let dir = root(&[("proc/meminfo", "MemTotal: x kB\nMemAvailable: 5 MB\n")]);
        assert_eq!(name(dir.path()), "localhost");
        let expected = HostStatus {
            kernel: None,
            processors: Processors::default(),
            memory: Memory::default(),
            huge_pages: Vec::new(),
            interfaces: Vec::new(),
        };
        assert_eq!(observe(dir.path()), expected);
    }

    #[test]
    fn lists_of_the_kernel_are_counted() {
        for (list, count) in [("0", Some(1)), ("0-1", Some(2)), ("0-3,8", Some(5))] {
            assert_eq!(list_len(list), count, "{list}");
        }
        for list in ["", "-", "1-", "3-1", "a", "0,,1", "0-4294967295", "4294967296"] {
            assert_eq!(list_len(list), None, "{list}");
        }
    }

    /// The files of this kernel have the form that the fixtures have.
    #[test]
    fn this_host_tells_all_that_every_kernel_has() {
        let found = observe(Path::new("/"));
        assert!(found.kernel.is_some() && found.processors.count > 0, "{found:?}");
        let memory = found.memory;
        assert!(memory.available_bytes <= memory.total_bytes && memory.available_bytes.is_some());
        assert!(found.interfaces.iter().any(|one| one.name == "lo" && one.mtu.is_some()));
    }
}

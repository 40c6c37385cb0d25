//! Hosts that were made up.

use std::path::Path;

use super::finding::Rating;
use super::{examine, report};

/// Writes files below a root; a target that begins with `->` is a link.
fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    for (path, text) in files {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        match text.strip_prefix("->") {
            Some(target) => std::os::unix::fs::symlink(target, path).expect("a link"),
            None => std::fs::write(path, text).expect("a file"),
        }
    }
    dir
}

#[track_caller]
fn is(root: &Path, what: &str, state: Rating, status: &str) {
    let found = examine(root);
    let finding = found.iter().find(|finding| finding.what == what);
    let finding = finding.unwrap_or_else(|| panic!("nothing about '{what}'"));
    assert!(finding.state == state && finding.status.contains(status), "{finding:?}");
    let needs = matches!(state, Rating::Missing | Rating::Better);
    assert_eq!(finding.remedy.is_some(), needs, "{finding:?}");
}

/// A server with everything.
const SERVER: &[(&str, &str)] = &[
    ("proc/self/status", "Name:\tx\nCapEff:\t000001ffffffffff\nCpus_allowed_list:\t0-7\n"),
    (
        "proc/self/limits",
        "Limit                     Soft Limit           Hard Limit           Units     \n\
         Max open files            65536                65536                files     \n\
         Max locked memory         unlimited            unlimited            bytes     \n",
    ),
    ("proc/meminfo", "MemTotal:  100 kB\nMemAvailable:   33554432 kB\n"),
    ("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu constant_tsc nonstop_tsc\n"),
    ("proc/sys/kernel/osrelease", "6.12.1-amd64\n"),
    ("proc/sys/kernel/unprivileged_bpf_disabled", "2\n"),
    ("proc/sys/kernel/perf_event_paranoid", "2\n"),
    ("proc/sys/kernel/seccomp/actions_avail", "kill_process kill_thread errno allow\n"),
    ("proc/sys/net/core/bpf_jit_enable", "1\n"),
    ("proc/sys/user/max_user_namespaces", "1000\n"),
    ("sys/kernel/security/lsm", "landlock,yama\n"),
    ("sys/fs/cgroup/cgroup.controllers", "cpu memory\n"),
    ("sys/bus/event_source/devices/cpu/type", "4\n"),
    ("dev/net/tun", ""),
    ("sys/devices/system/cpu/online", "0-7\n"),
    ("sys/devices/system/cpu/isolated", "2-7\n"),
    ("sys/devices/system/cpu/nohz_full", "2-7\n"),
    ("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "performance\n"),
    ("sys/devices/system/cpu/intel_pstate/no_turbo", "1\n"),
    ("sys/devices/system/node/online", "0-1\n"),
    ("sys/devices/system/node/node0/cpulist", "0-3\n"),
    ("sys/devices/system/node/node1/cpulist", "4-7\n"),
    ("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "512\n"),
    ("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "500\n"),
    ("sys/devices/system/node/node0/hugepages/hugepages-2048kB/free_hugepages", "200\n"),
    ("sys/devices/system/node/node1/hugepages/hugepages-2048kB/free_hugepages", "300\n"),
    ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
    ("sys/class/net/eth0/type", "1\n"),
    ("sys/class/net/eth0/mtu", "1500\n"),
    ("sys/class/net/eth0/operstate", "up\n"),
    ("sys/class/net/eth0/queues/rx-0/x", ""),
    ("sys/class/net/eth0/queues/rx-1/x", ""),
    ("sys/class/net/eth0/queues/tx-0/x", ""),
    ("sys/class/net/eth0/device/numa_node", "1\n"),
    ("sys/class/net/eth0/device/driver", "->../../drivers/ice"),
    ("sys/class/net/lo/type", "772\n"),
    ("usr/lib/x86_64-linux-gnu/librte_eal.so.23", ""),
    ("sys/bus/pci/drivers/vfio-pci/0000:01:00.0", ""),
    ("sys/bus/pci/drivers/vfio-pci/bind", ""),
];

#[test]
fn a_server_with_everything_is_well() {
    let tree = tree(SERVER);
    let root = tree.path();
    for (what, status) in [
        ("network interfaces", "AF_PACKET"),
        ("AF_XDP", "allowed"),
        ("kernel", "6.12.1"),
        ("BPF compiler", "on"),
        ("TAP devices", "can be made"),
        ("processors", "8: use at most -j 8"),
        ("isolated processors", "2-7"),
        ("frequency", "performance"),
        ("boost", "off"),
        ("cycle counter", "invariant"),
        ("performance counters", "there"),
        ("huge pages", "500 of 512 free of 2 MB (node 0: 200, node 1: 300)"),
        ("transparent huge pages", "madvise"),
        ("locked memory", "no limit"),
        ("open files", "65536"),
        ("memory", "32 GB available"),
        ("user namespaces", "can be made"),
        ("Landlock", "in force"),
        ("seccomp", "filters"),
        ("control groups", "version 2 with memory"),
        ("DPDK", "librte_eal.so.23"),
        ("devices of DPDK", "0000:01:00.0 (vfio-pci)"),
        ("interface eth0", "driver ice, 2 rx and 1 tx queues, MTU 1500, NUMA node 1"),
    ] {
        is(root, what, Rating::Good, status);
    }
    is(root, "NUMA nodes", Rating::Better, "2: node 0: processors 0-3; node 1: processors 4-7");
}

#[test]
fn what_is_wrong_is_told_with_its_remedy() {
    let changed: &[(&str, &str)] = &[
        ("proc/self/status", "CapEff:\t0000000000000000\nCpus_allowed_list:\t1\n"),
        (
            "proc/self/limits",
            "Max open files  256 256 files\nMax locked memory  65536 65536 bytes\n",
        ),
        ("proc/meminfo", "MemAvailable: 1000 kB\n"),
        ("proc/cpuinfo", "flags : fpu\n"),
        ("proc/sys/kernel/osrelease", "5.10.0\n"),
        ("proc/sys/net/core/bpf_jit_enable", "0\n"),
        ("proc/sys/user/max_user_namespaces", "0\n"),
        ("proc/sys/kernel/seccomp/actions_avail", "\n"),
        ("sys/kernel/security/lsm", "apparmor\n"),
        ("sys/fs/cgroup/cgroup.controllers", "hugetlb\n"),
        ("sys/devices/system/cpu/online", "0-1\n"),
        ("sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0-1\n"),
        ("sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "0-1\n"),
        ("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "powersave\n"),
        ("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "0\n"),
        ("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n"),
        ("sys/class/net/eth0/type", "1\n"),
        ("sys/class/net/eth0/mtu", "9000\n"),
        ("sys/class/net/eth0/operstate", "down\n"),
    ];
    let tree = tree(changed);
    let root = tree.path();
    for (what, state, status) in [
        ("network interfaces", Rating::Missing, "no CAP_NET_RAW"),
        ("AF_XDP", Rating::Missing, "no CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF"),
        ("TAP devices", Rating::Missing, "no /dev/net/tun"),
        ("locked memory", Rating::Missing, "64 kB at most"),
        ("user namespaces", Rating::Missing, "none may be made"),
        ("seccomp", Rating::Missing, "no filters"),
        ("kernel", Rating::Better, "without busy polling"),
        ("BPF compiler", Rating::Better, "interpreted"),
        ("processors", Rating::Better, "1 of 2"),
        ("isolated processors", Rating::Better, "none"),
        ("threads per core", Rating::Better, "0-1 are one core"),
        ("frequency", Rating::Better, "governor powersave"),
        ("cycle counter", Rating::Better, "not steady"),
        ("huge pages", Rating::Better, "0 of 0 free of 2 MB"),
        ("transparent huge pages", Rating::Better, "never"),
        ("open files", Rating::Better, "256 at most"),
        ("memory", Rating::Better, "1000 kB available"),
        ("Landlock", Rating::Better, "in force: apparmor"),
        ("control groups", Rating::Better, "without memory"),
        ("interface eth0", Rating::Better, "down, 0 rx and 0 tx queues, MTU 9000"),
    ] {
        is(root, what, state, status);
    }
    let text = report(&examine(root));
    let at = |word: &str| text.find(word).unwrap_or_else(|| panic!("no '{word}' in {text}"));
    assert!(at("Missing\n") < at("Could be better") && at("Could be better") < at("Unknown\n"));
    assert!(text.lines().all(|line| line.chars().count() <= 112), "{text}");
}

#[test]
fn nothing_and_nonsense_do_not_panic() {
    let empty = tree(&[]);
    assert!(examine(empty.path()).iter().all(|finding| !finding.status.is_empty()));
    for nonsense in
        ["", "\n", "-1", "99999999999999999999", "0-99999999", "[", "\u{1b}[2J:\t:::", "max"]
    {
        let files: Vec<(&str, &str)> = SERVER
            .iter()
            .filter(|(_, text)| !text.starts_with("->"))
            .map(|(path, _)| (*path, nonsense))
            .collect();
        let tree = tree(&files);
        let text = report(&examine(tree.path()));
        assert!(!text.contains('\u{1b}'), "{text}");
    }
}

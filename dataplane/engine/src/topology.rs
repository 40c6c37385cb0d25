//! The machine's cores, and which threads get which: read from sysfs, chosen by a pure function.

use std::collections::BTreeMap;
use std::path::Path;

use thruway_element::text::numbers;

/// A core that the process may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Core {
    /// The system's number for it.
    pub number: usize,
    /// The NUMA node that it is at, where there are nodes.
    pub node: Option<usize>,
    /// Which of the logical cores of its physical core it is, from 0.
    pub sibling: usize,
    /// Whether the scheduler keeps other work from it (`isolcpus`).
    pub is_isolated: bool,
}

/// The cores of a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Topology {
    cores: Vec<Core>,
}

impl Topology {
    /// The cores that the calling thread may use.
    pub fn of_this_machine() -> Topology {
        use rustix::thread::{CpuSet, sched_getaffinity};
        let Ok(set) = sched_getaffinity(None) else { return Topology::default() };
        let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect();
        Topology::read(Path::new("/sys/devices/system"), &allowed)
    }

    /// Reads the topology of these cores from `root` (`/sys/devices/system`). Missing entries mean
    /// a machine with one node and without hyperthreads.
    pub fn read(root: &Path, allowed: &[usize]) -> Topology {
        let list = |path: String| -> Vec<usize> {
            let text = std::fs::read_to_string(root.join(path)).unwrap_or_default();
            cores_of(text.trim()).unwrap_or_default()
        };
        let mut nodes = BTreeMap::new();
        for node in list("node/online".into()) {
            let cores = list(format!("node/node{node}/cpulist"));
            nodes.extend(cores.into_iter().map(|core| (core, node)));
        }
        let isolated = list("cpu/isolated".into());
        let core = |number: &usize| {
            let siblings = list(format!("cpu/cpu{number}/topology/thread_siblings_list"));
            Core {
                number: *number,
                node: nodes.get(number).copied(),
                sibling: siblings.iter().position(|other| other == number).unwrap_or(0),
                is_isolated: isolated.contains(number),
            }
        };
        Topology { cores: allowed.iter().map(core).collect() }
    }

    /// The node of a core.
    pub fn node(&self, number: usize) -> Option<usize> {
        self.cores.iter().find(|core| core.number == number)?.node
    }

    /// The core of each thread: the `named` ones, or, for several threads, the best available ones.
    /// The system places threads without a core.
    ///
    /// Isolated cores come first, then one of each physical core. Where inputs' devices are at
    /// nodes (`devices`, one entry for each), cores of these nodes come first, in turn.
    pub fn choose(&self, threads: usize, named: &[usize], devices: &[usize]) -> Vec<Option<usize>> {
        if !named.is_empty() {
            return (0..threads).map(|thread| named.get(thread).copied()).collect();
        }
        if threads < 2 {
            return vec![None; threads];
        }
        let mut left = self.cores.clone();
        left.sort_by_key(|core| (!core.is_isolated, core.sibling, core.node, core.number));
        let mut turn = devices.iter().cycle();
        let mut chosen = Vec::new();
        while chosen.len() < threads {
            let near = |node: &usize| left.iter().position(|core| core.node == Some(*node));
            // Each device's turn comes once before all cores are alike.
            let at = (0..devices.len()).find_map(|_| turn.next().and_then(near)).unwrap_or(0);
            chosen.push((at < left.len()).then(|| left.remove(at).number));
        }
        chosen
    }
}

/// The numbers of a list of cores or nodes, none of them beyond the capacity of a set of cores.
fn cores_of(text: &str) -> Option<Vec<usize>> {
    numbers(text, rustix::thread::CpuSet::MAX_CPU - 1)
}

/// Whether this process may run on a core: asked of the system by a thread that tries.
pub fn may_run_on(core: usize) -> bool {
    let attempt = move || {
        let mut set = rustix::thread::CpuSet::new();
        set.set(core);
        rustix::thread::sched_setaffinity(None, &set).is_ok()
    };
    let runs = || std::thread::Builder::new().spawn(attempt).ok()?.join().ok();
    core < rustix::thread::CpuSet::MAX_CPU && runs().unwrap_or(false)
}

/// The cores of a list (`2-5,8`), each of which this process may run on.
///
/// # Errors
/// The error in the list, or the core that is not this process's, and those that are.
pub fn named_cores(text: &str) -> Result<Vec<usize>, String> {
    let wrong = || format!("'{text}' is no list of cores; write 2-5 or 2,4-7");
    let cores = cores_of(text).ok_or_else(wrong)?;
    if let Some(twice) = cores.iter().enumerate().find(|(at, core)| cores[..*at].contains(core)) {
        return Err(format!("core {} is named twice; a core serves one thread", twice.1));
    }
    match cores.iter().find(|core| !may_run_on(**core)) {
        None => Ok(cores),
        Some(core) => {
            let own = Topology::of_this_machine().cores;
            let own: Vec<usize> = own.iter().map(|core| core.number).collect();
            Err(format!(
                "core {core} is not this process's to use; it may run on {} (its cpuset and \
                 affinity: see taskset -p, or the container's settings)",
                crate::ranges::ranges(&own)
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two nodes of four logical cores: numbers 0 to 3 are the first ones of the physical cores,
    /// alternately at the nodes, 4 to 7 the second ones.
    fn two_nodes() -> Vec<Core> {
        let core = |number: usize| Core {
            number,
            node: Some(number % 2),
            sibling: number / 4,
            is_isolated: false,
        };
        (0..8).map(core).collect()
    }

    fn chosen(cores: Vec<Core>, threads: usize, devices: &[usize]) -> Vec<Option<usize>> {
        Topology { cores }.choose(threads, &[], devices)
    }

    #[test]
    fn physical_cores_of_one_node_come_first() {
        assert_eq!(chosen(two_nodes(), 3, &[]), [Some(0), Some(2), Some(1)]);
        let all = chosen(two_nodes(), 9, &[]);
        assert_eq!(all[3..], [Some(3), Some(4), Some(6), Some(5), Some(7), None]);
        assert_eq!(chosen(two_nodes(), 1, &[]), [None], "one thread is left to the system");
    }

    #[test]
    fn threads_are_near_the_devices() {
        assert_eq!(chosen(two_nodes(), 3, &[1]), [Some(1), Some(3), Some(5)]);
        assert_eq!(chosen(two_nodes(), 4, &[1, 0]), [Some(1), Some(0), Some(3), Some(2)]);
        // Two devices of three at node 0: two cores of three.
        assert_eq!(chosen(two_nodes(), 3, &[0, 0, 1]), [Some(0), Some(2), Some(1)]);
        // More threads than the node has cores; a node that has none here.
        let five = chosen(two_nodes(), 5, &[1]);
        assert_eq!(five, [Some(1), Some(3), Some(5), Some(7), Some(0)]);
        assert_eq!(chosen(two_nodes(), 2, &[9]), [Some(0), Some(2)]);
    }

    #[test]
    fn isolated_cores_are_for_packets_and_a_cpuset_is_kept_to() {
        let mut cores = two_nodes();
        cores[5].is_isolated = true;
        cores[7].is_isolated = true;
        assert_eq!(chosen(cores.clone(), 3, &[]), [Some(5), Some(7), Some(0)]);
        cores.retain(|core| [3, 6].contains(&core.number));
        assert_eq!(chosen(cores, 3, &[]), [Some(3), Some(6), None]);
        let named = Topology { cores: two_nodes() }.choose(2, &[6, 1], &[0]);
        assert_eq!(named, [Some(6), Some(1)], "the user's word, in the user's order");
    }

    #[test]
    fn sysfs_is_read() {
        let root = std::env::temp_dir().join(format!("thruway-topology-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().expect("a directory")).expect("room");
            std::fs::write(path, text).expect("room");
        };
        write("node/online", "0-1\n");
        write("node/node0/cpulist", "0,2\n");
        write("node/node1/cpulist", "1,3\n");
        write("cpu/isolated", "3\n");
        for (core, siblings) in [(0, "0,2"), (1, "1,3"), (2, "0,2"), (3, "1,3")] {
            write(&format!("cpu/cpu{core}/topology/thread_siblings_list"), siblings);
        }
        let read = Topology::read(&root, &[0, 2, 3]);
        let nothing = Topology::read(&root.join("nothing"), &[4]);
        std::fs::remove_dir_all(&root).expect("it is there");
        let core = |number, node, sibling, is_isolated| Core { number, node, sibling, is_isolated };
        assert_eq!(
            read.cores,
            [core(0, Some(0), 0, false), core(2, Some(0), 1, false), core(3, Some(1), 1, true),]
        );
        assert_eq!((read.node(3), read.node(1)), (Some(1), None));
        assert_eq!(nothing.cores, [core(4, None, 0, false)]);
    }

    #[test]
    fn lists_of_cores() {
        assert!(cores_of("1023").is_some() && cores_of("1024").is_none());
        assert!(named_cores("").is_err() && named_cores("2-1").is_err());
        let own = Topology::of_this_machine().cores[0].number;
        assert_eq!(named_cores(&own.to_string()), Ok(vec![own]));
        let error = named_cores("1000").expect_err("no such core");
        assert!(error.starts_with("core 1000 is not this process's"), "{error}");
        assert!(named_cores(&format!("{own},{own}")).is_err());
    }
}

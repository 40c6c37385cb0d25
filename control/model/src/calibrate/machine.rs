//! What the system says of this host, and the core that measurements are made on.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use thruway_element::text::numbers;
use thruway_packet::cycles;

use super::error::CalibrateError;
use super::statistics::Summary;

/// A cache that holds data, as a core sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    /// 1 for the first level.
    pub level: u32,
    /// Size.
    pub bytes: u64,
    /// Cores of this system that share it.
    pub cores: u32,
}

impl Cache {
    /// The part of it that a core can count on.
    pub fn share(&self) -> u64 {
        self.bytes / u64::from(self.cores.max(1))
    }
}

/// What is assumed where the system reports nothing of its caches: the smallest that servers of the
/// last ten years have.
const ASSUMED: [Cache; 3] = [
    Cache { level: 1, bytes: 32 << 10, cores: 1 },
    Cache { level: 2, bytes: 256 << 10, cores: 1 },
    Cache { level: 3, bytes: 8 << 20, cores: 4 },
];

/// This host.
#[derive(Debug, Clone)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// The processor's name.
    pub model: String,
    /// Cores that this process may use.
    pub cores: Vec<usize>,
    /// Sockets of these.
    pub sockets: u32,
    /// Nodes of memory.
    pub nodes: u32,
    /// From the first level on.
    pub caches: Vec<Cache>,
    /// Whether the caches are those of the system, or assumed.
    pub are_caches_known: bool,
    /// Bytes of memory, and of these free.
    pub memory: (u64, u64),
    /// Ticks of the time stamp counter in a second.
    pub clock_hz: Summary,
}

impl Machine {
    /// Binds this thread to a core (the highest, if none is named) and looks around; gives the core
    /// as well.
    ///
    /// # Errors
    /// When the thread cannot be bound, or there is no clock that counts cycles.
    pub fn pin(core: Option<usize>) -> Result<(Machine, usize), CalibrateError> {
        let cores = allowed();
        let choice = || cores.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let core = core.or(cores.last().copied()).unwrap_or(0);
        if !bind(core) {
            return Err(CalibrateError::NotBound { core, choice: choice() });
        }
        let clock_hz = clock(20)?;
        let system = Path::new("/sys/devices/system");
        let (caches, are_caches_known) = match caches(system, core) {
            found if found.is_empty() => (ASSUMED.to_vec(), false),
            found => (found, true),
        };
        let machine = Machine {
            name: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            model: model(&read(Path::new("/proc/cpuinfo"))),
            sockets: sockets(system, &cores),
            nodes: nodes(system),
            cores,
            caches,
            are_caches_known,
            memory: memory(&read(Path::new("/proc/meminfo"))),
            clock_hz,
        };
        Ok((machine, core))
    }

    /// Another core than this one, if possible not another thread of the same.
    pub fn neighbour(&self, core: usize) -> Option<usize> {
        let path = format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
        let same = list(&read(Path::new(&path)));
        let others = || self.cores.iter().copied().filter(|other| *other != core);
        others().find(|other| !same.contains(other)).or_else(|| others().next())
    }
}

/// The cores that the calling thread may use.
pub fn allowed() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect()
}

/// Binds the calling thread to a core; false when the system refuses.
pub fn bind(core: usize) -> bool {
    bind_to(&[core])
}

/// Binds the calling thread to some cores; false when the system refuses.
pub fn bind_to(cores: &[usize]) -> bool {
    if cores.iter().any(|core| *core >= CpuSet::MAX_CPU) {
        return false;
    }
    let mut set = CpuSet::new();
    cores.iter().for_each(|core| set.set(*core));
    sched_setaffinity(None, &set).is_ok()
}

/// A file of the system's, or nothing.
fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn model(info: &str) -> String {
    let line = info.lines().find(|line| line.starts_with("model name"));
    let name = line.and_then(|line| line.split_once(':')).map(|(_, name)| name.trim());
    name.unwrap_or("unknown processor").to_owned()
}

/// The caches for data of a core.
fn caches(system: &Path, core: usize) -> Vec<Cache> {
    let folder = system.join(format!("cpu/cpu{core}/cache"));
    let of = |index: u32| {
        let file = |name: &str| read(&folder.join(format!("index{index}/{name}")));
        let is_of_data = matches!(file("type").trim(), "Data" | "Unified");
        let level = file("level").trim().parse().ok().filter(|_| is_of_data)?;
        let cores = list(&file("shared_cpu_list")).len().max(1) as u32;
        Some(Cache { level, bytes: size(file("size").trim())?, cores })
    };
    let mut found: Vec<Cache> = (0..8).filter_map(of).collect();
    found.sort_by_key(|cache| cache.level);
    // Levels of which each is larger than the one before it: all that a description may have.
    found.dedup_by(|next, before| next.share() <= before.share());
    found
}

/// `48K`, `32M`.
fn size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(char::is_alphabetic);
    let unit = match &text[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit).filter(|size| *size > 0)
}

/// `0-3,8`; bounded by what a set of cores can hold.
fn list(text: &str) -> Vec<usize> {
    numbers(text.trim(), CpuSet::MAX_CPU).unwrap_or_default()
}

fn sockets(system: &Path, cores: &[usize]) -> u32 {
    let of =
        |core: &usize| read(&system.join(format!("cpu/cpu{core}/topology/physical_package_id")));
    let mut ids: Vec<String> = cores.iter().map(of).collect();
    ids.sort();
    ids.dedup();
    ids.len().max(1) as u32
}

fn nodes(system: &Path) -> u32 {
    list(&read(&system.join("node/has_memory"))).len().max(1) as u32
}

/// Bytes in all, and bytes that can be had.
fn memory(info: &str) -> (u64, u64) {
    let field = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kilobytes.unwrap_or(0).saturating_mul(1024)
    };
    (field("MemTotal:"), field("MemAvailable:"))
}

/// The time stamp counter against the system's clock, over stretches of so many milliseconds.
fn clock(milliseconds: u64) -> Result<Summary, CalibrateError> {
    let mut values = Vec::new();
    for _ in 0..9 {
        let (begin, first) = both_clocks();
        while begin.elapsed() < Duration::from_millis(milliseconds) {}
        let (end, last) = both_clocks();
        let ticks = last.wrapping_sub(first);
        if ticks == 0 {
            return Err(CalibrateError::NoClock);
        }
        values.push(ticks as f64 / (end - begin).as_secs_f64());
    }
    Ok(Summary::of(&values))
}

/// Both clocks at one time: of some tries the one with the least between.
fn both_clocks() -> (Instant, u64) {
    let once = || {
        let before = cycles();
        let now = Instant::now();
        let after = cycles();
        (after.wrapping_sub(before), (now, before + after.wrapping_sub(before) / 2))
    };
    let tries = (0..16).map(|_| once()).min_by_key(|(between, _)| *between);
    tries.unwrap_or_else(once).1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_are_read_as_the_system_tells_them() {
        let dir = tempfile::tempdir().unwrap();
        let put = |index: u32, [level, kind, size, cores]: [&str; 4]| {
            let folder = dir.path().join(format!("cpu/cpu3/cache/index{index}"));
            std::fs::create_dir_all(&folder).unwrap();
            for (name, text) in
                [("level", level), ("type", kind), ("size", size), ("shared_cpu_list", cores)]
            {
                std::fs::write(folder.join(name), format!("{text}\n")).unwrap();
            }
        };
        put(0, ["1", "Data", "48K", "3"]);
        put(1, ["1", "Instruction", "32K", "3"]);
        put(2, ["2", "Unified", "1024K", "3,11"]);
        put(3, ["3", "Unified", "32M", "0-7,16-23"]);
        let found = caches(dir.path(), 3);
        let reported: Vec<_> = found.iter().map(|it| (it.level, it.bytes, it.cores)).collect();
        assert_eq!(reported, [(1, 48 << 10, 1), (2, 1 << 20, 2), (3, 32 << 20, 16)]);
        assert_eq!(found[2].share(), 2 << 20);
        assert_eq!(caches(dir.path(), 4), [], "none are reported");
    }

    #[test]
    fn sizes_and_lists_of_the_system() {
        assert_eq!(["48K", "2M", "77", "", "9X", "K"].map(size), {
            [Some(48 << 10), Some(2 << 20), Some(77), None, None, None]
        });
        assert_eq!(list("0-2,5\n"), [0, 1, 2, 5]);
        assert_eq!(list(""), Vec::<usize>::new());
        assert!(list("0-99999999999").len() <= CpuSet::MAX_CPU + 1);
    }

    #[test]
    fn the_counter_ticks_as_long_as_the_clock_does() {
        let short = clock(2).unwrap().value;
        let long = clock(8).unwrap().value;
        assert!((short / long - 1.0).abs() < 0.01, "{short} and {long} ticks a second");
    }

    #[test]
    fn a_core_that_there_is_not_is_refused() {
        let refused = Machine::pin(Some(CpuSet::MAX_CPU)).unwrap_err().to_string();
        assert!(refused.contains("--core"), "{refused}");
    }
}

//! How long those that bring a function back waited for a processor, as the scheduler counts it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::schedstat::Schedstat;

/// The waits of those that bring a function back: this program's packet thread and supervisor, and
/// the process that takes the place.
pub struct Waits {
    tasks: Vec<(String, u64)>,
}

/// The supervisor of a function, and what starts its processes.
const KEEPERS: [&str; 2] = ["nf-keeper", "nf-spawner"];

impl Waits {
    /// As they are now. `function`: the one that is killed, which no longer counts.
    pub fn now(function: i32) -> Waits {
        let mut tasks = Vec::new();
        let mut add = |path: &Path| {
            let waited_ns = Schedstat::of(path).map_or(0, |task| task.waited_ns);
            tasks.push((path.display().to_string(), waited_ns));
        };
        let main = std::process::id().to_string();
        for entry in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
            let path = entry.path();
            let read = |name: &str| fs::read_to_string(path.join(name)).unwrap_or_default();
            if entry.file_name() != *main && !KEEPERS.contains(&read("comm").trim_end()) {
                continue;
            }
            add(&path);
            let children = read("children");
            let others = children.split_whitespace().filter(|child| *child != function.to_string());
            others.for_each(|child| add(&Path::new("/proc").join(child)));
        }
        Waits { tasks }
    }

    /// The sum of what has been waited since `before`, by those that were there then.
    pub fn since(&self, before: &Waits) -> Duration {
        let of = |name: &str| before.tasks.iter().find(|(other, _)| other == name);
        let own = self.tasks.iter();
        let sum = own.filter_map(|(name, ns)| Some(ns.saturating_sub(of(name)?.1))).sum();
        Duration::from_nanos(sum)
    }
}

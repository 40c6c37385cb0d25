//! Control groups: CPU time, memory and processes, where this process may make groups.
//!
//! Version 2 is preferred. Of version 1, "cpu" and "pids" are used; memory is not: a group of its
//! own would only repeat what the limit to the address space of one process says.

use super::Limits;
use super::measure::{Measure, Outcome, SandboxReport};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Once;

/// The period in which a share of CPU time is counted, in microseconds: short, so that a function
/// that has used its share waits no longer than packets can.
const PERIOD_US: u64 = 10_000;

/// How the names of functions' groups begin; the process's number follows.
const PREFIX: &str = "thruway-nf-";

/// Removes groups that killed hosts left behind: empty ones, of processes that are gone.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            // The kernel refuses if a process is in it after all.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Where this process may make groups.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hierarchies {
    /// Directories of version 2 in which a group may be made, the best first.
    unified: Vec<PathBuf>,
    cpu: Option<PathBuf>,
    pids: Option<PathBuf>,
}

impl Hierarchies {
    /// Looks for them in this process's groups and mounts.
    pub fn of_this_process() -> Hierarchies {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        Hierarchies::parse(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"))
    }

    /// Every directory in which groups may be made.
    fn parents(&self) -> impl Iterator<Item = &Path> {
        self.unified.iter().chain(&self.cpu).chain(&self.pids).map(PathBuf::as_path)
    }

    /// Formats: cgroups(7) "hierarchy-ID:controller-list:cgroup-path", proc(5) "mountinfo".
    fn parse(groups: &str, mounts: &str) -> Hierarchies {
        let mut found = Hierarchies::default();
        for line in groups.lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else { continue };
            let relative_path = |kind: &str, controller: &str| {
                let (root, point) = mount_of(mounts, kind, controller)?;
                let within = Path::new(group).strip_prefix(root).ok()?;
                Some((PathBuf::from(point), Path::new(point).join(within)))
            };
            let has = |name: &str| controllers.split(',').any(|one| one == name);
            if controllers.is_empty() {
                let Some((point, own)) = relative_path("cgroup2", "") else { continue };
                // In a unit with DelegateSubgroup, groups are made beside this process's own.
                let dirs = own.ancestors().take(2).filter(|dir| dir.starts_with(&point));
                found.unified = dirs.map(Into::into).collect();
            } else if has("cpu") {
                found.cpu = relative_path("cgroup", "cpu").map(|(_, own)| own);
            } else if has("pids") {
                found.pids = relative_path("cgroup", "pids").map(|(_, own)| own);
            }
        }
        found
    }
}

/// Root and mount point of the hierarchy with a controller.
fn mount_of<'m>(mounts: &'m str, kind: &str, controller: &str) -> Option<(&'m str, &'m str)> {
    mounts.lines().find_map(|line| {
        let (relative_path, about) = line.split_once(" - ")?;
        let mut about = about.split(' ');
        let is_kind = about.next() == Some(kind);
        let options = about.nth(1).unwrap_or("");
        if !is_kind || !(controller.is_empty() || options.split(',').any(|o| o == controller)) {
            return None;
        }
        let mut relative_path = relative_path.split(' ').skip(3);
        Some((relative_path.next()?, relative_path.next()?))
    })
}

/// The groups of one function; removed on drop, when its process has been waited for.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    dirs: Vec<PathBuf>,
}

impl Groups {
    /// Makes groups for a process that was just made and still waits, and puts it into them. What
    /// cannot be done is noted in the report.
    pub fn confine(
        hierarchies: &Hierarchies,
        limits: &Limits,
        pid: i32,
        report: &mut SandboxReport,
    ) -> Groups {
        static SWEPT: Once = Once::new();
        SWEPT.call_once(|| hierarchies.parents().for_each(sweep));
        let mut groups = Groups::default();
        let name = format!("{PREFIX}{pid}");
        for (measure, settings) in settings(limits) {
            let outcome = match groups.apply(hierarchies, measure, &name, &settings) {
                Ok(()) => Outcome::Applied,
                Err(why) => Outcome::Missing(why),
            };
            report.set(measure, outcome);
        }
        for dir in groups.dirs.clone() {
            if let Err(error) = fs::write(dir.join("cgroup.procs"), pid.to_string()) {
                let why = format!("joining {}: {error}", dir.display());
                for (measure, _) in settings(limits) {
                    report.set(measure, Outcome::Missing(why.clone()));
                }
            }
        }
        weigh_by_nice(limits, pid, report);
        groups
    }

    fn apply(
        &mut self,
        hierarchies: &Hierarchies,
        measure: Measure,
        name: &str,
        settings: &Settings,
    ) -> Result<(), String> {
        let mut why = None;
        for parent in &hierarchies.unified {
            match enable(parent, settings.controller) {
                Ok(()) => return self.write(&parent.join(name), &settings.unified),
                Err(error) => {
                    let told =
                        || format!("{} in {}: {error}", settings.controller, parent.display());
                    why.get_or_insert_with(told);
                }
            }
        }
        let why = why.unwrap_or_else(|| "no control groups of version 2 are mounted".to_owned());
        let old = match measure {
            Measure::CgroupCpu => &hierarchies.cpu,
            Measure::CgroupPids => &hierarchies.pids,
            _ => {
                return Err(format!("{why}; the limit to its address space holds"));
            }
        };
        let parent = old.as_ref().ok_or(why)?;
        self.write(&parent.join(name), &settings.old)
    }

    fn write(&mut self, dir: &Path, files: &[(&'static str, String)]) -> Result<(), String> {
        let told = |what: &str, error: io::Error| format!("{}{what}: {error}", dir.display());
        if !self.dirs.iter().any(|one| one == dir) {
            // One that a killed host left, of a process with the same number.
            let _ = fs::remove_dir(dir);
            fs::create_dir(dir).map_err(|error| told("", error))?;
            self.dirs.push(dir.into());
        }
        for (file, value) in files {
            fs::write(dir.join(file), value).map_err(|error| told(&format!("/{file}"), error))?;
        }
        Ok(())
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for dir in &self.dirs {
            // Nothing can be done about an error; an empty group costs next to nothing.
            let _ = fs::remove_dir(dir);
        }
    }
}

struct Settings {
    controller: &'static str,
    unified: Vec<(&'static str, String)>,
    old: Vec<(&'static str, String)>,
}

/// What each measure writes; kernel documentation, admin-guide/cgroup-v2 and cgroup-v1.
fn settings(limits: &Limits) -> Vec<(Measure, Settings)> {
    let mut all = Vec::new();
    if let Some(cpu) = cpu_settings(limits) {
        all.push((Measure::CgroupCpu, cpu));
    }
    let memory = limits.address_space().to_string();
    all.push((
        Measure::CgroupMemory,
        Settings { controller: "memory", unified: vec![("memory.max", memory)], old: Vec::new() },
    ));
    let threads = vec![("pids.max", limits.threads.to_string())];
    all.push((
        Measure::CgroupPids,
        Settings { controller: "pids", unified: threads.clone(), old: threads },
    ));
    all
}

/// Quota and weight of CPU time, if either was asked for.
fn cpu_settings(limits: &Limits) -> Option<Settings> {
    let mut cpu = Settings { controller: "cpu", unified: Vec::new(), old: Vec::new() };
    if let Some(percent) = limits.cpu_percent {
        let quota = u64::from(percent) * PERIOD_US / 100;
        cpu.unified.push(("cpu.max", format!("{quota} {PERIOD_US}")));
        cpu.old.push(("cpu.cfs_period_us", PERIOD_US.to_string()));
        cpu.old.push(("cpu.cfs_quota_us", quota.to_string()));
    }
    if let Some(weight) = limits.cpu_weight {
        cpu.unified.push(("cpu.weight", weight.to_string()));
        // 1,024 shares are what a weight of 100 is, and 2 the fewest.
        let shares = (u64::from(weight) * 1024 / 100).max(2);
        cpu.old.push(("cpu.shares", shares.to_string()));
    }
    (!cpu.unified.is_empty()).then_some(cpu)
}

/// The nice value that comes closest to a weight: each step is a quarter more or less (sched(7)).
fn nice_of(weight: u32) -> i32 {
    let steps = (f64::from(weight) / 100.0).ln() / 1.25_f64.ln();
    (-steps.round() as i32).clamp(-20, 19)
}

/// Where no control group has a weight, the scheduler's own takes its place.
fn weigh_by_nice(limits: &Limits, pid: i32, report: &mut SandboxReport) {
    let Some(weight) = limits.cpu_weight.filter(|_| report.is_missing(Measure::CgroupCpu)) else {
        return;
    };
    let nice = nice_of(weight);
    match rustix::process::setpriority_process(rustix::process::Pid::from_raw(pid), nice) {
        Ok(()) => report.note(format!("CPU weight by nice {nice}, for want of a control group")),
        Err(error) => {
            report.note(format!("no CPU weight: neither control group nor nice: {error}"))
        }
    }
}

/// Makes a controller of version 2 available to groups within `parent`.
fn enable(parent: &Path, controller: &str) -> io::Result<()> {
    let lists = |file: &str| -> io::Result<bool> {
        Ok(fs::read_to_string(parent.join(file))?.split_whitespace().any(|one| one == controller))
    };
    if lists("cgroup.subtree_control")? {
        return Ok(());
    }
    if !lists("cgroup.controllers")? {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the controller is not there"));
    }
    fs::write(parent.join("cgroup.subtree_control"), format!("+{controller}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "38 27 0:35 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids\n\
                          41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
                          42 31 0:39 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n";

    #[test]
    fn version_1_and_2_are_found_together() {
        let found = Hierarchies::parse("3:cpu,cpuacct:/\n8:pids:/a\n0::/b/c\n", HYBRID);
        let dirs: Vec<PathBuf> =
            ["/sys/fs/cgroup/unified/b/c", "/sys/fs/cgroup/unified/b"].map(Into::into).into();
        assert_eq!(found.unified, dirs);
        assert_eq!(found.pids, Some("/sys/fs/cgroup/pids/a".into()));
        assert_eq!(found.cpu, Some("/sys/fs/cgroup/cpu/".into()));
    }

    #[test]
    fn quota_and_weight_are_one_measure() {
        let limits =
            |cpu_percent, cpu_weight| Limits { cpu_percent, cpu_weight, ..Limits::default() };
        assert!(cpu_settings(&limits(None, None)).is_none());
        let both = cpu_settings(&limits(Some(50), Some(300))).expect("settings");
        let of = |files: &[(&str, String)]| -> Vec<String> {
            files.iter().map(|(file, value)| format!("{file} {value}")).collect()
        };
        assert_eq!(of(&both.unified), ["cpu.max 5000 10000", "cpu.weight 300"]);
        let old = ["cpu.cfs_period_us 10000", "cpu.cfs_quota_us 5000", "cpu.shares 3072"];
        assert_eq!(of(&both.old), old);
        let least = cpu_settings(&limits(None, Some(1))).expect("settings");
        assert_eq!(of(&least.old), ["cpu.shares 10"]);
    }

    #[test]
    fn nice_values_stand_for_weights() {
        let all = [(100, 0), (125, -1), (80, 1), (1000, -10), (1, 19), (10_000, -20)];
        for (weight, nice) in all {
            assert_eq!(nice_of(weight), nice, "{weight}");
        }
    }

    #[test]
    fn only_groups_of_processes_that_are_gone_are_swept() {
        let dir = tempfile::tempdir().unwrap();
        let own = format!("{PREFIX}{}", std::process::id());
        // No process has this number: the kernel's limit is lower.
        let gone = format!("{PREFIX}4194305");
        for name in [&*own, &*gone, "thruway-nf-x", "other-4194305"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        sweep(dir.path());
        let mut left: Vec<String> = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        let mut wanted = vec!["other-4194305".to_owned(), own, "thruway-nf-x".to_owned()];
        wanted.sort();
        assert_eq!(left, wanted);
    }

    #[test]
    fn a_group_outside_the_mount_s_root_is_not_reachable() {
        let mounts = "9 1 0:3 /docker/x /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert!(Hierarchies::parse("0::/other", mounts).unified.is_empty());
        assert!(
            Hierarchies::parse("0::/docker/x", mounts).unified[0] == Path::new("/sys/fs/cgroup")
        );
        assert!(Hierarchies::parse("nonsense\n:\n0::", "x - y").unified.is_empty());
    }
}

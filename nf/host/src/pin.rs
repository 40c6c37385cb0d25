//! Workers of one function on CPUs of their own.
//!
//! The filter lets no function choose its CPUs: they are what CPUS limits. So the host pins the
//! threads, which it finds by the names that the library gives them. One that names its threads
//! otherwise chooses among its own threads and its own CPUs, as if it had none pinned.

use std::path::Path;

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

/// Pins the Workers of a process, by their numbers, to these CPUs in turn. What the system refuses
/// is one line for people.
pub(crate) fn workers(pid: i32, workers: u32, cpus: &[usize]) -> Result<(), String> {
    if workers < 2 || cpus.is_empty() {
        return Ok(());
    }
    let tasks = Path::new("/proc").join(pid.to_string()).join("task");
    let threads = std::fs::read_dir(&tasks).map_err(|error| error.to_string())?;
    for thread in threads.flatten() {
        let number = thread.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(thread_pid) = number.and_then(Pid::from_raw) else { continue };
        let name = std::fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
        let Some(worker) = worker_of(thread_pid.as_raw_nonzero().get() == pid, &name) else {
            continue;
        };
        let (cpu, mut one) = (cpus[worker % cpus.len()], CpuSet::new());
        // Checked when the process was started.
        one.set(cpu);
        sched_setaffinity(Some(thread_pid), &one)
            .map_err(|error| format!("Worker {worker} to CPU {cpu}: {error}"))?;
    }
    Ok(())
}

/// The Worker that a thread of this name is. The first one is the process's first thread.
fn worker_of(is_first: bool, name: &str) -> Option<usize> {
    if is_first { Some(0) } else { name.trim_end().strip_prefix("worker-")?.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_known_by_their_names() {
        assert_eq!(worker_of(true, "flowcount\n"), Some(0));
        assert_eq!(worker_of(false, "worker-12\n"), Some(12));
        for other in ["flowcount\n", "worker-", "worker-x", "worker-99999999999999999999", ""] {
            assert_eq!(worker_of(false, other), None, "{other}");
        }
    }

    #[test]
    fn threads_of_a_process_get_a_cpu_each() {
        let pid = std::process::id().cast_signed();
        let cpus: Vec<usize> = {
            let all = rustix::thread::sched_getaffinity(None).expect("its own");
            (0..1024).filter(|cpu| all.is_set(*cpu)).collect()
        };
        let (go, may_go) = std::sync::mpsc::channel::<()>();
        let (begin, has_begun) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name("worker-1".into()).spawn(move || {
            // It has its name now.
            let _ = begin.send(());
            let _ = may_go.recv();
            rustix::thread::sched_getaffinity(None).map(|all| all.count())
        });
        has_begun.recv().expect("it began");
        let first = rustix::thread::sched_getaffinity(Pid::from_raw(pid)).expect("its first");
        workers(pid, 2, &[cpus[0]]).expect("pinned");
        // As it was, for the other tests.
        sched_setaffinity(Pid::from_raw(pid), &first).expect("as it was");
        go.send(()).expect("it waits");
        assert_eq!(thread.expect("started").join().expect("ended"), Ok(1));
        assert!(workers(i32::MAX, 2, &[0]).is_err());
        assert_eq!(workers(i32::MAX, 1, &[0]), Ok(()));
    }
}

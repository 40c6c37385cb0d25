//! What the kernel's scheduler counts of a thread or a process.

use std::path::Path;

/// The first two numbers of `schedstat`, nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct Schedstat {
    /// It ran on a processor.
    pub ran_ns: u64,
    /// It could have run, and waited for a processor.
    pub waited_ns: u64,
}

impl Schedstat {
    /// Of a task, by its folder under `/proc`; `None` once it has ended.
    pub fn of(task: &Path) -> Option<Schedstat> {
        let text = std::fs::read_to_string(task.join("schedstat")).ok()?;
        let mut numbers = text.split(' ').map_while(|word| word.parse().ok());
        Some(Schedstat { ran_ns: numbers.next()?, waited_ns: numbers.next()? })
    }
}

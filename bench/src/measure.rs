//! One measurement: CPU time, wall time, cycles, and what counters the machine gives.

use rustix::time::{ClockId, clock_gettime};
use thruway_packet::cycles;

use super::counters::Counters;

/// Times the part of a run that counts.
pub struct Meter {
    counters: Counters,
    usage: Usage,
}

/// What a run cost.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// CPU time of the thread, nanoseconds.
    pub cpu_ns: u64,
    /// Wall-clock time, nanoseconds.
    pub wall_ns: u64,
    /// Ticks of the time stamp counter in the wall-clock time.
    pub ticks: u64,
    /// Retired instructions.
    pub instructions: Option<u64>,
    /// Misses of the last-level cache.
    pub cache_misses: Option<u64>,
}

/// A clock in nanoseconds.
pub fn read_clock(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    // Both clocks count up from zero.
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl Meter {
    /// Asks the machine for its counters.
    pub fn new() -> Meter {
        Meter { counters: Counters::open(), usage: Usage::default() }
    }

    /// Why there are no hardware counters, if there are none.
    pub fn without_counters(&self) -> Option<&str> {
        self.counters.missing()
    }

    /// Does `work` and adds what it cost to the run.
    pub fn time<T>(&mut self, work: impl FnOnce() -> T) -> T {
        self.counters.start();
        let wall = read_clock(ClockId::Monotonic);
        let cpu = read_clock(ClockId::ThreadCPUTime);
        let ticks = cycles();
        let result = work();
        self.usage.ticks += cycles().wrapping_sub(ticks);
        self.usage.cpu_ns += read_clock(ClockId::ThreadCPUTime).saturating_sub(cpu);
        self.usage.wall_ns += read_clock(ClockId::Monotonic).saturating_sub(wall);
        let (instructions, misses) = self.counters.stop();
        add(&mut self.usage.instructions, instructions);
        add(&mut self.usage.cache_misses, misses);
        result
    }

    /// Adds what other processes took of the same run: their processor time.
    pub fn add_cpu(&mut self, ns: u64) {
        self.usage.cpu_ns += ns;
    }

    /// Takes what the run cost, for the next to begin at nothing.
    pub fn take(&mut self) -> Usage {
        std::mem::take(&mut self.usage)
    }
}

fn add(sum: &mut Option<u64>, more: Option<u64>) {
    if let Some(more) = more {
        *sum = Some(sum.unwrap_or(0) + more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_work_and_wall_time_is_time() {
        let mut meter = Meter::new();
        meter.time(|| std::thread::sleep(std::time::Duration::from_millis(30)));
        let slept = meter.take();
        assert!(slept.wall_ns >= 30_000_000, "{slept:?}");
        assert!(slept.cpu_ns < slept.wall_ns / 2, "{slept:?}");
        let sum = meter.time(|| (0..20_000_000_u64).fold(0, |a, b| std::hint::black_box(a ^ b)));
        let worked = meter.take();
        assert!(worked.cpu_ns > 1_000_000 && worked.wall_ns + 1_000_000 >= worked.cpu_ns, "{sum}");
        assert_eq!(meter.take(), Usage::default());
    }
}

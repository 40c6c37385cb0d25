//! What the machine itself gives: no exchange between two cores can do better.

use std::hint::spin_loop;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use thruway_region::{Pages, Region, SharedBytes};
use thruway_sync::atomic::{AtomicU32, Ordering};

use super::workers::Cores;
use crate::machine;
use crate::row::median;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Lines of the ring that is streamed through: as many as a ring has slots.
const LINES: u32 = 1024;

/// Lines between two publications.
const BATCH: u32 = 32;

/// Bytes before the lines: the two words that count them, each on lines of its own.
const HEAD: usize = 256;

/// Times that each bound is measured; the result is the median.
const REPEAT: usize = 5;

/// What was measured.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// A line to the other core and back, nanoseconds.
    pub round_trip_ns: f64,
    /// Lines of 64 bytes per second that one core writes and another reads, through a ring.
    pub lines: f64,
    /// Bytes per second that one core copies within its second-level cache.
    pub copy_near: f64,
    /// Bytes per second that one core copies between buffers larger than its caches.
    pub copy_far: f64,
}

impl Bounds {
    /// Measures, for about so long each.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn measure(cores: &Cores, time: Duration) -> anyhow::Result<Bounds> {
        let ends = [cores.master(), cores.worker(0, 1)];
        let time = time / REPEAT as u32;
        let mut all: [Vec<f64>; 4] = Default::default();
        for _ in 0..REPEAT {
            all[0].push(round_trip_ns(ends, time)?);
            all[1].push(lines(ends, time)?);
            all[2].push(copy(256 << 10, time));
            all[3].push(copy(256 << 20, time));
        }
        let [round_trip_ns, lines, copy_near, copy_far] = all.map(median);
        Ok(Bounds { round_trip_ns, lines, copy_near, copy_far })
    }

    /// For people.
    pub fn text(&self) -> String {
        format!(
            "this machine: a line to the other core and back {:.0} ns; lines written on one core and \
             read on the other {:.1} M/s\n  (64 B and a quarter of a line of heads per packet: at \
             most {:.1} Mpps); copies {:.1} GB/s in cache, {:.1} GB/s in memory\n",
            self.round_trip_ns,
            self.lines / 1e6,
            self.lines / 1.25e6,
            self.copy_near / 1e9,
            self.copy_far / 1e9
        )
    }
}

/// Words and lines that two cores share.
struct Shared(Region);

impl Shared {
    fn new() -> anyhow::Result<Shared> {
        Ok(Shared(Region::new(HEAD + LINE * LINES as usize, Pages::Normal)?))
    }

    fn word(&self, nth: usize) -> &AtomicU32 {
        self.0.word(128 * nth).expect("one of the two words")
    }

    fn line(&self, nth: u32) -> SharedBytes<'_> {
        self.0.bytes(HEAD + LINE * (nth % LINES) as usize, LINE).expect("a line")
    }
}

/// Runs `far` on the second core while `near` runs on the first; gives the seconds of `near`.
fn both(ends: [Option<usize>; 2], near: impl FnOnce(), far: impl FnOnce() + Send) -> f64 {
    let bind = |core: Option<usize>| core.is_some_and(machine::bind);
    // A new thread starts on its creator's core: if the creator spins there, it cannot leave.
    let start = &Barrier::new(2);
    std::thread::scope(|scope| {
        let far = scope.spawn(move || {
            bind(ends[1]);
            start.wait();
            far();
        });
        bind(ends[0]);
        start.wait();
        let begin = Instant::now();
        near();
        let seconds = begin.elapsed().as_secs_f64();
        // A panic there would have left `near` waiting for ever.
        let _ = far.join();
        seconds
    })
}

/// Said by the near side when time is over.
const END: u32 = u32::MAX;

/// A word that two cores write in turn.
fn round_trip_ns(ends: [Option<usize>; 2], time: Duration) -> anyhow::Result<f64> {
    let shared = Shared::new()?;
    let mut trips = 0_u32;
    let near = || {
        let begin = Instant::now();
        while begin.elapsed() < time {
            for _ in 0..100 {
                trips += 1;
                shared.word(0).store(trips, Ordering::Release);
                while shared.word(1).load(Ordering::Acquire) != trips {
                    spin_loop();
                }
            }
        }
        shared.word(0).store(END, Ordering::Release);
    };
    let far = || {
        let mut seen = 0;
        loop {
            let trip = shared.word(0).load(Ordering::Acquire);
            if trip == END {
                return;
            }
            if trip != seen {
                seen = trip;
                shared.word(1).store(trip, Ordering::Release);
            }
            spin_loop();
        }
    };
    let seconds = both(ends, near, far);
    Ok(seconds * 1e9 / f64::from(trips.max(1)))
}

/// Lines written on one core and read on the other, around a ring.
fn lines(ends: [Option<usize>; 2], time: Duration) -> anyhow::Result<f64> {
    let shared = Shared::new()?;
    let mut written = 0_u32;
    let near = || {
        let begin = Instant::now();
        let bytes = [7; LINE];
        while begin.elapsed() < time {
            for _ in 0..64 {
                while written.wrapping_sub(shared.word(1).load(Ordering::Acquire)) > LINES - BATCH {
                    spin_loop();
                }
                for _ in 0..BATCH {
                    shared.line(written.wrapping_add(BATCH)).prefetch_write();
                    shared.line(written).copy_from(&bytes);
                    written = written.wrapping_add(1);
                }
                shared.word(0).store(written, Ordering::Release);
            }
        }
        shared.word(0).store(written | 1, Ordering::Release);
    };
    // The count is a multiple of the batch, so an odd one means the end.
    let far = || {
        let mut read = 0_u32;
        let mut bytes = [0; LINE];
        loop {
            let limit = shared.word(0).load(Ordering::Acquire);
            if limit & 1 == 1 {
                return;
            }
            while read != limit {
                shared.line(read).copy_to(&mut bytes);
                read = read.wrapping_add(1);
                if read.is_multiple_of(BATCH) {
                    shared.word(1).store(read, Ordering::Release);
                }
            }
            std::hint::black_box(&bytes);
            spin_loop();
        }
    };
    let seconds = both(ends, near, far);
    Ok(f64::from(written) / seconds)
}

/// Bytes per second that this core copies from one half of so many bytes to the other.
fn copy(len: usize, time: Duration) -> f64 {
    let mut bytes = vec![1_u8; len];
    let (from, to) = bytes.split_at_mut(len / 2);
    let (begin, mut copied) = (Instant::now(), 0);
    while copied == 0 || begin.elapsed() < time {
        to.copy_from_slice(from);
        std::hint::black_box(&to);
        copied += from.len();
    }
    copied as f64 / begin.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_numbers_of_a_machine() {
        let bounds = Bounds::measure(&Cores::allowed(), Duration::from_millis(5)).expect("memory");
        assert!(bounds.round_trip_ns > 1.0 && bounds.lines > 1.0, "{bounds:?}");
        assert!(bounds.copy_near > 1e6 && bounds.copy_far > 1e6, "{bounds:?}");
        assert!(bounds.text().contains("Mpps"));
    }
}

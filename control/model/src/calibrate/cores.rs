//! What moves from one core to another: lines, wake-ups; and what all cores together get of memory.

use std::hint::{black_box, spin_loop};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use rustix::thread::futex;
use thruway_packet::cycles;
use thruway_sync::CachePadded;
use thruway_sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use super::machine::bind;
use super::memory::{Field, LINE};
use super::statistics::Summary;

/// How long a thread is let alone before it is woken: it sleeps by then.
const SLEEP: Duration = Duration::from_micros(150);

/// What is measured between two cores: round by round.
#[derive(Debug, Default)]
pub struct Between {
    /// Cycles until a line written here is read there.
    pub line: Vec<f64>,
    /// Cycles that waking costs the waking thread.
    pub wake: Vec<f64>,
    /// Cycles from then until the woken thread runs.
    pub woken: Vec<f64>,
}

/// Words that two cores write, each on a line of its own.
#[derive(Default)]
struct PingPong {
    ball: CachePadded<AtomicU32>,
    is_over: CachePadded<AtomicBool>,
    bell: CachePadded<AtomicU32>,
    awake: CachePadded<AtomicU64>,
}

impl Between {
    /// Measures between the calling thread's core and another: `turns` of the line and a hundredth
    /// as many wake-ups in each round.
    pub fn measure(other: usize, rounds: usize, turns: u32) -> Between {
        let mut between = Between::default();
        between.lines(other, rounds, turns);
        between.wakes(other, rounds, turns.div_ceil(100));
        between
    }

    fn lines(&mut self, other: usize, rounds: usize, turns: u32) {
        let ping_pong = PingPong::default();
        let start = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                bind(other);
                start.wait();
                ping_pong.return_balls();
            });
            start.wait();
            for _ in 0..rounds {
                // Of some stretches the shortest: a core that is taken away for a while keeps the
                // other one waiting.
                let stretch = || ping_pong.play(turns.div_ceil(5));
                self.line.push((0..5).map(|_| stretch()).fold(f64::INFINITY, f64::min));
            }
            ping_pong.is_over.0.store(true, Ordering::Release);
        });
    }

    fn wakes(&mut self, other: usize, rounds: usize, wakes: u32) {
        let ping_pong = PingPong::default();
        let start = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                bind(other);
                start.wait();
                ping_pong.sleep_again_and_again();
            });
            start.wait();
            for _ in 0..rounds {
                let (mut wake, mut woken) = (Vec::new(), Vec::new());
                for _ in 0..wakes {
                    let (own, until) = ping_pong.ring();
                    wake.push(own);
                    woken.push(until);
                }
                self.wake.push(Summary::of(&wake).value);
                self.woken.push(Summary::of(&woken).value);
            }
            ping_pong.is_over.0.store(true, Ordering::Release);
            // Nobody waits for an answer: the sleeper may have seen already that it is over.
            ping_pong.wake();
        });
    }
}

impl PingPong {
    /// Makes each odd ball even, until it is over.
    fn return_balls(&self) {
        while !self.is_over.0.load(Ordering::Acquire) {
            // The other's turns come in thousands; in between looking for the end is no loss.
            for _ in 0..1000 {
                let ball = self.ball.0.load(Ordering::Acquire);
                if ball % 2 == 1 {
                    self.ball.0.store(ball.wrapping_add(1), Ordering::Release);
                } else {
                    spin_loop();
                }
            }
        }
    }

    /// Cycles of one direction, over this number of round trips.
    fn play(&self, turns: u32) -> f64 {
        let mut ball = self.ball.0.load(Ordering::Relaxed);
        let begin = cycles();
        for _ in 0..turns {
            self.ball.0.store(ball.wrapping_add(1), Ordering::Release);
            ball = ball.wrapping_add(2);
            while self.ball.0.load(Ordering::Acquire) != ball {
                spin_loop();
            }
        }
        cycles().wrapping_sub(begin) as f64 / f64::from(turns) / 2.0
    }

    /// Sleeps on the bell; publishes when it woke; until it is over.
    fn sleep_again_and_again(&self) {
        let mut heard = 0;
        while !self.is_over.0.load(Ordering::Acquire) {
            // Interrupted, or rung already: it checks again in both cases.
            let _ = futex::wait(&self.bell.0, futex::Flags::PRIVATE, heard, None);
            let now = cycles();
            let rung = self.bell.0.load(Ordering::Acquire);
            if rung != heard {
                heard = rung;
                self.awake.0.store(now.max(1), Ordering::Release);
            }
        }
    }

    fn wake(&self) {
        self.bell.0.fetch_add(1, Ordering::Release);
        let _ = futex::wake(&self.bell.0, futex::Flags::PRIVATE, 1);
    }

    /// Wakes the sleeper: cycles that it took here, and cycles until it ran there.
    fn ring(&self) -> (f64, f64) {
        let patience = Instant::now();
        while patience.elapsed() < SLEEP {
            spin_loop();
        }
        self.awake.0.store(0, Ordering::Release);
        let begin = cycles();
        self.wake();
        let own = cycles().wrapping_sub(begin);
        let woken = loop {
            match self.awake.0.load(Ordering::Acquire) {
                0 => spin_loop(),
                woken => break woken,
            }
        };
        (own as f64, woken.saturating_sub(begin) as f64)
    }
}

/// Bytes a second that these cores read together, line after line, each through so many bytes of
/// its own, over and over for some time.
pub fn bandwidth(cores: &[usize], bytes: usize, time: Duration) -> f64 {
    let start = Barrier::new(cores.len());
    let read = |core: usize| {
        bind(core);
        let mut field = Field::heap(bytes);
        field.warm();
        start.wait();
        let begin = Instant::now();
        let mut lines = 0;
        while begin.elapsed() < time {
            black_box(field.stream(4096));
            lines += 4096;
        }
        (lines * LINE) as f64 / begin.elapsed().as_secs_f64()
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = cores.iter().map(|core| scope.spawn(|| read(*core))).collect();
        // A reader that panicked has read nothing.
        threads.into_iter().map(|thread| thread.join().unwrap_or(0.0)).sum()
    })
}

#[cfg(test)]
mod tests {
    use super::super::machine::allowed;
    use super::*;

    #[test]
    fn lines_and_wakes_take_time_and_end() {
        let Some(other) = allowed().first().copied() else { return };
        // Even on one core, where each ball costs a turn of the scheduler, it ends.
        let between = Between::measure(other, 2, 200);
        for values in [&between.line, &between.wake, &between.woken] {
            assert_eq!(values.len(), 2);
            assert!(values.iter().all(|value| *value > 0.0 && value.is_finite()), "{between:?}");
        }
    }

    #[test]
    fn bytes_are_read_on_every_core() {
        let cores = allowed();
        let rate = bandwidth(&cores, 1 << 20, Duration::from_millis(5));
        // The slowest memory of the last twenty years gives 100 MB/s, even in a debug build.
        assert!(rate > 1e8, "{rate} bytes a second");
    }
}

//! The Worker's side: its loop over any of the three transports.

use std::time::{Duration, Instant};

use thruway_bench_baseline::{PairWorker, PointerWorker};
use thruway_exchange::{Control, FutexWaiter, Rest, Storage, Worker, rest};
use thruway_nf_abi::control::{DRAIN, Figure};
use thruway_random::Random;

use super::duty::{Duty, Wait, Work};
use super::source::signature;

/// Counter of a Worker's control region: packets it worked on.
pub const PACKETS: u32 = 0;
/// Counter of a Worker's control region: sum of what it computed.
pub const RESULT: u32 = 1;
/// Their names.
pub const COUNTERS: [&str; 2] = ["packets", "result"];

/// Looks at the ring between two looks at the clock, while spinning.
const LOOKS: u32 = 64;

/// A Worker's end of any transport.
pub trait End {
    /// Packets to work on; reads the shared index when it knows of none.
    fn waiting(&mut self) -> u32;
    /// The same, with the index read afresh.
    fn has_work(&mut self) -> bool;
    /// Does the work on the first `n` waiting packets.
    fn work(&mut self, n: u32, bench: &mut Bench);
    /// Is done with the first `n`.
    fn advance(&mut self, n: u32);
    /// Publishes all it is done with.
    fn flush(&mut self);
}

impl<S: Storage> End for Worker<S> {
    #[inline]
    fn waiting(&mut self) -> u32 {
        Worker::waiting(self)
    }

    #[inline]
    fn has_work(&mut self) -> bool {
        Worker::has_work(self)
    }

    #[inline]
    fn work(&mut self, n: u32, bench: &mut Bench) {
        if matches!(bench.work, Work::Dummy) {
            return;
        }
        let ahead = Worker::<S>::AHEAD;
        for nth in 0..n {
            self.prefetch(nth + ahead);
            let head = self.head(nth);
            let (start, len) = (usize::from(head.start), usize::from(head.len));
            if let Some(packet) = self.frame(nth, &head).get(start..start + len) {
                bench.handle(packet);
            }
        }
    }

    #[inline]
    fn advance(&mut self, n: u32) {
        Worker::advance(self, n);
    }

    fn flush(&mut self) {
        // The Master of this bench never sleeps.
        let _ = Worker::flush(self);
    }
}

impl End for PairWorker {
    #[inline]
    fn waiting(&mut self) -> u32 {
        PairWorker::waiting(self)
    }

    #[inline]
    fn has_work(&mut self) -> bool {
        PairWorker::has_work(self)
    }

    #[inline]
    fn work(&mut self, n: u32, bench: &mut Bench) {
        PairWorker::work(self, n, |packet| bench.handle(packet));
    }

    #[inline]
    fn advance(&mut self, n: u32) {
        PairWorker::advance(self, n);
    }

    fn flush(&mut self) {
        PairWorker::flush(self);
    }
}

impl End for PointerWorker {
    #[inline]
    fn waiting(&mut self) -> u32 {
        PointerWorker::waiting(self)
    }

    #[inline]
    fn has_work(&mut self) -> bool {
        PointerWorker::has_work(self)
    }

    #[inline]
    fn work(&mut self, n: u32, bench: &mut Bench) {
        let touches = !matches!(bench.work, Work::Dummy);
        PointerWorker::work(self, n, touches.then_some(|packet: &mut [u8]| bench.handle(packet)));
    }

    #[inline]
    fn advance(&mut self, n: u32) {
        PointerWorker::advance(self, n);
    }

    fn flush(&mut self) {
        PointerWorker::flush(self);
    }
}

/// What a Worker does to packets.
pub struct Bench {
    work: Work,
    automaton: Vec<u16>,
    result: u64,
}

/// Of the automaton.
const SEED: u64 = 1;
/// States of the automaton.
const STATES: usize = 1 << 16;

impl Bench {
    /// Prepares the work.
    pub fn new(work: Work) -> Bench {
        let mut random = Random::from_seed(SEED);
        let transition = |_| random.next_u64() as u16;
        let transitions = if work == Work::Automaton { STATES * 256 } else { 0 };
        Bench { work, automaton: (0..transitions).map(transition).collect(), result: 0 }
    }

    /// Does the work on one packet.
    #[inline]
    fn handle(&mut self, packet: &[u8]) {
        match self.work {
            Work::Dummy => {}
            Work::Real => self.result = self.result.wrapping_add(signature(packet)),
            Work::Automaton => {
                let state = packet.iter().fold(0_usize, |state, byte| {
                    usize::from(self.automaton[state * 256 + usize::from(*byte)])
                });
                self.result = self.result.wrapping_add(state as u64);
            }
        }
    }
}

/// Works until the Master says that it is over and nothing is left.
pub fn serve(mut end: impl End, control: &Control, duty: &Duty) {
    let mut bench = Bench::new(duty.work);
    let waiter = FutexWaiter(control.clone());
    let mut packets = 0_u64;
    // Shows the Master that this Worker is ready.
    control.beat();
    loop {
        let waiting = end.waiting();
        if waiting == 0 {
            end.flush();
            if control.command() == DRAIN && !end.has_work() {
                break;
            }
            idle(&mut end, &waiter, duty);
            continue;
        }
        if duty.shared_indices {
            // One packet, then look again: what private copies of indices save.
            end.has_work();
        }
        let limit = if duty.shared_indices { 1 } else { duty.threshold.max(1) };
        let n = waiting.min(limit);
        end.work(n, &mut bench);
        end.advance(n);
        packets += u64::from(n);
    }
    for (counter, value) in [(PACKETS, packets), (RESULT, bench.result)] {
        control.name_counter(counter, COUNTERS[counter as usize]);
        control.set_counter(counter, value);
    }
}

/// Passes the time until there is work.
fn idle(end: &mut impl End, waiter: &FutexWaiter, duty: &Duty) {
    if duty.wait != Wait::Block && spin(end, duty) {
        return;
    }
    if duty.wait == Wait::Poll {
        return;
    }
    waiter.0.add_figure(Figure::Sleeps, 1);
    if rest(waiter, None, || end.has_work() || waiter.0.command() == DRAIN) == Rest::Woken {
        waiter.0.add_figure(Figure::WakeUps, 1);
    }
}

/// Looks for work; true when there is some before the time is over.
fn spin(end: &mut impl End, duty: &Duty) -> bool {
    if duty.wait == Wait::Poll {
        std::hint::spin_loop();
        return end.has_work();
    }
    let until = Instant::now() + Duration::from_micros(u64::from(duty.spin));
    loop {
        for _ in 0..LOOKS {
            if end.has_work() {
                return true;
            }
            std::hint::spin_loop();
        }
        if Instant::now() >= until {
            return false;
        }
    }
}

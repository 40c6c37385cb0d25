//! Reorder: packets that are overtaken.

use std::any::Any;
use std::collections::VecDeque;

use thruway_element::{
    Arguments, Buffer, Changes, Cx, Element, Entry, Handlers, HotSwap, Nanos, Operation, Replicas,
    Spec, Topic, reasons,
};
use thruway_packet::{Batch, Packet};

use super::dice::{self, Fault, ranged};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<Reorder>(Spec {
    name: "Reorder",
    topic: Topic::Faults,
    summary: "lets packets be overtaken at random",
    docs: "With probability P, a packet is held back until GAP later ones have passed it, or \
           TIMEOUT has gone by; the others go on at once. While CAPACITY packets are held back, \
           no more are. With SEED, two runs hold back the same packets (see Loss). To let \
           packets overtake each other by their timing, see Delay and its JITTER.",
    example: "InfiniteSource(LIMIT 100, STOP true) -> Reorder(10%, GAP 3, SEED 1) -> Discard",
    processing: "h/h",
    drops: Held::DROPS,
    changes: Changes::Nothing,
    cost: &[Operation::Random.once()],
    replicas: Replicas::Apart("each holds back packets of its thread, CAPACITY of them at most"),
    ..Spec::DEFAULT
})
.with_buffer::<Reorder>()
.with_hot_swap::<Reorder>();

reasons! {
    /// Why a packet goes no further.
    enum Held {
        Unsent = "unsent": "the run ended while it was held back",
    }
}

const TIMER: u32 = 0;

/// Held-back packets, in order of arrival.
struct Holdback<T> {
    held: VecDeque<Late<T>>,
    passed: u64,
}

struct Late<T> {
    /// Value of `passed` at which it goes on.
    after: u64,
    /// Time at which it goes on anyway, nanoseconds.
    deadline: i64,
    what: T,
}

impl<T> Default for Holdback<T> {
    fn default() -> Holdback<T> {
        Holdback { held: VecDeque::new(), passed: 0 }
    }
}

impl<T> Holdback<T> {
    fn hold(&mut self, gap: u64, deadline: i64, what: T) {
        self.held.push_back(Late { after: self.passed + gap, deadline, what });
    }

    /// The next that may go on at `now`.
    fn release(&mut self, now: i64) -> Option<T> {
        let late = self.held.front()?;
        if late.after > self.passed && late.deadline > now {
            return None;
        }
        self.held.pop_front().map(|late| late.what)
    }
}

#[derive(Arguments, Handlers)]
#[handler(like = dice::H_PROBABILITY)]
#[handler(like = dice::H_ACTIVE)]
#[handler(like = dice::H_COUNT)]
#[handler(sum, name = "reordered", "packets held back", get = self.fault.struck)]
#[handler(sum, name = "length", "packets held back now", get = self.back.held.len())]
#[handler(like = dice::H_SEED)]
#[handler(like = dice::H_RESET)]
struct Reorder {
    /// packets that overtake it, 1 to 65535
    #[arg(like = dice::P, unread)]
    #[arg(keyword, or = "1")]
    #[new(ranged(args, "GAP", 1..=65_535)?)]
    gap: u64,
    /// longest time it is held back
    #[arg(keyword, or = "100ms", via = positive)]
    timeout: i64,
    /// packets that may be held back, 1 to 65536
    #[arg(keyword, or = "1000")]
    #[new(ranged(args, "CAPACITY", 1..=65_536)?)]
    capacity: usize,
    #[new(Holdback { held: VecDeque::with_capacity(capacity), passed: 0 })]
    back: Holdback<Packet>,
    /// Whether the timer is set: it may come early, when what it was set for has gone.
    alarm: bool,
    #[arg(like = dice::SEED, unread)]
    #[arg(like = dice::ACTIVE, unread)]
    #[new(Fault::from_args(args)?)]
    #[part]
    fault: Fault,
}

fn positive(Nanos(time): Nanos) -> Result<i64, &'static str> {
    if time <= 0 { Err("must be more than 0") } else { Ok(time) }
}

impl Reorder {
    fn release(&mut self, cx: &mut Cx<'_>) {
        while let Some(packet) = self.back.release(cx.now()) {
            cx.emit(0, packet);
        }
    }

    fn set_alarm(&mut self, cx: &mut Cx<'_>) {
        if let Some(next) = self.back.held.front().filter(|_| !self.alarm) {
            self.alarm = true;
            cx.set_timer(TIMER, next.deadline);
        }
    }
}

impl Element for Reorder {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.set_alarm(cx);
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let active = self.fault.dice.see(batch.len());
        for packet in batch.drain() {
            if active && self.back.held.len() < self.capacity && self.fault.strikes() {
                let deadline = cx.now().saturating_add(self.timeout);
                self.back.hold(self.gap, deadline, packet);
                continue;
            }
            cx.emit(0, packet);
            self.back.passed += 1;
            self.release(cx);
        }
        self.set_alarm(cx);
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        self.alarm = false;
        self.release(cx);
        self.set_alarm(cx);
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        for late in self.back.held.drain(..) {
            cx.drop(Held::Unsent, late.what);
        }
        Ok(())
    }
}

impl HotSwap for Reorder {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new(std::mem::take(&mut self.back)))
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        if let Ok(back) = state.downcast() {
            self.back = *back;
        }
    }
}

impl Buffer for Reorder {
    fn holding(&self) -> usize {
        self.back.held.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Each packet that is held back is overtaken by exactly `gap` of those that are not.
        #[test]
        fn overtaken_by_gap(held in prop::collection::vec(any::<bool>(), 0..60), gap in 1u64..5) {
            let mut back = Holdback::default();
            let mut out = Vec::new();
            for (number, hold) in held.iter().enumerate() {
                if *hold {
                    back.hold(gap, i64::MAX, number);
                    continue;
                }
                out.push(number);
                back.passed += 1;
                out.extend(std::iter::from_fn(|| back.release(0)));
            }
            for (place, number) in out.iter().enumerate().filter(|(_, number)| held[**number]) {
                let overtook =
                    out[..place].iter().filter(|other| *other > number && !held[**other]);
                prop_assert_eq!(overtook.count() as u64, gap);
            }
            let late: Vec<usize> = out.iter().copied().filter(|number| held[*number]).collect();
            prop_assert!(late.is_sorted());
            prop_assert_eq!(out.len() + back.held.len(), held.len());
        }
    }

    #[test]
    fn deadlines() {
        let mut back = Holdback::default();
        back.hold(3, 100, 'a');
        back.hold(3, 120, 'b');
        assert_eq!(back.release(99), None);
        assert_eq!((back.release(100), back.release(100)), (Some('a'), None));
        assert_eq!(back.release(500), Some('b'));
    }
}

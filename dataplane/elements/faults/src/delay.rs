//! Delay: packets that take their time.

use std::any::Any;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use thruway_element::{
    Arguments, Buffer, Changes, Cx, Element, Entry, Handlers, HotSwap, Nanos, Operation, Replicas,
    Spec, Topic, reasons,
};
use thruway_packet::{Batch, Packet};

use super::dice::{self, Dice, ranged};
use thruway_elements_support::random::Random;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<Delay>(Spec {
    name: "Delay",
    topic: Topic::Faults,
    summary: "lets packets wait, each for about the same time",
    docs: "Every packet goes on TIME after it came. With JITTER, the wait of each is drawn evenly \
           from TIME - JITTER to TIME + JITTER (but never below 0), so that packets overtake \
           each other, unless KEEP_ORDER is set: then none leaves before one that came earlier. \
           Without JITTER order is always kept. At most CAPACITY packets wait; those that come \
           when so many do are dropped. While it is not active, packets pass at once. With SEED, \
           two runs draw the same waits (see Loss).",
    example: "RatedSource(RATE 100, LIMIT 10, STOP true) -> Delay(20ms, 5ms, SEED 1) -> Discard",
    processing: "h/h",
    drops: Stuck::DROPS,
    changes: Changes::Nothing,
    cost: &[Operation::Store.once(), Operation::Clock.once()],
    replicas: Replicas::Apart("each holds the packets of its thread, CAPACITY of them at most"),
    ..Spec::DEFAULT
})
.with_buffer::<Delay>()
.with_hot_swap::<Delay>();

reasons! {
    /// Why a packet goes no further.
    enum Stuck {
        Overflow = "delay-full": "CAPACITY packets were waiting",
        Unsent = "unsent": "the run ended while it waited",
    }
}

/// More packets than packet memory has frames would be of no use.
const CAPACITY_MAX: usize = 1 << 24;
/// Packets for which room is made beforehand.
const ROOM: usize = 1024;
const TIMER: u32 = 0;

/// A packet that waits. Ordered by when it is due, then by when it came.
struct Waiting<T> {
    due: i64,
    number: u64,
    what: T,
}

impl<T> Ord for Waiting<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.due, self.number).cmp(&(other.due, other.number))
    }
}

impl<T> PartialOrd for Waiting<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Waiting<T> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl<T> Eq for Waiting<T> {}

/// All that wait, the next that is due on top.
struct Line<T> {
    heap: BinaryHeap<Reverse<Waiting<T>>>,
    number: u64,
    last_due: i64,
}

impl<T> Line<T> {
    fn new(room: usize) -> Line<T> {
        Line { heap: BinaryHeap::with_capacity(room), number: 0, last_due: i64::MIN }
    }

    /// Lets `what` wait until `due`, or until all that came before have left if `in_order`.
    fn join(&mut self, due: i64, in_order: bool, what: T) {
        let due = if in_order { due.max(self.last_due) } else { due };
        self.last_due = self.last_due.max(due);
        self.number += 1;
        self.heap.push(Reverse(Waiting { due, number: self.number, what }));
    }

    fn next_due(&self) -> Option<i64> {
        self.heap.peek().map(|Reverse(next)| next.due)
    }

    /// The next that is due by `now`.
    fn leave(&mut self, now: i64) -> Option<T> {
        self.next_due().filter(|due| *due <= now)?;
        self.heap.pop().map(|Reverse(next)| next.what)
    }
}

#[derive(Arguments, Handlers)]
#[handler(both, field = time, name = "delay", "how long packets wait", get = seconds(self.time))]
#[handler(
    both, field = jitter, "variation of the wait, up and down", get = seconds(self.jitter)
)]
#[handler(sum, name = "length", "packets that wait now", get = self.line.heap.len())]
#[handler(sum, field = overflows, "packets dropped because CAPACITY waited")]
#[handler(like = dice::H_ACTIVE)]
#[handler(like = dice::H_COUNT)]
#[handler(like = dice::H_SEED)]
#[handler(
    write, name = "reset_counts", "sets the counts to zero", write = {
        self.overflows = 0;
        self.dice.write_handler(cx, name, value)
    }
)]
struct Delay {
    /// how long packets wait
    #[arg(required, via = not_negative)]
    time: i64,
    /// variation of the wait, up and down
    #[arg(optional, or = "0", via = not_negative)]
    jitter: i64,
    /// whether order is kept despite JITTER
    #[arg(keyword, name = "KEEP_ORDER", or = "false")]
    keep_order: bool,
    /// packets that may wait, 1 to 16777216
    #[arg(keyword, or = "1000")]
    #[new(ranged(args, "CAPACITY", 1..=CAPACITY_MAX)?)]
    capacity: usize,
    #[arg(like = dice::SEED, unread)]
    #[arg(like = dice::ACTIVE, unread)]
    #[new(Dice::from_args(args)?)]
    #[part]
    dice: Dice,
    #[new(Line::new(capacity.min(ROOM)))]
    line: Line<Packet>,
    /// When the timer is set for.
    alarm: Option<i64>,
    overflows: u64,
}

fn not_negative(time: Nanos) -> Result<i64, String> {
    match time.0 {
        0.. => Ok(time.0),
        _ => Err("a packet cannot leave before it comes; write 0 or more".into()),
    }
}

/// `time` give or take `jitter`, not below 0.
fn wait(random: &mut Random, time: i64, jitter: i64) -> i64 {
    if jitter == 0 {
        return time;
    }
    let spread = random.below(jitter.unsigned_abs() * 2 + 1);
    time.saturating_sub(jitter).saturating_add_unsigned(spread).max(0)
}

fn seconds(ns: i64) -> String {
    format!("{}s", ns as f64 / 1e9)
}

impl Delay {
    /// Sets the timer for the next that is due.
    fn set_alarm(&mut self, cx: &mut Cx<'_>) {
        let next = self.line.next_due();
        if next == self.alarm {
            return;
        }
        if self.alarm.is_some() {
            cx.clear_timer(TIMER);
        }
        if let Some(at) = next {
            cx.set_timer(TIMER, at);
        }
        self.alarm = next;
    }
}

impl Element for Delay {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.set_alarm(cx);
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        if !self.dice.see(batch.len()) {
            return;
        }
        let in_order = self.keep_order || self.jitter == 0;
        for packet in batch.drain() {
            if self.line.heap.len() >= self.capacity {
                self.overflows += 1;
                cx.drop(Stuck::Overflow, packet);
                continue;
            }
            let wait = wait(&mut self.dice.random, self.time, self.jitter);
            self.line.join(cx.now().saturating_add(wait), in_order, packet);
        }
        self.set_alarm(cx);
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        self.alarm = None;
        while let Some(packet) = self.line.leave(cx.now()) {
            cx.emit(0, packet);
        }
        self.set_alarm(cx);
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        for Reverse(left) in self.line.heap.drain() {
            cx.drop(Stuck::Unsent, left.what);
        }
        Ok(())
    }
}

impl HotSwap for Delay {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new(std::mem::replace(&mut self.line, Line::new(0))))
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        if let Ok(line) = state.downcast() {
            self.line = *line;
        }
    }
}

impl Buffer for Delay {
    fn holding(&self) -> usize {
        self.line.heap.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Lets packet i join at time `arrivals[i]` with its wait; returns when each packet leaves.
    fn run(arrivals: &[(i64, i64)], in_order: bool) -> Vec<(i64, usize)> {
        let mut line = Line::new(0);
        let mut left = Vec::new();
        let mut advance = |line: &mut Line<usize>, to: i64| {
            while let Some(at) = line.next_due().filter(|due| *due <= to) {
                left.extend(line.leave(at).map(|packet| (at, packet)));
            }
        };
        for (packet, (at, wait)) in arrivals.iter().enumerate() {
            advance(&mut line, at - 1);
            line.join(at + wait, in_order, packet);
        }
        advance(&mut line, i64::MAX);
        left
    }

    proptest! {
        #[test]
        fn all_leave_on_time(
            steps in prop::collection::vec((0i64..5, 0i64..20), 0..40), in_order: bool,
        ) {
            let mut now = 0;
            let arrivals: Vec<(i64, i64)> = steps
                .iter()
                .map(|(step, wait)| { now += step; (now, *wait) })
                .collect();
            let left = run(&arrivals, in_order);
            let due = |packet: usize| arrivals[packet].0 + arrivals[packet].1;
            // The oracle: sort by due time, or make each wait for all before it.
            let mut wanted: Vec<(i64, usize)> = (0..arrivals.len())
                .map(|packet| match in_order {
                    true => ((0..=packet).map(due).max().unwrap_or(0), packet),
                    false => (due(packet), packet),
                })
                .collect();
            wanted.sort();
            prop_assert_eq!(left, wanted);
        }

        #[test]
        fn waits_are_within_the_jitter(seed: u64, time in 0i64.., jitter in 0i64..) {
            let waited = wait(&mut Random::from_seed(seed), time, jitter);
            prop_assert!(waited >= time.saturating_sub(jitter).max(0));
            prop_assert!(waited <= time.saturating_add(jitter));
        }
    }
}

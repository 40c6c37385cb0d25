//! The Master's loop (Algorithm 1 of the paper) over one chain or many, and what it measures.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use thruway_packet::cycles;

use super::lane::{Lane, Sink};
use super::source::{Source, number_of};
use crate::latency::Latencies;

/// One packet of so many is timed (section 6.2 of the paper).
const SAMPLE: u64 = 1000;

/// Rounds between two looks at the clock.
const ROUNDS: u32 = 32;

/// How long packets may take to come out when nothing goes in any more.
const DRAIN: Duration = Duration::from_secs(10);

/// How Workers make chains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// All Workers are one chain.
    Line,
    /// As many chains as Workers, each of a Worker and the next: each Worker is in two.
    Ring,
}

/// What the Master's loop is given.
#[derive(Debug, Clone, Copy)]
pub struct Course {
    pub shape: Shape,
    /// Packets that are made at once.
    pub burst: u32,
    /// Packets in all chains together at once, at most.
    pub window: u64,
    /// Publishes each packet.
    pub publish_each: bool,
    /// The time of thresholds is the time stamp counter's, not a count of rounds.
    pub tsc: bool,
    /// Length of the measurement.
    pub time: Duration,
    /// Not measured before it.
    pub warm_up: Duration,
    /// Instead of a time, so many packets.
    pub packets: Option<u64>,
}

/// What was measured.
#[derive(Debug, Default, Clone)]
pub struct Outcome {
    /// Wall-clock time of the measured part, seconds.
    pub seconds: f64,
    /// Packets that came out of chains meanwhile.
    pub packets: u64,
    /// Packets that Workers gave back meanwhile, over all hops.
    pub moved: u64,
    /// All packets that went in.
    pub sent: u64,
    /// All packets that went in and did not come out.
    pub lost: u64,
    /// All packets that came out in a wrong place of their chain's order.
    pub disordered: u64,
    /// Times from production to the end of a chain, of sampled packets, nanoseconds, sorted.
    pub latencies_ns: Latencies,
}

impl Outcome {
    /// Packets per second at the end of the chains.
    pub fn rate(&self) -> f64 {
        self.packets as f64 / self.seconds.max(1e-9)
    }

    /// Packets per second moved by the Master, summed over hops.
    pub fn rate_internal(&self) -> f64 {
        self.moved as f64 / self.seconds.max(1e-9)
    }
}

/// One chain's books.
#[derive(Default)]
struct Chain {
    sent: u64,
    done: u64,
    /// Positions in the source of the bursts in flight (with [`Shape::Ring`]).
    bursts: VecDeque<(u32, u32)>,
    /// The number that comes out next, and how many after it are of the same burst.
    expected: u32,
    left: u32,
    /// Sampled packets in flight: their numbers, and when they were made.
    samples: VecDeque<(u64, u64)>,
}

/// The Master.
pub struct Drive<'a, L, S> {
    pub lanes: Vec<L>,
    pub sink: S,
    pub source: &'a Source,
    course: Course,
    chains: Vec<Chain>,
    /// With [`Shape::Ring`]: for each lane, whether the packets in it are at their last Worker.
    hops: Vec<VecDeque<bool>>,
    /// The next number to make, and the chain that it goes to.
    number: u32,
    cursor: usize,
    round: u64,
    sent: u64,
    done: u64,
    moved: u64,
    until_sample: u64,
    refused: u64,
    disordered: u64,
    latencies: Vec<u64>,
    taken: Vec<u8>,
}

impl<'a, L: Lane, S: Sink<L>> Drive<'a, L, S> {
    /// A Master of these Workers.
    pub fn new(lanes: Vec<L>, sink: S, source: &'a Source, course: Course) -> Drive<'a, L, S> {
        let chains = match course.shape {
            Shape::Line => 1,
            Shape::Ring => lanes.len(),
        };
        let hops = match course.shape {
            Shape::Line => 0,
            Shape::Ring => lanes.len(),
        };
        Drive {
            hops: (0..hops).map(|_| VecDeque::with_capacity(1 << 10)).collect(),
            lanes,
            sink,
            source,
            course,
            chains: (0..chains).map(|_| Chain::default()).collect(),
            number: 0,
            cursor: 0,
            round: 0,
            sent: 0,
            done: 0,
            moved: 0,
            until_sample: SAMPLE / 2,
            refused: 0,
            disordered: 0,
            latencies: Vec::with_capacity(1 << 16),
            taken: vec![0; source.len],
        }
    }

    /// Runs the course.
    ///
    /// # Errors
    /// When a Worker broke the protocol, or packets neither came out nor were lost by a fault.
    pub fn run(&mut self) -> anyhow::Result<Outcome> {
        self.rounds(self.course.warm_up, None)?;
        self.latencies.clear();
        let (packets, moved) = (self.done, self.moved);
        let begin = Instant::now();
        let (begin_ticks, limit) = (cycles(), self.course.packets);
        self.rounds(self.course.time, limit)?;
        let ticks = cycles().wrapping_sub(begin_ticks);
        let seconds = begin.elapsed().as_secs_f64();
        let (packets, moved) = (self.done - packets, self.moved - moved);
        let latencies = std::mem::take(&mut self.latencies);
        self.drain()?;
        Ok(Outcome {
            seconds,
            // With a number of packets all count, also those that came when time was over.
            packets: if limit.is_some() { self.done } else { packets },
            moved: if limit.is_some() { self.moved } else { moved },
            sent: self.sent,
            lost: self.sent - self.done + self.refused,
            disordered: self.disordered,
            latencies_ns: Latencies::new(latencies, seconds * 1e9 / ticks.max(1) as f64),
        })
    }

    fn rounds(&mut self, time: Duration, limit: Option<u64>) -> anyhow::Result<()> {
        let begin = Instant::now();
        loop {
            for _ in 0..ROUNDS {
                self.produce(limit.unwrap_or(u64::MAX));
                self.collect()?;
            }
            if limit.map_or(begin.elapsed() >= time, |limit| self.sent >= limit) {
                return Ok(());
            }
        }
    }

    /// Goes on without new packets until all came out, or nothing more comes.
    fn drain(&mut self) -> anyhow::Result<()> {
        let begin = Instant::now();
        while self.done < self.sent && begin.elapsed() < DRAIN {
            self.collect()?;
        }
        Ok(())
    }

    #[inline]
    fn now(&self) -> u64 {
        if self.course.tsc { cycles() } else { self.round }
    }

    /// Algorithm 1, lines 14 to 21.
    fn produce(&mut self, limit: u64) {
        let now = self.now();
        match self.course.shape {
            Shape::Line => {
                let left = self.course.window.saturating_sub(self.sent - self.done);
                let left = left.min(limit.saturating_sub(self.sent));
                let n = self.lanes[0].room().min(self.course.burst).min(left as u32);
                self.make(0, n, now);
            }
            Shape::Ring => {
                let burst = self.course.burst;
                // Each chain at most once a round.
                for _ in 0..self.chains.len() {
                    let is_open = self.sent - self.done + u64::from(burst) <= self.course.window
                        && self.sent < limit
                        && self.lanes[self.cursor].room() >= 2 * burst;
                    if !is_open {
                        break;
                    }
                    let chain = self.cursor;
                    self.chains[chain].bursts.push_back((self.number, burst));
                    self.hops[chain].extend((0..burst).map(|_| false));
                    self.make(chain, burst, now);
                    self.cursor = if chain + 1 == self.chains.len() { 0 } else { chain + 1 };
                }
            }
        }
    }

    /// Puts `n` packets into a chain.
    #[inline]
    fn make(&mut self, chain: usize, n: u32, now: u64) {
        let lane = &mut self.lanes[chain];
        let mut number = self.number;
        for nth in 0..n {
            if self.until_sample == 0 {
                self.until_sample = SAMPLE;
                let which = self.chains[chain].sent + u64::from(nth);
                self.chains[chain].samples.push_back((which, cycles()));
            }
            self.until_sample -= 1;
            self.source.prefetch_behind(number);
            self.refused += u64::from(!lane.put(self.source, number));
            number = self.source.after(number);
            if self.course.publish_each {
                lane.publish(now);
            }
        }
        lane.publish(now);
        self.number = number;
        self.sent += u64::from(n);
        self.chains[chain].sent += u64::from(n);
    }

    /// Algorithm 1, lines 22 and 23, for each Worker in turn.
    fn collect(&mut self) -> anyhow::Result<()> {
        self.round += 1;
        let now = self.now();
        match self.course.shape {
            Shape::Line => {
                for at in 0..self.lanes.len() {
                    self.moved += u64::from(self.move_on(at, now)?);
                }
            }
            Shape::Ring => {
                for at in 0..self.lanes.len() {
                    if !self.hops[at].is_empty() {
                        self.moved += u64::from(self.deal(at, now)?);
                    }
                }
            }
        }
        for lane in &mut self.lanes {
            lane.check_age(now);
        }
        Ok(())
    }

    /// Moves what a Worker of a line gave back to the next, or out.
    #[inline]
    fn move_on(&mut self, at: usize, now: u64) -> anyhow::Result<u32> {
        let publish_each = self.course.publish_each;
        if at + 1 < self.lanes.len() {
            let [lane, next] = self.lanes.get_disjoint_mut([at, at + 1])?;
            let refused = &mut self.refused;
            let n = lane.poll(now, next.room(), |token| {
                *refused += u64::from(!next.forward(&token));
                if publish_each {
                    next.publish(now);
                }
            })?;
            if n > 0 {
                next.publish(now);
            }
            return Ok(n);
        }
        let (sink, taken, disordered) = (&self.sink, &mut self.taken, &mut self.disordered);
        let (source, chain) = (self.source, &mut self.chains[0]);
        let mut expected = chain.expected;
        let n = self.lanes[at].poll(now, u32::MAX, |token| {
            sink.read(&token, taken);
            *disordered += u64::from(number_of(taken) != expected);
            expected = source.after(expected);
        })?;
        chain.expected = expected;
        self.done += u64::from(n);
        self.chains[0].arrive(u64::from(n), &mut self.latencies);
        Ok(n)
    }

    /// Moves what a Worker of a ring gave back: to the next, what was at its first Worker; out,
    /// what was at its second.
    fn deal(&mut self, at: usize, now: u64) -> anyhow::Result<u32> {
        let count = self.lanes.len();
        let next_at = (at + 1) % count;
        let ended = (at + count - 1) % count;
        let [lane, next] = self.lanes.get_disjoint_mut([at, next_at])?;
        let [hops, next_hops] = self.hops.get_disjoint_mut([at, next_at])?;
        let (source, sink, taken) = (self.source, &self.sink, &mut self.taken);
        let (refused, disordered) = (&mut self.refused, &mut self.disordered);
        let chain = &mut self.chains[ended];
        let (mut out, mut on) = (0, 0);
        let n = lane.poll(now, next.room(), |token| {
            if hops.pop_front() == Some(false) {
                *refused += u64::from(!next.forward(&token));
                next_hops.push_back(true);
                on += 1;
                return;
            }
            sink.read(&token, taken);
            *disordered += u64::from(number_of(taken) != chain.expect(source));
            out += 1;
        })?;
        if on > 0 {
            next.publish(now);
        }
        self.done += out;
        self.chains[ended].arrive(out, &mut self.latencies);
        Ok(n)
    }
}

impl Chain {
    /// The number that comes out next of a chain that gets every now and then a burst.
    fn expect(&mut self, source: &Source) -> u32 {
        if self.left == 0 {
            (self.expected, self.left) = self.bursts.pop_front().unwrap_or((u32::MAX, 1));
        }
        let number = self.expected;
        self.expected = source.after(number);
        self.left -= 1;
        number
    }

    /// Counts packets that came out, and notes the times of sampled ones.
    #[inline]
    fn arrive(&mut self, n: u64, latencies: &mut Vec<u64>) {
        self.done += n;
        while let Some((which, made)) = self.samples.front().copied() {
            if which >= self.done {
                break;
            }
            latencies.push(cycles().wrapping_sub(made));
            self.samples.pop_front();
        }
    }
}

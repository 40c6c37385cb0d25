//! Rates by address prefix: a tree with a node for each prefix that was looked into.

use thruway_packet::fallible;

/// Entries of a node: values of an address byte.
const FANOUT: usize = 256;
/// Bytes of an address, levels of the tree.
pub(super) const LEVELS: usize = 4;
/// Nanoseconds in an epoch: counts are collected for so long, then enter the average. This and the
/// weight are Click's.
const EPOCH: i64 = 80_000_000;
/// Epochs a second.
const EPOCHS: f32 = 12.5;
/// What a new epoch's count weighs in the average: it is one over about two and a half seconds.
const WEIGHT: f32 = 1.0 / 32.0;
/// Rates below count as none.
const LEAST: f32 = 1e-3;
/// Most nodes that are looked at in one sweep.
const SWEEP: usize = 64;

/// The rates of a prefix.
#[derive(Debug, Clone, Copy, Default)]
struct Counter {
    /// Forward and reverse, per second.
    rates: [f32; 2],
    /// Seen since `epoch` began.
    current: [u32; 2],
    epoch: u32,
    /// The epoch until which nothing below is looked at.
    held: u32,
    /// The node below; 0 if there is none.
    child: u32,
}

/// The state of a node besides its counters.
#[derive(Debug, Clone, Copy)]
struct NodeLinks {
    /// The counter that it belongs to; `None` of the first node and of free ones.
    parent: Option<u32>,
    /// Nodes below it.
    children: u16,
}

const NO_LINKS: NodeLinks = NodeLinks { parent: None, children: 0 };

/// Counters, a node after the other, in memory that is taken once.
pub(super) struct Tree {
    counters: Vec<Counter>,
    links: Vec<NodeLinks>,
    free: Vec<u32>,
    nodes: usize,
    thresh: f32,
    /// Events a second that one counted in an epoch stands for.
    each: f32,
    start: i64,
    swept: usize,
    epoch: u32,
}

impl Counter {
    /// Lets time pass.
    fn turn(&mut self, epoch: u32, each: f32) {
        let passed = epoch.saturating_sub(self.epoch);
        if passed == 0 {
            return;
        }
        // After ten thousand epochs nothing is left anyway.
        let fade = (1.0 - WEIGHT).powi((passed - 1).min(10_000) as i32);
        for (rate, current) in self.rates.iter_mut().zip(&mut self.current) {
            *rate = (*rate + (*current as f32 * each - *rate) * WEIGHT) * fade;
            if *rate < LEAST {
                *rate = 0.0;
            }
            *current = 0;
        }
        self.epoch = epoch;
    }

    fn exceeds(&self, thresh: f32) -> bool {
        self.rates.iter().any(|rate| *rate > thresh)
    }
}

impl Tree {
    /// Bytes that a node takes.
    pub(super) const NODE_BYTES: usize =
        FANOUT * size_of::<Counter>() + size_of::<NodeLinks>() + size_of::<u32>();

    /// A tree of the first node, with room for so many bytes, at least two nodes. Prefixes are
    /// looked into above `thresh` events a second, of which a part `ratio` is counted.
    pub(super) fn new(bytes: usize, thresh: u32, ratio: f64) -> Option<Tree> {
        let nodes = (bytes / Tree::NODE_BYTES).max(2);
        let (mut counters, mut links, mut free) = (Vec::new(), Vec::new(), Vec::new());
        fallible(|| {
            counters.try_reserve_exact(nodes * FANOUT)?;
            links.try_reserve_exact(nodes)?;
            free.try_reserve_exact(nodes)
        })
        .ok()?;
        let each = if ratio > 0.0 { EPOCHS / ratio as f32 } else { 0.0 };
        let thresh = thresh as f32;
        let (start, swept, epoch) = (0, 0, 0);
        let mut tree = Tree { counters, links, free, nodes, thresh, each, start, swept, epoch };
        tree.reset(0);
        Some(tree)
    }

    /// Forgets all rates.
    pub(super) fn reset(&mut self, now: i64) {
        self.counters.clear();
        self.links.clear();
        self.free.clear();
        self.grow();
        (self.start, self.swept, self.epoch) = (now, 0, 0);
    }

    /// Time since the last reset, nanoseconds.
    pub(super) fn elapsed(&self, now: i64) -> i64 {
        now.saturating_sub(self.start).max(0)
    }

    /// Bytes of nodes in use.
    pub(super) fn bytes(&self) -> usize {
        (self.links.len() - self.free.len()) * Tree::NODE_BYTES
    }

    /// Most bytes of nodes.
    pub(super) fn bytes_max(&self) -> usize {
        self.nodes * Tree::NODE_BYTES
    }

    fn epoch_at(&self, now: i64) -> u32 {
        u32::try_from(self.elapsed(now) / EPOCH).unwrap_or(u32::MAX)
    }

    /// Lets time pass; in a new epoch, takes back some of the nodes that are not needed any more.
    #[inline]
    pub(super) fn advance(&mut self, now: i64) {
        let epoch = self.epoch_at(now);
        if epoch > self.epoch {
            self.epoch = epoch;
            self.sweep();
        }
    }

    /// Counts events of an address, forward (0) or reverse (1). The forward rate of the longest
    /// prefix of it that has one.
    pub(super) fn see(&mut self, address: [u8; LEVELS], direction: usize, events: u32) -> f32 {
        let mut node = 0;
        for (level, byte) in address.iter().enumerate() {
            let at = node * FANOUT + usize::from(*byte);
            let counter = &mut self.counters[at];
            counter.turn(self.epoch, self.each);
            counter.current[direction] = counter.current[direction].saturating_add(events);
            let (forward, child) = (counter.rates[0], counter.child);
            let held = counter.held > self.epoch;
            if child == 0 || held {
                let fast = !held && events > 0 && counter.exceeds(self.thresh);
                if let (true, Some(next)) = (fast, address.get(level + 1)) {
                    self.look_into(at, *next);
                }
                return forward;
            }
            node = child as usize;
        }
        // The last level has no nodes below.
        0.0
    }

    /// Another node at the end, if there is room.
    fn grow(&mut self) -> Option<u32> {
        let node = self.links.len();
        if node >= self.nodes {
            return None;
        }
        self.counters.resize((node + 1) * FANOUT, Counter::default());
        self.links.push(NO_LINKS);
        u32::try_from(node).ok()
    }

    /// Gives a counter a node below. The address that made it do so starts there with its rates.
    #[cold]
    fn look_into(&mut self, at: usize, next: u8) {
        let Some(node) = self.free.pop().or_else(|| self.grow()) else { return };
        let first = node as usize * FANOUT;
        let Counter { rates, epoch, .. } = self.counters[at];
        self.counters[first..first + FANOUT].fill(Counter::default());
        let inherited = Counter { rates, epoch, ..Counter::default() };
        self.counters[first + usize::from(next)] = inherited;
        self.counters[at].child = node;
        self.links[node as usize].parent = Some(at as u32);
        self.links[at / FANOUT].children += 1;
    }

    /// Takes back nodes without children and with prefixes that no longer exceed the threshold.
    #[cold]
    fn sweep(&mut self) {
        for _ in 0..SWEEP.min(self.links.len()) {
            self.swept = (self.swept + 1) % self.links.len();
            let NodeLinks { parent: Some(at), children: 0 } = self.links[self.swept] else {
                continue;
            };
            let at = at as usize;
            self.counters[at].turn(self.epoch, self.each);
            if !self.counters[at].exceeds(self.thresh) {
                self.counters[at].child = 0;
                self.links[at / FANOUT].children -= 1;
                self.links[self.swept] = NO_LINKS;
                self.free.push(self.swept as u32);
            }
        }
    }

    /// Looks at nothing below the first `level` + 1 bytes of an address for some seconds, and lifts
    /// that of shorter prefixes. False if that prefix has no rates of its own.
    pub(super) fn hold(&mut self, address: [u8; LEVELS], level: usize, seconds: u32) -> bool {
        let mut path = [0; LEVELS];
        let mut node = 0;
        for (step, byte) in address.iter().enumerate().take(level + 1) {
            if step > 0 && node == 0 {
                return false;
            }
            path[step] = node * FANOUT + usize::from(*byte);
            node = self.counters[path[step]].child as usize;
        }
        let Some((last, above)) = path[..=level].split_last() else { return false };
        for at in above {
            self.counters[*at].held = 0;
        }
        let epochs = (f64::from(seconds) * f64::from(EPOCHS)).ceil() as u32;
        self.counters[*last].held = self.epoch.saturating_add(epochs);
        true
    }

    /// Calls with each prefix (as many bytes as it has) that has rates, and these, shorter ones
    /// first, until asked to end.
    pub(super) fn visit(&self, visit: &mut dyn FnMut(&[u8], [f32; 2]) -> bool) {
        self.visit_node(0, &mut Vec::with_capacity(LEVELS), visit);
    }

    fn visit_node(
        &self,
        node: usize,
        prefix: &mut Vec<u8>,
        visit: &mut dyn FnMut(&[u8], [f32; 2]) -> bool,
    ) -> bool {
        for byte in 0..=u8::MAX {
            let mut counter = self.counters[node * FANOUT + usize::from(byte)];
            counter.turn(self.epoch, self.each);
            if !counter.exceeds(0.0) {
                continue;
            }
            prefix.push(byte);
            let child = counter.child as usize;
            let more = visit(prefix, counter.rates)
                && (child == 0 || self.visit_node(child, prefix, visit));
            prefix.pop();
            if !more {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests;

//! One thread's traces: the packets followed, and their events.

use std::sync::Arc;

use thruway_element::NodeStats;
use thruway_packet::{End, Packet, cycles, forget_watchers, take_ends};
use thruway_sync::atomic::Ordering;

use super::filter::Filter;
use super::{Event, Shared, Shot, What};

/// Batches between two looks whether anybody still asks.
const LOOKS: u32 = 1024;
/// Drops for one reason in one call that are distinguished.
const REASONS_MAX: u64 = 256;

/// One trace, in one thread.
pub(crate) struct Watch {
    pub shared: Arc<Shared>,
    pub filter: Filter,
    /// The element where packets are chosen; where they enter, if none.
    pub at: Option<u32>,
    /// The events, in memory allocated beforehand: those that do not fit are counted.
    pub events: Vec<Event>,
}

/// A command to a thread about traces.
pub(crate) enum Order {
    /// Trace this, too.
    Begin(Box<Watch>),
    /// Return the events of the trace with this bit, and continue with this empty memory.
    Take(u64, Vec<Event>),
    /// No longer trace for this bit.
    End(u64),
}

/// A call of an element that is not over.
struct Call {
    node: u32,
    /// Where its drop counters, as they were, begin in `counts`.
    counts: usize,
    /// Where the packets that came to it begin in `inside`.
    inside: usize,
    /// Where those that ended in it begin in `ends`.
    ends: usize,
}

/// A packet that came to an element: number, parent, and watchers.
type Came = (u64, u64, u64);

/// One thread's traces.
pub(crate) struct Tracer {
    watches: Vec<Watch>,
    /// Slots from here on represent the outputs of the element that runs.
    pub base: u32,
    calls: Vec<Call>,
    counts: Vec<u64>,
    /// Packets that came to the elements that are running.
    inside: Vec<Came>,
    /// Packets that ended in calls that are not over.
    ends: Vec<End>,
    looks: u32,
}

impl Tracer {
    /// For a thread with slots that represent outputs from `base` on.
    pub fn new(base: u32) -> Tracer {
        take_ends(drop);
        Tracer {
            watches: Vec::new(),
            base,
            calls: Vec::new(),
            counts: Vec::new(),
            inside: Vec::new(),
            ends: Vec::new(),
            looks: 0,
        }
    }

    pub fn begin(&mut self, watch: Watch) {
        self.watches.push(watch);
    }

    /// Ends a trace; returns whether there is another.
    pub fn end(&mut self, bit: u64) -> bool {
        self.watches.retain(|watch| watch.shared.bit != bit);
        forget_watchers(bit);
        !self.watches.is_empty()
    }

    /// The events of a trace.
    pub fn take(&mut self, bit: u64, empty: Vec<Event>) -> Vec<Event> {
        let watch = self.watches.iter_mut().find(|watch| watch.shared.bit == bit);
        watch.map_or(Vec::new(), |watch| std::mem::replace(&mut watch.events, empty))
    }

    /// Checks now and then for traces that no client reads any more; true when none is left.
    pub fn is_over(&mut self) -> bool {
        self.looks += 1;
        if !self.looks.is_multiple_of(LOOKS) {
            return false;
        }
        let over = self.watches.iter().filter(|watch| watch.shared.is_over());
        let over: u64 = over.map(|watch| watch.shared.bit).sum();
        self.watches.retain(|watch| watch.shared.bit & over == 0);
        if over != 0 {
            forget_watchers(over);
        }
        self.watches.is_empty()
    }

    fn write(&mut self, watchers: u64, event: &Event) {
        for watch in &mut self.watches {
            if watchers & watch.shared.bit == 0 {
                continue;
            }
            if watch.events.len() < watch.events.capacity() {
                watch.events.push(event.clone());
            } else {
                // Relaxed: a count.
                watch.shared.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Marks a packet that comes to (or from, if it is a source) this element, where it is one that
    /// a trace waits for.
    pub fn choose(&mut self, packet: &mut Packet, node: u32, is_source: bool) {
        for watch in &self.watches {
            let here = watch.at.map_or(is_source, |at| at == node);
            let followed = packet.mark().is_some_and(|m| m.watchers() & watch.shared.bit != 0);
            let left = watch.shared.left.load(Ordering::Relaxed) > 0;
            if !here || !left || followed || !watch.filter.holds(packet) {
                continue;
            }
            if watch.shared.take_one() {
                let marked = packet.follow(watch.shared.bit).is_some();
                let count = if marked { &watch.shared.chosen } else { &watch.shared.unmarked };
                count.fetch_add(1, Ordering::Relaxed);
                if !marked {
                    watch.shared.left.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    /// The element that runs.
    pub fn running(&self) -> Option<u32> {
        self.calls.last().map(|call| call.node)
    }

    /// Packets that came to the element that runs.
    pub fn inside(&self) -> Vec<u64> {
        let from = self.calls.last().map_or(0, |call| call.inside);
        self.inside.iter().skip(from).map(|(packet, ..)| *packet).collect()
    }

    /// An element is going to run.
    pub fn enter(&mut self, node: u32, stats: &NodeStats) {
        // Packets that ended until now ended in the call around this one, or at an unknown place.
        take_ends(|end| self.ends.push(end));
        if self.calls.is_empty() {
            self.ends.clear();
        }
        self.calls.push(Call {
            node,
            counts: self.counts.len(),
            inside: self.inside.len(),
            ends: self.ends.len(),
        });
        self.counts.extend(stats.drops.iter().map(thruway_sync::Counter::get));
    }

    /// A packet came to the element that runs.
    pub fn came(&mut self, node: u32, port: u32, packet: &Packet) {
        let Some(mark) = packet.mark() else { return };
        let came = (mark.packet(), mark.parent(), mark.watchers());
        self.inside.push(came);
        let mut pen = Pen { tracer: self, now: cycles(), node };
        pen.write(came, What::In(port), Some(Shot::of(packet)));
    }

    /// The element that ran has returned, and `sent` these packets by these outputs; it was given
    /// one packet only, if `alone`.
    pub fn leave<'a>(
        &mut self,
        stats: &NodeStats,
        alone: bool,
        sent: impl Iterator<Item = (u32, &'a Packet)>,
    ) {
        let Some(call) = self.calls.pop() else { return };
        take_ends(|end| self.ends.push(end));
        let mut ends = self.ends.split_off(call.ends.min(self.ends.len()));
        let mut inside = self.inside.split_off(call.inside.min(self.inside.len()));
        let first = inside.first().copied().filter(|_| alone);
        let reasons = self.counted(call.counts, stats);
        let mut pen = Pen { tracer: self, now: cycles(), node: call.node };
        let mut others = 0;
        for (port, packet) in sent {
            let Some(mark) = packet.mark() else {
                others += 1;
                continue;
            };
            // A copy that leaves while its original packet ends continues under its number.
            if let Some(at) = ends.iter().position(|end| end.packet == mark.parent()) {
                let end = ends.swap_remove(at);
                mark.stand_for(end.packet, end.parent);
            }
            inside.retain(|(packet, ..)| *packet != mark.packet());
            let came = (mark.packet(), mark.parent(), mark.watchers());
            pen.write(came, What::Out(port), Some(Shot::of(packet)));
        }
        let mut reasons = reasons.into_iter();
        for end in ends {
            inside.retain(|(packet, ..)| *packet != end.packet);
            let what = match (reasons.next(), alone) {
                (Some(reason), true) => What::Dropped(reason),
                (Some(reason), false) => What::PerhapsDropped(reason),
                (None, _) => What::Ended,
            };
            pen.write((end.packet, end.parent, end.watchers), what, None);
        }
        for came in inside {
            pen.write(came, What::Kept, None);
        }
        if let Some(first) = first {
            reasons.for_each(|reason| pen.write(first, What::Counted(reason), None));
            if others > 0 {
                pen.write(first, What::Others(others), None);
            }
        }
    }

    /// Reasons counted since a call began, one as often as it was counted; takes the call's counts.
    fn counted(&mut self, from: usize, stats: &NodeStats) -> Vec<u8> {
        let before = self.counts.split_off(from.min(self.counts.len()));
        let since = before.iter().zip(&stats.drops).enumerate();
        let times = |(at, (before, now)): (usize, (&u64, &thruway_sync::Counter))| {
            let times = now.get().saturating_sub(*before).min(REASONS_MAX);
            std::iter::repeat_n(at as u8, times as usize)
        };
        since.flat_map(times).collect()
    }
}

/// Writes events of one moment at one element.
struct Pen<'a> {
    tracer: &'a mut Tracer,
    now: u64,
    node: u32,
}

impl Pen<'_> {
    fn write(&mut self, (packet, parent, watchers): Came, what: What, shot: Option<Shot>) {
        let event = Event { cycles: self.now, packet, parent, node: self.node, what, shot };
        self.tracer.write(watchers, &event);
    }
}

//! Captures that stand for the ports of one configuration are read in the order of time: an answer
//! does not come before its question, whatever file each is in.

use std::sync::Arc;

use parking_lot::Mutex;
use thruway_element::{Cx, Reason};
use thruway_packet::{Batch, Packet};
use thruway_port::capture::LinkType;
use thruway_sync::atomic::{AtomicU64, Ordering};

use super::losses::Lost;
use super::shape::kind_of_destination;
use thruway_elements_captures::capture_in::{CaptureIn, Taken};

/// What a round of a source came to, besides packets.
pub(super) enum Filled {
    /// Its next packet comes in one of its next rounds.
    Waits,
    /// It is at its end.
    End,
    /// It is woken when there is something.
    Idle,
    /// The same, and it looks again soon.
    Later,
}

/// Before the first look at a capture, and after its end: nobody waits for it.
const NOTHING: u64 = u64::MAX;

/// The time of the next packet of each capture, in nanoseconds.
#[derive(Default)]
pub(super) struct Timeline(Mutex<Vec<Arc<AtomicU64>>>);

/// One capture's part of it.
pub(super) struct Turn {
    own: Arc<AtomicU64>,
    timeline: Arc<Timeline>,
    /// The others', once all are known.
    others: Option<Vec<Arc<AtomicU64>>>,
    /// Read, and not yet due.
    next: Option<(Packet, LinkType)>,
}

impl Turn {
    /// That of a capture which is being opened.
    pub(super) fn new(timeline: &Arc<Timeline>) -> Turn {
        let own = Arc::new(AtomicU64::new(NOTHING));
        let mut all = timeline.0.lock();
        all.push(Arc::clone(&own));
        Turn { own, timeline: Arc::clone(timeline), others: None, next: None }
    }

    /// The time up to which packets are due now. Each capture's first round only makes its next
    /// packet known: true then.
    fn begin(&mut self) -> (u64, bool) {
        let is_first = self.others.is_none();
        let others = self.others.get_or_insert_with(|| {
            let all = self.timeline.0.lock();
            all.iter().filter(|other| !Arc::ptr_eq(other, &self.own)).cloned().collect()
        });
        let least = others.iter().map(|other| other.load(Ordering::Relaxed)).min();
        (least.unwrap_or(NOTHING), is_first && !others.is_empty())
    }

    /// What was read before and is not given yet.
    fn take(&mut self) -> Option<(Packet, LinkType)> {
        self.next.take()
    }

    /// Keeps a packet for later: the others wait for it when theirs are younger.
    fn keep(&mut self, packet: Packet, link: LinkType) {
        self.own.store(time(&packet), Ordering::Relaxed);
        self.next = Some((packet, link));
    }

    /// Takes packets of the capture that are due.
    pub(super) fn fill(
        &mut self,
        capture: &mut CaptureIn,
        cx: &mut Cx<'_>,
        max: usize,
        batch: &mut Batch,
    ) -> Filled {
        let (due, is_first) = self.begin();
        for _ in 0..max {
            let taken = match self.take() {
                Some((packet, link)) => Taken::Packet(packet, link),
                None => capture.take(),
            };
            match taken {
                Taken::Packet(packet, link) if is_first || time(&packet) > due => {
                    self.keep(packet, link);
                    return Filled::Waits;
                }
                Taken::Packet(mut packet, link) => {
                    packet.set_kind(kind_of_destination(&packet, link));
                    batch.push(packet);
                }
                Taken::TooLong => cx.count_drops(Lost::TooLong, 1),
                Taken::NoMemory => cx.count_drops(Reason::NO_MEMORY, 1),
                Taken::Damage(line) => {
                    cx.count_drops(Lost::Damaged, 1);
                    cx.log(&line);
                    self.leave();
                    return Filled::End;
                }
                Taken::End => {
                    self.leave();
                    return Filled::End;
                }
            }
        }
        Filled::Waits
    }

    /// Nobody is to wait for it: it is at its end, or not active.
    pub(super) fn leave(&self) {
        self.own.store(NOTHING, Ordering::Relaxed);
    }
}

/// When a packet came, in nanoseconds; before 1970 is 0.
fn time(packet: &Packet) -> u64 {
    u64::try_from(packet.timestamp()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(ns: i64) -> Packet {
        let mut packet = Packet::new(&[0]).expect("a frame");
        packet.set_timestamp(ns);
        packet
    }

    #[test]
    fn the_first_round_only_tells_and_then_the_older_packet_is_due() {
        let timeline = Arc::default();
        let (mut a, mut b) = (Turn::new(&timeline), Turn::new(&timeline));
        assert!(a.begin().1);
        a.keep(packet(20), LinkType::Ethernet);
        assert!(b.begin().1);
        b.keep(packet(10), LinkType::Ethernet);
        assert_eq!((a.begin(), b.begin()), ((10, false), (20, false)));
        assert_eq!(b.take().map(|(packet, _)| packet.timestamp()), Some(10));
        b.leave();
        assert_eq!(a.begin(), (NOTHING, false));
    }

    #[test]
    fn one_alone_waits_for_nobody() {
        assert_eq!(Turn::new(&Arc::default()).begin(), (NOTHING, false));
    }
}

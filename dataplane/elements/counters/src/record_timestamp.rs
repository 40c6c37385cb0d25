//! RecordTimestamp: remembers when packets passed, for TimestampDiff.

use std::sync::{Arc, OnceLock};

use thruway_element::{
    ArgErrors, Args, Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, Spec,
    Topic, Ty, Verdict, reasons,
};
use thruway_packet::Batch;
use thruway_sync::atomic::{AtomicU64, Ordering};

use super::number_packet::{self, NumberField};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<RecordTimestamp>(Spec {
    name: "RecordTimestamp",
    topic: Topic::Counters,
    summary: "remembers when numbered packets passed",
    docs: "Remembers the present time under the number that NumberPacket wrote at OFFSET, or, \
           without OFFSET, under 0 for the first packet, 1 for the next and so on; \
           TimestampDiff asks for it. It remembers the last N packets, of numbers that follow \
           each other: DYNAMIC is accepted and makes no difference. Packets that end before \
           OFFSET are dropped.",
    example: "InfiniteSource(LIMIT 3, STOP true) -> NumberPacket -> r :: RecordTimestamp(OFFSET 40) \
              -> TimestampDiff(r) -> Discard",
    processing: "h/h",
    drops: RecordTimestampDrop::DROPS,
    changes: Changes::Nothing,
    cost: &[Operation::Clock.once()],
    replicas: Replicas::Sharing("the times, by number"),
    ..Spec::DEFAULT
});

reasons! {
    /// Why a packet goes no further.
    enum RecordTimestampDrop {
        TooShort = "too-short": "it ends before its number",
    }
}

const N_MAX: usize = 1 << 24;

/// When a packet passed.
#[derive(Debug)]
struct Slot {
    /// The packet's number and one; 0 for none.
    number: AtomicU64,
    /// Nanoseconds, as two's complement.
    time: AtomicU64,
}

/// The times, shared by all threads and by readers.
#[derive(Debug, Default)]
pub(super) struct Record {
    slots: OnceLock<Box<[Slot]>>,
    count: AtomicU64,
    net_order: OnceLock<bool>,
}

impl Record {
    /// The record of the element of that (full) name, which need not be there (yet).
    pub(super) fn of(args: &Args<'_>, element: &str) -> Option<Arc<Record>> {
        args.env().shared.get(element, "record", Record::default)
    }

    /// That of the element that is being built, for `n` packets.
    fn prepared(args: &Args<'_>, n: usize, net_order: bool) -> Result<Arc<Record>, ArgErrors> {
        let record = Record::of(args, args.name()).ok_or_else(|| ArgErrors::whole("no record"))?;
        record.prepare(n, net_order);
        Ok(record)
    }

    fn prepare(&self, n: usize, net_order: bool) {
        let slot = || Slot { number: AtomicU64::new(0), time: AtomicU64::new(0) };
        self.slots.get_or_init(|| std::iter::repeat_with(slot).take(n).collect());
        self.net_order.get_or_init(|| net_order);
    }

    /// Whether there is an element that writes it, and how the numbers of its packets are written.
    pub(super) fn net_order(&self) -> Option<bool> {
        self.net_order.get().copied()
    }

    fn slot(&self, number: u64) -> Option<&Slot> {
        let slots = self.slots.get()?;
        slots.get((number % (slots.len() as u64).max(1)) as usize)
    }

    fn put(&self, number: u64, now: i64) {
        if let Some(slot) = self.slot(number) {
            // Release pairs with the acquire in `take`: a reader that sees the number sees its
            // time.
            slot.time.store(now as u64, Ordering::Relaxed);
            slot.number.store(number.wrapping_add(1), Ordering::Release);
        }
    }

    /// When packet `number` passed; each time is given once. Where the packet N further on passes
    /// another thread at this very moment, it may be the time of that one.
    pub(super) fn take(&self, number: u64) -> Option<i64> {
        let slot = self.slot(number)?;
        let expected = number.wrapping_add(1);
        // Acquire: see `put`. Relaxed where it fails: nothing is read then.
        let taken = slot.number.compare_exchange(expected, 0, Ordering::Acquire, Ordering::Relaxed);
        (expected != 0 && taken.is_ok()).then(|| slot.time.load(Ordering::Relaxed) as i64)
    }
}

#[derive(Arguments, Handlers)]
struct RecordTimestamp {
    #[arg(
        optional, name = "COUNTER", unread, ty = Ty::Element,
        "a NumberPacket; accepted for FastClick's sake"
    )]
    #[arg(
        keyword, name = "N", value = usize, or = "65536", range = 1..=N_MAX,
        "packets to remember, 1 to 16777216"
    )]
    #[arg(
        keyword, name = "OFFSET", value = i64, or = "-1", "where the number is; -1 to count"
    )]
    #[arg(
        keyword, name = "DYNAMIC", checked = bool, or = "false", "accepted for FastClick's sake"
    )]
    #[arg(like = number_packet::NET_ORDER, name = "NET_ORDER", value = bool)]
    #[new(if offset < 0 { None } else { Some(NumberField::new(args, net_order)?) })]
    field: Option<NumberField>,
    #[new(Record::prepared(args, n, net_order)?)]
    record: Arc<Record>,
}

impl Element for RecordTimestamp {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let (now, record) = (cx.now(), &self.record);
        let Some(field) = self.field else {
            // Relaxed: only that numbers differ matters.
            let first = record.count.fetch_add(batch.len() as u64, Ordering::Relaxed);
            (first..).zip(batch.iter()).for_each(|(number, _)| record.put(number, now));
            return;
        };
        cx.filter(batch, |packet| match field.read(packet.data()) {
            Some(number) => {
                record.put(number, now);
                Verdict::Pass
            }
            None => Verdict::drop(RecordTimestampDrop::TooShort),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_given_once_and_the_last_are_kept() {
        let record = Record::default();
        assert_eq!((record.take(0), record.net_order()), (None, None));
        record.prepare(4, true);
        (0..6).for_each(|number| record.put(number, number as i64 * 10));
        let times: Vec<Option<i64>> = (0..7).map(|number| record.take(number)).collect();
        assert_eq!(times, [None, None, Some(20), Some(30), Some(40), Some(50), None]);
        assert_eq!(record.take(5), None);
        record.put(u64::MAX, 1);
        assert_eq!(record.take(u64::MAX), None);
    }
}

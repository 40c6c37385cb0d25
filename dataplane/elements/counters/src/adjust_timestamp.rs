//! AdjustTimestamp: packets' times moved by a constant.

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, HandlerError, Handlers, Nanos, Operation, Replicas,
    Spec, Topic, handler_value,
};
use thruway_packet::{Anno, Batch, Packet};

use thruway_elements_support::text::timestamp;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<AdjustTimestamp>(Spec {
    name: "AdjustTimestamp",
    topic: Topic::Counters,
    summary: "moves the timestamps of packets",
    docs: "Adds TIME, which may be negative, to each packet's timestamp; with FIRST, to the \
           annotation of the first timestamp. Packets without one (zero) are left alone unless \
           ALL. Times end at the earliest and latest that can be written, about 292 years from \
           1970.",
    example: "InfiniteSource(LIMIT 1, STOP true) -> SetTimestamp(5) -> AdjustTimestamp(-1.5) \
              -> Print(TIMESTAMP true) -> Discard",
    straight: true,
    changes: Changes::Nothing,
    cost: &[Operation::Clock.once()],
    replicas: Replicas::Alike,
    large_packets: true,
    ..Spec::DEFAULT
});

#[derive(Arguments, Handlers)]
#[handler(
    both, name = "time", "time added, in seconds", get = timestamp(self.time),
    write = self.write_time(value)
)]
struct AdjustTimestamp {
    /// what is added
    #[arg(required, as = Nanos)]
    time: i64,
    /// whether the first timestamp is moved
    #[arg(keyword, or = "false")]
    first: bool,
    /// whether a timestamp of zero is moved too
    #[arg(keyword, or = "false")]
    all: bool,
}

impl AdjustTimestamp {
    #[inline]
    fn moved(&self, time: i64) -> i64 {
        if time == 0 && !self.all { 0 } else { time.saturating_add(self.time) }
    }

    #[inline]
    fn adjust(&self, packet: &mut Packet) {
        if !self.first {
            packet.set_timestamp(self.moved(packet.timestamp()));
            return;
        }
        let place = packet.anno_mut(Anno::FIRST_TIMESTAMP);
        if let Some(bytes) = place.first_chunk_mut() {
            *bytes = self.moved(i64::from_ne_bytes(*bytes)).to_ne_bytes();
        }
    }
}

impl AdjustTimestamp {
    fn write_time(&mut self, value: &str) -> Result<(), HandlerError> {
        let Nanos(time) = handler_value("time", value)?;
        self.time = time;
        Ok(())
    }
}

impl Element for AdjustTimestamp {
    fn process(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        for packet in batch {
            self.adjust(packet);
        }
    }
}

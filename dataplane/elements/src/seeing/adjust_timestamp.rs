//! AdjustTimestamp: packets' times moved by a constant.

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Handler, HandlerError, Nanos, Operation,
    Replicas, Spec, Topic, Ty, handler_value,
};
use thruway_packet::{Anno, Batch, Packet};

use super::text::timestamp;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "AdjustTimestamp",
        topic: Topic::Seeing,
        summary: "moves the timestamps of packets",
        docs: "Adds TIME, which may be negative, to each packet's timestamp; with FIRST, to the \
               annotation of the first timestamp. Packets without one (zero) are left alone unless \
               ALL. Times end at the earliest and latest that can be told, about 292 years from \
               1970.",
        example: "InfiniteSource(LIMIT 1, STOP true) -> SetTimestamp(5) -> AdjustTimestamp(-1.5) \
                  -> Print(TIMESTAMP true) -> Discard",
        straight: true,
        args: &[
            Arg::required("TIME", Ty::Time, "what is added"),
            Arg::keyword("FIRST", Ty::Bool, "whether the first timestamp is moved").or("false"),
            Arg::keyword("ALL", Ty::Bool, "whether a timestamp of zero is moved too").or("false"),
        ],
        handlers: &[Handler::both("time", "what is added, in seconds")],
        changes: Changes::Nothing,
        cost: &[Operation::Clock.once()],
        replicas: Replicas::Alike,
        ..Spec::DEFAULT
    },
    build,
);

struct AdjustTimestamp {
    time: i64,
    first: bool,
    all: bool,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let Nanos(time) = args.get("TIME")?;
    Ok(Box::new(AdjustTimestamp { time, first: args.get("FIRST")?, all: args.get("ALL")? }))
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

impl Element for AdjustTimestamp {
    fn process(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        for packet in batch {
            self.adjust(packet);
        }
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, HandlerError> {
        match name {
            "time" => Ok(timestamp(self.time)),
            _ => Err(HandlerError::no_read(name)),
        }
    }

    fn write(&mut self, _cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "time" => {
                let Nanos(time) = handler_value(name, value)?;
                self.time = time;
                Ok(())
            }
            _ => Err(HandlerError::no_write(name)),
        }
    }
}

//! SetTimestampDelta: times since the first packet.

use thruway_element::{
    ArgErrors, Args, Changes, Cx, Element, Entry, Handler, HandlerError, Operation, Spec, Topic,
};
use thruway_packet::Batch;

use super::text::timestamp;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "SetTimestampDelta",
        topic: Topic::Seeing,
        summary: "makes timestamps count from the first",
        docs: "Subtracts the first timestamp that it sees from all. Timestamps of zero are left \
               alone and do not count as the first. A thread counts from the first that it saw \
               itself.",
        example: "InfiniteSource(LIMIT 3, STOP true) -> SetTimestamp -> SetTimestampDelta \
                  -> Print(TIMESTAMP true) -> Discard",
        handlers: &[
            Handler::read("first", "the first timestamp, 0.000000 for none yet"),
            Handler::write("reset", "counts from the next timestamp"),
        ],
        changes: Changes::Nothing,
        cost: &[Operation::Clock.once()],
        ..Spec::DEFAULT
    },
    build,
);

struct SetTimestampDelta {
    /// 0 before there was one.
    first: i64,
}

fn build(_args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    Ok(Box::new(SetTimestampDelta { first: 0 }))
}

impl Element for SetTimestampDelta {
    fn process(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        for packet in batch {
            let time = packet.timestamp();
            if self.first == 0 {
                self.first = time;
            }
            if time != 0 {
                packet.set_timestamp(time.saturating_sub(self.first));
            }
        }
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, HandlerError> {
        match name {
            "first" => Ok(timestamp(self.first)),
            _ => Err(HandlerError::no_read(name)),
        }
    }

    fn write(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<(), HandlerError> {
        match name {
            "reset" => self.first = 0,
            _ => return Err(HandlerError::no_write(name)),
        }
        Ok(())
    }
}

//! Counter: how many packets and bytes went by, and how fast.

use thruway_element::{
    Arg, ArgErrors, Args, Cx, Element, Entry, Handler, HandlerError, Spec, Topic, Ty,
};
use thruway_packet::Batch;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "Counter",
        topic: Topic::Seeing,
        summary: "measures packet count and rate",
        docs: "Passes packets on unchanged and counts them and their bytes. Rates are moving \
               averages over about a second. When COUNT_CALL or BYTE_COUNT_CALL is given, that \
               write handler is called once, when the count reaches N.",
        example: "InfiniteSource(LIMIT 3, STOP true) -> c :: Counter -> Discard",
        args: &[
            Arg::keyword("COUNT_CALL", Ty::Any, "N HANDLER [VALUE]: called when count reaches N"),
            Arg::keyword("BYTE_COUNT_CALL", Ty::Any, "N HANDLER [VALUE]: the same for bytes"),
        ],
        handlers: &[
            Handler::sum("count", "packets"),
            Handler::sum("byte_count", "bytes"),
            Handler::write("reset", "sets the counts to zero"),
            Handler::write("reset_counts", "sets the counts to zero"),
        ],
        ..Spec::DEFAULT
    },
    build,
);

struct Counter {
    count: u64,
    bytes: u64,
}

fn build(_args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    Ok(Box::new(Counter { count: 0, bytes: 0 }))
}

impl Element for Counter {
    fn process(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        self.count += batch.len() as u64;
        self.bytes += batch.bytes();
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, HandlerError> {
        match name {
            "count" => Ok(self.count.to_string()),
            "byte_count" => Ok(self.bytes.to_string()),
            _ => Err(HandlerError::no_read(name)),
        }
    }

    fn write(&mut self, _cx: &mut Cx<'_>, name: &str, _value: &str) -> Result<(), HandlerError> {
        match name {
            "reset" | "reset_counts" => (self.count, self.bytes) = (0, 0),
            _ => return Err(HandlerError::no_write(name)),
        }
        Ok(())
    }
}

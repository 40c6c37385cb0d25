//! TimeRange: the first and last timestamp.

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Handler, HandlerError, Handlers, Operation,
    Replicas, Spec, Topic, Ty,
};
use thruway_packet::Batch;

use thruway_elements_support::text::timestamp;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "TimeRange",
        topic: Topic::Counters,
        summary: "remembers the earliest and latest timestamp of packets",
        docs: "Lets packets pass and remembers the smallest range that holds all their timestamps. \
               SIMPLE makes no difference. With several threads, each remembers its own.",
        example: "InfiniteSource(LIMIT 3, STOP true) -> SetTimestamp -> TimeRange -> Discard",
        args: &[Arg::keyword("SIMPLE", Ty::Bool, "whether timestamps only grow").or("false")],
        handlers: &[
            Handler::read("first", "the earliest timestamp; 0.0 if no packet came").lines(),
            Handler::read("last", "the latest timestamp; 0.0 if no packet came").lines(),
            Handler::read("range", "both").lines(),
            Handler::read("interval", "the time between them, in seconds").lines(),
            Handler::write("reset", "forgets them"),
        ],
        changes: Changes::Nothing,
        cost: &[Operation::Annotate.once()],
        replicas: Replicas::Apart("each tells the range of its thread, in a line of its own"),
        ..Spec::DEFAULT
    },
    build,
)
.with_handlers::<TimeRange>();

#[derive(Default)]
struct TimeRange {
    /// First and last.
    range: Option<(i64, i64)>,
}

fn build(_args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    Ok(Box::new(TimeRange::default()))
}

impl Element for TimeRange {
    fn process(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        for packet in batch {
            let time = packet.timestamp();
            let (first, last) = self.range.unwrap_or((time, time));
            self.range = Some((first.min(time), last.max(time)));
        }
    }
}

impl Handlers for TimeRange {
    fn read_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        let text =
            |time: i64| if self.range.is_some() { timestamp(time) } else { "0.0".to_owned() };
        let (first, last) = self.range.unwrap_or_default();
        match name {
            "first" => Ok(text(first)),
            "last" => Ok(text(last)),
            "range" => Ok(format!("{} {}", text(first), text(last))),
            "interval" => Ok(text(last.saturating_sub(first))),
            _ => Err(HandlerError::no_read(name)),
        }
    }

    fn write_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        _value: &str,
    ) -> Result<(), HandlerError> {
        match name {
            "reset" => self.range = None,
            _ => return Err(HandlerError::no_write(name)),
        }
        Ok(())
    }
}

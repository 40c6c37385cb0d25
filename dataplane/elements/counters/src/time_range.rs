//! TimeRange: the first and last timestamp.

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic, Ty,
};
use thruway_packet::Batch;

use thruway_elements_support::text::timestamp;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<TimeRange>(Spec {
    name: "TimeRange",
    topic: Topic::Counters,
    summary: "remembers the earliest and latest timestamp of packets",
    docs: "Lets packets pass and remembers the smallest range that holds all their timestamps. \
           SIMPLE makes no difference. With several threads, each remembers its own.",
    example: "InfiniteSource(LIMIT 3, STOP true) -> SetTimestamp -> TimeRange -> Discard",
    changes: Changes::Nothing,
    cost: &[Operation::Annotate.once()],
    replicas: Replicas::Apart("each shows the range of its thread, in a line of its own"),
    ..Spec::DEFAULT
});

#[derive(Arguments, Handlers)]
#[handler(
    read, lines, name = "first", "the earliest timestamp; 0.0 if no packet came",
    get = self.text(|(first, _)| first)
)]
#[handler(
    read, lines, name = "last", "the latest timestamp; 0.0 if no packet came",
    get = self.text(|(_, last)| last)
)]
#[handler(
    read, lines, name = "range", "both",
    get = format!("{} {}", self.text(|(first, _)| first), self.text(|(_, last)| last))
)]
#[handler(
    read, lines, name = "interval", "the time between them, in seconds",
    get = self.text(|(first, last)| last.saturating_sub(first))
)]
#[handler(write, name = "reset", "forgets them", run = self.range = None)]
#[arg(
    keyword, name = "SIMPLE", unread, ty = Ty::Bool, or = "false", "whether timestamps only grow"
)]
struct TimeRange {
    /// First and last.
    range: Option<(i64, i64)>,
}

impl TimeRange {
    fn text(&self, what: impl FnOnce((i64, i64)) -> i64) -> String {
        self.range.map_or("0.0".to_owned(), |range| timestamp(what(range)))
    }
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

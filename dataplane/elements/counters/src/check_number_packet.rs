//! CheckNumberPacket: counts which numbers came back.

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, HandlerError, Handlers, Operation, Replicas, Spec,
    Topic, Verdict, handler_value, reasons,
};
use thruway_packet::Batch;

use super::number_packet::{self, NumberField};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<CheckNumberPacket>(Spec {
    name: "CheckNumberPacket",
    topic: Topic::Counters,
    summary: "counts packets by the number that NumberPacket wrote into them",
    docs: "Reads the number at OFFSET of each packet and counts how often it came. A packet that \
           is too short for it, or with a number of COUNT or more, leaves by output 1, or is \
           dropped if that is unconnected.",
    example: "InfiniteSource(LIMIT 3, STOP true) -> NumberPacket \
              -> c :: CheckNumberPacket(COUNT 3) -> Discard",
    ports: "1/1-2",
    processing: "h/h",
    straight: true,
    drops: Unexpected::DROPS,
    changes: Changes::Nothing,
    cost: &[Operation::HeaderRead.once(), Operation::ArrayLookup.once()],
    replicas: Replicas::OneThread("it counts how often each number comes, in one table"),
    large_packets: true,
    ..Spec::DEFAULT
});

reasons! {
    /// Why a packet leaves by output 1.
    enum Unexpected {
        TooShort = "too-short": "it ends before its number",
        OutOfScope = "out-of-scope": "its number is COUNT or more",
    }
}

const COUNT_MAX: usize = 1 << 24;

#[derive(Arguments, Handlers)]
#[handler(
    read, name = "min", "the number that came least often, and how often",
    get = pick(&self.seen, |times, least| times < least)
)]
#[handler(
    read, name = "max", "the number that came most often, and how often",
    get = pick(&self.seen, |times, most| times > most)
)]
#[handler(
    both, name = "count", "numbers to expect", get = self.seen.len(),
    write = self.write_count(value)
)]
#[handler(read, name = "dump", "how often each came, a line each", get = self.dump())]
struct CheckNumberPacket {
    #[arg(like = number_packet::OFFSET, unread)]
    #[arg(
        optional, name = "COUNT", value = usize, via = at_most, or = "0",
        "numbers to expect, at most 16777216"
    )]
    #[arg(like = number_packet::NET_ORDER, name = "NET_ORDER", value = bool)]
    #[new(NumberField::new(args, net_order)?)]
    field: NumberField,
    #[new(vec![0; count])]
    seen: Vec<u32>,
}

fn at_most(count: usize) -> Result<usize, String> {
    if count > COUNT_MAX { Err(format!("at most {COUNT_MAX}")) } else { Ok(count) }
}

/// The first of those that `better` prefers to all others.
fn pick(seen: &[u32], better: impl Fn(u32, u32) -> bool) -> String {
    let mut best: Option<(usize, u32)> = None;
    for (number, times) in seen.iter().enumerate() {
        if best.is_none_or(|(_, most)| better(*times, most)) {
            best = Some((number, *times));
        }
    }
    best.map_or("[-1] : -1".to_owned(), |(number, times)| format!("[{number}] : {times}"))
}

impl CheckNumberPacket {
    fn dump(&self) -> String {
        let lines = self.seen.iter().enumerate();
        lines.map(|(number, times)| format!("{number}: {times}\n")).collect()
    }

    fn write_count(&mut self, value: &str) -> Result<(), HandlerError> {
        let refused = |why| HandlerError::refused(format!("count: {why}"));
        self.seen.resize(at_most(handler_value("count", value)?).map_err(refused)?, 0);
        Ok(())
    }
}

impl Element for CheckNumberPacket {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let (field, seen) = (self.field, &mut self.seen);
        cx.filter(batch, |packet| {
            let Some(number) = field.read(packet.data()) else {
                return Verdict::reject(1, Unexpected::TooShort);
            };
            match usize::try_from(number).ok().and_then(|number| seen.get_mut(number)) {
                Some(times) => *times = times.saturating_add(1),
                None => return Verdict::reject(1, Unexpected::OutOfScope),
            }
            Verdict::Pass
        });
    }
}

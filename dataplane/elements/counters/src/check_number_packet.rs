//! CheckNumberPacket: counts which numbers came back.

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, HandlerError, Handlers, Operation, Replicas,
    Spec, Topic, Ty, Verdict, handler_value, reasons,
};
use thruway_packet::Batch;

use super::number_packet::{self, NumberField};

/// See the spec.
pub static ENTRY: Entry = Entry::built::<CheckNumberPacket>(
    Spec {
        name: "CheckNumberPacket",
        topic: Topic::Counters,
        summary: "counts packets by the number that NumberPacket wrote into them",
        docs: "Reads the number at OFFSET of each packet and counts how often it came. Packets that \
               end before, or whose number is COUNT or more, leave by output 1, or are dropped \
               where there is none.",
        example: "InfiniteSource(LIMIT 3, STOP true) -> NumberPacket \
                  -> c :: CheckNumberPacket(COUNT 3) -> Discard",
        ports: "1/1-2",
        processing: "h/h",
        straight: true,
        args: &[
            number_packet::OFFSET,
            Arg::optional("COUNT", Ty::UInt, "numbers to expect, at most 16777216").or("0"),
            number_packet::NET_ORDER,
        ],
        drops: Unexpected::DROPS,
        changes: Changes::Nothing,
        cost: &[Operation::HeaderRead.once(), Operation::ArrayLookup.once()],
        replicas: Replicas::OneThread("it counts how often each number comes, in one table"),
        large_packets: true,
        ..Spec::DEFAULT
    },
    build,
);

reasons! {
    /// Why a packet leaves by output 1.
    enum Unexpected {
        TooShort = "too-short": "it ends before its number",
        OutOfScope = "out-of-scope": "its number is COUNT or more",
    }
}

const COUNT_MAX: usize = 1 << 24;

#[derive(Handlers)]
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
#[handler(read, name = "dump", "how often each came, a line each", read = self.read_dump())]
struct CheckNumberPacket {
    field: NumberField,
    seen: Vec<u32>,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let count: usize = args.get("COUNT")?;
    if count > COUNT_MAX {
        return Err(args.error("COUNT", format!("at most {COUNT_MAX}")).into());
    }
    let field = NumberField::new(args, args.get("NET_ORDER")?)?;
    Ok(Box::new(CheckNumberPacket { field, seen: vec![0; count] }))
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
    fn read_dump(&mut self) -> Result<String, HandlerError> {
        let lines = self.seen.iter().enumerate();
        Ok(lines.map(|(number, times)| format!("{number}: {times}\n")).collect())
    }

    fn write_count(&mut self, value: &str) -> Result<(), HandlerError> {
        match handler_value("count", value)? {
            count @ 0..=COUNT_MAX => self.seen.resize(count, 0),
            _ => return Err(HandlerError::refused(format!("count: at most {COUNT_MAX}"))),
        }
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

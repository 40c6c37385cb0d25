//! CheckNumberPacket: counts which numbers came back.

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Handler, HandlerError, Operation, Replicas,
    Spec, Topic, Ty, Verdict, handler_value, reasons,
};
use thruway_packet::Batch;

use super::number_packet::{self, Place};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "CheckNumberPacket",
        topic: Topic::Seeing,
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
        handlers: &[
            Handler::read("min", "the number that came least often, and how often"),
            Handler::read("max", "the number that came most often, and how often"),
            Handler::both("count", "numbers to expect"),
            Handler::read("dump", "how often each came, a line each"),
        ],
        changes: Changes::Nothing,
        cost: &[Operation::HeaderRead.once(), Operation::ArrayLookup.once()],
        replicas: Replicas::OneThread("it counts how often each number comes, in one table"),
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

struct CheckNumberPacket {
    place: Place,
    seen: Vec<u32>,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let count: usize = args.get("COUNT")?;
    if count > COUNT_MAX {
        return Err(args.error("COUNT", format!("at most {COUNT_MAX}")).into());
    }
    let place = Place::new(args, args.get("NET_ORDER")?)?;
    Ok(Box::new(CheckNumberPacket { place, seen: vec![0; count] }))
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

impl Element for CheckNumberPacket {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let (place, seen) = (self.place, &mut self.seen);
        cx.sift(batch, |packet| {
            let Some(number) = place.read(packet.data()) else {
                return Verdict::reject(1, Unexpected::TooShort);
            };
            match usize::try_from(number).ok().and_then(|number| seen.get_mut(number)) {
                Some(times) => *times = times.saturating_add(1),
                None => return Verdict::reject(1, Unexpected::OutOfScope),
            }
            Verdict::Pass
        });
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, HandlerError> {
        match name {
            "min" => Ok(pick(&self.seen, |times, least| times < least)),
            "max" => Ok(pick(&self.seen, |times, most| times > most)),
            "count" => Ok(self.seen.len().to_string()),
            "dump" => {
                let lines = self.seen.iter().enumerate();
                Ok(lines.map(|(number, times)| format!("{number}: {times}\n")).collect())
            }
            _ => Err(HandlerError::no_read(name)),
        }
    }

    fn write(&mut self, _cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "count" => match handler_value(name, value)? {
                count @ 0..=COUNT_MAX => self.seen.resize(count, 0),
                _ => return Err(HandlerError::refused(format!("count: at most {COUNT_MAX}"))),
            },
            _ => return Err(HandlerError::no_write(name)),
        }
        Ok(())
    }
}

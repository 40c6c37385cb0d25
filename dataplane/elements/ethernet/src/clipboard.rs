//! Clipboard: bytes of one packet into others.

use std::ops::Range;

use thruway_element::{
    ArgErrors, Args, Arguments, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic, Ty,
    Verdict, reasons,
};
use thruway_packet::{Batch, Packet};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<Clipboard>(Spec {
    name: "Clipboard",
    topic: Topic::Ethernet,
    summary: "copies bytes from one packet into others",
    docs: "Each RANGE is OFFSET/LENGTH. Of a packet that enters by input 0, the bytes of the \
           ranges are remembered, and it leaves by output 0 unchanged. In one that enters by input \
           1 they are replaced by those remembered last, and it leaves by output 1. Packets that \
           do not have the ranges' bytes are dropped; before anything was remembered, packets at \
           input 1 pass unchanged. Each thread has a memory of its own. Ranges may have 65,536 \
           bytes together.",
    example: "InfiniteSource(LENGTH 20, LIMIT 1) -> c :: Clipboard(0/4) -> Discard;\n\
              InfiniteSource(LENGTH 9, LIMIT 1, STOP true) -> [1] c [1] -> Print -> Discard",
    ports: "2/2",
    processing: "a/a",
    flow: "#/#",
    drops: Short::DROPS,
    cost: &[Operation::HeaderWrite.once()],
    replicas: Replicas::OneThread(
        "bytes copied from a packet go into the next ones of another input, from any \
         source",
    ),
    ..Spec::DEFAULT
});

reasons! {
    /// Why a packet goes no further.
    enum Short {
        TooShort = "too-short": "it ends before a range does",
    }
}

/// Bytes of all ranges together, and where the last may end.
const BYTES_MAX: usize = 65_536;

#[derive(Arguments, Handlers)]
struct Clipboard {
    #[arg(rest, name = "RANGE", ty = Ty::Rule("OFFSET/LENGTH"), "bytes to copy")]
    #[new(ranges(args)?)]
    ranges: Vec<Range<usize>>,
    /// Where the last range ends.
    #[new(ranges.iter().map(|range| range.end).max().unwrap_or(0))]
    end: usize,
    /// The copied bytes, range by range; nothing yet if empty.
    #[new(Vec::with_capacity(length(&ranges)))]
    bytes: Vec<u8>,
}

/// Bytes of all ranges together.
fn length(ranges: &[Range<usize>]) -> usize {
    ranges.iter().map(ExactSizeIterator::len).sum()
}

fn parse(text: &str, args: &Args<'_>) -> Result<Range<usize>, String> {
    let parts = text.split_once('/').ok_or(format!("'{text}': expected OFFSET/LENGTH"))?;
    let (offset, length): (u32, u32) = (args.parse(parts.0)?, args.parse(parts.1)?);
    match u64::from(offset) + u64::from(length) {
        end @ 0..=65_536 => Ok(offset as usize..end as usize),
        end => Err(format!("'{text}' ends at byte {end}; packets have {BYTES_MAX} at most")),
    }
}

fn ranges(args: &Args<'_>) -> Result<Vec<Range<usize>>, ArgErrors> {
    let (mut ranges, mut wrong) = (Vec::new(), Vec::new());
    for (at, text) in args.rest() {
        match parse(text, args) {
            Ok(range) => ranges.push(range),
            Err(why) => wrong.push(args.rest_error(at, why)),
        }
    }
    if !wrong.is_empty() {
        return Err(ArgErrors(wrong));
    }
    let length = length(&ranges);
    if ranges.is_empty() || length > BYTES_MAX {
        let what = format!("give ranges of 1 to {BYTES_MAX} bytes together, not {length}");
        return Err(ArgErrors::whole(what));
    }
    Ok(ranges)
}

impl Clipboard {
    fn copy(&mut self, packet: &Packet) {
        self.bytes.clear();
        for range in &self.ranges {
            self.bytes.extend_from_slice(&packet.data()[range.clone()]);
        }
    }

    fn paste(&self, packet: &mut Packet) {
        let mut rest = &self.bytes[..];
        for range in &self.ranges {
            let Some((bytes, left)) = rest.split_at_checked(range.len()) else { return };
            packet.data_mut()[range.clone()].copy_from_slice(bytes);
            rest = left;
        }
    }
}

impl Element for Clipboard {
    fn process(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        let end = self.end;
        cx.filter(batch, |packet| match packet.len() >= end {
            true => Verdict::Pass,
            false => Verdict::drop(Short::TooShort),
        });
        if port == 0 {
            // The last is what stays.
            if let Some(packet) = batch.iter().last() {
                self.copy(packet);
            }
        } else {
            for packet in batch.iter_mut() {
                self.paste(packet);
            }
        }
        cx.emit_all(port, batch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thruway_elements_rig::Rig;

    #[test]
    fn ranges_are_copied_in_their_order() {
        let mut rig = Rig::with_inputs(&ENTRY, &["2/2", "0/1"], 2, 2).unwrap();
        let packet = |bytes: &[u8]| [Packet::new(bytes).unwrap()];
        assert_eq!(rig.push_at(1, packet(b"wxyz"))[1][0].data(), b"wxyz");
        assert_eq!(rig.push_at(0, packet(b"abcd"))[0][0].data(), b"abcd");
        assert_eq!(rig.push_at(1, packet(b"wxyz!"))[1][0].data(), b"axcd!");
        assert!(rig.push_at(0, packet(b"abc")).iter().all(Vec::is_empty));
        assert_eq!(rig.push_at(1, packet(b"wxyz"))[1][0].data(), b"axcd");
    }

    #[test]
    fn ranges_that_cannot_be() {
        for texts in
            [&[][..], &["1"], &["1/x"], &["4294967295/4294967295"], &["0/40000", "0/40000"]]
        {
            assert!(Rig::with_inputs(&ENTRY, texts, 2, 2).is_err(), "{texts:?}");
        }
    }
}

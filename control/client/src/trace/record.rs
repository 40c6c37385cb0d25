//! The answers of the handler `trace`, read.

use anyhow::{Context as _, bail};
use thruway_wire::Layers;

/// Bytes of annotations that a packet has.
pub const ANNOTATIONS: usize = 28;

/// A packet at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shot {
    /// Its length, bytes.
    pub len: usize,
    /// Where it begins in its frame, bytes.
    pub start: i64,
    /// Which frame it is in.
    pub frame: u64,
    /// Where its marked network header begins, relative to its first byte.
    pub network: Option<i64>,
    /// Word of the flow manager.
    pub fcb: u32,
    /// Its annotations.
    pub annotations: [u8; ANNOTATIONS],
    /// Its first bytes.
    pub bytes: Vec<u8>,
}

impl Shot {
    /// Where its headers are.
    pub fn layers(&self) -> Layers {
        let marked = self.network.and_then(|at| usize::try_from(at).ok());
        Layers::find(&self.bytes, marked)
    }

    fn read(words: &[&str]) -> Option<Shot> {
        let [len, start, frame, _mac, network, _transport, fcb, annotations, bytes] = words else {
            return None;
        };
        let place = |word: &str| match word {
            "-" => Some(None),
            at => at.parse::<i64>().ok().map(Some),
        };
        Some(Shot {
            len: len.parse().ok()?,
            start: start.parse().ok()?,
            frame: u64::from_str_radix(frame, 16).ok()?,
            network: place(network)?,
            fcb: fcb.parse().ok()?,
            annotations: hex(annotations)?.try_into().ok()?,
            bytes: hex(bytes)?,
        })
    }
}

fn hex(word: &str) -> Option<Vec<u8>> {
    if word == "-" {
        return Some(Vec::new());
    }
    let digits: Option<Vec<u8>> =
        word.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
    Some(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// What happened to a packet at an element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// It came by this input.
    In(u32),
    /// It left by this output.
    Out(u32),
    /// It was dropped for this reason.
    Dropped(String),
    /// This reason was counted, and it left by another way than usual.
    Counted(String),
    /// It ended among other packets, some of which were dropped for this reason.
    PerhapsDropped(String),
    /// It ended: sent, freed, or put into another.
    Ended,
    /// The element keeps it.
    Kept,
    /// So many packets that are not followed left because of it.
    Others(u64),
}

impl What {
    /// Whether nothing more comes of the packet.
    pub fn is_end(&self) -> bool {
        matches!(self, What::Dropped(_) | What::PerhapsDropped(_) | What::Ended)
    }

    fn read(word: &str, detail: &str) -> Option<What> {
        Some(match word {
            "in" => What::In(detail.parse().ok()?),
            "out" => What::Out(detail.parse().ok()?),
            "dropped" => What::Dropped(detail.to_owned()),
            "counted" => What::Counted(detail.to_owned()),
            "perhaps-dropped" => What::PerhapsDropped(detail.to_owned()),
            "ended" => What::Ended,
            "kept" => What::Kept,
            "others" => What::Others(detail.parse().ok()?),
            _ => return None,
        })
    }
}

/// One event.
#[derive(Debug, Clone)]
pub struct Record {
    /// Thread that saw it.
    pub thread: usize,
    /// Cycle counter at that moment.
    pub cycles: u64,
    /// Number of the packet.
    pub packet: u64,
    /// The packet that it is a copy of, 0 for none.
    pub parent: u64,
    /// Name of the element.
    pub element: String,
    /// Its class.
    pub class: String,
    /// What happened.
    pub what: What,
    /// The packet, while it was there.
    pub shot: Option<Shot>,
}

impl Record {
    fn read(words: &[&str]) -> Option<Record> {
        let [thread, cycles, packet, parent, element, class, what, detail, shot @ ..] = words
        else {
            return None;
        };
        let shot = if shot.is_empty() { None } else { Some(Shot::read(shot)?) };
        Some(Record {
            thread: thread.parse().ok()?,
            cycles: cycles.parse().ok()?,
            packet: packet.parse().ok()?,
            parent: parent.parse().ok()?,
            element: (*element).to_owned(),
            class: (*class).to_owned(),
            what: What::read(what, detail)?,
            shot,
        })
    }
}

/// Counts of a trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that are still to be chosen.
    pub left: u64,
    /// Packets that were chosen.
    pub chosen: u64,
    /// Packets that fitted and could not be followed.
    pub unmarked: u64,
    /// Copies that could not be followed.
    pub unmarked_copies: u64,
    /// Events for which there was no room.
    pub lost: u64,
}

/// One answer.
#[derive(Debug, Default)]
pub struct Answer {
    /// Cycle counter and nanoseconds since 1970, of one moment.
    pub time: (u64, i64),
    /// Counts of the trace.
    pub counts: Counts,
    /// What was seen since the last answer.
    pub records: Vec<Record>,
}

impl Answer {
    /// Reads what the handler said.
    ///
    /// # Errors
    /// It is no answer of a trace.
    pub fn read(text: &str) -> anyhow::Result<Answer> {
        let mut answer = Answer::default();
        for line in text.lines() {
            let words: Vec<&str> = line.split('\t').collect();
            let read = match words[..] {
                ["time", cycles, ns] => cycles.parse().ok().zip(ns.parse().ok()).map(|time| {
                    answer.time = time;
                }),
                ["trace", ref counts @ ..] => read_counts(counts).map(|counts| {
                    answer.counts = counts;
                }),
                ["event", ref words @ ..] => Record::read(words).map(|record| {
                    answer.records.push(record);
                }),
                _ => None,
            };
            if read.is_none() {
                let start: String = line.chars().take(80).collect();
                bail!("the handler 'trace' says '{start}', which is no line of a trace");
            }
        }
        (answer.time != (0, 0))
            .then_some(answer)
            .context("the handler 'trace' does not say the time")
    }
}

fn read_counts(words: &[&str]) -> Option<Counts> {
    let numbers: Option<Vec<u64>> = words.iter().map(|word| word.parse().ok()).collect();
    let [left, chosen, unmarked, unmarked_copies, lost] = numbers?[..] else { return None };
    Some(Counts { left, chosen, unmarked, unmarked_copies, lost })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read() {
        let shot = format!("3\t128\t7f00\t-\t-4\t-\t0\t{}\t0a0B0c", "0".repeat(56));
        let text = format!(
            "time\t100\t200\ntrace\t1\t2\t3\t4\t5\nevent\t0\t90\t7\t6\ta/b\tNull\tout\t2\t{shot}\n"
        );
        let answer = Answer::read(&text).unwrap();
        assert_eq!(answer.time, (100, 200));
        assert_eq!((answer.counts.left, answer.counts.lost), (1, 5));
        let record = &answer.records[0];
        assert_eq!((record.packet, record.parent, &record.what), (7, 6, &What::Out(2)));
        let shot = record.shot.as_ref().unwrap();
        assert_eq!((shot.network, &shot.bytes[..]), (Some(-4), &[10, 11, 12][..]));
    }

    #[test]
    fn what_is_no_trace_is_refused() {
        let time = "time\t1\t2\n";
        for text in [
            "",
            "trace\t1\t2\t3\t4\t5",
            &format!("{time}trace\t1"),
            &format!("{time}event\t0\t1\t2\t3\ta\tb\tflew\t0"),
            &format!("{time}event\t0\t1\t2\t3\ta\tb\tin\t0\t1\t2\t3"),
            &format!("{time}event\t0\t1\t2\t3\ta\tb\tin\tx"),
            &format!("{time}\u{e9}\u{e9}"),
        ] {
            assert!(Answer::read(text).is_err(), "{text}");
        }
    }
}

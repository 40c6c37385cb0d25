//! Packets of a chain that runs as a capture (pcapng), by a trace of its data plane.
//!
//! Each packet is written once: as it came to an element, or where it entered the chain.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use thruway_client::trace::{Answer, Record, Shot, What};
use thruway_port::capture::{CaptureWriter, FileFormat, LinkType, WriterOptions};
use utoipa::ToSchema;

/// Most packets of a capture, and as many as if not said otherwise.
pub const PACKETS_MAX: u32 = 100_000;
const PACKETS: u32 = 1_000;
/// Longest time of a capture, seconds, and that if not said otherwise.
pub const SECONDS_MAX: u32 = 600;
const SECONDS: u32 = 60;
/// Bytes of a packet that are written at most: so many a trace keeps.
const SNAPLEN: u32 = 256;
/// Least time between two moments by which the length of a cycle is found, nanoseconds.
const SPAN_NS: i64 = 20_000_000;

/// Which packets to capture.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CaptureRequest {
    /// Name of an element: packets as they come to it [default: where they enter the chain].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub element: Option<String>,
    /// Only these packets, as FlowDispatcher takes it: `tcp dst port 80` [default: all].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// How many packets, 1 to 100,000 [default: 1,000].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// For how long at most, 1 to 600 seconds [default: 60].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u32>,
}

impl CaptureRequest {
    /// How many packets and seconds.
    ///
    /// # Errors
    /// The field that is out of bounds, and what it may be.
    pub fn bounds(&self) -> Result<(u32, u32), (&'static str, String)> {
        let (count, seconds) = (self.count.unwrap_or(PACKETS), self.seconds.unwrap_or(SECONDS));
        if !(1..=PACKETS_MAX).contains(&count) {
            return Err(("count", format!("1 to {PACKETS_MAX} packets are captured")));
        }
        if !(1..=SECONDS_MAX).contains(&seconds) {
            return Err(("seconds", format!("a capture lasts 1 to {SECONDS_MAX} seconds")));
        }
        let is_long = |text: &Option<String>| text.as_ref().is_some_and(|text| text.contains('\n'));
        if is_long(&self.filter) || is_long(&self.element) {
            return Err(("filter", "a filter is one line, and an element one name".to_owned()));
        }
        Ok((count, seconds))
    }

    /// What starts it, written to the handler `trace`.
    pub fn start(&self, name: &str, count: u32) -> String {
        let element = self.element.as_deref().unwrap_or("-");
        let filter = self.filter.as_deref().unwrap_or("-");
        format!("start {name} {count} {element} {filter}")
    }
}

/// What was written and not taken yet.
#[derive(Debug, Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A capture that is being made.
pub struct Capture {
    writer: CaptureWriter,
    sink: Sink,
    /// Packets that were written.
    seen: HashSet<u64>,
    /// Records from before the length of a cycle is known.
    early: Vec<Record>,
    /// Cycles and nanoseconds of the first answer.
    begin: Option<(u64, i64)>,
    is_over: bool,
}

impl Capture {
    /// An empty one.
    ///
    /// # Errors
    /// The header cannot be written.
    pub fn new() -> Result<Capture, String> {
        let options = WriterOptions {
            format: FileFormat::Pcapng,
            link: LinkType::Ethernet,
            snaplen: SNAPLEN,
        };
        let sink = Sink::default();
        let writer = CaptureWriter::from_write("the capture", sink.clone(), &options);
        let writer = writer.map_err(|error| error.to_string())?;
        let (seen, early) = (HashSet::new(), Vec::new());
        Ok(Capture { writer, sink, seen, early, begin: None, is_over: false })
    }

    /// Takes an answer of the handler `trace`; the bytes of the file that it adds.
    ///
    /// # Errors
    /// It is none, or the packets cannot be written.
    pub fn take(&mut self, answer: &str) -> Result<Vec<u8>, String> {
        let answer = Answer::read(answer).map_err(|error| error.to_string())?;
        let begin = *self.begin.get_or_insert(answer.time);
        self.is_over = answer.counts.left == 0 && answer.records.is_empty();
        self.early.extend(answer.records);
        let (cycles, ns) = (answer.time.0.wrapping_sub(begin.0), answer.time.1 - begin.1);
        if ns >= SPAN_NS && cycles > 0 {
            let length = ns as f64 / cycles as f64;
            let mut records = std::mem::take(&mut self.early);
            records.sort_by_key(|record| record.cycles);
            for record in &records {
                let after = record.cycles.wrapping_sub(begin.0).cast_signed();
                self.record(record, begin.1 + (after as f64 * length) as i64)?;
            }
        }
        self.writer.flush().map_err(|error| error.to_string())?;
        let mut written = self.sink.0.lock();
        Ok(std::mem::take(&mut *written))
    }

    /// Writes a packet that was not written yet.
    fn record(&mut self, record: &Record, time_ns: i64) -> Result<(), String> {
        let (What::In(input), Some(shot)) = (&record.what, &record.shot) else { return Ok(()) };
        if !self.seen.insert(record.packet) {
            return Ok(());
        }
        let (head, remark) = header(shot);
        let bytes = [&head, &shot.bytes[..]].concat();
        let len = (head.len() + shot.len) as u32;
        let comment = format!("came to '{}', input {input}{remark}", record.element);
        let time_ns = u64::try_from(time_ns).unwrap_or(0);
        let written = self.writer.write_commented(time_ns, &bytes, len, &comment);
        written.map_err(|error| error.to_string())
    }

    /// Whether no more packets come.
    pub fn is_done(&self) -> bool {
        self.is_over && self.early.is_empty()
    }
}

/// The Ethernet header that a packet lacks, and what is to be said of it: all frames of a file have
/// one.
fn header(shot: &Shot) -> (Vec<u8>, &'static str) {
    let layers = shot.layers();
    if layers.is_frame {
        return (Vec::new(), "");
    }
    let ethertype: [u8; 2] = match (layers.network, shot.bytes.first().map(|byte| byte >> 4)) {
        (Some(0), Some(6)) => [0x86, 0xdd],
        (Some(0), Some(4)) => [0x08, 0x00],
        // For local experiments (IEEE 802): its first header is not known.
        _ => [0x88, 0xb5],
    };
    ([&[0; 12], &ethertype[..]].concat(), "; its Ethernet header is made up")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_checked() {
        let of = |json: &str| serde_json::from_str::<CaptureRequest>(json).expect("of that form");
        assert_eq!(of("{}").bounds(), Ok((1_000, 60)));
        assert_eq!(of("{}").start("x", 5), "start x 5 - -");
        let one = of(r#"{"element": "fw", "filter": "tcp", "count": 7, "seconds": 2}"#);
        assert_eq!(one.bounds(), Ok((7, 2)));
        assert_eq!(one.start("x", 7), "start x 7 fw tcp");
        for (json, field) in [
            (r#"{"count": 0}"#, "count"),
            (r#"{"count": 100001}"#, "count"),
            (r#"{"seconds": 601}"#, "seconds"),
            (r#"{"filter": "tcp\nstop x"}"#, "filter"),
        ] {
            assert_eq!(of(json).bounds().expect_err(json).0, field);
        }
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        let mut capture = Capture::new().expect("room");
        assert!(capture.take("nonsense").is_err());
    }
}

//! Packets made of the lines of a text, whatever its dialect: what FromIPSummaryDump and
//! FromTcpdump share.

use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read};

use thruway_element::{
    ArgErrors, Args, Cx, Element, HandlerError, Handlers, Run, handler_value, reasons,
};
use thruway_packet::{Anno, Batch, MAX_BATCH, Packet};

use super::window::Sampler;

reasons! {
    /// Why a line is no packet.
    pub(super) enum Lost {
        Malformed = "malformed-line": "no field of the line could be read",
        TooLong = "too-long": "longer than the largest frame, or memory was used up",
    }
}

/// Longest line that is read, bytes: a payload of 64 kB with every byte escaped is shorter.
const LINE_MAX: u64 = 512 * 1024;

/// Kind of a line.
pub(super) enum Line {
    /// A packet, and how many more of the same the line stands for. None where it could not be
    /// made.
    Packet(Option<Packet>, u32),
    /// Nothing that is reported.
    Nothing,
    /// A message for the user.
    Message(String),
    /// An invalid packet: why.
    Malformed(&'static str),
    /// Nothing here can be read: why.
    End(String),
}

/// How lines are to be understood.
pub(super) trait Dialect: Send {
    /// Called once before the first line.
    fn begin(&mut self) {}

    /// The next line, without spaces at its end.
    fn read(&mut self, line: &str) -> Line;
}

/// The lines of a text.
struct Lines {
    input: Option<Box<dyn BufRead + Send>>,
    /// Lines read.
    number: u64,
    /// Bytes read.
    position: u64,
}

impl Lines {
    /// Puts the next line into `line`; false at the end.
    fn next(&mut self, line: &mut Vec<u8>) -> Result<bool, String> {
        line.clear();
        let Some(input) = &mut self.input else { return Ok(false) };
        let read = input.take(LINE_MAX).read_until(b'\n', line);
        let read = read.map_err(|error| error.to_string())? as u64;
        self.number += 1;
        self.position += read;
        if read == LINE_MAX && line.last() != Some(&b'\n') {
            return Err(format!("line {} is longer than {LINE_MAX} bytes", self.number));
        }
        Ok(read > 0)
    }
}

/// Where a text is.
pub(super) struct Source {
    pub path: String,
    /// The text itself, in place of the file.
    pub data: Option<String>,
    pub may_miss: bool,
}

impl Source {
    /// Its name in messages.
    fn name(&self) -> &str {
        if self.data.is_some() { "DATA" } else { &self.path }
    }
}

/// The element.
#[derive(Handlers)]
#[handler(sum, field = count, "packets made")]
#[handler(
    read, name = "sampling_prob", "the sampling probability as it is", get = self.sampler.text()
)]
#[handler(both, field = active, "whether it makes packets", write = self.write_active(name, value))]
#[handler(read, name = "encap", "always IP", get = "IP".to_owned())]
#[handler(read, name = "filename", "the file's name", get = self.source.path.clone())]
#[handler(
    read, name = "filesize", "the file's length in bytes; - if unknown",
    read = self.read_filesize()
)]
#[handler(read, name = "filepos", "bytes of the file read", get = self.lines.position)]
#[handler(
    write, name = "stop", "sets active to false and stops the driver", write = self.write_stop(cx)
)]
pub(super) struct TextDump {
    source: Source,
    dialect: Box<dyn Dialect>,
    lines: Lines,
    sampler: Sampler,
    multipacket: bool,
    timing: bool,
    time_offset: Option<i64>,
    stop: bool,
    active: bool,
    ended: bool,
    burst: Option<usize>,
    /// Whether the user has been warned of a line that is no packet.
    complained: bool,
    failure: Option<String>,
    /// Made, and not due yet.
    held: Option<Packet>,
    /// A packet that is to be made again so often.
    repeat: Option<(Packet, u32)>,
    count: u64,
    line: Vec<u8>,
    batch: Batch,
}

/// Why one thread reads a file.
pub(super) const READ_ONCE: &str = "it reads a file from one end to the other; a Queue behind it \
                                    does for several that pull";

/// The result of the next step.
enum Next {
    Emit(Packet),
    Wait(i64),
    End,
}

impl TextDump {
    /// Of the arguments SAMPLE, STOP, ACTIVE and BURST.
    pub(super) fn of(
        args: &Args<'_>,
        source: Source,
        dialect: Box<dyn Dialect>,
    ) -> Result<TextDump, ArgErrors> {
        args.for_one_thread(READ_ONCE)?;
        let burst = args.opt("BURST")?;
        if burst == Some(0) {
            return Err(args.error("BURST", "must be at least 1").into());
        }
        Ok(TextDump {
            source,
            dialect,
            lines: Lines { input: None, number: 0, position: 0 },
            sampler: Sampler::of(args)?,
            multipacket: false,
            timing: false,
            time_offset: None,
            stop: args.get("STOP")?,
            active: args.get("ACTIVE")?,
            ended: false,
            burst,
            complained: false,
            failure: None,
            held: None,
            repeat: None,
            count: 0,
            line: Vec::new(),
            batch: Batch::with_room(),
        })
    }

    /// The same, keeping the pace of the timestamps, or making as many packets as lines stand for.
    pub(super) fn with(self, timing: bool, multipacket: bool) -> TextDump {
        TextDump { timing, multipacket, ..self }
    }

    fn next(&mut self, cx: &mut Cx<'_>) -> Next {
        let packet = match self.held.take().or_else(|| self.next_packet(cx)) {
            Some(packet) => packet,
            None => return Next::End,
        };
        if self.timing {
            let now = cx.now();
            let offset = self.time_offset.get_or_insert(now.saturating_sub(packet.timestamp()));
            let due = packet.timestamp().saturating_add(*offset);
            if due > now {
                self.held = Some(packet);
                return Next::Wait(due);
            }
        }
        Next::Emit(packet)
    }

    fn next_packet(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        loop {
            let packet = match self.repeat.take() {
                Some((packet, left)) if left > 0 => {
                    let copy = cx.duplicate(&packet);
                    self.repeat = Some((packet, left - 1));
                    copy
                }
                _ => self.read_packet(cx)?,
            };
            if self.sampler.draw() && packet.is_some() {
                return packet;
            }
        }
    }

    /// Reads on to the next line that describes a packet; `None` at the end, `Some(None)` when it
    /// could not be made.
    fn read_packet(&mut self, cx: &mut Cx<'_>) -> Option<Option<Packet>> {
        loop {
            let mut line = std::mem::take(&mut self.line);
            match self.lines.next(&mut line) {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    self.fail(cx, format!("cannot read '{}': {error}", self.source.name()));
                    return None;
                }
            }
            let what = self.dialect.read(String::from_utf8_lossy(&line).trim_end());
            self.line = line;
            let position = || format!("{}:{}", self.source.name(), self.lines.number);
            match what {
                Line::Nothing => {}
                Line::Message(what) => cx.log(&format!("{}: {what}", position())),
                Line::Packet(packet, others) => return Some(self.made(cx, packet, others)),
                Line::Malformed(why) => {
                    cx.count_drops(Lost::Malformed, 1);
                    if !self.complained {
                        cx.log(&format!("{}: {why}", position()));
                        self.complained = true;
                    }
                    return Some(None);
                }
                Line::End(why) => {
                    cx.log(&format!("{}: {why}", position()));
                    self.lines.input = None;
                    self.failure = Some(why);
                }
            }
        }
    }

    fn fail(&mut self, cx: &mut Cx<'_>, failure: String) {
        cx.log(&failure);
        self.failure = Some(failure);
    }

    /// A packet was made, or not, of a line that stands for some others, too.
    fn made(&mut self, cx: &mut Cx<'_>, packet: Option<Packet>, others: u32) -> Option<Packet> {
        let Some(mut packet) = packet else {
            cx.count_drops(Lost::TooLong, 1);
            return None;
        };
        if !self.multipacket || others == 0 {
            return Some(packet);
        }
        packet.set_anno_number(Anno::EXTRA_PACKETS, 0);
        let copy = cx.duplicate(&packet);
        self.repeat = Some((packet, others));
        copy
    }

    fn fill(&mut self, cx: &mut Cx<'_>, max: usize, batch: &mut Batch) -> Option<i64> {
        for _ in 0..max {
            match self.next(cx) {
                Next::Emit(packet) => batch.push(packet),
                Next::Wait(until) => return Some(until),
                Next::End => {
                    if batch.is_empty() && !std::mem::replace(&mut self.ended, true) {
                        self.active = false;
                        if self.stop {
                            cx.stop();
                        }
                    }
                    break;
                }
            }
        }
        self.count += batch.len() as u64;
        None
    }
}

impl Element for TextDump {
    fn initialize(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        self.dialect.begin();
        let input: Box<dyn Read + Send> = match (&self.source.data, self.source.path.as_str()) {
            (Some(data), _) => Box::new(Cursor::new(data.clone().into_bytes())),
            (None, "-") => Box::new(std::io::stdin()),
            (None, path) => match File::open(path) {
                Ok(file) => Box::new(file),
                Err(_) if self.source.may_miss => return Ok(()),
                Err(error) => return Err(format!("cannot open '{path}': {error}")),
            },
        };
        self.lines.input = Some(Box::new(BufReader::with_capacity(64 * 1024, input)));
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        if !self.active || self.ended {
            return Run::Idle;
        }
        let burst = self.burst.unwrap_or_else(|| cx.burst()).min(MAX_BATCH);
        let mut batch = std::mem::take(&mut self.batch);
        let wait = self.fill(cx, burst, &mut batch);
        let made = !batch.is_empty();
        if made {
            cx.emit_all(0, &mut batch);
        }
        self.batch = batch;
        match wait {
            Some(until) => Run::At(until),
            None if made => Run::Again,
            None => Run::Idle,
        }
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize, batch: &mut Batch) {
        if self.active
            && !self.ended
            && let Some(until) = self.fill(cx, max, batch)
        {
            cx.set_timer(0, until);
        }
    }

    fn finish(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        self.failure.take().map_or(Ok(()), Err)
    }
}

impl TextDump {
    fn write_active(&mut self, name: &str, value: &str) -> Result<(), HandlerError> {
        self.active = handler_value(name, value)?;
        self.ended = false;
        Ok(())
    }

    fn read_filesize(&mut self) -> Result<String, HandlerError> {
        let file = std::fs::metadata(&self.source.path).ok().filter(std::fs::Metadata::is_file);
        Ok(file.map_or_else(|| "-".to_owned(), |file| file.len().to_string()))
    }

    fn write_stop(&mut self, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        self.active = false;
        cx.stop();
        Ok(())
    }
}

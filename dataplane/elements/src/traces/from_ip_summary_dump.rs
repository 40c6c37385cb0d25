//! FromIPSummaryDump: packets made of the lines of a summary.

use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read};

use thruway_element::text::split_words;
use thruway_element::{
    Arg, ArgErrors, Args, Cx, Element, Entry, Handler, HandlerError, Operation, Run, Spec, Topic,
    Ty, handler_value, reasons,
};
use thruway_packet::{Anno, Batch, MAX_BATCH, Packet};

use super::summary::{Defaults, Field, FlowId, Record, VERSION, make_packet};
use super::window::Sampler;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "FromIPSummaryDump",
        topic: Topic::Traces,
        summary: "makes packets of an IP summary's lines",
        docs: "Reads a summary as ToIPSummaryDump writes it (`-`: standard input; with DATA, that \
               text) and makes an IPv4 packet of every line: headers as the fields say, zero where \
               they do not, TTL 100, TCP unless PROTO, a `!proto` line or a field says otherwise. \
               What a line says of a packet's length beyond its headers and payload is noted in \
               the EXTRA_LENGTH annotation; with CHECKSUM the bytes are there, zero, and checksums \
               are right. The destination address annotation, timestamp, paint (link), aggregate \
               and EXTRA_PACKETS (count) are set.\n\
               `!data` lines name the fields, `!flowid SRC SPORT DST DPORT [PROTO]`, `!proto` and \
               `!aggregate` give what lines leave out; other lines with `!` or `#` are passed \
               over. A line tells once of unknown fields, and once of lines that are no packet. \
               With eth_src or eth_dst, packets begin with an Ethernet header.\n\
               Binary and compressed summaries are not read. ZERO false is accepted and ignored.",
        example: "FromIPSummaryDump(DATA \"!data ip_src ip_dst\\n1.0.0.1 2.0.0.2\\n\", STOP true) \
                  -> IPPrint -> Discard",
        ports: "0/1",
        processing: "/a",
        args: ARGS,
        drops: Lost::DROPS,
        handlers: &[
            Handler::sum("count", "packets made"),
            Handler::read("sampling_prob", "the sampling probability as it is"),
            Handler::both("active", "whether it makes packets"),
            Handler::read("encap", "always IP"),
            Handler::read("filename", "the file's name"),
            Handler::read("filesize", "the file's length in bytes; - if unknown"),
            Handler::read("filepos", "bytes of the file read"),
            Handler::write("stop", "sets active to false and stops the driver"),
        ],
        task: true,
        cost: &[Operation::Make.once(), Operation::Format.once()],
        ..Spec::DEFAULT
    },
    build,
);

const ARGS: &[Arg] = &[
    Arg::optional("FILENAME", Ty::File, "the summary; - for standard input"),
    Arg::keyword("STOP", Ty::Bool, "whether the driver stops at the end").or("false"),
    Arg::keyword("TIMING", Ty::Bool, "whether to keep the pace of the timestamps").or("false"),
    Arg::keyword("ACTIVE", Ty::Bool, "whether it makes packets").or("true"),
    Arg::keyword("ZERO", Ty::Bool, "accepted: what lines leave out is zero").or("true"),
    Arg::keyword("CHECKSUM", Ty::Bool, "whether packets are whole, with checksums").or("false"),
    Arg::keyword("PROTO", Ty::Str, "protocol where lines do not say").or("T"),
    Arg::keyword("MULTIPACKET", Ty::Bool, "whether to make as many packets as a line's count")
        .or("false"),
    Arg::keyword("SAMPLE", Ty::Float, "share of the packets to make, by chance").or("1"),
    Arg::keyword("FIELDS", Ty::Any, "names of fields until a !data line comes"),
    Arg::keyword("CONTENTS", Ty::Any, "the same"),
    Arg::keyword("DEFAULT_CONTENTS", Ty::Any, "the same (old name)"),
    Arg::keyword("FLOWID", Ty::Any, "SRC SPORT DST DPORT [PROTO] where lines do not say"),
    Arg::keyword("DEFAULT_FLOWID", Ty::Any, "the same (old name)"),
    Arg::keyword("DATA", Ty::Str, "the summary itself, instead of a file"),
    Arg::keyword("ALLOW_NONEXISTENT", Ty::Bool, "whether the file may be missing").or("false"),
    Arg::keyword("BURST", Ty::UInt, "packets per scheduling; the engine's choice if not given"),
];

reasons! {
    /// Why a line is no packet.
    enum Lost {
        Malformed = "malformed-line": "no field of the line could be read",
        TooLong = "too-long": "longer than the largest frame, or memory was used up",
    }
}

/// Longest line that is read, bytes: a payload of 64 kB with every byte escaped is shorter.
const LINE_MAX: u64 = 512 * 1024;

/// The lines of a summary.
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

struct FromIpSummaryDump {
    path: String,
    data: Option<String>,
    may_miss: bool,
    lines: Lines,
    fields: Vec<Field>,
    minor: u32,
    defaults: Defaults,
    sampler: Sampler,
    multipacket: bool,
    timing: bool,
    time_offset: Option<i64>,
    stop: bool,
    active: bool,
    ended: bool,
    burst: Option<usize>,
    /// Told of a line that is no packet.
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

/// The first of several names of an argument that is given: its name and text.
fn first_given<'a>(args: &Args<'a>, names: &[&'static str]) -> Option<(&'static str, &'a str)> {
    names.iter().find_map(|name| Some((*name, args.text(name)?)))
}

fn default_fields(args: &Args<'_>) -> Result<Vec<Field>, ArgErrors> {
    let given = first_given(args, &["FIELDS", "CONTENTS", "DEFAULT_CONTENTS"]);
    let Some((name, text)) = given else { return Ok(Vec::new()) };
    let mut errors = Vec::new();
    let fields = Field::list(text, |word| errors.push(args.error(name, Field::unknown(&word))));
    if errors.is_empty() { Ok(fields) } else { Err(ArgErrors(errors)) }
}

fn defaults(args: &Args<'_>) -> Result<Defaults, ArgErrors> {
    let flow = match first_given(args, &["FLOWID", "DEFAULT_FLOWID"]) {
        None => FlowId::default(),
        Some((name, text)) => {
            let text = thruway_element::text::unquote_text(text);
            FlowId::parse(&split_words(&text)).ok_or_else(|| {
                args.error(name, format!("'{text}' is not SRC SPORT DST DPORT [PROTO]"))
            })?
        }
    };
    let text: String = args.get("PROTO")?;
    let protocol = super::summary::protocol(&text).ok_or_else(|| {
        args.error(
            "PROTO",
            format!("'{text}' is not a protocol: T, U, I, a name such as udp or a number to 255"),
        )
    })?;
    Ok(Defaults { flow, protocol, aggregate: None, checksum: args.get("CHECKSUM")? })
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    if args.env().threads > 1 {
        let why = "several threads pull here; put a Queue behind FromIPSummaryDump";
        return Err(ArgErrors::whole(why));
    }
    let data: Option<String> = args.opt("DATA")?;
    if data.is_none() && !args.given("FILENAME") {
        return Err(ArgErrors::whole("missing argument FILENAME: the summary, or DATA"));
    }
    let burst = args.opt("BURST")?;
    if burst == Some(0) {
        return Err(args.error("BURST", "must be at least 1").into());
    }
    Ok(Box::new(FromIpSummaryDump {
        path: args.get("FILENAME")?,
        data,
        may_miss: args.get("ALLOW_NONEXISTENT")?,
        lines: Lines { input: None, number: 0, position: 0 },
        fields: default_fields(args)?,
        minor: VERSION.1,
        defaults: defaults(args)?,
        sampler: Sampler::of(args)?,
        multipacket: args.get("MULTIPACKET")?,
        timing: args.get("TIMING")?,
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
    }))
}

/// What the next step came to.
enum Next {
    Emit(Packet),
    Wait(i64),
    End,
}

impl FromIpSummaryDump {
    /// What messages call the summary.
    fn name(&self) -> &str {
        if self.data.is_some() { "DATA" } else { &self.path }
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
            let more = self.lines.next(&mut line);
            let text = String::from_utf8_lossy(&line);
            let text = text.trim();
            let packet = match more {
                Ok(true) if text.starts_with('!') => {
                    self.instruction(cx, text);
                    None
                }
                Ok(true) if text.is_empty() || text.starts_with('#') => None,
                Ok(true) => Some(self.packet_of(cx, text)),
                Ok(false) => return None,
                Err(error) => {
                    let failure = format!("cannot read '{}': {error}", self.name());
                    cx.chatter(&failure);
                    self.failure = Some(failure);
                    return None;
                }
            };
            self.line = line;
            if packet.is_some() {
                return packet;
            }
        }
    }

    fn packet_of(&mut self, cx: &mut Cx<'_>, line: &str) -> Option<Packet> {
        let mut record = Record::default();
        let mut taken = 0;
        for (field, word) in self.fields.iter().zip(split_words(line)) {
            if word != "-" && record.set(*field, word, self.minor).is_some() {
                taken += 1;
            }
        }
        if taken == 0 {
            cx.count_drops(Lost::Malformed, 1);
            if !std::mem::replace(&mut self.complained, true) {
                let (name, number) = (self.name(), self.lines.number);
                let why = match self.fields.is_empty() {
                    true => "no !data line says what the fields are",
                    false => "no field of this line can be read",
                };
                cx.chatter(&format!("{name}:{number}: {why}"));
            }
            return None;
        }
        let packet = make_packet(&record, &self.defaults);
        if packet.is_none() {
            cx.count_drops(Lost::TooLong, 1);
        }
        let others = record.count.unwrap_or(1).saturating_sub(1);
        match packet {
            Some(mut packet) if self.multipacket && others > 0 => {
                packet.set_anno_number(Anno::EXTRA_PACKETS, 0);
                let copy = cx.duplicate(&packet);
                self.repeat = Some((packet, others));
                copy
            }
            packet => packet,
        }
    }

    /// A line that begins with `!`.
    fn instruction(&mut self, cx: &mut Cx<'_>, line: &str) {
        let words = split_words(line);
        let (number, rest) = (self.lines.number, &words[1..]);
        let wrong = match words[0] {
            "!data" => {
                let mut wrong = None;
                let list = line.strip_prefix("!data").unwrap_or("");
                self.fields = Field::list(list, |word| wrong = Some(Field::unknown(&word)));
                wrong
            }
            "!IPSummaryDump" => self.set_version(rest),
            "!flowid" => match FlowId::parse(rest) {
                Some(flow) => {
                    self.defaults.flow = flow;
                    None
                }
                None => Some("!flowid takes SRC SPORT DST DPORT [PROTO]".to_owned()),
            },
            "!proto" => match rest.first().and_then(|word| super::summary::protocol(word)) {
                Some(protocol) => {
                    self.defaults.protocol = protocol;
                    None
                }
                None => {
                    Some("!proto takes T, U, I, a name such as udp or a number to 255".to_owned())
                }
            },
            "!aggregate" => match rest.first().and_then(|word| word.parse().ok()) {
                Some(aggregate) => {
                    self.defaults.aggregate = Some(aggregate);
                    None
                }
                None => Some("!aggregate takes a number".to_owned()),
            },
            "!binary" => {
                self.lines.input = None;
                let failure = format!("'{}' is a binary summary; text is read", self.name());
                self.failure = Some(failure.clone());
                Some(failure)
            }
            _ => None,
        };
        if let Some(wrong) = wrong {
            cx.chatter(&format!("{}:{number}: {wrong}", self.name()));
        }
    }

    /// Takes the version of the format; what is wrong with it.
    fn set_version(&mut self, words: &[&str]) -> Option<String> {
        let (major, minor) = words.first()?.split_once('.')?;
        let version: (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
        self.minor = version.1.min(VERSION.1);
        (version.0 != VERSION.0 || version.1 > VERSION.1).then(|| {
            format!("version {major}.{minor} of summaries is not known; read as 1.{}", VERSION.1)
        })
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

impl Element for FromIpSummaryDump {
    fn initialize(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        let input: Box<dyn Read + Send> = match (&self.data, self.path.as_str()) {
            (Some(data), _) => Box::new(Cursor::new(data.clone().into_bytes())),
            (None, "-") => Box::new(std::io::stdin()),
            (None, path) => match File::open(path) {
                Ok(file) => Box::new(file),
                Err(_) if self.may_miss => return Ok(()),
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

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, HandlerError> {
        match name {
            "count" => Ok(self.count.to_string()),
            "sampling_prob" => Ok(self.sampler.text()),
            "active" => Ok(self.active.to_string()),
            "encap" => Ok("IP".to_owned()),
            "filename" => Ok(self.path.clone()),
            "filesize" => {
                let file = std::fs::metadata(&self.path).ok().filter(std::fs::Metadata::is_file);
                Ok(file.map_or_else(|| "-".to_owned(), |file| file.len().to_string()))
            }
            "filepos" => Ok(self.lines.position.to_string()),
            _ => Err(HandlerError::no_read(name)),
        }
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "active" => {
                self.active = handler_value(name, value)?;
                self.ended = false;
            }
            "stop" => {
                self.active = false;
                cx.stop();
            }
            _ => return Err(HandlerError::no_write(name)),
        }
        Ok(())
    }

    fn finish(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        self.failure.take().map_or(Ok(()), Err)
    }
}

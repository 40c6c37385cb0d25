//! FromIPSummaryDump: packets made of the lines of a summary.

use thruway_element::text::split_words;
use thruway_element::{
    Arg, ArgErrors, Args, Element, Entry, Operation, Replicas, Spec, Threading, Topic, Ty,
};

use thruway_elements_support::dialect::ignored;

use super::summary::{Defaults, Field, FlowId, Record, VERSION, make_packet};
use super::text_dump::{Dialect, Line, Lost, Source, TextDump};

/// See the spec.
pub static ENTRY: Entry = Entry::built::<TextDump>(
    Spec {
        name: "FromIPSummaryDump",
        topic: Topic::Captures,
        summary: "makes packets of an IP summary's lines",
        docs: "Reads a summary as ToIPSummaryDump writes it (`-`: standard input; with DATA, that \
               text) and makes an IPv4 packet of every line: headers as the fields say, zero where \
               they do not, TTL 100, TCP unless PROTO, a `!proto` line or a field says otherwise; \
               of a line that gives annotations only, a packet without bytes. What a line says of \
               a packet's length beyond its headers and payload is noted in the EXTRA_LENGTH \
               annotation; with CHECKSUM the bytes are there, zero, and checksums are right. The \
               destination address annotation, timestamp, paint (link), aggregate and \
               EXTRA_PACKETS (count) are set.\n\
               `!data` lines name the fields, `!flowid SRC SPORT DST DPORT [PROTO]`, `!proto` and \
               `!aggregate` set the fields that lines omit; other lines with `!` or `#` are passed \
               over. Unknown fields, and lines that are no packet, are reported once each. With \
               eth_src or eth_dst, packets begin with an Ethernet header.\n\
               Binary and compressed summaries are not read. ZERO false is accepted and ignored.",
        example: "FromIPSummaryDump(DATA \"!data ip_src ip_dst\\n1.0.0.1 2.0.0.2\\n\", STOP true) \
                  -> IPPrint -> Discard",
        ports: "0/1",
        processing: "/a",
        args: ARGS,
        drops: Lost::DROPS,
        threading: Threading::Task,
        cost: &[Operation::Make.once(), Operation::Format.once()],
        replicas: Replicas::Single,
        ..Spec::DEFAULT
    },
    build,
);

const ARGS: &[Arg] = &[
    Arg::optional("FILENAME", Ty::File, "the summary; - for standard input"),
    Arg::keyword("STOP", Ty::Bool, "whether the driver stops at the end").or("false"),
    Arg::keyword("TIMING", Ty::Bool, "whether to keep the pace of the timestamps").or("false"),
    Arg::keyword("ACTIVE", Ty::Bool, "whether it makes packets").or("true"),
    Arg::keyword("ZERO", Ty::Bool, "accepted: omitted fields are zero").or("true"),
    Arg::keyword("CHECKSUM", Ty::Bool, "whether packets are whole, with checksums").or("false"),
    Arg::keyword("PROTO", Ty::Str, "protocol of lines without one").or("T"),
    Arg::keyword("MULTIPACKET", Ty::Bool, "whether to make as many packets as a line's count")
        .or("false"),
    Arg::keyword("SAMPLE", Ty::Float, "share of the packets to make, by chance").or("1"),
    Arg::keyword("FIELDS", Ty::Any, "names of fields until a !data line comes"),
    Arg::keyword("CONTENTS", Ty::Any, "the same"),
    Arg::keyword("DEFAULT_CONTENTS", Ty::Any, "the same (old name)"),
    Arg::keyword("FLOWID", Ty::Any, "SRC SPORT DST DPORT [PROTO] of lines without them"),
    Arg::keyword("DEFAULT_FLOWID", Ty::Any, "the same (old name)"),
    Arg::keyword("DATA", Ty::Str, "the summary itself, instead of a file"),
    Arg::keyword("ALLOW_NONEXISTENT", Ty::Bool, "whether the file may be missing").or("false"),
    Arg::keyword("BURST", Ty::UInt, "packets per scheduling; the engine's choice if not given"),
    ignored("MIGRATE"),
    ignored("TIMESTAMP"),
];

/// A summary while it is being read.
struct Summary {
    fields: Vec<Field>,
    minor: u32,
    defaults: Defaults,
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
    let data: Option<String> = args.opt("DATA")?;
    if data.is_none() && !args.given("FILENAME") {
        return Err(ArgErrors::whole("missing argument FILENAME: the summary, or DATA"));
    }
    let (path, may_miss) = (args.get("FILENAME")?, args.get("ALLOW_NONEXISTENT")?);
    let dialect =
        Summary { fields: default_fields(args)?, minor: VERSION.1, defaults: defaults(args)? };
    let dump = TextDump::of(args, Source { path, data, may_miss }, Box::new(dialect))?;
    Ok(Box::new(dump.with(args.get("TIMING")?, args.get("MULTIPACKET")?)))
}

impl Dialect for Summary {
    fn read(&mut self, line: &str) -> Line {
        let line = line.trim();
        if line.starts_with('!') {
            self.instruction(line)
        } else if line.is_empty() || line.starts_with('#') {
            Line::Nothing
        } else {
            self.packet_of(line)
        }
    }
}

impl Summary {
    fn packet_of(&self, line: &str) -> Line {
        let mut record = Record::default();
        let mut taken = 0;
        for (field, word) in self.fields.iter().zip(split_words(line)) {
            if word != "-" && record.set(*field, word, self.minor).is_some() {
                taken += 1;
            }
        }
        if taken == 0 {
            return Line::Malformed(match self.fields.is_empty() {
                true => "no !data line names the fields",
                false => "no field of this line can be read",
            });
        }
        let others = record.count.unwrap_or(1).saturating_sub(1);
        Line::Packet(make_packet(&record, &self.defaults), others)
    }

    /// A line that begins with `!`.
    fn instruction(&mut self, line: &str) -> Line {
        let words = split_words(line);
        let rest = &words[1..];
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
            "!binary" => return Line::End("a binary summary; text is read".to_owned()),
            _ => None,
        };
        wrong.map_or(Line::Nothing, Line::Message)
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
}

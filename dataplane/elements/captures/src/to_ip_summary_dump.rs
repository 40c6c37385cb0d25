//! ToIPSummaryDump: a line of chosen fields for every packet.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write;
use std::sync::Arc;

use parking_lot::Mutex;
use thruway_element::text::quote;
use thruway_element::{
    ArgErrors, Args, Arguments, Changes, Cx, Element, Entry, HandlerError, Handlers, Operation,
    Replicas, Run, Spec, Threading, Topic, Ty, reasons,
};
use thruway_packet::{Anno, Batch, MAX_BATCH, Packet};

use super::summary::{Field, VERSION, View};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<ToIpSummaryDump>(Spec {
    name: "ToIPSummaryDump",
    topic: Topic::Captures,
    summary: "writes a line of fields for every packet",
    docs: "Writes, for every packet, a line with the values of FIELDS to a text file (`-`: \
           standard output) that FromIPSummaryDump reads, and passes the packet on if there is an \
           output. A dash stands for what a packet does not have; IP headers must be marked.\n\
           Fields: timestamp ntimestamp ts_sec ts_usec ts_usec1; ip_src ip_dst ip_len ip_proto (T, \
           U, I or a number) ip_hl ip_id ip_tos ip_dscp ip_ecn ip_ttl ip_sum ip_frag (F first, f \
           later, ! not to be fragmented, .) ip_fragoff (bytes, + for more, ! for not to be \
           fragmented) ip_opt ip_capture_len; sport dport; tcp_seq tcp_ack tcp_off tcp_flags \
           (letters of FSRPAUECN) tcp_opt tcp_ntopt tcp_sack tcp_window tcp_urp; udp_len; \
           icmp_type icmp_code icmp_type_name icmp_code_name icmp_flowid icmp_seq icmp_nextmtu; \
           payload payload_len payload_md5 payload_md5_hex; count aggregate link direction; \
           eth_src eth_dst wire_len; thread (the number of the one that writes); none. `ip_` may \
           be left out, and blanks in quotes stand for underscores.\n\
           BINARY and the field first_timestamp are not supported.",
    example: "FromDump(in.pcap, STOP true, FORCE_IP true) \
              -> ToIPSummaryDump(-, FIELDS ip_src ip_dst ip_len)",
    ports: "1/0-1",
    processing: "a/h",
    drops: NotWritten::DROPS,
    threading: Threading::PullTask,
    changes: Changes::Nothing,
    cost: &[Operation::Format.once()],
    replicas: Replicas::Sharing("the file: lines of one thread are in it in their order"),
    ..Spec::DEFAULT
});

reasons! {
    /// Why a packet has no line.
    enum NotWritten {
        Failed = "not-written": "the file could not be written",
    }
}

/// Text that is gathered before it is written, bytes.
const BUFFER: usize = 64 * 1024;
/// Longest time that lines stay in the buffer, nanoseconds.
const FLUSH_NS: i64 = 1_000_000_000;

/// The file that all replicas write.
#[derive(Default)]
struct Out {
    file: Option<Box<dyn Write + Send>>,
    buffer: String,
    written: u64,
    failed: Option<String>,
}

impl Out {
    /// Writes out the buffer.
    fn flush(&mut self, path: &str) -> Result<(), String> {
        if let (Some(file), None) = (&mut self.file, &self.failed) {
            let done = file.write_all(self.buffer.as_bytes()).and_then(|()| file.flush());
            match done {
                Ok(()) => self.written += self.buffer.len() as u64,
                Err(error) => {
                    self.failed = Some(format!(
                        "cannot write '{path}': {error}; {} bytes are in it",
                        self.written
                    ));
                }
            }
        }
        self.buffer.clear();
        self.failed.clone().map_or(Ok(()), Err)
    }
}

/// The contents of lines.
struct Format {
    fields: Vec<Field>,
    /// That of this replica.
    thread: usize,
    multipacket: bool,
    bad_packets: bool,
    careful: bool,
    extra_length: bool,
}

#[derive(Arguments, Handlers)]
#[handler(sum, field = count, "lines written")]
#[handler(
    write, shared, name = "flush", "writes buffered packets",
    write = self.out.lock().flush(&self.path).map_err(HandlerError::refused)
)]
struct ToIpSummaryDump {
    /// the summary; - for standard output
    #[arg(required, name = "FILENAME", ty = Ty::OutFile)]
    path: String,
    #[arg(
        keyword, name = "FIELDS", unread, ty = Ty::Any, or = "ip_src ip_dst",
        "names of fields, in the order of the line"
    )]
    #[arg(keyword, name = "CONTENTS", unread, ty = Ty::Any, "the same")]
    #[arg(keyword, name = "DATA", unread, ty = Ty::Any, "the same (old name)")]
    /// whether ! lines describe the file
    #[arg(keyword, or = "true")]
    header: bool,
    /// whether they name host and time
    #[arg(keyword, or = "false")]
    verbose: bool,
    /// text of a !creator line
    #[arg(keyword)]
    banner: Option<String>,
    #[arg(
        keyword, name = "MULTIPACKET", value = bool, or = "false",
        "whether a packet that counts for several has as many lines, unless there is a count field"
    )]
    #[arg(
        keyword, name = "BAD_PACKETS", value = bool, or = "false",
        "whether !bad lines report bad headers"
    )]
    #[arg(
        keyword, name = "CAREFUL_TRUNC", value = bool, or = "true",
        "whether packets that were cut are bad"
    )]
    #[arg(
        keyword, name = "EXTRA_LENGTH", value = bool, or = "true", "whether extra length counts"
    )]
    #[arg(keyword, name = "BINARY", value = bool, via = no_binary, or = "false", "not supported")]
    #[new({
        let (fields, thread) = (fields(args)?, args.env().thread);
        let multipacket = multipacket && !fields.contains(&Field::Count);
        let careful = careful_trunc;
        Format { fields, thread, multipacket, bad_packets, careful, extra_length }
    })]
    format: Format,
    #[new(args.shared("out", Mutex::<Out>::default))]
    out: Arc<Mutex<Out>>,
    flushing: bool,
    complained: bool,
    count: u64,
    #[new(Batch::new())]
    batch: Batch,
}

fn no_binary(binary: bool) -> Result<bool, &'static str> {
    if binary { Err("not supported; leave it for text") } else { Ok(false) }
}

/// The fields that the arguments name.
fn fields(args: &Args<'_>) -> Result<Vec<Field>, ArgErrors> {
    let name = ["DATA", "CONTENTS"].into_iter().find(|name| args.given(name)).unwrap_or("FIELDS");
    let text = args.text(name).unwrap_or("ip_src ip_dst");
    let mut errors = Vec::new();
    let fields = Field::list(text, |word| errors.push(args.error(name, Field::unknown(&word))));
    if fields.is_empty() {
        errors.push(args.error(name, "names no field"));
    }
    if errors.is_empty() { Ok(fields) } else { Err(ArgErrors(errors)) }
}

impl Format {
    /// Adds a packet's line or lines; says how many.
    fn write(&self, packet: &Packet, out: &mut String) -> u64 {
        let count = match self.multipacket {
            true => 1 + u64::from(packet.anno_number(Anno::EXTRA_PACKETS)),
            false => 1,
        };
        for _ in 0..count {
            self.write_line(packet, out);
        }
        count
    }

    fn write_line(&self, packet: &Packet, out: &mut String) {
        let (view, mut bad) = View::new(packet, self.careful, self.extra_length);
        let start = out.len();
        for (at, field) in self.fields.iter().enumerate() {
            if at > 0 {
                out.push(' ');
            }
            if *field == Field::Thread {
                // Writing to a string cannot fail.
                let _ = write!(out, "{}", self.thread);
                continue;
            }
            let missing = view.write(*field, out);
            bad = bad.or(missing);
        }
        out.push('\n');
        if let (true, Some(bad)) = (self.bad_packets, bad) {
            out.insert_str(start, &format!("!bad {bad}\n"));
        }
    }
}

impl ToIpSummaryDump {
    fn head(&self, now: i64) -> String {
        let mut head = format!("!IPSummaryDump {}.{}\n", VERSION.0, VERSION.1);
        if let Some(banner) = &self.banner {
            let _ = writeln!(head, "!creator {}", quote(banner.as_bytes()));
        }
        if self.verbose {
            let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
            let _ = writeln!(head, "!host {}", host.trim());
            let micros = now.div_euclid(1000);
            let (seconds, micros) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
            let _ = writeln!(head, "!runtime {seconds}.{micros:06}");
        }
        let name = |field: &Field| match field {
            // Both are read as the same.
            Field::NanoTimestamp => "timestamp",
            field => field.name(),
        };
        let names: Vec<&str> = self.format.fields.iter().map(name).collect();
        let _ = writeln!(head, "!data {}", names.join(" "));
        head
    }

    fn write_batch(&mut self, cx: &mut Cx<'_>, batch: &Batch) {
        let mut out = self.out.lock();
        if out.failed.is_some() {
            cx.count_drops(NotWritten::Failed, batch.len());
        } else {
            for packet in batch {
                self.count += self.format.write(packet, &mut out.buffer);
            }
        }
        let full = out.buffer.len() >= BUFFER;
        let flushed = if full { out.flush(&self.path) } else { Ok(()) };
        drop(out);
        self.complain(cx, flushed);
        if !std::mem::replace(&mut self.flushing, true) {
            cx.set_timer(0, cx.now().saturating_add(FLUSH_NS));
        }
    }

    /// Reports on a failure, once.
    fn complain(&mut self, cx: &mut Cx<'_>, result: Result<(), String>) {
        if let Err(error) = result
            && !std::mem::replace(&mut self.complained, true)
        {
            cx.log(&error);
        }
    }
}

impl Element for ToIpSummaryDump {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let mut out = self.out.lock();
        if out.file.is_some() {
            return Ok(());
        }
        out.file = Some(match self.path.as_str() {
            "-" => Box::new(std::io::stdout()),
            path => {
                let file = File::create(path);
                Box::new(file.map_err(|error| format!("cannot create '{path}': {error}"))?)
            }
        });
        if self.header {
            out.buffer = self.head(cx.now());
        }
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        self.write_batch(cx, batch);
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        if !cx.is_pull_input(0) {
            return Run::Idle;
        }
        let mut batch = std::mem::take(&mut self.batch);
        cx.pull(0, cx.burst().min(MAX_BATCH), &mut batch);
        let pulled = !batch.is_empty();
        if pulled {
            self.write_batch(cx, &batch);
            match cx.outputs() {
                0 => batch.clear(),
                _ => cx.emit_all(0, &mut batch),
            }
        }
        self.batch = batch;
        if pulled { Run::Again } else { Run::Idle }
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        self.flushing = false;
        let flushed = self.out.lock().flush(&self.path);
        self.complain(cx, flushed);
    }

    fn finish(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        self.out.lock().flush(&self.path)
    }
}

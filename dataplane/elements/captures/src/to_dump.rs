//! ToDump: packets into a capture file.

use thruway_element::{
    ArgError, Args, Arguments, Changes, Cost, CostModel, Cx, Element, Entry, HandlerError,
    Handlers, Load, Operation, Replicas, Run, Spec, Threading, Topic, Ty, reasons,
};
use thruway_packet::{Batch, MAX_BATCH};
use thruway_port::capture::{FileFormat, LinkType, WriterOptions};

use super::capture_out::CaptureOut;
use super::encap;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<ToDump>(Spec {
    name: "ToDump",
    topic: Topic::Captures,
    summary: "writes packets to a capture file",
    docs: "Writes every packet to a pcap file (with FORMAT pcapng, a pcapng file), `-` for \
           standard output, and passes it on if there is an output. Of each packet SNAPLEN bytes \
           are kept. A packet without a timestamp gets the present time; its length on the wire \
           counts the EXTRA_LENGTH annotation.\n\
           ENCAP is the link type of the packets; it must be right for others to read the file. \
           With USE_ENCAP_FROM it is asked of elements that have an `encap` handler, which must \
           agree.\n\
           The file is written in large pieces and at least once a second. When it cannot be \
           written (a full disk), a line says how much is in it, what is there stays readable, \
           later packets are counted as not written, and the run fails at its end.",
    example: "InfiniteSource(LIMIT 3, STOP true) -> ToDump(out.pcap, ENCAP IP)",
    ports: "1/0-1",
    drops: NotWritten::DROPS,
    threading: Threading::PullTask,
    changes: Changes::Nothing,
    cost: &[Operation::CopyLine.times(2.0)],
    replicas: Replicas::Sharing("the file: packets of one thread are in it in their order"),
    ..Spec::DEFAULT
})
.with_cost_model::<ToDump>();

reasons! {
    /// Why a packet is not in the file.
    enum NotWritten {
        Failed = "not-written": "the file could not be written",
    }
}

/// Longest time that packets stay in the buffer, nanoseconds.
const FLUSH_NS: i64 = 1_000_000_000;

#[derive(Arguments, Handlers)]
#[handler(sum, field = count, "packets written")]
#[handler(write, name = "reset_counts", "sets count to zero", run = self.count = 0)]
#[handler(read, name = "filename", "the file's name", get = self.out.path().to_owned())]
#[handler(
    write, shared, name = "flush", "writes buffered packets",
    run = self.out.flush().map_err(HandlerError::refused)?
)]
struct ToDump {
    #[arg(
        required, name = "FILENAME", value = String, ty = Ty::OutFile,
        "the capture; - for standard output"
    )]
    #[arg(
        optional, name = "SNAPLEN", value = u32, or = "2000",
        "bytes of a packet to keep; 0 for all"
    )]
    #[arg(
        optional, name = "ENCAP", value = LinkType, as = String, via = link_of, or = "ETHER",
        "first header of packets: ETHER, IP, ..."
    )]
    #[arg(
        keyword, name = "USE_ENCAP_FROM", value = Option<String>, ty = Ty::Element,
        "elements with an encap handler that returns ENCAP"
    )]
    #[new(names(args, use_encap_from)?)]
    encap_from: Vec<String>,
    #[arg(
        keyword, name = "EXTRA_LENGTH", value = bool, or = "true", "whether extra length counts"
    )]
    #[arg(
        keyword, name = "UNBUFFERED", value = bool, or = "false",
        "whether every batch is written at once"
    )]
    #[new(CaptureOut::new(args, filename).with(unbuffered, extra_length))]
    out: CaptureOut,
    #[arg(
        keyword, name = "NANO", value = bool, or = "false",
        "whether pcap times have nanoseconds"
    )]
    #[arg(
        keyword, name = "FORMAT", value = String, ty = Ty::Choice(&["pcap", "pcapng"]),
        or = "pcap", "the file's format"
    )]
    #[new(WriterOptions { format: format_of(args, &format, nano)?, link: encap, snaplen })]
    options: WriterOptions,
    /// Whether the timer is set.
    flushing: bool,
    count: u64,
    #[new(Batch::new())]
    batch: Batch,
}

fn link_of(text: String) -> Result<LinkType, String> {
    encap::parse(&text)
}

/// The elements that USE_ENCAP_FROM names.
fn names(args: &Args<'_>, given: Option<String>) -> Result<Vec<String>, ArgError> {
    if given.is_some() && args.given("ENCAP") {
        return Err(args.error("ENCAP", "give ENCAP or USE_ENCAP_FROM, not both"));
    }
    Ok(given.unwrap_or_default().split_whitespace().map(str::to_owned).collect())
}

/// The format that FORMAT and NANO ask for.
fn format_of(args: &Args<'_>, format: &str, nano: bool) -> Result<FileFormat, ArgError> {
    match format {
        "pcap" if nano => Ok(FileFormat::PcapNano),
        "pcap" => Ok(FileFormat::PcapMicro),
        "pcapng" => Ok(FileFormat::Pcapng),
        other => Err(args.error("FORMAT", format!("'{other}' is not pcap or pcapng"))),
    }
}

impl ToDump {
    /// The common link type of the elements of USE_ENCAP_FROM.
    fn agreed_link(&self, cx: &mut Cx<'_>) -> Result<Option<LinkType>, String> {
        let mut agreed: Option<(LinkType, &str)> = None;
        for name in &self.encap_from {
            let answer = cx.read_handler(&format!("{name}.encap"));
            let answer = answer.map_err(|error| format!("USE_ENCAP_FROM: {name}: {error}"))?;
            let link = encap::parse(answer.trim())
                .map_err(|message| format!("USE_ENCAP_FROM: {name}.encap: {message}"))?;
            match agreed {
                Some((other, by)) if other != link => {
                    return Err(format!(
                        "USE_ENCAP_FROM: {by} has {} and {name} has {}; write a file for each",
                        encap::name(other),
                        encap::name(link)
                    ));
                }
                _ => agreed = Some((link, name)),
            }
        }
        Ok(agreed.map(|(link, _)| link))
    }

    fn write_batch(&mut self, cx: &mut Cx<'_>, batch: &Batch) {
        let written = self.out.write(batch, cx.now());
        self.count += written.packets as u64;
        if written.packets < batch.len() {
            cx.count_drops(NotWritten::Failed, batch.len() - written.packets);
        }
        if let Some(error) = written.error {
            cx.log(&error);
        }
        if !self.flushing {
            self.flushing = true;
            cx.set_timer(0, cx.now().saturating_add(FLUSH_NS));
        }
    }
}

impl Element for ToDump {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if let Some(link) = self.agreed_link(cx)? {
            self.options.link = link;
        }
        self.out.create(&self.options)
    }

    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        self.write_batch(cx, batch);
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        if cx.outputs() > 0 || !cx.is_pull_input(0) {
            return Run::Idle;
        }
        let mut batch = std::mem::take(&mut self.batch);
        cx.pull(0, cx.burst().min(MAX_BATCH), &mut batch);
        let pulled = !batch.is_empty();
        if pulled {
            self.write_batch(cx, &batch);
            batch.clear();
        }
        self.batch = batch;
        if pulled { Run::Again } else { Run::Idle }
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        self.flushing = false;
        if let Err(error) = self.out.flush() {
            cx.log(&error);
        }
    }

    fn finish(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        self.out.finish()
    }
}

impl CostModel for ToDump {
    fn cost(&self, load: &Load) -> Option<Vec<Cost>> {
        let kept = match self.options.snaplen {
            0 => load.packet_bytes,
            snaplen => load.packet_bytes.min(f64::from(snaplen)),
        };
        // To a buffer, and from there to the system.
        Some(vec![
            Operation::HeaderWrite.once(),
            Operation::CopyLine.times(2.0 * Load::lines(kept)),
        ])
    }
}

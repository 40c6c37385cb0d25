//! IPPrint: shows IP packets in the manner of tcpdump.

use std::fmt::Write as _;

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic,
    Ty,
};
use thruway_packet::{Anno, Batch, Packet};

use super::ip_line::{Fields, IpPacket};
use super::lines::{self, Lines, write_ether};
use thruway_elements_support::text::{Contents, timestamp};

/// See the spec.
pub static ENTRY: Entry = Entry::built::<IpPrint>(
    Spec {
        name: "IPPrint",
        topic: Topic::Counters,
        summary: "prints IP packets in the manner of tcpdump",
        docs: "Expects IP packets whose network header is marked (CheckIPHeader, MarkIPHeader); \
               others pass without a word. Writes a line to standard error, or to OUTFILE, for each \
               packet. CONTENTS shows the packet's bytes too, PAYLOAD those behind the transport \
               header, up to MAXLENGTH. It formats text for every packet and is for looking, not \
               for speed.",
        example: "FromDump(trace.pcap, STOP true) -> Strip(14) -> CheckIPHeader -> IPPrint(ip) -> Discard",
        straight: true,
        args: &[
            Arg::optional("LABEL", Ty::Str, "text before each line"),
            Arg::keyword("CONTENTS", Ty::Choice(&["NONE", "HEX", "ASCII"]), "how bytes are shown")
                .or("NONE"),
            Arg::keyword("PAYLOAD", Ty::Choice(&["NO", "HEX", "ASCII"]), "how payload is shown")
                .or("NO"),
            Arg::keyword("MAXLENGTH", Ty::Int, "bytes to show; -1 for all").or("1500"),
            Arg::keyword("NBYTES", Ty::Int, "old name of MAXLENGTH"),
            Arg::keyword("TIMESTAMP", Ty::Bool, "whether the time is shown").or("true"),
            Arg::keyword("ID", Ty::Bool, "whether the IP identification is shown").or("false"),
            Arg::keyword("TTL", Ty::Bool, "whether the time to live is shown").or("false"),
            Arg::keyword("TOS", Ty::Bool, "whether the type of service is shown").or("false"),
            Arg::keyword("LENGTH", Ty::Bool, "whether the IP length is shown").or("false"),
            Arg::keyword("PAINT", Ty::Bool, "whether the paint is shown").or("false"),
            Arg::keyword("AGGREGATE", Ty::Bool, "whether the aggregate is shown").or("false"),
            Arg::keyword("ETHER", Ty::Bool, "whether Ethernet addresses are shown").or("false"),
            Arg::keyword("SWAP", Ty::Bool, "whether ICMP numbers are in network byte order")
                .or("true"),
            lines::OUTFILE,
            Arg::keyword("CHANNEL", Ty::Str, "accepted for Click's sake"),
            Arg::keyword("ACTIVE", Ty::Bool, "whether anything is printed").or("true"),
        ],
        changes: Changes::Nothing,
        cost: &[Operation::Format.once()],
        replicas: Replicas::Alike,
        large_packets: true,
        ..Spec::DEFAULT
    },
    build,
);

#[derive(Handlers)]
struct IpPrint {
    label: String,
    fields: Fields,
    timestamp: bool,
    paint: bool,
    aggregate: bool,
    ether: bool,
    contents: Contents,
    payload: Contents,
    max: usize,
    /// whether anything is printed
    #[handler(both)]
    active: bool,
    lines: Lines,
}

fn contents(args: &Args<'_>, name: &str) -> Result<Contents, ArgErrors> {
    let text: String = args.get(name)?;
    Ok(Contents::parse(&text).map_err(|error| args.error(name, error))?)
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let print = IpPrint {
        label: args.get("LABEL")?,
        fields: Fields {
            id: args.get("ID")?,
            ttl: args.get("TTL")?,
            tos: args.get("TOS")?,
            length: args.get("LENGTH")?,
            swapped: !args.get::<bool>("SWAP")?,
        },
        timestamp: args.get("TIMESTAMP")?,
        paint: args.get("PAINT")?,
        aggregate: args.get("AGGREGATE")?,
        ether: args.get("ETHER")?,
        contents: contents(args, "CONTENTS")?,
        payload: contents(args, "PAYLOAD")?,
        max: usize::try_from(args.opt("NBYTES")?.map_or_else(|| args.get::<i32>("MAXLENGTH"), Ok)?)
            .unwrap_or(usize::MAX),
        active: args.get("ACTIVE")?,
        lines: Lines::from_args(args)?,
    };
    if print.contents != Contents::None && print.payload != Contents::None {
        return Err(args.error("PAYLOAD", "give only one of CONTENTS and PAYLOAD").into());
    }
    Ok(Box::new(print))
}

impl IpPrint {
    fn line(&self, packet: &Packet) -> String {
        let mut line = String::new();
        self.write_marks(&mut line, packet);
        match IpPacket::new(packet.network(), packet.len()) {
            None => line.push_str("truncated-ip"),
            Some(ip) => {
                ip.write(&mut line, self.fields);
                self.write_contents(&mut line, packet, &ip);
            }
        }
        line
    }

    /// What is not of the IP packet itself. Writing to a String does not fail.
    fn write_marks(&self, line: &mut String, packet: &Packet) {
        if !self.label.is_empty() {
            let _ = write!(line, "{}: ", self.label);
        }
        if self.timestamp {
            let _ = write!(line, "{}: ", timestamp(packet.timestamp()));
        }
        if self.aggregate {
            let _ = write!(line, "#{}", packet.anno_number(Anno::AGGREGATE));
        }
        if self.paint {
            let before = if self.aggregate { "." } else { "paint " };
            let _ = write!(line, "{before}{}", packet.paint());
        }
        if self.aggregate || self.paint {
            line.push_str(": ");
        }
        if self.ether {
            write_ether(line, packet);
        }
    }

    fn write_contents(&self, line: &mut String, packet: &Packet, ip: &IpPacket<'_>) {
        let (contents, data) = if self.payload == Contents::None {
            (self.contents, packet.data())
        } else {
            (self.payload, packet.transport().get(ip.payload_offset()..).unwrap_or(&[]))
        };
        let data = &data[..data.len().min(self.max)];
        let row = contents.group() * 6;
        contents.write(line, data, |at| if at % row == 0 { "\n  " } else { " " });
    }
}

impl Element for IpPrint {
    fn initialize(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        self.lines.open()
    }

    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        if !self.active {
            return;
        }
        for packet in batch.iter() {
            if packet.network_offset().is_some() {
                let line = self.line(packet);
                self.lines.show(cx, &line);
            }
        }
    }

    fn finish(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        self.lines.close()
    }
}

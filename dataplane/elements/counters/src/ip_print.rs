//! IPPrint: shows IP packets in the manner of tcpdump.

use std::fmt::Write as _;

use thruway_element::{
    ArgError, Args, Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, Spec,
    Topic, Ty,
};
use thruway_packet::{Anno, Batch, Packet};

use super::ip_line::{Fields, IpPacket};
use super::lines::{self, Lines, write_ether};
use thruway_elements_support::text::{Contents, timestamp};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<IpPrint>(Spec {
    name: "IPPrint",
    topic: Topic::Counters,
    summary: "prints IP packets in the manner of tcpdump",
    docs: "Expects IP packets whose network header is marked (CheckIPHeader, MarkIPHeader); \
           others pass silently. Writes a line to standard error, or to OUTFILE, for each \
           packet. CONTENTS shows the packet's bytes too, PAYLOAD those behind the transport \
           header, up to MAXLENGTH. It formats text for every packet and is for looking, not \
           for speed.",
    example: "FromDump(trace.pcap, STOP true) -> Strip(14) -> CheckIPHeader -> IPPrint(ip) -> Discard",
    straight: true,
    changes: Changes::Nothing,
    cost: &[Operation::Format.once()],
    replicas: Replicas::Alike,
    large_packets: true,
    ..Spec::DEFAULT
});

#[derive(Arguments, Handlers)]
struct IpPrint {
    /// text before each line
    #[arg(optional)]
    label: String,
    /// how bytes are shown
    #[arg(keyword, ty = Ty::Choice(&["NONE", "HEX", "ASCII"]), or = "NONE")]
    contents: Contents,
    #[arg(
        keyword, name = "PAYLOAD", value = Contents, ty = Ty::Choice(&["NO", "HEX", "ASCII"]),
        or = "NO", "how payload is shown"
    )]
    #[new(one_of(args, contents, payload)?)]
    payload: Contents,
    #[arg(keyword, name = "MAXLENGTH", value = i32, or = "1500", "bytes to show; -1 for all")]
    #[arg(keyword, name = "NBYTES", value = Option<i32>, "old name of MAXLENGTH")]
    #[new(usize::try_from(nbytes.unwrap_or(maxlength)).unwrap_or(usize::MAX))]
    max: usize,
    /// whether the time is shown
    #[arg(keyword, or = "true")]
    timestamp: bool,
    #[arg(
        keyword, name = "ID", value = bool, or = "false", "whether the IP identification is shown"
    )]
    #[arg(keyword, name = "TTL", value = bool, or = "false", "whether the time to live is shown")]
    #[arg(
        keyword, name = "TOS", value = bool, or = "false", "whether the type of service is shown"
    )]
    #[arg(keyword, name = "LENGTH", value = bool, or = "false", "whether the IP length is shown")]
    /// whether the paint is shown
    #[arg(keyword, or = "false")]
    paint: bool,
    /// whether the aggregate is shown
    #[arg(keyword, or = "false")]
    aggregate: bool,
    /// whether Ethernet addresses are shown
    #[arg(keyword, or = "false")]
    ether: bool,
    #[arg(
        keyword, name = "SWAP", value = bool, or = "true",
        "whether ICMP numbers are in network byte order"
    )]
    #[new(Fields { id, ttl, tos, length, swapped: !swap })]
    fields: Fields,
    #[arg(like = lines::OUTFILE)]
    #[new(Lines::from_args(args)?)]
    lines: Lines,
    #[arg(keyword, name = "CHANNEL", unread, ty = Ty::Str, "accepted for Click's sake")]
    /// whether anything is printed
    #[arg(keyword, or = "true")]
    #[handler(both)]
    active: bool,
}

fn one_of(args: &Args<'_>, contents: Contents, payload: Contents) -> Result<Contents, ArgError> {
    if contents != Contents::None && payload != Contents::None {
        return Err(args.error("PAYLOAD", "give only one of CONTENTS and PAYLOAD"));
    }
    Ok(payload)
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

    /// Writes what does not belong to the IP packet itself. Writing to a String does not fail.
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

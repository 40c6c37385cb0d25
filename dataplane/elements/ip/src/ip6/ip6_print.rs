//! IP6Print: shows IPv6 packets.

use std::fmt::Write as _;

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic,
};
use thruway_packet::{Batch, Packet};
use thruway_wire::Header;
use thruway_wire::ipv6::Ipv6Header;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<Ip6Print>(Spec {
    name: "IP6Print",
    topic: Topic::Ip6,
    summary: "prints IPv6 packets",
    docs: "Expects packets whose IPv6 header is marked (CheckIP6Header, MarkIP6Header); others \
           pass silently. Writes a line to standard error for each packet: addresses, \
           payload length, next header, hop limit. With CONTENTS, lines with up to NBYTES of \
           the packet's bytes follow. It formats text for every packet and is for looking, not \
           for speed.",
    example: "InfiniteSource(\\<6000000000003b4020010db8000000000000000000000001 \
              20010db8000000000000000000000002>, LIMIT 1, STOP true) -> MarkIP6Header \
              -> IP6Print(v6) -> Discard",
    changes: Changes::Nothing,
    cost: &[Operation::Format.once()],
    replicas: Replicas::Alike,
    ..Spec::DEFAULT
});

#[derive(Arguments, Handlers)]
struct Ip6Print {
    /// text before each line
    #[arg(optional, else = String::new())]
    label: String,
    /// bytes to show
    #[arg(keyword, name = "NBYTES", as = u32, or = "1500")]
    bytes: usize,
    /// whether bytes are shown
    #[arg(keyword, or = "false")]
    contents: bool,
    /// whether anything is printed
    #[arg(keyword, or = "true")]
    #[handler(both)]
    active: bool,
}

/// Bytes on a line.
const LINE: usize = 24;

impl Ip6Print {
    fn text(&self, packet: &Packet) -> Option<String> {
        let (ip, _) = Ipv6Header::view(packet.network()).ok()?;
        let mut text = String::new();
        if !self.label.is_empty() {
            let _ = write!(text, "{}: ", self.label);
        }
        let (src, dst) = (ip.src_addr(), ip.dst_addr());
        let (len, next, hops) = (ip.payload_len(), ip.next_header(), ip.hop_limit());
        let _ = write!(text, "{src} -> {dst} plen {len}, next {next}, hlim {hops}");
        if self.contents {
            let shown = packet.data().len().min(self.bytes);
            for line in packet.data()[..shown].chunks(LINE) {
                text.push_str("\n ");
                for word in line.chunks(4) {
                    text.push(' ');
                    word.iter().for_each(|byte| {
                        let _ = write!(text, "{byte:02x}");
                    });
                }
            }
        }
        Some(text)
    }
}

impl Element for Ip6Print {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        if !self.active {
            return;
        }
        for packet in batch.iter() {
            if let Some(text) = self.text(packet) {
                cx.log(&text);
            }
        }
    }
}

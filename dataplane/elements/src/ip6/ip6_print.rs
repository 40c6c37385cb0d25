//! IP6Print: shows IPv6 packets.

use std::fmt::Write as _;

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Handler, HandlerError, Operation, Replicas,
    Spec, Topic, Ty, handler_value,
};
use thruway_packet::{Batch, Packet};
use thruway_wire::Header;
use thruway_wire::ipv6::Ipv6Header;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "IP6Print",
        topic: Topic::Ip6,
        summary: "prints IPv6 packets",
        docs: "Expects packets whose IPv6 header is marked (CheckIP6Header, MarkIP6Header); others \
               pass without a word. Writes a line to standard error for each packet: addresses, \
               payload length, next header, hop limit. With CONTENTS, lines with up to NBYTES of \
               the packet's bytes follow. It formats text for every packet and is for looking, not \
               for speed.",
        example: "InfiniteSource(\\<6000000000003b4020010db8000000000000000000000001 \
                  20010db8000000000000000000000002>, LIMIT 1, STOP true) -> MarkIP6Header \
                  -> IP6Print(v6) -> Discard",
        args: &[
            Arg::optional("LABEL", Ty::Str, "text before each line"),
            Arg::keyword("NBYTES", Ty::UInt, "bytes to show").or("1500"),
            Arg::keyword("CONTENTS", Ty::Bool, "whether bytes are shown").or("false"),
            Arg::keyword("ACTIVE", Ty::Bool, "whether anything is printed").or("true"),
        ],
        handlers: &[Handler::both("active", "whether anything is printed")],
        changes: Changes::Nothing,
        cost: &[Operation::Format.once()],
        replicas: Replicas::Alike,
        ..Spec::DEFAULT
    },
    build,
);

struct Ip6Print {
    label: String,
    bytes: usize,
    contents: bool,
    active: bool,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    Ok(Box::new(Ip6Print {
        label: args.opt("LABEL")?.unwrap_or_default(),
        bytes: args.get::<u32>("NBYTES")? as usize,
        contents: args.get("CONTENTS")?,
        active: args.get("ACTIVE")?,
    }))
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
                cx.chatter(&text);
            }
        }
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, HandlerError> {
        match name {
            "active" => Ok(self.active.to_string()),
            _ => Err(HandlerError::no_read(name)),
        }
    }

    fn write(&mut self, _cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "active" => self.active = handler_value(name, value)?,
            _ => return Err(HandlerError::no_write(name)),
        }
        Ok(())
    }
}

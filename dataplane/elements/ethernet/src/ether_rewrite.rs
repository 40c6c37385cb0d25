//! EtherRewrite: new Ethernet addresses.

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Handler, HandlerError, Handlers, Operation,
    Replicas, Spec, Topic, Ty, Verdict, handler_value, reasons,
};
use thruway_packet::{Batch, Packet};
use thruway_wire::MacAddr;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "EtherRewrite",
        topic: Topic::Ethernet,
        summary: "sets Ethernet source and destination",
        docs: "Writes SRC and DST into the Ethernet header of every packet and leaves its type as it \
               is. The header is where it is marked (by a source, EtherEncap or MarkMACHeader), \
               also when Strip took it off the packet's front meanwhile; with no mark, it is at \
               the packet's first byte. Packets too short for both addresses are dropped.",
        example: "InfiniteSource(DATA \\<000000000001 000000000002 0800>, LIMIT 1, STOP true)\n\
                  -> EtherRewrite(0:0:0:0:0:3, 0:0:0:0:0:4) -> Print -> Discard",
        straight: true,
        args: &[
            Arg::required("SRC", Ty::Ether, "source address"),
            Arg::required("DST", Ty::Ether, "destination address"),
        ],
        drops: Short::DROPS,
        handlers: &[
            Handler::both("src", "source address"),
            Handler::both("dst", "destination address"),
        ],
        cost: &[Operation::HeaderWrite.once()],
        changes: Changes::Frame,
        replicas: Replicas::Alike,
        large_packets: true,
        ..Spec::DEFAULT
    },
    build,
)
.with_handlers::<EtherRewrite>();

reasons! {
    /// Why a packet goes no further.
    enum Short {
        TooShort = "too-short": "it ends before the second Ethernet address does",
    }
}

/// Bytes of the two addresses.
const ADDRESSES: usize = 12;

struct EtherRewrite {
    src: MacAddr,
    dst: MacAddr,
    /// As they stand in the header.
    bytes: [u8; ADDRESSES],
}

impl EtherRewrite {
    fn new(src: MacAddr, dst: MacAddr) -> EtherRewrite {
        let mut bytes = [0; ADDRESSES];
        bytes[..6].copy_from_slice(&dst.0);
        bytes[6..].copy_from_slice(&src.0);
        EtherRewrite { src, dst, bytes }
    }

    #[inline]
    fn rewrite(&self, packet: &mut Packet) -> Verdict {
        if let Some(header) = packet.mac_head_mut() {
            *header = self.bytes;
            return Verdict::Pass;
        }
        self.rewrite_elsewhere(packet)
    }

    /// The header is not marked, or it was pulled off.
    #[cold]
    fn rewrite_elsewhere(&self, packet: &mut Packet) -> Verdict {
        let stripped = packet.mac_offset().map_or(0, |offset| offset.min(0).unsigned_abs());
        // The mark of a header that was pulled off lies in the head room, so the bytes are there.
        let written = packet.unpull(stripped) && self.write(packet) && packet.pull(stripped);
        if written { Verdict::Pass } else { Verdict::drop(Short::TooShort) }
    }

    fn write(&self, packet: &mut Packet) -> bool {
        let header = packet.data_mut().first_chunk_mut();
        if let Some(header) = header {
            *header = self.bytes;
            return true;
        }
        false
    }
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    Ok(Box::new(EtherRewrite::new(args.get("SRC")?, args.get("DST")?)))
}

impl Element for EtherRewrite {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.filter(batch, |packet| self.rewrite(packet));
    }
}

impl Handlers for EtherRewrite {
    fn read_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        match name {
            "src" => Ok(self.src.dashed().to_string()),
            "dst" => Ok(self.dst.dashed().to_string()),
            _ => Err(HandlerError::no_read(name)),
        }
    }

    fn write_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        *self = match name {
            "src" => EtherRewrite::new(handler_value(name, value)?, self.dst),
            "dst" => EtherRewrite::new(self.src, handler_value(name, value)?),
            _ => return Err(HandlerError::no_write(name)),
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: [u8; 16] = *b"DDDDDDSSSSSSttpp";
    const NEW: [u8; 16] = *b"ddddddssssssttpp";

    fn element() -> EtherRewrite {
        EtherRewrite::new(MacAddr(*b"ssssss"), MacAddr(*b"dddddd"))
    }

    #[test]
    fn at_the_front_or_at_the_mark() {
        let mut unmarked = Packet::new(&OLD).unwrap();
        assert_eq!(element().rewrite(&mut unmarked), Verdict::Pass);
        assert_eq!(unmarked.data(), NEW);

        let mut shifted = Packet::new(&[&[1, 2, 3][..], &OLD].concat()).unwrap();
        shifted.set_mac_offset(3);
        assert_eq!(element().rewrite(&mut shifted), Verdict::Pass);
        assert_eq!(shifted.data(), [&[1, 2, 3][..], &NEW].concat());
    }

    #[test]
    fn under_what_was_stripped() {
        let mut packet = Packet::new(&OLD).unwrap();
        packet.set_mac_offset(0);
        assert!(packet.pull(14));
        assert_eq!(element().rewrite(&mut packet), Verdict::Pass);
        assert_eq!(packet.data(), b"pp");
        assert!(packet.unpull(14));
        assert_eq!(packet.data(), NEW);
    }

    #[test]
    fn too_short() {
        for length in 0..12 {
            let mut packet = Packet::new(&OLD[..length]).unwrap();
            assert_eq!(element().rewrite(&mut packet), Verdict::drop(Short::TooShort));
        }
    }
}

//! EtherEncap: puts an Ethernet header in front.

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Handler, HandlerError, Handlers, Operation,
    Reason, Replicas, ShortCut, Spec, Topic, Ty, Verdict, handler_value,
};
use thruway_packet::{Batch, Packet};
use thruway_wire::MacAddr;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "EtherEncap",
        topic: Topic::Ethernet,
        summary: "puts an Ethernet header in front of packets",
        docs: "Puts the 14 bytes of an Ethernet header (destination DST, source SRC, type ETHERTYPE) \
               in front of every packet and marks it as the link-layer header. For IP packets, \
               whose destination depends on the next hop, see ARPQuerier.",
        example: "InfiniteSource(LIMIT 1, STOP true) -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2)\n\
                  -> Print(CONTENTS HEX, MAXLENGTH 14) -> Discard",
        straight: true,
        args: &[
            Arg::required("ETHERTYPE", Ty::UInt, "the type of what follows: 0x0800 for IP"),
            Arg::required("SRC", Ty::Ether, "source address"),
            Arg::required("DST", Ty::Ether, "destination address"),
        ],
        handlers: &[
            Handler::both("src", "source address"),
            Handler::both("dst", "destination address"),
            Handler::both("ethertype", "the type of what follows"),
        ],
        cost: &[Operation::HeaderWrite.once()],
        changes: Changes::Frame,
        replicas: Replicas::Alike,
        short_cut: ShortCut::Passes,
        large_packets: true,
        ..Spec::DEFAULT
    },
    build,
)
.with_handlers::<EtherEncap>();

/// Bytes of an Ethernet header.
const HEADER: usize = 14;

struct EtherEncap {
    header: [u8; HEADER],
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let mut encap = EtherEncap { header: [0; HEADER] };
    encap.header[12..].copy_from_slice(&args.get::<u16>("ETHERTYPE")?.to_be_bytes());
    encap.header[6..12].copy_from_slice(&args.get::<MacAddr>("SRC")?.0);
    encap.header[..6].copy_from_slice(&args.get::<MacAddr>("DST")?.0);
    Ok(Box::new(encap))
}

impl EtherEncap {
    #[inline]
    fn encap(&self, packet: &mut Packet) -> Verdict {
        if !packet.push(HEADER) {
            return Verdict::Drop(Reason::NO_MEMORY);
        }
        packet.data_mut()[..HEADER].copy_from_slice(&self.header);
        packet.set_mac_offset(0);
        Verdict::Pass
    }

    fn address(&self, at: usize) -> String {
        let [a, b, c, d, e, f, ..] = &self.header[at..] else { return String::new() };
        MacAddr([*a, *b, *c, *d, *e, *f]).dashed().to_string()
    }
}

impl Element for EtherEncap {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.filter(batch, |packet| self.encap(packet));
    }
}

impl Handlers for EtherEncap {
    fn read_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        match name {
            "src" => Ok(self.address(6)),
            "dst" => Ok(self.address(0)),
            "ethertype" => Ok(u16::from_be_bytes([self.header[12], self.header[13]]).to_string()),
            _ => Err(HandlerError::no_read(name)),
        }
    }

    fn write_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        let address = || handler_value::<MacAddr>(name, value);
        match name {
            "src" => self.header[6..12].copy_from_slice(&address()?.0),
            "dst" => self.header[..6].copy_from_slice(&address()?.0),
            "ethertype" => {
                let ethertype: u16 = handler_value(name, value)?;
                self.header[12..].copy_from_slice(&ethertype.to_be_bytes());
            }
            _ => return Err(HandlerError::no_write(name)),
        }
        Ok(())
    }
}

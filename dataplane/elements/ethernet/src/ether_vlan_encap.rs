//! EtherVLANEncap: an Ethernet header with a VLAN tag in front.

use thruway_element::{
    Alias, Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Handler, HandlerError, Handlers,
    Operation, Reason, Replicas, Spec, Topic, Ty, Verdict, handler_value,
};
use thruway_packet::{Batch, Packet};
use thruway_wire::Header;
use thruway_wire::MacAddr;
use thruway_wire::ethernet::{EthernetHeader, ethertype};
use thruway_wire::vlan::VlanTag;

use super::vlan_tag::TagChoice;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "EtherVLANEncap",
        aliases: &[Alias { name: "EtherVlanEncap", summary: "an older name" }],
        topic: Topic::Ethernet,
        summary: "puts an Ethernet header with a VLAN tag in front of packets",
        docs: "Puts the 18 bytes of an Ethernet header with a tag of IEEE 802.1Q in front of every \
               packet and marks it as the link-layer header. The tag's control information is \
               VLAN_TCI, or what VLAN_ID and VLAN_PCP make, or that of the VLAN_TCI annotation where \
               VLAN_TCI is ANNO. Packets whose identifier would be NATIVE_VLAN get a plain header of \
               14 bytes.",
        example: "InfiniteSource(LIMIT 1, STOP true) \
                  -> EtherVLANEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2, 1) -> Print -> Discard",
        straight: true,
        args: &[
            Arg::required("ETHERTYPE", Ty::UInt, "the type of what follows: 0x0800 for IP"),
            Arg::required("SRC", Ty::Ether, "source address"),
            Arg::required("DST", Ty::Ether, "destination address"),
            Arg::optional("VLAN_TCI", Ty::Any, "control information, or ANNO"),
            Arg::optional("VLAN_PCP", Ty::UInt, "priority code point, 0 to 7").or("0"),
            Arg::keyword("VLAN_ID", Ty::UInt, "VLAN identifier, in place of VLAN_TCI"),
            Arg::keyword("NATIVE_VLAN", Ty::Int, "identifier that has no tag; -1 for none").or("0"),
        ],
        handlers: &[
            Handler::both("src", "source address"),
            Handler::both("dst", "destination address"),
            Handler::both("ethertype", "the type of what follows"),
            Handler::both("vlan_tci", "control information, or ANNO"),
            Handler::both("vlan_id", "VLAN identifier"),
            Handler::both("vlan_pcp", "priority code point"),
            Handler::both("native_vlan", "identifier that has no tag; -1 for none"),
        ],
        cost: &[Operation::HeaderWrite.once()],
        changes: Changes::Frame,
        replicas: Replicas::Alike,
        ..Spec::DEFAULT
    },
    build,
)
.with_handlers::<EtherVlanEncap>();

struct EtherVlanEncap {
    src: MacAddr,
    dst: MacAddr,
    ethertype: u16,
    tag: TagChoice,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    Ok(Box::new(EtherVlanEncap {
        src: args.get("SRC")?,
        dst: args.get("DST")?,
        ethertype: args.get("ETHERTYPE")?,
        tag: TagChoice::from_args(args, true)?,
    }))
}

impl EtherVlanEncap {
    #[inline]
    fn encap(&self, packet: &mut Packet) -> Verdict {
        let tci = self.tag.of(packet);
        let len = EthernetHeader::LEN + if tci.is_some() { VlanTag::LEN } else { 0 };
        if !packet.push(len) {
            return Verdict::Drop(Reason::NO_MEMORY);
        }
        let data = packet.data_mut();
        let outer = if tci.is_some() { ethertype::VLAN } else { self.ethertype };
        // There is room: it was just pushed.
        let _ = EthernetHeader::new(self.dst, self.src, outer).emit(data);
        if let Some(tci) = tci {
            let _ = VlanTag::new(tci, self.ethertype).emit(&mut data[EthernetHeader::LEN..]);
        }
        packet.set_mac_offset(0);
        Verdict::Pass
    }
}

impl Element for EtherVlanEncap {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.filter(batch, |packet| self.encap(packet));
    }
}

impl Handlers for EtherVlanEncap {
    fn read_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        match name {
            "src" => Ok(self.src.dashed().to_string()),
            "dst" => Ok(self.dst.dashed().to_string()),
            "ethertype" => Ok(self.ethertype.to_string()),
            _ => self.tag.read(name),
        }
    }

    fn write_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        match name {
            "src" => self.src = handler_value(name, value)?,
            "dst" => self.dst = handler_value(name, value)?,
            "ethertype" => self.ethertype = handler_value(name, value)?,
            _ => self.tag.write(name, value)?,
        }
        Ok(())
    }
}

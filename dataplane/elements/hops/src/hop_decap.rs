//! HopDecap: removes the headers of a hop from another host's packets.

use thruway_element::{
    Arg, ArgErrors, Args, Cx, Drop, Element, Entry, Operation, Replicas, Spec, Topic, Ty, UdpPort,
    Verdict, declared, reasons,
};
use thruway_packet::{Anno, Batch, Packet};

use crate::hop_encap::{NETWORK, vni};
use crate::inner::{self, Inner};
use crate::overlay::{NoOverlay, Overlay};
use crate::underlay::{Accepted, NoDatagram, datagram};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "HopDecap",
        topic: Topic::Hops,
        summary: "takes the headers of a hop from another host off",
        docs: "Expects packets that begin with an IPv4 or IPv6 header, as HopEncap makes them, and \
               takes off that header, UDP's and that of NETWORK. The AGGREGATE annotation becomes \
               the network, VLAN_TCI the tag of the packet's class, if it came as an option of \
               Geneve, else 0. Lengths, versions and checksums are checked. What is no such \
               packet, is for another port than DPORT, of another network than VNI, or carries \
               something else than PROTOCOL, leaves by output 1, or is dropped where there is \
               none.\n\n\
               Reassemble fragments first (IPReassembler). The element does not check addresses: \
               any sender that reaches this interface can forge packets between hosts. Let an \
               IPFilter pass other hosts' addresses alone, on a link of their own.",
        example: "InfiniteSource(\\<4500001400000000401177d70100000102000002>, LIMIT 1, STOP true) \
                  -> HopEncap(192.0.2.1, 192.0.2.2, NETWORK geneve, PROTOCOL ip) \
                  -> HopDecap(NETWORK geneve, PROTOCOL ip) -> CheckIPHeader -> Print(ok) -> Discard",
        ports: "1/1-2",
        processing: "a/ah",
        straight: true,
        args: &[
            NETWORK,
            Arg::keyword("VNI", Ty::UInt, "the network; any if not given"),
            Arg::keyword("PROTOCOL", Ty::Choice(inner::WORDS), "what they carry").or("nsh"),
            Arg::keyword("DPORT", Ty::Port, "destination port; that of NETWORK if not given"),
            Arg::keyword("ZERO_CHECKSUM", Ty::Bool, "whether IPv6 may have no UDP checksum")
                .or("false"),
        ],
        drops: &DROPS,
        cost: &[Operation::HeaderParse.times(3.0), Operation::HeaderMove.once()],
        replicas: Replicas::Alike,
        ..Spec::DEFAULT
    },
    build,
);

/// Those of the headers' readers, then those of the overlay ([`of_overlay`]), then this element's.
const DROPS: [Drop; declared::len(LISTS)] = declared::joined(LISTS);
const LISTS: &[&[Drop]] = &[NoDatagram::DROPS, NoOverlay::DROPS, Other::DROPS];

reasons! {
    /// Why a packet that is right is for others.
    enum Other {
        Network = "other-network": "its network is not VNI",
    }
}

/// The reason of a list that stands behind so many others.
fn behind(others: usize, reason: impl Into<thruway_element::Reason>) -> thruway_element::Reason {
    thruway_element::Reason(reason.into().0 + others as u8)
}

fn of_overlay(why: NoOverlay) -> thruway_element::Reason {
    behind(NoDatagram::DROPS.len(), why)
}

struct HopDecap {
    overlay: Overlay,
    vni: Option<u32>,
    inner: Inner,
    accepted: Accepted,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let overlay = Overlay::ALL[args.choice("NETWORK")?];
    let port = args.opt("DPORT")?.map_or(overlay.port(), |UdpPort(port)| port);
    Ok(Box::new(HopDecap {
        overlay,
        vni: vni(args)?,
        inner: Inner::ALL[args.choice("PROTOCOL")?],
        accepted: Accepted { port, zero_checksum: args.get("ZERO_CHECKSUM")? },
    }))
}

impl HopDecap {
    #[inline]
    fn decap(&self, packet: &mut Packet) -> Result<(), thruway_element::Reason> {
        let outer = datagram(packet.data(), self.accepted)?;
        let payload = packet.data().get(outer.from..outer.to).unwrap_or(&[]);
        let read = self.overlay.read(payload).map_err(of_overlay)?;
        if self.vni.is_some_and(|vni| vni != read.vni) {
            let before = NoDatagram::DROPS.len() + NoOverlay::DROPS.len();
            return Err(behind(before, Other::Network));
        }
        if !self.inner.is_next_protocol(read.number) {
            return Err(of_overlay(NoOverlay::Protocol));
        }
        packet.truncate(outer.to);
        if !packet.pull(outer.from + read.len) {
            return Err(of_overlay(NoOverlay::Short));
        }
        packet.set_anno_number(Anno::AGGREGATE, read.vni);
        packet.set_anno_number(Anno::VLAN_TCI, read.tag.into());
        Ok(())
    }
}

impl Element for HopDecap {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.filter(batch, |packet| match self.decap(packet) {
            Ok(()) => Verdict::Pass,
            Err(reason) => Verdict::Reject(1, reason),
        });
    }
}

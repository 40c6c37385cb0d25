//! FlowIPNATReverse: sets the replies to what a FlowIPNAT has translated back.

use std::sync::Arc;

use thruway_element::{
    Arg, ArgErrors, Args, Cx, Direction, Element, Entry, Opening, PerSession, Reason, Replicas,
    Session, Spec, Ty, Verdict, Wants,
};
use thruway_packet::{Batch, Packet};

use super::flow_ip_nat::ports::PortMap;
use super::flow_ip_nat::{self, FlowIpNatDrop};
use super::nat::kind::tuple_of;
use super::rewrite::{End, Translation};
use crate::rewriters::quoted;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "FlowIPNATReverse",
        summary: "restores the destination of replies to packets that a FlowIPNAT has translated",
        docs: "Sets the destination of replies, and of ICMP errors, to the address and port that \
               the session had before FlowIPNAT NAT translated it; the destination annotation \
               follows. Packets of sessions that did not begin at that FlowIPNAT are dropped.",
        example: "FromIPSummaryDump(-, STOP true) -> in :: FlowIPManager -> nat :: FlowIPNAT(192.0.2.1) \
                  -> IPMirror -> out :: FlowIPManager -> FlowIPNATReverse(nat) -> IPPrint -> Discard",
        args: &[Arg::required("NAT", Ty::Element, "name of the FlowIPNAT")],
        handlers: &[],
        wants: Wants::session::<Translation>("connection"),
        replicas: Replicas::Sharing("the ports that FlowIPNAT has given"),
        ..flow_ip_nat::ENTRY.spec
    },
    |args| Ok(Box::new(FlowIpNatReverse { function: Reverse::new(args)? })),
);

/// FlowIPNATReverse proper.
struct Reverse {
    /// Those that NAT may mean, the innermost compound's first; one when it is known which there
    /// is.
    maps: Vec<Arc<PortMap>>,
    name: String,
}

impl Reverse {
    fn new(args: &Args<'_>) -> Result<Reverse, ArgErrors> {
        let name: String = args.get("NAT")?;
        let names = args.meanings(&name);
        let maps = names.iter().filter_map(|name| PortMap::of(args, name)).collect();
        Ok(Reverse { maps, name })
    }

    /// The translation of replies to an outside address and port.
    fn of(&self, protocol: u8, outside: (u32, u16)) -> Option<Translation> {
        let is_there = |map: &&Arc<PortMap>| map.sip.get() == Some(&outside.0);
        let inside = self.maps.iter().find(is_there)?.inside(outside.1)?;
        Translation::new(protocol, outside, inside).ok()
    }

    /// The same by the first packet.
    fn begin(&self, packet: &Packet, related: bool) -> Result<Translation, FlowIpNatDrop> {
        if related {
            let about = quoted(packet.transport()).ok_or(FlowIpNatDrop::NoSession)?;
            let ident = about.ident.map(|(ident, _)| ident);
            let port = about.ports.map(|(src, _)| src).or(ident).ok_or(FlowIpNatDrop::NoSession)?;
            return self.of(about.protocol, (about.src, port)).ok_or(FlowIpNatDrop::NoMapping);
        }
        let (_, tuple) = tuple_of(packet.network()).ok_or(FlowIpNatDrop::NoSession)?;
        self.of(tuple.protocol, (tuple.dst, tuple.dst_port)).ok_or(FlowIpNatDrop::NoMapping)
    }
}

impl PerSession for Reverse {
    type State = Translation;

    fn open(
        &mut self,
        opening: &mut Opening<'_>,
        packet: &mut Packet,
        state: &mut Translation,
    ) -> Result<(), Reason> {
        // Any outside host that guesses a port could take over a session that begins outside.
        if opening.direction == Direction::Forward {
            return Err(FlowIpNatDrop::NoMapping.into());
        }
        *state = self.begin(packet, opening.related)?;
        Ok(())
    }

    fn each(&mut self, packet: &mut Packet, session: &mut Session<'_, Translation>) -> Verdict {
        let (translation, related) = (&session.state, session.related);
        match translation.apply(packet, End::Destination, Direction::Forward, related) {
            Ok(()) => {
                packet.set_dst_ip(translation.after().0.to_be_bytes());
                Verdict::Pass
            }
            Err(_) => Verdict::drop(FlowIpNatDrop::Malformed),
        }
    }

    fn without(&mut self, _packet: &mut Packet) -> Verdict {
        Verdict::drop(FlowIpNatDrop::NoSession)
    }
}

struct FlowIpNatReverse {
    function: Reverse,
}

impl Element for FlowIpNatReverse {
    fn initialize(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        let Reverse { maps, name } = &mut self.function;
        maps.retain(|map| map.sip.get().is_some());
        maps.truncate(1);
        match maps.first() {
            Some(_) => Ok(()),
            None => Err(format!("NAT: '{name}' is no FlowIPNAT")),
        }
    }

    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.per_session(&mut self.function, batch);
    }
}

//! FlowIPNAT: FastClick's source translation, for one direction; FlowIPNATReverse has the other.

pub(super) mod ports;

use std::any::Any;
use std::net::Ipv4Addr;
use std::sync::Arc;

use thruway_element::{
    Answers, Arg, ArgErrors, Args, Changes, Cx, Direction, Element, Entry, Handlers, HotSwap,
    NoAnswer, Opening, Operation, PerSession, Reason, Replicas, Session, SessionFunction, Spec,
    Topic, Ty, Verdict, Wants, reasons,
};
use thruway_flow::Ended;
use thruway_packet::{Batch, Packet};
use thruway_sync::atomic::Ordering;
use thruway_wire::Header;
use thruway_wire::flow::FiveTuple;
use thruway_wire::tcp::{TcpHeader, flags};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::nat::kind::{Kind, tuple_of};
use super::rewrite::{End, Translation};
use ports::{PortMap, Share};
use thruway_elements_support::dialect::ignored;

/// See the spec.
pub static ENTRY: Entry = Entry::built::<FlowIpNat>(
    Spec {
        name: "FlowIPNAT",
        topic: Topic::Sessions,
        summary: "gives sessions an outside address and port, by FastClick's name",
        docs: "Sets the source of each session's packets to SIP and to a port of its own, from \
               1024 on in turn; threads have equal shares of the ports. The replies go through a \
               FlowIPNATReverse, which sets their destination back. Both stand behind a \
               FlowManager (or FlowClassifier). TCP, UDP and ICMP queries (by their identifier) \
               are translated, and ICMP errors about them. If replies come here, too, they are \
               translated like a session of their own. A port is free again when its session ends; \
               at most 1024 ports are looked at for a new session. Ports can be foreseen (RFC \
               6056): where that matters, use NAT.",
        example: "FromIPSummaryDump(-, STOP true) -> FlowIPManager -> FlowIPNAT(SIP 192.0.2.1) \
                  -> IPPrint -> Discard",
        args: &[
            Arg::required("SIP", Ty::Ip, "the outside address"),
            Arg::keyword("ACCEPT_NONSYN", Ty::Bool, "whether TCP sessions may begin without a SYN")
                .or("true"),
            ignored("STATE"),
        ],
        drops: FlowIpNatDrop::DROPS,
        wants: Wants { translates: true, ..Wants::session::<Ports>("connection") },
        changes: Changes::Headers,
        cost: &[Operation::SessionState.once(), Operation::RewriteIp.once()],
        replicas: Replicas::Apart("each gives ports of its share to the sessions of its thread"),
        ..Spec::DEFAULT
    },
    |args| Ok(Box::new(FlowIpNat { function: Nat::new(args)? })),
)
.with_session_function::<FlowIpNat>()
.with_hot_swap::<FlowIpNat>();

reasons! {
    /// Why a packet goes no further.
    pub(super) enum FlowIpNatDrop {
        NoPort = "no-port": "all ports that were looked at are in use",
        NoRoom = "no-room": "the flow manager has no room for its replies",
        NoSyn = "no-syn": "it begins a TCP session, and is no SYN",
        NoMapping = "no-mapping": "it is no reply to a packet that FlowIPNAT has translated",
        NoSession = "no-session": "it is not IPv4, a fragment, or of a protocol without ports",
        Malformed = "malformed": "its headers are not all there",
    }
}

/// Most ports that are offered to the flow manager for a session.
const TRIES_MAX: usize = 4;
/// A session's translations, by direction. A translation to port 0 is none.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct Ports([Translation; 2]);

/// The index of a direction.
fn index(direction: Direction) -> usize {
    usize::from(direction == Direction::Reply)
}

/// FlowIPNAT proper.
struct Nat {
    ports: Arc<PortMap>,
    share: Share,
    sip: u32,
    accepts_non_syn: bool,
    created: u64,
    in_use: u64,
}

impl Nat {
    fn new(args: &Args<'_>) -> Result<Nat, ArgErrors> {
        let sip = args.get::<Ipv4Addr>("SIP")?.to_bits();
        let ports = PortMap::of(args, args.name()).ok_or_else(no_ports)?;
        ports.sip.get_or_init(|| sip);
        Ok(Nat {
            ports,
            share: Share::new(args.env().rank, args.env().threads),
            sip,
            accepts_non_syn: args.get("ACCEPT_NONSYN")?,
            created: 0,
            in_use: 0,
        })
    }

    /// Finds a port; with `answers`, one with replies that the flow manager can attribute.
    fn assign(
        &mut self,
        tuple: FiveTuple<u32>,
        mut answers: Option<&mut dyn Answers>,
    ) -> Result<Translation, FlowIpNatDrop> {
        let inside = (tuple.src, tuple.src_port);
        for _ in 0..TRIES_MAX {
            let port = self.ports.take(&mut self.share, inside).ok_or(FlowIpNatDrop::NoPort)?;
            let translation = Translation::new(tuple.protocol, inside, (self.sip, port))
                .map_err(|_| FlowIpNatDrop::NoSession)?;
            let reply = translation.translated(End::Source, tuple).reversed();
            let answered = answers.as_mut().map_or(Ok(()), |answers| answers.answer(&reply));
            if answered.is_ok() {
                (self.created, self.in_use) = (self.created + 1, self.in_use + 1);
                return Ok(translation);
            }
            self.ports.free(port, inside);
            if answered == Err(NoAnswer::NoRoom) {
                return Err(FlowIpNatDrop::NoRoom);
            }
        }
        Err(FlowIpNatDrop::NoPort)
    }

    fn close(&mut self, state: &Ports) {
        for translation in state.0.iter().filter(|translation| translation.after().1 != 0) {
            self.ports.free(translation.after().1, translation.before());
            self.in_use = self.in_use.saturating_sub(1);
        }
    }
}

impl PerSession for Nat {
    type State = Ports;

    fn open(
        &mut self,
        opening: &mut Opening<'_>,
        packet: &mut Packet,
        state: &mut Ports,
    ) -> Result<(), Reason> {
        *state = Ports::default();
        let Some((kind, tuple)) = tuple_of(packet.network()).filter(|_| !opening.related) else {
            return Err(FlowIpNatDrop::NoSession.into());
        };
        let is_syn =
            || TcpHeader::view(packet.transport()).is_ok_and(|(tcp, _)| tcp.has_flags(flags::SYN));
        if kind == Kind::Tcp && !self.accepts_non_syn && !is_syn() {
            return Err(FlowIpNatDrop::NoSyn.into());
        }
        if opening.direction == Direction::Forward {
            state.0[0] = self.assign(tuple, Some(&mut *opening.answers))?;
        }
        Ok(())
    }

    fn each(&mut self, packet: &mut Packet, session: &mut Session<'_, Ports>) -> Verdict {
        let translation = &mut session.state.0[index(session.direction)];
        if translation.after().1 == 0 {
            let tuple = tuple_of(packet.network()).filter(|_| !session.related);
            let assigned = tuple.ok_or(FlowIpNatDrop::NoSession);
            match assigned.and_then(|(_, tuple)| self.assign(tuple, None)) {
                Ok(assigned) => *translation = assigned,
                Err(bad) => return Verdict::drop(bad),
            }
        }
        match translation.apply(packet, End::Source, Direction::Forward, session.related) {
            Ok(()) => Verdict::Pass,
            Err(_) => Verdict::drop(FlowIpNatDrop::Malformed),
        }
    }

    fn without(&mut self, _packet: &mut Packet) -> Verdict {
        Verdict::drop(FlowIpNatDrop::NoSession)
    }
}

#[derive(Handlers)]
#[handler(sum, name = "created", "sessions that got a port", get = self.function.created)]
#[handler(sum, name = "ports_in_use", "ports that sessions have now", get = self.function.in_use)]
struct FlowIpNat {
    function: Nat,
}

/// The state for a successor.
struct Given {
    ports: Arc<PortMap>,
    counts: [u64; 2],
}

impl Element for FlowIpNat {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.per_session(&mut self.function, batch);
    }
}

impl HotSwap for FlowIpNat {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        let Nat { ports, created, in_use, .. } = &mut self.function;
        let counts = [std::mem::take(created), std::mem::take(in_use)];
        Some(Box::new(Given { ports: ports.clone(), counts }))
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        let Ok(before) = state.downcast::<Given>() else { return };
        let Nat { ports, created, in_use, .. } = &mut self.function;
        for (own, other) in ports.words.iter().zip(&before.ports.words) {
            // Relaxed: packets come afterwards.
            let word = other.load(Ordering::Relaxed);
            let _ = own.compare_exchange(0, word, Ordering::Relaxed, Ordering::Relaxed);
        }
        (*created, *in_use) = (*created + before.counts[0], *in_use + before.counts[1]);
    }
}

impl SessionFunction for FlowIpNat {
    fn closed(&mut self, _cx: &mut Cx<'_>, state: &[u8], _why: Ended) {
        if let Ok(state) = Ports::read_from_bytes(state) {
            self.function.close(&state);
        }
    }
}

#[cold]
fn no_ports() -> ArgErrors {
    ArgErrors::whole("another element of this name shares something else")
}

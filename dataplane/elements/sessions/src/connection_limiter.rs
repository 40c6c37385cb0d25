//! ConnectionLimiter: how many connections a source may have.

use std::any::Any;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};

use thruway_element::{
    ArgErrors, Args, Arguments, Changes, Cx, Direction, Element, Entry, HandlerError, Handlers,
    HotSwap, Ip6Prefix, Opening, Operation, PerSession, Reason, Replicas, Session, SessionFunction,
    Spec, Topic, Verdict, Wants, handler_value, reasons,
};
use thruway_flow::Ended;
use thruway_packet::{Batch, Packet};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use sources::{Over, Source, Sources};
use thruway_elements_support::pace::Pace;

mod sources;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<ConnectionLimiter>(Spec {
    name: "ConnectionLimiter",
    topic: Topic::Sessions,
    summary: "limits the open connections of each source, and how fast it opens them",
    docs: "A source may have MAX connections open at a time, and open RATE a second, BURST of \
           them at once; at least one of MAX and RATE is to be given. A connection is a \
           session of FlowClassifier (TCP, UDP, ICMP queries...), open from its first packet \
           until it has timed out or was ended; its source is the address that its first \
           packet came from, under PREFIX bits (IPv4) or PREFIX6 bits (IPv6), so that a whole \
           network can count as one. Packets that would open one more leave by output 1, if \
           that is connected, or are dropped; connections that are open go on. A refused \
           packet counts as no connection, and its next one asks again.\n\n\
           BURST is RATE if it is not given. A source is forgotten when it has no connection \
           and could open BURST again. Up to SOURCES_MAX are known; beyond, new ones are \
           refused (sources). Each thread counts the connections that begin there: where \
           several threads serve one source it may have MAX in each.\n\n\
           Packets without a session pass. It is FlowClassifier that finds sessions, so it \
           must be upstream.",
    example: "FromDump(examples/captures/lan.pcap, STOP true) -> FlowClassifier \
              ~> ConnectionLimiter(MAX 20, RATE 10) -> Discard",
    ports: "1/1-2",
    processing: "a/ah",
    drops: Refused::DROPS,
    wants: Wants { shared_words: 1, ..Wants::session::<Counted>("connection") },
    changes: Changes::Nothing,
    cost: &[Operation::SessionState.once()],
    replicas: Replicas::Apart(
        "each counts the connections that begin in its thread: a source may have MAX in each",
    ),
    ..Spec::DEFAULT
})
.with_session_function::<ConnectionLimiter>()
.with_hot_swap::<ConnectionLimiter>();

reasons! {
    /// Why a packet goes no further.
    enum Refused {
        Open = "max": "its source has as many open connections as it may",
        Rate = "rate": "its source opens connections too fast",
        Sources = "sources": "more sources than SOURCES_MAX",
    }
}

/// Output for what is refused.
const REFUSED: usize = 1;
/// Lines of the handler `busiest` when no number is given.
const BUSIEST: usize = 10;
/// Most of SOURCES_MAX.
const SOURCES_MAX: u32 = 1 << 24;

/// State of a session: the number of its source and 1, or [`ELSEWHERE`].
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(transparent)]
struct Counted(u32);

/// Another thread's replica counts it, or none: an error without its connection.
const ELSEWHERE: Counted = Counted(u32::MAX);

#[derive(Arguments, Handlers)]
#[handler(
    both, name = "max", "most open connections of a source; 0: any number",
    get = self.limiter.sources.most.unwrap_or(0), write = self.write_max(name, value)
)]
#[handler(sum, name = "open", "open connections", get = self.limiter.open)]
#[handler(sum, name = "sources", "sources that are known", get = self.limiter.sources.len())]
#[handler(
    read, concat, name = "busiest", "the sources with the most connections: so many lines",
    read = self.read_busiest(param)
)]
struct ConnectionLimiter {
    #[arg(
        keyword, name = "MAX", value = Option<u32>, range = 1..,
        "most open connections of a source"
    )]
    #[arg(
        keyword, name = "RATE", value = Option<u64>, "new connections of a source per second"
    )]
    #[arg(
        keyword, name = "BURST", value = Option<u64>, "new connections that may come at once"
    )]
    #[arg(
        keyword, name = "PREFIX", value = u8, range = 0..=32, or = "32",
        "bits of an IPv4 address that distinguish sources"
    )]
    #[arg(
        keyword, name = "PREFIX6", value = u8, range = 0..=128, or = "128",
        "bits of an IPv6 address that do"
    )]
    #[arg(
        keyword, name = "SOURCES_MAX", value = u32, range = 1..=SOURCES_MAX, or = "65536",
        "most sources that are known"
    )]
    #[new({
        let sources = Sources::new(max, pace(args, max, rate, burst)?, sources_max, seed());
        Limiter { sources, prefixes: [prefix + 96, prefix6], open: 0, now: 0 }
    })]
    limiter: Limiter,
}

/// The function proper.
struct Limiter {
    sources: Sources,
    /// Bits of the address that count, of both versions in IPv6's form.
    prefixes: [u8; 2],
    open: u64,
    /// Present time.
    now: i64,
}

fn pace(
    args: &Args<'_>,
    max: Option<u32>,
    rate: Option<u64>,
    burst: Option<u64>,
) -> Result<Option<Pace>, ArgErrors> {
    match (rate, burst) {
        (Some(rate), burst) => {
            let pace = Pace::new(rate, burst.unwrap_or(rate));
            Ok(Some(pace.map_err(|message| args.error("RATE", message))?))
        }
        (None, Some(_)) => Err(args.error("BURST", "is nothing without RATE").into()),
        (None, None) if max.is_none() => {
            Err(ArgErrors::whole("give MAX (connections), RATE (new ones per second) or both"))
        }
        (None, None) => Ok(None),
    }
}

/// An attacker that knew it could make sources collide.
fn seed() -> [u64; 2] {
    std::array::from_fn(|_| RandomState::new().build_hasher().finish())
}

/// The state for a successor.
struct Kept {
    sources: Sources,
    open: u64,
}

/// The host that opened the session of this packet.
fn opener(packet: &Packet, direction: Direction) -> Option<IpAddr> {
    let head = packet.network();
    let (v4, v6) = match direction {
        Direction::Forward => (12, 8),
        Direction::Reply => (16, 24),
    };
    match head.first()? >> 4 {
        4 => head.get(v4..)?.first_chunk::<4>().map(|addr| (*addr).into()),
        6 => head.get(v6..)?.first_chunk::<16>().map(|addr| (*addr).into()),
        _ => None,
    }
}

impl Limiter {
    fn source(&self, addr: IpAddr) -> Source {
        let [prefix4, prefix6] = self.prefixes;
        let (addr, length) = match addr {
            IpAddr::V4(addr) => (addr.to_ipv6_mapped(), prefix4),
            IpAddr::V6(addr) => (addr, prefix6),
        };
        let bits = Ip6Prefix { addr, length }.network().to_bits();
        [96, 64, 32, 0].map(|shift| (bits >> shift) as u32)
    }
}

impl PerSession for Limiter {
    type State = Counted;
    const REFUSES_TO: Option<usize> = Some(REFUSED);

    fn open(
        &mut self,
        opening: &mut Opening<'_>,
        packet: &mut Packet,
        state: &mut Counted,
    ) -> Result<(), Reason> {
        *state = ELSEWHERE;
        if opening.answers.published().is_some() || opening.related {
            return Ok(());
        }
        let Some(addr) = opener(packet, opening.direction) else { return Ok(()) };
        let source = self.source(addr);
        let index = self.sources.open(source, opening.now).map_err(|over| match over {
            Over::Open => Refused::Open,
            Over::Rate => Refused::Rate,
            Over::NoRoom => Refused::Sources,
        })?;
        *state = Counted(index + 1);
        opening.answers.publish(&[1]);
        self.open += 1;
        Ok(())
    }

    #[inline]
    fn each(&mut self, _packet: &mut Packet, _session: &mut Session<'_, Counted>) -> Verdict {
        Verdict::Pass
    }

    fn close(&mut self, state: &Counted, _why: Ended) {
        if *state == ELSEWHERE {
            return;
        }
        self.open = self.open.saturating_sub(1);
        if let Some(index) = state.0.checked_sub(1) {
            self.sources.close(index, self.now);
        }
    }
}

/// A source as people write it.
fn written(source: Source) -> String {
    let bits = source.iter().fold(0_u128, |bits, word| bits << 32 | u128::from(*word));
    Ipv6Addr::from_bits(bits).to_canonical().to_string()
}

impl Element for ConnectionLimiter {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        self.limiter.now = cx.now();
        cx.per_session(&mut self.limiter, batch);
    }
}

impl ConnectionLimiter {
    fn write_max(&mut self, name: &str, value: &str) -> Result<(), HandlerError> {
        let most = handler_value::<u32>(name, value)?;
        self.limiter.sources.most = (most > 0).then_some(most);
        Ok(())
    }

    fn read_busiest(&mut self, param: &str) -> Result<String, HandlerError> {
        let count = if param.is_empty() { BUSIEST } else { handler_value("busiest", param)? };
        let lines = self.limiter.sources.busiest(count).into_iter();
        let lines = lines.map(|(source, open)| format!("{} {open}\n", written(source)));
        Ok(lines.collect())
    }
}

impl HotSwap for ConnectionLimiter {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        let Limiter { sources, open, .. } = &mut self.limiter;
        let none = Sources::new(None, None, 1, seed());
        let kept = Kept { sources: std::mem::replace(sources, none), open: std::mem::take(open) };
        Some(Box::new(kept))
    }

    /// The sources that are known keep their room, and are counted as before.
    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        let Ok(kept) = state.downcast::<Kept>() else { return };
        let Sources { most, pace, .. } = self.limiter.sources;
        (self.limiter.sources, self.limiter.open) = (kept.sources, kept.open);
        (self.limiter.sources.most, self.limiter.sources.pace) = (most, pace);
    }
}

impl SessionFunction for ConnectionLimiter {
    fn closed(&mut self, cx: &mut Cx<'_>, state: &[u8], why: Ended) {
        self.limiter.now = cx.now();
        if let Ok(state) = Counted::read_from_bytes(state) {
            self.limiter.close(&state, why);
        }
    }
}

#[cfg(test)]
mod tests;

//! HTTPIn: the bodies of HTTP messages.

use std::any::Any;
use std::fmt::Write as _;

use thruway_element::{
    Arg, ArgErrors, Args, Buffer, Changes, Cost, CostModel, Cx, Direction, Drop, Element, Ended,
    Entry, Exception, Fails, Handlers, HotSwap, Layer, Load, Needs, Operation, Purpose, Reason,
    Replicas, SessionFunction, Size, Spec, StreamMember, StreamPlan, Topic, Ty, Wants,
};
use thruway_packet::{Batch, MAX_BATCH, Packet};
use thruway_stream::http::{
    Asks, Bounds, Enter, EnterState, Fault, OnEncoded, OnRefused, Rules, Settings, Shown,
};
use thruway_stream::stage::Memory;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use thruway_elements_support::dialect::ignored;

/// See the spec.
pub static ENTRY: Entry = Entry::built::<HttpIn>(
    Spec {
        name: "HTTPIn",
        topic: Topic::Streams,
        summary: "begins the context of HTTP/1: functions behind it see heads and bodies of messages",
        docs: "Finds messages in the payload of TCP: heads that span packets are held until they \
               are complete, packets that have parts of several messages are split. Functions \
               between here and HTTPOut see heads and bodies, and a body ends where its message \
               does. Requests go from the side that opened the connection. Where functions hold \
               bytes back or change lengths, the lines between chunks are removed here and \
               rewritten by HTTPOut; else messages stay as they are.\n\n\
               POLICY strict refuses what two receivers may understand differently: two lengths, a \
               length with a transfer coding, folded lines, lines without CR, unsolicited \
               responses, and more; handler `refused_reasons` lists them all. POLICY lenient \
               accepts those that most receivers read alike, and counts them. REFUSED selects the \
               fate of a connection with a refused message: close, or pass (it goes on, and \
               functions see nothing more of it; but where they hold back or change lengths, it is \
               closed within a message that they see). After CONNECT or a change of protocol that \
               the server agreed to, functions see nothing more either: with UPGRADE false, the \
               default where a function looks at bodies, CONNECT is refused, and clients cannot \
               ask for another protocol (websocket, h2c).\n\n\
               TYPES are the types of bodies that functions see, parted by spaces: TYPE, \
               TYPE/SUBTYPE, +SUFFIX, none (bodies without a type), *, which is the default. \
               Others pass unseen.\n\n\
               ENCODED selects the treatment of bodies with a content coding. unpack: where a \
               function looks at bodies, those in gzip, deflate, br and zstd are decompressed, \
               inspected, and forwarded decompressed (without Content-Encoding, with new framing), \
               so that receivers get the bytes that functions saw, however they interpret a \
               coding; other codings, several, and bodies that are not in their coding are \
               refused, and so are bodies that decompress to more than UNPACK_MAX bytes, to more \
               than UNPACK_RATIO bytes for one (beyond 1 MiB), or, in one packet, to more than 1 \
               MiB and 8 bytes for each of its bytes. UNPACK_TOTAL bounds the memory for it. \
               Clients' Accept-Encoding is limited to what can be unpacked. pass lets all of these \
               through unseen, refuse refuses them. With IDENTITY true servers are asked not to \
               compress, with WHOLE true not to answer in ranges (which hide a word that lies in \
               two).\n\n\
               FastClick's NOENC is IDENTITY. With HTTP10, requests go on as HTTP/1.0, without \
               keep-alive, so that servers close the connection behind the answer and do not send \
               chunks. BUFFER, RESIZE_METHOD and VERBOSE change nothing: as much is buffered as is \
               needed, and lengths stay right.\n\n\
               Where a function looks at bodies, chunked ones get new framing, without extensions \
               and trailers. Functions see these after the body, as a separate piece: a line for \
               the extensions of each chunk that has some, and the trailer fields. So a function \
               can close because of them; changes in them are not forwarded either.\n\n\
               Heads and trailers have at most HEAD_MAX bytes and FIELDS_MAX fields, extensions of \
               a chunk at most EXTENSION_MAX bytes, and where functions are shown them, those of a \
               message at most HEAD_MAX.",
        example: "FromDump(examples/captures/lan.pcap, STOP true) -> FlowClassifier ~> TCPIn \
                  -> HTTPIn(IDENTITY true) -> HTTPOut -> TCPOut -> Discard",
        ports: "1-/=",
        flow: "#/#",
        args: &[
            Arg::keyword("POLICY", Ty::Choice(&["strict", "lenient"]), "how messages are judged")
                .or("strict"),
            Arg::keyword("REFUSED", Ty::Choice(&["close", "pass"]), "a connection that is refused")
                .or("close"),
            Arg::keyword("TYPES", Ty::Str, "types of bodies that functions see"),
            Arg::keyword("IDENTITY", Ty::Bool, "ask servers not to compress").or("false"),
            Arg::keyword("ENCODED", Ty::Choice(&ENCODED), "bodies that are compressed")
                .or("unpack"),
            Arg::keyword("UNPACK_MAX", Ty::Size, "most bytes that a body unpacks to").or("1G"),
            Arg::keyword("UNPACK_RATIO", Ty::UInt, "most bytes for one").or("200"),
            Arg::keyword("UNPACK_TOTAL", Ty::Size, "bytes of memory for unpacking").or("64M"),
            Arg::keyword("WHOLE", Ty::Bool, "ask servers for whole bodies").or("false"),
            Arg::keyword("UPGRADE", Ty::Bool, "whether clients may ask for another protocol"),
            Arg::keyword("NOENC", Ty::Bool, "FastClick's IDENTITY").or("false"),
            Arg::keyword("HTTP10", Ty::Bool, "make requests HTTP/1.0 (FastClick)").or("false"),
            ignored("BUFFER"),
            ignored("RESIZE_METHOD"),
            ignored("VERBOSE"),
            Arg::keyword("HEAD_MAX", Ty::Size, "longest head, in bytes").or("16K"),
            Arg::keyword("FIELDS_MAX", Ty::UInt, "most fields of a head").or("128"),
            Arg::keyword("EXTENSION_MAX", Ty::UInt, "longest extensions of a chunk").or("256"),
        ],
        drops: &DROPS,
        wants: Wants::session::<SessionState>("connection"),
        changes: Changes::Nothing,
        cost: &[Operation::SessionState.once(), Operation::HeaderParse.once()],
        purpose: Purpose::BeginContext(Layer::Http),
        replicas: Replicas::Apart("each follows the connections of its thread"),
        large_packets: true,
        ..Spec::DEFAULT
    },
    build,
)
.with_stream_member::<HttpIn>()
.with_session_function::<HttpIn>()
.with_buffer::<HttpIn>()
.with_cost_model::<HttpIn>()
.with_hot_swap::<HttpIn>();

/// The treatment of compressed bodies.
const ENCODED: [&str; 3] = ["unpack", "pass", "refuse"];

/// Of both ends of the context.
pub(super) const DROPS: [Drop; 1] =
    [Drop::new("joined", "its bytes go on in the packet in front of it")];
const JOINED: Reason = Reason(0);

/// Limits of HEAD_MAX: a head lies in one packet, with the payload that came with it.
const HEAD_MAX: std::ops::RangeInclusive<u64> = 256..=32 << 10;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Clone, Copy)]
#[repr(C)]
struct SessionState {
    memory: Memory,
    enter: EnterState,
}

#[derive(Handlers)]
#[handler(sum, name = "requests", "requests seen", get = self.enter.counts.requests)]
#[handler(
    sum, name = "responses", "responses seen, interim ones (1xx) included",
    get = self.enter.counts.responses
)]
#[handler(
    sum, name = "shown", "messages with a body that functions inspected",
    get = self.enter.counts.shown
)]
#[handler(
    sum, name = "hidden", "messages with a body excluded by its type or encoding",
    get = self.enter.counts.hidden
)]
#[handler(
    sum, name = "unpacked", "messages with a body that was decompressed for inspection",
    get = self.enter.counts.unpacked
)]
#[handler(
    sum, name = "extensions_and_trailers",
    "messages of which chunk extensions or trailers were shown", get = self.enter.counts.asides
)]
#[handler(
    sum, name = "unpack_memory", "bytes of memory that unpacking, extensions and trailers take now",
    get = self.enter.unpack_memory() as u64
)]
#[handler(
    sum, name = "switched", "connections that became tunnels or changed protocol",
    get = self.enter.counts.switched
)]
#[handler(
    sum, name = "refused", "connections refused",
    get = self.enter.counts.refused.iter().sum::<u64>()
)]
#[handler(
    sum, name = "refused_reasons", "the same by reason",
    get = by_reason(&self.enter.counts.refused)
)]
#[handler(
    sum, name = "tolerated", "faults put up with",
    get = self.enter.counts.tolerated.iter().sum::<u64>()
)]
#[handler(
    sum, name = "tolerated_reasons", "the same by reason",
    get = by_reason(&self.enter.counts.tolerated)
)]
#[handler(
    sum, name = "no_memory", "connections closed because packet memory was used up",
    get = self.enter.counts.no_memory
)]
#[handler(sum, name = "held", "incomplete heads held now", get = self.enter.holding() as u64)]
struct HttpIn {
    enter: Enter,
    /// Packets that came.
    packets: u64,
    needs: Needs,
    /// TYPES, where they are given.
    types: Option<String>,
    /// UPGRADE, where it is given.
    upgrade: Option<bool>,
    out: Vec<Packet>,
    problem: Option<String>,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let head = args.get::<Size>("HEAD_MAX")?.0;
    if !HEAD_MAX.contains(&head) {
        let message = format!("must be from {} to {} bytes", HEAD_MAX.start(), HEAD_MAX.end());
        return Err(args.error("HEAD_MAX", message).into());
    }
    let fields = args.get::<u16>("FIELDS_MAX")?;
    if fields == 0 {
        return Err(args.error("FIELDS_MAX", "must be at least 1").into());
    }
    let types = args.opt::<String>("TYPES")?;
    let shown = Shown::parse(types.as_deref().unwrap_or(Shown::ALL))
        .map_err(|why| args.error("TYPES", why.to_string()))?;
    let upgrade = args.opt::<bool>("UPGRADE")?;
    let identity = args.get("IDENTITY")? || args.get("NOENC")?;
    let (whole, old) = (args.get("WHOLE")?, args.get("HTTP10")?);
    let asks = Asks { identity, whole, old, stay: upgrade == Some(false), known: false };
    let passes = args.choice("REFUSED")? == 1;
    let settings = Settings {
        rules: Rules {
            lenient: args.choice("POLICY")? == 1,
            head_bytes: head as u32,
            fields,
            extension_bytes: args.get("EXTENSION_MAX")?,
        },
        shown,
        resize: false,
        looks: false,
        asks,
        encoded: encoded(args)?,
        on_refused: if passes { OnRefused::Pass } else { OnRefused::Close },
    };
    // Heads that are not complete are held back.
    let needs = Needs { stall: true, resize: true, close: !passes, ..Needs::ORDER };
    let mut enter = Enter::new(settings);
    enter.share(args.env().threads);
    Ok(Box::new(HttpIn {
        enter,
        packets: 0,
        needs: needs.complete(),
        types,
        upgrade,
        out: Vec::new(),
        problem: None,
    }))
}

/// The treatment of compressed bodies, and its bounds.
fn encoded(args: &Args<'_>) -> Result<OnEncoded, ArgErrors> {
    let bounds = Bounds {
        bytes: args.get::<Size>("UNPACK_MAX")?.0,
        ratio: args.get("UNPACK_RATIO")?,
        memory: usize::try_from(args.get::<Size>("UNPACK_TOTAL")?.0).unwrap_or(usize::MAX),
    };
    if bounds.ratio == 0 {
        return Err(args.error("UNPACK_RATIO", "must be at least 1").into());
    }
    let choices = [OnEncoded::Unpack(bounds), OnEncoded::Pass, OnEncoded::Refuse];
    Ok(choices[args.choice("ENCODED")?])
}

impl Element for HttpIn {
    fn initialize(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        self.problem.take().map_or(Ok(()), Err)
    }

    fn process(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        self.packets += batch.len() as u64;
        let (enter, out) = (&mut self.enter, &mut self.out);
        process::<SessionState>(cx, port, batch, out, |state, at, packet, out| {
            enter.packet((&mut state.memory, &mut state.enter), at, packet, out);
        });
    }
}

impl HotSwap for HttpIn {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        let settings = self.enter.settings().clone();
        Some(Box::new(std::mem::replace(&mut self.enter, Enter::new(settings))))
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        if let Ok(enter) = state.downcast::<Enter>() {
            self.enter.take_over(*enter);
        }
    }
}

impl CostModel for HttpIn {
    fn cost(&self, _load: &Load) -> Option<Vec<Cost>> {
        let heads = self.enter.counts.requests + self.enter.counts.responses;
        // Nothing has come yet: as if each packet had one.
        let share = if self.packets == 0 { 1.0 } else { heads as f64 / self.packets as f64 };
        Some(vec![Operation::SessionState.once(), Operation::HttpHead.times(share.min(1.0))])
    }
}

impl Buffer for HttpIn {
    fn holding(&self) -> usize {
        self.enter.holding()
    }
}

impl SessionFunction for HttpIn {
    fn closed(&mut self, _cx: &mut Cx<'_>, state: &[u8], _why: Ended) {
        if let Ok(mut state) = SessionState::read_from_bytes(state) {
            let SessionState { memory, enter } = &mut state;
            self.enter.forget(memory, enter);
        }
    }
}

impl StreamMember for HttpIn {
    fn needs(&self) -> Option<Needs> {
        Some(self.needs)
    }

    fn take_stream(&mut self, plan: &StreamPlan) {
        self.enter.set_resize(plan.needs.resize || plan.needs.stall);
        let looks = plan.needs.order;
        self.enter.set_looks(looks);
        let settings = self.enter.settings();
        let unpacks = matches!(settings.encoded, OnEncoded::Unpack(_));
        let stay = !self.upgrade.unwrap_or(!looks);
        let asks = Asks { known: looks && unpacks, stay, ..settings.asks };
        self.enter.set_asks(asks);
        self.problem = (plan.within != Some(Layer::Tcp)).then(|| {
            "HTTP runs over TCP: put TCPIn in front of HTTPIn and TCPOut behind HTTPOut".into()
        });
    }

    fn exceptions(&self) -> Vec<Exception> {
        let settings = self.enter.settings();
        if settings.looks { exceptions(settings, &self.types) } else { Vec::new() }
    }
}

/// Data that functions cannot inspect, and its treatment.
fn exceptions(settings: &Settings, types: &Option<String>) -> Vec<Exception> {
    let row = |what, (done, open), argument| {
        let fails = Fails::open_if(open);
        Exception { what, done, fails, argument }
    };
    let passes = settings.on_refused == OnRefused::Pass;
    let refused = if passes { ("pass unseen", true) } else { ("reset", false) };
    let lenient = settings.rules.lenient;
    let odd = if lenient { ("show one reading", true) } else { refused };
    let (known, unknown) = match settings.encoded {
        OnEncoded::Unpack(_) => (("unpack, send unpacked", false), refused),
        OnEncoded::Pass => (("pass unseen", true), ("pass unseen", true)),
        OnEncoded::Refuse => (refused, refused),
    };
    let of_types = if types.is_some() { ("pass unseen", true) } else { ("show", false) };
    let switch = if settings.asks.stay { refused } else { ("pass unseen", true) };
    let ranges =
        if settings.asks.whole { ("ask for the whole", false) } else { ("show each", true) };
    vec![
        row("messages that receivers may read differently", odd, "POLICY"),
        row("messages that no receiver should take", refused, "REFUSED"),
        row("bodies in gzip, deflate, br, zstd", known, "ENCODED"),
        row("bodies in other codings, or not in the declared one", unknown, "ENCODED"),
        row("bodies that unpack beyond the bounds", unknown, "UNPACK_MAX, _RATIO, _TOTAL"),
        row("bodies of other types than TYPES", of_types, "TYPES"),
        row("CONNECT, change of protocol", switch, "UPGRADE"),
        row("content that spans two ranges", ranges, "WHOLE"),
        row("chunk extensions, trailers", ("show, then leave out", false), ""),
        row("other charsets than the words' (UTF-16), escapes", ("show as they are", true), ""),
    ]
}

/// A line for each reason that there is.
fn by_reason(counts: &[u64]) -> String {
    let mut text = String::new();
    for (fault, count) in Fault::ALL.iter().zip(counts) {
        let _ = writeln!(text, "{count} {}", fault.name()); // a String does not fail
    }
    text
}

/// Has one of the two ends of the context take the packets of a batch, each with the state and the
/// direction of its session and the time, and sends on what it puts into `out`.
pub(super) fn process<S: FromBytes + IntoBytes + KnownLayout + Immutable>(
    cx: &mut Cx<'_>,
    port: usize,
    batch: &mut Batch,
    out: &mut Vec<Packet>,
    mut take: impl FnMut(&mut S, (usize, i64), Packet, &mut Vec<Packet>),
) {
    let (now, came) = (cx.now(), batch.len());
    cx.take_sessions::<S>(batch, |packet, known| match known {
        Some(known) if !known.related => {
            let direction = usize::from(known.direction == Direction::Reply);
            take(known.state, (direction, now), packet, out);
        }
        _ => out.push(packet),
    });
    send(cx, (port, came), out, batch);
}

/// Sends on what one of the two ends of the context made of a batch.
/// (It came with so many packets: some were divided, or joined.)
fn send(cx: &mut Cx<'_>, (port, came): (usize, usize), out: &mut Vec<Packet>, batch: &mut Batch) {
    cx.count_made(out.len().saturating_sub(came));
    let joined = came.saturating_sub(out.len());
    if joined > 0 {
        cx.count_drops(JOINED, joined);
    }
    for packet in out.drain(..) {
        if batch.len() == MAX_BATCH {
            cx.emit_all(port, batch);
        }
        batch.push(packet);
    }
    cx.pass_on(port, batch);
}

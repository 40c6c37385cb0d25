//! FlowClassifier: where packets meet their sessions.

mod listings;
mod tags;
mod totals;

use std::fmt::Write as _;

use thruway_element::{
    Arg, ArgError, ArgErrors, Args, Changes, Cost, CostModel, Cx, Element, Entry, FlowEntry,
    Handler, HandlerError, Handlers, Input, Load, Merge, Nanos, Operation, Publisher, Reason,
    Refusal, Replicas, Settings, ShortCut, Spec, Threading, Topic, Ty, reasons,
};
use thruway_elements_support::dialect::ignored;
use thruway_elements_support::reaching::finding;
use thruway_flow::Timeouts;
use thruway_flow::manager::{Bounds, Counts, Kind, Manager};
use thruway_flow::plan::Plan;
use thruway_flow::tags::Tags;
use thruway_packet::Batch;
use totals::Totals;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "FlowClassifier",
        topic: Topic::Sessions,
        summary: "classifies once for all functions behind it, and finds each packet's session",
        docs: "Stands where packets come in. It looks at each packet's headers once (Ethernet, \
               VLAN tags, IPv4 and IPv6 with extension headers; they are marked as CheckIPHeader \
               marks them, but the IP checksum is not checked), finds the class that the \
               dispatchers behind it would find (FlowDispatcher, and links written '~>'), and the \
               session that the functions behind it want. Neither is repeated downstream: \
               dispatchers and functions find both in the packet's metadata. 'thruway check \
               --explain' shows the result for a configuration.\n\n\
               Several FlowClassifiers of one configuration (one for each side, say) share one \
               table per thread, so a connection with directions at different ones is one session. \
               What is set at any of them counts for all, and so do the handlers, but for the \
               counts of drops.\n\n\
               With several threads, the first that receives a packet of a flow serves it as long \
               as its session lasts, and others that receive its packets (because the sender or a \
               network card moved it to another queue) hand them over to that thread, in order; \
               where an element wants both directions of a connection in one thread (TCPIn), both. \
               Such a packet is counted where it came and where it is served.\n\n\
               These packets get no session: non-IP; contradictory or truncated headers; where the \
               session has ports, fragments (use IPReassembler first) and protocols without known \
               ports; ICMP errors about packets of no session. Such packets go on to functions; \
               the functions' manuals describe how they treat them. An ICMP error about a packet \
               of a session belongs to that session and takes its path.\n\n\
               A thread keeps at most SESSIONS_MAX sessions of each sort, of them EMBRYONIC_MAX \
               embryonic ones (of which only one side has spoken, or whose TCP handshake is not \
               complete). When there is no room for a new session the oldest embryonic one goes; \
               is there none, the packet is dropped. So a flood of SYNs leaves open sessions \
               alone. Timeouts are counted from the last packet: TCP_NEW before the handshake is \
               complete, TCP while open (RFC 5382), TCP_CLOSING after one FIN, TCP_CLOSED after \
               both or a RST; UDP_NEW and OTHER_NEW before there is a reply, UDP (RFC 4787), ICMP \
               (RFC 5508) and OTHER then. A SYN for a closed connection begins a new session.\n\n\
               What a TCP segment says counts only if its receiver would take it (RFC 5961): a RST \
               with the number that is expected next, FIN and data inside the window, an \
               acknowledgement of data that was sent, no SYN inside a connection, and of these a \
               right checksum (or one that a local sender left to the network card). Other \
               segments go on as well, for the ends to judge, and are counted (stray): an attacker \
               that cannot see a connection cannot end its session. Of a connection that was not \
               seen to open the numbers are taken as they come, until both sides agree. Sessions \
               that are more than a connection (pair, source) end by their timeouts OTHER, \
               whatever TCP's flags.\n\n\
               With INPUT tagged a switch in front finds the classes: 'thruway offload' gives it \
               rules that do the same, drop packets that no function wants, and give the others a \
               tag with the class: a VLAN tag in front of the frame's type, or, with TAG mpls, a \
               label in front of IP packets. The tag is taken off here. Only tags of the rules \
               that 'tags' names are trusted, and only for headers that a switch reads as this \
               element does; all other packets are classified here, or, where they have a tag of \
               no trusted class, dropped with UNKNOWN_TAGS drop. Use it only where no other host \
               than that switch can send.\n\n\
               With TAG_ANNO, VLAN_TCI for example, another host finds the classes: packets come \
               by NSHDecap or HopDecap, which set that annotation to the tag that the other host, \
               or a switch with an option of Geneve, gave. The tag of class N (the line N of \
               'classes', the first being 0) is 2 + N in generation 0, and 16383 more in each \
               further one, up to 3. The handler 'tags' selects the trusted tags, as with a \
               switch: after a start and after each change of the configuration, none.\n\n\
               Right behind a FromDevice with OFFLOAD XDP the kernel finds the classes, without \
               further settings here.",
        example: "FromDump(web.pcap, STOP true) -> FlowClassifier ~> FlowDispatcher(-, SESSION connection) -> Discard",
        processing: "h/h",
        threading: Threading::SessionHandoff,
        args: &[
            Arg::keyword(
                "INPUT",
                Ty::Choice(&["ethernet", "ip", "marked", "tagged"]),
                "what packets begin with; marked: the network header is where it is marked; \
                 tagged: Ethernet, with the tags of a switch",
            )
            .or("ethernet"),
            tags::TAG,
            tags::TAG_ANNO,
            tags::UNKNOWN_TAGS,
            Arg::keyword("SESSIONS_MAX", Ty::UInt, "most sessions of one sort in one thread")
                .or("1048576"),
            Arg::keyword("EMBRYONIC_MAX", Ty::UInt, "most embryonic ones; a quarter if not given"),
            Arg::keyword("TCP_NEW", Ty::Time, "timeout of an incomplete handshake").or("30"),
            Arg::keyword("TCP", Ty::Time, "timeout of an open connection").or("7440"),
            Arg::keyword("TCP_CLOSING", Ty::Time, "timeout after one FIN").or("240"),
            Arg::keyword("TCP_CLOSED", Ty::Time, "timeout after both FINs or a RST").or("10"),
            Arg::keyword("UDP_NEW", Ty::Time, "timeout before there is a reply").or("120"),
            Arg::keyword("UDP", Ty::Time, "timeout afterwards").or("300"),
            Arg::keyword("ICMP", Ty::Time, "timeout of ICMP queries").or("60"),
            Arg::keyword("OTHER_NEW", Ty::Time, "timeout of others before a reply").or("60"),
            Arg::keyword("OTHER", Ty::Time, "timeout afterwards").or("600"),
            Arg::keyword(
                "EARLY_DROP",
                Ty::Bool,
                "whether packets that no element downstream wants or counts are dropped here",
            )
            .or("true"),
            ignored("AGGCACHE"),
            ignored("AGGTRUST"),
            ignored("BUILDER"),
            ignored("CACHERINGSIZE"),
            ignored("CACHESIZE"),
            ignored("CLEAN_TIMER"),
            ignored("EARLYDROP"),
            ignored("NOCUT"),
            ignored("OPTIMIZE"),
            ignored("ORDERED"),
            ignored("RESERVE"),
            ignored("VERBOSE"),
            ignored("VERBOSE_FCB"),
        ],
        drops: FlowClassifierDrop::DROPS,
        handlers: &[
            Handler::sum("sessions", "sessions now"),
            Handler::sum("count", "the same, by FastClick's name"),
            Handler::sum("count_fids", "sessions of the fullest sort that may still begin"),
            Handler::read("capacity", "most sessions of one sort in one thread"),
            Handler::sum("total_capacity", "the same in all threads"),
            Handler::sum("embryonic", "embryonic ones among them"),
            Handler::sum("created", "sessions begun"),
            Handler::sum("expired", "sessions that timed out"),
            Handler::sum("closed", "sessions that their protocol or a function ended"),
            Handler::sum("evicted", "embryonic sessions that made room for others"),
            Handler::sum("refused", "packets without room for their session"),
            Handler::both("draining", DRAINING),
            Handler { merge: Merge::Concat, ..Handler::read("levels", LEVELS) },
            Handler { merge: Merge::Concat, ..Handler::read("classes", CLASSES) },
            Handler { merge: Merge::Concat, ..Handler::read("table", TABLE) },
            Handler { merge: Merge::Concat, ..Handler::read("scratch", SCRATCH) },
            Handler { merge: Merge::Concat, ..Handler::read("flows", FLOWS) },
            Handler::sum("handed", "packets handed to the threads that serve their sessions"),
            Handler::sum("stray", "TCP segments that show nothing: wrong numbers or checksum"),
            Handler::sum("sessionless", "packets without a session, a line for each reason"),
            Handler::read("fingerprint", "a number that only the same classes have"),
            Handler::both("tags", tags::TAGS),
            Handler::read("tag_kind", tags::TAG_KIND),
            Handler::sum("tagged", "packets classified by a tag, or by OFFLOAD XDP"),
            Handler::both("offloaded", tags::OFFLOADED).shared(),
        ],
        cost: &[
            Operation::HeaderParse.once(),
            Operation::Classify.once(),
            Operation::HashLookup.once(),
        ],
        changes: Changes::Nothing,
        replicas: Replicas::Apart(
            "each has the sessions that begin in its thread; directions that come in by two \
             threads meet",
        ),
        short_cut: ShortCut::Passes,
        large_packets: true,
        ..Spec::DEFAULT
    },
    build,
)
.with_flow_entry::<FlowClassifier>()
.with_cost_model::<FlowClassifier>()
.with_publisher::<FlowClassifier>()
.with_handlers::<FlowClassifier>();

const DRAINING: &str = "whether packets that would begin a session are dropped, so that none is left at \
                        last; written to one FlowClassifier, it counts for all, until a hot swap";

const LEVELS: &str = "a line for each sort of session: definition, IP version, sessions, embryonic, \
                      begun, timed out, closed, evicted, removed, refused, bytes of memory";

const TABLE: &str = "a line for each sort of session: definition, IP version, load (used slots of all), \
                     slots used, buckets, lines of overflow, longest chain ever, entries moved by \
                     growth, insertions refused because a chain was too long";

const SCRATCH: &str = "a line for each function behind: its name, definition and IP version of its \
                       sessions, bytes of \
                       state per session, sessions, bytes in all";

const CLASSES: &str = "a line for each class of packets ('thruway check --explain' shows them): sessions, \
                       begun, timed out, closed, evicted, removed, what its packets are";

const FLOWS: &str = "sessions, a line each, of the next 1,024 records of each thread: parameter is where \
                     to go on ('0:0' at first) and a filter such as 'proto tcp src 10.0.0.0/8 dport 80 \
                     state open'; a last line 'next LEVEL:RECORD' where there are more. See 'thruway \
                     ctl'";

reasons! {
    /// Why a packet goes no further.
    enum FlowClassifierDrop {
        NoRoom = "no-room": "there is no room for its session",
        Draining = "draining": "it would begin a session, and no more are to begin",
        Unwanted = "unwanted": "no dispatcher behind sends it anywhere",
        Offloaded = "unwanted-offloaded": "the same, dropped by the switch in front",
        UnknownTag = "unknown-tag": "its tag is of no trusted class, and UNKNOWN_TAGS is drop",
    }
}

/// Largest SESSIONS_MAX.
const SESSIONS_MAX: u32 = 1 << 25;

/// Steps of the decision that one [`Operation::Classify`] stands for: those of the benchmark that
/// measures it, eight on the paths to three classes.
const CLASSIFY_STEPS: f64 = 8.0 / 3.0;

pub(super) struct FlowClassifier {
    input: Input,
    settings: Settings,
    /// How often [`Operation::Classify`] stands for what is decided of a packet.
    classifies: f64,
    /// Bytes of a session's record and of its place in the index, where there are any.
    session: Option<(usize, f64)>,
    /// Tags of a switch or host in front.
    tags: Option<Tags>,
    /// Of the plan, where packets have tags: found before packets come, for it takes long.
    fingerprint: Option<u64>,
    /// Packets that a switch dropped.
    offloaded: u64,
}

/// Place of 'tagged' among the words of INPUT.
const TAGGED: usize = 3;

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    // In the order of the spec's words.
    let inputs = [Input::Ethernet, Input::Ip, Input::Marked, Input::Ethernet];
    let choice = args.choice("INPUT")?;
    let (input, tags) = (inputs[choice], tags::tags(args, choice == TAGGED)?);
    let settings = Settings {
        bounds: bounds(args)?,
        timeouts: timeouts(args)?,
        early_drop: args.get("EARLY_DROP")?,
        ..Settings::default()
    };
    Ok(Box::new(FlowClassifier { tags, ..FlowClassifier::new(input, settings) }))
}

/// The most sessions, by the argument `name`.
pub(super) fn sessions_max(args: &Args<'_>, name: &str) -> Result<u32, ArgError> {
    match args.get(name)? {
        n @ 1..=SESSIONS_MAX => Ok(n),
        _ => Err(args.error(name, format!("expected 1 to {SESSIONS_MAX}"))),
    }
}

fn bounds(args: &Args<'_>) -> Result<Bounds, ArgError> {
    let sessions_max = sessions_max(args, "SESSIONS_MAX")?;
    let embryonic_max = args.opt("EMBRYONIC_MAX")?.unwrap_or_else(|| sessions_max.div_ceil(4));
    if !(1..=sessions_max).contains(&embryonic_max) {
        return Err(args.error("EMBRYONIC_MAX", "expected 1 to SESSIONS_MAX"));
    }
    Ok(Bounds { sessions_max, embryonic_max })
}

/// Longest timeout, in seconds: times are counted in 32 bits.
const TIMEOUT_MAX: i64 = 30 * 24 * 3600;

/// The timeout that argument `name` gives, in seconds, rounded up.
pub(super) fn seconds(args: &Args<'_>, name: &str) -> Result<u32, ArgError> {
    let Nanos(ns) = args.get(name)?;
    let seconds = ns.div_euclid(1_000_000_000) + i64::from(ns % 1_000_000_000 > 0);
    match u32::try_from(seconds) {
        Ok(s) if (1..=TIMEOUT_MAX).contains(&seconds) => Ok(s),
        _ => Err(args.error(name, "expected one second to 30 days")),
    }
}

fn timeouts(args: &Args<'_>) -> Result<Timeouts, ArgError> {
    let seconds = |name: &str| seconds(args, name);
    let [icmp, udp, other] = [seconds("ICMP")?, seconds("UDP")?, seconds("OTHER")?];
    let tcp =
        [seconds("TCP_NEW")?, seconds("TCP")?, seconds("TCP_CLOSING")?, seconds("TCP_CLOSED")?];
    let (udp_new, other_new) = (seconds("UDP_NEW")?, seconds("OTHER_NEW")?);
    Ok(Timeouts {
        seconds: [tcp, [udp_new, udp, udp, udp], [icmp; 4], [other_new, other, other, other]],
    })
}

/// Why a packet is dropped that was refused.
fn reason(refusal: Refusal) -> Reason {
    match refusal {
        Refusal::NoRoom => FlowClassifierDrop::NoRoom.into(),
        Refusal::Draining => FlowClassifierDrop::Draining.into(),
        Refusal::Unwanted => FlowClassifierDrop::Unwanted.into(),
        Refusal::UnknownTag => FlowClassifierDrop::UnknownTag.into(),
        // If it cannot go there.
        Refusal::Elsewhere(_) => Reason::CONGESTION,
    }
}

/// Reasons for which packets have no session, as handlers name them.
const SESSIONLESS: [(Kind, &str); 6] = [
    (Kind::NotIp, "not-ip"),
    (Kind::Malformed, "malformed"),
    (Kind::Fragment, "fragment"),
    (Kind::Unknown, "unknown-protocol"),
    (Kind::Whole, "not-wanted"),
    (Kind::Error, "icmp-error"),
];

/// The memory of a session: of those with the largest records, if there are several sorts.
fn session(flows: &Manager) -> Option<(usize, f64)> {
    let levels = 0..flows.plan().levels.len() as u8;
    levels.map(|level| flows.session_bytes(level)).max_by_key(|(record, _)| *record)
}

/// Steps of the decision that begins at this node.
fn steps(plan: &Plan, node: u32) -> f64 {
    let entry = plan.entries.iter().find(|entry| entry.node == node);
    entry.map_or(0.0, |entry| plan.decision.steps_to_leaf(entry.start))
}

impl FlowClassifier {
    /// One that begins with packets of this kind.
    pub(super) fn new(input: Input, settings: Settings) -> FlowClassifier {
        FlowClassifier {
            input,
            settings,
            tags: None,
            classifies: 0.0,
            session: None,
            fingerprint: None,
            offloaded: 0,
        }
    }
}

impl Element for FlowClassifier {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let node = cx.node();
        if let Some(flows) = cx.flows() {
            if self.input != Input::Ip {
                // A mark with an unknown number is none.
                flows.note_frames(node);
            }
            self.classifies = steps(flows.plan(), node) / CLASSIFY_STEPS;
            self.session = session(flows);
            if let Some(tags) = self.tags {
                flows.note_tags(node, tags);
                self.fingerprint = Some(flows.plan().fingerprint());
            }
        }
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.classify(self.input, batch, reason);
    }
}

impl Handlers for FlowClassifier {
    fn read_handler(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        param: &str,
    ) -> Result<String, HandlerError> {
        let (now, node) = (cx.now(), cx.node());
        let Some(flows) = cx.flows() else {
            return Err(HandlerError::refused("the configuration is not running"));
        };
        if name == "flows" {
            return listings::list(flows, param, now).map_err(HandlerError::refused);
        }
        let most = u64::from(self.settings.bounds.sessions_max);
        let Totals { sessions, embryonic, fullest, counts } = Totals::of(flows);
        let number = match name {
            "sessions" | "count" => sessions,
            "capacity" | "total_capacity" => most,
            "count_fids" => most.saturating_sub(fullest),
            "embryonic" => embryonic,
            "created" => counts.created,
            "expired" => counts.timed_out,
            "closed" => counts.closed,
            "evicted" => counts.evicted,
            "refused" => counts.refused,
            "handed" => flows.handed(),
            "stray" => flows.stray(),
            "tagged" => flows.tagged(),
            "offloaded" => self.offloaded,
            "fingerprint" => return tags::known(self.fingerprint).map(|number| number.to_string()),
            "tags" => return Ok(tags::read(flows, node)),
            "tag_kind" => return Ok(tags::kind(self.tags).to_owned()),
            "levels" => {
                let mut text = String::new();
                for (at, level) in (0..).zip(&flows.plan().levels) {
                    let (now, embryonic, counts) = flows.counts(at);
                    let Counts { created, timed_out, closed, evicted, removed, refused } = counts;
                    // Writing to a string cannot fail.
                    let _ = writeln!(
                        text,
                        "{}\t{:?}\t{now}\t{embryonic}\t{created}\t{timed_out}\t{closed}\t{evicted}\
                         \t{removed}\t{refused}\t{}",
                        level.session,
                        level.family,
                        flows.memory_bytes(at)
                    );
                }
                return Ok(text);
            }
            "draining" => return Ok(flows.is_draining().to_string()),
            "classes" => return Ok(listings::classes(flows)),
            "table" => return Ok(listings::table(flows)),
            "scratch" => return Ok(listings::scratch(cx)),
            "sessionless" => {
                let lines = SESSIONLESS
                    .iter()
                    .map(|(kind, name)| format!("{name} {}\n", flows.sessionless(*kind)));
                return Ok(lines.collect());
            }
            _ => return Err(HandlerError::no_read(name)),
        };
        Ok(number.to_string())
    }

    fn write_handler(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        match name {
            "draining" => {
                let Ok(is_draining) = value.trim().parse() else {
                    return Err(HandlerError::refused("expected true or false"));
                };
                if let Some(flows) = cx.flows() {
                    flows.set_draining(is_draining);
                }
            }
            "tags" => tags::write(cx, tags::known(self.fingerprint)?, self.tags, value)?,
            "offloaded" => {
                let Ok(count) = value.trim().parse::<u32>() else {
                    let why = format!("'{value}' is no number of packets below 2^32");
                    return Err(HandlerError::refused(why));
                };
                // The switch received and sent them: this keeps the account of received and sent
                // packets equal.
                cx.count_made(count as usize);
                cx.count_drops(FlowClassifierDrop::Offloaded, count as usize);
                self.offloaded += u64::from(count);
            }
            _ => return Err(HandlerError::no_write(name)),
        }
        Ok(())
    }
}

impl Publisher for FlowClassifier {
    fn figures(&self) -> &'static [&'static str] {
        &["sessions", "created", "expired", "closed", "refused", "total_capacity", "count_fids"]
    }

    fn publish(&self, cx: &mut Cx<'_>, values: &mut [u64]) {
        let most = u64::from(self.settings.bounds.sessions_max);
        let totals = cx.flows().map(|flows| Totals::of(flows)).unwrap_or_default();
        let Totals { sessions, fullest, counts, .. } = totals;
        let free = most.saturating_sub(fullest);
        let Counts { created, timed_out, closed, refused, .. } = counts;
        let figures = [sessions, created, timed_out, closed, refused, most, free];
        values.iter_mut().zip(figures).for_each(|(value, figure)| *value = figure);
    }
}

impl CostModel for FlowClassifier {
    fn cost(&self, load: &Load) -> Option<Vec<Cost>> {
        let parsed = [Operation::HeaderParse.once(), Operation::Classify.times(self.classifies)];
        let found = self.session.map(|bytes| finding(bytes, load));
        Some(parsed.into_iter().chain(found.into_iter().flatten()).collect())
    }
}

impl FlowEntry for FlowClassifier {
    fn settings(&self) -> Settings {
        self.settings
    }
}

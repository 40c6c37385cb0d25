//! IntrusionPrevention: rules in the syntax of Suricata and Snort over what flows.

use std::any::Any;
use std::fmt::Write as _;
use std::sync::Arc;

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cost, CostModel, Cx, Element, Entry, Exception, Fails,
    HandlerError, Handlers, HotSwap, Layer, Load, Needs, Operation, Replicas, SessionFunction,
    Spec, StreamFunction, StreamMember, Topic, Ty,
};
use thruway_elements_support::reaching::matching;
use thruway_flow::Ended;
use thruway_inspect::rules::{Found, Inspector, Limits, Variables};
use thruway_packet::Batch;
use thruway_stream::stage::Stage;

use super::journal::{JOURNAL_TIMER, Journal, RECORDS_MAX};
use super::per_stream::{PerStream, stream_ended, stream_wants};
use event::Event;
use guard::{Guard, SessionState, Totals};
use loading::{Loaded, Shared, Wanted};

mod event;
mod guard;
mod loading;

/// See the spec.
pub static ENTRY: Entry = Entry::built::<IntrusionPrevention>(
    Spec {
        name: "IntrusionPrevention",
        topic: Topic::Streams,
        summary: "looks for attacks by rules in Suricata's and Snort's syntax, ends their sessions",
        docs: "Reads rules from the FILEs and looks for them in the payload of the context that it \
               stands in: UDP, TCP or HTTP. Rules of alert are reported; those of drop and reject, \
               too, and the session ends: what matched does not go on, a TCP connection is reset \
               at both ends, nothing more of a UDP session passes. With DROP false they are only \
               reported. pass leaves a session alone.\n\n\
               What rules may say: content with its modifiers, pcre, byte_test, byte_jump, dsize, \
               flow, flowbits, threshold, detection_filter, and the HTTP buffers where an HTTPIn \
               stands in front. All that is wrong or not supported is reported with file, line and \
               reason, and nothing is loaded; with LENIENT true the good rules are used, and the \
               others counted (handlers refused, problems).\n\n\
               A rule is found however the stream is cut, if its contents lie within WINDOW bytes \
               of each other: as much is remembered of each direction of a session, for at most \
               DIRECTIONS_MAX of them in a thread. Beyond that, what spans packets may not be \
               found, which the handler forgetful counts. Packets without payload are not shown in \
               a stream.\n\n\
               $HOME_NET and $EXTERNAL_NET are as rules write addresses; VARIABLES sets others: \
               'NAME=VALUE; ...', of ports where the name ends in _PORTS. CLASSES is a file of \
               classes (classification.config) for priorities and descriptions.\n\n\
               A line of JSON goes to EVENTS for each match, with the fields of Suricata's EVE \
               alerts, away from the packets; at most RECORDS_MAX wait, those that find no room \
               are lost and counted. The handler reload reads the files again, in the thread that \
               it is written to; sessions go on, without flow bits, and their remembered bytes are \
               searched for the new rules too. When a file is bad, the rules stay as they were.",
        example: "FromDump(examples/captures/lan.pcap, STOP true) -> FlowClassifier ~> UDPIn \
                  -> IntrusionPrevention(examples/rules/small.rules, EVENTS -) -> UDPOut -> Discard",
        ports: "1-/=",
        flow: "#/#",
        args: &[
            Arg::rest("FILE", Ty::File, "a file of rules"),
            Arg::keyword("HOME_NET", Ty::Str, "addresses that are protected"),
            Arg::keyword("EXTERNAL_NET", Ty::Str, "the others"),
            Arg::keyword("VARIABLES", Ty::Str, "NAME=VALUE; ..."),
            Arg::keyword("CLASSES", Ty::File, "a file of classes of rules"),
            Arg::keyword("LENIENT", Ty::Bool, "do without bad rules").or("false"),
            Arg::keyword("DROP", Ty::Bool, "whether rules may end sessions").or("true"),
            Arg::keyword("EVENTS", Ty::OutFile, "where matches are reported; - for standard output"),
            Arg::keyword("WINDOW", Ty::UInt, "bytes remembered of a direction").or("8192"),
            Arg::keyword("DIRECTIONS_MAX", Ty::UInt, "most directions remembered, in one thread")
                .or("4096"),
            RECORDS_MAX,
        ],
        wants: stream_wants::<SessionState>(),
        changes: Changes::Nothing,
        cost: &[Operation::SessionState.once(), Operation::MatchLine.once()],
        replicas: Replicas::Sharing(
            "the rules and the file of events; thresholds of rules are counted by each thread for \
             itself",
        ),
        ..Spec::DEFAULT
    },
    build,
)
.with_stream_member::<IntrusionPrevention>()
.with_session_function::<IntrusionPrevention>()
.with_cost_model::<IntrusionPrevention>()
.with_hot_swap::<IntrusionPrevention>();

/// Least and most of WINDOW and DIRECTIONS_MAX.
const WINDOW: (usize, usize) = (64, 1 << 20);
const DIRECTIONS: (usize, usize) = (1, 1 << 22);

#[derive(Handlers)]
#[handler(
    read, name = "rules", "rules that are looked for",
    get = (self.loaded().map_or(0, |it| it.set.rules().len() as u64))
)]
#[handler(
    read, name = "refused", "rules that are not loaded, because of errors",
    get = self.loaded().map_or(0, |it| it.refused as u64)
)]
#[handler(
    read, name = "problems", "the errors",
    get = self.loaded().map_or(String::new(), |it| it.problems.clone())
)]
#[handler(sum, name = "alerts", "matches reported", get = (self.totals().alerts))]
#[handler(
    sum, name = "sessions", "sessions with a match that was reported",
    get = (self.totals().sessions)
)]
#[handler(
    sum, name = "condemned", "times that rules wanted a session to end",
    get = (self.totals().condemned)
)]
#[handler(
    sum, name = "sessions_closed", "sessions that were ended", get = self.stage.counts.closed
)]
#[handler(
    sum, name = "forgetful", "pieces of sessions that could not be remembered",
    get = (self.totals().forgetful)
)]
#[handler(
    sum, name = "exhausted", "evaluations given up as too costly, taken for matches",
    get = (self.totals().exhausted)
)]
#[handler(
    sum, name = "matches", "how often each rule was reported: count, sid, message",
    get = self.matches()
)]
#[handler(
    sum, name = "events", "events written",
    get = (self.guard.as_ref().map_or(0, |guard| guard.journal.written))
)]
#[handler(
    sum, name = "lost", "events lost",
    get = (self.guard.as_ref().map_or(0, |guard| guard.journal.lost))
)]
#[handler(write, name = "flush", "writes the events that wait", write = self.write_flush(cx))]
#[handler(
    write, shared, name = "reload", "reads the files again",
    write = self.shared.reload(&self.wanted).map_err(HandlerError::refused)
)]
struct IntrusionPrevention {
    wanted: Wanted,
    shared: Arc<Shared>,
    limits: Limits,
    drops: bool,
    layer: Option<Layer>,
    stage: Stage,
    /// Until there is a guard.
    journal: Option<Journal<Event>>,
    guard: Option<Guard>,
    /// The state of the element's predecessor before a hot swap.
    kept: Option<Box<Guard>>,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let mut files = Vec::new();
    for (index, text) in args.rest() {
        files.push(args.parse(text).map_err(|error| args.rest_error(index, error))?);
    }
    if files.is_empty() {
        return Err(ArgErrors::whole("there are no rules: write FILE"));
    }
    let number = |name, (least, most)| {
        let value: usize = args.get(name)?;
        if (least..=most).contains(&value) {
            return Ok(value);
        }
        Err(args.error(name, format!("must be from {least} to {most}")))
    };
    let (window, slots) = (number("WINDOW", WINDOW)?, number("DIRECTIONS_MAX", DIRECTIONS)?);
    let wanted = Wanted {
        files,
        classes: args.opt("CLASSES")?,
        variables: variables(args)?,
        lenient: args.get("LENIENT")?,
        has_messages: false,
    };
    Ok(Box::new(IntrusionPrevention {
        wanted,
        shared: args.shared("rules", Shared::default),
        limits: Limits { window, slots, ..Limits::default() },
        drops: args.get("DROP")?,
        layer: None,
        stage: Stage::default(),
        journal: Some(Journal::from_args(args, "EVENTS", event::line)?),
        guard: None,
        kept: None,
    }))
}

/// The variables `$NAME` of rules.
fn variables(args: &Args<'_>) -> Result<Variables, ArgErrors> {
    let mut variables = Variables::usual();
    for name in ["HOME_NET", "EXTERNAL_NET"] {
        if let Some(value) = args.opt::<String>(name)? {
            let set = variables.set_addresses(name, &value);
            set.map_err(|error| args.error(name, error))?;
        }
    }
    let text = args.opt::<String>("VARIABLES")?.unwrap_or_default();
    for one in text.split(';').map(str::trim).filter(|one| !one.is_empty()) {
        let wrong = |why: String| args.error("VARIABLES", format!("'{one}': {why}"));
        let (name, value) =
            one.split_once('=').ok_or_else(|| wrong("write NAME=VALUE".to_owned()))?;
        let (name, value) = (name.trim(), value.trim());
        let set = match name.ends_with("_PORTS") {
            true => variables.set_ports(name, value),
            false => variables.set_addresses(name, value),
        };
        set.map_err(wrong)?;
    }
    Ok(variables)
}

impl IntrusionPrevention {
    fn totals(&self) -> Totals {
        self.guard.as_ref().map_or(Totals::default(), |guard| guard.totals)
    }

    fn loaded(&self) -> Option<Arc<Loaded>> {
        self.shared.present().map(|(loaded, _)| loaded)
    }

    /// Goes over to the present rules, if they are others.
    #[inline]
    fn follow(&mut self) {
        let Some(guard) = &mut self.guard else { return };
        if guard.generation != self.shared.generation()
            && let Some((rules, generation)) = self.shared.present()
        {
            guard.replace(rules, generation);
        }
    }

    /// A line for each rule that was reported.
    fn matches(&self) -> String {
        let mut text = String::new();
        let Some(guard) = &self.guard else { return text };
        let rules = guard.counts.iter().zip(guard.rules.set.rules());
        for (count, rule) in rules.filter(|(count, _)| **count > 0) {
            let about = &rule.about;
            let _ = writeln!(text, "{count} sid {}: {}", about.sid, about.msg); // does not fail
        }
        text
    }
}

impl Element for IntrusionPrevention {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let Some(layer) = self.layer.filter(|layer| *layer != Layer::Ip) else {
            return Err("it stands in a context of UDP, TCP or HTTP: ports are not known in that \
                        of IP"
                .to_owned());
        };
        let (rules, generation) = self.shared.first(&self.wanted)?;
        let Some(mut journal) = self.journal.take() else { return Ok(()) };
        journal.open("")?;
        journal.arm(cx);
        let set = &rules.set;
        let mut guard = Guard {
            inspector: Inspector::new(Arc::clone(set), self.limits),
            counts: vec![0; set.rules().len()],
            rules,
            generation,
            before: 0,
            drops: self.drops,
            layer,
            journal,
            totals: Totals::default(),
            found: Found::default(),
        };
        if let Some(kept) = self.kept.take() {
            guard.take_over(*kept);
        }
        self.guard = Some(guard);
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        self.follow();
        let Some(guard) = &mut self.guard else { return };
        cx.per_stream(&mut self.stage, guard, port, batch);
        guard.journal.arm(cx);
    }

    fn timer(&mut self, cx: &mut Cx<'_>, token: u32) {
        if let Some(guard) = self.guard.as_mut().filter(|_| token == JOURNAL_TIMER) {
            guard.journal.timer(cx);
        }
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if let Some(guard) = &mut self.guard {
            guard.journal.flush(cx);
        }
        Ok(())
    }
}

impl IntrusionPrevention {
    fn write_flush(&mut self, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        if let Some(guard) = &mut self.guard {
            guard.journal.flush(cx);
        }
        Ok(())
    }
}

impl HotSwap for IntrusionPrevention {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new(self.guard.take()?))
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        self.kept = state.downcast::<Guard>().ok();
    }
}

impl CostModel for IntrusionPrevention {
    fn cost(&self, load: &Load) -> Option<Vec<Cost>> {
        let bytes = self.guard.as_ref().map_or(0, |guard| guard.rules.set.patterns_bytes());
        Some(matching(bytes, load))
    }
}

impl SessionFunction for IntrusionPrevention {
    fn closed(&mut self, _cx: &mut Cx<'_>, state: &[u8], _why: Ended) {
        if let Some(guard) = &mut self.guard {
            stream_ended(&mut self.stage, guard, state);
        }
    }
}

impl StreamMember for IntrusionPrevention {
    fn take_context(&mut self, layer: Layer) {
        self.wanted.has_messages |= layer == Layer::Http;
        // The innermost counts: it is what functions are shown.
        let depth = |layer| {
            [Layer::Ip, Layer::Udp, Layer::Tcp, Layer::Http]
                .iter()
                .position(|known| *known == layer)
        };
        self.layer = [self.layer, Some(layer)].into_iter().flatten().max_by_key(|it| depth(*it));
    }

    fn needs(&self) -> Option<Needs> {
        Some(if self.drops { Guard::NEEDS } else { Needs::ORDER })
    }

    fn exceptions(&self) -> Vec<Exception> {
        let row = |what, (done, open), argument| {
            let fails = Fails::open_if(open);
            Exception { what, done, fails, argument }
        };
        let matched = if self.drops { ("end the session", false) } else { ("alert", true) };
        let wrong = match self.wanted.lenient {
            true => ("do without", true),
            false => ("load nothing", false),
        };
        vec![
            row("a match of drop or reject", matched, "DROP"),
            row("an evaluation that is too costly", ("take it for a match", false), ""),
            row(
                "matches that span packets, beyond DIRECTIONS_MAX",
                ("pass", true),
                "DIRECTIONS_MAX",
            ),
            row("rules that are wrong", wrong, "LENIENT"),
        ]
    }
}

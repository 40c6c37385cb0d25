//! FlowHyperScan: regular expressions in the bytes of sessions.

use std::any::Any;
use std::sync::Arc;

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Direction, Element, Entry, Handlers, HotSwap, Opening,
    Operation, PerSession, Reason, Replicas, Session, Spec, Topic, Ty, Verdict, Wants,
};
use thruway_inspect::expressions::{ExpressionError, Expressions, Progress};
use thruway_packet::{Batch, Packet};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use thruway_elements_support::dialect::ignored;

/// See the spec.
pub static ENTRY: Entry = Entry::built::<FlowHyperScan>(
    Spec {
        name: "FlowHyperScan",
        topic: Topic::Sessions,
        summary: "finds regular expressions in the packets of sessions, across packets",
        docs: "FastClick's, with an automaton of its own instead of the Hyperscan library. Looks \
               through each packet from its first byte on (strip headers before), as the \
               continuation of the previous packets in the same direction of its session; packets \
               count in the order in which they come (for TCP in order, use TCPIn and WordMatcher \
               or IntrusionPrevention). Packets go on whatever is found. A packet in which an \
               expression ends counts once in `matches`, and with VERBOSE it is reported on \
               standard error.\n\n\
               FLAGS are Hyperscan's letters: i (any case), m (^ after each line), s (. is a line \
               end, too), 8 and W (UTF-8 and Unicode classes), H and V (make no difference). As a \
               stream has no known end, expressions with $, \\b and \\B are refused, and so are \
               those that match nothing at all.",
        example: "FromDump(examples/captures/lan.pcap, STOP true) -> FlowClassifier \
                  ~> FlowHyperScan(\"GET +/\", \"host: *[a-z]+\", FLAGS i) -> Discard",
        processing: "a/a",
        args: &[
            Arg::rest("EXPRESSION", Ty::Str, "what is looked for"),
            Arg::keyword("FLAGS", Ty::Str, "how all expressions are read"),
            Arg::keyword("VERBOSE", Ty::Bool, "whether packets that match are reported")
                .or("false"),
            ignored("PAYLOAD_ONLY"),
        ],
        wants: Wants::session::<ScanState>("connection"),
        changes: Changes::Nothing,
        cost: &[Operation::SessionState.once()],
        replicas: Replicas::Sharing("the automaton; each follows the sessions of its thread"),
        ..Spec::DEFAULT
    },
    build,
)
.with_hot_swap::<FlowHyperScan>();

/// The state of a session.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct ScanState {
    /// By direction.
    progress: [Progress; 2],
    is_found: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    matches: u64,
    sessions: u64,
}

/// The function proper.
struct Scan {
    expressions: Arc<Expressions>,
    counts: Counts,
}

impl PerSession for Scan {
    type State = ScanState;

    fn open(
        &mut self,
        _opening: &mut Opening<'_>,
        _packet: &mut Packet,
        state: &mut ScanState,
    ) -> Result<(), Reason> {
        *state = ScanState::default();
        Ok(())
    }

    fn each(&mut self, packet: &mut Packet, session: &mut Session<'_, ScanState>) -> Verdict {
        let direction = usize::from(session.direction == Direction::Reply);
        let state = &mut *session.state;
        if self.expressions.feed(&mut state.progress[direction], packet.data()) {
            self.counts.matches += 1;
            self.counts.sessions += u64::from(state.is_found == 0);
            state.is_found = 1;
        }
        Verdict::Pass
    }
}

#[derive(Handlers)]
#[handler(
    sum, name = "matches", "packets in which an expression ended", get = self.scan.counts.matches
)]
#[handler(sum, name = "sessions", "sessions with such packets", get = self.scan.counts.sessions)]
struct FlowHyperScan {
    scan: Scan,
    verbose: bool,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let text = |(index, text)| args.parse(text).map_err(|error| args.rest_error(index, error));
    let texts = args.rest().map(text).collect::<Result<Vec<String>, _>>()?;
    if texts.is_empty() {
        return Err(ArgErrors::whole("give at least one expression"));
    }
    let flags = args.opt::<String>("FLAGS")?.unwrap_or_default();
    let made = args.shared("expressions", || Expressions::new(&texts, &flags).map(Arc::new));
    let expressions = Result::clone(&made).map_err(|error| match error {
        ExpressionError::Flag(_) => args.error("FLAGS", error.to_string()).into(),
        _ => ArgErrors::whole(error.to_string()),
    })?;
    let scan = Scan { expressions, counts: Counts::default() };
    Ok(Box::new(FlowHyperScan { scan, verbose: args.get("VERBOSE")? }))
}

impl Element for FlowHyperScan {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let before = self.scan.counts.matches;
        cx.per_session(&mut self.scan, batch);
        if self.verbose {
            (before..self.scan.counts.matches).for_each(|_| cx.log("MATCHED"));
        }
    }
}

impl HotSwap for FlowHyperScan {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new(self.scan.counts))
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        if let Ok(counts) = state.downcast::<Counts>() {
            self.scan.counts = *counts;
        }
    }
}

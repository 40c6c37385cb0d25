//! WordMatcher: finds words in streams, whatever packets they came in.

use std::any::Any;
use std::fmt::Write as _;
use std::sync::Arc;

use thruway_element::{
    Arg, ArgErrors, Args, Buffer, Changes, Cost, CostModel, Cx, Element, Entry, Exception, Fails,
    Handlers, HotSwap, Layer, Load, Needs, Operation, Replicas, SessionFunction, Spec,
    StreamMember, StreamTransfer, Topic, Ty,
};
use thruway_elements_support::reaching::matching;
use thruway_flow::Ended;
use thruway_packet::Batch;
use thruway_stream::stage::{Memory, Stage};
use zerocopy::FromBytes;

use super::holding::{GIVEN_UP, TOTAL, given_up, hold};
use super::per_stream::{PerStream, STAGE_TIMER, stream_ended, stream_wants};
use asked::Asked;
use list::{List, Shared, Wanted};
use matching::{Acts, Matcher, Mode, SessionState, Totals};

mod asked;
mod list;
mod matching;

/// See the spec.
pub static ENTRY: Entry = Entry::built::<WordMatcher>(
    Spec {
        name: "WordMatcher",
        topic: Topic::Streams,
        summary: "finds words in streams: counts, closes, masks, removes, replaces",
        docs: "Looks for words in the payload of the context that it stands in: IP, UDP, TCP or \
               (bodies of) HTTP. A word that spans packets is found however the stream is cut. Of \
               words that overlap, the one that begins first counts; of those that begin together, \
               the longest; the search goes on behind it. What is left when words are removed is \
               not searched again. With NOCASE, upper and lower case of ASCII letters are the \
               same.\n\n\
               MODE selects the action on a match. ALERT counts it. CLOSE ends the connection; the \
               packet with the word's last byte does not go on. MASK overwrites it with the byte \
               CHARACTER, REMOVE takes it out, REPLACE puts WITH in its place. For the last three, \
               bytes that may be the beginning of a word are held back until more comes: as few as \
               possible, at most a word. They wait as long as it takes, and their sender is \
               informed that they have arrived: a peer that cannot be inspected without them, and \
               does not answer before they come (an echo, say), needs HOLD. With HOLD, bytes go on \
               when nothing comes for that time; should the rest of the word come later, it is \
               masked, removed or replaced alone, and counted as partly: no word passes whole, but \
               a sender that pauses decides its fate.\n\n\
               Held-back bytes of all sessions take at most TOTAL bytes of memory (whole frames, \
               where there are more than 55 bytes); beyond, the one that has waited longest is \
               closed when more comes of it, and counted as given_up.\n\n\
               The processing by the chain follows from MODE: for ALERT, payload is put in order; \
               for CLOSE, the receiver also gets only bytes that were searched; MASK, REMOVE and \
               REPLACE need the bytes to be kept until they are acknowledged, and the last two \
               sequence numbers of our own. Where retransmissions with different bytes must not \
               mislead inspection, do not rely on ALERT alone.\n\n\
               Each line of FILE is a word too: as it stands, or quoted as in a configuration \
               (\"a\\tb\", \\<48 45>); empty lines and those that begin with # are none. A word \
               has at most 4,096 bytes.\n\n\
               FastClick's arguments are understood too, where words are written WORD x: WORD x, \
               WORD y, MODE, MSG, QUIET. MODE is MASK then if it is not given, REPLACE overwrites \
               a word with MSG, as often as it has room, and FULL puts MSG in its place; ALERT \
               reports every word unless QUIET is true. A word that is to be looked for with WORD \
               in front of it is quoted.",
        example: "FromDump(examples/captures/lan.pcap, STOP true) -> FlowClassifier \
                  ~> UDPIn -> WordMatcher(cisco, example, MODE MASK, NOCASE true) -> UDPOut \
                  -> Discard",
        ports: "1-/=",
        flow: "#/#",
        args: &[
            Arg::rest("WORD", Ty::Data, "a word to look for"),
            Arg::keyword("FILE", Ty::File, "file with a word on each line"),
            Arg::keyword("MODE", Ty::Choice(&Mode::NAMES), "action on a match").or("ALERT"),
            Arg::keyword("WITH", Ty::Data, "takes a word's place, for REPLACE"),
            Arg::keyword("CHARACTER", Ty::Data, "one byte, for MASK; * if not given"),
            Arg::keyword("MSG", Ty::Data, "FastClick's WITH"),
            Arg::keyword("ALL", Ty::Bool, "FastClick's; all words are found in any case"),
            Arg::keyword("QUIET", Ty::Bool, "FastClick's: found words are not reported")
                .or("false"),
            Arg::keyword("NOCASE", Ty::Bool, "whether case does not matter").or("false"),
            Arg::keyword("HOLD", Ty::Time, "how long a word's beginning waits for more; 0: ever")
                .or("0"),
            TOTAL,
        ],
        wants: stream_wants::<SessionState>(),
        changes: Changes::Nothing,
        cost: &[Operation::SessionState.once(), Operation::MatchLine.once()],
        replicas: Replicas::Sharing("the words; each looks through the sessions of its thread"),
        large_packets: true,
        ..Spec::DEFAULT
    },
    build,
)
.with_stream_member::<WordMatcher>()
.with_session_function::<WordMatcher>()
.with_stream_transfer::<WordMatcher>()
.with_buffer::<WordMatcher>()
.with_cost_model::<WordMatcher>()
.with_hot_swap::<WordMatcher>();

#[derive(Handlers)]
#[handler(sum, name = "matches", "words found", get = self.totals().matches)]
#[handler(sum, name = "found", "the same (FastClick)", get = self.totals().matches)]
#[handler(
    sum, name = "sessions", "sessions in which words were found", get = self.totals().sessions
)]
#[handler(
    sum, name = "sessions_closed", "sessions that were ended", get = self.stage.counts.closed
)]
#[handler(
    sum, name = "partly", "words of which a part had gone on before the rest came",
    get = self.totals().partly
)]
#[handler(
    sum, name = "held", "times that the beginning of a word was held back",
    get = self.stage.counts.held
)]
#[handler(like = GIVEN_UP, name = "given_up", get = given_up(&self.stage))]
#[handler(
    sum, name = "late", "times that it went on because nothing came in time",
    get = self.stage.counts.late
)]
#[handler(
    sum, name = "words", "how often each word was found; it is shown escaped", get = self.words()
)]
struct WordMatcher {
    wanted: Wanted,
    shared: Arc<Shared>,
    mode: Mode,
    with: Vec<u8>,
    mask: Vec<u8>,
    /// Every word that is found is reported.
    reports: bool,
    stage: Stage,
    /// It is shown messages' bodies.
    has_messages: bool,
    /// When the words are known.
    matcher: Option<Matcher>,
    /// The state of the element's predecessor before a hot swap.
    kept: Option<Kept>,
}

/// The state for a successor.
struct Kept {
    stage: Stage,
    number: u32,
    counts: Vec<u64>,
    totals: Totals,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let Asked { wanted, mode, with, mask, reports } = Asked::read(args)?;
    Ok(Box::new(WordMatcher {
        wanted,
        shared: args.shared("words", Shared::new),
        mode,
        with,
        mask,
        reports,
        stage: Stage::new(hold(args)?),
        has_messages: false,
        matcher: None,
        kept: None,
    }))
}

impl WordMatcher {
    fn list(&self) -> Result<Arc<List>, String> {
        self.shared.get_or_init(|| self.wanted.make().map(Arc::new)).clone()
    }

    fn totals(&self) -> Totals {
        self.matcher.as_ref().map_or(Totals::default(), |matcher| matcher.acts.totals)
    }

    /// A line for each word: how often, and the word, which is escaped as it may be anything.
    fn words(&self) -> String {
        let mut text = String::new();
        let Some(matcher) = &self.matcher else { return text };
        for (word, count) in matcher.list.names.iter().zip(&matcher.acts.counts) {
            let _ = writeln!(text, "{count} \"{}\"", word.escape_ascii()); // a String does not fail
        }
        text
    }
}

impl Element for WordMatcher {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let list = self.list()?;
        let (mut counts, mut totals) = (vec![0; list.names.len()], Totals::default());
        if let Some(kept) = self.kept.take().filter(|kept| kept.number == list.number) {
            (counts, totals) = (kept.counts, kept.totals);
        }
        let (mode, with, mask) = (self.mode, self.with.clone(), self.mask.clone());
        self.matcher = Some(Matcher { list, acts: Acts { mode, with, mask, counts, totals } });
        cx.arm_stage(&mut self.stage);
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        let Some(matcher) = &mut self.matcher else { return };
        let before = matcher.acts.totals.matches;
        cx.per_stream(&mut self.stage, matcher, port, batch);
        if self.reports {
            (before..matcher.acts.totals.matches).for_each(|_| cx.log("Attack found !"));
        }
    }

    fn timer(&mut self, cx: &mut Cx<'_>, token: u32) {
        if let Some(matcher) = self.matcher.as_mut().filter(|_| token == STAGE_TIMER) {
            cx.stream_timer(&mut self.stage, matcher);
        }
    }
}

impl HotSwap for WordMatcher {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        let matcher = self.matcher.take()?;
        let stage = std::mem::take(&mut self.stage);
        let Acts { counts, totals, .. } = matcher.acts;
        let number = matcher.list.number;
        Some(Box::new(Kept { stage, number, counts, totals }))
    }

    /// Sessions go on with what is held back of them; counts only if the words are the same.
    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        let Ok(mut kept) = state.downcast::<Kept>() else { return };
        self.stage.take_over(std::mem::take(&mut kept.stage));
        self.kept = Some(*kept);
    }
}

impl CostModel for WordMatcher {
    fn cost(&self, load: &Load) -> Option<Vec<Cost>> {
        let bytes = self.matcher.as_ref().map_or(0, |matcher| matcher.list.words.memory());
        Some(matching(bytes, load))
    }
}

impl Buffer for WordMatcher {
    fn holding(&self) -> usize {
        self.stage.holding()
    }
}

impl StreamTransfer for WordMatcher {
    fn identity(&self) -> String {
        self.list().map_or(String::new(), |list| {
            let put = list::number(&[self.with.clone(), self.mask.clone()], false);
            format!("words {:08x} {:?} {put:08x}", list.number, self.mode)
        })
    }

    /// What is held back, of a mode that holds back whatever may be the beginning of a word: then
    /// there is nothing else.
    fn export(&self, state: &[u8], direction: usize, out: &mut Vec<u8>) -> bool {
        let Ok((memory, _)) = Memory::read_from_prefix(state) else { return false };
        let kept = self.stage.replicable(&memory, direction).filter(|_| self.mode.holds());
        out.extend_from_slice(kept.unwrap_or_default());
        kept.is_some()
    }

    fn import(
        &mut self,
        bytes: &[u8],
        direction: usize,
        state: &mut [u8],
    ) -> Result<(), &'static str> {
        match Memory::mut_from_prefix(state) {
            Ok((memory, _)) if self.mode.holds() => self.stage.restore(memory, direction, bytes),
            _ => Err("a WordMatcher that does not hold back words"),
        }
    }
}

impl SessionFunction for WordMatcher {
    fn closed(&mut self, _cx: &mut Cx<'_>, state: &[u8], _why: Ended) {
        if let Some(matcher) = &mut self.matcher {
            stream_ended(&mut self.stage, matcher, state);
        }
    }
}

impl StreamMember for WordMatcher {
    fn needs(&self) -> Option<Needs> {
        Some(self.mode.needs())
    }

    fn take_context(&mut self, layer: Layer) {
        self.has_messages |= layer == Layer::Http;
    }

    fn exceptions(&self) -> Vec<Exception> {
        let row = |what, done, fails, argument| Exception { what, done, fails, argument };
        let (found, fails) = match self.mode {
            Mode::Alert => ("count", Fails::Open),
            Mode::Close => ("end the connection", Fails::Closed),
            Mode::Mask | Mode::Remove | Mode::Replace => ("change it", Fails::Closed),
        };
        let mut rows = vec![row("a word", found, fails, "MODE")];
        if fails == Fails::Closed && self.mode != Mode::Close {
            let what = "a word that ends after HOLD";
            rows.push(row(what, "change the end alone", Fails::Closed, "HOLD"));
        }
        if self.has_messages {
            rows.push(row("a word in the head of a message", "pass", Fails::Open, ""));
        }
        rows
    }
}

//! One thread's replica of an isolated function's element: what becomes of packets.

use std::any::Any;
use std::sync::Arc;

use thruway_element::text::unquote_text;
use thruway_element::{ArgErrors, Args, Cx, HandlerError, Pressing, Run};
use thruway_exchange::{PeerFault, SlotTag, Tuning};
use thruway_flow::parse_class;
use thruway_packet::{Batch, MAX_BATCH, Packet};

use super::backend::Shared;
use super::came::TakesTokens;
use super::dues::Dues;
use super::group;
use super::link::Link;
use super::lost::Lost;
use super::process;
use super::sessions::{Entries, SessionEntry};
use super::settings::{OnFailure, Settings};
use super::state::{NfState, Waiting};
use super::waking::Policy;

/// Most packets that wait while the ring is full.
const BACKLOG_MAX: usize = MAX_BATCH - 1;
/// Most of them in a context of streams, which must not be lost: content, and what the context made
/// or sent again. The context lets nothing in while any wait; what it let in last is a batch, and
/// what that brought into order: in 64 MB (TOTAL of TCPIn) are some 30,000 packets.
const STREAM_BACKLOG_MAX: usize = 1 << 16;
/// Why a function cannot begin.
const NO_SCRATCH: &str = "SESSION: the function asks for no scratch of sessions: leave SESSION \
                          out, or set scratch_len in the function's Config";
/// How often a function that does not run is looked for, nanoseconds.
pub(super) const LOOK_NS: i64 = 1_000_000;

/// One thread's replica.
pub(super) struct Nf {
    pub settings: Settings,
    /// The traffic class that it is to have.
    pub class: Option<String>,
    pub tuning: Tuning,
    pub policy: Policy,
    pub shared: Arc<Shared>,
    pub group: Option<Arc<group::Shared>>,
    pub replica: u32,
    pub thread: usize,
    /// From the initialization to the finish.
    pub running: Option<NfState>,
    /// A predecessor's state that does not fit, kept until this configuration runs.
    pub other: Option<Box<NfState>>,
    /// Who is to be waited for.
    pub pressing: Pressing,
    /// Where the outputs lead is known.
    pub has_looked: bool,
    /// Since when no function runs.
    pub down_since: i64,
    /// The generation whose fault was told.
    pub faulty: u32,
    /// Rounds in which nothing came back.
    pub idle: u32,
    pub resting: bool,
    /// What a handler set instead of WORKER_THRESHOLD.
    pub worker_threshold: Option<u32>,
    /// Tokens that came from another function and are not counted yet.
    pub came: usize,
    pub hang: Dues,
}

impl Nf {
    /// A replica with these arguments.
    pub fn of(args: &Args<'_>) -> Result<Nf, ArgErrors> {
        let settings = Settings::of(args)?;
        let group =
            settings.group.as_ref().map(|group| group::Shared::of(args, group, &settings.shape));
        let shared: Arc<Shared> = args.shared(Shared::KEY, Shared::default);
        let (policy, tuning) = Policy::of(args, settings.shape.slots)?;
        Ok(Nf {
            class: class(args)?,
            tuning,
            policy,
            replica: shared.number(),
            thread: args.env().thread,
            shared,
            group: group.transpose()?,
            settings,
            running: None,
            other: None,
            pressing: Pressing::default(),
            has_looked: false,
            down_since: 0,
            faulty: 0,
            idle: 0,
            resting: false,
            worker_threshold: None,
            came: 0,
            hang: Dues::default(),
        })
    }

    /// What replicas share.
    #[cfg(test)]
    pub fn shared_state(&self) -> &Arc<Shared> {
        &self.shared
    }
}

/// A replica as an element that takes tokens.
fn as_taker(element: &mut dyn Any) -> Option<&mut dyn TakesTokens> {
    element.downcast_mut::<Nf>().map(|replica| replica as &mut dyn TakesTokens)
}

/// Most packets that may wait when one comes.
fn waiting_max(settings: &Settings) -> usize {
    if settings.stream.is_some() { STREAM_BACKLOG_MAX } else { BACKLOG_MAX }
}

fn class(args: &Args<'_>) -> Result<Option<String>, ArgErrors> {
    let Some(text) = args.text("CLASS") else { return Ok(None) };
    let class = unquote_text(text);
    match parse_class(&class, &args.names()) {
        Ok(_) => Ok(Some(class)),
        Err(error) => Err(args.error("CLASS", error.message).into()),
    }
}

impl Nf {
    /// Whether the predecessor's function has the region of this configuration's group, if it is in
    /// one.
    pub fn has_same_region(&self, before: &NfState) -> bool {
        match (&self.group, &before.frames) {
            (Some(group), Some(frames)) => group.adopt(self.thread, frames),
            _ => true,
        }
    }

    /// Starts the function, or goes on with the predecessor's.
    pub fn start(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.press_back(false);
        if self.running.is_none() {
            let frames = match &self.group {
                Some(group) => Some(group.frames(self.thread)?),
                None => None,
            };
            let region = frames.as_ref().map(|frames| frames.region.clone());
            let (entries, arena) = self.entries();
            let label = cx.name();
            let settings = (label, &self.settings);
            let function = self.shared.start(|| process::start(settings, region, arena));
            let function = function.and_then(|function| match &entries {
                Some(_) if function.arena().is_none() => Err(NO_SCRATCH.to_owned()),
                _ => Ok(function),
            });
            match function {
                Ok(function) => {
                    let state = NfState::new(&self.settings, function, frames, entries, as_taker);
                    self.running = Some(state);
                }
                Err(why) => {
                    self.give_back(entries);
                    return Err(why);
                }
            }
        } else if let Some(state) = &mut self.running {
            self.shared.start(|| Ok(Arc::clone(&state.function)))?;
            if let Some(link) = &mut state.link {
                link.tune(self.tuning);
                cx.watch(link.wake())
                    .map_err(|error| format!("cannot watch the function: {error}"))?;
            }
        }
        self.down_since = cx.now();
        Ok(())
    }

    /// Finds the marks of a batch's packets, if they are of use: to a function that runs, or will;
    /// to one of streams in any case, of which bytes may be here.
    #[inline]
    pub fn mark(&mut self, cx: &mut Cx<'_>, input: u8, batch: &mut Batch) {
        let Some(state) = &mut self.running else { return };
        state.expect(batch.len());
        let Some(entries) = &mut state.entries else { return };
        let waits = matches!(self.settings.on_failure, OnFailure::Restart(_));
        if state.link.is_some() || waits || self.settings.stream.is_some() {
            entries.mark(cx, input, batch);
        } else {
            entries.unmark();
        }
    }

    /// The mark of the `nth` packet of the batch in hand.
    #[inline]
    pub fn mark_of(&self, nth: usize, input: u8) -> SlotTag {
        self.running.as_ref().map_or(SlotTag::NONE, |state| state.mark_of(nth, input))
    }

    /// A session has ended; `place` is what the flow manager kept.
    pub fn end_session(&mut self, cx: &mut Cx<'_>, place: &SessionEntry) {
        self.follow(cx);
        self.be_awake();
        let Some(state) = &mut self.running else { return };
        state.entries.iter_mut().for_each(|entries| entries.end(place));
        if state.put_ended() {
            state.publish(cx);
        }
    }

    /// Follows the function from generation to generation.
    #[inline]
    pub fn follow(&mut self, cx: &mut Cx<'_>) {
        let Some(state) = &self.running else { return };
        let present = state.function.generation();
        if present != state.generation || (state.link.is_none() && present != 0) {
            self.change(cx, present);
        }
    }

    #[cold]
    pub fn change(&mut self, cx: &mut Cx<'_>, present: u32) {
        self.give_up_link(cx);
        let Some(state) = &mut self.running else { return };
        if state.generation != 0 && present == 0 || state.generation != present {
            self.down_since = cx.now();
        }
        state.generation = present;
        if let Some(end) = state.function.take_end(self.replica) {
            // The function may have come back since `present` was read.
            state.generation = end.generation;
            let (frames, has_sessions) = (state.frames.clone(), state.entries.is_some());
            let link = Link::new(end, self.settings.outputs, self.tuning, frames, has_sessions);
            let link = if self.settings.stream.is_some() { link.of_streams() } else { link };
            if let Some(streams) = state.entries.as_mut().and_then(Entries::streams) {
                streams.begin();
            }
            let arena = state.function.arena();
            state.entries.iter_mut().for_each(|entries| entries.set_arena(arena.clone()));
            if let Err(error) = cx.watch(link.wake()) {
                // The thread then sleeps for 100 ms at most.
                cx.log(&format!("cannot watch an isolated function: {error}"));
            }
            state.link = Some(link);
            if let Some(threshold) = self.worker_threshold {
                state.function.set_worker_threshold(threshold);
            }
            (self.idle, self.resting) = (0, false);
        }
        self.press(cx);
    }

    /// Ends the link: what the function had goes where ON_FAILURE says.
    #[cold]
    pub fn give_up_link(&mut self, cx: &mut Cx<'_>) {
        let passes = self.settings.on_failure == OnFailure::Open;
        let Some(state) = &mut self.running else { return };
        let Some(mut link) = state.link.take() else { return };
        cx.unwatch(link.wake());
        state.add_figures(link.figures());
        state.latency.forget();
        if let Some(entries) = &mut state.entries {
            link.recall(entries);
        }
        link.reclaim(None, |mark, packet| {
            if passes {
                state.pass(cx, mark, packet);
            } else {
                state.lose(cx, mark, packet, Lost::Failed);
            }
        });
        // Those that wait came behind these, and nothing that comes later may be in front of them.
        for (mark, packet) in if passes { state.take_waiting() } else { Vec::new() } {
            state.pass(cx, mark, packet);
        }
        state.outlet.flush(cx);
        self.down_since = cx.now();
    }

    /// The function broke the protocol.
    #[cold]
    pub fn fault(&mut self, cx: &mut Cx<'_>, fault: PeerFault) {
        let Some(state) = &self.running else { return };
        if std::mem::replace(&mut self.faulty, state.generation) != state.generation {
            state.function.report_fault(state.generation, fault);
        }
        // A member of a group may write into its frames while it lives, so they are not another's
        // before the link is withdrawn, which is when its process is dead.
        if state.frames.is_none() {
            self.give_up_link(cx);
            self.press(cx);
        }
    }

    /// Takes back what there is; whether there was anything.
    #[inline]
    pub fn collect(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.pressing.is_felt(cx) {
            self.excuse(cx);
            return false;
        }
        let Some(NfState { link: Some(link), outlet, latency, entries, .. }) = &mut self.running
        else {
            return false;
        };
        match link.collect(cx, outlet, entries, MAX_BATCH as u32) {
            Ok(0) => false,
            Ok(_) => {
                let figures = link.figures();
                latency.returned(figures.returned + figures.dropped, cx.now());
                true
            }
            Err(fault) => {
                self.fault(cx, fault);
                true
            }
        }
    }

    /// Looks where the outputs lead, once all elements are there.
    #[cold]
    pub fn look_around(&mut self, cx: &mut Cx<'_>) {
        self.has_looked = true;
        if let Some(state) = &mut self.running {
            state.outlet.find_hops(cx);
        }
    }

    /// Tells those upstream whether to wait.
    #[inline]
    pub fn press(&self, cx: &mut Cx<'_>) {
        let Some(state) = &self.running else { return };
        cx.press_back(match &state.link {
            Some(link) => link.is_full() || !state.backlog.is_empty(),
            None => matches!(self.settings.on_failure, OnFailure::Restart(_)) && !self.is_late(cx),
        });
    }

    /// Whether the function does not run for longer than packets wait for it.
    pub fn is_late(&self, cx: &Cx<'_>) -> bool {
        let hold = match self.settings.on_failure {
            OnFailure::Restart(hold) => hold,
            _ => 0,
        };
        cx.now().saturating_sub(self.down_since) >= hold
    }

    /// Most packets that wait while no function runs.
    fn waiting_max_without(&self) -> usize {
        waiting_max(&self.settings).max(self.settings.shape.slots as usize)
    }

    /// How many more may wait while no function runs; where none waits, as many as there are.
    pub fn room_without(&self, waiting: usize) -> usize {
        match self.settings.on_failure {
            OnFailure::Restart(_) => self.waiting_max_without().saturating_sub(waiting),
            _ => usize::MAX,
        }
    }

    /// What becomes of a packet while no function runs.
    #[cold]
    pub fn without(&mut self, cx: &mut Cx<'_>, mark: SlotTag, packet: Packet) {
        let (is_late, most) = (self.is_late(cx), self.waiting_max_without());
        let Some(state) = &mut self.running else { return };
        match self.settings.on_failure {
            OnFailure::Open => state.pass(cx, mark, packet),
            OnFailure::Restart(_) if !is_late && state.waiting() < most => {
                state.backlog.push_back(Waiting::Packet(mark, packet));
            }
            _ => state.lose(cx, mark, packet, Lost::Failed),
        }
    }

    /// The task while no function runs.
    pub fn run_without(&mut self, cx: &mut Cx<'_>) -> Run {
        let waits = matches!(self.settings.on_failure, OnFailure::Restart(_)) && !self.is_late(cx);
        if !waits {
            let waiting = self.running.as_mut().map(NfState::take_waiting);
            for (mark, packet) in waiting.into_iter().flatten() {
                self.without(cx, mark, packet);
            }
            self.flush(cx);
        }
        self.press(cx);
        Run::At(cx.now() + LOOK_NS)
    }

    pub fn flush(&mut self, cx: &mut Cx<'_>) {
        if let Some(state) = &mut self.running {
            state.outlet.flush(cx);
        }
    }

    /// Hands a batch over, whose marks were found; what finds the ring full waits.
    #[inline]
    pub fn offer_all(&mut self, cx: &mut Cx<'_>, input: u8, batch: &mut Batch) {
        let mut packets = batch.drain();
        if let Some(state) = &mut self.running
            && state.is_plain()
        {
            let mark = SlotTag { input, ..SlotTag::NONE };
            let left = state.put_all(cx, mark, &mut packets);
            left.into_iter().chain(packets).for_each(|packet| self.offer(cx, mark, packet));
            return;
        }
        for (nth, packet) in packets.enumerate() {
            let mark = self.mark_of(nth, input);
            self.offer(cx, mark, packet);
        }
    }

    #[inline]
    pub fn offer(&mut self, cx: &mut Cx<'_>, mark: SlotTag, packet: Packet) {
        let Some(state) = &mut self.running else { return };
        let packet = if state.backlog.is_empty() {
            match state.put(cx, mark, packet) {
                Some(packet) => packet,
                None => return,
            }
        } else {
            packet
        };
        let most = waiting_max(&self.settings);
        // While no function ran more may have waited than does otherwise: it has room now.
        let has_room = |state: &NfState| state.link.as_ref().is_some_and(|link| !link.is_full());
        if state.waiting() >= most && has_room(state) {
            state.put_backlog(cx);
        }
        // Room may have come back since.
        if state.waiting() < most {
            state.backlog.push_back(Waiting::Packet(mark, packet));
        } else {
            state.lose(cx, mark, packet, Lost::Full);
        }
    }
}

impl Nf {
    /// Writes a handler of the function.
    pub fn call(&self, text: &str) -> Result<(), HandlerError> {
        let Some(state) = &self.running else {
            return Err(HandlerError::refused("the function was not started yet"));
        };
        state.function.ask(true, text).or_later().map(drop)
    }
}

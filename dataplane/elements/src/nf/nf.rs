//! Nf: a network function that is a process of its own.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

use thruway_element::{
    Arg, ArgErrors, Args, Cx, Element, Entry, Handler, HandlerError, Run, Spec, Topic, Ty, reasons,
};
use thruway_exchange::{LinkFigures, PeerFault, Tuning};
use thruway_packet::{Batch, MAX_BATCH, Packet};

use super::backend::{Function, Shared};
use super::group;
use super::latency::Latency;
use super::link::{Frames, Link, Outlet, Refused};
use super::process;
use super::settings::{OnFailure, Settings, tuning};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "Nf",
        topic: Topic::Nf,
        summary: "hands packets to a function that is a process of its own, and back",
        docs: DOCS,
        example: "InfiniteSource(LIMIT 3, STOP true) -> Nf(/bin/true) -> Discard",
        ports: "-/-",
        processing: "h/h",
        args: ARGS,
        drops: Lost::DROPS,
        handlers: HANDLERS,
        task: true,
        task_everywhere: true,
        ..Spec::DEFAULT
    },
    build,
);

const DOCS: &str = "\
Starts PROGRAM with its arguments as a process without rights that sees nothing of the host but \
shared memory with this element, and hands it the packets that are pushed in, in their order; what \
it does not drop comes back out of the output that it chose, with its changes. The function is \
written with the library of nf/sdk (docs/nf-authors.md). A packet keeps its annotations and \
timestamp; packets that the function makes of another one have that one's, others the present \
time. Empty packets, and those longer than SLOT_SIZE, are dropped.\n\
Each thread that reaches the element has rings of its own; the function serves them all. WAIT says \
what it does when nothing waits: sleep (block), look all the time (poll), or look for SPIN and \
then sleep (hybrid). It is woken when more than MASTER_THRESHOLD packets wait, or the oldest of \
them for longer than AGE; it hands back after WORKER_THRESHOLD packets or when none waits.\n\
While half of the ring is in use, captures (FromDump, FromDevice) and functions upstream wait. A \
packet that finds the ring full waits with at most 255 others, or is dropped.\n\
A function that ends, hangs for longer than HANG, or breaks the protocol is ended and started \
again, at first at once, then after growing pauses. Meanwhile ON_FAILURE decides: with open, \
packets pass unchanged through output 0, those that it had first; with closed they are dropped; \
with restart those that it had are dropped, and new ones (as many as SLOTS) wait for at most HOLD. \
Its neighbours go on in any case.\n\
With MODE group, the function shares a region of frames with the other members of GROUP, a \
TrustGroup: packets go from member to member without being copied, and members see each other's \
packets; SLOT_SIZE and HEADROOM must be the same in all members.\n\
What of the sandbox this system cannot give is an error that names the remedy; with ISOLATION \
relaxed the function runs without it, and handler `sandbox` tells. When the configuration is \
replaced (hot swap), a function whose arguments are the same goes on with its packets.";

/// How many of the arguments say what the function is; the others say how it is run.
pub(super) const OWN: usize = 4;

pub(super) const ARGS: &[Arg] = &[
    Arg::required("EXEC", Ty::Str, "program and its arguments: \"PROGRAM ARG...\""),
    Arg::keyword("CONFIG", Ty::Str, "text that the function is configured with").or("\"\""),
    Arg::keyword("OUTPUTS", Ty::UInt, "outputs it may use; as many as are connected if not given"),
    Arg::keyword("CARRY", Ty::Bool, "whether 128 bytes that tell annotations go with each packet")
        .or("false"),
    Arg::keyword("MODE", Ty::Choice(&["isolated", "group"]), "who shares its memory")
        .or("isolated"),
    Arg::keyword("GROUP", Ty::Str, "name of its TrustGroup, with MODE group"),
    Arg::keyword("WAIT", Ty::Choice(&["block", "poll", "hybrid"]), "how it waits for packets")
        .or("block"),
    Arg::keyword("SPIN", Ty::Time, "WAIT hybrid: how long it looks before it sleeps").or("50us"),
    Arg::keyword("SLOTS", Ty::UInt, "packets it can have: a power of two").or("1024"),
    Arg::keyword("SLOT_SIZE", Ty::UInt, "bytes of the longest packet, up to 16384").or("1514"),
    Arg::keyword("HEADROOM", Ty::UInt, "bytes before a packet for what it pushes").or("64"),
    Arg::keyword("AUX_SLOTS", Ty::UInt, "packets it can add to others: a power of two").or("256"),
    Arg::keyword("INJECTION_SLOTS", Ty::UInt, "packets of its own making: a power of two")
        .or("256"),
    Arg::keyword("MASTER_THRESHOLD", Ty::UInt, "wake it when more packets wait").or("0"),
    Arg::keyword("WORKER_THRESHOLD", Ty::UInt, "it hands back so many at a time").or("32"),
    Arg::keyword("AGE", Ty::Time, "wake it when a packet waits longer").or("100us"),
    Arg::keyword("CPUS", Ty::Str, "CPUs it runs on, \"1 2\"; all if not given"),
    Arg::keyword("MEMORY", Ty::Size, "memory it may use").or("256M"),
    Arg::keyword("ON_FAILURE", Ty::Choice(&["open", "closed", "restart"]), "packets meanwhile")
        .or("closed"),
    Arg::keyword("HOLD", Ty::Time, "ON_FAILURE restart: longest wait of a packet").or("500ms"),
    Arg::keyword("HANG", Ty::Time, "it is restarted when it makes no progress for so long")
        .or("1s"),
    Arg::keyword("ATTACH_TIMEOUT", Ty::Time, "time it has to begin").or("5s"),
    Arg::keyword("ISOLATION", Ty::Choice(&["strict", "relaxed"]), "whether all must be in force")
        .or("strict"),
    Arg::keyword("LIBRARIES", Ty::Str, "directories of libraries, before the system's"),
    Arg::keyword("READABLE", Ty::Str, "files and directories that it may read"),
];

const HANDLERS: &[Handler] = &[
    Handler::sum("packets_in", "packets handed to the function"),
    Handler::sum("packets_out", "packets that left, whoever made them"),
    Handler::sum("dropped", "packets that the function dropped"),
    Handler::sum("auxiliary", "packets that it made in consequence of others"),
    Handler::sum("injected", "packets that it made on its own"),
    Handler::sum("occupancy", "slots in use"),
    Handler::sum("occupancy_max", "most slots that were in use at once, over all threads' rings"),
    Handler::sum("wake_ups", "times it was woken"),
    Handler::read("sleeps", "times it went to sleep, as it says").shared(),
    Handler::read("aux_full", "auxiliary packets that found no slot, as it says").shared(),
    Handler::read("injection_full", "packets of its own that found no slot, as it says").shared(),
    Handler::sum("latency", "batches by the time from hand-over to return: a line `<LIMIT COUNT`"),
    Handler::read("restarts", "times it was started again").shared(),
    Handler::read("peer_faults", "times it broke the protocol").shared(),
    Handler::read("hangs", "times it made no progress").shared(),
    Handler::read("cpu_time", "processor time of all its processes, seconds").shared(),
    Handler::read("state", "where it stands: running, restarting, stopped").shared(),
    Handler::read("pid", "its process, 0 if there is none").shared(),
    Handler::read("generation", "changes with each start; 0 while it does not run").shared(),
    Handler::read("sandbox", "measures of isolation and whether they are in force").shared(),
    Handler::read("last_error", "why it was last ended or could not be started").shared(),
    Handler::read("counters", "its own counters, a line `NAME VALUE` each").shared(),
    Handler::both("handler", "read NAME or write NAME VALUE: a handler of the function").shared(),
    Handler::both("master_threshold", "see MASTER_THRESHOLD"),
    Handler::both("age", "see AGE; nanoseconds when read"),
    Handler::both("worker_threshold", "see WORKER_THRESHOLD").shared(),
];

reasons! {
    /// Why a packet does not come back.
    pub(super) enum Lost {
        Full = "ring-full": "all slots were in use",
        TooLong = "too-long": "longer than SLOT_SIZE",
        Empty = "empty": "it has no bytes",
        NoFrame = "no-frame": "its group had no free frame",
        Dropped = "function-dropped": "the function dropped it",
        Damaged = "damaged": "what came back has not even what CARRY adds",
        Failed = "function-failed": "the function had it when it failed, or did not run",
        Unfinished = "unfinished": "the function had it when the router stopped",
    }
}

/// Most packets that wait while the ring is full.
const BACKLOG_MAX: usize = MAX_BATCH - 1;
/// Rounds in which nothing came back before the thread may sleep.
///
/// A round with nothing to do takes some 100 ns: this is about one exchange between two cores.
const PATIENCE: u32 = 64;
/// Rounds between two looks whether the eventfd must be taken off while resting: a wake-up that
/// comes late must not keep the thread awake.
const QUIET_EVERY: u32 = 16;
/// Token of the timer that ends the age of waiting packets.
const AGE_TIMER: u32 = 1;
/// How often a function that does not run is looked for, nanoseconds.
const LOOK_NS: i64 = 1_000_000;

/// What goes on when a configuration is replaced.
struct State {
    settings: Settings,
    function: Arc<dyn Function>,
    frames: Option<Arc<Frames>>,
    link: Option<Link>,
    generation: u32,
    backlog: VecDeque<(u8, Packet)>,
    totals: LinkFigures,
    latency: Latency,
    outlet: Outlet,
}

/// One thread's replica.
pub(super) struct Nf {
    settings: Settings,
    tuning: Tuning,
    shared: Arc<Shared>,
    group: Option<Arc<group::Shared>>,
    replica: u32,
    thread: usize,
    /// From the initialization to the finish.
    running: Option<State>,
    /// A predecessor's state that does not fit, kept until this configuration runs.
    other: Option<Box<State>>,
    /// Elements downstream that ask to wait while they are full; found out at the first run.
    pressing: Option<Vec<u32>>,
    /// Since when no function runs.
    down_since: i64,
    /// Rounds in which nothing came back.
    idle: u32,
    resting: bool,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    Ok(Box::new(Nf::of(args)?))
}

impl Nf {
    /// A replica with these arguments.
    pub(super) fn of(args: &Args<'_>) -> Result<Nf, ArgErrors> {
        let settings = Settings::of(args)?;
        let group =
            settings.group.as_ref().map(|group| group::Shared::of(args, group, &settings.shape));
        let shared: Arc<Shared> = args.shared(Shared::KEY, Shared::default);
        Ok(Nf {
            tuning: tuning(args)?,
            replica: shared.number(),
            thread: args.env().thread,
            shared,
            group: group.transpose()?,
            settings,
            running: None,
            other: None,
            pressing: None,
            down_since: 0,
            idle: 0,
            resting: false,
        })
    }

    /// What replicas share.
    #[cfg(test)]
    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl State {
    /// Hands a packet over; gives it back when the ring is full.
    #[inline]
    fn put(&mut self, cx: &mut Cx<'_>, input: u8, packet: Packet) -> Option<Packet> {
        let Some(link) = &mut self.link else { return Some(packet) };
        match link.put(input, packet, &mut self.outlet) {
            Ok(()) => None,
            Err((packet, Refused::Full)) => Some(packet),
            Err((packet, Refused::Never(why))) => {
                cx.drop(why, packet);
                None
            }
        }
    }

    /// Hands over what waits; whether anything was.
    fn put_backlog(&mut self, cx: &mut Cx<'_>) -> bool {
        let before = self.backlog.len();
        while let Some((input, packet)) = self.backlog.pop_front() {
            if let Some(packet) = self.put(cx, input, packet) {
                self.backlog.push_front((input, packet));
                break;
            }
        }
        self.backlog.len() < before
    }

    #[inline]
    fn publish(&mut self, cx: &mut Cx<'_>) {
        if let Some(link) = &mut self.link {
            link.publish(cx.now());
            self.latency.published(link.figures().put);
        }
    }

    /// Figures of all generations.
    fn figures(&self) -> LinkFigures {
        let mut all = self.totals;
        if let Some(link) = &self.link {
            add(&mut all, link.figures());
        }
        all
    }
}

fn add(total: &mut LinkFigures, link: LinkFigures) {
    total.put += link.put;
    total.returned += link.returned;
    total.dropped += link.dropped;
    total.aux += link.aux;
    total.injected += link.injected;
    total.wake_ups += link.wake_ups;
    total.occupancy_max = total.occupancy_max.max(link.occupancy_max);
}

impl Nf {
    /// Follows the function from generation to generation.
    #[inline]
    fn follow(&mut self, cx: &mut Cx<'_>) {
        let Some(state) = &self.running else { return };
        let present = state.function.generation();
        if present != state.generation || (state.link.is_none() && present != 0) {
            self.change(cx, present);
        }
    }

    #[cold]
    fn change(&mut self, cx: &mut Cx<'_>, present: u32) {
        self.give_up_link(cx);
        let Some(state) = &mut self.running else { return };
        if state.generation != 0 && present == 0 || state.generation != present {
            self.down_since = cx.now();
        }
        state.generation = present;
        if let Some(end) = state.function.take_end(self.replica) {
            let link = Link::new(end, self.settings.outputs, self.tuning, state.frames.clone());
            if let Err(error) = cx.watch(link.wake()) {
                // The thread then sleeps for 100 ms at most.
                cx.chatter(&format!("cannot watch an isolated function: {error}"));
            }
            state.link = Some(link);
            (self.idle, self.resting) = (0, false);
        }
        self.press(cx);
    }

    /// Ends the link: what the function had goes where ON_FAILURE says.
    #[cold]
    fn give_up_link(&mut self, cx: &mut Cx<'_>) {
        let Some(state) = &mut self.running else { return };
        let Some(mut link) = state.link.take() else { return };
        cx.unwatch(link.wake());
        add(&mut state.totals, link.figures());
        state.latency.forget();
        let passes = self.settings.on_failure == OnFailure::Open;
        link.reclaim(|packet| {
            if passes {
                state.outlet.give(cx, 0, packet);
            } else {
                cx.drop(Lost::Failed, packet);
            }
        });
        state.outlet.flush(cx);
        self.down_since = cx.now();
    }

    /// The function broke the protocol.
    #[cold]
    fn fault(&mut self, cx: &mut Cx<'_>, fault: PeerFault) {
        let Some(state) = &self.running else { return };
        state.function.report_fault(state.generation, fault);
        self.give_up_link(cx);
        self.press(cx);
    }

    /// Takes back what there is; whether there was anything.
    #[inline]
    fn collect(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.is_pressed(cx) {
            return false;
        }
        let Some(State { link: Some(link), outlet, latency, .. }) = &mut self.running else {
            return false;
        };
        match link.collect(cx, outlet, MAX_BATCH as u32) {
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

    /// Whether what lies downstream asks to wait.
    #[inline]
    fn is_pressed(&mut self, cx: &Cx<'_>) -> bool {
        let pressing = self.pressing.get_or_insert_with(|| {
            let found = cx.pressing_downstream();
            // In a loop all would wait for each other.
            if found.contains(&cx.node()) { Vec::new() } else { found }
        });
        pressing.iter().any(|node| cx.is_full(*node))
    }

    /// Tells those upstream whether to wait.
    #[inline]
    fn press(&self, cx: &mut Cx<'_>) {
        let Some(state) = &self.running else { return };
        cx.press_back(match &state.link {
            Some(link) => link.is_crowded() || !state.backlog.is_empty(),
            None => matches!(self.settings.on_failure, OnFailure::Restart(_)) && !self.is_late(cx),
        });
    }

    /// Whether the function does not run for longer than packets wait for it.
    fn is_late(&self, cx: &Cx<'_>) -> bool {
        let hold = match self.settings.on_failure {
            OnFailure::Restart(hold) => hold,
            _ => 0,
        };
        cx.now().saturating_sub(self.down_since) >= hold
    }

    /// What becomes of a packet while no function runs.
    #[cold]
    fn without(&mut self, cx: &mut Cx<'_>, input: u8, packet: Packet) {
        let (is_late, slots) = (self.is_late(cx), self.settings.shape.slots as usize);
        let Some(state) = &mut self.running else { return };
        match self.settings.on_failure {
            OnFailure::Open => state.outlet.give(cx, 0, packet),
            OnFailure::Restart(_) if !is_late && state.backlog.len() < slots => {
                state.backlog.push_back((input, packet));
            }
            _ => cx.drop(Lost::Failed, packet),
        }
    }

    /// The task while no function runs.
    fn run_without(&mut self, cx: &mut Cx<'_>) -> Run {
        let waits = matches!(self.settings.on_failure, OnFailure::Restart(_)) && !self.is_late(cx);
        if !waits {
            let waiting = self.running.as_mut().map(|state| std::mem::take(&mut state.backlog));
            for (input, packet) in waiting.into_iter().flatten() {
                self.without(cx, input, packet);
            }
            self.flush(cx);
        }
        self.press(cx);
        Run::At(cx.now() + LOOK_NS)
    }

    fn flush(&mut self, cx: &mut Cx<'_>) {
        if let Some(state) = &mut self.running {
            state.outlet.flush(cx);
        }
    }

    /// Nothing came back: the thread may sleep, after some patience.
    fn doze(&mut self, cx: &mut Cx<'_>) -> Run {
        let is_pressed = self.is_pressed(cx);
        let Some(State { link: Some(link), .. }) = &mut self.running else { return Run::Again };
        if is_pressed {
            // Whoever presses wakes the thread.
            return Run::Idle;
        }
        self.idle = self.idle.saturating_add(1);
        if link.outstanding() > 0 && self.idle < PATIENCE {
            return Run::Again;
        }
        if self.resting && !self.idle.is_multiple_of(QUIET_EVERY) {
            return Run::Idle;
        }
        link.quiet();
        if self.tuning.master_threshold > 0 && link.outstanding() > 0 && !self.resting {
            let age = i64::try_from(self.tuning.age_threshold).unwrap_or(i64::MAX);
            cx.set_timer(AGE_TIMER, cx.now().saturating_add(age));
        }
        self.resting = link.rest();
        if self.resting { Run::Idle } else { Run::Again }
    }

    /// Something moves: the function need not wake this thread.
    #[inline]
    fn be_awake(&mut self) {
        self.idle = 0;
        if std::mem::replace(&mut self.resting, false)
            && let Some(State { link: Some(link), .. }) = &mut self.running
        {
            link.wakened();
        }
    }

    #[inline]
    fn offer(&mut self, cx: &mut Cx<'_>, input: u8, packet: Packet) {
        let Some(state) = &mut self.running else { return };
        let packet = if state.backlog.is_empty() {
            match state.put(cx, input, packet) {
                Some(packet) => packet,
                None => return,
            }
        } else {
            packet
        };
        // Room may have come back since.
        if state.backlog.len() < BACKLOG_MAX {
            state.backlog.push_back((input, packet));
        } else {
            cx.drop(Lost::Full, packet);
        }
    }

    /// Ends a function that this configuration does not go on with.
    #[cold]
    fn end_other(&mut self, cx: &mut Cx<'_>) {
        let Some(mut other) = self.other.take() else { return };
        let mut lost = other.backlog.len();
        if let Some(link) = &mut other.link {
            link.reclaim(|packet| {
                lost += 1;
                drop(packet);
            });
        }
        cx.count_drops(Lost::Unfinished, lost);
        if self.replica == 0 {
            other.function.stop();
        }
    }

    fn set_tuning(&mut self, tuning: Tuning) {
        self.tuning = tuning;
        if let Some(State { link: Some(link), .. }) = &mut self.running {
            link.tune(tuning);
        }
    }
}

impl Element for Nf {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.press_back(false);
        if self.running.is_none() {
            let frames = match &self.group {
                Some(group) => Some(group.frames(self.thread)?),
                None => None,
            };
            let region = frames.as_ref().map(|frames| frames.region.clone());
            let settings = &self.settings;
            let function = self.shared.start(|| process::start(settings, region))?;
            self.running = Some(State {
                settings: self.settings.clone(),
                function,
                frames,
                link: None,
                generation: 0,
                backlog: VecDeque::with_capacity(MAX_BATCH),
                totals: LinkFigures::default(),
                latency: Latency::default(),
                outlet: Outlet::new(self.settings.carry),
            });
        } else if let Some(state) = &self.running {
            self.shared.start(|| Ok(Arc::clone(&state.function)))?;
            if let Some(link) = &state.link {
                cx.watch(link.wake())
                    .map_err(|error| format!("cannot watch the function: {error}"))?;
            }
        }
        self.down_since = cx.now();
        self.follow(cx);
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        self.follow(cx);
        let input = port as u8;
        if matches!(&self.running, Some(State { link: Some(_), .. })) {
            self.be_awake();
            for packet in batch.drain() {
                self.offer(cx, input, packet);
            }
            if let Some(state) = &mut self.running {
                state.publish(cx);
            }
            self.press(cx);
        } else {
            for packet in batch.drain() {
                self.without(cx, input, packet);
            }
            self.flush(cx);
        }
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        if self.other.is_some() {
            self.end_other(cx);
        }
        self.follow(cx);
        let Some(State { link: Some(link), .. }) = &mut self.running else {
            return self.run_without(cx);
        };
        if self.tuning.master_threshold > 0 {
            link.check_age(cx.now());
        }
        let mut worked = self.collect(cx);
        if let Some(state) = &mut self.running
            && !state.backlog.is_empty()
            && state.put_backlog(cx)
        {
            state.publish(cx);
            worked = true;
        }
        self.press(cx);
        if worked {
            self.be_awake();
            Run::Again
        } else {
            self.doze(cx)
        }
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        if let Some(State { link: Some(link), .. }) = &mut self.running {
            link.check_age(cx.now());
        }
    }

    fn holding(&self) -> usize {
        let Some(state) = &self.running else { return 0 };
        let with_it = state.link.as_ref().map_or(0, |link| link.occupancy() as usize);
        with_it + state.backlog.len()
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, param: &str) -> Result<String, HandlerError> {
        let Some(state) = &self.running else {
            return Err(HandlerError::refused("the function was not started yet"));
        };
        match name {
            "packets_out" => Ok(state.outlet.out.to_string()),
            "occupancy" => Ok(state.link.as_ref().map_or(0, Link::occupancy).to_string()),
            "latency" => Ok(state.latency.text()),
            "master_threshold" => Ok(self.tuning.master_threshold.to_string()),
            "age" => Ok(self.tuning.age_threshold.to_string()),
            "worker_threshold" => Ok(self.settings.worker_threshold.to_string()),
            "generation" => Ok(state.function.generation().to_string()),
            "handler" => state.function.call(false, param).map_err(HandlerError::refused),
            _ => super::report::figure(&state.figures(), name)
                .or_else(|| super::report::told(name).map(|what| state.function.tell(what)))
                .ok_or_else(|| HandlerError::no_read(name)),
        }
    }

    fn write(&mut self, _cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        let slots = self.settings.shape.slots;
        match name {
            "master_threshold" => {
                let master_threshold = super::report::threshold(name, value, slots)?;
                self.set_tuning(Tuning { master_threshold, ..self.tuning });
            }
            "age" => {
                let age_threshold = super::report::age(name, value)?;
                self.set_tuning(Tuning { age_threshold, ..self.tuning });
            }
            "worker_threshold" => {
                let threshold = super::report::threshold(name, value, slots)?.max(1);
                let text = format!("worker_threshold {threshold}");
                self.call(&text)?;
                self.settings.worker_threshold = threshold;
            }
            "handler" => self.call(value)?,
            _ => return Err(HandlerError::no_write(name)),
        }
        Ok(())
    }

    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        let state = self.other.take().or_else(|| self.running.take().map(Box::new));
        state.map(|state| state as Box<dyn Any + Send>)
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        let Ok(state) = state.downcast::<State>() else { return };
        if state.settings == self.settings {
            self.running = Some(*state);
        } else {
            self.other = Some(state);
        }
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let Some(state) = &mut self.running else { return Ok(()) };
        if let Some(link) = &mut state.link {
            // What came back since the last round leads nowhere any more. The function itself ends
            // with the configuration: until then its handlers can be read.
            let mut lost = 0;
            link.reclaim(|packet| {
                lost += 1;
                drop(packet);
            });
            cx.count_drops(Lost::Unfinished, lost);
        }
        cx.count_drops(Lost::Unfinished, state.backlog.len());
        state.backlog.clear();
        Ok(())
    }
}

impl Nf {
    /// Writes a handler of the function.
    fn call(&self, text: &str) -> Result<(), HandlerError> {
        let Some(state) = &self.running else {
            return Err(HandlerError::refused("the function was not started yet"));
        };
        state.function.call(true, text).map(drop).map_err(HandlerError::refused)
    }
}

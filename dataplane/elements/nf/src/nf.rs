//! Nf: a network function that is a process of its own.

use std::any::Any;

use thruway_element::{
    Arg, ArgErrors, Args, Buffer, Changes, Cx, Demand, Element, Ended, Entry, Handler,
    HandlerError, Handlers, HotSwap, Needs, Operation, Purpose, Replicas, Run, Scratch,
    SessionFunction, Spec, StreamMember, Threading, Topic, Ty,
};
use thruway_exchange::Tuning;
use thruway_packet::Batch;
use zerocopy::FromBytes;

use super::hang::HANG_TIMER;
use super::link::Link;
use super::lost::Lost;
use super::reminders::STREAM_TIMER;
use super::replica::{LOOK_NS, Nf};
use super::report;
use super::sessions::{Entries, SessionEntry};
use super::state::NfState;

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
        threading: Threading::TaskPerThread,
        changes: Changes::Headers,
        cost: &[Operation::RingHop.once(), Operation::RingCopy.once()],
        replicas: Replicas::Sharing("the process; each thread has rings of its own to it"),
        purpose: Purpose::RunProcess,
        ..Spec::DEFAULT
    },
    build,
)
.with_stream_member::<Nf>()
.with_session_function::<Nf>()
.with_session_mover::<Nf>()
.with_session_transfer::<Nf>()
.with_buffer::<Nf>()
.with_cost_model::<Nf>()
.with_hot_swap::<Nf>()
.with_publisher::<Nf>()
.with_handlers::<Nf>();

const DOCS: &str = "\
Starts PROGRAM with its arguments as a process without rights that sees nothing of the host but \
shared memory with this element, and hands it the packets that are pushed in, in their order; what \
it does not drop comes back out of the output that it chose, with its changes. The function is \
written with the library of nf/sdk (docs/nf-authors.md). A packet keeps its annotations and \
timestamp; packets that the function makes of another one have that one's, others the present \
time. Empty packets, and those longer than SLOT_SIZE, are dropped.\n\
Each thread that reaches the element has rings of its own; the function serves them all. With WORKERS \
more than one it serves them by so many threads (Workers) of its one process, if it is written so \
(run_workers): each Worker serves some threads alone, neighbours by number, so a session always meets the same Worker. \
CPUS then gives each Worker a CPU, in turn. Counters of one name are added up; `handler` asks all \
Workers, and gives one answer if all are the same, else each line with its Worker. A Worker that ends or \
hangs ends them all. WAIT says \
what it does when nothing waits: sleep (block), look all the time (poll), or look for SPIN and \
then sleep (hybrid). A function that sleeps is woken when the thread has nothing else to do, when \
half of its ring waits, or when a packet has waited for LATENCY. With \
MASTER_THRESHOLD or AGE it is woken when more than MASTER_THRESHOLD packets wait (0), or the oldest \
of them for longer than AGE (100us), and at no other time. It hands back after WORKER_THRESHOLD \
packets or when none waits.\n\
While three quarters of the ring are in use, captures (FromDump, FromDevice) and functions upstream wait. A \
packet that finds the ring full waits with at most 255 others, or is dropped.\n\
A function that ends, has a packet for longer than HANG, or breaks the protocol is ended and started \
again: at once, 32 times in a row and then ten times a second; starts that fail are tried again after \
growing pauses. With STANDBY the next process has been started in its sandbox and waits, so that \
it works within milliseconds; it costs the memory of an idle program. Meanwhile ON_FAILURE decides: with open, \
packets pass unchanged through output 0, those that it had first; with closed they are dropped; \
with restart those that it had are dropped, and new ones (as many as SLOTS) wait for at most HOLD. \
Its neighbours go on in any case.\n\
With SESSION (as FlowClassifier's functions take it: connection, pair, a list of fields), each \
packet goes with the number of its session, its direction, and the session's scratch: memory that \
the host keeps, of as many bytes as the function asks for. It begins as zeros; the function is \
told in order with the packets when a session begins and when it has ended. A function that is \
started again finds its sessions as they were; so does one whose other arguments were changed by \
a hot swap, if its program, SESSION and SESSIONS are the same. A FlowClassifier must be upstream. \
With Replicate, another host goes on with sessions and scratch (SESSION connection, without STREAM, VM and several WORKERS). \
Of sessions beyond SESSIONS (of one thread) packets are dropped; packets without a session go \
without. Behind the function a packet has the session that it had in front, and what is made in \
consequence of it has, too; behind one that makes other packets of them (a tunnel's end), put a \
FlowClassifier.\n\
With STREAM, it is a function of streams (nf/sdk's run_stream): it stands in a context (TCPIn, \
UDPIn, HTTPIn... in front, the matching Out behind) and is shown what connections carry. STREAM says \
what it may do: order sees the payload in order; guard decides what the receiver gets; change \
changes bytes, resize inserts, removes and holds back until more comes, which it finds together with that; with STREAM_HOLD, what it \
holds back goes on, and is not found together with more, when none comes for that time. \
SLOT_SIZE is 4096 if not given: a packet, what was held back in front of it, and what becomes longer \
must fit. What comes back is believed only as content of a length that may be; else, and when a \
packet of the connection is lost here (too long, ON_FAILURE closed), the connection is closed. While \
half of the ring is in use the context lets nothing in (drop reason full of TCPIn, UDPIn, IPIn): \
what it has let in waits here. A packet leaves by the output of the number of its input. SESSION is connection.\n\
With MODE group, the function shares a region of frames with the other members of GROUP, a \
TrustGroup: packets go from member to member without being copied, and members see each other's \
packets; SLOT_SIZE and HEADROOM must be the same in all members.\n\
With VM, the function is a virtual machine under QEMU: the same program runs in it, unchanged, under a kernel \
of its own, and finds the rings in the memory of PCI devices (ivshmem). VM names a directory with \
the files kernel and initramfs (scripts/guest-image makes one); the program and its \
libraries are added. MEMORY is the machine's. ACCELERATION says what runs it: the processor (kvm), an \
emulator (emulated), or the first that this host has (auto); handler `sandbox` tells which. \
With STANDBY a second machine has booted and stands still. Handler `console` \
reads the end of what the machine wrote.\n\
CLASS is a traffic class as FlowDispatcher takes it.\n\
ROLES names the roles that outputs lead to: with ROLES \"- scrubber\", what the function sends to the role \
scrubber leaves by output 1. The function asks for a role by its name, and does not start without; what \
stands behind the output, the instance, can be another after a hot swap, and the function goes on.\n\
CPU_PERCENT bounds its CPU time, WEIGHT says how much it gets of a CPU that others want, too: by control groups of \
version 2 or 1; a weight by the scheduler's nice values where there are none (handler `sandbox` tells).\n\
Handler `handler` asks the function itself. No thread waits for the answer: a control client has it \
when it comes, after two seconds an error; a Script goes on when it comes.\n\
What of the sandbox this system cannot give is an error that names the remedy; with ISOLATION \
relaxed the function runs without it, and handler `sandbox` tells. When the configuration is \
replaced (hot swap), a function whose arguments are the same goes on with its packets.";

/// How many of the arguments say what the function is; the others say how it is run.
pub(super) const OWN: usize = 13;

/// See [`Settings`](super::settings::Settings).
const STREAM: &[&str] = &["order", "guard", "change", "resize"];

/// See [`Acceleration`](thruway_nf_host::Acceleration).
const ACCELERATION: &[&str] = &["auto", "kvm", "emulated"];

/// A bound to CPU time.
pub(super) const CPU_PERCENT: Arg =
    Arg::keyword("CPU_PERCENT", Ty::UInt, "most of one CPU's time; no limit if not given");

/// A part of CPU time.
pub(super) const WEIGHT: Arg =
    Arg::keyword("WEIGHT", Ty::UInt, "part of a CPU that others want, 1 to 10000; 100 is usual");

pub(super) const ARGS: &[Arg] = &[
    Arg::required("EXEC", Ty::Str, "program and its arguments: \"PROGRAM ARG...\""),
    Arg::keyword("VM", Ty::Str, "directory of the image of a virtual machine that it runs in"),
    Arg::keyword("ACCELERATION", Ty::Choice(ACCELERATION), "VM: what runs the machine").or("auto"),
    Arg::keyword("CONFIG", Ty::Str, "text that the function is configured with").or("\"\""),
    Arg::keyword("OUTPUTS", Ty::UInt, "outputs it may use; as many as are connected if not given"),
    Arg::keyword("ROLES", Ty::Str, "roles that its outputs lead to, in order; - for one without"),
    Arg::keyword("CARRY", Ty::Bool, "whether 128 bytes that tell annotations go with each packet")
        .or("false"),
    Arg::keyword("SESSION", Ty::Rule("session definition"), "sessions whose scratch it keeps"),
    Arg::keyword("SESSIONS", Ty::UInt, "SESSION: most of them in one thread").or("1048576"),
    Arg::keyword("SCRATCH", Ty::UInt, "SESSION: most bytes that it may keep of one").or("256"),
    Arg::keyword("STREAM", Ty::Choice(STREAM), "what a function of streams does to them"),
    Arg::keyword("STREAM_HOLD", Ty::Time, "STREAM: longest that it holds bytes back; 0: ever")
        .or("0"),
    Arg::keyword("WORKERS", Ty::UInt, "threads of the function, each for some of this process's")
        .or("1"),
    Arg::keyword("MODE", Ty::Choice(&["isolated", "group"]), "who shares its memory")
        .or("isolated"),
    Arg::keyword("GROUP", Ty::Str, "name of its TrustGroup, with MODE group"),
    Arg::keyword("WAIT", Ty::Choice(&["block", "poll", "hybrid"]), "how it waits for packets")
        .or("block"),
    Arg::keyword("SPIN", Ty::Time, "WAIT hybrid: how long it looks before it sleeps").or("50us"),
    Arg::keyword("SLOTS", Ty::UInt, "packets it can have: a power of two").or("1024"),
    Arg::keyword(
        "SLOT_SIZE",
        Ty::UInt,
        "bytes of the longest packet, up to 16384; 1514 if not given",
    ),
    Arg::keyword("HEADROOM", Ty::UInt, "bytes before a packet for what it pushes").or("64"),
    Arg::keyword("AUX_SLOTS", Ty::UInt, "packets it can add to others: a power of two").or("256"),
    Arg::keyword("INJECTION_SLOTS", Ty::UInt, "packets of its own making: a power of two")
        .or("256"),
    Arg::keyword("LATENCY", Ty::Time, "longest wait of a packet for it to be woken").or("100us"),
    Arg::keyword(
        "MASTER_THRESHOLD",
        Ty::UInt,
        "wake it when more packets wait, whatever LATENCY is",
    ),
    Arg::keyword("WORKER_THRESHOLD", Ty::UInt, "it hands back so many at a time").or("32"),
    Arg::keyword(
        "AGE",
        Ty::Time,
        "wake it when a packet waits longer; 100us if only MASTER_THRESHOLD is given",
    ),
    Arg::keyword("CPUS", Ty::Str, "CPUs it runs on, \"1 2\"; all if not given"),
    CPU_PERCENT,
    WEIGHT,
    Arg::keyword("MEMORY", Ty::Size, "memory it may use").or("256M"),
    Arg::keyword("ON_FAILURE", Ty::Choice(&["open", "closed", "restart"]), "packets meanwhile")
        .or("closed"),
    Arg::keyword("HOLD", Ty::Time, "ON_FAILURE restart: longest wait of a packet").or("500ms"),
    Arg::keyword("HANG", Ty::Time, "it is restarted when it has a packet for longer").or("1s"),
    Arg::keyword("ATTACH_TIMEOUT", Ty::Time, "time it has to begin; 5s (60s with VM) if not given"),
    Arg::keyword("STANDBY", Ty::Bool, "whether a second process waits to take its place")
        .or("true"),
    Arg::keyword("ISOLATION", Ty::Choice(&["strict", "relaxed"]), "whether all must be in force")
        .or("strict"),
    Arg::keyword("LIBRARIES", Ty::Str, "directories of libraries, before the system's"),
    Arg::keyword("READABLE", Ty::Str, "files and directories that it may read"),
    Arg::keyword("CLASS", Ty::Rule("CLASS"), "what a context link to it gives it, in quotes"),
];

const HANDLERS: &[Handler] = &[
    Handler::sum("packets_in", "packets handed to the function"),
    Handler::sum("packets_out", "packets that left, whoever made them"),
    Handler::sum("slot_to_slot", "those of packets_out that went into a next function's slots"),
    Handler::sum("dropped", "packets that the function dropped"),
    Handler::sum("auxiliary", "packets that it made in consequence of others"),
    Handler::sum("injected", "packets that it made on its own"),
    Handler::sum("streams_closed", "STREAM: sessions that were closed here"),
    Handler::sum("streams_held", "STREAM: times that bytes were held back"),
    Handler::sum("streams_late", "STREAM: times that they were let go because nothing came"),
    Handler::sum("streams_lies", "STREAM: answers that cannot be"),
    Handler::sum("slots", "slots in all threads' rings, see SLOTS"),
    Handler::sum("occupancy", "slots in use"),
    Handler::sum("occupancy_max", "most slots that were in use at once, over all threads' rings"),
    Handler::sum("wake_ups", "times it was woken"),
    Handler::read("sleeps", "times it went to sleep, as it says").shared(),
    Handler::read("aux_full", "auxiliary packets that found no slot, as it says").shared(),
    Handler::read("injection_full", "packets of its own that found no slot, as it says").shared(),
    Handler::sum("latency", "batches by the time from hand-over to return: a line `<LIMIT COUNT`"),
    Handler::sum("timed_batches", "batches that `latency` counts: one at a time is timed"),
    Handler::sum("late_batches", "those of them that took 2^20 ns (1.05 ms) or longer"),
    Handler::read("restarts", "times it was started again").shared(),
    Handler::read("peer_faults", "times it broke the protocol").shared(),
    Handler::read("hangs", "times it had a packet for longer than HANG").shared(),
    Handler::read("cpu_time", "processor time of all its processes, seconds").shared(),
    Handler::read("state", "where it stands: running, restarting, stopped").shared(),
    Handler::read("pid", "its process, 0 if there is none").shared(),
    Handler::read("interface", "version of the function interface and features in force with it")
        .shared(),
    Handler::read("generation", "changes with each start; 0 while it does not run").shared(),
    Handler::read("sandbox", "measures of isolation and whether they are in force").shared(),
    Handler::read("last_error", "why it was last ended or could not be started").shared(),
    Handler::read("console", "the end of what it, or its machine's console, wrote").shared(),
    Handler::read("counters", "its own counters, a line `NAME VALUE` each").shared(),
    Handler::both("handler", "read NAME or write NAME VALUE: a handler of the function").shared(),
    Handler::both("master_threshold", "see MASTER_THRESHOLD"),
    Handler::both("age", "see AGE; nanoseconds when read"),
    Handler::both("worker_threshold", "see WORKER_THRESHOLD"),
];

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    Ok(Box::new(Nf::of(args)?))
}

impl Element for Nf {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.start(cx)?;
        self.follow(cx);
        // The timer of whoever had these streams before went with it.
        self.disarm();
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        self.follow(cx);
        let input = port as u8;
        self.mark(cx, input, batch);
        if matches!(&self.running, Some(NfState { link: Some(_), .. })) {
            self.be_awake();
            self.offer_all(cx, input, batch);
            if let Some(state) = &mut self.running {
                state.publish(cx);
            }
            self.press(cx);
        } else {
            for (nth, packet) in batch.drain().enumerate() {
                let mark = self.mark_of(nth, input);
                self.without(cx, mark, packet);
            }
            self.flush(cx);
        }
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        if self.other.is_some() {
            self.end_other(cx);
        }
        if !self.has_looked {
            self.look_around(cx);
        }
        self.follow(cx);
        self.arm(cx);
        if !matches!(&self.running, Some(NfState { link: Some(_), .. })) {
            return self.run_without(cx);
        }
        let mut worked = self.collect(cx);
        self.expect_back(cx);
        // After what is back was taken: a function is not woken for packets that it is done with.
        self.wake_if_due(cx);
        if let Some(state) = &mut self.running
            && state.put_backlog(cx)
        {
            state.publish(cx);
            worked = true;
        }
        self.press(cx);
        if worked {
            self.be_awake();
            return Run::Again;
        }
        if self.running.as_ref().is_some_and(|state| state.ended.is_some()) {
            self.take_back_ended(cx);
            return Run::At(cx.now() + LOOK_NS);
        }
        self.rest(cx)
    }

    fn timer(&mut self, cx: &mut Cx<'_>, token: u32) {
        match token {
            STREAM_TIMER => return self.remind(cx),
            HANG_TIMER => return self.look_for_hang(cx),
            _ => {}
        }
        self.wake_if_due(cx);
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let Some(state) = &mut self.running else { return Ok(()) };
        // What came back since the last round leads nowhere any more. The function itself ends with
        // the configuration: until then its handlers can be read.
        let lost = state.end(None);
        cx.count_drops(Lost::Unfinished, lost);
        Ok(())
    }
}

impl Handlers for Nf {
    fn read_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        param: &str,
    ) -> Result<String, HandlerError> {
        let Some(state) = &self.running else {
            return Err(HandlerError::refused("the function was not started yet"));
        };
        match name {
            "slot_to_slot" => Ok(state.outlet.hopped_count.to_string()),
            _ if name.starts_with("streams_") => self.stream_figure(name),
            "packets_out" => Ok(state.outlet.out.to_string()),
            "slots" => Ok(self.settings.shape.slots.to_string()),
            "occupancy" => Ok(state.link.as_ref().map_or(0, Link::occupancy).to_string()),
            "latency" => Ok(state.latency.text()),
            "timed_batches" => Ok(state.latency.timed_count().to_string()),
            "late_batches" => Ok(state.latency.late_count().to_string()),
            "master_threshold" => Ok(self.tuning.master_threshold.to_string()),
            "age" => Ok(self.tuning.age_threshold.to_string()),
            "worker_threshold" => {
                Ok(self.worker_threshold.unwrap_or(self.settings.worker_threshold).to_string())
            }
            "generation" => Ok(state.function.generation().to_string()),
            "handler" => state.function.ask(false, param).or_later(),
            _ => report::figure(&state.figures(), name)
                .or_else(|| report::property(name).map(|what| state.function.describe(what)))
                .ok_or_else(|| HandlerError::no_read(name)),
        }
    }

    fn write_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        let slots = self.settings.shape.slots;
        match name {
            "master_threshold" => {
                let master_threshold = report::threshold(name, value, slots)?;
                self.set_tuning(Tuning { master_threshold, ..self.tuning });
            }
            "age" => {
                let age_threshold = report::age(name, value)?;
                self.set_tuning(Tuning { age_threshold, ..self.tuning });
            }
            "worker_threshold" => {
                let threshold = report::threshold(name, value, slots)?.max(1);
                self.worker_threshold = Some(threshold);
                if let Some(state) = &self.running {
                    state.function.set_worker_threshold(threshold);
                }
            }
            "handler" => self.call(value)?,
            _ => return Err(HandlerError::no_write(name)),
        }
        Ok(())
    }
}

impl HotSwap for Nf {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        self.give_state().map(|state| state as Box<dyn Any + Send>)
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        let Ok(state) = state.downcast::<NfState>() else { return };
        if state.settings == self.settings && self.has_same_region(&state) {
            self.running = Some(*state);
        } else {
            self.other = Some(state);
        }
    }
}

impl Buffer for Nf {
    fn holding(&self) -> usize {
        let Some(state) = &self.running else { return 0 };
        let with_it = state.link.as_ref().map_or(0, |link| link.occupancy() as usize);
        let held = state.entries.as_ref().map_or(0, Entries::held);
        with_it + state.waiting() + held
    }

    fn accepts(&self) -> bool {
        let link = self.running.as_ref().and_then(|state| state.link.as_ref());
        link.is_some_and(|link| link.occupancy() < self.settings.shape.slots)
    }
}

impl SessionFunction for Nf {
    fn class(&self, _port: usize) -> Option<String> {
        self.class.clone()
    }

    fn demand(&self) -> Option<Demand> {
        let Scratch { size, align } = Scratch::of::<SessionEntry>();
        let session = self.settings.sessions.as_ref()?.session.clone();
        Some(Demand::of(session, size, align))
    }

    fn closed(&mut self, cx: &mut Cx<'_>, state: &[u8], _why: Ended) {
        if let Ok(place) = SessionEntry::read_from_bytes(state) {
            self.end_session(cx, &place);
        }
    }
}

impl StreamMember for Nf {
    fn needs(&self) -> Option<Needs> {
        Some(self.settings.stream.as_ref()?.needs)
    }
}

//! Counter: how many packets and bytes went by, and how fast.

use std::any::Any;

use thruway_element::{
    Alias, Arguments, Changes, Cx, Element, Entry, Env, FromArg, HandlerError, Handlers, HotSwap,
    Operation, Replicas, Resize, ShortCut, Spec, Topic, Ty, handler_value,
};
use thruway_packet::Batch;

use thruway_elements_support::dialect::ignored;

use super::sums::{SYNC, Sums};
use thruway_elements_support::call::{Call, first_word};
use thruway_elements_support::ewma::Rate;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<Counter>(Spec {
    name: "Counter",
    aliases: &[
        Alias { name: "CounterMP", summary: "the same: each thread counts for itself" },
        Alias { name: "CounterAtomic", summary: "the same with SYNC atomic" },
        Alias { name: "CounterLock", summary: "the same with SYNC lock" },
        Alias { name: "CounterLockMP", summary: "the same with SYNC lock" },
        Alias { name: "CounterPLockMP", summary: "the same with SYNC per-thread-lock" },
        Alias { name: "CounterPRW", summary: "the same with SYNC per-thread-rw" },
        Alias { name: "CounterPRWMP", summary: "the same with SYNC per-thread-rw" },
        Alias { name: "CounterRCU", summary: "the same with SYNC rcu" },
        Alias { name: "CounterRW", summary: "the same with SYNC rw" },
        Alias { name: "CounterRWMP", summary: "the same with SYNC rw" },
        Alias { name: "CounterRxWMP", summary: "the same with SYNC rxw" },
        Alias { name: "CounterRxWMPPR", summary: "the same with SYNC rxw-read" },
        Alias { name: "CounterRxWMPPW", summary: "the same with SYNC rxw-write" },
    ],
    topic: Topic::Counters,
    summary: "measures packet count and rate",
    docs: "Passes packets on unchanged and counts them and their bytes. Rates are exponentially \
           weighted moving averages: each millisecond counts a sixteenth. When COUNT_CALL or \
           BYTE_COUNT_CALL is given, that write handler is called once, when the count reaches N, \
           before the packet goes on. Where packets come in vectors, the call is made before the \
           vector goes on that the packet is in. When another configuration takes over (hot swap), \
           a Counter of the same name goes on from these counts. Where several threads reach the \
           Counter, each counts for itself and handlers add up. With another SYNC they count \
           together, in the structure of this name (thruway-bench sync measures them), and each \
           packet vector may have to wait for another thread. COUNT_CALL and BYTE_COUNT_CALL are \
           about what all threads counted: with one of them and no SYNC, it is atomic; with SYNC \
           per-thread each thread makes the call at its own count. Every SYNC except atomic \
           returns packets and bytes from one consistent snapshot; with per-thread-lock, one per \
           thread.",
    example: "InfiniteSource(LIMIT 3, STOP true) -> c :: Counter -> Discard",
    straight: true,
    changes: Changes::Nothing,
    cost: &[Operation::Count.once()],
    replicas: Replicas::Apart(
        "each counts, and handlers add up; with another SYNC than per-thread they count \
         together",
    ),
    short_cut: ShortCut::Passes,
    large_packets: true,
    ..Spec::DEFAULT
})
.with_hot_swap::<Counter>()
.with_resize::<Counter>();

/// Bits of fraction of the packet rate and, since there are more of them, of the byte rate.
const PACKET_SCALE: u32 = 10;
const BYTE_SCALE: u32 = 4;

/// A call to be made once at a count.
struct Trigger {
    at: u64,
    call: Option<Call>,
    done: bool,
}

impl Trigger {
    fn parse(text: &str) -> Result<Trigger, HandlerError> {
        let (count, call) = first_word(text);
        Ok(Trigger { at: handler_value("count", count)?, call: Call::parse(call), done: false })
    }

    /// Makes the call, once.
    #[cold]
    fn fire(&mut self, cx: &mut Cx<'_>, is_first: bool) {
        self.done = true;
        if let (true, Some(call)) = (is_first, &self.call) {
            call.write(cx);
        }
    }
}

impl FromArg for Trigger {
    const TY: Ty = Ty::Any;

    fn from_arg(text: &str, _env: &Env<'_>) -> Result<Trigger, String> {
        Trigger::parse(text).map_err(|error| error.to_string())
    }
}

#[derive(Arguments, Handlers)]
#[handler(sum, name = "count", "packets", get = self.sums.part()[0])]
#[handler(sum, name = "byte_count", "bytes", get = self.sums.part()[1])]
#[handler(sum, name = "rate", "packets a second, lately", get = self.rate.unparse(cx.now(), 1))]
#[handler(
    sum, name = "byte_rate", "bytes a second, lately", get = self.byte_rate.unparse(cx.now(), 1)
)]
#[handler(
    sum, name = "bit_rate", "bits a second, lately", get = self.byte_rate.unparse(cx.now(), 8)
)]
#[handler(
    both, name = "count_call", "the count at which COUNT_CALL is made; N [HANDLER [VALUE]]",
    read = self.read_count_call(), write = self.set_call(cx, 0, value)
)]
#[handler(
    write, name = "byte_count_call", "sets BYTE_COUNT_CALL: N [HANDLER [VALUE]]",
    write = self.set_call(cx, 1, value)
)]
#[handler(write, name = "reset", "sets counts and rates to zero", run = self.reset())]
#[handler(write, name = "reset_counts", "sets counts and rates to zero", run = self.reset())]
struct Counter {
    /// At packets, and at bytes.
    #[arg(
        keyword, name = "COUNT_CALL", value = Option<Trigger>,
        "N HANDLER [VALUE]: called when count reaches N"
    )]
    #[arg(
        keyword, name = "BYTE_COUNT_CALL", value = Option<Trigger>,
        "N HANDLER [VALUE]: the same for bytes"
    )]
    #[new([count_call, byte_count_call])]
    calls: [Option<Trigger>; 2],
    #[arg(keyword, name = "NO_RATE", value = bool, or = "false", "whether rates are left out")]
    #[new(!no_rate)]
    has_rate: bool,
    #[arg(keyword, name = "ATOMIC", unread, ty = Ty::UInt, or = "0", "accepted and ignored")]
    #[arg(like = ignored("BATCH_PRECISE"), unread)]
    #[arg(
        keyword, name = "SYNC", unread, ty = Ty::Choice(SYNC), or = "per-thread",
        "how threads count together"
    )]
    #[new(Sums::build(args, calls.iter().flatten().next().is_some())?)]
    sums: Sums,
    /// One thread brings packets.
    #[new(args.env().threads < 2)]
    alone: bool,
    #[new(Rate::new(PACKET_SCALE))]
    rate: Rate,
    #[new(Rate::new(BYTE_SCALE))]
    byte_rate: Rate,
}

impl Counter {
    fn reset(&mut self) {
        self.sums.reset();
        (self.rate, self.byte_rate) = (Rate::new(PACKET_SCALE), Rate::new(BYTE_SCALE));
        for trigger in self.calls.iter_mut().flatten() {
            trigger.done = false;
        }
    }

    /// Makes the calls that are due. A call may be to this element: its changes follow the count.
    fn call(&mut self, cx: &mut Cx<'_>) {
        let totals = self.sums.totals();
        for (which, (trigger, total)) in self.calls.iter_mut().zip(totals).enumerate() {
            if let Some(trigger) = trigger
                && total >= trigger.at
                && !trigger.done
            {
                trigger.fire(cx, self.sums.is_first(which));
            }
        }
    }

    fn set_call(&mut self, cx: &mut Cx<'_>, which: usize, value: &str) -> Result<(), HandlerError> {
        if !self.alone && matches!(self.sums, Sums::Own(_)) {
            let why =
                "several threads send packets here, and each counts for itself: set SYNC atomic";
            return Err(HandlerError::refused(why.to_owned()));
        }
        let trigger = Trigger::parse(value)?;
        let call = trigger.call.map(|call| call.by_caller(cx));
        self.calls[which] = Some(Trigger { call, ..trigger });
        self.sums.rearm(which);
        Ok(())
    }
}

/// The state that a Counter passes to its successor.
struct Counts {
    sums: [u64; 2],
    rate: Rate,
    byte_rate: Rate,
}

impl Counter {
    fn read_count_call(&mut self) -> Result<String, HandlerError> {
        Ok(self.calls[0].as_ref().map_or(String::new(), |trigger| trigger.at.to_string()))
    }
}

impl Element for Counter {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let ([packets, bytes], now) = (cx.weigh(batch), cx.now());
        self.sums.add([packets, bytes]);
        if self.has_rate {
            self.rate.update(now, packets);
            self.byte_rate.update(now, bytes);
        }
        if self.calls.iter().flatten().any(|trigger| !trigger.done) {
            self.call(cx);
        }
    }
}

impl HotSwap for Counter {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        let (rate, byte_rate) = (Rate::new(PACKET_SCALE), Rate::new(BYTE_SCALE));
        let sums = self.sums.part();
        // Handed over: were it to come back, it would be counted twice.
        self.sums.reset();
        Some(Box::new(Counts {
            sums,
            rate: std::mem::replace(&mut self.rate, rate),
            byte_rate: std::mem::replace(&mut self.byte_rate, byte_rate),
        }))
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        if let Ok(before) = state.downcast::<Counts>() {
            self.sums.add(before.sums);
            (self.rate, self.byte_rate) = (before.rate, before.byte_rate);
        }
    }
}

impl Resize for Counter {
    /// Its rates begin again; they are those of the last second.
    fn join(&mut self, state: Box<dyn Any + Send>) {
        if let Ok(before) = state.downcast::<Counts>() {
            self.sums.add(before.sums);
        }
    }
}

//! Counter: how many packets and bytes went by, and how fast.

use std::any::Any;

use thruway_element::{
    Alias, Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Handler, HandlerError, Operation,
    Spec, Topic, Ty, handler_value,
};
use thruway_packet::Batch;

use super::call::{Call, first_word};
use super::ewma::Rate;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "Counter",
        aliases: &[
            Alias { name: "CounterMP", summary: SHARING },
            Alias { name: "CounterAtomic", summary: SHARING },
            Alias { name: "CounterLock", summary: SHARING },
            Alias { name: "CounterLockMP", summary: SHARING },
            Alias { name: "CounterPLockMP", summary: SHARING },
            Alias { name: "CounterPRW", summary: SHARING },
            Alias { name: "CounterPRWMP", summary: SHARING },
            Alias { name: "CounterRCU", summary: SHARING },
            Alias { name: "CounterRW", summary: SHARING },
            Alias { name: "CounterRWMP", summary: SHARING },
            Alias { name: "CounterRxWMP", summary: SHARING },
            Alias { name: "CounterRxWMPPR", summary: SHARING },
            Alias { name: "CounterRxWMPPW", summary: SHARING },
        ],
        topic: Topic::Seeing,
        summary: "measures packet count and rate",
        docs: "Passes packets on unchanged and counts them and their bytes. Rates are exponentially \
               weighted moving averages: each millisecond counts a sixteenth. When COUNT_CALL or \
               BYTE_COUNT_CALL is given, that write handler is called once, when the count reaches \
               N, before the packet goes on. Where packets come in vectors, the call is made before \
               the vector goes on that the packet is in. When another configuration takes over (hot \
               swap), a Counter of the same name goes on from these counts. Each thread counts for \
               itself, and what handlers read is the sum.",
        example: "InfiniteSource(LIMIT 3, STOP true) -> c :: Counter -> Discard",
        args: &[
            Arg::keyword("COUNT_CALL", Ty::Any, "N HANDLER [VALUE]: called when count reaches N"),
            Arg::keyword("BYTE_COUNT_CALL", Ty::Any, "N HANDLER [VALUE]: the same for bytes"),
            Arg::keyword("NO_RATE", Ty::Bool, "whether rates are left out").or("false"),
            Arg::keyword("ATOMIC", Ty::UInt, "accepted and ignored").or("0"),
        ],
        handlers: &[
            Handler::sum("count", "packets"),
            Handler::sum("byte_count", "bytes"),
            Handler::sum("rate", "packets a second, lately"),
            Handler::sum("byte_rate", "bytes a second, lately"),
            Handler::sum("bit_rate", "bits a second, lately"),
            Handler::both(
                "count_call",
                "the count at which COUNT_CALL is made; N [HANDLER [VALUE]]",
            ),
            Handler::write("byte_count_call", "sets BYTE_COUNT_CALL: N [HANDLER [VALUE]]"),
            Handler::write("reset", "sets counts and rates to zero"),
            Handler::write("reset_counts", "sets counts and rates to zero"),
        ],
        changes: Changes::Nothing,
        cost: &[Operation::Count.once()],
        ..Spec::DEFAULT
    },
    build,
);

/// Of FastClick's counters, which differ in how threads share the count.
const SHARING: &str = "the same: threads share no count, so that there is nothing to choose";

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

    #[inline]
    fn check(&mut self, cx: &mut Cx<'_>, count: u64) {
        if count >= self.at && !self.done {
            self.done = true;
            if let Some(call) = &self.call {
                call.write(cx);
            }
        }
    }
}

struct Counter {
    count: u64,
    bytes: u64,
    has_rate: bool,
    rate: Rate,
    byte_rate: Rate,
    count_call: Option<Trigger>,
    byte_call: Option<Trigger>,
}

fn trigger(args: &Args<'_>, name: &str) -> Result<Option<Trigger>, ArgErrors> {
    let Some(text) = args.text(name) else { return Ok(None) };
    let trigger = Trigger::parse(text).map_err(|error| args.error(name, error))?;
    Ok(Some(trigger))
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    Ok(Box::new(Counter {
        count: 0,
        bytes: 0,
        has_rate: !args.get::<bool>("NO_RATE")?,
        rate: Rate::new(PACKET_SCALE),
        byte_rate: Rate::new(BYTE_SCALE),
        count_call: trigger(args, "COUNT_CALL")?,
        byte_call: trigger(args, "BYTE_COUNT_CALL")?,
    }))
}

impl Counter {
    fn reset(&mut self) {
        (self.count, self.bytes) = (0, 0);
        (self.rate, self.byte_rate) = (Rate::new(PACKET_SCALE), Rate::new(BYTE_SCALE));
        for trigger in [&mut self.count_call, &mut self.byte_call].into_iter().flatten() {
            trigger.done = false;
        }
    }
}

/// What a Counter hands over to its successor.
struct Counts {
    packets: u64,
    bytes: u64,
    rate: Rate,
    byte_rate: Rate,
}

impl Element for Counter {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let (packets, bytes, now) = (batch.len() as u64, batch.bytes(), cx.now());
        self.count += packets;
        self.bytes += bytes;
        if self.has_rate {
            self.rate.update(now, packets);
            self.byte_rate.update(now, bytes);
        }
        if let Some(trigger) = &mut self.count_call {
            trigger.check(cx, self.count);
        }
        if let Some(trigger) = &mut self.byte_call {
            trigger.check(cx, self.bytes);
        }
    }

    fn read(&mut self, cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, HandlerError> {
        match name {
            "count" => Ok(self.count.to_string()),
            "byte_count" => Ok(self.bytes.to_string()),
            "rate" => Ok(self.rate.unparse(cx.now(), 1)),
            "byte_rate" => Ok(self.byte_rate.unparse(cx.now(), 1)),
            "bit_rate" => Ok(self.byte_rate.unparse(cx.now(), 8)),
            "count_call" => {
                Ok(self.count_call.as_ref().map_or(String::new(), |trigger| trigger.at.to_string()))
            }
            _ => Err(HandlerError::no_read(name)),
        }
    }

    fn write(&mut self, _cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "count_call" => self.count_call = Some(Trigger::parse(value)?),
            "byte_count_call" => self.byte_call = Some(Trigger::parse(value)?),
            "reset" | "reset_counts" => self.reset(),
            _ => return Err(HandlerError::no_write(name)),
        }
        Ok(())
    }

    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        let (rate, byte_rate) = (Rate::new(PACKET_SCALE), Rate::new(BYTE_SCALE));
        Some(Box::new(Counts {
            packets: self.count,
            bytes: self.bytes,
            rate: std::mem::replace(&mut self.rate, rate),
            byte_rate: std::mem::replace(&mut self.byte_rate, byte_rate),
        }))
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        if let Ok(before) = state.downcast::<Counts>() {
            (self.count, self.bytes) = (before.packets, before.bytes);
            (self.rate, self.byte_rate) = (before.rate, before.byte_rate);
        }
    }
}

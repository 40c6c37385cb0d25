//! EtherSwitch, ListenEtherSwitch: a learning Ethernet switch.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard};

use thruway_element::{
    Alias, Arg, ArgErrors, Args, Changes, Cost, Cx, Element, Entry, Handler, HandlerError, Nanos,
    Spec, Topic, Ty, handler_value, reasons,
};
use thruway_packet::{Batch, Packet};
use thruway_wire::MacAddr;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "EtherSwitch",
        aliases: &[Alias {
            name: "ListenEtherSwitch",
            summary: "has one output more, the last, that gets a copy of every frame",
        }],
        topic: Topic::Bytes,
        summary: "is a learning Ethernet switch",
        docs: "Input and output of one number are a network. A frame that comes in shows that its \
               source is there; a frame to an address seen less than TIMEOUT ago goes to that \
               network only (and nowhere, if it came from there), any other to all networks but its \
               own. With a TIMEOUT of 0 nothing is learnt. Frames too short for two addresses are \
               dropped.\n\n\
               At most CAPACITY addresses are kept; while there are so many that are not old, new \
               ones are not learnt and their frames go everywhere. Group addresses are not learnt as \
               sources. One table serves all threads, under a lock that is taken once a batch.",
        example: "s :: EtherSwitch;\n\
                  InfiniteSource(\\<000000000002 000000000001 0800>, LIMIT 1, STOP true) -> s;\n\
                  Idle -> [1] s; s[0] -> Discard; s[1] -> Print(flooded) -> Discard",
        ports: "-/-",
        processing: "h/h",
        args: &[
            Arg::keyword("TIMEOUT", Ty::Time, "how long an address counts").or("300"),
            Arg::keyword("CAPACITY", Ty::UInt, "most addresses").or("65536"),
        ],
        drops: Bad::DROPS,
        handlers: &[
            Handler::read("table", "a line per address: address, port").shared(),
            Handler::both("timeout", "how long an address counts, in seconds").shared(),
        ],
        cost: &[Cost { operation: "hash-lookup", count: 2.0 }],
        changes: Changes::Nothing,
        ..Spec::DEFAULT
    },
    build,
);

reasons! {
    /// Why a frame goes nowhere.
    enum Bad {
        TooShort = "too-short": "it has less than the 12 bytes of two Ethernet addresses",
        SameNetwork = "same-network": "its destination is in the network it came from",
    }
}

/// Largest CAPACITY.
const MAX_CAPACITY: usize = 1 << 20;

/// Where an address was last seen, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    port: usize,
    at: i64,
}

/// Who is where.
#[derive(Debug)]
struct Places {
    table: HashMap<MacAddr, Seen>,
    capacity: usize,
    /// Nanoseconds; 0 to learn nothing.
    timeout: i64,
    /// When old entries were last looked for.
    swept: i64,
}

/// Nanoseconds between two looks through a full table.
const SWEEP_EVERY: i64 = 1_000_000_000;

impl Places {
    fn new(capacity: usize, timeout: i64) -> Places {
        // All memory now: learning allocates nothing.
        Places { table: HashMap::with_capacity(capacity), capacity, timeout, swept: i64::MIN }
    }

    fn is_fresh(&self, seen: Seen, now: i64) -> bool {
        now < seen.at.saturating_add(self.timeout)
    }

    #[inline]
    fn learn(&mut self, src: MacAddr, port: usize, now: i64) {
        if src.is_multicast() {
            return;
        }
        let seen = Seen { port, at: now };
        if let Some(entry) = self.table.get_mut(&src) {
            *entry = seen;
        } else if self.table.len() < self.capacity || self.sweep(now) {
            self.table.insert(src, seen);
        }
    }

    /// Forgets old entries, now and then; whether there is room.
    #[cold]
    fn sweep(&mut self, now: i64) -> bool {
        if now >= self.swept.saturating_add(SWEEP_EVERY) {
            self.swept = now;
            let timeout = self.timeout;
            self.table.retain(|_, seen| now < seen.at.saturating_add(timeout));
        }
        self.table.len() < self.capacity
    }

    /// Learns from a frame that came in at `port`; the port where it goes, `None` for all.
    #[inline]
    fn place(&mut self, frame: &[u8; 12], port: usize, now: i64) -> Option<usize> {
        if self.timeout == 0 {
            return None;
        }
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5] = *frame;
        self.learn(MacAddr([s0, s1, s2, s3, s4, s5]), port, now);
        let dst = MacAddr([d0, d1, d2, d3, d4, d5]);
        let seen = *self.table.get(&dst).filter(|_| !dst.is_multicast())?;
        if self.is_fresh(seen, now) {
            return Some(seen.port);
        }
        self.table.remove(&dst);
        None
    }
}

struct EtherSwitch {
    places: Arc<Mutex<Places>>,
    /// Output that gets a copy of everything.
    listener: Option<usize>,
    /// Of a batch: where each frame goes.
    decisions: Vec<Option<Option<usize>>>,
}

/// Checks the numbers of ports and gives the listener's.
fn ports(args: &Args<'_>) -> Result<Option<usize>, ArgErrors> {
    let (inputs, outputs) = (args.env().inputs, args.env().outputs);
    let listens = args.class() == "ListenEtherSwitch";
    let networks = if listens { outputs.checked_sub(1) } else { Some(outputs) };
    if networks != Some(inputs) {
        let more =
            if listens { "one output more than inputs" } else { "as many outputs as inputs" };
        let message = format!("{} needs {more}; it has {inputs} and {outputs}", args.class());
        return Err(ArgErrors::whole(message));
    }
    Ok(listens.then_some(inputs))
}

fn timeout(Nanos(timeout): Nanos) -> Result<i64, &'static str> {
    if timeout < 0 { Err("must not be negative") } else { Ok(timeout) }
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let listener = ports(args)?;
    let timeout = timeout(args.get("TIMEOUT")?).map_err(|why| args.error("TIMEOUT", why))?;
    let capacity = args.get("CAPACITY")?;
    if !(1..=MAX_CAPACITY).contains(&capacity) {
        return Err(args.error("CAPACITY", format!("must be from 1 to {MAX_CAPACITY}")).into());
    }
    let places = args.shared("places", || Mutex::new(Places::new(capacity, timeout)));
    Ok(Box::new(EtherSwitch { places, listener, decisions: Vec::new() }))
}

impl EtherSwitch {
    fn places(&self) -> MutexGuard<'_, Places> {
        // What a thread that failed left there is still a table.
        self.places.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    fn decide(&mut self, batch: &Batch, port: usize, now: i64) {
        let mut decisions = std::mem::take(&mut self.decisions);
        let mut places = self.places();
        decisions.extend(batch.iter().map(|packet| {
            let frame = packet.data().first_chunk::<12>()?;
            Some(places.place(frame, port, now))
        }));
        drop(places);
        self.decisions = decisions;
    }

    /// A copy for every network but `from`, and for the listener; the last gets the frame itself.
    fn flood(&self, cx: &mut Cx<'_>, from: usize, packet: Packet) {
        let mut last = None;
        for port in (0..cx.outputs()).filter(|port| *port != from) {
            if let Some(earlier) = last.replace(port)
                && let Some(copy) = cx.duplicate(&packet)
            {
                cx.emit(earlier, copy);
            }
        }
        match last {
            Some(port) => cx.emit(port, packet),
            None => cx.drop(Bad::SameNetwork, packet),
        }
    }

    fn forward(&self, cx: &mut Cx<'_>, from: usize, to: usize, packet: Packet) {
        match (self.listener, to == from) {
            (Some(listener), true) => cx.emit(listener, packet),
            (Some(listener), false) => {
                if let Some(copy) = cx.duplicate(&packet) {
                    cx.emit(listener, copy);
                }
                cx.emit(to, packet);
            }
            (None, true) => cx.drop(Bad::SameNetwork, packet),
            (None, false) => cx.emit(to, packet),
        }
    }
}

impl Element for EtherSwitch {
    fn process(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        self.decisions.clear();
        self.decide(batch, port, cx.now());
        for (packet, decision) in batch.drain().zip(self.decisions.iter()) {
            match decision {
                None => cx.drop(Bad::TooShort, packet),
                Some(None) => self.flood(cx, port, packet),
                Some(Some(to)) => self.forward(cx, port, *to, packet),
            }
        }
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, HandlerError> {
        let places = self.places();
        match name {
            "table" => {
                let mut rows: Vec<_> = places.table.iter().collect();
                rows.sort_by_key(|(mac, _)| mac.0);
                let mut text = String::new();
                for (mac, seen) in rows {
                    let _ = writeln!(text, "{} {}", mac.dashed(), seen.port);
                }
                Ok(text)
            }
            "timeout" => Ok((places.timeout / 1_000_000_000).to_string()),
            _ => Err(HandlerError::no_read(name)),
        }
    }

    fn write(&mut self, _cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "timeout" => {
                let refused = |why| HandlerError::refused(format!("timeout: {why}"));
                let timeout = timeout(handler_value(name, value)?).map_err(refused)?;
                self.places().timeout = timeout;
                Ok(())
            }
            _ => Err(HandlerError::no_write(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(dst: u8, src: u8) -> [u8; 12] {
        [0, 0, 0, 0, 0, dst, 0, 0, 0, 0, 0, src]
    }

    proptest! {
        /// A list of all that was ever seen, searched from its end, is the oracle.
        #[test]
        fn as_a_list(frames in prop::collection::vec((0u8..6, 0u8..6, 0usize..3, 0i64..40), 1..60)) {
            let mut places = Places::new(16, 50);
            let mut seen: Vec<(u8, usize, i64)> = Vec::new();
            let mut now = 0;
            for (dst, src, port, wait) in frames {
                now += wait;
                seen.push((src, port, now));
                let last = seen.iter().rev().find(|(mac, ..)| *mac == dst);
                let wanted = last.filter(|(.., at)| now < at + 50).map(|(_, port, _)| *port);
                prop_assert_eq!(places.place(&frame(dst, src), port, now), wanted);
            }
        }
    }

    #[test]
    fn the_table_is_bounded_and_forgets() {
        let mut places = Places::new(2, 50);
        for (src, at) in [(1, 0), (2, 10), (3, 20)] {
            assert_eq!(places.place(&frame(9, src), 0, at), None);
        }
        assert_eq!(places.table.len(), 2);
        assert_eq!(places.place(&frame(3, 4), 1, 21), None);
        let later = SWEEP_EVERY + 100;
        assert_eq!(places.place(&frame(4, 4), 1, later), Some(1));
        assert_eq!(places.table.len(), 1);
    }
}

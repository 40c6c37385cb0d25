//! AggregateIPFlows: numbers flows.

mod flows;
mod held;

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, HandlerError, Handlers, Operation, Replicas, Spec,
    Topic, Verdict, reasons,
};
use thruway_packet::{Anno, Batch, Packet};

use flows::{Flows, Marks, Timeouts};
use held::{Fate, Held, Pair};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<AggregateIpFlows>(Spec {
    name: "AggregateIPFlows",
    topic: Topic::Ip,
    summary: "sets the aggregate annotation to the number of the flow",
    docs: "Expects marked IP headers. TCP and UDP packets get the number of their flow as \
           AGGREGATE annotation, and their direction as paint: 0 for that of the flow's first \
           packet, 1 for replies. Numbers count from 1. A flow that was silent for longer than its \
           timeout, and a completed TCP flow to which a SYN comes, begins anew with a new number; \
           unlike in Click, FIN and RST count only where their receiver would take them (RFC \
           5961), unless the packets have no sequence numbers. With ICMP, errors about a packet of \
           a known flow get its number, and paint 2 or 3. All other packets leave by output 1, or \
           are dropped where there is none.\n\n\
           Time is packet time where packets have it. With FRAGMENTS (default where packets are \
           pushed, impossible where they are pulled), later fragments are known by the first one, \
           for FRAGMENT_TIMEOUT. Fragments that come before it wait for it, and so do later \
           packets between the same hosts; they go on in order as soon as they can, and are \
           dropped after FRAGMENT_TIMEOUT. 256 packets wait at most; more fragments leave by \
           output 1. At most a million flows are kept; packets of new ones then leave by output 1 \
           until old ones end, as checked every REAP.",
    example: "InfiniteSource(LIMIT 1, STOP true) -> UDPIPEncap(1.0.0.1, 1, 2.0.0.2, 2) \
              -> AggregateIPFlows -> AggregateCounter -> Discard",
    ports: "1/1-2",
    processing: "a/ah",
    drops: Other::DROPS,
    cost: &[Operation::HashLookup.once()],
    changes: Changes::Nothing,
    replicas: Replicas::Apart(
        "each numbers the flows of its thread, and no two give the same number; a flow with \
         directions on two threads has two, and a later fragment is known in the thread \
         of the first one",
    ),
    ..Spec::DEFAULT
});

reasons! {
    /// Why a packet has no flow.
    enum Other {
        NotFlow = "no-flow": "it is no TCP or UDP packet, is too short, or a fragment without ports",
        Full = "table-full": "it would begin a flow, and there are too many",
        NoFirst = "no-first-fragment": "its first fragment did not come in time",
    }
}

#[derive(Arguments, Handlers)]
#[handler(sum, name = "count", "flows known", get = self.flows.len())]
#[handler(
    write, name = "clear", "removes all flows, and sends or drops waiting packets",
    write = self.write_clear(cx)
)]
struct AggregateIpFlows {
    #[part]
    timeouts: Timeouts,
    #[arg(
        keyword, name = "ICMP", value = bool, or = "false",
        "whether ICMP errors are of the flow they are about"
    )]
    /// Whether later fragments are of their flow, if that is said.
    #[arg(keyword, "whether later fragments are of their flow")]
    fragments: Option<bool>,
    #[new({
        let place = (args.env().rank, args.env().threads);
        Flows::new(timeouts, icmp, fragments.unwrap_or(true), place)
    })]
    flows: Flows,
    #[new(Held::with_room())]
    held: Held,
}

/// When a packet came.
fn time_of(packet: &Packet, now: i64) -> i64 {
    match packet.timestamp() {
        0 => now,
        time => time,
    }
}

/// Marks a packet.
fn mark(packet: &mut Packet, marks: Marks) -> Verdict {
    match marks {
        Marks::Of { aggregate, paint } => {
            packet.set_anno_number(Anno::AGGREGATE, aggregate);
            packet.set_anno_number(Anno::PAINT, paint.into());
            Verdict::Pass
        }
        Marks::NoFlow | Marks::Waits => Verdict::reject(1, Other::NotFlow),
        Marks::Full => Verdict::reject(1, Other::Full),
    }
}

/// Sends a packet on.
fn send(cx: &mut Cx<'_>, mut packet: Packet, marks: Marks) {
    match mark(&mut packet, marks) {
        Verdict::Pass => cx.emit(0, packet),
        other => cx.apply(packet, other),
    }
}

impl AggregateIpFlows {
    /// A packet while fragments wait, or that is one.
    fn take(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        let time = time_of(&packet, cx.now());
        while let Some(pair) = self.held.late(&self.flows, time) {
            self.release(cx, pair, time);
        }
        let marks = self.flows.find(packet.network(), time);
        let waits = |pair: &Pair| match marks {
            Marks::Waits => true,
            Marks::Of { .. } => self.held.has(*pair),
            Marks::NoFlow | Marks::Full => false,
        };
        match held::pair(packet.network()).filter(waits) {
            Some(pair) if !self.held.is_full() => {
                self.held.push(pair, packet, marks, time);
                self.release(cx, pair, time);
            }
            _ => send(cx, packet, marks),
        }
    }

    /// Sends on what waited between these hosts, up to what must wait longer.
    fn release(&mut self, cx: &mut Cx<'_>, pair: Pair, now: i64) {
        while let Some(fate) = self.held.next(pair, &mut self.flows, now) {
            match fate {
                Fate::Marked(packet, marks) => send(cx, packet, marks),
                Fate::Late(packet) => cx.drop(Other::NoFirst, packet),
            }
        }
    }
}

impl AggregateIpFlows {
    fn write_clear(&mut self, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        while let Some(pair) = self.held.any() {
            self.release(cx, pair, i64::MAX);
        }
        self.flows.clear();
        Ok(())
    }
}

impl Element for AggregateIpFlows {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if cx.is_pull_input(0) {
            if self.fragments == Some(true) {
                return Err("FRAGMENTS true wants packets that are pushed".into());
            }
            self.flows.leave_fragments();
        }
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let now = cx.now();
        let is_fragment = |packet: &Packet| held::is_fragment(packet.network());
        if self.held.len() > 0 || batch.iter().any(is_fragment) {
            for packet in batch.drain() {
                self.take(cx, packet);
            }
            return;
        }
        cx.filter(batch, |packet| {
            let marks = self.flows.find(packet.network(), time_of(packet, now));
            mark(packet, marks)
        });
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.count_drops(Other::NoFirst, self.held.len());
        Ok(())
    }
}

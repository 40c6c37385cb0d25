//! ReplayUnqueue: a whole trace from memory, over and over.

use std::collections::HashMap;
use std::convert::Infallible;

use thruway_element::{
    Alias, Arguments, Cost, CostModel, Cx, Element, Entry, HandlerError, Handlers, Load, Made,
    Nanos, Operation, Replicas, Run, Spec, Threading, Topic, Ty, handler_value,
};
use thruway_packet::{Batch, Image, MAX_BATCH, Marks, Packet, prefetch_bytes};

use thruway_elements_support::traffic_profile::{TrafficProfile, replaying};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<ReplayUnqueue>(Spec {
    name: "ReplayUnqueue",
    aliases: &[Alias {
        name: "MultiReplayUnqueue",
        summary: "the same: all know several inputs and outputs",
    }],
    topic: Topic::Captures,
    summary: "loads all packets of its inputs, then replays them from memory",
    docs: "When it first runs, it pulls packets until its inputs are dry (or LIMIT of them) and \
           keeps them in memory, side by side. Then it pushes copies of them, BURST at a time, \
           as fast as it is scheduled: bytes, timestamps, annotations and header marks are \
           those they came with. With several inputs (several captures), packets are ordered \
           by their timestamps and leave by the output of their input's number.\n\
           With TIMING, packets keep the distances of their timestamps, divided by TIMING: 1 is \
           the speed at which they were captured, 2 twice that. The first packet of a round goes \
           at once.\n\
           After STOP rounds, or when STOP_TIME has passed, the driver is asked to stop; by \
           default it goes on forever. A trace of more than 4 GB is cut. QUICK_CLONE and \
           USE_SIGNAL are accepted and ignored: all inputs are emptied, and copies are always \
           whole and cheap.",
    example: "FromDump(in.pcap) -> ReplayUnqueue(STOP 10) -> Counter -> Discard",
    ports: "1-/=",
    processing: "l/h",
    flow: "#/#",
    threading: Threading::Task,
    cost: &[Operation::Make.once()],
    replicas: Replicas::Single,
    ..Spec::DEFAULT
})
.with_cost_model::<ReplayUnqueue>();

/// Packets start at multiples of a processor's line: a read that straddles two costs twice.
const ALIGN: usize = 64;
/// Bytes that are kept behind the last packet, so that copies may go by whole lines.
const SLACK: usize = 64;
/// Distance of the prefetch, in packets: a trace larger than the caches comes from memory, and the
/// processor's own prefetching ends at every page.
///
/// PERF: `bench path --case replay/large` went from 16 to 12 ns a packet.
const AHEAD: usize = 24;
/// Bytes of packets that are loaded at most.
const STORE_MAX: usize = 4 << 30;

/// Packets side by side in one block of memory, and a list of what is known of each: two streams
/// of reads, which processors fetch ahead by themselves.
#[derive(Default)]
struct Store {
    block: Vec<u8>,
    /// Where in the block the first packet begins.
    base: usize,
    heads: Vec<Head>,
    /// Inputs they came by.
    inputs: usize,
    /// Marks and input, which few packets have to themselves.
    kinds: Vec<(Marks, u32)>,
    numbers: HashMap<(Marks, u32), u32>,
}

/// The metadata of a packet in the store.
#[derive(Clone, Copy)]
struct Head {
    timestamp: i64,
    /// Where its bytes begin, in multiples of [`ALIGN`].
    at: u32,
    len: u32,
    kind: u32,
}

impl Store {
    /// Adds a packet of an input; false when the store is full.
    fn add(&mut self, packet: &Packet, input: u32) -> bool {
        let end = self.block.len().saturating_sub(SLACK).next_multiple_of(ALIGN);
        if end + packet.len() > STORE_MAX {
            return false;
        }
        let kinds = &mut self.kinds;
        let kind = *self.numbers.entry((packet.marks(), input)).or_insert_with_key(|kind| {
            kinds.push(kind.clone());
            kinds.len() as u32 - 1
        });
        self.block.resize(end, 0);
        self.block.extend_from_slice(packet.data());
        self.block.resize(end + packet.len() + SLACK, 0);
        self.heads.push(Head {
            timestamp: packet.timestamp(),
            at: (end / ALIGN) as u32,
            len: packet.len() as u32,
            kind,
        });
        true
    }

    /// Moves the packets so that lines of the block are lines of memory, once all are there.
    fn apply(&mut self) {
        let mut block: Vec<u8> = Vec::with_capacity(self.block.len() + ALIGN);
        self.base = block.as_ptr().align_offset(ALIGN).min(ALIGN);
        block.resize(self.base, 0);
        block.append(&mut self.block);
        self.block = block;
    }

    /// The input of packets of this kind.
    fn input(&self, kind: u32) -> usize {
        self.kinds[kind as usize].1 as usize
    }

    /// Adds to `batch` up to `max` packets at the cursor that leave by one output, and says which;
    /// none with a timestamp later than `until`.
    #[inline]
    fn fill(&self, cursor: &mut usize, max: usize, until: i64, batch: &mut Batch) -> usize {
        let rest = self.heads.get(*cursor..).unwrap_or(&[]);
        let Some(first) = rest.first() else { return 0 };
        let output = self.input(first.kind);
        let mut heads = &rest[..max.min(rest.len())];
        if until != i64::MAX {
            let due = heads.iter().take_while(|head| head.timestamp <= until);
            heads = &heads[..due.count()];
        }
        if self.inputs > 1 {
            let alike = heads.iter().take_while(|head| self.input(head.kind) == output);
            heads = &heads[..alike.count()];
        }
        let block = self.block.get(self.base..).unwrap_or(&[]);
        let bytes_of = |head: &Head| block.get(head.at as usize * ALIGN..).unwrap_or(&[]);
        batch.fill(heads.iter().enumerate().map(|(number, head)| {
            if let Some(ahead) = rest.get(number + AHEAD) {
                prefetch_bytes(bytes_of(ahead));
            }
            Image {
                bytes: bytes_of(head),
                len: head.len as usize,
                timestamp: head.timestamp,
                marks: &self.kinds[head.kind as usize].0,
            }
        }));
        *cursor += heads.len();
        output
    }

    /// The packets' bytes, in their order.
    fn packets(&self) -> impl Iterator<Item = &[u8]> {
        let bytes_of = |head: &Head| {
            let at = self.base + head.at as usize * ALIGN;
            self.block.get(at..at + head.len as usize).unwrap_or(&[])
        };
        self.heads.iter().map(bytes_of)
    }

    /// What it costs to make a packet of these; or of others like them, that are longer by some
    /// factor.
    fn cost(&self, load: &Load) -> Vec<Cost> {
        let bytes: usize = self.heads.iter().map(|head| head.len as usize).sum();
        let lines: usize = self.heads.iter().map(|head| (head.len as usize).div_ceil(ALIGN)).sum();
        let count = self.heads.len().max(1) as f64;
        let longer = load.packet_bytes * count / bytes.max(1) as f64;
        let heads = size_of_val(self.heads.as_slice());
        let block = (lines * ALIGN) as f64 * longer;
        replaying(lines as f64 * longer / count, block as usize + heads)
    }
}

#[derive(Arguments, Handlers)]
#[handler(sum, field = count, "packets replayed")]
#[handler(read, name = "loaded", "packets in memory", get = self.store.heads.len())]
#[handler(both, field = active, "whether it replays", write = self.write_active(name, value))]
#[handler(both, name = "stop", "rounds left; -1 for no end", get = self.rounds,
    run = self.rounds = handler_value(name, value)?)]
#[handler(
    both, field = timing, "speed, in that of the timestamps; 0 for all there is",
    write = self.write_timing(name, value)
)]
#[handler(write, name = "reset", "forgets the packets and loads again", run = self.loaded = false)]
struct ReplayUnqueue {
    /// Rounds left; negative for no end.
    #[arg(
        keyword, name = "STOP", via = rounds_of, or = "-1",
        "rounds until the driver stops; -1 for never"
    )]
    rounds: i64,
    /// time until the driver stops; 0 for never
    #[arg(keyword, name = "STOP_TIME", as = Nanos, or = "0")]
    stop_time: i64,
    /// packets per scheduling
    #[arg(keyword, range = 1..=MAX_BATCH, or = "32")]
    burst: usize,
    /// speed, in that of the timestamps; 0 for all there is
    #[arg(keyword, or = "0")]
    timing: u32,
    /// packets to load; -1 for all
    #[arg(keyword, as = i64, via = limit_of, or = "-1")]
    limit: usize,
    /// whether it replays
    #[arg(keyword, or = "true")]
    active: bool,
    /// whether a line reports every round
    #[arg(keyword, or = "false")]
    verbose: bool,
    #[arg(
        keyword, name = "QUICK_CLONE", unread, ty = Ty::Bool, or = "false", "accepted and ignored"
    )]
    #[arg(
        keyword, name = "USE_SIGNAL", unread, ty = Ty::Bool, or = "false", "accepted and ignored"
    )]
    store: Store,
    /// The next packet of the round.
    cursor: usize,
    loaded: bool,
    /// When to stop, once it has begun.
    deadline: Option<i64>,
    /// When this round began; `None`: with the next packet.
    began: Option<i64>,
    count: u64,
    #[new(Batch::with_room())]
    batch: Batch,
}

fn rounds_of(rounds: i64) -> Result<i64, &'static str> {
    if rounds == 0 { Err("0 rounds replay nothing; write -1 for no end") } else { Ok(rounds) }
}

fn limit_of(limit: i64) -> Result<usize, Infallible> {
    Ok(usize::try_from(limit).unwrap_or(usize::MAX))
}

/// An input while it is being emptied.
struct Feed {
    batch: Batch,
    dry: bool,
}

impl Feed {
    /// Sees to it that a packet is at hand, unless the input is dry.
    fn refill(&mut self, cx: &mut Cx<'_>, port: usize, max: usize) {
        if self.batch.is_empty() && !self.dry {
            cx.pull(port, max, &mut self.batch);
            self.dry = self.batch.is_empty();
        }
    }
}

impl ReplayUnqueue {
    /// Loads the packets of all inputs, earliest first.
    fn load(&mut self, cx: &mut Cx<'_>) {
        self.loaded = true;
        let inputs = cx.inputs();
        self.store = Store { inputs, ..Store::default() };
        let mut feeds: Vec<Feed> =
            (0..inputs).map(|_| Feed { batch: Batch::with_room(), dry: false }).collect();
        let full = match feeds.as_mut_slice() {
            [feed] => self.load_one(cx, feed),
            feeds => self.load_ordered(cx, feeds),
        };
        if full {
            let replayed = self.store.heads.len();
            cx.log(&format!("the trace exceeds 4 GB: its first {replayed} packets are replayed"));
        }
        self.store.apply();
        (self.cursor, self.began) = (0, None);
        if self.verbose {
            cx.log(&format!("{} packets loaded", self.store.heads.len()));
        }
    }

    /// Of one input in its order; says whether the store was full before.
    fn load_one(&mut self, cx: &mut Cx<'_>, feed: &mut Feed) -> bool {
        while self.store.heads.len() < self.limit {
            feed.refill(cx, 0, MAX_BATCH.min(self.limit - self.store.heads.len()));
            if feed.dry {
                break;
            }
            for packet in feed.batch.drain() {
                if !self.store.add(&packet, 0) {
                    return true;
                }
            }
        }
        false
    }

    /// Of several inputs by time; says whether the store was full before.
    fn load_ordered(&mut self, cx: &mut Cx<'_>, feeds: &mut [Feed]) -> bool {
        while self.store.heads.len() < self.limit {
            for (port, feed) in feeds.iter_mut().enumerate() {
                // One at a time, so that no more is taken than is used.
                feed.refill(cx, port, 1);
            }
            let times = feeds.iter().enumerate().filter_map(|(port, feed)| {
                feed.batch.iter().next().map(|packet| (packet.timestamp(), port))
            });
            let Some((_, port)) = times.min() else { break };
            let Some(packet) = feeds[port].batch.pop() else { break };
            if !self.store.add(&packet, port as u32) {
                return true;
            }
        }
        false
    }

    /// The latest timestamp of packets that may go now.
    fn until(&mut self, now: i64) -> i64 {
        let (Some(next), Some(first)) =
            (self.store.heads.get(self.cursor), self.store.heads.first())
        else {
            return i64::MAX;
        };
        if self.timing == 0 {
            return i64::MAX;
        }
        // Where it was interrupted it goes on with the next packet.
        let speed = i64::from(self.timing);
        let passed = next.timestamp.saturating_sub(first.timestamp) / speed;
        let began = *self.began.get_or_insert(now.saturating_sub(passed));
        first.timestamp.saturating_add(now.saturating_sub(began).saturating_mul(speed))
    }

    /// When the next packet is to go.
    fn due(&self) -> Option<i64> {
        let (next, first) = (self.store.heads.get(self.cursor)?, self.store.heads.first()?);
        let passed = next.timestamp.saturating_sub(first.timestamp);
        let speed = i64::from(self.timing);
        let wait = passed.checked_div(speed)? + i64::from(passed.checked_rem(speed)? > 0);
        Some(self.began?.saturating_add(wait))
    }

    /// A round is over: begins the next, or stops.
    fn next_round(&mut self, cx: &mut Cx<'_>) {
        (self.cursor, self.began) = (0, None);
        if self.rounds > 0 {
            self.rounds -= 1;
        }
        let late = self.deadline.is_some_and(|deadline| cx.now() >= deadline);
        if self.rounds == 0 || late {
            self.active = false;
            cx.stop();
        } else if self.verbose {
            cx.log(&format!("{} packets replayed; from the start", self.count));
        }
    }

    fn write_active(&mut self, name: &str, value: &str) -> Result<(), HandlerError> {
        self.active = handler_value(name, value)?;
        self.began = None;
        Ok(())
    }

    fn write_timing(&mut self, name: &str, value: &str) -> Result<(), HandlerError> {
        self.timing = handler_value(name, value)?;
        self.began = None;
        Ok(())
    }
}

impl Element for ReplayUnqueue {
    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        if !self.active {
            return Run::Idle;
        }
        if !self.loaded {
            self.load(cx);
            if self.stop_time > 0 {
                self.deadline = Some(cx.now().saturating_add(self.stop_time));
            }
        }
        let until = self.until(cx.now());
        let output = self.store.fill(&mut self.cursor, self.burst, until, &mut self.batch);
        self.count += self.batch.len() as u64;
        let made = !self.batch.is_empty();
        if made {
            cx.count_packets(self.batch.len());
            cx.emit_all(output, &mut self.batch);
        }
        let late = self.deadline.is_some_and(|deadline| cx.now() >= deadline);
        if self.cursor >= self.store.heads.len() || late {
            self.next_round(cx);
        }
        match self.due() {
            Some(due) if self.active && due > cx.now() => {
                Run::At(self.deadline.map_or(due, |deadline| due.min(deadline)))
            }
            // An empty trace, or memory used up downstream: others first.
            _ if made => Run::Again,
            _ => Run::Idle,
        }
    }
}

impl CostModel for ReplayUnqueue {
    fn cost(&self, load: &Load) -> Option<Vec<Cost>> {
        Some(self.store.cost(load))
    }

    fn makes(&self) -> Option<Made> {
        TrafficProfile::of(self.store.packets()).made()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_replay_costs_is_what_it_copies() {
        let mut store = Store { inputs: 1, ..Store::default() };
        for len in [60, 1514, 65, 0] {
            assert!(store.add(&Packet::new(&vec![0; len]).expect("memory"), 0));
        }
        store.apply();
        let load =
            |packet_bytes| Load { packet_bytes, payload_bytes: 0.0, sessions: 1.0, opening: 0.0 };
        let cost = store.cost(&load(1639.0 / 4.0));
        // 1 + 24 + 2 + 0 lines.
        assert_eq!((cost[1].operation, cost[1].count), (Operation::CopyLine, 27.0 / 4.0));
        assert_eq!(cost[1].reach.map(|reach| reach.bytes), Some(27.0 * 64.0 + 4.0 * 24.0));
        assert_eq!(store.cost(&load(1639.0 / 2.0))[1].count, 27.0 / 2.0);
        let made = TrafficProfile::of(store.packets()).made().expect("packets");
        assert_eq!((made.packet_bytes, made.sessions), (1639.0 / 4.0, 0.0));
        assert_eq!(Store::default().cost(&load(64.0))[1].count, 0.0);
    }

    #[test]
    fn packets_come_back_as_they_were_stored_round_after_round() {
        let mut store = Store { inputs: 2, ..Store::default() };
        let lengths = [60, 0, 1514, 1, 9000, 64, 1600, 17];
        let made: Vec<(Packet, u32)> = (0..40)
            .map(|number| {
                let bytes: Vec<u8> = (0..lengths[number % 8]).map(|i| (i + number) as u8).collect();
                let mut packet = Packet::new(&bytes).expect("memory");
                packet.set_timestamp(number as i64);
                packet.set_mac_offset(0);
                (packet, u32::from(number % 5 == 0))
            })
            .collect();
        for (packet, input) in &made {
            assert!(store.add(packet, *input));
        }
        assert_eq!(store.kinds.len(), 2);
        for burst in [1, 3, 64] {
            let mut cursor = 0;
            let mut back = Vec::new();
            while cursor < store.heads.len() {
                let mut batch = Batch::new();
                let output = store.fill(&mut cursor, burst, i64::MAX, &mut batch);
                assert!((1..=burst).contains(&batch.len()));
                back.extend(batch.drain().map(|packet| (packet, output as u32)));
            }
            assert_eq!(back.len(), made.len());
            for ((packet, output), (model, input)) in back.iter().zip(&made) {
                assert_eq!(packet.data(), model.data());
                assert_eq!((packet.timestamp(), *output), (model.timestamp(), *input));
                assert_eq!(packet.marks(), model.marks());
            }
        }
    }
}

//! InfiniteSource: the same packet, as fast as it is scheduled.

use thruway_element::{
    Arg, ArgErrors, Args, Cost, CostModel, Cx, Element, Entry, Handler, HandlerError, Handlers,
    Load, Made, Operation, Reason, Replicas, Run, Spec, Threading, Topic, Ty, handler_value,
};
use thruway_packet::{Batch, Image, MAX_BATCH, Marks, Packet};

use super::template::{DEFAULT_DATA, Template};
use thruway_elements_support::call::{Call, end_call};
use thruway_elements_support::random::Random;
use thruway_elements_support::traffic_profile::making;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "InfiniteSource",
        topic: Topic::Sources,
        summary: "makes packets as fast as it can",
        docs: "Makes packets with the bytes DATA, BURST at a time whenever it is scheduled, LIMIT \
               in all. With LENGTH, DATA is repeated or cut to that length. With STOP, the driver \
               is asked to stop after the last; END_CALL names a write handler to call instead. It \
               rests while all its packets would end in full Queues of its thread. Connected to a \
               pull input, it makes packets as they are pulled.",
        example: "InfiniteSource(DATA \\<01 02 03>, LIMIT 3, STOP true) -> Print(ok) -> Discard",
        ports: "0/1",
        processing: "/a",
        args: &[
            Arg::optional("DATA", Ty::Data, "the packet's bytes").or(DEFAULT_DATA),
            Arg::optional("LIMIT", Ty::Int, "packets in all; -1 for no limit").or("-1"),
            Arg::optional("BURST", Ty::Int, "packets per scheduling").or("1"),
            Arg::optional("ACTIVE", Ty::Bool, "whether it makes packets").or("true"),
            Arg::keyword("TIMESTAMP", Ty::Bool, "whether packets bear the time").or("true"),
            Arg::keyword("LENGTH", Ty::Int, "length of the packets; -1 for that of DATA").or("-1"),
            Arg::keyword("DATASIZE", Ty::Int, "old name of LENGTH"),
            Arg::keyword("STOP", Ty::Bool, "whether the driver stops after the last").or("false"),
            Arg::keyword("END_CALL", Ty::Handler, "HANDLER [VALUE]: written after the last"),
        ],
        handlers: &[
            Handler::sum("count", "packets made"),
            Handler::both("active", "whether it makes packets"),
            Handler::both("limit", "packets in all; -1 for no limit"),
            Handler::both("burst", "packets per scheduling"),
            Handler::both("data", "the packet's bytes"),
            Handler::both("length", "length of the packets; -1 for that of DATA"),
            Handler::write("reset", "sets count to zero and starts again"),
        ],
        threading: Threading::Task,
        cost: &[Operation::Make.once()],
        replicas: Replicas::Single,
        ..Spec::DEFAULT
    },
    build,
)
.with_cost_model::<InfiniteSource>()
.with_handlers::<InfiniteSource>();

/// The packet to be copied, with room behind it for whole lines to be copied.
struct Print {
    bytes: Vec<u8>,
    len: usize,
    marks: Marks,
}

impl Print {
    /// That of a template's bytes; `None` where there is no memory for a packet.
    fn of<'a>(kept: &'a mut Option<Print>, bytes: &[u8]) -> Option<&'a Print> {
        if kept.is_none() {
            let marks = Packet::new(&[])?.marks();
            let mut room = bytes.to_vec();
            room.resize(bytes.len() + LINE - 1, 0);
            *kept = Some(Print { bytes: room, len: bytes.len(), marks });
        }
        kept.as_ref()
    }

    fn image(&self, timestamp: i64) -> Image<'_> {
        Image { bytes: &self.bytes, len: self.len, timestamp, marks: &self.marks }
    }
}

/// Bytes of a cache line.
const LINE: usize = 64;

pub(super) struct InfiniteSource {
    template: Template,
    /// Made of the template when packets are first wanted.
    print: Option<Print>,
    /// Packets to be sent; empty between runs.
    batch: Batch,
    limit: i64,
    burst: i32,
    active: bool,
    timestamp: bool,
    end_call: Option<Call>,
    ended: bool,
    count: u64,
    /// Where the bytes come from, if not from the template.
    random: Option<Random>,
    /// The queues that packets end in, found out at the first run; none if some end elsewhere.
    queues: Option<Vec<u32>>,
}

/// How many of `wanted` packets a limit (negative for none) allows after `count`.
pub(crate) fn allowance(limit: i64, count: u64, wanted: usize) -> usize {
    match u64::try_from(limit) {
        Ok(limit) => limit.saturating_sub(count).min(wanted as u64) as usize,
        Err(_) => wanted,
    }
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    Ok(Box::new(InfiniteSource::new(args, Template::from_args(args)?, None)?))
}

impl InfiniteSource {
    /// A source of packets as long as the template, and with its bytes or random ones.
    pub(super) fn new(
        args: &Args<'_>,
        template: Template,
        random: Option<Random>,
    ) -> Result<InfiniteSource, ArgErrors> {
        let burst: i32 = args.get("BURST")?;
        if burst < 1 {
            return Err(args.error("BURST", "must be at least 1").into());
        }
        Ok(InfiniteSource {
            template,
            print: None,
            batch: Batch::with_room(),
            limit: args.get("LIMIT")?,
            burst,
            active: args.get("ACTIVE")?,
            timestamp: args.get("TIMESTAMP")?,
            end_call: end_call(args)?,
            ended: false,
            count: 0,
            random,
            queues: None,
        })
    }

    fn allowance(&self, wanted: usize) -> usize {
        allowance(self.limit, self.count, wanted)
    }

    /// Adds up to `wanted` packets to a batch, fewer where the limit or packet memory allow no
    /// more.
    fn fill(&mut self, cx: &mut Cx<'_>, wanted: usize, batch: &mut Batch) {
        let wanted = self.allowance(wanted);
        let timestamp = if self.timestamp { cx.now() } else { 0 };
        let Some(print) = Print::of(&mut self.print, self.template.bytes()) else {
            return cx.count_drops(Reason::NO_MEMORY, wanted);
        };
        let made = batch.fill((0..wanted).map(|_| print.image(timestamp)));
        if made < wanted {
            cx.count_drops(Reason::NO_MEMORY, wanted - made);
        }
        if let Some(random) = &mut self.random {
            batch.iter_mut().for_each(|packet| random.fill(packet.data_mut()));
        }
        self.count += made as u64;
    }

    /// Whether all packets would end in queues that are full.
    fn is_blocked(&mut self, cx: &Cx<'_>) -> bool {
        let around = cx.neighbours();
        let find = || around.stores_downstream(0).unwrap_or_default();
        let queues = self.queues.get_or_insert_with(find);
        !queues.is_empty() && queues.iter().all(|queue| around.is_full(*queue))
    }

    /// Makes the call, once, when the limit is reached.
    fn check_limit(&mut self, cx: &mut Cx<'_>) {
        if !self.ended && self.allowance(1) == 0 {
            self.ended = true;
            if let Some(call) = &self.end_call {
                call.write(cx);
            }
        }
    }
}

impl Element for InfiniteSource {
    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        if !self.active {
            return Run::Idle;
        }
        self.check_limit(cx);
        let burst = (self.burst as usize).min(MAX_BATCH);
        if self.allowance(burst) == 0 || self.is_blocked(cx) {
            return Run::Idle;
        }
        let mut batch = std::mem::take(&mut self.batch);
        self.fill(cx, burst, &mut batch);
        cx.emit_all(0, &mut batch);
        self.batch = batch;
        Run::Again
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize, batch: &mut Batch) {
        if self.active {
            self.fill(cx, max, batch);
            if batch.is_empty() {
                self.check_limit(cx);
            }
        }
    }
}

impl Handlers for InfiniteSource {
    fn read_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        match name {
            "count" => Ok(self.count.to_string()),
            "active" => Ok(self.active.to_string()),
            "limit" => Ok(self.limit.to_string()),
            "burst" => Ok(self.burst.to_string()),
            _ => self.template.read(name).ok_or_else(|| HandlerError::no_read(name)),
        }
    }

    fn write_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        match name {
            "active" => self.active = handler_value(name, value)?,
            "limit" => self.limit = handler_value(name, value)?,
            "burst" => match handler_value(name, value)? {
                burst @ 1.. => self.burst = burst,
                _ => return Err(HandlerError::refused("burst: must be at least 1")),
            },
            "reset" => self.count = 0,
            _ if self.template.write(name, value)? => self.print = None,
            _ => return Err(HandlerError::no_write(name)),
        }
        self.ended &= self.allowance(1) == 0;
        Ok(())
    }
}

impl CostModel for InfiniteSource {
    fn cost(&self, load: &Load) -> Option<Vec<Cost>> {
        let mut cost = making(Load::lines(load.packet_bytes));
        if self.timestamp {
            cost.push(Operation::Clock.once());
        }
        if self.random.is_some() {
            let numbers = (load.packet_bytes / Random::BYTES as f64).ceil();
            cost.push(Operation::Random.times(numbers));
        }
        Some(cost)
    }

    fn makes(&self) -> Option<Made> {
        self.template.made()
    }
}

//! RatedSource: the same packet, so many times a second.

use thruway_element::{
    Arg, ArgErrors, Args, Bandwidth, Cost, CostModel, Cx, Element, Entry, Handler, HandlerError,
    Handlers, Load, Made, Operation, Replicas, Run, Spec, Threading, Topic, Ty, handler_value,
};
use thruway_packet::{Batch, Packet};

use super::infinite_source::allowance;
use super::template::{DEFAULT_DATA, Template};
use thruway_elements_support::call::{Call, end_call};
use thruway_elements_support::rate::TokenBucket;
use thruway_elements_support::traffic_profile::making;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "RatedSource",
        topic: Topic::Sources,
        summary: "makes packets at a rate",
        docs: "Makes packets with the bytes DATA, RATE a second, LIMIT in all. A token bucket \
               keeps the rate: after a delay up to a hundredth of RATE (at least two) may come at \
               once. BANDWIDTH gives the rate by bytes instead. With STOP, the driver is asked to \
               stop after the last; END_CALL names a write handler to call instead.",
        example: "RatedSource(RATE 1000, LIMIT 10, STOP true) -> Print(ok) -> Discard",
        ports: "0/1",
        processing: "/a",
        args: &[
            Arg::optional("DATA", Ty::Data, "the packet's bytes").or(DEFAULT_DATA),
            Arg::optional("RATE", Ty::UInt, "packets a second").or("10"),
            Arg::optional("LIMIT", Ty::Int, "packets in all; -1 for no limit").or("-1"),
            Arg::optional("ACTIVE", Ty::Bool, "whether it makes packets").or("true"),
            Arg::keyword("LENGTH", Ty::Int, "length of the packets; -1 for that of DATA").or("-1"),
            Arg::keyword("DATASIZE", Ty::Int, "old name of LENGTH"),
            Arg::keyword("STOP", Ty::Bool, "whether the driver stops after the last").or("false"),
            Arg::keyword("BANDWIDTH", Ty::Bandwidth, "bytes a second, in place of RATE"),
            Arg::keyword("END_CALL", Ty::Handler, "HANDLER [VALUE]: written after the last"),
        ],
        handlers: &[
            Handler::sum("count", "packets made"),
            Handler::both("rate", "packets a second"),
            Handler::both("limit", "packets in all; -1 for no limit"),
            Handler::both("active", "whether it makes packets"),
            Handler::both("data", "the packet's bytes"),
            Handler::both("length", "length of the packets; -1 for that of DATA"),
            Handler::write("reset", "sets count to zero and starts again"),
        ],
        threading: Threading::Task,
        cost: &[Operation::Make.once(), Operation::Clock.once()],
        replicas: Replicas::Single,
        ..Spec::DEFAULT
    },
    build,
)
.with_cost_model::<RatedSource>()
.with_handlers::<RatedSource>();

/// Timer: a puller that got no packet may try again.
const AGAIN: u32 = 0;

struct RatedSource {
    template: Template,
    bucket: TokenBucket,
    limit: i64,
    active: bool,
    end_call: Option<Call>,
    ended: bool,
    count: u64,
}

/// Packets that may come at once at this rate, as in Click.
fn capacity(rate: u32) -> u64 {
    if rate < 200 { 2 } else { u64::from(rate / 100) }
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let template = Template::from_args(args)?;
    let rate = match args.opt::<Bandwidth>("BANDWIDTH")? {
        Some(Bandwidth(bytes)) if bytes > 0 => {
            u32::try_from(bytes / template.bytes().len().max(1) as u64)
                .map_err(|_| args.error("BANDWIDTH", "too many packets a second"))?
        }
        _ => args.get("RATE")?,
    };
    let mut bucket = TokenBucket::new(u64::from(rate), capacity(rate));
    bucket.set_tokens(1);
    Ok(Box::new(RatedSource {
        template,
        bucket,
        limit: args.get("LIMIT")?,
        active: args.get("ACTIVE")?,
        end_call: end_call(args)?,
        ended: false,
        count: 0,
    }))
}

impl RatedSource {
    /// Makes up to `wanted` packets that are due.
    fn fill(&mut self, cx: &mut Cx<'_>, wanted: usize, mut take: impl FnMut(&mut Cx<'_>, Packet)) {
        self.bucket.refill(cx.now());
        for _ in 0..allowance(self.limit, self.count, wanted) {
            if !self.bucket.take(1) {
                return;
            }
            let Some(mut packet) = cx.packet(self.template.bytes()) else { return };
            packet.set_timestamp(cx.now());
            self.count += 1;
            take(cx, packet);
        }
    }

    /// Whether the limit is reached; the first time the call is made.
    fn at_end(&mut self, cx: &mut Cx<'_>) -> bool {
        let end = allowance(self.limit, self.count, 1) == 0;
        if end && !self.ended {
            self.ended = true;
            if let Some(call) = &self.end_call {
                call.write(cx);
            }
        }
        end
    }
}

impl Element for RatedSource {
    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        if !self.active || self.at_end(cx) {
            return Run::Idle;
        }
        let before = self.count;
        self.fill(cx, cx.burst(), |cx, packet| cx.emit(0, packet));
        match self.bucket.ready_at(1) {
            _ if self.count > before => Run::Again,
            Some(at) => Run::At(at),
            None => Run::Idle,
        }
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize, batch: &mut Batch) {
        if !self.active || self.at_end(cx) {
            return;
        }
        self.fill(cx, max, |_, packet| batch.push(packet));
        if batch.is_empty()
            && let Some(at) = self.bucket.ready_at(1)
        {
            cx.clear_timer(AGAIN);
            cx.set_timer(AGAIN, at);
        }
    }
}

impl Handlers for RatedSource {
    fn read_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        match name {
            "count" => Ok(self.count.to_string()),
            "rate" => Ok(self.bucket.rate().to_string()),
            "limit" => Ok(self.limit.to_string()),
            "active" => Ok(self.active.to_string()),
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
            "rate" => {
                let rate: u32 = handler_value(name, value)?;
                self.bucket.set_rate(u64::from(rate), capacity(rate));
            }
            "limit" => self.limit = handler_value(name, value)?,
            "active" => {
                let active = handler_value(name, value)?;
                if active && !self.active {
                    self.bucket.set_tokens(1);
                }
                self.active = active;
            }
            "reset" => {
                self.count = 0;
                self.bucket.set_tokens(1);
            }
            _ if self.template.write(name, value)? => {}
            _ => return Err(HandlerError::no_write(name)),
        }
        self.ended &= allowance(self.limit, self.count, 1) == 0;
        Ok(())
    }
}

impl CostModel for RatedSource {
    fn cost(&self, load: &Load) -> Option<Vec<Cost>> {
        let mut cost = making(Load::lines(load.packet_bytes));
        cost.push(Operation::Clock.once());
        Some(cost)
    }

    fn makes(&self) -> Option<Made> {
        self.template.made()
    }
}

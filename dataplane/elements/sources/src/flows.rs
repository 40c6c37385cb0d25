//! FastUDPFlows, FastTCPFlows: packets of many flows.

use thruway_element::declared::joined;
use thruway_element::{
    Arg, ArgErrors, Args, Cost, CostModel, Cx, Element, Entry, FromArg, HandlerError, Handlers,
    Load, Made, Operation, Replicas, Spec, Topic, Ty, cost::Access, handler_value,
};
use thruway_packet::{Batch, Packet};

use thruway_elements_support::random::Random;
use thruway_elements_support::rate::TokenBucket;
use thruway_elements_support::traffic_profile::making;

mod frames;

use frames::{DATA, ETHER, FIN, Frame, IP, LENGTH_MAX, LENGTH_MIN, Plan, SYN};

pub(super) use frames::Kind;

/// See the spec.
pub static ENTRY: Entry = Entry::built::<Flows>(
    Spec {
        name: "FastUDPFlows",
        topic: Topic::Sources,
        summary: "makes UDP packets of many flows",
        docs: "Makes Ethernet packets of LENGTH bytes (at least 60) with UDP in IP, RATE a second \
               (0 for as many as are pulled), LIMIT in all. Each packet belongs to one of FLOWS \
               flows, taken at random; after FLOWSIZE packets a flow gets new random ports. Equal \
               SEEDs give equal packets.",
        example: "FastUDPFlows(0, 10, 60, 0:0:0:0:0:1, 1.0.0.1, 0:0:0:0:0:2, 2.0.0.2, 4, 2, \
                  STOP true) -> Unqueue -> Discard",
        ports: "0/1",
        processing: "/l",
        args: &UDP_ARGS,
        cost: &[Operation::Make.once(), Operation::Random.once()],
        replicas: Replicas::Single,
        ..Spec::DEFAULT
    },
    build,
)
.with_cost_model::<Flows>();

/// See the spec.
pub static TCP: Entry = Entry::built::<Flows>(
    Spec {
        name: "FastTCPFlows",
        summary: "makes TCP packets of many flows",
        docs: "Makes Ethernet packets of LENGTH bytes (at least 60) with TCP in IP, RATE a second \
               (0 for as many as are pulled), LIMIT in all. Each packet belongs to one of FLOWS \
               flows, taken at random: the first of a flow is a SYN, then come data, and the last \
               of FLOWSIZE (at least 3) is a FIN, after which the flow gets new random ports. \
               After LIMIT packets each flow that has begun is ended by a FIN. Sequence numbers \
               mean nothing. Equal SEEDs give equal packets.",
        example: "FastTCPFlows(0, 10, 60, 0:0:0:0:0:1, 1.0.0.1, 0:0:0:0:0:2, 2.0.0.2, 4, 3, \
                  STOP true) -> Unqueue -> Discard",
        args: &TCP_ARGS,
        ..ENTRY.spec
    },
    build,
)
.with_cost_model::<Flows>();

/// Arguments of both, and what follows them.
const FIRST: &[Arg] = &[
    Arg::required("RATE", Ty::UInt, "packets a second; 0 for no limit"),
    Arg::required("LIMIT", Ty::Int, "packets in all; -1 for no limit"),
    Arg::required("LENGTH", Ty::UInt, "bytes of a packet, Ethernet header included"),
    Arg::required("SRCETH", Ty::Ether, "source Ethernet address"),
    Arg::required("SRCIP", Ty::Ip, "source IP address"),
    Arg::required("DSTETH", Ty::Ether, "destination Ethernet address"),
    Arg::required("DSTIP", Ty::Ip, "destination IP address"),
    Arg::required("FLOWS", Ty::UInt, "number of flows"),
];
const UDP_ARGS: [Arg; 13] = joined(&[
    FIRST,
    &[
        Arg::required("FLOWSIZE", Ty::UInt, "packets before a flow changes its ports"),
        Arg::optional("CHECKSUM", Ty::Bool, "whether UDP checksums are computed").or("true"),
        Arg::optional("ACTIVE", Ty::Bool, "whether it makes packets").or("true"),
        Arg::optional("STOP", Ty::Bool, "whether the driver stops after the last").or("false"),
        SEED,
    ],
]);
const TCP_ARGS: [Arg; 12] = joined(&[
    FIRST,
    &[
        Arg::required("FLOWSIZE", Ty::UInt, "packets of a flow, at least 3"),
        Arg::optional("ACTIVE", Ty::Bool, "whether it makes packets").or("true"),
        Arg::keyword("STOP", Ty::Bool, "whether the driver stops after the last").or("false"),
        SEED,
    ],
]);
const SEED: Arg = Arg::keyword("SEED", Ty::UInt, "where random numbers begin").or("1");

const FLOWS_MAX: u32 = 1 << 22;
/// Timer: a puller that got no packet may try again.
const AGAIN: u32 = 0;
/// Packets of a TCP flow: a SYN, data, a FIN.
const TCP_FLOW_MIN: u32 = 3;

#[derive(Debug, Clone, Copy)]
pub(super) struct Flow {
    pub(super) ports: [u8; 4],
    pub(super) sent: u32,
}

#[derive(Handlers)]
#[handler(sum, field = count, "packets made")]
#[handler(
    both, name = "rate", "packets a second over the run, once LIMIT is reached", get = self.rate(),
    run = self.bucket = bucket(handler_value(name, value)?)
)]
#[handler(
    both, name = "length", "bytes of a packet", get = self.plan.len,
    write = self.change((name, value), |plan, len| plan.len = len)
)]
#[handler(write, field = limit, "packets in all; -1 for no limit")]
#[handler(
    write, field = active, "whether it makes packets; true resets the counts",
    then = if self.active { self.reset() }
)]
#[handler(
    write, name = "srceth", "source Ethernet address",
    write = self.change((name, value), |plan, address| plan.src_ether = address)
)]
#[handler(
    write, name = "dsteth", "destination Ethernet address",
    write = self.change((name, value), |plan, address| plan.dst_ether = address)
)]
#[handler(write, name = "reset", "sets the counts to zero", run = self.reset())]
pub(super) struct Flows {
    plan: Plan,
    frames: Vec<Frame>,
    flows: Vec<Flow>,
    /// Packets of a flow; 0 for no end.
    flow_size: u32,
    random: Random,
    bucket: Option<TokenBucket>,
    limit: i64,
    active: bool,
    stop: bool,
    count: u64,
    first: i64,
    last: i64,
}

fn bucket(rate: u32) -> Option<TokenBucket> {
    let capacity = u64::from(rate / 1_000).max(1);
    (rate > 0).then(|| TokenBucket::fine(u64::from(rate), capacity))
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let flows: u32 = args.get("FLOWS")?;
    if flows == 0 || flows > FLOWS_MAX {
        return Err(args.error("FLOWS", format!("must be from 1 to {FLOWS_MAX}")).into());
    }
    let flow_size: u32 = args.get("FLOWSIZE")?;
    let kind = match args.class() {
        "FastTCPFlows" => Kind::Tcp,
        _ => Kind::Udp { checksum: args.get("CHECKSUM")? },
    };
    let least = if kind == Kind::Tcp { TCP_FLOW_MIN } else { 1 };
    let mut random = Random::from_seed(args.get("SEED")?);
    let flows = (0..flows).map(|_| Flow { ports: random_ports(&mut random), sent: 0 }).collect();
    Ok(Box::new(Flows::new(args, kind, flows, (flow_size.max(least), random))?))
}

fn random_ports(random: &mut Random) -> [u8; 4] {
    (random.next_u64() as u32).to_be_bytes()
}

/// Both ports, one higher.
fn next_ports([a, b, c, d]: [u8; 4]) -> [u8; 4] {
    let next = |port: [u8; 2]| u16::from_be_bytes(port).wrapping_add(1).to_be_bytes();
    let ([a, b], [c, d]) = (next([a, b]), next([c, d]));
    [a, b, c, d]
}

impl Flows {
    /// Makes packets of these flows, by the arguments that all have.
    pub(super) fn new(
        args: &Args<'_>,
        kind: Kind,
        flows: Vec<Flow>,
        (flow_size, random): (u32, Random),
    ) -> Result<Flows, ArgErrors> {
        let plan = Plan {
            len: args.get::<usize>("LENGTH")?.clamp(LENGTH_MIN, LENGTH_MAX),
            kind,
            src_ether: args.get("SRCETH")?,
            dst_ether: args.get("DSTETH")?,
            src: args.get("SRCIP")?,
            dst: args.get("DSTIP")?,
        };
        Ok(Flows {
            plan,
            frames: plan.frames(),
            flows,
            flow_size,
            random,
            bucket: bucket(args.get("RATE")?),
            limit: args.get("LIMIT")?,
            active: args.get("ACTIVE")?,
            stop: args.get("STOP")?,
            count: 0,
            first: 0,
            last: 0,
        })
    }

    fn at_limit(&self) -> bool {
        u64::try_from(self.limit).is_ok_and(|limit| self.count >= limit)
    }

    /// A flow that has begun and must be ended.
    fn unfinished(&self) -> Option<usize> {
        let open = |flow: &Flow| flow.sent > 0 && flow.sent < self.flow_size;
        (self.plan.kind == Kind::Tcp).then(|| self.flows.iter().position(open))?
    }

    /// Which frame is next, of which flow; `None` when all are made.
    fn next(&mut self) -> Option<(usize, usize)> {
        if self.at_limit() {
            let flow = self.unfinished()?;
            self.flows[flow].sent = self.flow_size;
            return Some((FIN, flow));
        }
        let at = self.random.below(self.flows.len() as u64) as usize;
        let flow = &mut self.flows[at];
        if self.flow_size > 0 && flow.sent >= self.flow_size {
            let ports = match self.plan.kind {
                Kind::UdpInOrder { .. } => next_ports(flow.ports),
                _ => random_ports(&mut self.random),
            };
            *flow = Flow { ports, sent: 0 };
        }
        flow.sent = flow.sent.saturating_add(1);
        let frame = match (self.plan.kind, flow.sent) {
            (Kind::Tcp, 1) => SYN,
            (Kind::Tcp, sent) if sent == self.flow_size => FIN,
            (Kind::Tcp, _) => DATA,
            _ => 0,
        };
        Some((frame, at))
    }

    /// The next packet, if one is due and there is memory.
    fn make(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        if self.bucket.as_mut().is_some_and(|bucket| !bucket.take(1)) {
            return None;
        }
        // All frames are as long.
        let mut packet = cx.packet(&self.frames[0].bytes)?;
        let (frame, flow) = self.next()?;
        if frame > 0 {
            packet.data_mut().copy_from_slice(&self.frames[frame].bytes);
        }
        self.frames[frame].finish(&mut packet, self.flows[flow].ports);
        packet.set_mac_offset(0);
        packet.set_network(ETHER, IP);
        packet.set_dst_ip(self.plan.dst.octets());
        Some(packet)
    }

    fn is_done(&self) -> bool {
        self.at_limit() && self.unfinished().is_none()
    }

    fn made(&mut self, cx: &mut Cx<'_>) {
        self.count += 1;
        if self.count == 1 {
            self.first = cx.now();
        }
        if self.at_limit() {
            self.last = cx.now();
            if self.stop && self.is_done() {
                cx.stop();
            }
        }
    }

    /// Packets a second, whole; 0 until LIMIT is reached.
    fn rate(&self) -> u64 {
        if self.last == 0 {
            return 0;
        }
        let ms = (self.last.saturating_sub(self.first) / 1_000_000).max(1) as u64;
        self.count.saturating_mul(1_000) / ms
    }

    fn reset(&mut self) {
        (self.count, self.first, self.last) = (0, 0, 0);
    }

    fn change_plan(&mut self, change: impl FnOnce(&mut Plan)) {
        change(&mut self.plan);
        self.plan.len = self.plan.len.clamp(LENGTH_MIN, LENGTH_MAX);
        self.frames = self.plan.frames();
    }

    fn change<T: FromArg>(
        &mut self,
        (name, value): (&str, &str),
        set: impl FnOnce(&mut Plan, T),
    ) -> Result<(), HandlerError> {
        let value = handler_value(name, value)?;
        self.change_plan(|plan| set(plan, value));
        Ok(())
    }
}

impl Element for Flows {
    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize, batch: &mut Batch) {
        if !self.active || self.is_done() {
            return;
        }
        if let Some(bucket) = &mut self.bucket {
            bucket.refill(cx.now());
        }
        while batch.len() < max && !self.is_done() {
            let Some(packet) = self.make(cx) else { break };
            batch.push(packet);
            self.made(cx);
        }
        if batch.is_empty()
            && let Some(at) = self.bucket.as_ref().and_then(|bucket| bucket.ready_at(1))
        {
            cx.clear_timer(AGAIN);
            cx.set_timer(AGAIN, at);
        }
    }
}

impl CostModel for Flows {
    fn cost(&self, load: &Load) -> Option<Vec<Cost>> {
        let lines = Load::lines(load.packet_bytes);
        let mut cost = making(lines);
        if self.plan.kind == Kind::Tcp {
            // All but the first packet of a flow are written over the frame of that.
            let later = 1.0 - 1.0 / f64::from(self.flow_size.max(1));
            cost.push(Operation::CopyLine.times(later * lines));
        }
        let reached = std::mem::size_of_val(self.flows.as_slice()) as f64;
        let flow = Operation::Random.once().reaching(reached, 1.0, Access::Dependent);
        // Ports and checksum.
        cost.extend([flow, Operation::HeaderWrite.once()]);
        Some(cost)
    }

    fn makes(&self) -> Option<Made> {
        let (packet_bytes, sessions) = (self.plan.len as f64, self.flows.len() as f64);
        Some(Made { packet_bytes, sessions, period: f64::INFINITY })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_in_order() {
        assert_eq!(next_ports([0, 255, 255, 255]), [1, 0, 0, 0]);
    }
}

//! What Socket and RawSocket do: packets that enter go out by a socket, what comes from there is
//! emitted. Waits for nothing.

mod datagram;
mod guard;
mod link;
mod plan;
mod stream;

use std::any::Any;

use thruway_element::{
    Arg, ArgErrors, Args, Buffer, Cx, Element, Handlers, HotSwap, Operation, Pressing, Reason, Run,
    Spec, Threading, Topic, Ty,
};
use thruway_packet::{Anno, Batch, MAX_BATCH, Packet, SMALL_FRAME};
use thruway_port::capture::LinkType;

use datagram::DatagramLink;
pub(super) use guard::Guard;
use link::{Link, Lost, Received};
pub(super) use plan::{Kind, Plan};
use stream::StreamLink;
use thruway_elements_captures::encap;

/// What elements over sockets declare.
pub(super) const SOCKET: Spec = Spec {
    topic: Topic::Devices,
    ports: "0-1/0-1",
    processing: "a/h",
    flow: "x/y",
    drops: Lost::DROPS,
    threading: Threading::Task,
    cost: &[Operation::PortReceive.once()],
    ..Spec::DEFAULT
};

/// Arguments that they have in common.
pub(super) const SNAPLEN: Arg =
    Arg::keyword("SNAPLEN", Ty::UInt, "longest packet to receive, bytes").or("2048");
pub(super) const TIMESTAMP: Arg =
    Arg::keyword("TIMESTAMP", Ty::Bool, "whether packets get the time").or("true");
pub(super) const HEADROOM: Arg = Arg::keyword("HEADROOM", Ty::UInt, "accepted").or("128");
pub(super) const BURST: Arg =
    Arg::keyword("BURST", Ty::UInt, "packets per scheduling; the engine's choice if not given");

/// Packets that wait for the socket at most, where they are pushed; large ones count for more, as
/// there are fewer frames for them.
const WAITING_MAX: usize = 1_024;
const LARGE_WEIGHT: usize = 16;
/// Bytes of a stream that make a packet where SNAPLEN is not given: they fit a small frame.
const PIECE: usize = SMALL_FRAME - 128;
/// When a socket that took nothing is tried again, nanoseconds.
const RETRY_NS: i64 = 200_000;
/// Longest packet that can be asked for, bytes: longer than any datagram.
const SNAPLEN_MAX: usize = 65_536;

/// The element.
#[derive(Handlers)]
#[handler(sum, field = count, "packets received")]
#[handler(sum, field = bytes, name = "byte_count", "bytes received")]
#[handler(sum, field = sent, "packets sent")]
#[handler(read, name = "address", "address of the socket; - if it has none", get = self.address(0))]
#[handler(read, name = "peer", "where packets are sent to; - if nowhere", get = self.address(1))]
pub(super) struct Transport {
    plan: Plan,
    link: Box<dyn Link>,
    snaplen: usize,
    timestamps: bool,
    burst: Option<usize>,
    pressing: Pressing,
    /// Packets for the socket, in order.
    waiting: Batch,
    retrying: bool,
    buffer: Vec<u8>,
    batch: Batch,
    count: u64,
    bytes: u64,
    sent: u64,
}

/// What survives a hot swap.
struct Handed {
    plan: Plan,
    link: Box<dyn Link>,
    /// The first of them may be sent in part.
    waiting: Batch,
}

impl Transport {
    /// Of a plan, and of the arguments SNAPLEN, TIMESTAMP and BURST.
    pub(super) fn build(
        args: &Args<'_>,
        plan: Plan,
        guard: Guard,
    ) -> Result<Box<dyn Element>, ArgErrors> {
        let snaplen: usize = args.get("SNAPLEN")?;
        if !(1..=SNAPLEN_MAX).contains(&snaplen) {
            let why = format!("must be from 1 to {SNAPLEN_MAX} bytes");
            return Err(args.error("SNAPLEN", why).into());
        }
        let is_cut = plan.kind == Kind::Stream && !args.given("SNAPLEN");
        let snaplen = if is_cut { snaplen.min(PIECE) } else { snaplen };
        let burst = super::mode::burst(args)?;
        let emits = args.env().outputs > 0;
        let link: Box<dyn Link> = match plan.kind {
            Kind::Stream => Box::new(StreamLink::new(plan.clone(), guard)),
            Kind::Datagram | Kind::Raw(..) => {
                Box::new(DatagramLink::new(plan.clone(), guard, emits))
            }
        };
        Ok(Box::new(Transport {
            plan,
            link,
            snaplen,
            timestamps: args.get("TIMESTAMP")?,
            burst,
            pressing: Pressing::default(),
            waiting: Batch::new(),
            retrying: false,
            buffer: vec![0; snaplen],
            batch: Batch::with_room(),
            count: 0,
            bytes: 0,
            sent: 0,
        }))
    }

    /// Takes what came and emits it; says whether there was anything.
    fn take_in(&mut self, cx: &mut Cx<'_>, max: usize) -> bool {
        let mut any = false;
        for _ in 0..max {
            match self.link.receive(cx, &mut self.buffer) {
                Received::Nothing => break,
                Received::Dropped(why) => cx.count_drops(why, 1),
                Received::Bytes { .. } if cx.outputs() == 0 => cx.count_drops(Lost::Unread, 1),
                Received::Bytes { len, whole_len } => match self.packet(len, whole_len, cx.now()) {
                    Ok(packet) => self.batch.push(packet),
                    Err(why) => cx.count_drops(why, 1),
                },
            }
            any = true;
        }
        self.count += self.batch.len() as u64;
        self.bytes += self.batch.bytes();
        if !self.batch.is_empty() {
            cx.emit_all(0, &mut self.batch);
        }
        any
    }

    /// A packet of the buffer's first bytes.
    fn packet(&self, len: usize, whole_len: usize, now: i64) -> Result<Packet, Reason> {
        let bytes = self.buffer.get(..len).unwrap_or(&self.buffer);
        let mut packet = Packet::new(bytes).ok_or(Reason::NO_MEMORY)?;
        if let Kind::Raw(..) = self.plan.kind {
            if !encap::mark_ip(&mut packet, LinkType::Raw) {
                return Err(Lost::NotIp.into());
            }
            if let Some(&destination) = bytes.get(16..).and_then(|rest| rest.first_chunk()) {
                packet.set_dst_ip(destination);
            }
        }
        if self.timestamps {
            packet.set_timestamp(now);
        }
        let cut = whole_len.saturating_sub(self.snaplen).min(usize::from(u16::MAX));
        if cut > 0 {
            packet.set_anno_number(Anno::EXTRA_LENGTH, cut as u32);
        }
        Ok(packet)
    }

    /// Sends what waits; what must wait longer stays.
    fn send(&mut self, cx: &mut Cx<'_>) {
        if self.waiting.is_empty() {
            return;
        }
        let sent = self.link.send(cx, &mut self.waiting);
        self.sent += sent.packets as u64;
        cx.count_drops(Lost::Refused, sent.refused);
        cx.count_drops(Lost::NotIp, sent.not_ip);
        cx.count_drops(Lost::NotConnected, sent.not_connected);
        self.forget(cx);
    }

    /// Drops packets that wait for a disconnected peer.
    fn forget(&mut self, cx: &mut Cx<'_>) {
        if !self.link.is_connected() {
            cx.drop_all(Lost::NotConnected, &mut self.waiting);
        }
    }
}

/// What a packet that waits counts for.
fn weight(packet: &Packet) -> usize {
    let frame = packet.headroom() + packet.len() + packet.tailroom();
    if frame > SMALL_FRAME { LARGE_WEIGHT } else { 1 }
}

impl Element for Transport {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.link.open(cx)
    }

    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let mut weight: usize = self.waiting.iter().map(weight).sum();
        let fits = batch.iter().take_while(|packet| {
            weight += self::weight(packet);
            weight <= WAITING_MAX
        });
        let fits = fits.count();
        self.waiting.extend(batch.drain_front(fits));
        self.send(cx);
        cx.drop_all(Lost::QueueFull, batch);
        if !self.waiting.is_empty() && !std::mem::replace(&mut self.retrying, true) {
            cx.set_timer(0, cx.now().saturating_add(RETRY_NS));
        }
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        let burst = self.burst.unwrap_or_else(|| cx.burst()).min(MAX_BATCH);
        let mut moved = !self.pressing.is_felt(cx) && self.take_in(cx, burst);
        self.forget(cx);
        if cx.inputs() > 0 && cx.is_pull_input(0) && self.link.is_connected() {
            if self.waiting.is_empty() {
                cx.pull(0, burst, &mut self.waiting);
                moved |= !self.waiting.is_empty();
            }
            self.send(cx);
            if !self.waiting.is_empty() {
                return Run::At(cx.now().saturating_add(RETRY_NS));
            }
        }
        if moved { Run::Again } else { Run::Idle }
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        self.retrying = false;
        self.send(cx);
        if !self.waiting.is_empty() {
            self.retrying = true;
            cx.set_timer(0, cx.now().saturating_add(RETRY_NS));
        }
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.send(cx);
        cx.drop_all(Lost::NotConnected, &mut self.waiting);
        self.link.unwatch(cx);
        self.link = Box::new(stream::Gone);
        Ok(())
    }
}

impl Transport {
    /// Its own address, or that of the other end.
    fn address(&self, which: usize) -> String {
        let [own, peer] = self.link.addresses();
        [own, peer][which].take().unwrap_or_else(|| "-".to_owned())
    }
}

impl HotSwap for Transport {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        let link = std::mem::replace(&mut self.link, Box::new(stream::Gone));
        let waiting = std::mem::take(&mut self.waiting);
        Some(Box::new(Handed { plan: self.plan.clone(), link, waiting }))
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        if let Ok(handed) = state.downcast::<Handed>()
            && handed.plan == self.plan
        {
            (self.link, self.waiting) = (handed.link, handed.waiting);
        }
    }
}

impl Buffer for Transport {
    fn holding(&self) -> usize {
        self.waiting.len()
    }
}

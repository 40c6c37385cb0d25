//! ToDPDKDevice: packets out by DPDK.

use std::any::Any;
use std::sync::Arc;

use thruway_element::{
    Arg, ArgErrors, Args, Buffer, Changes, Cx, Element, Entry, Handlers, HotSwap, Nanos, Operation,
    Replicas, Run, Spec, Threading, Topic, Ty, reasons,
};
use thruway_packet::{Batch, MAX_BATCH};
use thruway_port::dpdk::{Device, Sender};

use super::dpdk::{self, OpenPort, Output, Ports};
use super::handoff::{Claimed, Handoff, Ring};
use super::losses::say;
use super::mode;

/// See the spec.
pub static ENTRY: Entry = Entry::built::<ToDpdkDevice>(
    Spec {
        name: "ToDPDKDevice",
        topic: Topic::Devices,
        summary: "sends packets to a port of DPDK",
        docs: "The port is named as FromDPDKDevice names it. Packets are pulled, BURST at a time, or \
               pushed. They must have their Ethernet header, and right checksums: elements keep these right \
               when they change a packet, so none is left to the port. Their frames go to the driver as they \
               are, so nothing is copied (but a short packet in a large frame). Each thread that \
               pushes has a transmit queue of its own, so a flow leaves in order. Where the port has too \
               few, a thread without one hands its packets to one that has one, which sends them. \
               QUEUE is for an element that one thread reaches.\n\
               When the driver takes no more, packets wait, IQUEUE at most of those that are \
               pushed. If these are there, the thread waits up to a millisecond for the driver, or \
               not at all with BLOCKING false; then packets leave by the output, if there is one, \
               and are dropped otherwise. With TIMEOUT pushed packets wait until there are BURST of \
               them, or for that long.",
        example: "InfiniteSource(LIMIT 1, STOP true) -> ToDPDKDevice(net_null0)",
        ports: "1/0-1",
        processing: "a/h",
        args: &[
            dpdk::PORT,
            Arg::optional("QUEUE", Ty::UInt, "the queue to send by; a free one"),
            Arg::keyword("BURST", Ty::UInt, "packets to pull, or to wait for with TIMEOUT")
                .or("32"),
            Arg::keyword("IQUEUE", Ty::UInt, "packets that wait at most").or("1024"),
            Arg::keyword("BLOCKING", Ty::Bool, "whether to wait when these are there").or("true"),
            Arg::keyword("TIMEOUT", Ty::Time, "to wait for BURST packets; 0: do not").or("0"),
            dpdk::NDESC,
            dpdk::MTU,
            dpdk::VERBOSE,
            Arg::keyword("NUMA", Ty::Bool, "accepted and ignored: queues go to sending threads"),
        ],
        drops: Unsent::DROPS,
        threading: Threading::SharedPullTask,
        changes: Changes::Nothing,
        cost: &[Operation::PortSend.once()],
        replicas: Replicas::Apart(
            "each sends by a queue of its own, or hands over to one that has a queue",
        ),
        ..Spec::DEFAULT
    },
    build,
)
.with_buffer::<ToDpdkDevice>()
.with_hot_swap::<ToDpdkDevice>();

reasons! {
    /// Why a packet is not sent.
    enum Unsent {
        RingFull = "ring-full": "pushed while the driver took none and IQUEUE waited",
        Refused = "refused": "too long or too short for the port",
        Stopped = "stopped": "it waited for the driver when the run ended",
    }
}

/// Times that a full port is tried again before packets are dropped: about a millisecond.
const TRIES: u32 = 10_000;
/// Times that a port is tried at the end of a run.
const LAST_TRIES: u32 = 100_000;
/// When a full port is tried again, nanoseconds.
const RETRY_NS: i64 = 20_000;

#[derive(Handlers)]
#[handler(sum, field = count, "packets sent")]
#[handler(sum, field = bytes, name = "byte_count", "bytes sent")]
#[handler(
    write, name = "reset_counts", "sets the counts to zero",
    run = (self.count, self.bytes) = (0, 0)
)]
#[handler(
    read, name = "hw_count", "packets that the port sent, of all queues",
    get = self.port.counters().sent
)]
#[handler(read, name = "hw_bytes", "their bytes", get = self.port.counters().sent_bytes)]
#[handler(
    read, name = "hw_errors", "packets that the port could not send",
    get = self.port.counters().send_errors
)]
struct ToDpdkDevice {
    output: Output,
    ports: Arc<Ports>,
    sender: Option<Sender>,
    /// To a thread that sends, where this one has no queue.
    ring: Option<Ring>,
    handoff: Handoff,
    #[part]
    port: OpenPort,
    burst: usize,
    waiting_max: usize,
    is_blocking: bool,
    timeout_ns: i64,
    /// Packets for the driver, in order.
    waiting: Batch,
    /// Packets that the driver has not taken, further ahead.
    pending: usize,
    /// A timer is set.
    is_retrying: bool,
    has_run: bool,
    /// Packets that the port refused, and did not send, while it was handed over: to be counted.
    owed: (usize, usize),
    count: u64,
    bytes: u64,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let Nanos(timeout_ns) = args.get("TIMEOUT")?;
    let output = Output {
        port: args.get("PORT")?,
        rank: args.env().rank,
        element: args.name().to_owned(),
        queue: args.opt("QUEUE")?,
        mtu: args.opt("MTU")?,
        slots: args.opt("NDESC")?.unwrap_or(0),
    };
    if output.queue.is_some() && args.env().threads > 1 {
        let why = "several threads reach this element, and each needs a queue of its own: leave it";
        return Err(args.error("QUEUE", why).into());
    }
    let ports = Ports::of(args);
    ports.sends(output.clone());
    Ok(Box::new(ToDpdkDevice {
        output,
        ports,
        sender: None,
        ring: None,
        handoff: Handoff::of(args),
        port: OpenPort::default(),
        burst: mode::burst(args)?.unwrap_or(32).min(MAX_BATCH),
        waiting_max: args.get::<usize>("IQUEUE")?.max(1),
        is_blocking: args.get("BLOCKING")?,
        timeout_ns,
        waiting: Batch::with_room(),
        pending: 0,
        is_retrying: false,
        has_run: false,
        owed: (0, 0),
        count: 0,
        bytes: 0,
    }))
}

impl ToDpdkDevice {
    fn open(&mut self) -> Result<(), String> {
        let (device, sender) = self.ports.sender(&self.output)?;
        let none = || format!("DPDK device '{}' has no queue left to send by", self.output.port);
        match self.handoff.claim(|| sender.ok_or_else(none))? {
            Claimed::Queue(sender) => self.sender = Some(sender),
            Claimed::Ring(ring) => self.ring = Some(*ring),
        }
        self.port.device = Some(device);
        Ok(())
    }

    /// Sends what waits; what must wait longer stays. Says how many packets the port refused.
    #[inline]
    fn send_some(&mut self) -> usize {
        let Some(sender) = &mut self.sender else { return 0 };
        let sent = sender.send(&mut self.waiting);
        self.pending = sent.pending;
        self.count += sent.packets as u64;
        self.bytes += sent.bytes;
        sent.refused
    }

    /// The same, or hands it over.
    #[inline]
    fn send(&mut self, cx: &mut Cx<'_>) {
        if let Some(ring) = &mut self.ring {
            ring.put(&mut self.waiting);
            cx.threads().wake(ring.thread());
            return;
        }
        let refused = self.send_some();
        if refused > 0 {
            cx.count_drops(Unsent::Refused, refused);
        }
    }

    /// Sends what other threads handed over.
    #[inline]
    fn serve(&mut self, cx: &mut Cx<'_>) -> Run {
        let room = self.waiting_max.saturating_sub(self.waiting.len());
        if self.handoff.take(room, &mut self.waiting) == 0 {
            return Run::Idle;
        }
        self.send(cx);
        self.retry(cx, RETRY_NS);
        Run::Again
    }

    /// Sends all that waits, as far as the driver takes it in some time, and gives the queue back.
    fn end(&mut self) {
        for _ in 0..LAST_TRIES {
            self.owed.0 += self.send_some();
            if self.sender.is_none() || !self.must_retry() {
                break;
            }
            std::hint::spin_loop();
        }
        let unsent = self.sender.take().map_or(0, Sender::close);
        self.pending = 0;
        self.count = self.count.saturating_sub(unsent as u64);
        self.owed.1 += unsent;
    }

    /// Too many wait: gives the driver some time, and up what it then has not taken.
    #[cold]
    fn press(&mut self, cx: &mut Cx<'_>) {
        let tries = if self.is_blocking { TRIES } else { 0 };
        for _ in 0..tries {
            self.send(cx);
            if self.waiting.len() <= self.waiting_max {
                return;
            }
            std::hint::spin_loop();
        }
        let mut kept = Batch::new();
        kept.extend(self.waiting.drain_front(self.waiting_max));
        for packet in self.waiting.drain() {
            cx.reject(0, Unsent::RingFull, packet);
        }
        self.waiting = kept;
    }

    /// Whether something waits, here or further ahead.
    #[inline]
    fn must_retry(&self) -> bool {
        self.pending > 0 || !self.waiting.is_empty()
    }

    /// Asks for another try later.
    fn retry(&mut self, cx: &mut Cx<'_>, after_ns: i64) {
        if self.must_retry() && !std::mem::replace(&mut self.is_retrying, true) {
            cx.set_timer(0, cx.now().saturating_add(after_ns));
        }
    }

    fn begin(&mut self) {
        if !std::mem::replace(&mut self.has_run, true) {
            self.ports.let_go();
        }
    }
}

impl Element for ToDpdkDevice {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.open()?;
        let line = match (&self.ring, &self.port.device) {
            (Some(ring), _) => Some(format!(
                "no queue to send by is left for thread {}: thread {} sends for it",
                self.handoff.thread(),
                ring.thread()
            )),
            (None, Some(device)) if self.output.rank == 0 => Some(device.describe()),
            _ => None,
        };
        if let Some(line) = line {
            say(cx, &self.output.port, &line);
        }
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        self.begin();
        self.waiting.append(batch);
        if self.timeout_ns > 0 && self.waiting.len() < self.burst {
            self.retry(cx, self.timeout_ns);
            return;
        }
        self.send(cx);
        if self.must_retry() {
            if self.waiting.len() > self.waiting_max {
                self.press(cx);
            }
            self.retry(cx, RETRY_NS);
        }
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        self.begin();
        if !cx.is_pull_input(0) {
            return self.serve(cx);
        }
        if self.waiting.is_empty() {
            cx.pull(0, self.burst, &mut self.waiting);
            if !self.must_retry() {
                return Run::Idle;
            }
        }
        self.send(cx);
        match self.must_retry() {
            false => Run::Again,
            true => Run::At(cx.now().saturating_add(RETRY_NS)),
        }
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        self.is_retrying = false;
        self.send(cx);
        self.retry(cx, RETRY_NS);
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.handoff.close(&mut self.waiting);
        self.send(cx);
        self.end();
        let (refused, unsent) = std::mem::take(&mut self.owed);
        cx.count_drops(Unsent::Refused, refused);
        cx.count_drops(Unsent::Stopped, unsent + self.ring.as_ref().map_or(0, Ring::lost));
        cx.drop_all(Unsent::Stopped, &mut self.waiting);
        self.ports.let_go();
        self.port.rest();
        Ok(())
    }
}

impl HotSwap for ToDpdkDevice {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        // Earlier packets go first. The port keeps running; its queues are free for other elements.
        if self.sender.is_some() {
            self.handoff.take(usize::MAX, &mut self.waiting);
            self.end();
        }
        Some(Box::new(self.port.device.take()))
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        let Ok(device) = state.downcast::<Option<Arc<Device>>>() else { return };
        if let Some(device) = *device {
            self.ports.keep(device);
        }
        if self.has_run {
            // The configuration that was to replace this one could not be initialised. If the port
            // is gone meanwhile, packets wait and are dropped.
            if self.ring.is_none() {
                let _ = self.open();
            }
            self.ports.let_go();
        }
    }
}

impl Buffer for ToDpdkDevice {
    fn holding(&self) -> usize {
        self.ring.as_ref().map_or(0, Ring::len)
    }
}

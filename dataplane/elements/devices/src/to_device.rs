//! ToDevice: packets out by a port.

mod hot_swap;

use std::any::Any;
use std::sync::Arc;

use thruway_element::{
    Arg, ArgErrors, Args, Buffer, Changes, Cx, Element, Entry, HandlerError, Handlers, Operation,
    PROBE_TAG, Purpose, Replicas, Run, ShortCut, Spec, Threading, Topic, Ty, reasons,
};
use thruway_packet::{Batch, MAX_BATCH};
use thruway_port::capture::WriterOptions;

use super::device_out::{Claim, DeviceOut, Sent};
use super::handoff::Handoff;
use super::losses::complain;
use super::mode::{self, Method, PortRequest};
use super::port_spec::{Direction, PortSpec, Ports};
use thruway_elements_captures::capture_out::CaptureOut;
use thruway_elements_captures::encap;

/// See the spec.
pub static ENTRY: Entry = Entry::built::<ToDevice>(
    Spec {
        name: "ToDevice",
        topic: Topic::Devices,
        summary: "sends packets to a network interface, or to a capture in its place",
        docs: "The port is an interface of this host; or `pcap:FILE`, a capture that is written in \
               its place; or `pcap:IN>OUT`, where one name stands for both directions of a port \
               (either may be left out); or `none`, which drops. (Captures and `none` are this \
               program's own; Click knows interfaces only.) ENCAP is the link type of the \
               capture.\n\
               Packets are pulled, BURST at a time, or pushed. They must have their link-layer \
               header. When the interface's queue is full, packets wait and are tried again; of \
               those that are pushed, no more than 1,024 wait. Packets that cannot be sent leave \
               by the output, if there is one, and are dropped otherwise.\n\
               An interface that a FromDevice reads is used by the same method, AF_XDP or packet \
               sockets, and its sockets are shared; any other one by the best working method, as \
               in FromDevice. A line at start-up says which and why. METHOD XDP asks for AF_XDP \
               or nothing, METHOD LINUX for packet sockets. By AF_XDP packets leave by one QUEUE. \
               Where packets are pushed it is taken with the first one, by the thread that pushes; \
               another thread that pushes, too, takes another queue. Where none is left it hands its \
               packets to a thread that has one, which sends them; while 1,024 wait for that, they \
               wait as for a full queue. If other elements have all queues, it takes a packet \
               socket. A line says which.\n\
               A file that another port reads is not written over. IGNORE_QUEUE_OVERFLOWS and SET_ERROR_ANNO are accepted and ignored: overflows are \
               counted, not printed.",
        example: "FromDevice(pcap:in.pcap) -> Queue -> ToDevice(pcap:out.pcap)",
        ports: "1/0-1",
        processing: "a/h",
        args: &[
            Arg::required("DEVNAME", Ty::Str, "an interface, pcap:FILE, pcap:IN>OUT, or none"),
            Arg::keyword(
                "BURST",
                Ty::UInt,
                "packets to pull at once; the engine's choice if not \
                          given",
            ),
            mode::METHOD,
            mode::QUEUE,
            Arg::keyword("ENCAP", Ty::Str, "what packets begin with, for a capture").or("ETHER"),
            Arg::keyword("IGNORE_QUEUE_OVERFLOWS", Ty::Bool, "accepted and ignored").or("false"),
            Arg::keyword("SET_ERROR_ANNO", Ty::Bool, "accepted and ignored").or("false"),
        ],
        drops: Unsent::DROPS,
        threading: Threading::SharedPullTask,
        changes: Changes::Nothing,
        cost: &[Operation::PortSend.once()],
        replicas: Replicas::Apart(
            "each sends by a queue of its own, or hands over to one that has a queue",
        ),
        purpose: Purpose::SendToDevice,
        short_cut: ShortCut::Leaves,
        large_packets: true,
        ..Spec::DEFAULT
    },
    build,
)
.with_buffer::<ToDevice>()
.with_hot_swap::<ToDevice>()
.with_resize::<ToDevice>();

reasons! {
    /// Why a packet is not sent.
    enum Unsent {
        RingFull = "ring-full": "pushed while the interface's queue was full and 1,024 waited",
        Refused = "refused": "too long or too short for the interface",
        Failed = "interface-failed": "the interface is down or gone",
        NotWritten = "not-written": "the capture could not be written",
        Nowhere = "no-port": "the port is none",
        Stopped = "stopped": "it waited for the interface when the run ended",
    }
}

/// Packets that wait for the interface at most, where they are pushed.
const WAITING_MAX: usize = 1024;
/// When a full queue is tried again, nanoseconds.
const RETRY_NS: i64 = 50_000;
/// Token of the timer that looks whether an interface that failed came again, or one that refused
/// packets takes them now, and how often it does, nanoseconds.
const FOLLOW: u32 = 1;
const FOLLOW_NS: i64 = 500_000_000;

/// Where packets go.
enum Sink {
    Interface(String),
    Live(Box<DeviceOut>),
    Capture(CaptureOut, WriterOptions),
    Nothing,
    /// An interface that the configuration has which replaces this one.
    HandedOver(String),
}

#[derive(Handlers)]
#[handler(sum, field = count, "packets sent")]
#[handler(sum, field = bytes, name = "byte_count", "bytes sent")]
#[handler(
    read, name = "method", "of an interface: the method in use, and why; - if none",
    read = self.read_method()
)]
#[handler(
    write, name = "reset_counts", "sets the counts to zero",
    run = (self.count, self.bytes) = (0, 0)
)]
struct ToDevice {
    name: String,
    sink: Sink,
    ports: Arc<Ports>,
    /// How an interface is to be used, where the port is one.
    request: Option<PortRequest>,
    burst: Option<usize>,
    /// What threads without a transmit queue hand to those that have one.
    handoff: Handoff,
    /// Packets for the interface, in order.
    waiting: Batch,
    retrying: bool,
    /// The interface's ring has packets that the kernel does not send without another call.
    is_pending: bool,
    /// Of the configuration that this one replaces.
    inherited: Option<Box<DeviceOut>>,
    /// What further replicas of that one had.
    others: Vec<Box<dyn Any + Send>>,
    /// An error was reported and nothing was sent since.
    complained: bool,
    /// The interface is to be looked at soon.
    following: bool,
    /// Packets that the interface refused while it was handed over, to be counted.
    owed: usize,
    count: u64,
    bytes: u64,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let link = encap::parse(&args.get::<String>("ENCAP")?);
    let link = link.map_err(|message| args.error("ENCAP", message))?;
    let burst = mode::burst(args)?;
    let mut request = None;
    let sink = match PortSpec::of(args, Direction::Out)? {
        PortSpec::Interface(name) => {
            let how = PortRequest::of(args)?;
            Ports::of(args).writes(&name, how.method.clone());
            request = Some(how);
            Sink::Interface(name)
        }
        PortSpec::Capture(path) => {
            let options = WriterOptions { link, ..WriterOptions::default() };
            Sink::Capture(CaptureOut::new(args, path), options)
        }
        PortSpec::Nothing => Sink::Nothing,
    };
    Ok(Box::new(ToDevice {
        name: args.name().to_owned(),
        sink,
        ports: Ports::of(args),
        request,
        burst,
        handoff: Handoff::of(args),
        waiting: Batch::new(),
        retrying: false,
        is_pending: false,
        inherited: None,
        others: Vec::new(),
        complained: false,
        following: false,
        owed: 0,
        count: 0,
        bytes: 0,
    }))
}

impl ToDevice {
    /// Sends what waits; what must wait longer stays.
    fn send(&mut self, cx: &mut Cx<'_>) {
        if self.waiting.is_empty() && !self.is_pending {
            return;
        }
        let sent = match &mut self.sink {
            Sink::Live(live) => live.send(&mut self.waiting, &self.handoff),
            Sink::Capture(out, _) => {
                let written = out.write(&self.waiting, cx.now());
                let lost = self.waiting.len() - written.packets;
                self.waiting.clear();
                cx.count_drops(Unsent::NotWritten, lost);
                self.ports.count_sent(written.packets);
                Sent {
                    packets: written.packets,
                    bytes: written.bytes,
                    error: written.error,
                    ..Sent::default()
                }
            }
            Sink::Nothing | Sink::Interface(_) => {
                self.ports.count_sent(self.waiting.len());
                cx.drop_all(Unsent::Nowhere, &mut self.waiting);
                return;
            }
            // If it is still used the other configuration failed.
            Sink::HandedOver(_) => return self.look_later(cx),
        };
        if let Some(thread) = sent.handed_to {
            cx.threads().wake(thread);
        }
        self.is_pending = sent.pending > 0;
        cx.count_drops(Unsent::Refused, sent.refused);
        for packet in self.waiting.drain_front(sent.failed) {
            cx.reject(0, Unsent::Failed, packet);
        }
        if let (Some(mode), Sink::Live(live)) = (&sent.changed, &self.sink) {
            self.report(cx, &format!("interface '{}': {mode}", live.name()));
        }
        if sent.packets > 0 && std::mem::take(&mut self.complained) {
            self.ports.is_over(&self.name);
        }
        self.count += sent.packets as u64;
        self.bytes += sent.bytes;
        if let Some(error) = sent.error
            && !std::mem::replace(&mut self.complained, true)
        {
            self.report(cx, &error);
        }
        if self.complained || sent.refused > 0 {
            self.look_later(cx);
        }
    }

    /// Counts what left by short cuts, and says where they lead.
    #[cold]
    fn take_probe(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let [packets, bytes] = cx.stands_for().unwrap_or_default();
        self.count += packets;
        self.bytes += bytes;
        let egress = if let Sink::Live(live) = &self.sink { live.egress() } else { None };
        cx.end_probe(batch, egress);
    }

    /// Sends all that waits, as far as the interface takes it at once.
    fn send_all(&mut self, cx: &mut Cx<'_>) {
        loop {
            let before = self.waiting.len();
            self.send(cx);
            if self.waiting.is_empty() || self.waiting.len() >= before {
                return;
            }
        }
    }

    /// Sends what other threads handed over.
    #[inline]
    fn serve(&mut self, cx: &mut Cx<'_>) -> Run {
        let room = WAITING_MAX.saturating_sub(self.waiting.len());
        if self.handoff.take(room, &mut self.waiting) == 0 {
            return Run::Idle;
        }
        self.send(cx);
        self.retry(cx);
        Run::Again
    }

    /// Sends what came before the interface is handed over: what follows is another element's.
    fn flush(&mut self, live: &mut DeviceOut) {
        self.handoff.take(usize::MAX, &mut self.waiting);
        loop {
            let before = self.waiting.len();
            let sent = live.send(&mut self.waiting, &self.handoff);
            self.count += sent.packets as u64;
            self.bytes += sent.bytes;
            self.owed += sent.refused;
            if sent.error.is_some() || self.waiting.is_empty() || self.waiting.len() >= before {
                return;
            }
        }
    }

    /// Has the kernel send what is in the rings of other replicas.
    fn send_pending(&mut self) {
        for other in &mut self.others {
            if let Some(out) = other.downcast_mut::<DeviceOut>() {
                let _ = out.send(&mut Batch::new(), &self.handoff);
            }
        }
    }

    /// Counts what the kernel did not send, here and in the rings of other replicas.
    fn count_lost(&self, cx: &mut Cx<'_>) {
        if let Sink::Live(live) = &self.sink {
            cx.count_drops(Unsent::Stopped, live.lost());
        }
        let others = self.others.iter().filter_map(|other| other.downcast_ref::<DeviceOut>());
        cx.count_drops(Unsent::Stopped, others.map(DeviceOut::lost).sum());
    }

    /// Shows the user a report that no replica has made yet.
    fn report(&self, cx: &mut Cx<'_>, what: &str) {
        if self.ports.is_news(&self.name, what) {
            complain(cx, what);
        }
    }

    /// Asks for a look at the interface.
    fn look_later(&mut self, cx: &mut Cx<'_>) {
        if !std::mem::replace(&mut self.following, true) {
            cx.set_timer(FOLLOW, cx.now().saturating_add(FOLLOW_NS));
        }
    }

    /// The interface, opened as the wish of a FromDevice of the same interface says, or its own.
    fn open(&mut self, name: &str, at_once: bool) -> Result<Box<DeviceOut>, String> {
        let own = self.request.as_ref().ok_or("it is no interface")?;
        let must = own.queue.is_some() || own.method == Method::Xdp;
        let request = self.ports.request_of(name, own);
        if let Some(live) = self.inherited.take().filter(|live| live.fits(name, &request)) {
            return Ok(live);
        }
        Ok(Box::new(DeviceOut::open(name, &request, Claim { must, at_once })?))
    }

    /// The interface failed, or refused packets: looks whether it takes longer ones now; opens it
    /// again if it went and another one came that has its name, or if it was given away in vain.
    fn follow(&mut self, cx: &mut Cx<'_>) {
        self.following = false;
        if let Some(name) = self.to_open()
            && let Ok(next) = self.open(&name, cx.is_pull_input(0))
        {
            self.complained = false;
            self.report(cx, &format!("interface '{name}': {}", next.mode()));
            self.sink = Sink::Live(next);
            return;
        }
        if let Sink::Live(live) = &self.sink {
            live.refresh();
        }
        if self.complained {
            self.look_later(cx);
        }
    }

    /// The interface that is to be opened again.
    fn to_open(&self) -> Option<String> {
        match &self.sink {
            Sink::Live(live) => live.has_a_successor().then(|| live.name().to_owned()),
            Sink::HandedOver(name) => Some(name.clone()),
            Sink::Interface(_) | Sink::Capture(..) | Sink::Nothing => None,
        }
    }

    /// Whether something waits for the interface, here or in its ring.
    fn must_retry(&self) -> bool {
        self.is_pending || !self.waiting.is_empty()
    }

    /// Asks for another try later.
    fn retry(&mut self, cx: &mut Cx<'_>) {
        if self.must_retry() && !std::mem::replace(&mut self.retrying, true) {
            cx.set_timer(0, cx.now().saturating_add(RETRY_NS));
        }
    }
}

impl Element for ToDevice {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if let Sink::Interface(name) = &self.sink
            && self.request.is_some()
        {
            let name = name.clone();
            let live = self.open(&name, cx.is_pull_input(0))?;
            live.offer(&self.handoff);
            self.send_pending();
            self.report(cx, &format!("interface '{name}': {}", live.mode()));
            self.sink = Sink::Live(live);
        }
        match &mut self.sink {
            Sink::Capture(out, _) if self.ports.is_read(out.path()) => Err(format!(
                "'{}' is read by a port and would be written over; write pcap:IN>OUT",
                out.path()
            )),
            Sink::Capture(out, options) => out.create(options),
            Sink::Interface(_) | Sink::Live(_) | Sink::Nothing | Sink::HandedOver(_) => Ok(()),
        }
    }

    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        if cx.is_probe() && batch.iter().any(|packet| packet.tag() == PROBE_TAG) {
            return self.take_probe(cx, batch);
        }
        let room = WAITING_MAX.saturating_sub(self.waiting.len());
        if batch.len() <= room {
            self.waiting.append(batch);
        } else {
            self.waiting.extend(batch.drain_front(room));
            for packet in batch.drain() {
                cx.reject(0, Unsent::RingFull, packet);
            }
        }
        self.send(cx);
        self.retry(cx);
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        if !cx.is_pull_input(0) {
            return self.serve(cx);
        }
        if self.waiting.is_empty() {
            let burst = self.burst.unwrap_or_else(|| cx.burst()).min(MAX_BATCH);
            cx.pull(0, burst, &mut self.waiting);
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

    fn timer(&mut self, cx: &mut Cx<'_>, token: u32) {
        if token == FOLLOW {
            self.follow(cx);
            return;
        }
        self.retrying = false;
        self.send(cx);
        self.retry(cx);
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.handoff.close(&mut self.waiting);
        self.send_all(cx);
        cx.drop_all(Unsent::Stopped, &mut self.waiting);
        cx.count_drops(Unsent::Refused, std::mem::take(&mut self.owed));
        self.count_lost(cx);
        match &mut self.sink {
            Sink::Capture(out, _) => out.finish(),
            _ => Ok(()),
        }
    }
}

impl ToDevice {
    fn read_method(&mut self) -> Result<String, HandlerError> {
        Ok(match &self.sink {
            Sink::Live(live) => live.mode().to_owned(),
            _ => "-".to_owned(),
        })
    }
}

impl Buffer for ToDevice {
    fn holding(&self) -> usize {
        if let Sink::Live(live) = &self.sink { live.holding() } else { 0 }
    }
}

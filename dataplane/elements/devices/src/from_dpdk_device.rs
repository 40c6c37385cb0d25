//! FromDPDKDevice: packets in by DPDK.

use std::any::Any;
use std::sync::Arc;

use thruway_element::{
    Arg, ArgErrors, Args, Cx, Element, Entry, HandlerError, Handlers, HotSwap, Nanos, Operation,
    Reason, Replicas, Run, Spec, Threading, Topic, Ty, reasons,
};
use thruway_packet::{Batch, MAX_BATCH};
use thruway_port::dpdk::{Counters, Device, Receiver};

use super::dpdk::{self, Input, Marks, Offload, OpenPort, Ports};
use super::losses::say;
use super::mode;
use super::sharing;

/// See the spec.
pub static ENTRY: Entry = Entry::built::<FromDpdkDevice>(
    Spec {
        name: "FromDPDKDevice",
        topic: Topic::Devices,
        summary: "reads packets from a port of DPDK",
        docs: "The port is a network card by its PCI address, bound to vfio-pci (0000:02:00.0); or \
               a virtual device of DPDK with its arguments, in quotes for the sake of the commas: \
               \"net_tap0,iface=x\", net_null0, \"net_pcap0,rx_pcap=FILE\", \
               \"net_af_packet0,iface=x\", net_ring0; or the number of a port that DPDK has \
               (DPDKInfo). The host's stack does not see such a card. The driver \
               writes into the frames of the packet memory, so nothing is copied.\n\
               Packets bear the time of their reading, the mark of their Ethernet header, and \
               whether they were for this port's address, for all, for a group or for others. A \
               packet in pieces is put together; a packet with an IPv4 header checksum that \
               the port found wrong is dropped: ports with this offload are asked to check \
               (CHECKSUM; of elements that share a port one is enough; see offloads). What a port \
               could not judge passes, so CheckIPHeader is no less needed. Checksums of TCP \
               and UDP are the receiving host's business.\n\
               With several threads (`thruway run -j`) all of them read the port, those on cores of \
               its NUMA node where there are any, each by a queue of its own; with N_QUEUES more or \
               fewer queues are dealt to them, and no more threads read than there are queues. \
               MAXTHREADS, THREADOFFSET, NUMA and THREADS (of this program alone) say otherwise; \
               StaticThreadSched places it in one thread. Several FromDPDKDevice of one port share \
               it, too: each has queues from QUEUE on, or the next free ones. The port spreads \
               packets over all these queues by a hash of addresses and ports that is the same in \
               both directions of a connection, where the driver can (see device). A port that \
               has fewer queues than threads is refused: say MAXTHREADS.\n\
               DPDK's drivers do not wake sleeping threads: the port is polled continuously, and \
               after an idle time every SLEEP. With SLEEP 0 it is always polled continuously.\n\
               What the port dropped is counted here, of queues that several elements read at the \
               one that has the first. The Ethernet port is closed when no element uses it any \
               more. A configuration that replaces this one goes on with the port.\n\
               With OFFLOAD FLOW, and a FlowClassifier directly behind, the card gets rules of \
               rte_flow when packets begin to flow: it drops what the classifier would drop \
               (unwanted-offloaded, where the card counts), and marks other packets with their \
               class, so that they are not classified again (the classifier's handler tagged). The \
               card is asked about each rule. A line says what it does, what it refuses and what \
               stays with the chain, which then classifies it; if no rule is possible it says why. \
               The rules go with the run, and before another configuration's first packet. Only \
               this FromDPDKDevice may read the port (docs/offload.md).\n\
               ALLMULTI, RSS_AGGREGATE and other offloads by name are not supported.",
        example: "FromDPDKDevice(net_null0) -> Counter -> Discard",
        ports: "0/1",
        processing: "/h",
        args: &[
            dpdk::PORT,
            dpdk::QUEUE,
            dpdk::N_QUEUES,
            Arg::keyword("PROMISC", Ty::Bool, "whether to read packets for other hosts").or("true"),
            Arg::keyword("BURST", Ty::UInt, "packets to read at once; 32").or("32"),
            dpdk::NDESC,
            dpdk::MTU,
            Arg::keyword("SLEEP", Ty::Time, "between looks at an idle port; 0: never").or("50us"),
            Arg::keyword("ACTIVE", Ty::Bool, "whether it reads packets").or("true"),
            Arg::keyword("CHECKSUM", Ty::Bool, "whether the port checks IPv4 headers, if it can")
                .or("true"),
            dpdk::OFFLOAD,
            dpdk::VERBOSE,
            sharing::THREADS,
            sharing::MAXTHREADS,
            sharing::THREADOFFSET,
            sharing::NUMA,
        ],
        drops: Lost::DROPS,
        threading: Threading::Task,
        cost: &[Operation::PortReceive.once()],
        replicas: Replicas::Apart("each reads a queue of its own"),
        ..Spec::DEFAULT
    },
    build,
)
.shared_by(dpdk::shares)
.with_hot_swap::<FromDpdkDevice>();

reasons! {
    /// Why a packet that reached the port is not emitted.
    enum Lost {
        Missed = "missed": "it came faster than it was read",
        Damaged = "damaged": "the port found it damaged",
        BadChecksum = "bad-checksum": "the port found the checksum of its IPv4 header wrong",
        TooLong = "too-long": "longer than any frame has room for",
        Unwanted = "unwanted-offloaded": "nobody behind sends it anywhere: dropped by the card",
    }
}

/// Runs without a packet after which the thread may sleep: about 50 us of looking.
const LOOKS: u32 = 1000;
/// How often the port is asked what it dropped.
const STATISTICS_NS: i64 = 1_000_000_000;

#[derive(Handlers)]
#[handler(sum, field = count, "packets in")]
#[handler(sum, field = bytes, name = "byte_count", "bytes in")]
#[handler(
    write, name = "reset_counts", "sets the counts to zero",
    run = (self.count, self.bytes) = (0, 0)
)]
#[handler(
    read, name = "hw_count", "packets that the port received, of all queues",
    get = self.port.counters().received
)]
#[handler(read, name = "hw_bytes", "their bytes", get = self.port.counters().received_bytes)]
#[handler(
    read, name = "hw_dropped", "packets that the port dropped, of all queues",
    read = self.read_hw_dropped()
)]
#[handler(
    read, name = "queues", "the queues that it reads, in all threads: 0-1",
    read = self.read_queues()
)]
struct FromDpdkDevice {
    input: Input,
    ports: Arc<Ports>,
    receiver: Option<Receiver>,
    #[part]
    port: OpenPort,
    offload: Offload,
    marks: Marks,
    /// Whether what the port dropped is reported here.
    speaks: bool,
    reported: Counters,
    /// Whether ports of the configuration before may go.
    has_run: bool,
    burst: usize,
    sleep_ns: i64,
    /// whether it reads packets
    #[handler(
        read, name = "offloads", "the port's checks of packets, and whether they are used",
        read = self.port.ask(name, param)
    )]
    #[handler(both)]
    active: bool,
    /// Runs without a packet.
    looks: u32,
    count: u64,
    bytes: u64,
    batch: Batch,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let burst = mode::burst(args)?.unwrap_or(32).min(MAX_BATCH);
    let threads = args.env().threads;
    let queues = dpdk::wanted(args)?.unwrap_or(threads as u16);
    let Nanos(sleep_ns) = args.get("SLEEP")?;
    let input = Input {
        element: args.name().to_owned(),
        port: args.get("PORT")?,
        first: args.opt("QUEUE")?,
        queues,
        threads,
        rank: args.env().rank,
        promiscuous: args.get("PROMISC")?,
        checks: args.get("CHECKSUM")?,
        mtu: args.opt("MTU")?,
        slots: args.opt("NDESC")?.unwrap_or(0),
    };
    let ports = Ports::of(args);
    ports.receives(input.clone());
    let offload = Offload::of(args)?;
    Ok(Box::new(FromDpdkDevice {
        input,
        ports,
        receiver: None,
        port: OpenPort::default(),
        marks: Marks::new(Arc::clone(offload.number())),
        offload,
        speaks: false,
        reported: Counters::default(),
        has_run: false,
        burst,
        sleep_ns: sleep_ns.max(0),
        active: args.get("ACTIVE")?,
        looks: 0,
        count: 0,
        bytes: 0,
        batch: Batch::with_room(),
    }))
}

impl FromDpdkDevice {
    fn open(&mut self) -> Result<(), String> {
        let receiver = self.ports.receiver(&self.input)?;
        self.speaks = receiver.queues().start == 0;
        self.reported = receiver.device().counters();
        self.port.device = Some(Arc::clone(receiver.device()));
        self.receiver = Some(receiver);
        Ok(())
    }

    /// Counts what the port dropped since the last time.
    fn count_drops(&mut self, cx: &mut Cx<'_>) {
        let Some(receiver) = self.receiver.as_ref().filter(|_| self.speaks) else { return };
        let now = receiver.device().counters();
        let before = std::mem::replace(&mut self.reported, now);
        let news = |of: fn(&Counters) -> u64| of(&now).saturating_sub(of(&before)) as usize;
        cx.count_drops(Lost::Missed, news(|counters| counters.missed));
        cx.count_drops(Lost::Damaged, news(|counters| counters.receive_errors));
        cx.count_drops(Reason::NO_MEMORY, news(|counters| counters.no_frame));
    }

    /// Counts what the card dropped as unwanted since the last time.
    fn count_unwanted(&mut self, cx: &mut Cx<'_>, all: bool) {
        let dropped = self.offload.dropped(all);
        cx.count_made(dropped);
        cx.count_drops(Lost::Unwanted, dropped);
    }

    /// Packets begin to flow.
    #[cold]
    fn begin(&mut self, cx: &mut Cx<'_>) {
        self.has_run = true;
        self.ports.let_go();
        let is_mine = self.input.rank == 0 && self.offload.is_waiting();
        if let Some(device) = self.port.device.as_ref().filter(|_| is_mine) {
            self.offload.begin(cx, device, self.ports.readers(&self.input.port));
        }
    }

    /// Nothing came: when to look again.
    fn rest(&mut self, cx: &Cx<'_>) -> Run {
        self.looks = self.looks.saturating_add(1);
        if self.looks < LOOKS || self.sleep_ns == 0 {
            return Run::Again;
        }
        Run::At(cx.now().saturating_add(self.sleep_ns))
    }
}

impl Element for FromDpdkDevice {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.open()?;
        if let Some(device) = self.port.device.as_ref().filter(|_| self.input.rank == 0) {
            let line = device.describe();
            say(cx, &self.input.port, &line);
        }
        if self.input.rank == 0 {
            self.offload.prepare(cx);
        }
        cx.set_timer(0, cx.now().saturating_add(STATISTICS_NS));
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        if !self.has_run {
            self.begin(cx);
        }
        let Some(receiver) = self.receiver.as_mut().filter(|_| self.active) else {
            return Run::Idle;
        };
        self.marks.follow(cx, receiver);
        let received = receiver.receive(self.burst, cx.now(), &mut self.batch);
        cx.count_drops(Lost::TooLong, received.too_long);
        cx.count_drops(Lost::BadChecksum, received.bad_checksum);
        if received.packets == 0 {
            return self.rest(cx);
        }
        self.looks = 0;
        self.marks.take(&mut self.batch);
        self.count += received.packets as u64;
        self.bytes += received.bytes;
        cx.emit_all(0, &mut self.batch);
        Run::Again
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        self.count_drops(cx);
        self.count_unwanted(cx, false);
        cx.set_timer(0, cx.now().saturating_add(STATISTICS_NS));
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.count_drops(cx);
        self.count_unwanted(cx, true);
        self.offload.end();
        self.ports.let_go();
        self.receiver = None;
        self.port.rest();
        Ok(())
    }
}

impl FromDpdkDevice {
    fn read_hw_dropped(&mut self) -> Result<String, HandlerError> {
        let Counters { missed, receive_errors, no_frame, .. } = self.port.counters();
        Ok((missed + receive_errors + no_frame).to_string())
    }

    fn read_queues(&mut self) -> Result<String, HandlerError> {
        Ok(match self.ports.queues(&self.input) {
            _ if self.receiver.is_none() => "-".to_owned(),
            queues if queues.len() == 1 => queues.start.to_string(),
            queues => format!("{}-{}", queues.start, queues.end - 1),
        })
    }
}

impl HotSwap for FromDpdkDevice {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        // The port keeps running; its queues are free for other elements. Its rules are not those
        // of the configuration that comes.
        self.offload.pause();
        self.receiver = None;
        Some(Box::new(self.port.device.take()))
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        let Ok(device) = state.downcast::<Option<Arc<Device>>>() else { return };
        if let Some(device) = *device {
            self.ports.keep(device);
        }
        if self.has_run {
            // The configuration that was to replace this one could not be initialised. If the port
            // is gone meanwhile, there is nothing to receive.
            let _ = self.open();
            self.ports.let_go();
            // Rules come again with the next packets.
            self.has_run = !self.offload.is_waiting();
        }
    }
}

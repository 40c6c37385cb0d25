//! FromDevice: packets in by a port.

mod handlers;
mod hot_swap;
mod passing;

use std::sync::Arc;

use thruway_element::{
    Arg, ArgErrors, Args, Cx, Element, Entry, Handlers, Operation, Purpose, Replicas, Run,
    SHORT_CUT_TIMER, Spec, Threading, Topic, Ty,
};
use thruway_packet::{Batch, MAX_BATCH};
use thruway_port::af_packet::PacketOptions;
use thruway_port::capture::LinkType;

use super::changeover;
use super::device_in::DeviceIn;
use super::drop_stage::{self, Offload};
use super::in_order::{Filled, Turn};
use super::losses::Lost;
use super::mode::{self, PortRequest};
use super::port_spec::{Direction, PortSpec, Ports};
use super::shape::Shape;
use super::shared_port::{How, SharedPort};
use super::sharing;
use super::short_cuts::{self, PortShortCuts};
use super::watched_link::{WatchedLink, warn_of_host};
use thruway_elements_captures::capture_in::CaptureIn;
use thruway_elements_captures::encap;

/// See the spec.
pub static ENTRY: Entry = Entry::built::<FromDevice>(
    Spec {
        name: "FromDevice",
        topic: Topic::Devices,
        summary: "reads packets from a network interface, or from a capture in its place",
        docs: "The port is an interface of this host; or `pcap:FILE`, a capture in its place; or \
               `pcap:IN>OUT`, where one name stands for both directions of a port (either may be \
               left out); or `none`. So a configuration runs unchanged over captures and live. \
               (Captures and `none` are this program's own; Click knows interfaces only.) Captures of one \
               configuration are read in the order of their packets' times.\n\
               Packets bear the time of their arrival, the mark of their link-layer header, and \
               whether they were for this host, for all, for a group or for others. From an \
               interface they are whole: checksums and segments that a sender left to the hardware \
               are completed.\n\
               FromDevice uses the best working method of an interface, and a line at start-up \
               names it with the reason. AF_XDP, fastest, takes packets away from the host's own \
               stack; so it is chosen if nothing shows that the stack uses the interface (an \
               address, a bridge) and the driver has a native mode. Otherwise packet sockets are \
               used, by which the stack sees packets too. METHOD XDP or SNIFFER false asks for \
               AF_XDP or nothing, METHOD LINUX or SNIFFER true for packet sockets; METHOD LINUX \
               and SNIFFER false keep packets from the stack all the same, which then has no work \
               with them (Linux 6.6). AF_XDP reads all queues of the interface, or QUEUE. \
               Its limits: no VLAN tags that a driver, or a kernel bridge on the path, stripped \
               from frames (a line says so), an MTU of at most 1,706 bytes, a timestamp of the \
               time of reading, and with XDP_MODE GENERIC no packets that the kernel merged or a \
               local sender left to be cut. BUSY_POLL lets reading do the driver's work, where the \
               driver has a part in it and its interrupts are put off (napi_defer_hard_irqs and \
               gro_flush_timeout of the interface); a line says if it has no effect. What this \
               host sends is seen with OUTBOUND only, by packet sockets.\n\
               An interface that goes down or disappears is reported once; it is used again when \
               it is up, or when another one of its name appears.\n\
               With several threads (`thruway run -j`) all of them read the interface, those on \
               cores of its NUMA node where there are any: by AF_XDP each has some of its queues, \
               and no more threads read it than there are queues; by packet sockets each has a \
               socket, and the kernel gives both directions of a connection to the same one. \
               Each flow stays in one thread. MAXTHREADS, THREADOFFSET, NUMA and THREADS (of this \
               program alone) say otherwise; StaticThreadSched places it in one thread.\n\
               OFFLOAD XDP is for a FlowClassifier right behind: an XDP program drops the packets that it \
               would drop (unwanted), before the kernel makes packets of its own of them. By AF_XDP it \
               also notes the classes of other packets, which are not classified again (tagged). It goes \
               with the process and before another configuration takes over. Where it cannot be, a \
               line says why, and all packets are classified behind.\n\
               Between hosts and containers on one machine, and behind a kernel that merges what it \
               receives (GRO), a TCP packet of up to 64 kB that its sender left to hardware to \
               segment may arrive whole, with right lengths and checksums, by packet sockets. Its \
               SEGMENTS annotation says how many packets it stands for; ToDevice lets the kernel \
               make as many of it, as late as possible, and IPFragmenter and CheckLength let it \
               pass if each of them fits. To everything else it is one long packet. So it is on \
               virtual links (veth, TAP) whose tcp-segmentation-offload is on (`ethtool -k`), \
               where the classes of all elements behind take such packets, which isolated \
               functions do not, and all interfaces that the configuration writes are such links; \
               there packet sockets are used for it. LARGE true asks for it elsewhere, LARGE \
               false or METHOD XDP has packets cut.\n\
               When all ports of a configuration that have inputs are captures, read to their \
               ends, and for 20 ms no port sent a packet, the driver is asked to stop.\n\
               CAPTURE is accepted for LINUX and PCAP; BPF_FILTER and PROTOCOL are not supported.",
        example: "FromDevice(pcap:in.pcap) -> Counter -> Discard",
        ports: "0/1",
        processing: "/h",
        args: ARGS,
        drops: Lost::DROPS,
        threading: Threading::Task,
        cost: &[Operation::PortReceive.once()],
        replicas: Replicas::Apart(
            "each reads queues of its own, or has a socket of the group that flows are spread \
             over",
        ),
        purpose: Purpose::ReceiveFromDevice,
        ..Spec::DEFAULT
    },
    build,
)
.shared_by(sharing::shares)
.with_hot_swap::<FromDevice>()
.with_resize::<FromDevice>();

const ARGS: &[Arg] = &[
    Arg::required("DEVNAME", Ty::Str, "an interface, pcap:FILE, pcap:IN>OUT, or none"),
    Arg::keyword("SNIFFER", Ty::Bool, "whether the host's stack sees packets too"),
    Arg::keyword("PROMISC", Ty::Bool, "whether to read packets for other hosts").or("false"),
    Arg::keyword("SNAPLEN", Ty::UInt, "bytes of a packet to keep; 0 for all").or("0"),
    Arg::keyword("FORCE_IP", Ty::Bool, "whether to emit IPv4 packets only, marked").or("false"),
    mode::METHOD,
    mode::XDP_MODE,
    mode::QUEUE,
    mode::BUSY_POLL,
    drop_stage::OFFLOAD,
    sharing::THREADS,
    sharing::MAXTHREADS,
    sharing::THREADOFFSET,
    sharing::NUMA,
    Arg::keyword("LARGE", Ty::Bool, "whether TCP packets of up to 64 kB come whole"),
    Arg::keyword(
        "SHORT_CUTS",
        Ty::Choice(&["NONE", "TCP", "ALL"]),
        "whose sessions may take short cuts in the kernel; ALL: those of UDP, too",
    )
    .or("TCP"),
    Arg::keyword("CAPTURE", Ty::Choice(&["LINUX", "PCAP"]), "accepted and ignored"),
    Arg::keyword("BPF_FILTER", Ty::Str, "not supported"),
    Arg::keyword("PROTOCOL", Ty::UInt, "not supported; 0 for all"),
    Arg::keyword("OUTBOUND", Ty::Bool, "whether to read what this host sends, too").or("false"),
    Arg::keyword("HEADROOM", Ty::UInt, "accepted: there are always 128 bytes").or("128"),
    Arg::keyword("ENCAP", Ty::Str, "what packets begin with, if the port does not say"),
    Arg::keyword("BURST", Ty::UInt, "packets per scheduling; the engine's choice if not given"),
    Arg::keyword("TIMESTAMP", Ty::Bool, "whether packets bear their time of arrival").or("true"),
    Arg::keyword("ACTIVE", Ty::Bool, "whether it reads packets").or("true"),
];

/// How long no port must have sent anything before a run over captures ends, nanoseconds.
const QUIET_NS: i64 = 20_000_000;
/// How often that is looked at.
const LOOK_NS: i64 = 1_000_000;
/// How often the kernel is asked what it dropped.
const STATISTICS_NS: i64 = 1_000_000_000;

/// Where packets come from.
enum Source {
    /// Not opened yet.
    Closed(PortSpec),
    Live(Box<DeviceIn>),
    Capture(CaptureIn),
    Nothing,
}

/// How a run over captures comes to its end.
enum Ending {
    /// There is more to read, or others do.
    NotYet,
    /// This was the last input; nothing more was sent than `sent`, since `since`.
    Quiet {
        since: i64,
        sent: u64,
    },
    Done,
}

#[derive(Handlers)]
#[handler(sum, field = count, "packets in")]
#[handler(sum, field = bytes, name = "byte_count", "bytes in")]
#[handler(write, name = "reset_counts", "sets the counts to zero", run = self.reset_counts())]
#[handler(
    sum, name = "kernel_drops", "packets the kernel dropped before they were read",
    read = self.read_kernel_drops()
)]
#[handler(
    sum, name = "preferred_drops",
    "of these, segments of TCP connections that may be open, ARP and neighbour discovery, \
     which have a ring of their own",
    read = self.read_preferred_drops()
)]
#[handler(
    read, name = "method", "of an interface: the method in use, and why; - if none",
    read = self.read_method()
)]
#[handler(
    read, concat, name = "short_cuts", doc = short_cuts::HANDLER, get = self.describe_short_cuts()
)]
#[handler(
    read, name = "encap", "what packets begin with, as ENCAP takes it",
    get = encap::name(self.link())
)]
#[handler(
    read, name = "filesize", "of a capture: its length in bytes; - if unknown",
    read = self.read_filesize()
)]
#[handler(
    read, name = "filepos", "of a capture: byte at which the next record starts",
    read = self.read_filepos()
)]
#[handler(both, field = active, "whether it reads packets")]
struct FromDevice {
    source: Source,
    ports: Arc<Ports>,
    ending: Ending,
    shape: Shape,
    options: PacketOptions,
    request: PortRequest,
    /// The replicas, of which it is this one.
    shared_port: Arc<SharedPort>,
    rank: usize,
    /// A socket that goes back to its owner: this configuration does not begin.
    first_former: Option<Box<DeviceIn>>,
    link: WatchedLink,
    offload: Offload,
    /// Sessions that take short cuts from here, where they may.
    short_cuts: Option<PortShortCuts>,
    /// Those of UDP may, too.
    has_udp: bool,
    /// Of a capture: the replica whose turn it is.
    turn: Option<Turn>,
    has_run: bool,
    active: bool,
    burst: Option<usize>,
    count: u64,
    bytes: u64,
    batch: Batch,
}

/// Refuses what is not supported, with what to do instead.
fn refuse(args: &Args<'_>) -> Result<(), ArgErrors> {
    if args.opt::<String>("BPF_FILTER")?.is_some_and(|filter| !filter.is_empty()) {
        let why = "not supported; put Classifier or IPClassifier behind FromDevice";
        return Err(args.error("BPF_FILTER", why).into());
    }
    if args.opt::<u32>("PROTOCOL")?.unwrap_or(0) != 0 {
        let why = "not supported; put Classifier(12/TYPE) behind FromDevice";
        return Err(args.error("PROTOCOL", why).into());
    }
    let capture: Option<String> = args.opt("CAPTURE")?;
    if capture.is_some_and(|capture| !["LINUX", "PCAP"].contains(&capture.as_str())) {
        return Err(args.error("CAPTURE", "write LINUX or leave it").into());
    }
    Ok(())
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    refuse(args)?;
    let spec = PortSpec::of(args, Direction::In)?;
    let ports = Ports::of(args);
    let request = PortRequest::of_input(args)?;
    match &spec {
        PortSpec::Capture(path) => ports.reads(path),
        PortSpec::Interface(name) => ports.receives(args.name(), name, &request),
        PortSpec::Nothing => {}
    }
    let encap = args.opt::<String>("ENCAP")?.map(|text| encap::parse(&text)).transpose();
    let burst = mode::burst(args)?;
    Ok(Box::new(FromDevice {
        source: Source::Closed(spec),
        ports,
        ending: Ending::NotYet,
        shape: Shape {
            snaplen: match args.get("SNAPLEN")? {
                0 => usize::MAX,
                snaplen => snaplen,
            },
            force_ip: args.get("FORCE_IP")?,
            timestamp: args.get("TIMESTAMP")?,
            encap: encap.map_err(|message| args.error("ENCAP", message))?,
        },
        options: PacketOptions {
            promiscuous: args.get("PROMISC")?,
            ignore_outgoing: !args.get::<bool>("OUTBOUND")?,
            short_cut: args.choice("SHORT_CUTS")? > 0,
            ..PacketOptions::default()
        },
        request,
        shared_port: args.shared("team", || SharedPort::new(args.env().threads)),
        rank: args.env().rank,
        first_former: None,
        link: WatchedLink::of(args),
        offload: Offload::of(args)?,
        short_cuts: None,
        has_udp: args.choice("SHORT_CUTS")? > 1,
        turn: None,
        has_run: false,
        active: args.get("ACTIVE")?,
        burst,
        count: 0,
        bytes: 0,
        batch: Batch::with_room(),
    }))
}

impl FromDevice {
    /// The capture is at its end: when to look again whether all is quiet.
    fn come_to_end(&mut self, cx: &mut Cx<'_>) -> Run {
        let now = cx.now();
        let sent = self.ports.sent();
        self.ending = match self.ending {
            Ending::NotYet if self.ports.close_input() => Ending::Quiet { since: now, sent },
            Ending::Quiet { since, sent: before } if before == sent => {
                if now.saturating_sub(since) >= QUIET_NS {
                    cx.stop();
                    Ending::Done
                } else {
                    Ending::Quiet { since, sent }
                }
            }
            Ending::Quiet { .. } => Ending::Quiet { since: now, sent },
            Ending::NotYet | Ending::Done => Ending::Done,
        };
        match self.ending {
            Ending::Quiet { .. } => Run::At(now.saturating_add(LOOK_NS)),
            _ => Run::Idle,
        }
    }

    /// Sees to what drops packets in front of the interface, once for all replicas.
    fn look_in_front(&mut self, cx: &mut Cx<'_>) {
        if let (Source::Live(live), 0) = (&self.source, self.rank) {
            self.offload.look(cx, live, &self.ports);
        }
    }

    /// How the interface of this name is to be opened.
    fn how<'a>(&'a self, name: &'a str) -> How<'a> {
        How { name, request: &self.request, options: &self.options }
    }

    /// Goes on with the interface that has the name now.
    fn follow(&mut self, cx: &mut Cx<'_>, index: u32) {
        let Source::Live(live) = &self.source else { return };
        let name = live.interface().name.clone();
        let Some(next) = self.shared_port.follow(self.rank, index, &self.how(&name)) else {
            return;
        };
        live.unwatch(cx);
        if let Err(error) = next.watch(cx) {
            cx.log(&error);
        }
        if self.rank == 0 {
            next.report(cx);
        }
        self.end_short_cuts(cx);
        self.short_cuts =
            self.options.short_cut.then(|| PortShortCuts::of(cx, &next, false)).flatten();
        self.source = Source::Live(next);
    }

    fn open(&mut self, cx: &mut Cx<'_>) -> Result<Source, String> {
        let Source::Closed(spec) = &self.source else { return Ok(Source::Nothing) };
        match spec {
            PortSpec::Nothing => Ok(Source::Nothing),
            PortSpec::Capture(path) => {
                let mut capture = CaptureIn::new(path.clone());
                capture.check_link(&[LinkType::Ethernet, LinkType::Raw, LinkType::Ipv4])?;
                self.ports.open_input();
                self.turn = Some(Turn::new(&self.ports.timeline));
                Ok(Source::Capture(capture))
            }
            PortSpec::Interface(name) => {
                self.request = self.ports.apply(name, &self.request);
                let is_seen_as_it_comes = self.shape.is_plain() && self.options.ignore_outgoing;
                self.options.short_cut &= cx.flows().is_some() && is_seen_as_it_comes;
                let live = self.shared_port.take(self.rank, &self.how(name))?;
                live.watch(cx)?;
                if self.rank == 0 {
                    live.report(cx);
                    if self.ports.is_written(name) {
                        warn_of_host(cx, name);
                    }
                }
                self.link.begin(name);
                cx.set_timer(0, cx.now().saturating_add(STATISTICS_NS));
                if self.options.short_cut {
                    self.short_cuts = PortShortCuts::of(cx, &live, self.rank == 0);
                }
                self.ports.open_input();
                Ok(Source::Live(live))
            }
        }
    }
}

impl Element for FromDevice {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.source = self.open(cx)?;
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        if !self.has_run {
            self.has_run = true;
            self.shared_port.forget(self.rank);
            self.look_in_front(cx);
        }
        if self.short_cuts.is_some() {
            self.attend_short_cuts(cx);
        }
        if !self.active {
            self.turn.iter().for_each(Turn::leave);
            return Run::Idle;
        }
        if let Source::Capture(capture) = &mut self.source
            && capture.is_pressed(cx)
        {
            return Run::Idle;
        }
        let burst = self.burst.unwrap_or_else(|| cx.burst()).min(MAX_BATCH);
        let mut batch = std::mem::take(&mut self.batch);
        let filled = match (&mut self.source, &mut self.turn) {
            (Source::Live(live), _) => {
                live.fill(cx, burst, &mut batch);
                match live.has_more() {
                    Some(true) => Filled::Waits,
                    Some(false) => Filled::Later,
                    None => Filled::Idle,
                }
            }
            (Source::Capture(capture), Some(turn)) => turn.fill(capture, cx, burst, &mut batch),
            (Source::Capture(_) | Source::Closed(_) | Source::Nothing, _) => Filled::Idle,
        };
        let came = !batch.is_empty();
        if came {
            if !self.shape.is_plain() {
                let link = self.link();
                self.shape.apply(cx, &mut batch, link);
            }
            self.count += batch.len() as u64;
            self.bytes += batch.bytes();
            cx.emit_all(0, &mut batch);
        }
        self.batch = batch;
        match (came, filled) {
            (true, _) | (false, Filled::Waits) => Run::Again,
            (false, Filled::End) => self.come_to_end(cx),
            (false, Filled::Idle) => Run::Idle,
            (false, Filled::Later) => Run::At(cx.now().saturating_add(changeover::LOOK_NS)),
        }
    }

    fn timer(&mut self, cx: &mut Cx<'_>, token: u32) {
        if token == SHORT_CUT_TIMER {
            return self.look_after_short_cuts(cx);
        }
        if let Source::Live(live) = &mut self.source {
            live.count_drops(cx);
            live.watch_state(cx);
            let successor = live.successor();
            let is_changed = self.rank == 0 && self.link.look(&live.interface().name);
            if (is_changed || successor.is_some())
                && let Some(flows) = cx.flows()
            {
                flows.forget_short_cuts();
            }
            if let Some(index) = successor {
                self.follow(cx, index);
            }
            self.look_in_front(cx);
        }
        cx.set_timer(0, cx.now().saturating_add(STATISTICS_NS));
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.offload.end(cx);
        self.end_short_cuts(cx);
        match &mut self.source {
            Source::Live(live) => {
                live.count_drops(cx);
                live.unwatch(cx);
                Ok(())
            }
            Source::Capture(capture) => capture.finish(),
            Source::Closed(_) | Source::Nothing => Ok(()),
        }
    }
}

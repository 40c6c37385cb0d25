//! UDPIn, UDPOut: the payload of UDP datagrams.

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cost, CostModel, Cx, Demand, Drop, Element, Entry, Exception,
    Fails, Layer, Load, Operation, Pressing, Purpose, Reason, Replicas, SessionFunction, Spec,
    StreamMember, StreamPlan, Topic, Ty, Verdict, Wants,
};
use thruway_flow::SessionDef;
use thruway_packet::{Batch, Packet};
use thruway_stream::content::{Content, HasContent, flag};
use thruway_stream::segment::{Parts, finish, protocol};
use thruway_stream::unseen::{self, unseen};
use thruway_wire::ip_protocol;

/// See the spec.
pub static IN: Entry = Entry::new(
    Spec {
        name: "UDPIn",
        topic: Topic::Streams,
        summary: "begins the context of UDP: functions behind it see the payload of datagrams",
        docs: "The payload of datagrams that have a session becomes their content, in the order in \
               which they come. Each datagram stands for itself unless STREAM is true: then a \
               function may hold bytes back until the session's next datagram, so that what spans \
               two is found; bytes then move from one datagram to the next.\n\n\
               TIMEOUT is how long a session without packets is kept, in seconds. Other packets \
               than UDP pass by unseen. Packets that functions cannot be shown (fragments that may \
               be of UDP: put an IPReassembler in front; datagrams without a session; IP packets \
               with an undetermined protocol) are dropped where a function looks at payload, \
               unless UNSEEN is pass. Bytes that the UDP header claims beyond the packet, or with \
               a wrong checksum (0 is none), is dropped. FlowClassifier must be upstream. The \
               context ends at UDPOut.",
        example: "FromDump(examples/captures/lan.pcap, STOP true) -> FlowClassifier \
                  ~> UDPIn(TIMEOUT 300) -> UDPOut -> Discard",
        ports: "1-/=",
        flow: "#/#",
        args: &[
            Arg::keyword("TIMEOUT", Ty::UInt, "seconds that an idle session is kept"),
            Arg::keyword("STREAM", Ty::Bool, "whether a session is one stream").or("false"),
            Arg::keyword(
                "UNSEEN",
                Ty::Choice(&["drop", "pass"]),
                "treatment of packets that functions cannot inspect",
            )
            .or("drop"),
        ],
        drops: &[
            Drop::new("bad-datagram", "its lengths contradict each other"),
            Drop::new("bad-checksum", "its checksum is wrong"),
            Drop::new("full", "an isolated function of the context has no room for more"),
            Drop::new(unseen::REASONS[0].0, unseen::REASONS[0].1),
            Drop::new(unseen::REASONS[1].0, unseen::REASONS[1].1),
            Drop::new(unseen::REASONS[2].0, unseen::REASONS[2].1),
        ],
        wants: Wants { classes: &["udp or udp6"], ..Wants::session::<()>("connection") },
        changes: Changes::Nothing,
        cost: &[Operation::HeaderParse.once(), Operation::ChecksumLine.once()],
        purpose: Purpose::BeginContext(Layer::Udp),
        replicas: Replicas::Apart("each follows the sessions of its thread"),
        ..Spec::DEFAULT
    },
    build,
)
.with_stream_member::<UdpIn>()
.with_session_function::<UdpIn>()
.with_cost_model::<UdpIn>();

/// See the spec.
pub static OUT: Entry = Entry::new(
    Spec {
        name: "UDPOut",
        topic: Topic::Streams,
        summary: "ends the context of UDP: corrects lengths and checksums of changed datagrams",
        docs: "Lengths and checksums are computed for datagrams with changed content. Those of \
               sessions that a function has closed are dropped, and so are datagrams that are held \
               back entirely for the next one.",
        example: "FromDump(examples/captures/lan.pcap, STOP true) -> FlowClassifier \
                  ~> UDPIn(STREAM true) -> UDPOut -> Discard",
        ports: "1-/=",
        flow: "#/#",
        drops: &[
            Drop::new("closed", "a function has closed the session"),
            Drop::new("too-long", "longer than a datagram can be"),
            Drop::new("held-back", "all of it goes with the next datagram"),
        ],
        changes: Changes::Nothing,
        cost: &[Operation::Annotate.times(2.0), Operation::ChecksumLine.times(0.1)],
        purpose: Purpose::EndContext(Layer::Udp),
        replicas: Replicas::Apart("each follows the sessions of its thread"),
        ..Spec::DEFAULT
    },
    |_: &Args<'_>| -> Result<Box<dyn Element>, ArgErrors> { Ok(Box::new(UdpOut)) },
);

struct UdpIn {
    timeout: Option<u32>,
    stream: bool,
    /// What functions cannot be shown goes no further: it is to be so, it is so.
    refuses_unseen: (bool, bool),
    pressing: Pressing,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let timeout = args.opt::<u32>("TIMEOUT")?;
    if timeout == Some(0) {
        return Err(args.error("TIMEOUT", "must be at least 1 second").into());
    }
    let (stream, pressing) = (args.get("STREAM")?, Pressing::default());
    let refuses_unseen = (args.choice("UNSEEN")? == 0, false);
    Ok(Box::new(UdpIn { timeout, stream, refuses_unseen, pressing }))
}

impl Element for UdpIn {
    fn process(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        let is_pressed = self.pressing.is_felt(cx);
        cx.filter(batch, |packet| match self.enter(packet, is_pressed) {
            Ok(()) => Verdict::Pass,
            Err(reason) => Verdict::Drop(reason),
        });
        cx.pass_on(port, batch);
    }
}

impl CostModel for UdpIn {
    fn cost(&self, load: &Load) -> Option<Vec<Cost>> {
        let lines = Load::lines(load.payload_bytes);
        Some(vec![Operation::HeaderParse.once(), Operation::ChecksumLine.times(lines)])
    }
}

impl SessionFunction for UdpIn {
    fn demand(&self) -> Option<Demand> {
        let session = SessionDef::parse("connection").ok()?;
        Some(Demand { timeout_s: self.timeout, ..IN.spec.wants.demand_of(session) })
    }
}

impl StreamMember for UdpIn {
    fn exceptions(&self) -> Vec<Exception> {
        if !self.refuses_unseen.1 && self.refuses_unseen.0 {
            return Vec::new();
        }
        let spans = Exception {
            what: "content that spans datagrams",
            done: if self.stream { "show" } else { "pass" },
            fails: Fails::open_if(!self.stream),
            argument: "STREAM",
        };
        vec![Exception::unseen(self.refuses_unseen.1), Exception::OTHERS, spans]
    }

    fn take_stream(&mut self, plan: &StreamPlan) {
        self.pressing = Pressing::before(&plan.leaves);
        self.refuses_unseen.1 = self.refuses_unseen.0 && plan.needs.order;
    }
}

impl UdpIn {
    fn enter(&self, packet: &mut Packet, is_pressed: bool) -> Result<(), Reason> {
        if is_pressed {
            return Err(Reason(2));
        }
        packet.set_content_mark(Content::NONE);
        let is_datagram = packet.fcb() != 0 && protocol(packet) == Some(ip_protocol::UDP);
        if !is_datagram || unseen::is_fragment4(packet) {
            let unseen = self.refuses_unseen.1.then(|| unseen(packet, ip_protocol::UDP)).flatten();
            return unseen.map_or(Ok(()), |why| Err(Reason(3 + why as u8)));
        }
        let parts = Parts::of_udp(packet).map_err(|_| Reason(0))?;
        let checksum = &packet.data()[parts.transport + 6..parts.transport + 8];
        if checksum != [0, 0] || parts.is_ipv6 {
            parts.verify(packet, ip_protocol::UDP).map_err(|_| Reason(1))?;
        }
        parts.trim(packet);
        let took = parts.payload_len() as u16;
        let mut mark = Content::new(Layer::Udp, (parts.payload - parts.network) as u16, took);
        if !self.stream {
            mark.flags = flag::FIRST | flag::LAST;
        }
        packet.set_content_mark(mark);
        Ok(())
    }
}

struct UdpOut;

impl Element for UdpOut {
    fn process(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        cx.filter(batch, leave);
        cx.pass_on(port, batch);
    }
}

fn leave(packet: &mut Packet) -> Verdict {
    let mark = packet.content_mark();
    if mark.layer() != Layer::Udp {
        return Verdict::Pass;
    }
    let content = packet.content_range();
    packet.set_content_mark(Content::NONE);
    if mark.has(flag::CLOSE) {
        return Verdict::Drop(Reason(0));
    }
    if !mark.has(flag::CHANGED) {
        return Verdict::Pass;
    }
    if content.is_empty() && mark.took > 0 && !mark.has(flag::LAST) {
        return Verdict::Drop(Reason(2));
    }
    let Some(parts) = Parts::of_changed(packet) else { return Verdict::Pass };
    match finish(packet, &parts, ip_protocol::UDP) {
        true => Verdict::Pass,
        false => Verdict::Drop(Reason(1)),
    }
}

//! IPIn, IPOut: the payload of IP packets.

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Drop, Element, Entry, Exception, Fails, Layer, Operation,
    Pressing, Purpose, Reason, Replicas, Spec, StreamMember, StreamPlan, Topic, Ty, Verdict,
};
use thruway_elements_support::dialect::ignored;
use thruway_packet::{Batch, Packet};
use thruway_stream::content::{Content, HasContent, flag};
use thruway_stream::segment::{Parts, finish, protocol};
use thruway_stream::unseen::{self, unseen};

/// See the spec.
pub static IN: Entry = Entry::new(
    Spec {
        name: "IPIn",
        topic: Topic::Streams,
        summary: "begins the context of IP: functions behind it see the payload of IP packets",
        docs: "What follows the IP header (and its extensions) becomes the content of packets that \
               have a session; each packet stands for itself, nothing is put in order. A context \
               of another layer (TCPIn, UDPIn) may begin behind it. Padding is cut off. Packets \
               without a session (not IP) pass by unseen; but fragments (put an IPReassembler in \
               front) and IP packets with an undetermined protocol are dropped where a function \
               looks at payload, unless UNSEEN is pass.\n\n\
               It is FlowClassifier that finds sessions and headers, so it must be upstream. The \
               context ends at IPOut. Until then 12 bytes of the packet's annotations, those of an \
               IPv6 next hop, are in use.",
        example: "FromDump(examples/captures/lan.pcap, STOP true) -> FlowClassifier -> IPIn \
                  -> IPOut -> Discard",
        ports: "1-/=",
        flow: "#/#",
        args: &[Arg::keyword(
            "UNSEEN",
            Ty::Choice(&["drop", "pass"]),
            "treatment of packets that functions cannot inspect",
        )
        .or("drop")],
        drops: &[
            Drop::new("bad-ip", "its length field exceeds its length"),
            Drop::new("full", "an isolated function of the context has no room for more"),
            Drop::new(unseen::REASONS[0].0, unseen::REASONS[0].1),
            Drop::new(unseen::REASONS[1].0, unseen::REASONS[1].1),
        ],
        changes: Changes::Nothing,
        cost: &[Operation::HeaderParse.once()],
        purpose: Purpose::BeginContext(Layer::Ip),
        replicas: Replicas::Alike,
        ..Spec::DEFAULT
    },
    |args: &Args<'_>| -> Result<Box<dyn Element>, ArgErrors> {
        let refuses_unseen = (args.choice("UNSEEN")? == 0, false);
        Ok(Box::new(IpIn { refuses_unseen, pressing: Pressing::default() }))
    },
)
.with_stream_member::<IpIn>();

/// See the spec.
pub static OUT: Entry = Entry::new(
    Spec {
        name: "IPOut",
        topic: Topic::Streams,
        summary: "ends the context of IP: corrects lengths and checksums of changed packets",
        docs: "Length and checksum of the IP header, and the checksum of TCP and UDP, are computed \
               for packets with changed content. Packets of sessions that a function has \
               closed are dropped.",
        example: "FromDump(examples/captures/lan.pcap, STOP true) -> FlowClassifier -> IPIn \
                  -> IPOut -> Discard",
        ports: "1-/=",
        flow: "#/#",
        args: &[ignored("CHECKSUM"), ignored("READONLY")],
        drops: &[
            Drop::new("closed", "a function has closed the session"),
            Drop::new("too-long", "longer than an IP packet can be"),
        ],
        changes: Changes::Nothing,
        cost: &[Operation::Annotate.times(2.0), Operation::ChecksumLine.times(0.1)],
        purpose: Purpose::EndContext(Layer::Ip),
        replicas: Replicas::Alike,
        ..Spec::DEFAULT
    },
    |_: &Args<'_>| -> Result<Box<dyn Element>, ArgErrors> { Ok(Box::new(IpOut)) },
);

struct IpIn {
    /// What functions cannot be shown goes no further: it is to be so, it is so.
    refuses_unseen: (bool, bool),
    pressing: Pressing,
}

impl Element for IpIn {
    fn process(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        let is_pressed = self.pressing.is_felt(cx);
        let refuses_unseen = self.refuses_unseen.1;
        cx.filter(batch, |packet| match enter(packet, is_pressed, refuses_unseen) {
            Ok(()) => Verdict::Pass,
            Err(reason) => Verdict::Drop(reason),
        });
        cx.pass_on(port, batch);
    }
}

impl StreamMember for IpIn {
    fn exceptions(&self) -> Vec<Exception> {
        if !self.refuses_unseen.1 && self.refuses_unseen.0 {
            return Vec::new();
        }
        let spans = Exception {
            what: "content that spans packets",
            done: "pass",
            fails: Fails::Open,
            argument: "",
        };
        vec![Exception::unseen(self.refuses_unseen.1), spans]
    }

    fn take_stream(&mut self, plan: &StreamPlan) {
        self.pressing = Pressing::before(&plan.leaves);
        self.refuses_unseen.1 = self.refuses_unseen.0 && plan.needs.order;
    }
}

fn enter(packet: &mut Packet, is_pressed: bool, refuses_unseen: bool) -> Result<(), Reason> {
    if is_pressed {
        return Err(Reason(1));
    }
    packet.set_content_mark(Content::NONE);
    if let Some(why) = refuses_unseen.then(|| unseen(packet, 0)).flatten() {
        return Err(Reason(2 + why as u8));
    }
    if packet.fcb() == 0 || packet.network_offset().is_none() {
        return Ok(());
    }
    let parts = Parts::of_ip(packet).map_err(|_| Reason(0))?;
    parts.trim(packet);
    let start = (parts.transport - parts.network) as u16;
    let mut mark = Content::new(Layer::Ip, start, 0);
    mark.flags = flag::FIRST | flag::LAST;
    packet.set_content_mark(mark);
    Ok(())
}

struct IpOut;

impl Element for IpOut {
    fn process(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        cx.filter(batch, leave);
        cx.pass_on(port, batch);
    }
}

fn leave(packet: &mut Packet) -> Verdict {
    let mark = packet.content_mark();
    packet.set_content_mark(Content::NONE);
    if mark.has(flag::CLOSE) {
        return Verdict::Drop(Reason(0));
    }
    if mark.layer() != Layer::Ip || !mark.has(flag::CHANGED) {
        return Verdict::Pass;
    }
    let Some(parts) = Parts::of_changed(packet) else { return Verdict::Pass };
    // Behind IPv6 extension headers it is not looked for: its checksum stays.
    let protocol = protocol(packet).unwrap_or(0);
    match finish(packet, &parts, protocol) {
        true => Verdict::Pass,
        false => Verdict::Drop(Reason(1)),
    }
}

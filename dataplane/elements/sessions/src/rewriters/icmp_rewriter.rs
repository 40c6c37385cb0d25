//! ICMPRewriter: ICMP errors about packets that rewriters have changed.

use thruway_element::text::split_words;
use thruway_element::{
    AnnoArg, Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Replicas, Spec, Topic, Ty, Verdict,
    reasons,
};
use thruway_packet::{Anno, Batch, Packet};
use thruway_wire::Header;
use thruway_wire::checksum::Delta;
use thruway_wire::icmp::{IcmpHeader, icmp_type};
use thruway_wire::ip_protocol::{self, ICMP};
use thruway_wire::ipv4::Ipv4Header;
use zerocopy::FromBytes;

use crate::rewrite::{End, Ends, Ports, translate_quoted};
use crate::rewriters::build;
use crate::rewriters::class::Quoted;
use crate::rewriters::rewriter::Rewriter;
use crate::rewriters::store::Rewritten;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "ICMPRewriter",
        topic: Topic::Rewriters,
        summary: "rewrites ICMP errors about packets that rewriters have changed",
        docs: "An ICMP error carries the beginning of the packet that it is about. Where one of \
               the rewriters MAPS has a mapping for that packet, the quoted packet is restored to \
               the packet that its sender sent, the error's destination likewise if it is the \
               quoted source, and the error leaves by output 0; with NAME:OFFSET in MAPS by OFFSET \
               and the output of the mapping. Errors about other packets, and other ICMP messages, \
               leave by output 1, or are dropped where there is none; so are packets that are no \
               ICMP, always. Errors are: unreachable, time exceeded, parameter problem, source \
               quench and redirect. The rewriters are asked in their order, and must be run by the \
               same thread.",
        example: "FromIPSummaryDump(-, STOP true) -> CheckIPHeader \
                  -> rw :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 0) \
                  -> ICMPError(198.51.100.9, timeexceeded) -> ICMPRewriter(rw) -> IPPrint -> Discard",
        ports: "1/1-",
        processing: "h/h",
        args: &[
            Arg::required("MAPS", Ty::Rule("NAME[:OFFSET]..."), "rewriters that are asked"),
            build::DST_ANNO,
            build::REPLY_ANNO,
        ],
        drops: IcmpRewriterDrop::DROPS,
        changes: Changes::Headers,
        cost: build::COST,
        replicas: Replicas::Apart(
            "each asks the rewriters of its thread, which know each other's mappings",
        ),
        large_packets: true,
        ..Spec::DEFAULT
    },
    build,
);

reasons! {
    /// Why a packet does not leave by output 0.
    enum IcmpRewriterDrop {
        NotIcmp = "not-icmp": "it is no ICMP",
        NotRewritten = "not-rewritten": "it is no error, or no rewriter knows the packet that it is about",
    }
}

/// A rewriter that is asked.
struct Map {
    name: String,
    node: u32,
    /// The first of the outputs for its mappings' outputs.
    offset: Option<usize>,
}

struct IcmpRewriter {
    maps: Vec<Map>,
    sets_dst: bool,
    reply_anno: Option<Anno>,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let mut maps = Vec::new();
    for word in split_words(args.text("MAPS").unwrap_or("")) {
        let (name, offset) = match word.split_once(':') {
            Some((name, offset)) => {
                let offset = args.parse(offset);
                (name, Some(offset.map_err(|why| args.error("MAPS", format!("{word}: {why}")))?))
            }
            None => (word, None),
        };
        args.other_is_here("MAPS", name)?;
        maps.push(Map { name: name.to_owned(), node: 0, offset });
    }
    if maps.is_empty() {
        return Err(args.error("MAPS", "no rewriters given").into());
    }
    let reply_anno = args.opt::<AnnoArg>("REPLY_ANNO")?.map(|AnnoArg(anno)| anno);
    let sets_dst = args.get("DST_ANNO")?;
    Ok(Box::new(IcmpRewriter { maps, sets_dst, reply_anno }))
}

/// The packet that an ICMP error carries; `None` if it is none, or carries too little.
pub(crate) fn quoted(message: &[u8]) -> Option<Quoted> {
    use icmp_type::{PARAMETER_PROBLEM, REDIRECT, SOURCE_QUENCH, TIME_EXCEEDED, UNREACHABLE};
    let (header, body) = IcmpHeader::ref_from_prefix(message).ok()?;
    let errors = [UNREACHABLE, SOURCE_QUENCH, REDIRECT, TIME_EXCEEDED, PARAMETER_PROBLEM];
    if !errors.contains(&header.icmp_type()) {
        return None;
    }
    let (ip, _, rest) = Ipv4Header::parse_cut(body).ok()?;
    let head = rest.first_chunk::<8>().filter(|_| ip.is_first_fragment());
    let word = |at: usize| head.map_or(0, |head| u16::from_be_bytes([head[at], head[at + 1]]));
    let has_ports = head.is_some() && ip_protocol::has_ports(ip.protocol());
    let echo = head.map(|head| head[0]).filter(|_| ip.protocol() == ICMP);
    let is_request = match echo {
        Some(icmp_type::ECHO) => Some(true),
        Some(icmp_type::ECHO_REPLY) => Some(false),
        _ => None,
    };
    Some(Quoted {
        src: ip.src(),
        dst: ip.dst(),
        protocol: ip.protocol(),
        ports: has_ports.then(|| (word(0), word(2))),
        ident: is_request.map(|is_request| (word(4), is_request)),
    })
}

/// Sets a quoted packet back to what its sender sent: `answer` is what an answer to it becomes.
pub(super) fn set_back(packet: &mut Packet, was: &Quoted, answer: &Ends) -> Option<()> {
    let (src_port, dst_port) = match answer.ports {
        Ports::Keep => (None, None),
        Ports::Both(src, dst) => (Some(dst), Some(src)),
        Ports::Ident(ident) => (Some(ident), None),
    };
    let (icmp, body) = IcmpHeader::view_mut(packet.transport_mut()).ok()?;
    let (mut delta, source) = (Delta::NONE, answer.dst.or(src_port.map(|_| was.src)));
    if let Some(source) = source {
        delta = delta.and(translate_quoted(body, End::Source, source, src_port).ok()?);
    }
    if let Some(destination) = answer.src.or(dst_port.map(|_| was.dst)) {
        delta = delta.and(translate_quoted(body, End::Destination, destination, dst_port).ok()?);
    }
    icmp.update_checksum(delta);
    Some(())
}

impl IcmpRewriter {
    /// What the first rewriter that knows the quoted packet says, and the output.
    fn ask(&self, cx: &mut Cx<'_>, quoted: &Quoted) -> Option<(Ends, Rewritten, usize)> {
        self.maps.iter().find_map(|map| {
            let mut found = None;
            cx.visit(map.node, |other, cx| {
                let other = other.downcast_mut::<Rewriter>();
                found = other.and_then(|other| other.answer_to(cx, quoted));
            });
            let (ends, rewritten) = found?;
            Some((
                ends,
                rewritten,
                map.offset.map_or(0, |offset| offset + usize::from(rewritten.output)),
            ))
        })
    }

    fn one(&self, cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        let head = packet.network_head::<20>().filter(|head| head[9] == ICMP);
        let Some(dst) =
            head.map(|head| u32::from_be_bytes([head[16], head[17], head[18], head[19]]))
        else {
            return Verdict::drop(IcmpRewriterDrop::NotIcmp);
        };
        let quoted = quoted(packet.transport());
        let found = quoted.and_then(|quoted| Some((quoted, self.ask(cx, &quoted)?)));
        let Some((quoted, (ends, rewritten, output))) = found else {
            return Verdict::reject(1, IcmpRewriterDrop::NotRewritten);
        };
        if set_back(packet, &quoted, &ends).is_none() {
            return Verdict::reject(1, IcmpRewriterDrop::NotRewritten);
        }
        if let Some(to) = ends.dst.filter(|_| dst == quoted.src)
            && let Some(head) = packet.network_head_mut::<20>()
            && let Ok(header) = Ipv4Header::mut_from_bytes(head)
        {
            header.update_checksum(Delta::of_u32(dst, to));
            header.set_dst(to);
            if self.sets_dst {
                packet.set_dst_ip(to.to_be_bytes());
            }
        }
        if let (true, Some(anno)) = (rewritten.is_reply, self.reply_anno) {
            packet.set_anno_number(anno, rewritten.anno.into());
        }
        Verdict::To(output)
    }
}

impl Element for IcmpRewriter {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let has = cx.outputs();
        for map in &mut self.maps {
            let name = &map.name;
            let wrong = |why: String| format!("MAPS: {why}");
            let (node, outputs) = Rewriter::find(cx, name, |other| other.outputs).map_err(wrong)?;
            if map.offset.is_some_and(|offset| offset.saturating_add(outputs) > has) {
                let offset = map.offset.unwrap_or(0);
                return Err(format!(
                    "MAPS: {name}:{offset} needs {} outputs, and there are {has}",
                    offset.saturating_add(outputs)
                ));
            }
            map.node = node;
        }
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        for mut packet in batch.drain() {
            let verdict = self.one(cx, &mut packet);
            cx.apply(packet, verdict);
        }
    }
}

//! ICMP6Error: shows the sender what went wrong (RFC 4443).

use std::net::Ipv6Addr;

use thruway_element::text::split_words;
use thruway_element::{
    Arg, ArgError, ArgErrors, Args, Cx, Element, Entry, HandlerError, Handlers, Operation, Reason,
    Replicas, Spec, Topic, Ty, handler_value, reasons,
};
use thruway_elements_support::links::PortMtu;
use thruway_packet::{Anno, Batch, Packet, PacketKind};
use thruway_wire::icmpv6::{Icmpv6Header, icmpv6_type, parameter_problem};
use thruway_wire::ipv6::{Ipv6Header, MIN_MTU};
use thruway_wire::{Header, ip_protocol, ipv6_ext, ndp};

/// See the spec.
pub static ENTRY: Entry = Entry::built::<Icmp6Error>(
    Spec {
        name: "ICMP6Error",
        topic: Topic::Ip6,
        summary: "makes ICMPv6 error packets",
        docs: "Answers each packet with an ICMPv6 error (or redirect) from SRC, of TYPE and CODE, \
               that quotes as much of the packet as fits 1280 bytes (RFC 4443 section 2.4 (c)). \
               Expects marked IPv6 headers. TYPE is unreachable, packettoobig, timeexceeded, \
               parameterproblem, redirect or a number; CODE is a number.\n\
               No error is sent (the packet is dropped) in answer to an ICMPv6 error or redirect, \
               to a packet for a multicast address or one that came by a multicast or broadcast of \
               the link (except packettoobig, and parameterproblem of code 2), to a fragment but \
               the first, or from a source that is no single node (RFC 4443 section 2.4 (e)); \
               addresses on BADADDRS count as such.\n\
               packettoobig reports PMTU. A parameter problem points where the ICMP parameter \
               problem annotation says. A redirect's target is the IPv6 destination annotation \
               (RFC 4861 section 4.5). The IPv6 destination annotation of the error is its \
               destination, and its Fix IP Source annotation is set. Different from Click: more is \
               quoted than RFC 1885's 576 bytes, redirects bear a proper Redirected Header option.",
        example: "InfiniteSource(\\<6000000000003b0120010db8000000000000000000000001 \
                  20010db8000000000000000000000002>, LIMIT 1, STOP true) -> CheckIP6Header \
                  -> d :: DecIP6HLIM -> Discard; \
                  d [1] -> ICMP6Error(2001:db8::9, timeexceeded, 0) -> Print(error) -> Discard",
        args: &[
            Arg::required("SRC", Ty::Ip6, "the source address of the errors"),
            Arg::required("TYPE", Ty::Str, "ICMPv6 type: a word or a number"),
            Arg::required("CODE", Ty::UInt, "ICMPv6 code"),
            Arg::optional("BADADDRS", Ty::Any, "addresses never to answer"),
            Arg::keyword("PMTU", Ty::UInt, "MTU to report, with packettoobig").or("1280"),
            Arg::keyword("PORT", Ty::Str, "an interface; its MTU is reported if it is less"),
        ],
        drops: Silent::DROPS,
        cost: &[Operation::HeaderWrite.times(3.0), Operation::ChecksumLine.times(2.0)],
        replicas: Replicas::Alike,
        large_packets: true,
        ..Spec::DEFAULT
    },
    build,
);

reasons! {
    /// Why a packet is not answered (RFC 4443 section 2.4 (e)).
    enum Silent {
        NoHeader = "bad-ip6-header": "no sound IPv6 header is marked",
        IcmpError = "icmp6-error": "it is an ICMPv6 error or redirect, or too short to know",
        Destination = "not-unicast": "its destination is a multicast address",
        Link = "link-broadcast": "it came by a broadcast or multicast of the link",
        Source = "bad-source": "its source is not the address of a single node",
        Fragment = "later-fragment": "it is a fragment but the first",
    }
}

/// Words for the types.
const TYPES: [(&str, u8); 5] = [
    ("unreachable", icmpv6_type::UNREACHABLE),
    ("packettoobig", icmpv6_type::PACKET_TOO_BIG),
    ("timeexceeded", icmpv6_type::TIME_EXCEEDED),
    ("parameterproblem", icmpv6_type::PARAMETER_PROBLEM),
    ("redirect", icmpv6_type::REDIRECT),
];

/// The format of errors.
struct Template {
    src: Ipv6Addr,
    icmp_type: u8,
    code: u8,
    bad_addresses: Vec<Ipv6Addr>,
    pmtu: u32,
}

#[derive(Handlers)]
#[handler(
    both, name = "src", "the source address of the errors", get = self.template.src,
    write = self.write_src(value)
)]
struct Icmp6Error {
    template: Template,
    /// PMTU as configured.
    #[handler(both, "MTU to report, with packettoobig")]
    pmtu: u32,
    port: PortMtu,
}

fn icmp_type(args: &Args<'_>) -> Result<u8, ArgError> {
    let word: String = args.get("TYPE")?;
    let number = args.parse::<u8>(&word).ok();
    let found = TYPES.iter().find(|(name, value)| *name == word || Some(*value) == number);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = TYPES.iter().map(|(name, _)| *name).collect();
        let names = names.join(", ");
        args.error("TYPE", format!("'{word}' is no ICMPv6 error or redirect; write {names}"))
    })
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let mut bad_addresses = Vec::new();
    for word in split_words(args.text("BADADDRS").unwrap_or_default()) {
        bad_addresses.push(args.parse(word).map_err(|why| args.error("BADADDRS", why))?);
    }
    let template = Template {
        src: args.get("SRC")?,
        icmp_type: icmp_type(args)?,
        code: args.get("CODE")?,
        bad_addresses,
        pmtu: args.get("PMTU")?,
    };
    if template.src.is_unspecified() || template.src.is_multicast() {
        return Err(args.error("SRC", "must be the address of a single node").into());
    }
    let (pmtu, port) = (template.pmtu, PortMtu::of(args)?);
    Ok(Box::new(Icmp6Error { template, pmtu, port }))
}

/// Body of a redirect before its options, and the Redirected Header option's own eight bytes.
const REDIRECT_BODY: usize = 32;
const OPTION_HEAD: usize = 8;

impl Template {
    /// RFC 4443 section 2.4 (e.3): path MTU discovery and multicast options need these.
    fn answers_multicast(&self) -> bool {
        self.icmp_type == icmpv6_type::PACKET_TOO_BIG
            || (self.icmp_type, self.code)
                == (icmpv6_type::PARAMETER_PROBLEM, parameter_problem::OPTION)
    }

    /// Whether the packet must not be answered.
    fn check(&self, packet: &Packet) -> Result<(), Silent> {
        let parsed = Ipv6Header::parse_cut(packet.network());
        let (header, payload) = parsed.map_err(|_| Silent::NoHeader)?;
        // A chain of headers that cannot be walked hides what it carries.
        let upper = ipv6_ext::upper_layer(header.next_header(), payload);
        let upper = upper.map_err(|_| Silent::NoHeader)?;
        if !upper.has_header() {
            return Err(Silent::Fragment);
        }
        if upper.protocol == ip_protocol::ICMPV6 {
            let quiet = |kind: u8| kind < 128 || kind == icmpv6_type::REDIRECT;
            if upper.bytes.first_chunk::<4>().is_none_or(|icmp| quiet(icmp[0])) {
                return Err(Silent::IcmpError);
            }
        }
        if header.dst_addr().is_multicast() && !self.answers_multicast() {
            return Err(Silent::Destination);
        }
        let by_link = matches!(packet.kind(), PacketKind::Broadcast | PacketKind::Multicast);
        if by_link && !self.answers_multicast() {
            return Err(Silent::Link);
        }
        let src = header.src_addr();
        let no_host = src.is_unspecified() || src.is_multicast() || src.is_loopback();
        if no_host || self.bad_addresses.contains(&src) {
            return Err(Silent::Source);
        }
        Ok(())
    }

    /// The last four bytes of the ICMPv6 header.
    fn rest(&self, packet: &Packet) -> u32 {
        match self.icmp_type {
            icmpv6_type::PACKET_TOO_BIG => self.pmtu,
            icmpv6_type::PARAMETER_PROBLEM => packet.anno_number(Anno::ICMP_PARAM),
            _ => 0,
        }
    }

    /// What follows the ICMPv6 header: the quote, in a redirect behind addresses and as an option.
    fn body(&self, packet: &Packet, header: &Ipv6Header, out: &mut [u8; MIN_MTU]) -> usize {
        let network = packet.network();
        let room = MIN_MTU - Ipv6Header::LEN - Icmpv6Header::LEN;
        if self.icmp_type != icmpv6_type::REDIRECT {
            let len = network.len().min(room);
            out[..len].copy_from_slice(&network[..len]);
            return len;
        }
        // RFC 4861 sections 4.5 and 4.6.3: the option's length counts in units of 8 bytes.
        let len = network.len().min(room - REDIRECT_BODY - OPTION_HEAD) & !7;
        let front = REDIRECT_BODY + OPTION_HEAD;
        out[..16].copy_from_slice(&packet.dst_ip6());
        out[16..32].copy_from_slice(&header.dst());
        out[32..34].copy_from_slice(&[ndp::option::REDIRECTED, (len / 8 + 1) as u8]);
        out[front..][..len].copy_from_slice(&network[..len]);
        front + len
    }

    /// The answer to a packet that passed `check`; `None` when packet memory is used up.
    fn answer(&self, packet: &Packet) -> Option<Packet> {
        let (header, _) = Ipv6Header::parse_cut(packet.network()).ok()?;
        let mut body = [0; MIN_MTU];
        let body_len = self.body(packet, header, &mut body);
        let (src, dst) = (self.src, header.src_addr());
        let len = Icmpv6Header::LEN + body_len;
        let mut answer = Packet::zeroed(Ipv6Header::LEN + len)?;
        let mut ip = Ipv6Header::new(ip_protocol::ICMPV6, src, dst, len).ok()?;
        // 255 is what redirects need (RFC 4861 section 8.1), and Click's for all.
        ip.set_hop_limit(ndp::HOP_LIMIT);
        let rest = ip.emit(answer.data_mut()).ok()?;
        Icmpv6Header::new(self.icmp_type, self.code, self.rest(packet))
            .emit_message((&src.octets(), &dst.octets()), &body[..body_len], rest)
            .ok()?;
        answer.set_network(0, Ipv6Header::LEN);
        answer.set_dst_ip6(dst.octets());
        answer.set_anno_number(Anno::FIX_IP_SRC, 1);
        Some(answer)
    }
}

impl Icmp6Error {
    fn answer(&self, cx: &mut Cx<'_>, packet: Packet) {
        if let Err(silent) = self.template.check(&packet) {
            return cx.drop(silent, packet);
        }
        match self.template.answer(&packet) {
            Some(mut answer) => {
                answer.set_timestamp(cx.now());
                cx.emit(0, answer);
            }
            None => cx.drop(Reason::NO_MEMORY, packet),
        }
    }
}

impl Icmp6Error {
    fn write_src(&mut self, value: &str) -> Result<(), HandlerError> {
        self.template.src = handler_value("src", value)?;
        Ok(())
    }
}

impl Element for Icmp6Error {
    fn initialize(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        self.port.open();
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        // A value beyond the type's range is no bound.
        let bound = u32::try_from(self.port.get()).unwrap_or(u32::MAX);
        self.template.pmtu = self.pmtu.min(bound);
        for packet in batch.drain() {
            self.answer(cx, packet);
        }
    }
}

#[cfg(test)]
mod tests;

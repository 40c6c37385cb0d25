//! ICMPError: shows the sender what went wrong (RFC 792, RFC 1812 section 4.3).

use std::net::Ipv4Addr;

use thruway_element::text::split_words;
use thruway_element::{
    Arg, ArgError, ArgErrors, Args, Cx, Element, Entry, HandlerError, Handlers, Operation,
    Replicas, Spec, Topic, Ty, handler_value, reasons,
};
use thruway_elements_support::links::PortMtu;
use thruway_packet::{Anno, Batch, Packet, PacketKind};
use thruway_wire::icmp::{self, IcmpHeader, icmp_type};
use thruway_wire::ipv4::{Ipv4Header, MAX_HEADER_LEN};
use thruway_wire::ipv4_option::{Ipv4Option, Ipv4Options, LOOSE_ROUTE, STRICT_ROUTE};
use thruway_wire::{Header, ip_protocol};

/// See the spec.
pub static ENTRY: Entry = Entry::built::<IcmpError>(
    Spec {
        name: "ICMPError",
        topic: Topic::Ip,
        summary: "makes ICMP error packets",
        docs: "Answers each packet with an ICMP error from SRC, of TYPE and CODE, that quotes the \
               packet's IP header and as much of its data as fits an error of MTU bytes (RFC 1812 \
               section 4.3.2.3). Expects marked IP headers. TYPE is unreachable, sourcequench, \
               redirect, timeexceeded, parameterproblem or a number; CODE is a word of that type, \
               such as host, needfrag, transit or erroratptr, or a number.\n\
               No error is sent (the packet is dropped) in answer to an ICMP error, to a fragment \
               but the first, to a packet for a broadcast or multicast address, on the link or of \
               IP, or from a source that is no single host: 0/8, 127/8, 224/3, 255.255.255.255 \
               (RFC 1812 section 4.3.2.7). Addresses on BADADDRS, such as subnets' broadcast \
               addresses, count as broadcast.\n\
               A parameter problem of code erroratptr points where the ICMP parameter problem \
               annotation says (IPGWOptions sets it). A redirect's gateway is the destination \
               annotation. With needfrag, the next hop's MTU is PMTU (RFC 1191). A source route is \
               returned reversed (RFC 1812 section 4.3.2.6). The destination annotation of the \
               error is its destination, and its Fix IP Source annotation is set unless \
               SET_FIX_ANNO is false. The output should lead to the routing table.",
        example: "InfiniteSource(\\<45000014000000000111b6d70100000102000002>, LIMIT 1, STOP true) \
                  -> MarkIPHeader -> d :: DecIPTTL -> Discard; \
                  d [1] -> ICMPError(2.0.0.1, timeexceeded, transit) -> Print(error) -> Discard",
        args: &[
            Arg::required("SRC", Ty::Ip, "the source address of the errors"),
            Arg::required("TYPE", Ty::Str, "ICMP type: a word or a number"),
            Arg::optional("CODE", Ty::Str, "ICMP code: a word of the type, or a number").or("0"),
            Arg::optional("BADADDRS", Ty::Any, "addresses never to answer"),
            Arg::keyword("MTU", Ty::UInt, "longest error in bytes").or("576"),
            Arg::keyword("PMTU", Ty::UInt, "MTU to report, with needfrag").or("0"),
            Arg::keyword("PORT", Ty::Str, "an interface; its MTU is reported if it is less"),
            Arg::keyword("SET_FIX_ANNO", Ty::Bool, "whether FixIPSrc shall set the source")
                .or("true"),
            Arg::keyword("USE_FIX_ANNO", Ty::Bool, "older name of SET_FIX_ANNO"),
        ],
        drops: Silent::DROPS,
        cost: &[
            Operation::HeaderWrite.times(3.0),
            Operation::ChecksumIp.once(),
            Operation::ChecksumLine.once(),
        ],
        replicas: Replicas::Apart("each has its part of the identifications"),
        large_packets: true,
        ..Spec::DEFAULT
    },
    build,
);

reasons! {
    /// Why a packet is not answered (RFC 1812 section 4.3.2.7).
    pub(super) enum Silent {
        NoHeader = "bad-ip-header": "no sound IP header is marked",
        IcmpError = "icmp-error": "it is an ICMP error itself, or too short to know",
        Destination = "not-unicast": "its destination is a broadcast or multicast address",
        Link = "link-broadcast": "it came by a broadcast or multicast of the link",
        Source = "bad-source": "its source is not the address of a single host",
        Fragment = "later-fragment": "it is a fragment but the first",
        SourceRoute = "source-routed": "it has a source route, and this is a redirect",
    }
}

/// The least MTU every link has (RFC 791 section 3.1).
const MTU_MIN: usize = 68;
/// Time to live of the errors, as Click's.
const TTL: u8 = 200;

/// Words for the types.
const TYPES: [(&str, u8); 5] = [
    ("unreachable", icmp_type::UNREACHABLE),
    ("sourcequench", icmp_type::SOURCE_QUENCH),
    ("redirect", icmp_type::REDIRECT),
    ("timeexceeded", icmp_type::TIME_EXCEEDED),
    ("parameterproblem", icmp_type::PARAMETER_PROBLEM),
];

/// Words for the codes of each type.
const CODES: [(u8, &str, u8); 25] = [
    (icmp_type::UNREACHABLE, "net", icmp::unreachable::NET),
    (icmp_type::UNREACHABLE, "host", icmp::unreachable::HOST),
    (icmp_type::UNREACHABLE, "protocol", icmp::unreachable::PROTOCOL),
    (icmp_type::UNREACHABLE, "port", icmp::unreachable::PORT),
    (icmp_type::UNREACHABLE, "needfrag", icmp::unreachable::NEED_FRAGMENT),
    (icmp_type::UNREACHABLE, "srcroutefail", icmp::unreachable::SOURCE_ROUTE_FAILED),
    (icmp_type::UNREACHABLE, "netunknown", icmp::unreachable::NET_UNKNOWN),
    (icmp_type::UNREACHABLE, "hostunknown", icmp::unreachable::HOST_UNKNOWN),
    (icmp_type::UNREACHABLE, "isolated", icmp::unreachable::SOURCE_ISOLATED),
    (icmp_type::UNREACHABLE, "netprohibited", icmp::unreachable::NET_PROHIBITED),
    (icmp_type::UNREACHABLE, "hostprohibited", icmp::unreachable::HOST_PROHIBITED),
    (icmp_type::UNREACHABLE, "nettos", icmp::unreachable::NET_TOS),
    (icmp_type::UNREACHABLE, "hosttos", icmp::unreachable::HOST_TOS),
    (icmp_type::UNREACHABLE, "filterprohibited", icmp::unreachable::FILTER_PROHIBITED),
    (icmp_type::UNREACHABLE, "hostprecedence", icmp::unreachable::HOST_PRECEDENCE),
    (icmp_type::UNREACHABLE, "precedencecutoff", icmp::unreachable::PRECEDENCE_CUTOFF),
    (icmp_type::REDIRECT, "net", icmp::redirect::NET),
    (icmp_type::REDIRECT, "host", icmp::redirect::HOST),
    (icmp_type::REDIRECT, "tosnet", icmp::redirect::TOS_NET),
    (icmp_type::REDIRECT, "toshost", icmp::redirect::TOS_HOST),
    (icmp_type::TIME_EXCEEDED, "transit", icmp::time_exceeded::TRANSIT),
    (icmp_type::TIME_EXCEEDED, "reassembly", icmp::time_exceeded::REASSEMBLY),
    (icmp_type::PARAMETER_PROBLEM, "erroratptr", icmp::parameter_problem::AT_POINTER),
    (icmp_type::PARAMETER_PROBLEM, "missingopt", icmp::parameter_problem::MISSING_OPTION),
    (icmp_type::PARAMETER_PROBLEM, "length", icmp::parameter_problem::LENGTH),
];

/// The format of errors.
pub(super) struct Template {
    pub(super) src: Ipv4Addr,
    pub(super) icmp_type: u8,
    pub(super) code: u8,
    pub(super) bad_addresses: Vec<Ipv4Addr>,
    /// Longest error, in bytes.
    pub(super) mtu: usize,
    /// The MTU in "fragmentation needed".
    pub(super) pmtu: u16,
}

#[derive(Handlers)]
#[handler(
    both, name = "src", "the source address of the errors", get = self.template.src,
    write = self.write_src(value)
)]
#[handler(
    both, name = "mtu", "longest error in bytes", get = self.template.mtu,
    write = self.write_mtu(value)
)]
struct IcmpError {
    template: Template,
    /// PMTU as configured.
    #[handler(both, "MTU to report, with needfrag")]
    pmtu: u16,
    port: PortMtu,
    set_fix_anno: bool,
    /// Identification of the next error.
    id: u16,
}

fn icmp_type(args: &Args<'_>) -> Result<u8, ArgError> {
    let word: String = args.get("TYPE")?;
    if let Some((_, number)) = TYPES.iter().find(|(name, _)| *name == word) {
        return Ok(*number);
    }
    let number = args.parse(&word).map_err(|_| {
        let names: Vec<&str> = TYPES.iter().map(|(name, _)| *name).collect();
        args.error("TYPE", format!("'{word}' is no ICMP error; write {}", names.join(", ")))
    })?;
    match icmp::is_error(number) {
        true => Ok(number),
        false => Err(args.error("TYPE", format!("ICMP type {number} is not an error type"))),
    }
}

fn code(args: &Args<'_>, icmp_type: u8) -> Result<u8, ArgError> {
    let word: String = args.get("CODE")?;
    let known = || CODES.iter().filter(|(of, ..)| *of == icmp_type);
    if let Some((.., number)) = known().find(|(_, name, _)| *name == word) {
        return Ok(*number);
    }
    args.parse(&word).map_err(|_| {
        let names: Vec<&str> = known().map(|(_, name, _)| *name).collect();
        let names = names.join(", ");
        args.error(
            "CODE",
            format!("'{word}' is no code of type {icmp_type}; write 0 to 255 {names}"),
        )
    })
}

fn check_mtu(mtu: usize) -> Result<usize, String> {
    match mtu {
        MTU_MIN..=0xffff => Ok(mtu),
        _ => Err(format!("must be from {MTU_MIN} to 65535")),
    }
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let icmp_type = icmp_type(args)?;
    let parse = |word| args.parse::<Ipv4Addr>(word);
    let bad_addresses: Result<Vec<Ipv4Addr>, String> =
        split_words(args.text("BADADDRS").unwrap_or_default()).into_iter().map(parse).collect();
    let set_fix_anno = match args.opt("USE_FIX_ANNO")? {
        Some(set) => set,
        None => args.get("SET_FIX_ANNO")?,
    };
    let template = Template {
        src: args.get("SRC")?,
        icmp_type,
        code: code(args, icmp_type)?,
        bad_addresses: bad_addresses.map_err(|why| args.error("BADADDRS", why))?,
        mtu: check_mtu(args.get("MTU")?).map_err(|why| args.error("MTU", why))?,
        pmtu: args.get("PMTU")?,
    };
    let id = crate::outer::first_id(args.env()).wrapping_add(1);
    let (pmtu, port) = (template.pmtu, PortMtu::of(args)?);
    Ok(Box::new(IcmpError { template, pmtu, port, set_fix_anno, id }))
}

/// The first source route with a sound pointer.
fn source_route(options: &[u8]) -> Option<Ipv4Option<'_>> {
    let routes = Ipv4Options::new(options).map_while(Result::ok);
    routes.into_iter().find(|option| {
        let pointer = option.data.first().map_or(0, |pointer| usize::from(*pointer));
        matches!(option.kind, LOOSE_ROUTE | STRICT_ROUTE)
            && pointer >= 4
            && pointer % 4 == 0
            && pointer <= option.len() + 1
    })
}

/// The hops that a source-routed packet has come by, reversed into `out` as a new source route
/// (RFC 1812 section 4.3.2.6); its length, padded.
fn reverse_route(route: &Ipv4Option<'_>, out: &mut [u8; 40]) -> usize {
    let pointer = route.data.first().map_or(0, |pointer| usize::from(*pointer));
    // Kind, length and pointer, then what lies before the pointer (counted from 1).
    let len = pointer.saturating_sub(1).min(out.len() - 1).max(3);
    out[..3].copy_from_slice(&[route.kind, len as u8, 4]);
    let hops = route.data.get(1..len - 2).unwrap_or(&[]);
    for (to, from) in out[3..].chunks_exact_mut(4).zip(hops.rchunks_exact(4)) {
        to.copy_from_slice(from);
    }
    len.next_multiple_of(4)
}

impl Template {
    /// Whether an address is that of a single host, as far as can be reported.
    fn is_unicast(&self, address: Ipv4Addr) -> bool {
        !address.is_broadcast() && !address.is_multicast() && !self.bad_addresses.contains(&address)
    }

    /// RFC 1812 sections 5.3.7, 4.2.2.11 and 4.2.3.1.
    fn is_valid_source(&self, address: Ipv4Addr) -> bool {
        let class = address.octets()[0];
        self.is_unicast(address) && class != 0 && class != 127 && class < 240
    }

    /// Whether the packet must not be answered (RFC 1812 section 4.3.2.7).
    pub(super) fn check(&self, packet: &Packet) -> Result<(), Silent> {
        let parsed = Ipv4Header::parse_cut(packet.network());
        let (header, options, payload) = parsed.map_err(|_| Silent::NoHeader)?;
        if !header.is_first_fragment() {
            return Err(Silent::Fragment);
        }
        if header.protocol() == ip_protocol::ICMP
            && payload.first_chunk::<4>().is_none_or(|icmp| icmp::is_error(icmp[0]))
        {
            return Err(Silent::IcmpError);
        }
        if !self.is_unicast(header.dst_addr()) {
            return Err(Silent::Destination);
        }
        if matches!(packet.kind(), PacketKind::Broadcast | PacketKind::Multicast) {
            return Err(Silent::Link);
        }
        if !self.is_valid_source(header.src_addr()) {
            return Err(Silent::Source);
        }
        // RFC 1812 section 5.2.7.2
        if self.icmp_type == icmp_type::REDIRECT && source_route(options).is_some() {
            return Err(Silent::SourceRoute);
        }
        Ok(())
    }

    /// The options of the answer: a reversed source route, or none.
    fn options(&self, packet: &Packet, options: &[u8], out: &mut [u8; 40]) -> usize {
        let Some(route) = source_route(options) else { return 0 };
        let at_pointer = self.icmp_type == icmp_type::PARAMETER_PROBLEM && self.code == 0;
        let pointer = packet.anno_number(Anno::ICMP_PARAM) as usize;
        let start = Ipv4Header::LEN + route.offset;
        // The route itself is what is wrong.
        if at_pointer && (start..start + route.len()).contains(&pointer) {
            return 0;
        }
        reverse_route(&route, out)
    }

    /// The last four bytes of the ICMP header.
    fn rest(&self, packet: &Packet) -> u32 {
        match (self.icmp_type, self.code) {
            (icmp_type::PARAMETER_PROBLEM, icmp::parameter_problem::AT_POINTER) => {
                packet.anno_number(Anno::ICMP_PARAM) << 24
            }
            (icmp_type::REDIRECT, _) => u32::from_be_bytes(packet.dst_ip()),
            (icmp_type::UNREACHABLE, icmp::unreachable::NEED_FRAGMENT) => u32::from(self.pmtu),
            _ => 0,
        }
    }

    /// The answer to a packet that passed `check`; `None` when packet memory is used up.
    pub(super) fn answer(&self, packet: &Packet, id: u16) -> Option<Packet> {
        let (header, options, _) = Ipv4Header::parse_cut(packet.network()).ok()?;
        let mut route = [0; MAX_HEADER_LEN - Ipv4Header::LEN];
        let route_len = self.options(packet, options, &mut route);
        let overhead = Ipv4Header::LEN + route_len + IcmpHeader::LEN;
        let quote = packet.network();
        let quote = &quote[..quote.len().min(self.mtu - overhead)];
        let len = overhead + quote.len();
        let mut answer = Packet::zeroed(len)?;
        let (src, dst) = (self.src, header.src_addr());
        let payload_len = len - Ipv4Header::LEN;
        let mut ip = Ipv4Header::new(ip_protocol::ICMP, src, dst, payload_len).ok()?;
        ip.set_header_len(Ipv4Header::LEN + route_len).ok()?;
        ip.set_id(id);
        ip.set_ttl(TTL);
        ip.fill_checksum(&route[..route_len]);
        let rest = ip.emit(answer.data_mut()).ok()?;
        let (place, rest) = rest.split_at_mut_checked(route_len)?;
        place.copy_from_slice(&route[..route_len]);
        IcmpHeader::new(self.icmp_type, self.code, self.rest(packet))
            .emit_message(quote, rest)
            .ok()?;
        answer.set_network(0, Ipv4Header::LEN + route_len);
        answer.set_dst_ip(dst.octets());
        Some(answer)
    }
}

impl IcmpError {
    fn answer(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        if let Err(silent) = self.template.check(&packet) {
            cx.drop(silent, packet);
            return;
        }
        let Some(mut answer) = self.template.answer(&packet, self.id) else {
            cx.drop(thruway_element::Reason::NO_MEMORY, packet);
            return;
        };
        self.id = self.id.wrapping_add(1);
        answer.set_timestamp(cx.now());
        answer.set_anno_number(Anno::FIX_IP_SRC, u32::from(self.set_fix_anno));
        cx.emit(0, answer);
    }
}

impl IcmpError {
    fn write_src(&mut self, value: &str) -> Result<(), HandlerError> {
        self.template.src = handler_value("src", value)?;
        Ok(())
    }

    fn write_mtu(&mut self, value: &str) -> Result<(), HandlerError> {
        let mtu = check_mtu(handler_value("mtu", value)?);
        self.template.mtu = mtu.map_err(|why| HandlerError::refused(format!("mtu {why}")))?;
        Ok(())
    }
}

impl Element for IcmpError {
    fn initialize(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        self.port.open();
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        // A value beyond the type's range is no bound.
        let bound = u16::try_from(self.port.get()).unwrap_or(u16::MAX);
        self.template.pmtu = self.pmtu.min(bound);
        for packet in batch.drain() {
            self.answer(cx, packet);
        }
    }
}

#[cfg(test)]
mod tests;

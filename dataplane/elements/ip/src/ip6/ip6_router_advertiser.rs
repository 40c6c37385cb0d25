//! IP6RouterAdvertiser: announces router, prefix and resolver to the hosts of a link (RFC 4861).

use std::net::Ipv6Addr;

use thruway_element::text::split_words;
use thruway_element::{
    Arg, ArgError, ArgErrors, Args, Cx, Element, Entry, Handlers, Ip6Prefix, Nanos, Operation,
    Replicas, Spec, Topic, Ty, Wants, reasons,
};
use thruway_packet::{Batch, Packet};
use thruway_wire::ethernet::{EthernetHeader, ethertype};
use thruway_wire::icmpv6::{Icmpv6Header, icmpv6_type};
use thruway_wire::ipv6::Ipv6Header;
use thruway_wire::ndp::{self, NdpOption, NdpOptions, option};
use thruway_wire::{Header, MacAddr, ParseError, ip_protocol};

use thruway_elements_support::random::{self, Random};

/// See the spec.
pub static ENTRY: Entry = Entry::built::<RouterAdvertiser>(
    Spec {
        name: "IP6RouterAdvertiser",
        topic: Topic::Ip6,
        summary: "announces IPv6 router, prefixes and resolvers to the hosts of a link",
        docs: "Sends router advertisements in Ethernet frames by output 0, from link-local address \
               IP6 and ETH: every INTERVAL less up to a third of it at random, the first three at \
               most 16 s apart, and for router solicitations, which enter with their Ethernet \
               header, within half a second but at most every three seconds (RFC 4861 section \
               6.2). All go to all nodes. What is no valid solicitation leaves by output 1, or is \
               dropped where there is none. At the end of the run no advertisement is sent: hosts \
               forget the router after LIFETIME.\n\
               Hosts make themselves addresses with the prefixes of 64 bits (the autonomous flag), \
               and take all prefixes as on the link; resolvers are announced as RFC 8106 has it.",
        example: "ra :: IP6RouterAdvertiser(fe80::1, 02:00:00:00:00:02, PREFIX fd00:1::/64, \
                  DNS fd00:1::1, MTU 1500) -> Print(ra, 100) -> Discard; \
                  InfiniteSource(DATA abc, LIMIT 1, STOP true) -> ra; ra[1] -> Discard",
        ports: "1/1-2",
        processing: "h/h",
        args: &[
            Arg::required("IP6", Ty::Ip6, "the router's link-local address"),
            Arg::required("ETH", Ty::Ether, "the router's Ethernet address"),
            Arg::keyword("PREFIX", Ty::Any, "prefixes of the link, with blanks between"),
            Arg::keyword("DNS", Ty::Any, "resolvers, addresses with blanks between"),
            Arg::keyword("MTU", Ty::UInt, "MTU of the link; not announced if left out"),
            Arg::keyword("LIFETIME", Ty::Time, "how long hosts use this router; 0: not at all")
                .or("1800s"),
            Arg::keyword("VALID", Ty::Time, "how long addresses are valid").or("86400s"),
            Arg::keyword("PREFERRED", Ty::Time, "how long addresses are preferred").or("14400s"),
            Arg::keyword("INTERVAL", Ty::Time, "longest time between two advertisements")
                .or("600s"),
        ],
        drops: Other::DROPS,
        wants: Wants { classes: &["12/86dd 20/3a 54/85"], ..Wants::NOTHING },
        cost: &[Operation::HeaderRead.once(), Operation::ChecksumLine.once()],
        replicas: Replicas::OneThread("it keeps the times between advertisements"),
        large_packets: true,
        ..Spec::DEFAULT
    },
    build,
);

reasons! {
    /// Why a frame is not answered by itself.
    enum Other {
        NotSolicitation = "not-solicitation": "it is no valid router solicitation",
        Heard = consumed "heard": "a solicitation, answered by an advertisement to all",
    }
}

const SECOND: i64 = 1_000_000_000;
/// Time between the first advertisements at most, and how many these are (RFC 4861 section 10).
const INITIAL: (i64, u64) = (16 * SECOND, 3);
/// Time between two advertisements at least (MIN_DELAY_BETWEEN_RAS, RFC 4861 section 10).
const APART_NS: i64 = 3 * SECOND;
/// Longest delay of an answer (MAX_RA_DELAY_TIME, RFC 4861 section 10).
const DELAY_NS: u64 = 500_000_000;
/// Bounds of INTERVAL, seconds (RFC 4861 section 6.2.1).
const INTERVAL_S: std::ops::RangeInclusive<i64> = 4..=1800;
/// Longest LIFETIME, seconds (RFC 4861 section 6.2.1).
const LIFETIME_MAX_S: i64 = 9000;
/// Most prefixes, and most resolvers: all have room in one frame.
const EACH_MAX: usize = 8;
/// Type of the option with resolvers (RFC 8106 section 5.1).
const RDNSS: u8 = 25;
/// On the link, and autonomous (RFC 4861 section 4.6.2).
const ON_LINK: u8 = 0x80;
const AUTONOMOUS: u8 = 0x40;
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// The contents of advertisements.
struct Announced {
    ip: Ipv6Addr,
    mac: MacAddr,
    prefixes: Vec<Ip6Prefix>,
    dns: Vec<Ipv6Addr>,
    mtu: Option<u32>,
    lifetime_s: u16,
    /// Of prefixes: valid and preferred.
    times_s: (u32, u32),
    /// Of resolvers.
    dns_s: u32,
}

impl Announced {
    /// The message behind its ICMPv6 header: two times that are left to hosts, and options.
    fn body(&self) -> Vec<u8> {
        let mut body = vec![0; 8];
        body.extend([option::SOURCE_LINK, 1]);
        body.extend(self.mac.0);
        if let Some(mtu) = self.mtu {
            body.extend([option::MTU, 1, 0, 0]);
            body.extend(mtu.to_be_bytes());
        }
        for prefix in &self.prefixes {
            // Interface identifiers have 64 bits (RFC 4862 section 5.5.3 d).
            let autonomous = if prefix.length == 64 { AUTONOMOUS } else { 0 };
            body.extend([option::PREFIX, 4, prefix.length, ON_LINK | autonomous]);
            body.extend(self.times_s.0.to_be_bytes());
            body.extend(self.times_s.1.to_be_bytes());
            body.extend([0; 4]);
            body.extend(prefix.network().octets());
        }
        if !self.dns.is_empty() {
            // At most EACH_MAX.
            body.extend([RDNSS, 1 + 2 * self.dns.len() as u8, 0, 0]);
            body.extend(self.dns_s.to_be_bytes());
            self.dns.iter().for_each(|dns| body.extend(dns.octets()));
        }
        body
    }

    /// The frame, the same every time.
    fn frame(&self) -> Result<Vec<u8>, ParseError> {
        let body = self.body();
        let len = Icmpv6Header::LEN + body.len();
        let mut frame = vec![0; EthernetHeader::LEN + Ipv6Header::LEN + len];
        let to = MacAddr::ipv6_multicast(ALL_NODES);
        let ether = EthernetHeader::new(to, self.mac, ethertype::IPV6);
        let mut ip = Ipv6Header::new(ip_protocol::ICMPV6, self.ip, ALL_NODES, len)?;
        ip.set_hop_limit(ndp::HOP_LIMIT);
        // Hop limit 64 for packets of hosts, no flags: there is no DHCP for IPv6.
        let rest = 64 << 24 | u32::from(self.lifetime_s);
        let icmp = Icmpv6Header::new(icmpv6_type::ROUTER_ADVERTISEMENT, 0, rest);
        let addresses = (&self.ip.octets(), &ALL_NODES.octets());
        icmp.emit_message(addresses, &body, ip.emit(ether.emit(&mut frame)?)?)?;
        Ok(frame)
    }
}

#[derive(Handlers)]
struct RouterAdvertiser {
    frame: Vec<u8>,
    interval_ns: i64,
    random: Random,
    /// advertisements sent
    #[handler(read)]
    sent: u64,
    sent_at: i64,
    next_at: i64,
}

/// The words of an argument, each read as `T`.
fn list<T: thruway_element::FromArg>(args: &Args<'_>, name: &str) -> Result<Vec<T>, ArgError> {
    let words = split_words(args.text(name).unwrap_or(""));
    let all = words.iter().map(|word| args.parse(word)).collect::<Result<Vec<T>, _>>();
    let all = all.map_err(|why| args.error(name, why))?;
    match all.len() {
        0..=EACH_MAX => Ok(all),
        _ => Err(args.error(name, format!("there may be {EACH_MAX} at most"))),
    }
}

/// A time in whole seconds, within these bounds.
fn seconds(args: &Args<'_>, name: &str, bounds: (i64, i64)) -> Result<i64, ArgError> {
    let Nanos(ns) = args.get(name)?;
    let seconds = ns / SECOND;
    if (bounds.0..=bounds.1).contains(&seconds) {
        return Ok(seconds);
    }
    Err(args.error(name, format!("expected {} s to {} s", bounds.0, bounds.1)))
}

fn announced(args: &Args<'_>, interval_s: i64) -> Result<Announced, ArgError> {
    let ip: Ipv6Addr = args.get("IP6")?;
    if !ip.is_unicast_link_local() {
        return Err(args.error("IP6", format!("{ip} is not link-local (RFC 4861 section 6.1.2)")));
    }
    let mtu: Option<u32> = args.opt("MTU")?;
    if mtu.is_some_and(|mtu| mtu < 1280) {
        return Err(args.error("MTU", "IPv6 needs 1280 bytes at least (RFC 8200 section 5)"));
    }
    let valid_s = seconds(args, "VALID", (0, i64::from(u32::MAX)))?;
    let lifetime_s = seconds(args, "LIFETIME", (0, LIFETIME_MAX_S))?;
    if lifetime_s != 0 && lifetime_s < interval_s {
        return Err(args.error("LIFETIME", "hosts would forget the router before INTERVAL"));
    }
    // Each is within the bounds of its field.
    Ok(Announced {
        ip,
        mac: args.get("ETH")?,
        prefixes: list(args, "PREFIX")?,
        dns: list(args, "DNS")?,
        mtu,
        lifetime_s: lifetime_s as u16,
        times_s: (valid_s as u32, seconds(args, "PREFERRED", (0, valid_s))? as u32),
        // RFC 8106 section 5.1
        dns_s: 3 * interval_s as u32,
    })
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let interval_s = seconds(args, "INTERVAL", (*INTERVAL_S.start(), *INTERVAL_S.end()))?;
    let frame = announced(args, interval_s)?.frame();
    let frame = frame.map_err(|error| ArgErrors::whole(error.to_string()))?;
    Ok(Box::new(RouterAdvertiser {
        frame,
        interval_ns: interval_s * SECOND,
        random: random::of_element(args, thruway_elements_support::random::fresh_seed()),
        sent: 0,
        sent_at: i64::MIN,
        next_at: i64::MIN,
    }))
}

/// Whether a frame is a valid router solicitation (RFC 4861 section 6.1.1).
fn solicits(frame: &[u8]) -> bool {
    let parsed = || {
        let (ether, body) = EthernetHeader::parse(frame).ok()?;
        let (ip, payload) = Ipv6Header::parse(body).ok()?;
        let (icmp, options) = Icmpv6Header::parse(payload).ok()?;
        let sum = ip.pseudo_sum(ip_protocol::ICMPV6, payload.len());
        let is_one = ether.ethertype() == ethertype::IPV6
            && ip.next_header() == ip_protocol::ICMPV6
            && ip.hop_limit() == ndp::HOP_LIMIT
            && (icmp.icmp_type(), icmp.code()) == (icmpv6_type::ROUTER_SOLICITATION, 0)
            && sum.with(payload).checksum() == 0;
        let mut has_link = false;
        for option in NdpOptions::new(options) {
            has_link |= matches!(option.ok()?, NdpOption::SourceLink(_));
        }
        Some(is_one && !(has_link && ip.src_addr().is_unspecified()))
    };
    parsed().unwrap_or(false)
}

impl RouterAdvertiser {
    /// When the next one is due, by itself.
    fn wait_ns(&mut self) -> i64 {
        let spread = self.interval_ns / 3;
        let wait = self.interval_ns - self.random.below(spread as u64) as i64;
        if self.sent < INITIAL.1 { wait.min(INITIAL.0) } else { wait }
    }

    fn wake_at(&mut self, cx: &mut Cx<'_>, at: i64) {
        self.next_at = at;
        cx.clear_timer(0);
        cx.set_timer(0, at);
    }

    fn receive(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        if !solicits(packet.data()) {
            return cx.reject(1, Other::NotSolicitation, packet);
        }
        cx.drop(Other::Heard, packet);
        let delay = self.random.below(DELAY_NS) as i64;
        let at = cx.now().saturating_add(delay).max(self.sent_at.saturating_add(APART_NS));
        if at < self.next_at {
            self.wake_at(cx, at);
        }
    }
}

impl Element for RouterAdvertiser {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.wake_at(cx, cx.now());
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        for packet in batch.drain() {
            self.receive(cx, packet);
        }
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        (self.sent, self.sent_at) = (self.sent + 1, cx.now());
        let next_at = cx.now().saturating_add(self.wait_ns());
        self.wake_at(cx, next_at);
        if let Some(mut packet) = cx.packet(&self.frame) {
            packet.set_mac_offset(0);
            cx.count_made(1);
            cx.emit(0, packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use thruway_wire::ndp::RouterAdvertisement;

    const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);

    #[test]
    fn an_advertisement_says_all() {
        let net = Ipv6Addr::new(0xfd00, 1, 0, 0, 0, 0, 0, 9);
        let prefix = |length| Ip6Prefix { addr: net, length };
        let announced = Announced {
            ip: ROUTER,
            mac: MAC,
            prefixes: vec![prefix(64), prefix(48)],
            dns: vec![net; EACH_MAX],
            mtu: Some(1500),
            lifetime_s: 1800,
            times_s: (86400, 14400),
            dns_s: 1800,
        };
        let frame = announced.frame().unwrap();
        assert_eq!(frame[..6], [0x33, 0x33, 0, 0, 0, 1]);
        let (ip, payload) = Ipv6Header::parse(&frame[14..]).unwrap();
        assert_eq!((ip.src_addr(), ip.dst_addr(), ip.hop_limit()), (ROUTER, ALL_NODES, 255));
        assert_eq!(ip.pseudo_sum(58, payload.len()).with(payload).checksum(), 0);
        let (message, options) = RouterAdvertisement::parse(payload).unwrap();
        assert_eq!((message.lifetime_s(), message.hop_limit(), message.flags()), (1800, 64, 0));
        let options: Vec<NdpOption<'_>> = NdpOptions::new(options).map(Result::unwrap).collect();
        assert_eq!(options[..2], [NdpOption::SourceLink(MAC), NdpOption::Mtu(1500)]);
        let [NdpOption::Prefix(first), NdpOption::Prefix(second)] = options[2..4] else {
            panic!("{options:?}");
        };
        assert_eq!((first.prefix_len(), first.flags(), first.valid_s()), (64, 0xc0, 86400));
        assert_eq!(first.prefix()[..8], [0xfd, 0, 0, 1, 0, 0, 0, 0]);
        assert_eq!((second.prefix_len(), second.flags(), second.prefix()[15]), (48, 0x80, 0));
        let NdpOption::Other { kind: RDNSS, data } = options[4] else { panic!("{options:?}") };
        assert_eq!((data.len(), &data[2..6]), (6 + 16 * EACH_MAX, &[0, 0, 7, 8][..]));
        assert!(frame.len() < 1280);
    }

    fn solicitation(src: Ipv6Addr, options: &[u8]) -> Vec<u8> {
        let to = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
        let len = 8 + options.len();
        let mut frame = vec![0; 54 + len];
        let ether = EthernetHeader::new(MacAddr::ipv6_multicast(to), MAC, ethertype::IPV6);
        let mut ip = Ipv6Header::new(58, src, to, len).unwrap();
        ip.set_hop_limit(255);
        let icmp = Icmpv6Header::new(icmpv6_type::ROUTER_SOLICITATION, 0, 0);
        let rest = ip.emit(ether.emit(&mut frame).unwrap()).unwrap();
        icmp.emit_message((&src.octets(), &to.octets()), options, rest).unwrap();
        frame
    }

    #[test]
    fn solicitations_are_checked() {
        let link = [1, 1, 2, 0, 0, 0, 0, 1];
        assert!(solicits(&solicitation(ROUTER, &link)) && solicits(&solicitation(ROUTER, &[])));
        assert!(solicits(&solicitation(Ipv6Addr::UNSPECIFIED, &[])));
        assert!(!solicits(&solicitation(Ipv6Addr::UNSPECIFIED, &link)));
        assert!(!solicits(&solicitation(ROUTER, &[1, 0, 2, 0, 0, 0, 0, 1])), "length 0");
        // Hop limit, type, code, checksum.
        for at in [21, 54, 55, 56] {
            let mut frame = solicitation(ROUTER, &link);
            frame[at] ^= 1;
            assert!(!solicits(&frame), "{at}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            prop_assert!(!solicits(&bytes));
        }
    }
}

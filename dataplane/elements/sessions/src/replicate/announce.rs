//! Announcements: the addresses are at this host from now on, by ARP (RFC 5227 section 3) or by
//! unsolicited neighbour advertisements (RFC 4861 section 7.2.6).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use thruway_element::text::split_words;
use thruway_element::{ArgError, ArgErrors, Args, Cx};
use thruway_packet::{Packet, PacketKind};
use thruway_wire::arp::{ArpPacket, REQUEST};
use thruway_wire::ethernet::{EthernetHeader, ethertype};
use thruway_wire::ipv6::Ipv6Header;
use thruway_wire::ndp::{self, NeighborMessage, flags};
use thruway_wire::{Header, MacAddr, ParseError, ip_protocol};

/// Times of announcements since the first, nanoseconds: one may be lost, or a switch may learn
/// late.
const ARP_NS: [i64; 4] = [0, 20_000_000, 120_000_000, 620_000_000];
/// RFC 4861 section 7.2.6 allows MAX_NEIGHBOR_ADVERTISEMENT, RetransTimer apart.
const ND_NS: [i64; 3] = [0, 1_000_000_000, 2_000_000_000];
/// All nodes of the link (RFC 4291 section 2.7.1).
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// Announces one address at one network.
struct Announced {
    network: usize,
    frame: Vec<u8>,
    /// When it is sent.
    times: &'static [i64],
}

/// The announcements of all networks.
pub(super) struct Announcement {
    /// The Ethernet address that both hosts have at each network, where one is announced.
    macs: Vec<Option<MacAddr>>,
    announced: Vec<Announced>,
    /// When the first were sent.
    begun: i64,
    /// Since then: until when all were sent that are due.
    sent_until: i64,
}

impl Announcement {
    /// Of the element's arguments: as many networks as inputs or half as many, twice as
    /// many outputs.
    pub(super) fn of(args: &Args<'_>) -> Result<Announcement, ArgErrors> {
        let (inputs, outputs) = (args.env().inputs, args.env().outputs);
        let networks = args.rest().len();
        let may_be = inputs == networks || inputs == networks * 2;
        if networks == 0 || !may_be || outputs != networks * 2 {
            let why = format!(
                "{networks} addresses, {inputs} inputs and {outputs} outputs: there must be an \
                 input for each address (or two, for output commit), and two outputs"
            );
            return Err(ArgErrors::whole(why));
        }
        let (mut announced, mut macs) = (Vec::new(), Vec::new());
        for (network, (index, text)) in args.rest().enumerate() {
            let of_text = |why| -> ArgError { args.rest_error(index, format!("'{text}': {why}")) };
            let (addresses, mac) = addresses(args, text).map_err(of_text)?;
            macs.push((!addresses.is_empty()).then_some(mac));
            for address in addresses {
                let (frame, times) = match address {
                    IpAddr::V4(ip) => (arp_frame(ip, mac), &ARP_NS[..]),
                    IpAddr::V6(ip) => (nd_frame(ip, mac), &ND_NS[..]),
                };
                let frame = frame.map_err(|error| of_text(error.to_string()))?;
                announced.push(Announced { network, frame, times });
            }
        }
        Ok(Announcement { macs, announced, begun: 0, sent_until: -1 })
    }

    /// How many networks there are.
    pub(super) fn networks(&self) -> usize {
        self.macs.len()
    }

    /// Whether a packet of a network came to the address that both hosts have there: nobody sends
    /// it to the other one, too. Where no address is announced, it is the interface's.
    pub(super) fn is_addressed(&self, network: usize, packet: &Packet) -> bool {
        match self.macs.get(network) {
            Some(Some(mac)) => packet.data().starts_with(&mac.0),
            _ => packet.kind() == PacketKind::Host,
        }
    }

    /// Begins anew.
    pub(super) fn begin(&mut self, now: i64) {
        (self.begun, self.sent_until) = (now, -1);
    }

    /// Announces the addresses that are due; the time of the next, if there is one.
    pub(super) fn send(&mut self, cx: &mut Cx<'_>) -> Option<i64> {
        let since = cx.now().saturating_sub(self.begun).max(0);
        let mut next: Option<i64> = None;
        for announced in &self.announced {
            let is_due = |time: &&i64| (self.sent_until + 1..=since).contains(*time);
            if announced.times.iter().any(|time| is_due(&time)) {
                emit_frame(cx, self.networks() + announced.network, &announced.frame);
            }
            let later = announced.times.iter().copied().find(|time| *time > since);
            next = [next, later].into_iter().flatten().min();
        }
        self.sent_until = since;
        next.map(|time| self.begun.saturating_add(time))
    }
}

/// Sends an Ethernet frame that did not come in here.
pub(super) fn emit_frame(cx: &mut Cx<'_>, output: usize, frame: &[u8]) {
    let Some(mut packet) = cx.packet(frame) else { return };
    packet.set_timestamp(cx.now());
    packet.set_mac_offset(0);
    if frame.len() >= EthernetHeader::LEN {
        packet.set_network(EthernetHeader::LEN, 0);
    }
    cx.emit(output, packet);
    cx.count_made(1);
}

/// The addresses of `IP... ETH`; none of `-`.
fn addresses(args: &Args<'_>, text: &str) -> Result<(Vec<IpAddr>, MacAddr), String> {
    let words = split_words(text);
    if matches!(words[..], ["-"]) {
        return Ok((Vec::new(), MacAddr::ZERO));
    }
    let Some((mac, ips)) = words.split_last().filter(|(_, ips)| !ips.is_empty()) else {
        return Err("expected IP... ETH, or - for a network where nothing is announced".into());
    };
    let address = |word: &&str| match args.parse::<Ipv6Addr>(word) {
        Ok(ip) if ip.is_multicast() || ip.is_unspecified() => {
            Err(format!("{ip} is no address of a host"))
        }
        Ok(ip) => Ok(IpAddr::V6(ip)),
        Err(_) => args.parse::<Ipv4Addr>(word).map(IpAddr::V4),
    };
    Ok((ips.iter().map(address).collect::<Result<_, _>>()?, args.parse(mac)?))
}

/// An ARP request for the own address.
fn arp_frame(ip: Ipv4Addr, mac: MacAddr) -> Result<Vec<u8>, ParseError> {
    let mut frame = vec![0; EthernetHeader::LEN + ArpPacket::LEN];
    let header = EthernetHeader::new(MacAddr::BROADCAST, mac, ethertype::ARP);
    let rest = header.emit(&mut frame)?;
    ArpPacket::new(REQUEST, (mac, ip), (MacAddr::ZERO, ip)).emit(rest)?;
    Ok(frame)
}

/// An advertisement that nobody asked for, to all nodes: of a router, and it replaces what they
/// know.
fn nd_frame(ip: Ipv6Addr, mac: MacAddr) -> Result<Vec<u8>, ParseError> {
    const MESSAGE: usize = NeighborMessage::LEN + 8;
    let mut frame = vec![0; EthernetHeader::LEN + Ipv6Header::LEN + MESSAGE];
    let to = MacAddr::ipv6_multicast(ALL_NODES);
    let rest = EthernetHeader::new(to, mac, ethertype::IPV6).emit(&mut frame)?;
    let mut header = Ipv6Header::new(ip_protocol::ICMPV6, ip, ALL_NODES, MESSAGE)?;
    header.set_hop_limit(ndp::HOP_LIMIT);
    let rest = header.emit(rest)?;
    let message = NeighborMessage::advertisement(ip, flags::ROUTER | flags::OVERRIDE);
    message.emit_message((&ip.octets(), &ALL_NODES.octets()), Some(mac), rest)?;
    Ok(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The address that both hosts have is seldom the interface's: to that, the frame is another
    /// host's.
    #[test]
    fn frames_to_the_address_of_both_hosts_are_addressed() {
        let mac = MacAddr([2, 0, 0, 0, 0, 1]);
        let announcement = Announcement {
            macs: vec![Some(mac), None],
            announced: vec![],
            begun: 0,
            sent_until: -1,
        };
        let is_addressed = |network, to: MacAddr, kind| {
            let mut packet = Packet::new(&[&to.0[..], &[0; 54]].concat()).expect("memory");
            packet.set_kind(kind);
            announcement.is_addressed(network, &packet)
        };
        assert!(is_addressed(0, mac, PacketKind::OtherHost));
        assert!(!is_addressed(0, MacAddr([2, 0, 0, 0, 0, 2]), PacketKind::Host));
        assert!(!is_addressed(0, MacAddr::BROADCAST, PacketKind::Broadcast));
        // Where routes lead to the interface.
        assert!(is_addressed(1, mac, PacketKind::Host));
        assert!(!is_addressed(1, mac, PacketKind::OtherHost));
    }
}

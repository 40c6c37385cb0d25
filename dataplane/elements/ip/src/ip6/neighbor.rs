//! Neighbour solicitations and advertisements in Ethernet frames (RFC 4861 section 7).

use std::net::Ipv6Addr;

use thruway_wire::ethernet::{EthernetHeader, ethertype};
use thruway_wire::ipv6::Ipv6Header;
use thruway_wire::ndp::{self, NdpOption, NdpOptions, NeighborMessage};
use thruway_wire::{Header, MacAddr, ip_protocol};

/// Length of the frames made here: Ethernet, IPv6, message, one link address option.
pub const FRAME_LEN: usize = EthernetHeader::LEN + Ipv6Header::LEN + NeighborMessage::LEN + 8;

/// A message that passed all checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbor {
    /// Sender of the frame.
    pub ether_src: MacAddr,
    /// Source address of the packet.
    pub src: Ipv6Addr,
    /// Whether it is a solicitation.
    pub solicits: bool,
    /// The address asked for or had.
    pub target: Ipv6Addr,
    /// Flags of an advertisement.
    pub flags: u32,
    /// Source link address of a solicitation, target link address of an advertisement.
    pub link: Option<MacAddr>,
}

/// The message in a frame; `None` unless all that RFC 4861 sections 7.1.1 and 7.1.2 ask for holds.
pub fn parse(frame: &[u8]) -> Option<Neighbor> {
    let (ether, body) = EthernetHeader::parse(frame).ok()?;
    let (ip, payload) = Ipv6Header::parse(body).ok()?;
    let right_kind = ether.ethertype() == ethertype::IPV6
        && ip.next_header() == ip_protocol::ICMPV6
        && ip.hop_limit() == ndp::HOP_LIMIT;
    if !right_kind
        || ip.pseudo_sum(ip_protocol::ICMPV6, payload.len()).with(payload).checksum() != 0
    {
        return None;
    }
    // The view checks type and code.
    let (message, options) = NeighborMessage::parse(payload).ok()?;
    let solicits = message.is_solicitation();
    let link = link_option(options, solicits)?;
    let (src, dst, target) = (ip.src_addr(), ip.dst_addr(), message.target_addr());
    let addresses_fit = if solicits {
        // Duplicate address detection: from the unspecified address, to the group, without a link
        // address.
        !src.is_unspecified() || (link.is_none() && dst == ndp::solicited_node(target))
    } else {
        !dst.is_multicast() || message.flags() & ndp::flags::SOLICITED == 0
    };
    (addresses_fit && !target.is_multicast()).then_some(Neighbor {
        ether_src: ether.src(),
        src,
        solicits,
        target,
        flags: message.flags(),
        link,
    })
}

/// The link address among the options: `Some(None)` when there is none, `None` when an option has
/// length 0 or is cut (RFC 4861 section 4.6).
fn link_option(options: &[u8], solicits: bool) -> Option<Option<MacAddr>> {
    let mut link = None;
    for option in NdpOptions::new(options) {
        match option.ok()? {
            NdpOption::SourceLink(mac) if solicits => link = Some(mac),
            NdpOption::TargetLink(mac) if !solicits => link = Some(mac),
            _ => {}
        }
    }
    Some(link)
}

/// The frame of a message with the link address `ethers.0` as its option. `ethers` and `addresses`
/// are source and destination.
pub fn frame(
    message: &NeighborMessage,
    ethers: (MacAddr, MacAddr),
    addresses: (Ipv6Addr, Ipv6Addr),
) -> [u8; FRAME_LEN] {
    let mut frame = [0; FRAME_LEN];
    let len = NeighborMessage::LEN + 8;
    let ether = EthernetHeader::new(ethers.1, ethers.0, ethertype::IPV6);
    let (src, dst) = addresses;
    let octets = (&src.octets(), &dst.octets());
    // The array has just the length of the parts.
    let _ = Ipv6Header::new(ip_protocol::ICMPV6, src, dst, len).and_then(|mut ip| {
        ip.set_hop_limit(ndp::HOP_LIMIT);
        let rest = ip.emit(ether.emit(&mut frame)?)?;
        message.emit_message(octets, Some(ethers.0), rest)
    });
    frame
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use thruway_wire::icmpv6::Icmpv6Header;

    const ME: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const YOU: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

    fn ip(n: u16) -> Ipv6Addr {
        Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, n)
    }

    fn solicitation() -> [u8; FRAME_LEN] {
        let to = ndp::solicited_node(ip(2));
        frame(&NeighborMessage::solicitation(ip(2)), (ME, MacAddr::ipv6_multicast(to)), (ip(1), to))
    }

    /// After a change, the checksum as it should be.
    fn fixed(mut frame: Vec<u8>) -> Vec<u8> {
        let (ip, _) = Ipv6Header::view(&frame[14..]).unwrap();
        let sum = ip.pseudo_sum(58, frame.len() - 54);
        Icmpv6Header::fill_checksum(&mut frame[54..], sum).unwrap();
        frame
    }

    #[test]
    fn a_solicitation_and_its_advertisement() {
        let found = parse(&solicitation()).unwrap();
        assert_eq!((found.solicits, found.target, found.link), (true, ip(2), Some(ME)));
        assert_eq!(solicitation()[..6], [0x33, 0x33, 0xff, 0, 0, 2]);
        let flags = ndp::flags::SOLICITED;
        let message = NeighborMessage::advertisement(ip(2), flags);
        let found = parse(&frame(&message, (YOU, ME), (ip(2), ip(1)))).unwrap();
        assert_eq!((found.solicits, found.flags, found.link), (false, flags, Some(YOU)));
        // Solicited, but to a group.
        let all = "ff02::1".parse().unwrap();
        assert_eq!(parse(&frame(&message, (YOU, ME), (ip(2), all))), None);
    }

    #[test]
    fn what_is_refused() {
        let good = solicitation().to_vec();
        let with = |at: usize, value: u8| {
            let mut frame = good.clone();
            frame[at] = value;
            parse(&fixed(frame))
        };
        assert!(with(21, 255).is_some());
        // Hop limit, code, ethertype, next header, group target, option of length 0.
        for (at, value) in [(21, 254), (55, 1), (13, 0), (20, 17), (62, 0xff), (79, 0)] {
            assert_eq!(with(at, value), None, "{at}");
        }
        let mut bad_sum = good.clone();
        bad_sum[56] ^= 1;
        assert_eq!(parse(&bad_sum), None);
        // Duplicate address detection must not bear a link address.
        let to = ndp::solicited_node(ip(2));
        let none = Ipv6Addr::UNSPECIFIED;
        let probe = frame(&NeighborMessage::solicitation(ip(2)), (ME, YOU), (none, to));
        assert_eq!(parse(&probe), None);
        let mut bare = probe[..FRAME_LEN - 8].to_vec();
        bare[19] = 24;
        assert_eq!(parse(&fixed(bare)).unwrap().link, None);
    }

    proptest! {
        #[test]
        fn any_bytes(
            mut frame in prop::collection::vec(any::<u8>(), 0..120),
            front in 0usize..80,
        ) {
            let n = front.min(frame.len());
            frame[..n].copy_from_slice(&solicitation()[..n]);
            let _ = parse(&frame);
            if frame.len() > 62 {
                let _ = parse(&fixed(frame));
            }
        }
    }
}

//! DHCP messages in Ethernet frames: what DHCPServer and DHCPClient share.

use std::net::Ipv4Addr;

use thruway_wire::dhcp::{DhcpHeader, DhcpMessage, DhcpWriter, LEN_MAX};
use thruway_wire::ethernet::{EthernetHeader, ethertype};
use thruway_wire::ipv4::Ipv4Header;
use thruway_wire::udp::UdpHeader;
use thruway_wire::{Header, MacAddr, ParseError, ip_protocol};

/// Length of the headers in front of a message.
const FRONT: usize = EthernetHeader::LEN + Ipv4Header::LEN + UdpHeader::LEN;

/// A message that passed the checks of all its headers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Received<'a> {
    /// Source of the frame.
    pub ether_src: MacAddr,
    /// The message's contents.
    pub message: DhcpMessage<'a>,
}

/// The message to UDP port `port` in a frame, if there is a valid one.
pub(super) fn receive(frame: &[u8], port: u16) -> Option<Received<'_>> {
    let (ether, body) = EthernetHeader::parse(frame).ok()?;
    if ether.ethertype() != ethertype::IPV4 {
        return None;
    }
    let (ip, options, datagram) = Ipv4Header::parse_with_options(body).ok()?;
    let whole = ip.protocol() == ip_protocol::UDP && !ip.is_fragment() && ip.checksum_ok(options);
    if !whole || !UdpHeader::checksum_ok(datagram, ip.pseudo_sum(datagram.len())).ok()? {
        return None;
    }
    let (udp, payload) = UdpHeader::parse(datagram).ok()?;
    let message = DhcpMessage::parse(payload).ok().filter(|_| udp.dst_port() == port)?;
    Some(Received { ether_src: ether.src(), message })
}

/// Where a message comes from and goes to: source and destination of each layer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    pub ethers: (MacAddr, MacAddr),
    pub addresses: (Ipv4Addr, Ipv4Addr),
    pub ports: (u16, u16),
}

/// A frame to be sent.
pub(super) struct Frame {
    bytes: [u8; FRONT + LEN_MAX],
    len: usize,
}

impl Frame {
    /// A message with the options that `write` adds to it.
    ///
    /// # Errors
    /// They do not fit into a message that every client takes.
    pub(super) fn new(
        path: &Path,
        header: &DhcpHeader,
        message_type: u8,
        write: impl FnOnce(&mut DhcpWriter<'_>),
    ) -> Result<Frame, ParseError> {
        let mut frame = Frame { bytes: [0; FRONT + LEN_MAX], len: 0 };
        let mut writer = DhcpWriter::new(&mut frame.bytes[FRONT..], header, message_type);
        write(&mut writer);
        let len = writer.finish()?;
        let ether = EthernetHeader::new(path.ethers.1, path.ethers.0, ethertype::IPV4);
        let (src, dst) = path.addresses;
        let ip = Ipv4Header::new(ip_protocol::UDP, src, dst, UdpHeader::LEN + len)?;
        let datagram = ip.emit(ether.emit(&mut frame.bytes)?)?;
        UdpHeader::new(path.ports.0, path.ports.1, len)?.emit(datagram)?;
        UdpHeader::fill_checksum(datagram, ip.pseudo_sum(UdpHeader::LEN + len))?;
        frame.len = FRONT + len;
        Ok(frame)
    }

    /// The bytes of the frame.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use thruway_wire::dhcp::{self, BOOTREQUEST, message_type, option};

    const PATH: Path = Path {
        ethers: (MacAddr([2, 0, 0, 0, 0, 9]), MacAddr::BROADCAST),
        addresses: (Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST),
        ports: (dhcp::CLIENT_PORT, dhcp::SERVER_PORT),
    };

    fn discover() -> Vec<u8> {
        let header = DhcpHeader::new(BOOTREQUEST, PATH.ethers.0, 7);
        let frame = Frame::new(&PATH, &header, message_type::DISCOVER, |writer| {
            writer.put(option::HOST_NAME, b"pc");
        });
        frame.unwrap().bytes().to_vec()
    }

    #[test]
    fn what_is_sent_is_received() {
        let frame = discover();
        assert_eq!(frame.len(), FRONT + dhcp::LEN_MIN);
        let found = receive(&frame, dhcp::SERVER_PORT).unwrap();
        assert_eq!(found.ether_src, PATH.ethers.0);
        assert_eq!(found.message.option(option::HOST_NAME), Some(&b"pc"[..]));
        assert!(receive(&frame, dhcp::CLIENT_PORT).is_none());
    }

    #[test]
    fn options_that_do_not_fit() {
        let header = DhcpHeader::new(BOOTREQUEST, PATH.ethers.0, 7);
        let frame = Frame::new(&PATH, &header, message_type::DISCOVER, |writer| {
            (0..2).for_each(|_| writer.put(option::HOST_NAME, &[0; 200]));
        });
        assert!(frame.is_err());
    }

    proptest! {
        /// A changed byte is noticed, but for what no checksum covers: Ethernet addresses.
        #[test]
        fn damage_is_noticed(at in 12usize..342, flip in 1u8..) {
            let mut frame = discover();
            frame[at] ^= flip;
            // A UDP checksum of 0 is none.
            prop_assume!(frame[40..42] != [0, 0]);
            prop_assert!(receive(&frame, dhcp::SERVER_PORT).is_none());
        }

        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            let _ = receive(&bytes, dhcp::SERVER_PORT);
        }
    }
}

//! StoreIPAddress: an address into the packet.

use std::net::Ipv4Addr;

use thruway_element::{
    Arg, ArgError, ArgErrors, Args, Changes, Cx, Element, Entry, Operation, Replicas, Spec, Topic,
    Ty,
};
use thruway_packet::{Batch, Packet};
use thruway_wire::checksum::Delta;
use thruway_wire::ipv4::Ipv4Header;
use thruway_wire::tcp::TcpHeader;
use thruway_wire::udp::UdpHeader;
use thruway_wire::{Header, ip_protocol};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "StoreIPAddress",
        topic: Topic::Ip,
        summary: "writes an IP address into packets",
        docs: "With two arguments, writes ADDRESS at OFFSET; with OFFSET alone, the destination \
               annotation, unless that is 0.0.0.0. Checksums are then for others to set \
               (SetIPChecksum, SetTCPChecksum, SetUDPChecksum).\n\n\
               Where OFFSET is src or dst, the address goes into that field of the marked IP \
               header, and the checksums of IP, TCP and UDP are updated. Packets that end before \
               the place pass unchanged.",
        example: "InfiniteSource(\\<4500001400000000401177d70100000102000002>, LIMIT 1, STOP true) \
                  -> MarkIPHeader -> StoreIPAddress(9.9.9.9, src) -> CheckIPHeader -> Discard",
        straight: true,
        args: &[Arg::rest(
            "ARGUMENT",
            Ty::Rule("[ADDRESS,] OFFSET"),
            "offset in bytes, src or dst",
        )],
        cost: &[Operation::HeaderWrite.once()],
        changes: Changes::Headers,
        replicas: Replicas::Alike,
        large_packets: true,
        ..Spec::DEFAULT
    },
    build,
);

/// Where the address goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Offset(usize),
    Src,
    Dst,
}

struct StoreIpAddress {
    /// `None`: the annotation.
    addr: Option<Ipv4Addr>,
    target: Target,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let texts: Vec<(usize, &str)> = args.rest().collect();
    let (addr, (index, target)) = match texts[..] {
        [target] => (None, target),
        [addr, target] => (Some(addr), target),
        _ => return Err(ArgErrors::whole("expected StoreIPAddress([ADDRESS,] OFFSET)")),
    };
    let wrong = |index| move |why: String| -> ArgError { args.rest_error(index, why) };
    let addr = addr.map(|(index, text)| args.parse(text).map_err(wrong(index))).transpose()?;
    let target = match target.to_ascii_lowercase().as_str() {
        "src" => Target::Src,
        "dst" => Target::Dst,
        _ => {
            let offset = args.parse::<u32>(target);
            let message = |why| format!("OFFSET: {why}; write a number of bytes, src or dst");
            Target::Offset(offset.map_err(message).map_err(wrong(index))? as usize)
        }
    };
    Ok(Box::new(StoreIpAddress { addr, target }))
}

/// Sets a field of the marked IP header, sound or not, and updates the checksums over it.
fn set_field(packet: &mut Packet, target: Target, addr: u32) {
    let Ok((ip, rest)) = Ipv4Header::view_mut(packet.network_mut()) else { return };
    let Some(options_len) = ip.header_len().checked_sub(Ipv4Header::LEN) else { return };
    let delta = match target {
        Target::Src => ip.update_src(addr),
        _ => ip.update_dst(addr),
    };
    if ip.is_first_fragment()
        && let Some(body) = rest.get_mut(options_len..)
    {
        update_transport(ip.protocol(), body, delta);
    }
}

/// Changes the checksum of the transport header for a change of the pseudo header.
fn update_transport(protocol: u8, body: &mut [u8], delta: Delta) {
    match protocol {
        ip_protocol::TCP => {
            if let Ok((tcp, _)) = TcpHeader::view_mut(body) {
                tcp.update_checksum(delta);
            }
        }
        ip_protocol::UDP => {
            if let Ok((udp, _)) = UdpHeader::view_mut(body) {
                udp.update_checksum(delta);
            }
        }
        _ => {}
    }
}

impl StoreIpAddress {
    #[inline]
    fn store(&self, packet: &mut Packet) {
        let addr = self.addr.map_or(packet.dst_ip(), |addr| addr.octets());
        if self.addr.is_none() && addr == [0; 4] {
            return;
        }
        match self.target {
            Target::Offset(offset) => {
                // A 32-bit number: no overflow.
                if let Some(bytes) = packet.data_mut().get_mut(offset..offset + 4) {
                    bytes.copy_from_slice(&addr);
                }
            }
            target => set_field(packet, target, u32::from_be_bytes(addr)),
        }
    }
}

impl Element for StoreIpAddress {
    fn process(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        for packet in batch {
            self.store(packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use thruway_wire::checksum::Sum;

    fn packet(protocol: u8, src: u32, dst: u32, mut body: Vec<u8>) -> Packet {
        let ip = Ipv4Header::new(protocol, src.into(), dst.into(), body.len()).unwrap();
        let pseudo = Sum::pseudo_v4(src, dst, protocol, body.len());
        if protocol == 6 {
            body[12] = 0x50;
            TcpHeader::fill_checksum(&mut body, pseudo).unwrap();
        } else {
            let len = body.len() as u16;
            body[4..6].copy_from_slice(&len.to_be_bytes());
            UdpHeader::fill_checksum(&mut body, pseudo).unwrap();
        }
        let mut bytes = vec![0; 20 + body.len()];
        ip.emit(&mut bytes).unwrap().copy_from_slice(&body);
        let mut packet = Packet::new(&bytes).unwrap();
        packet.set_network(0, 20);
        packet
    }

    proptest! {
        /// The updated packet is the one made with the new address from the start.
        #[test]
        fn as_made_anew(src in 1u32.., dst in 1u32.., to in 1u32.., udp: bool,
                        body in prop::collection::vec(any::<u8>(), 20..40)) {
            let protocol = if udp { 17 } else { 6 };
            let store = |target| StoreIpAddress { addr: Some(to.into()), target };
            let mut changed = packet(protocol, src, dst, body.clone());
            store(Target::Src).store(&mut changed);
            let wanted = packet(protocol, to, dst, body.clone());
            prop_assert_eq!(changed.data(), wanted.data());
            let mut changed = packet(protocol, src, dst, body.clone());
            store(Target::Dst).store(&mut changed);
            let wanted = packet(protocol, src, to, body);
            prop_assert_eq!(changed.data(), wanted.data());
        }
    }

    #[test]
    fn ends() {
        let store = StoreIpAddress { addr: Some([1, 2, 3, 4].into()), target: Target::Offset(4) };
        for (len, last) in [(8, 4), (7, 0), (0, 0)] {
            let mut packet = Packet::zeroed(len).unwrap();
            store.store(&mut packet);
            assert_eq!(packet.data().last().copied().unwrap_or(0), last);
        }
        let huge = StoreIpAddress { target: Target::Offset(u32::MAX as usize), ..store };
        huge.store(&mut Packet::zeroed(8).unwrap());
    }
}

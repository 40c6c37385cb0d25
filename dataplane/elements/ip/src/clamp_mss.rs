//! ClampMSS: the segments that ends of TCP connections ask for fit a path.

use thruway_element::{
    Arg, ArgErrors, Args, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic, Ty,
};
use thruway_elements_support::links::PortMtu;
use thruway_packet::{Batch, Packet};
use thruway_wire::checksum::Delta;
use thruway_wire::ipv4::Ipv4Header;
use thruway_wire::ipv6::Ipv6Header;
use thruway_wire::ipv6_ext::upper_layer;
use thruway_wire::tcp::{TcpHeader, flags};
use thruway_wire::tcp_option::kind;
use thruway_wire::{Header, ip_protocol};

/// See the spec.
pub static ENTRY: Entry = Entry::built::<ClampMss>(
    Spec {
        name: "ClampMSS",
        topic: Topic::Ip,
        summary: "lowers the maximum segment size that TCP connections negotiate",
        docs: "Expects marked IP headers, of version 4 or 6. In a TCP SYN, if the maximum segment \
               size (RFC 9293 section 3.7.1) would make packets of more than MTU bytes, counted \
               from the IP header, it becomes what fits: MTU less 40 for IPv4, less 60 for IPv6. \
               The checksum is corrected. So the ends of a connection send what a path takes, even \
               where ICMP errors do not come through. A SYN without that option stays as it is: it \
               stands for 536 or 1220 bytes. All other packets pass unchanged. With PORT the MTU \
               is that of the interface where this is less.",
        example: "InfiniteSource(LIMIT 1, STOP true) -> MarkIPHeader -> ClampMSS(1400) -> Discard",
        args: &[
            Arg::required("MTU", Ty::UInt, "longest packet in bytes, IP header included"),
            Arg::keyword("PORT", Ty::Str, "an interface; its MTU holds if it is less"),
        ],
        cost: &[Operation::HeaderRead.once()],
        replicas: Replicas::Alike,
        large_packets: true,
        ..Spec::DEFAULT
    },
    build,
);

/// Bytes of IP and TCP headers without options (RFC 9293 section 3.7.1).
const HEADERS_V4: usize = 40;
const HEADERS_V6: usize = 60;
/// Least MTU: that of IPv4 (RFC 791 section 3.1).
const MTU_MIN: usize = 68;
/// Bytes of a TCP header without options.
const TCP_LEN: usize = 20;

#[derive(Handlers)]
struct ClampMss {
    mtu: usize,
    port: PortMtu,
    /// connections with a lowered segment size, both directions counted
    #[handler(sum)]
    count: u64,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let mtu = args.get("MTU")?;
    if mtu < MTU_MIN {
        return Err(args.error("MTU", format!("must be at least {MTU_MIN}")).into());
    }
    Ok(Box::new(ClampMss { mtu, port: PortMtu::of(args)?, count: 0 }))
}

/// Where the TCP header of a packet begins, from its IP header, and the largest segment of this
/// MTU.
#[inline]
fn tcp(network: &[u8], mtu: usize) -> Option<(usize, usize)> {
    if let Ok((header, options, _)) = Ipv4Header::parse_cut(network) {
        let is_tcp = header.protocol() == ip_protocol::TCP && header.fragment_offset() == 0;
        return is_tcp.then_some((Ipv4Header::LEN + options.len(), mtu.saturating_sub(HEADERS_V4)));
    }
    let (header, payload) = Ipv6Header::parse_cut(network).ok()?;
    let upper = upper_layer(header.next_header(), payload).ok()?;
    let is_tcp = upper.protocol == ip_protocol::TCP && upper.has_header();
    is_tcp.then_some((Ipv6Header::LEN + upper.offset, mtu.saturating_sub(HEADERS_V6)))
}

/// Where the value of the option is, in the options of a TCP header.
fn find_mss(options: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match *options.get(at..)? {
            [kind::END, ..] | [] => return None,
            [kind::NOP, ..] => at += 1,
            [kind::MSS, 4, _, _, ..] => return Some(at + 2),
            [_, len, ..] if len >= 2 => at += usize::from(len),
            _ => return None,
        }
    }
}

/// Lowers the segment size of a SYN to `mss`; whether it was larger.
fn clamp(segment: &mut [u8], mss: u16) -> bool {
    let Ok((header, options, _)) = TcpHeader::parse_with_options(segment) else { return false };
    let Some(at) = find_mss(options) else { return false };
    let old = u16::from_be_bytes([options[at], options[at + 1]]);
    if !header.has_flags(flags::SYN) || old <= mss {
        return false;
    }
    let at = TCP_LEN + at;
    segment[at..at + 2].copy_from_slice(&mss.to_be_bytes());
    // A sum is of words: an option at an odd byte counts in the halves of two words.
    let delta = match at % 2 {
        0 => Delta::of_u16(old, mss),
        _ => Delta::of_u16(old.swap_bytes(), mss.swap_bytes()),
    };
    if let Ok((header, _)) = TcpHeader::view_mut(segment) {
        header.update_checksum(delta);
    }
    true
}

impl ClampMss {
    #[inline]
    fn clamp(&mut self, packet: &mut Packet, mtu: usize) {
        let network = packet.network_mut();
        let Some((at, mss)) = tcp(network, mtu) else { return };
        let Some(segment) = network.get_mut(at..) else { return };
        // Flags, without reading the rest of most packets.
        if segment.get(13).is_some_and(|byte| byte & flags::SYN != 0) {
            let mss = mss.min(usize::from(u16::MAX)) as u16;
            self.count += u64::from(clamp(segment, mss));
        }
    }
}

impl Element for ClampMss {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.port.open();
        self.port.warn(cx, self.mtu);
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        if self.port.is_news() {
            self.port.warn(cx, self.mtu);
        }
        let mtu = self.mtu.min(self.port.get());
        for packet in batch.iter_mut() {
            self.clamp(packet, mtu);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use thruway_elements_rig::Rig;
    use thruway_wire::checksum::Sum;

    /// A SYN with these options, padded, in an IP packet of either version; checksums right.
    fn syn(options: &[u8], is_v6: bool, flags: u8) -> Vec<u8> {
        let options_len = options.len().next_multiple_of(4);
        let mut tcp = vec![0, 7, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0, flags, 1, 0, 0, 0, 0, 0];
        tcp[12] = ((20 + options_len) / 4) as u8 * 16;
        tcp.extend_from_slice(options);
        tcp.resize(20 + options_len, 0);
        let len = tcp.len();
        let pseudo = match is_v6 {
            true => Sum::pseudo_v6(&[1; 16], &[2; 16], 6, len),
            false => Sum::pseudo_v4(0x0101_0101, 0x0202_0202, 6, len),
        };
        TcpHeader::fill_checksum(&mut tcp, pseudo).unwrap();
        let ip = match is_v6 {
            true => [&[0x60, 0, 0, 0, 0, len as u8, 6, 64][..], &[1; 16], &[2; 16]].concat(),
            false => {
                let head = [0x45, 0, 0, 20 + len as u8, 0, 0, 0, 0, 64, 6, 0, 0];
                [&head[..], &[1; 4], &[2; 4]].concat()
            }
        };
        [ip, tcp].concat()
    }

    fn through(mtu: &str, bytes: &[u8]) -> (Vec<u8>, String) {
        let mut rig = Rig::new(&ENTRY, &[mtu], 1).unwrap();
        let mut packet = Packet::new(bytes).unwrap();
        packet.set_network(0, if bytes[0] >> 4 == 6 { 40 } else { 20 });
        let out = rig.push([packet]);
        (out[0][0].data().to_vec(), rig.read("count", "").unwrap())
    }

    proptest! {
        /// The same as a packet that was made with the smaller size at once.
        #[test]
        fn as_if_asked_for(
            before in 0usize..7, mss in 500u16..9000, is_v6: bool, mtu in 600u16..2000,
            is_syn: bool,
        ) {
            let options = |mss: u16| {
                let mut options = vec![kind::NOP; before];
                options.extend([kind::MSS, 4]);
                options.extend(mss.to_be_bytes());
                options
            };
            let flags = if is_syn { flags::SYN } else { flags::ACK };
            let most = mtu - if is_v6 { 60 } else { 40 };
            let wanted = if is_syn { mss.min(most) } else { mss };
            let (out, count) = through(&mtu.to_string(), &syn(&options(mss), is_v6, flags));
            prop_assert_eq!(out, syn(&options(wanted), is_v6, flags));
            prop_assert_eq!(count, u8::from(wanted != mss).to_string());
        }

        #[test]
        fn any_options(options in prop::collection::vec(any::<u8>(), 0..40), cut in 0usize..80) {
            let mut bytes = syn(&options, false, flags::SYN);
            bytes.truncate(bytes.len().saturating_sub(cut).max(20));
            let (out, _) = through("600", &bytes);
            prop_assert_eq!(out.len(), bytes.len());
        }
    }
}

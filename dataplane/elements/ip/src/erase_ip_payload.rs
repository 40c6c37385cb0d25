//! EraseIPPayload: zeros in the place of what TCP and UDP carry.

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic,
};
use thruway_packet::{Batch, Packet};
use thruway_wire::ipv4::Ipv4Header;
use thruway_wire::{Header, ip_protocol};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<EraseIpPayload>(Spec {
    name: "EraseIPPayload",
    topic: Topic::Ip,
    summary: "overwrites the payload of TCP and UDP packets with zeros",
    docs: "Expects marked IP headers. What stands behind the TCP or UDP header becomes zeros, of \
           later fragments all that stands behind the IP header; lengths and checksums stay. \
           Other packets pass unchanged.",
    example: "InfiniteSource(LIMIT 1, STOP true) -> UDPIPEncap(1.0.0.1, 5, 1.0.0.2, 6) \
              -> EraseIPPayload -> Print(ok, 40) -> Discard",
    straight: true,
    changes: Changes::Headers,
    cost: &[Operation::HeaderRead.once(), Operation::HeaderWrite.once()],
    replicas: Replicas::Alike,
    ..Spec::DEFAULT
});

#[derive(Arguments, Handlers)]
struct EraseIpPayload;

/// Bytes of the transport header that begins `body`.
fn header_len(ip: &Ipv4Header, body: &[u8]) -> Option<usize> {
    match ip.protocol() {
        ip_protocol::TCP | ip_protocol::UDP if !ip.is_first_fragment() => Some(0),
        ip_protocol::TCP => Some(usize::from(body.get(12)? >> 4) * 4).map(|len| len.max(20)),
        ip_protocol::UDP => Some(8),
        _ => None,
    }
}

#[inline]
fn erase(packet: &mut Packet) {
    let Ok((ip, _, body)) = Ipv4Header::parse_with_options_mut(packet.network_mut()) else {
        return;
    };
    if let Some(len) = header_len(ip, body)
        && let Some(payload) = body.get_mut(len..)
    {
        payload.fill(0);
    }
}

impl Element for EraseIpPayload {
    fn process(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        batch.into_iter().for_each(erase);
    }
}

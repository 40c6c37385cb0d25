//! DecIP6HLIM: one hop less.

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic, Verdict,
    reasons,
};
use thruway_packet::{Batch, Packet};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<DecIp6Hlim>(Spec {
    name: "DecIP6HLIM",
    topic: Topic::Ip6,
    summary: "decrements the IPv6 hop limit, drops dead packets",
    docs: "Expects IPv6 packets whose network header is marked (CheckIP6Header). A packet with \
           a hop limit above 1 has it decremented and goes out of output 0 (RFC 8200 section \
           3). The others go out of output 1, or are dropped where there is none; usually an \
           ICMP6Error(..., 3, 0) is connected there (RFC 4443 section 3.3).",
    example: "InfiniteSource(\\<6000000000003b4020010db8000000000000000000000001 \
              20010db8000000000000000000000002>, LIMIT 1, STOP true) -> CheckIP6Header \
              -> DecIP6HLIM -> Print(ok) -> Discard",
    ports: "1/1-2",
    processing: "a/ah",
    straight: true,
    drops: Dead::DROPS,
    changes: Changes::Headers,
    cost: &[Operation::HeaderWrite.once()],
    replicas: Replicas::Alike,
    large_packets: true,
    ..Spec::DEFAULT
});

reasons! {
    /// Why a packet goes no further.
    enum Dead {
        Expired = "expired": "its hop limit was 1 or 0",
        NoHeader = "no-ip6-header": "no IPv6 header is marked",
    }
}

#[derive(Arguments, Handlers)]
struct DecIp6Hlim {
    /// packets with an expired hop limit
    #[handler(sum)]
    drops: u64,
}

#[inline]
fn decrement(packet: &mut Packet) -> Result<(), Dead> {
    let header = packet.network_head_mut::<40>().ok_or(Dead::NoHeader)?;
    if header[7] <= 1 {
        return Err(Dead::Expired);
    }
    header[7] -= 1;
    Ok(())
}

impl Element for DecIp6Hlim {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let before = batch.len();
        cx.filter(batch, |packet| match decrement(packet) {
            Ok(()) => Verdict::Pass,
            Err(dead) => Verdict::reject(1, dead),
        });
        self.drops += (before - batch.len()) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_above_one() {
        let mut packet = Packet::new(&[2; 40]).unwrap();
        assert_eq!(decrement(&mut packet), Err(Dead::NoHeader));
        packet.set_network(0, 40);
        assert_eq!(decrement(&mut packet), Ok(()));
        assert_eq!(packet.data()[6..9], [2, 1, 2]);
        assert_eq!(decrement(&mut packet), Err(Dead::Expired));
    }
}

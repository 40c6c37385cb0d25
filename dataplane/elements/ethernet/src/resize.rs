//! Resize: bytes more or less at either end.

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Reason, Replicas, Spec, Topic,
    Verdict,
};
use thruway_packet::{Batch, Packet};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<Resize>(Spec {
    name: "Resize",
    topic: Topic::Ethernet,
    summary: "adds or removes bytes at the front and at the end of packets",
    docs: "Adds HEAD bytes in front of each packet and TAIL bytes at its end, or removes as many \
           where the number is negative; of a packet that has fewer, all. New bytes are zeros, \
           except those that come back in front after Strip.",
    example: "InfiniteSource(DATA abcdef, LIMIT 1, STOP true) -> Resize(-2, +1) -> Print -> Discard",
    straight: true,
    cost: &[Operation::HeaderMove.once()],
    changes: Changes::Headers,
    replicas: Replicas::Alike,
    ..Spec::DEFAULT
});

/// Most bytes to add or remove at an end: those of the largest packet.
const BYTES_MAX: i32 = 65_535;

#[derive(Arguments, Handlers)]
struct Resize {
    /// bytes more in front
    #[arg(optional, or = "0", range = -BYTES_MAX..=BYTES_MAX)]
    head: i32,
    /// bytes more at the end
    #[arg(optional, or = "0", range = -BYTES_MAX..=BYTES_MAX)]
    tail: i32,
}

/// Adds bytes in front: those of the head room, zeros where it is too small.
fn grow_front(packet: &mut Packet, n: usize) -> bool {
    if packet.unpull(n) {
        return true;
    }
    let grown = packet.push(n);
    if grown {
        packet.data_mut()[..n].fill(0);
    }
    grown
}

fn grow_end(packet: &mut Packet, n: usize) -> bool {
    let before = packet.len();
    let grown = packet.put(n);
    if grown {
        packet.data_mut()[before..].fill(0);
    }
    grown
}

impl Resize {
    fn resize(&self, packet: &mut Packet) -> Verdict {
        let bytes = |n: i32| n.unsigned_abs() as usize;
        let head = match self.head {
            ..0 => packet.pull(bytes(self.head).min(packet.len())),
            n => grow_front(packet, bytes(n)),
        };
        let tail = match self.tail {
            ..0 => {
                packet.truncate(packet.len().saturating_sub(bytes(self.tail)));
                true
            }
            n => grow_end(packet, bytes(n)),
        };
        if head && tail { Verdict::Pass } else { Verdict::Drop(Reason::NO_MEMORY) }
    }
}

impl Element for Resize {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.filter(batch, |packet| self.resize(packet));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn as_a_list_would(bytes in prop::collection::vec(1u8.., 0..50), head in -60i32..60, tail in -60i32..60) {
            let mut list = bytes.clone();
            if head < 0 { list.drain(..bytes.len().min(-head as usize)); }
            list.splice(0..0, vec![0; head.max(0) as usize]);
            if tail < 0 { list.truncate(list.len().saturating_sub(-tail as usize)); }
            list.extend(vec![0; tail.max(0) as usize]);
            let mut packet = Packet::new(&bytes).unwrap();
            prop_assert_eq!(Resize { head, tail }.resize(&mut packet), Verdict::Pass);
            // Bytes that come back in front have their former values.
            let front = (head.max(0) as usize).min(list.len());
            prop_assert_eq!(packet.len(), list.len());
            prop_assert_eq!(&packet.data()[front..], &list[front..]);
        }
    }
}

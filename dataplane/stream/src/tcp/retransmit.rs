//! Copies of unacknowledged data, and data that waits to be sent: one list for each direction of a
//! connection, in one slab for all of a thread.

use thruway_packet::Packet;

use super::Seq;
use super::part::set_part;
use crate::segment::{Parts, split};

const NONE: u32 = u32::MAX;

/// Bytes of memory of a kept packet: of its whole frame, and a node.
#[inline]
fn cost(packet: &Packet) -> u32 {
    (packet.memory_bytes() + size_of::<Node>()) as u32
}

struct Node {
    packet: Option<Packet>,
    /// Numbers of the receiver's that it has: payload, and one for FIN.
    from: Seq,
    to: Seq,
    next: u32,
    /// Nanoseconds.
    since: i64,
}

/// A list: the kept data of one direction, in order, without holes.
#[derive(Debug, Clone, Copy)]
pub struct List {
    head: u32,
    tail: u32,
    cost: u32,
}

impl List {
    /// Nothing is kept.
    pub const EMPTY: List = List { head: NONE, tail: NONE, cost: 0 };

    /// Bytes of packet memory.
    pub fn cost(&self) -> u32 {
        self.cost
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.head == NONE
    }
}

/// The slab.
#[derive(Default)]
pub struct RetransmitQueue {
    nodes: Vec<Node>,
    free: Vec<u32>,
    cost: u64,
    large: u32,
    lists: u32,
}

impl RetransmitQueue {
    /// Bytes of packet memory of all lists.
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// Packets of all lists.
    pub fn packets(&self) -> usize {
        self.nodes.len() - self.free.len()
    }

    /// The packets in large frames.
    pub fn large(&self) -> u32 {
        self.large
    }

    /// Since when the first packet of a list is kept, nanoseconds, and the first of the receiver's
    /// numbers that it has.
    pub(crate) fn first(&self, list: &List) -> Option<(i64, Seq)> {
        self.nodes.get(list.head as usize).map(|node| (node.since, node.from))
    }

    /// Lists that are not empty.
    pub(crate) fn lists(&self) -> u32 {
        self.lists
    }

    /// Adds a packet at the end, which is kept from now on.
    pub fn push(&mut self, list: &mut List, packet: Packet, (from, to): (Seq, Seq), since: i64) {
        let cost = cost(&packet);
        self.large += u32::from(packet.is_large());
        let node = Node { packet: Some(packet), from, to, next: NONE, since };
        let at = self.allocate(node);
        match self.nodes.get_mut(list.tail as usize) {
            Some(tail) => tail.next = at,
            None => {
                list.head = at;
                self.lists += 1;
            }
        }
        list.tail = at;
        list.cost += cost;
        self.cost += u64::from(cost);
    }

    /// Frees packets that end at or before `acked`.
    #[inline]
    pub fn prune(&mut self, list: &mut List, acked: Seq) {
        while let Some(node) = self.nodes.get(list.head as usize)
            && !node.to.after(acked)
        {
            self.pop(list);
        }
    }

    fn pop(&mut self, list: &mut List) {
        let at = list.head;
        let Some(node) = self.nodes.get_mut(at as usize) else { return };
        let packet = node.packet.take();
        let cost = packet.as_ref().map_or(0, cost);
        self.large -= packet.map_or(0, |packet| u32::from(packet.is_large()));
        list.head = node.next;
        if list.head == NONE {
            list.tail = NONE;
            self.lists -= 1;
        }
        list.cost -= cost;
        self.cost -= u64::from(cost);
        self.free.push(at);
    }

    /// Splits the packet with numbers from `from`: its first `keep` bytes of payload become a
    /// segment of their own. False, and nothing changed, if it is no longer than that, or without
    /// memory.
    pub fn part(&mut self, list: &mut List, from: Seq, keep: u32) -> bool {
        let mut at = list.head;
        while self.nodes.get(at as usize).is_some_and(|node| node.from.before(from)) {
            at = self.nodes[at as usize].next;
        }
        let Some(node) = self.nodes.get_mut(at as usize).filter(|node| node.from == from) else {
            return false;
        };
        let Some(packet) = node.packet.as_mut() else { return false };
        let Ok(mut parts) = Parts::of_tcp(packet) else { return false };
        let payload = parts.payload_len() as u32;
        let fin = node.to != from + payload;
        if keep == 0 || keep > payload || keep == payload && !fin {
            return false;
        }
        let before = (cost(packet), packet.is_large());
        let Some((mut second, mut behind)) = split(packet, &mut parts, keep as usize) else {
            return false;
        };
        let middle = from + keep;
        set_part(packet, &mut parts, from, false);
        set_part(&mut second, &mut behind, middle, fin);
        let more = (cost(packet) + cost(&second)).saturating_sub(before.0);
        self.large += u32::from(packet.is_large()) + u32::from(second.is_large());
        self.large -= u32::from(before.1);
        let rest = Node {
            packet: Some(second),
            from: middle,
            to: node.to,
            next: node.next,
            since: node.since,
        };
        node.to = middle;
        let new = self.allocate(rest);
        self.nodes[at as usize].next = new;
        if list.tail == at {
            list.tail = new;
        }
        list.cost += more;
        self.cost += u64::from(more);
        true
    }

    /// A place for a node.
    fn allocate(&mut self, node: Node) -> u32 {
        match self.free.pop() {
            Some(at) => {
                self.nodes[at as usize] = node;
                at
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
        }
    }

    /// Frees all of a list.
    pub fn clear(&mut self, list: &mut List) {
        while !list.is_empty() {
            self.pop(list);
        }
    }

    /// The kept packets with numbers in a range, in order: packet, and its numbers.
    pub fn within(
        &self,
        list: &List,
        from: Seq,
        to: Seq,
    ) -> impl Iterator<Item = (&Packet, Seq, Seq)> {
        let mut at = list.head;
        std::iter::from_fn(move || {
            loop {
                let node = self.nodes.get(at as usize)?;
                if !node.from.before(to) {
                    return None;
                }
                at = node.next;
                if let Some(packet) = node.packet.as_ref().filter(|_| node.to.after(from)) {
                    return Some((packet, node.from, node.to));
                }
            }
        })
    }
}

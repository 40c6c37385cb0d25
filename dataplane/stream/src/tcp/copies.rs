//! Copies of what was sent and is not acknowledged, and what waits to be sent: one list for each
//! direction of a connection, in one slab for all of a thread.

use thruway_packet::Packet;

use super::Seq;

const NONE: u32 = u32::MAX;

/// Bytes of packet memory that a kept packet costs: the frame that it is in, roughly.
#[inline]
fn cost(packet: &Packet) -> u32 {
    (packet.len() + packet.headroom() + packet.tailroom()) as u32
}

struct Node {
    packet: Option<Packet>,
    /// Numbers of the receiver's that it has: payload, and one for FIN.
    from: Seq,
    to: Seq,
    next: u32,
}

/// A list: what is kept of one direction, in order, without holes.
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
pub struct Copies {
    nodes: Vec<Node>,
    free: Vec<u32>,
    cost: u64,
}

impl Copies {
    /// Bytes of packet memory of all lists.
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// Packets of all lists.
    pub fn packets(&self) -> usize {
        self.nodes.len() - self.free.len()
    }

    /// Adds a packet at the end.
    pub fn push(&mut self, list: &mut List, packet: Packet, (from, to): (Seq, Seq)) {
        let cost = cost(&packet);
        let node = Node { packet: Some(packet), from, to, next: NONE };
        let at = match self.free.pop() {
            Some(at) => {
                self.nodes[at as usize] = node;
                at
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
        };
        match self.nodes.get_mut(list.tail as usize) {
            Some(tail) => tail.next = at,
            None => list.head = at,
        }
        list.tail = at;
        list.cost += cost;
        self.cost += u64::from(cost);
    }

    /// Frees what ends at or before `acked`.
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
        let cost = node.packet.take().map_or(0, |packet| cost(&packet));
        list.head = node.next;
        if list.head == NONE {
            list.tail = NONE;
        }
        list.cost -= cost;
        self.cost -= u64::from(cost);
        self.free.push(at);
    }

    /// Frees all of a list.
    pub fn clear(&mut self, list: &mut List) {
        while !list.is_empty() {
            self.pop(list);
        }
    }

    /// What is kept that has numbers in a range, in order: packet, and its numbers.
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

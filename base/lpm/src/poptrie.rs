//! Poptrie (Asai and Ohara, "Poptrie: a compressed trie with population count for fast and
//! scalable software IP routing table lookup", SIGCOMM 2015), with direct pointing by 16 bits and
//! leaf compression.
//!
//! The first 16 bits of an address select a slot. A slot has the index of the longest prefix of
//! up to 16 bits (its *base*) and, when longer prefixes lie in it, a subtree. In a subtree each
//! node takes 6 bits; a leaf of 0 means "the slot's base". So a change of a prefix over 16 bits
//! long rebuilds one subtree, and of a shorter one no subtree at all.
//!
//! All nodes are in one vector and all leaves in another. A rebuilt subtree goes to their ends and
//! leaves a hole where it was; when holes are half of it all, the living move together.

use crate::prefix::{Key, Prefix};
use crate::rib::Rib;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ops::Range;

/// Bits that select a slot.
pub(crate) const ROOT_BITS: u8 = 16;
const SLOTS: usize = 1 << ROOT_BITS;
/// Bits that a node takes.
const STRIDE: usize = 6;
const FANOUT: usize = 1 << STRIDE;
/// Keys that walk in step.
const LANES: usize = 64;
/// Holes of fewer nodes than this are let be.
const MIN_HOLES: usize = 1 << 12;

/// A node of 64 children. 24 bytes.
#[derive(Debug, Clone, Copy)]
struct Node {
    /// Which children lead to a node; the others are leaves.
    children: u64,
    /// Which leaves differ from the leaf before them: only those are stored.
    leaves: u64,
    first_child: u32,
    first_leaf: u32,
}

/// Node 0, the subtree of slots that have none: all its children lead to leaf 0, which is index 0.
const EMPTY_NODE: Node = Node { children: 0, leaves: 1, first_child: 0, first_leaf: 0 };

/// Where the lookup of an address begins. 8 bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    node: u32,
    base: u16,
}

/// The memory of a subtree.
#[derive(Debug, Clone)]
struct Extent {
    nodes: Range<usize>,
    leaves: Range<usize>,
}

/// A compressed trie from addresses to route indices.
#[derive(Debug, Clone)]
pub struct Poptrie<K> {
    slots: Vec<Slot>,
    nodes: Vec<Node>,
    leaves: Vec<u16>,
    extents: BTreeMap<usize, Extent>,
    /// Nodes that belong to no subtree any more.
    holes: usize,
    key: PhantomData<K>,
}

impl<K: Key> Default for Poptrie<K> {
    fn default() -> Self {
        Poptrie {
            slots: vec![Slot::default(); SLOTS],
            nodes: vec![EMPTY_NODE],
            leaves: vec![0],
            extents: BTreeMap::new(),
            holes: 0,
            key: PhantomData,
        }
    }
}

impl<K: Key> Poptrie<K> {
    /// A trie without prefixes.
    pub fn new() -> Self {
        Self::default()
    }

    /// The trie of all prefixes of `rib`.
    pub fn from_rib(rib: &Rib<K, u16>) -> Self {
        let mut trie = Self::new();
        for (prefix, _) in rib.iter() {
            if prefix.len() <= ROOT_BITS {
                trie.rebase(rib, prefix);
            }
        }
        let mut last = None;
        for (prefix, _) in rib.iter().filter(|(prefix, _)| prefix.len() > ROOT_BITS) {
            let slot = slot_of(prefix.first());
            if last != Some(slot) {
                trie.rebuild(rib, slot);
                last = Some(slot);
            }
        }
        trie
    }

    /// The index of the longest prefix that contains `key`; 0 when there is none.
    #[inline]
    pub fn lookup(&self, key: K) -> u16 {
        let slot = self.slots[slot_of(key)];
        let mut position = slot.node;
        let mut offset = usize::from(ROOT_BITS);
        loop {
            let (next, is_node) = self.nodes[position as usize].step(key.chunk::<STRIDE>(offset));
            position = next;
            if !is_node {
                break;
            }
            offset += STRIDE;
        }
        let leaf = self.leaves[position as usize];
        if leaf == 0 { slot.base } else { leaf }
    }

    /// The index for each of `keys`, 0 where there is none; only as many as fit in both.
    ///
    /// All keys of a run of 64 take one step before any takes the next, so the cache misses of a
    /// level overlap, and there is no branch on what a node says: a key's depth is not to be
    /// guessed.
    #[inline]
    pub fn lookup_batch(&self, keys: &[K], out: &mut [u32]) {
        for (keys, out) in keys.chunks(LANES).zip(out.chunks_mut(LANES)) {
            self.lookup_lanes(keys, out);
        }
    }

    // PERF: with one vector of nodes and keys in step: 80 ns at 500,000 IPv4 prefixes; a key after
    // the other in subtrees of their own, 132 ns.
    //     cargo run --release -p thruway-lpm --example lookup_rate 500000
    fn lookup_lanes(&self, keys: &[K], out: &mut [u32]) {
        let mut walking = keys.len().min(out.len());
        let mut position = [0u32; LANES];
        let mut lanes: [u8; LANES] = std::array::from_fn(|lane| lane as u8);
        for ((out, position), &key) in out.iter_mut().zip(&mut position).zip(keys) {
            let slot = self.slots[slot_of(key)];
            *out = u32::from(slot.base);
            *position = slot.node;
        }
        let mut offset = usize::from(ROOT_BITS);
        while walking > 0 {
            let mut further = 0;
            for at in 0..walking {
                let lane = usize::from(lanes[at]) % LANES;
                let node = &self.nodes[position[lane] as usize];
                let (next, is_node) = node.step(keys[lane].chunk::<STRIDE>(offset));
                position[lane] = next;
                lanes[further] = lane as u8;
                further += usize::from(is_node);
            }
            walking = further;
            offset += STRIDE;
        }
        for ((out, &position), _) in out.iter_mut().zip(&position).zip(keys) {
            let leaf = u32::from(self.leaves[position as usize]);
            *out = if leaf == 0 { *out } else { leaf };
        }
    }

    /// Takes the change of `prefix` (up to 16 bits long) over from `rib`.
    pub(crate) fn rebase(&mut self, rib: &Rib<K, u16>, prefix: Prefix<K>) {
        let covering = rib.covering(prefix).last().map_or(0, |(_, &index)| index);
        self.set_base(prefix, covering);
        let inner = rib.covered(prefix);
        for (inner, &index) in inner.filter(|(inner, _)| inner.len() <= ROOT_BITS) {
            self.set_base(inner, index);
        }
    }

    fn set_base(&mut self, prefix: Prefix<K>, index: u16) {
        for slot in &mut self.slots[slot_of(prefix.first())..=slot_of(prefix.last())] {
            slot.base = index;
        }
    }

    /// Builds the subtree of `slot` from the prefixes in `rib`.
    pub(crate) fn rebuild(&mut self, rib: &Rib<K, u16>, slot: usize) {
        let cover = Prefix::truncate(slot_address::<K>(slot), ROOT_BITS);
        let longer = rib.covered(cover).filter(|(prefix, _)| prefix.len() > ROOT_BITS);
        let prefixes: Vec<_> = longer.map(|(prefix, &index)| (prefix, index)).collect();
        if let Some(old) = self.extents.remove(&slot) {
            self.holes += old.nodes.len();
            self.slots[slot].node = 0;
        }
        if !prefixes.is_empty() {
            let extent = self.build(&prefixes);
            self.slots[slot].node = extent.nodes.start as u32;
            self.extents.insert(slot, extent);
        }
        if self.holes > MIN_HOLES && self.holes > self.nodes.len() / 2 {
            self.compact();
        }
    }

    /// Moves all subtrees together.
    fn compact(&mut self) {
        let (mut nodes, mut leaves) = (vec![EMPTY_NODE], vec![0]);
        for (&slot, extent) in &mut self.extents {
            let (first_node, first_leaf) = (nodes.len(), leaves.len());
            let moved = |place: u32, from: usize, to: usize| (place as usize - from + to) as u32;
            nodes.extend(self.nodes[extent.nodes.clone()].iter().map(|node| Node {
                first_child: moved(node.first_child, extent.nodes.start, first_node),
                first_leaf: moved(node.first_leaf, extent.leaves.start, first_leaf),
                ..*node
            }));
            leaves.extend_from_slice(&self.leaves[extent.leaves.clone()]);
            *extent = Extent { nodes: first_node..nodes.len(), leaves: first_leaf..leaves.len() };
            self.slots[slot].node = first_node as u32;
        }
        (self.nodes, self.leaves, self.holes) = (nodes, leaves, 0);
    }

    /// Appends the subtree of `prefixes`, which are in order and all of one slot.
    ///
    /// Breadth first, so that the children of a node are neighbours. No recursion: depth is bounded
    /// by the address (19 levels for IPv6), and the list of nodes to build is the order they get.
    fn build(&mut self, prefixes: &[(Prefix<K>, u16)]) -> Extent {
        let (root, leaves_start) = (self.nodes.len(), self.leaves.len());
        let mut work = vec![Work { prefixes, offset: usize::from(ROOT_BITS), inherited: 0 }];
        let mut done = 0;
        while done < work.len() {
            let all = Children::of(&work[done]);
            let first_child = (root + work.len()) as u32;
            let first_leaf = self.leaves.len() as u32;
            let offset = work[done].offset + STRIDE;
            let (mut children, mut leaves, mut previous) = (0, 0, None);
            for child in 0..FANOUT {
                let (inherited, prefixes) = (all.index[child], all.longer[child]);
                if !prefixes.is_empty() {
                    children |= 1 << child;
                    work.push(Work { prefixes, offset, inherited });
                } else if previous != Some(inherited) {
                    leaves |= 1 << child;
                    self.leaves.push(inherited);
                    previous = Some(inherited);
                }
            }
            self.nodes.push(Node { children, leaves, first_child, first_leaf });
            done += 1;
        }
        Extent { nodes: root..self.nodes.len(), leaves: leaves_start..self.leaves.len() }
    }

    /// Number of nodes on the path to a prefix of this length.
    pub(crate) fn depth(len: u8) -> usize {
        usize::from(len.saturating_sub(ROOT_BITS)).div_ceil(STRIDE).max(1)
    }

    /// Memory behind the slots, and of so many slots, in bytes.
    pub(crate) fn bytes_behind(&self, slots: usize) -> usize {
        self.bytes() - size_of_val(&self.slots[..]) + slots.min(SLOTS) * size_of::<Slot>()
    }

    /// Memory of the trie in bytes, holes included.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.slots[..]) + size_of_val(&self.nodes[..]) + size_of_val(&self.leaves[..])
    }
}

/// The slot of an address.
#[inline]
pub(crate) fn slot_of<K: Key>(key: K) -> usize {
    key.chunk::<{ ROOT_BITS as usize }>(0) & (SLOTS - 1)
}

fn slot_address<K: Key>(slot: usize) -> K {
    K::from(slot).unwrap_or_else(K::zero) << usize::from(K::BITS - ROOT_BITS)
}

/// Rank of `child` among the bits set in `bits`: 1 for the first.
#[inline]
fn rank(bits: u64, child: usize) -> u32 {
    (bits & (2u64 << child).wrapping_sub(1)).count_ones()
}

impl Node {
    /// The target of branch `child`: the place of a node and true, or the place of a leaf and
    /// false.
    #[inline]
    fn step(&self, child: usize) -> (u32, bool) {
        let child = child & (FANOUT - 1);
        let is_node = self.children >> child & 1 == 1;
        let (bits, first) = if is_node {
            (self.children, self.first_child)
        } else {
            (self.leaves, self.first_leaf)
        };
        (first + rank(bits, child) - 1, is_node)
    }
}

/// A node to be built: the prefixes that end in it or below, and the defaults inherited from above.
struct Work<'a, K> {
    prefixes: &'a [(Prefix<K>, u16)],
    offset: usize,
    inherited: u16,
}

/// The 64 children of a node: the index each has if it is a leaf, the prefixes below it if it is
/// not.
struct Children<'a, K> {
    index: [u16; FANOUT],
    longer: [&'a [(Prefix<K>, u16)]; FANOUT],
}

impl<'a, K: Key> Children<'a, K> {
    fn of(work: &Work<'a, K>) -> Self {
        let mut all = Children { index: [work.inherited; FANOUT], longer: [&[]; FANOUT] };
        let end = work.offset + STRIDE;
        let mut rest = work.prefixes;
        while let Some(((prefix, index), after)) = rest.split_first() {
            let child = prefix.first().chunk::<STRIDE>(work.offset) & (FANOUT - 1);
            let len = usize::from(prefix.len());
            if len <= end {
                // In order, so a prefix comes after those that cover it and overwrites them.
                let span = 1 << (end - len);
                all.index[child..(child + span).min(FANOUT)].fill(*index);
                rest = after;
            } else {
                // Prefixes of one branch stand together: its shorter ones came before.
                let same =
                    |(p, _): &(Prefix<K>, u16)| p.first().chunk::<STRIDE>(work.offset) == child;
                let count = rest.iter().take_while(|entry| same(entry)).count();
                (all.longer[child], rest) = rest.split_at(count);
            }
        }
        all
    }
}

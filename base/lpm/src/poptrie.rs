//! Poptrie (Asai and Ohara, "Poptrie: a compressed trie with population count for fast and
//! scalable software IP routing table lookup", SIGCOMM 2015), with direct pointing by 16 bits and
//! leaf compression.
//!
//! The first 16 bits of an address select a slot. A slot has the index of the longest prefix of
//! up to 16 bits (its *base*) and, when longer prefixes lie in it, a subtree. In a subtree each node
//! takes 6 bits; a leaf of 0 means "the slot's base". So a change of a prefix over 16 bits long
//! rebuilds one subtree, and of a shorter one no subtree at all.

use crate::prefix::{Key, Prefix};
use crate::rib::Rib;
use std::marker::PhantomData;
use std::sync::Arc;

/// Bits that select a slot.
pub(crate) const ROOT_BITS: u8 = 16;
const SLOTS: usize = 1 << ROOT_BITS;
/// Bits that a node takes.
const STRIDE: usize = 6;
const FANOUT: usize = 1 << STRIDE;
/// Keys that walk in step.
const LANES: usize = 64;

/// A node of 64 ways. 24 bytes.
#[derive(Debug, Clone, Copy)]
struct Node {
    /// Which ways lead to a node; the others are leaves.
    children: u64,
    /// Which leaves differ from the leaf before them: only those are stored.
    leaves: u64,
    first_child: u32,
    first_leaf: u32,
}

/// What lies in one slot.
#[derive(Debug)]
struct Subtree {
    nodes: Vec<Node>,
    leaves: Vec<u16>,
}

static NO_SUBTREE: Subtree = Subtree { nodes: Vec::new(), leaves: Vec::new() };

/// A compressed trie from addresses to route indices. Cheap to clone: subtrees are shared.
#[derive(Debug, Clone)]
pub struct Poptrie<K> {
    base: Vec<u16>,
    /// Place in `subtrees`, plus one; 0 where there is none.
    root: Vec<u32>,
    subtrees: Vec<Option<Arc<Subtree>>>,
    free: Vec<u32>,
    key: PhantomData<K>,
}

impl<K: Key> Default for Poptrie<K> {
    fn default() -> Self {
        Poptrie {
            base: vec![0; SLOTS],
            root: vec![0; SLOTS],
            subtrees: Vec::new(),
            free: Vec::new(),
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
        let slot = slot_of(key);
        let subtree = (self.root[slot] as usize).checked_sub(1);
        let subtree = subtree.and_then(|place| self.subtrees[place].as_deref());
        let leaf = subtree.map_or(0, |subtree| subtree.lookup(key));
        if leaf == 0 { self.base[slot] } else { leaf }
    }

    /// The index for each of `keys`, 0 where there is none; only as many as fit in both.
    ///
    /// All keys of a run of 64 take one step before any takes the next, so the cache misses of a
    /// level overlap, and there is no branch on what a node says: a key's depth is not to be guessed.
    #[inline]
    pub fn lookup_batch(&self, keys: &[K], out: &mut [u32]) {
        for (keys, out) in keys.chunks(LANES).zip(out.chunks_mut(LANES)) {
            self.lookup_lanes(keys, out);
        }
    }

    fn lookup_lanes(&self, keys: &[K], out: &mut [u32]) {
        let mut trees = [&NO_SUBTREE; LANES];
        let mut position = [0u32; LANES];
        let mut lanes = [0u8; LANES];
        let mut walking = 0;
        for (lane, (&key, out)) in keys.iter().zip(out.iter_mut()).enumerate() {
            let slot = slot_of(key);
            *out = u32::from(self.base[slot]);
            position[lane] = self.root[slot];
        }
        for lane in 0..keys.len().min(out.len()) {
            let place = (std::mem::take(&mut position[lane]) as usize).checked_sub(1);
            if let Some(tree) = place.and_then(|place| self.subtrees[place].as_deref()) {
                trees[lane] = tree;
                lanes[walking] = lane as u8;
                walking += 1;
            }
        }
        let mut offset = usize::from(ROOT_BITS);
        while walking > 0 {
            let mut further = 0;
            for at in 0..walking {
                let lane = usize::from(lanes[at]) % LANES;
                let node = &trees[lane].nodes[position[lane] as usize];
                let (next, is_node) = node.step(keys[lane].chunk::<STRIDE>(offset));
                position[lane] = next;
                lanes[further] = lane as u8;
                further += usize::from(is_node);
            }
            walking = further;
            offset += STRIDE;
        }
        for ((out, tree), &leaf) in out.iter_mut().zip(trees).zip(&position) {
            match tree.leaves.get(leaf as usize) {
                Some(&leaf) if leaf != 0 => *out = u32::from(leaf),
                _ => {}
            }
        }
    }

    /// Takes the change of `prefix` (up to 16 bits long) over from `rib`.
    pub(crate) fn rebase(&mut self, rib: &Rib<K, u16>, prefix: Prefix<K>) {
        let covering = rib.covering(prefix).last().map_or(0, |(_, &index)| index);
        self.base[slot_of(prefix.first())..=slot_of(prefix.last())].fill(covering);
        let inner = rib.covered(prefix);
        for (inner, &index) in inner.filter(|(inner, _)| inner.len() <= ROOT_BITS) {
            self.base[slot_of(inner.first())..=slot_of(inner.last())].fill(index);
        }
    }

    /// Builds the subtree of `slot` from what `rib` has there.
    pub(crate) fn rebuild(&mut self, rib: &Rib<K, u16>, slot: usize) {
        let cover = Prefix::truncate(slot_address::<K>(slot), ROOT_BITS);
        let longer = rib.covered(cover).filter(|(prefix, _)| prefix.len() > ROOT_BITS);
        let prefixes: Vec<_> = longer.map(|(prefix, &index)| (prefix, index)).collect();
        match (prefixes.is_empty(), (self.root[slot] as usize).checked_sub(1)) {
            (true, None) => {}
            (true, Some(place)) => {
                self.subtrees[place] = None;
                self.free.push(place as u32);
                self.root[slot] = 0;
            }
            (false, place) => {
                let place = place.unwrap_or_else(|| self.new_place(slot));
                self.subtrees[place] = Some(Arc::new(Subtree::build(&prefixes)));
            }
        }
    }

    fn new_place(&mut self, slot: usize) -> usize {
        let place = self.free.pop().unwrap_or(self.subtrees.len() as u32);
        if place as usize == self.subtrees.len() {
            self.subtrees.push(None);
        }
        self.root[slot] = place + 1;
        place as usize
    }

    /// Memory of the trie in bytes.
    pub fn bytes(&self) -> usize {
        let subtrees: usize = self.subtrees.iter().flatten().map(|subtree| subtree.bytes()).sum();
        size_of_val(&self.base[..])
            + size_of_val(&self.root[..])
            + size_of_val(&self.subtrees[..])
            + subtrees
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

/// Rank of way `way` among the ways set in `ways`: 1 for the first.
#[inline]
fn rank(ways: u64, way: usize) -> u32 {
    (ways & (2u64 << way).wrapping_sub(1)).count_ones()
}

impl Node {
    /// Where way `way` leads: the place of a node and true, or the place of a leaf and false.
    #[inline]
    fn step(&self, way: usize) -> (u32, bool) {
        let way = way & (FANOUT - 1);
        let is_node = self.children >> way & 1 == 1;
        let (ways, first) = if is_node {
            (self.children, self.first_child)
        } else {
            (self.leaves, self.first_leaf)
        };
        (first + rank(ways, way) - 1, is_node)
    }
}

impl Subtree {
    #[inline]
    fn lookup<K: Key>(&self, key: K) -> u16 {
        let mut position = 0;
        let mut offset = usize::from(ROOT_BITS);
        loop {
            let (next, is_node) = self.nodes[position as usize].step(key.chunk::<STRIDE>(offset));
            if !is_node {
                return self.leaves[next as usize];
            }
            position = next;
            offset += STRIDE;
        }
    }

    /// Builds breadth first, so that the children of a node are neighbours.
    ///
    /// `prefixes` are in order and all of one slot. No recursion: depth is bounded by the address
    /// (19 levels for IPv6), and the list of nodes is also the list of work.
    fn build<K: Key>(prefixes: &[(Prefix<K>, u16)]) -> Self {
        let mut tree = Subtree { nodes: Vec::new(), leaves: Vec::new() };
        let mut work = vec![Work { prefixes, offset: usize::from(ROOT_BITS), inherited: 0 }];
        let mut done = 0;
        while done < work.len() {
            let ways = Ways::of(&work[done]);
            let first_child = work.len() as u32;
            let first_leaf = tree.leaves.len() as u32;
            let offset = work[done].offset + STRIDE;
            let (mut children, mut leaves, mut previous) = (0, 0, None);
            for way in 0..FANOUT {
                let (inherited, prefixes) = (ways.index[way], ways.longer[way]);
                if !prefixes.is_empty() {
                    children |= 1 << way;
                    work.push(Work { prefixes, offset, inherited });
                } else if previous != Some(inherited) {
                    leaves |= 1 << way;
                    tree.leaves.push(inherited);
                    previous = Some(inherited);
                }
            }
            tree.nodes.push(Node { children, leaves, first_child, first_leaf });
            done += 1;
        }
        tree.nodes.shrink_to_fit();
        tree.leaves.shrink_to_fit();
        tree
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&self.nodes[..]) + size_of_val(&self.leaves[..])
    }
}

/// A node to be built: the prefixes that end in it or below, and what it has from above.
struct Work<'a, K> {
    prefixes: &'a [(Prefix<K>, u16)],
    offset: usize,
    inherited: u16,
}

/// The 64 ways of a node: the index each has if it is a leaf, the prefixes below it if it is not.
struct Ways<'a, K> {
    index: [u16; FANOUT],
    longer: [&'a [(Prefix<K>, u16)]; FANOUT],
}

impl<'a, K: Key> Ways<'a, K> {
    fn of(work: &Work<'a, K>) -> Self {
        let mut ways = Ways { index: [work.inherited; FANOUT], longer: [&[]; FANOUT] };
        let end = work.offset + STRIDE;
        let mut rest = work.prefixes;
        while let Some(((prefix, index), after)) = rest.split_first() {
            let way = prefix.first().chunk::<STRIDE>(work.offset) & (FANOUT - 1);
            let len = usize::from(prefix.len());
            if len <= end {
                // In order, so a prefix comes after those that cover it and overwrites them.
                let span = 1 << (end - len);
                ways.index[way..(way + span).min(FANOUT)].fill(*index);
                rest = after;
            } else {
                // Those of one way stand together: shorter ones of this way came before.
                let same =
                    |(p, _): &(Prefix<K>, u16)| p.first().chunk::<STRIDE>(work.offset) == way;
                let count = rest.iter().take_while(|entry| same(entry)).count();
                (ways.longer[way], rest) = rest.split_at(count);
            }
        }
        ways
    }
}

//! Builds the decision tree: at every node the bit slice that splits the boxes best.

use crate::box_tree::{LEAF, LEVELS_MAX, Node, Tree};
use crate::boxes::{Entry, NONE};
use crate::normal::KeyBox;

/// Boxes that a leaf may hold without looking for a better split.
const LEAF_ENTRIES: usize = 4;
/// Classes of protocols; a kind (class x fragment) must fit 64 bits.
const CLASSES_MAX: usize = 16;
/// Entries allowed beyond four for each box: bounds the copying of boxes into several children.
const ENTRIES_SPARE: usize = 1024;
/// Children allowed in all, for each box.
const CHILDREN_PER_BOX: usize = 64;
const CHILDREN_SPARE: usize = 4096;

/// A box and the place of its rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    pub bounds: KeyBox,
    pub order: u32,
}

/// A slice of a field and its effect on a set of boxes.
#[derive(Clone, Copy, Debug)]
struct Split {
    field: usize,
    shift: u32,
    bits: u32,
    cost: f64,
}

/// The boxes as entries, and each protocol's class.
pub(crate) fn entries(boxes: &[Placed]) -> ([u8; 256], Vec<Entry>) {
    let (classes, members) = classify_protocols(boxes);
    (classes, boxes.iter().filter_map(|b| entry(b, &members)).collect())
}

/// Builds the tree over entries sorted by the place of their rule.
pub(crate) fn build(entries: &[Entry]) -> Tree {
    let tree = Tree { nodes: Vec::new(), children: Vec::new(), entries: Vec::new(), root: NONE };
    let entries_max = entries.len() * 4 + ENTRIES_SPARE;
    let children_max = entries.len() * CHILDREN_PER_BOX + CHILDREN_SPARE;
    let mut builder = Builder { tree, entries_max, children_max, promised: entries.len() };
    builder.tree.root = builder.node(entries, 0);
    builder.tree
}

/// Gives protocols that every box treats alike the same class. Returns each protocol's class and
/// each class's protocols.
fn classify_protocols(boxes: &[Placed]) -> ([u8; 256], Vec<[u64; 4]>) {
    let mut parts: Vec<[u64; 4]> = vec![[u64::MAX; 4]];
    for placed in boxes {
        let set = placed.bounds.protos;
        if set == [u64::MAX; 4] {
            continue;
        }
        let mut next = Vec::with_capacity(parts.len() + 1);
        for part in &parts {
            let inside: [u64; 4] = std::array::from_fn(|i| part[i] & set[i]);
            let outside: [u64; 4] = std::array::from_fn(|i| part[i] & !set[i]);
            next.extend([outside, inside].into_iter().filter(|p| *p != [0; 4]));
        }
        if next.len() <= CLASSES_MAX {
            parts = next;
        }
    }
    let mut classes = [0; 256];
    for (class, part) in parts.iter().enumerate() {
        for p in (0..256).filter(|p| part[p / 64] >> (p % 64) & 1 == 1) {
            classes[p] = class as u8;
        }
    }
    (classes, parts)
}

/// A box as a leaf's entry. A set of protocols that cuts through a class becomes a bound.
fn entry(placed: &Placed, classes: &[[u64; 4]]) -> Option<Entry> {
    let KeyBox { lo, hi, protos, fragments, exact } = placed.bounds;
    let (mut kinds, mut verify) = (0_u64, !exact);
    for (class, part) in classes.iter().enumerate() {
        let shared: [u64; 4] = std::array::from_fn(|i| part[i] & protos[i]);
        if shared != [0; 4] {
            kinds |= u64::from(fragments) << (class * 4);
            verify |= shared != *part;
        }
    }
    let span = std::array::from_fn(|f| hi[f] - lo[f]);
    (kinds != 0).then_some(Entry { lo, span, kinds, order: placed.order, verify })
}

struct Builder {
    tree: Tree,
    entries_max: usize,
    children_max: usize,
    /// Entries that leaves made or still to be made will hold.
    promised: usize,
}

impl Builder {
    fn node(&mut self, entries: &[Entry], level: usize) -> u32 {
        if entries.is_empty() {
            return NONE;
        }
        let splittable = entries.len() > LEAF_ENTRIES && level + 1 < LEVELS_MAX;
        let widths: &[u32] = if splittable { &[10, 7, 4] } else { &[] };
        // A split that would copy too much is tried again with fewer children.
        for bits_max in widths {
            let split = best_split(entries, *bits_max);
            if let Some((split, groups, rest)) = split.and_then(|s| self.affordable(entries, s)) {
                return self.inner(split, &groups, &rest, level);
            }
        }
        self.leaf(entries)
    }

    fn leaf(&mut self, entries: &[Entry]) -> u32 {
        let first = self.tree.entries.len() as u32;
        self.tree.entries.extend_from_slice(entries);
        let end = self.tree.entries.len() as u32;
        let none =
            Node { field: LEAF, shift: 0, mask: 0, first, end, rest: NONE, rest_order: NONE };
        self.push(none)
    }

    fn push(&mut self, node: Node) -> u32 {
        self.tree.nodes.push(node);
        (self.tree.nodes.len() - 1) as u32
    }

    /// Distributes the boxes, if the copies fit the memory bound.
    fn affordable(
        &mut self,
        entries: &[Entry],
        split: Split,
    ) -> Option<(Split, Vec<Vec<Entry>>, Vec<Entry>)> {
        let count = 1_usize << split.bits;
        let mut groups = vec![Vec::new(); count];
        let mut rest = Vec::new();
        for e in entries {
            let (start, len) = reach(e, &split);
            if is_wide(len, count) {
                rest.push(*e);
                continue;
            }
            for i in 0..len {
                groups[(start + i) % count].push(*e);
            }
        }
        let copies = groups.iter().map(Vec::len).sum::<usize>() + rest.len() - entries.len();
        let promised = self.promised + copies;
        let children = self.tree.children.len() + count;
        if promised > self.entries_max || children > self.children_max {
            return None;
        }
        self.promised = promised;
        Some((split, groups, rest))
    }

    fn inner(&mut self, split: Split, groups: &[Vec<Entry>], rest: &[Entry], level: usize) -> u32 {
        let first = self.tree.children.len();
        self.tree.children.resize(first + groups.len(), NONE);
        let rest_order = rest.first().map_or(NONE, |e| e.order);
        let node = self.push(Node {
            field: split.field as u32,
            shift: split.shift,
            mask: groups.len() as u32 - 1,
            first: first as u32,
            end: 0,
            rest: NONE,
            rest_order,
        });
        for (i, group) in groups.iter().enumerate() {
            self.tree.children[first + i] = self.node(group, level + 1);
        }
        self.tree.nodes[node as usize].rest = self.node(rest, level + 1);
        node
    }
}

/// First child and number of children (modulo their count) that a box reaches.
fn reach(entry: &Entry, split: &Split) -> (usize, usize) {
    let count = 1_u64 << split.bits;
    let lo = u64::from(entry.lo[split.field]);
    let hi = lo + u64::from(entry.span[split.field]);
    let len = ((hi >> split.shift) - (lo >> split.shift) + 1).min(count);
    (((lo >> split.shift) % count) as usize, len as usize)
}

fn is_wide(len: usize, count: usize) -> bool {
    len > 1 && len * 4 > count
}

/// The split after which a packet of a random rule sees fewest boxes, if any helps enough.
fn best_split(entries: &[Entry], bits_max: u32) -> Option<Split> {
    let bits = (usize::BITS - entries.len().leading_zeros() + 1).clamp(2, bits_max);
    let fields = [(3_usize, 16_u32), (2, 16), (0, 32), (1, 32)];
    let mut best: Option<Split> = None;
    for (field, width) in fields {
        for shift in (0..=width - bits).rev().filter(|s| s % 4 == 0 || *s == width - bits) {
            let mut split = Split { field, shift, bits, cost: 0.0 };
            split.cost = cost(entries, &split);
            if best.is_none_or(|b| split.cost < b.cost) {
                best = Some(split);
            }
        }
    }
    best.filter(|b| b.cost < entries.len() as f64 * 0.75)
}

/// Boxes to look at in the child, on average over the boxes in children, plus the boxes beside.
fn cost(entries: &[Entry], split: &Split) -> f64 {
    let count = 1_usize << split.bits;
    let mut sizes = vec![0_u32; count];
    let mut beside = 0_usize;
    for e in entries {
        let (start, len) = reach(e, split);
        if is_wide(len, count) {
            beside += 1;
        } else {
            (0..len).for_each(|i| sizes[(start + i) % count] += 1);
        }
    }
    let copies: f64 = sizes.iter().map(|s| f64::from(*s)).sum();
    let squares: f64 = sizes.iter().map(|s| f64::from(*s) * f64::from(*s)).sum();
    let inside = if copies > 0.0 { squares / copies } else { 0.0 };
    // A second tree costs more than its boxes: about two more visits.
    inside + beside as f64 + if beside > 0 { 2.0 } else { 0.0 }
}

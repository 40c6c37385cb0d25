//! A decision tree over bit slices of the fields.
//!
//! A node tests a few bits of one field and selects one child; boxes too wide for that slice are
//! not copied to every child but kept in a separate tree beside (`rest`), searched after it and
//! only if it could hold an earlier rule than the one found. A leaf is a short run of boxes, each
//! tested on all fields at once without a branch between them.

use crate::boxes::{Entry, NONE};
use crate::key::Key;

/// Most levels on any path down, `rest` included; also bounds the search's stack.
pub(crate) const LEVELS_MAX: usize = 24;

/// An inner node or a leaf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    /// 0..4: slice of that field; [`LEAF`]: a run of entries.
    pub field: u32,
    pub shift: u32,
    pub mask: u32,
    /// First child in `children`, or first entry of a leaf.
    pub first: u32,
    /// One past the last entry of a leaf.
    pub end: u32,
    /// The tree of boxes that are too wide for this node.
    pub rest: u32,
    /// The earliest rule in `rest`.
    pub rest_order: u32,
}

pub(crate) const LEAF: u32 = 4;

/// The compiled structure.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub(crate) nodes: Vec<Node>,
    pub(crate) children: Vec<u32>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) root: u32,
}

impl Tree {
    /// The place of the first rule with a box that holds the key (of this kind, see
    /// [`crate::five_tuple::Finder`]) and that `verify` (called only for boxes that are bounds)
    /// confirms; `u32::MAX` if there is none.
    #[inline]
    pub(crate) fn find(&self, key: &Key, kind: u32, mut verify: impl FnMut(u32) -> bool) -> u32 {
        let mut best = NONE;
        let mut waiting = [(NONE, NONE); LEVELS_MAX];
        let mut depth = 0;
        let mut at = self.root;
        loop {
            while at != NONE {
                let node = &self.nodes[at as usize];
                if node.field == LEAF {
                    best = self.leaf(node, key, kind, (best, &mut verify));
                    break;
                }
                if node.rest != NONE {
                    waiting[depth % LEVELS_MAX] = (node.rest, node.rest_order);
                    depth += 1;
                }
                let child = key.fields[(node.field & 3) as usize] >> node.shift & node.mask;
                at = self.children[(node.first + child) as usize];
            }
            loop {
                if depth == 0 {
                    return best;
                }
                depth -= 1;
                let (rest, order) = waiting[depth % LEVELS_MAX];
                if order < best {
                    at = rest;
                    break;
                }
            }
        }
    }

    #[inline]
    fn leaf<V: FnMut(u32) -> bool>(
        &self,
        node: &Node,
        key: &Key,
        kind: u32,
        (best, verify): (u32, &mut V),
    ) -> u32 {
        for entry in &self.entries[node.first as usize..node.end as usize] {
            if entry.order >= best {
                break;
            }
            if entry.holds(&key.fields, kind) && (!entry.verify || verify(entry.order)) {
                return entry.order;
            }
        }
        best
    }

    /// Nodes and boxes inspected on the path to a box, on average over all boxes; half of those of
    /// its leaf are.
    pub(crate) fn steps(&self) -> f64 {
        let (mut sum, mut found) = (0.0, 0_usize);
        let mut seen = vec![false; self.nodes.len()];
        let mut next = vec![(self.root, 1_u32)];
        while let Some((at, depth)) = next.pop() {
            let Some(node) = self.nodes.get(at as usize) else { continue };
            if std::mem::replace(&mut seen[at as usize], true) {
                continue;
            }
            if node.field == LEAF {
                let boxes = (node.end - node.first) as usize;
                found += boxes;
                sum += boxes as f64 * (f64::from(depth) + (boxes as f64 + 1.0) / 2.0);
                continue;
            }
            let children = self.children.iter().skip(node.first as usize);
            next.extend(children.take(node.mask as usize + 1).map(|child| (*child, depth + 1)));
            next.push((node.rest, depth + 1));
        }
        sum / found.max(1) as f64
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.nodes.len() * size_of::<Node>()
            + self.children.len() * size_of::<u32>()
            + self.entries.len() * size_of::<Entry>()
    }
}

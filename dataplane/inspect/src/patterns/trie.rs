//! The tree of all patterns' beginnings, with where to go on when a byte does not fit (Aho and
//! Corasick, 1975): built once, then only read.

use super::pattern::{Pattern, PatternError};

/// Stands for no node.
pub(super) const NONE: u32 = u32::MAX;
/// The node of the empty beginning.
pub(super) const ROOT: u32 = 0;
/// In [`Node::edge`]: not one child, but as many as are added to this.
const MANY: u16 = 256;
/// More nodes are refused: 16 bytes each.
const NODES_MAX: usize = 1 << 26;

/// The beginning of a pattern. A node's only child is the next node, so that to follow a pattern is
/// to read on in memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    /// The longest proper suffix that is a beginning too.
    pub(super) fail: u32,
    /// The only child, or where the edges begin.
    next: u32,
    /// First of [`Trie::outs`], or none.
    pub(super) out: u32,
    /// Length, bytes.
    pub(super) depth: u16,
    /// The byte that leads to the only child; or `MANY` and the number of children.
    edge: u16,
}

/// What ends at a node.
#[derive(Debug, Clone, Copy)]
struct Out {
    /// Patterns that are the node's beginning: from here to the next one's in [`Trie::ids`].
    ids: u32,
    len: u32,
    /// What ends here too and is shorter.
    shorter: u32,
}

/// See the module's first lines.
#[derive(Debug, Clone)]
pub(super) struct Trie {
    pub(super) nodes: Vec<Node>,
    edge_bytes: Vec<u8>,
    edge_nodes: Vec<u32>,
    outs: Vec<Out>,
    ids: Vec<u32>,
    /// The distinct patterns, folded, sorted, one behind the other.
    text: Vec<u8>,
    /// By node: where its beginning stands in `text`.
    starts: Vec<u32>,
}

/// Children of nodes while they are made.
struct Growth {
    parents: Vec<u32>,
    bytes: Vec<u8>,
    children: Vec<Vec<u32>>,
    /// Patterns that end at the node: a range of the sorted ones.
    own: Vec<(u32, u32)>,
}

impl Growth {
    fn child(&self, node: u32, byte: u8) -> Option<u32> {
        let children = &self.children[node as usize];
        let at = children.binary_search_by_key(&byte, |child| self.bytes[*child as usize]).ok()?;
        Some(children[at])
    }
}

impl Trie {
    /// Of patterns with their numbers, sorted by their bytes.
    ///
    /// # Errors
    /// They are too large.
    pub(super) fn new(sorted: &[(Vec<u8>, u32)]) -> Result<Trie, PatternError> {
        let root = Node { fail: ROOT, next: NONE, out: NONE, depth: 0, edge: MANY };
        let mut trie = Trie {
            nodes: vec![root],
            edge_bytes: Vec::new(),
            edge_nodes: Vec::new(),
            outs: Vec::new(),
            ids: sorted.iter().map(|(_, id)| *id).collect(),
            text: Vec::new(),
            starts: vec![0],
        };
        let mut growth = Growth {
            parents: vec![ROOT],
            bytes: vec![0],
            children: vec![Vec::new()],
            own: vec![(0, 0)],
        };
        trie.grow(&mut growth, sorted)?;
        trie.link(&growth);
        trie.pack(&growth);
        Ok(trie)
    }

    /// Makes the nodes, in the order of the patterns.
    fn grow(&mut self, to: &mut Growth, sorted: &[(Vec<u8>, u32)]) -> Result<(), PatternError> {
        let mut path = vec![ROOT];
        let mut before: &[u8] = &[];
        for (at, (pattern, _)) in sorted.iter().enumerate() {
            let same = pattern.iter().zip(before).take_while(|(a, b)| a == b).count();
            path.truncate(same + 1);
            let start = self.text.len() as u32; // at most NODES_MAX, as below
            for depth in same..pattern.len() {
                let (id, parent) = (self.nodes.len() as u32, path[depth]);
                self.nodes.push(Node { depth: depth as u16 + 1, ..self.nodes[0] });
                self.starts.push(start);
                to.parents.push(parent);
                to.bytes.push(pattern[depth]);
                to.children.push(Vec::new());
                to.own.push((0, 0));
                to.children[parent as usize].push(id);
                path.push(id);
            }
            if same < pattern.len() {
                self.text.extend(pattern);
            }
            if self.text.len() > NODES_MAX {
                return Err(PatternError::TooLarge { max: NODES_MAX });
            }
            let own = &mut to.own[path[pattern.len()] as usize];
            *own = (if own.1 == 0 { at as u32 } else { own.0 }, own.1 + 1);
            before = pattern;
        }
        Ok(())
    }

    /// Says where each node goes on, and what ends there; the shorter ones first, because the
    /// longer ones build on them.
    fn link(&mut self, growth: &Growth) {
        let mut order: Vec<u32> = (1..self.nodes.len() as u32).collect();
        order.sort_by_key(|node| self.nodes[*node as usize].depth);
        for node in order {
            let parent = growth.parents[node as usize];
            let fail = self.fail_of(growth, parent, growth.bytes[node as usize]);
            let shorter = self.nodes[fail as usize].out;
            let (ids, len) = growth.own[node as usize];
            let here = &mut self.nodes[node as usize];
            here.fail = fail;
            here.out = shorter;
            if len > 0 {
                here.out = self.outs.len() as u32;
                self.outs.push(Out { ids, len, shorter });
            }
        }
    }

    /// Where a child of `parent` by `byte` goes on.
    fn fail_of(&self, growth: &Growth, parent: u32, byte: u8) -> u32 {
        let mut at = parent;
        while at != ROOT {
            at = self.nodes[at as usize].fail;
            if let Some(found) = growth.child(at, byte) {
                return found;
            }
        }
        ROOT
    }

    /// Writes the children down as they are read.
    fn pack(&mut self, growth: &Growth) {
        for (node, children) in self.nodes.iter_mut().zip(&growth.children) {
            match children.as_slice() {
                [] => {}
                [only] => {
                    node.edge = u16::from(growth.bytes[*only as usize]);
                    node.next = *only;
                }
                many => {
                    node.edge = MANY + many.len() as u16; // at most 256 bytes lead on
                    node.next = self.edge_nodes.len() as u32;
                    self.edge_nodes.extend(many);
                    self.edge_bytes.extend(many.iter().map(|it| growth.bytes[*it as usize]));
                }
            }
        }
    }

    /// Forgets where nodes go on if that is shorter than `len`.
    pub(super) fn cut_fails(&mut self, len: usize) {
        for at in 0..self.nodes.len() {
            let fail = self.nodes[at].fail as usize;
            if usize::from(self.nodes[fail].depth) < len {
                self.nodes[at].fail = NONE;
            }
        }
    }

    /// Where `byte` leads from a node, or [`NONE`].
    #[inline(always)]
    pub(super) fn child(&self, node: &Node, byte: u8) -> u32 {
        if node.edge < MANY {
            return if node.edge == u16::from(byte) { node.next } else { NONE };
        }
        let (first, len) = (node.next as usize, usize::from(node.edge - MANY));
        if len == 0 {
            return NONE;
        }
        let bytes = &self.edge_bytes[first..first + len];
        let at = if len <= 16 {
            bytes.iter().position(|it| *it == byte)
        } else {
            bytes.binary_search(&byte).ok()
        };
        at.map_or(NONE, |at| self.edge_nodes[first + at])
    }

    /// Whether no pattern goes on from a node.
    pub(super) fn is_leaf(&self, node: u32) -> bool {
        self.nodes[node as usize].edge == MANY
    }

    /// The beginning that a node stands for, folded.
    pub(super) fn string(&self, node: u32) -> &[u8] {
        let (start, depth) = (self.starts[node as usize], self.nodes[node as usize].depth);
        &self.text[start as usize..][..usize::from(depth)]
    }

    /// The longest suffix of `bytes` that is a beginning.
    pub(super) fn longest_suffix(&self, bytes: &[u8]) -> u32 {
        for at in 0..bytes.len() {
            let steps = bytes[at..].iter().try_fold(ROOT, |node, byte| {
                let next = self.child(&self.nodes[node as usize], *byte);
                (next != NONE).then_some(next)
            });
            if let Some(node) = steps {
                return node;
            }
        }
        ROOT
    }

    /// Patterns that end at a node with this [`Node::out`], longer ones first: those of equal bytes
    /// together.
    #[inline(always)]
    pub(super) fn ending(&self, out: u32) -> impl Iterator<Item = &[u32]> {
        let known = |out: u32| (out != NONE).then(|| &self.outs[out as usize]);
        let all = std::iter::successors(known(out), move |it| known(it.shorter));
        all.map(|it| &self.ids[it.ids as usize..(it.ids + it.len) as usize])
    }

    /// What it takes, bytes.
    pub(super) fn memory(&self) -> usize {
        size_of_val(&self.nodes[..])
            + size_of_val(&self.edge_nodes[..])
            + size_of_val(&self.outs[..])
            + size_of_val(&self.ids[..])
            + size_of_val(&self.starts[..])
            + self.edge_bytes.len()
            + self.text.len()
    }
}

/// Patterns as a tree wants them.
pub(super) fn sorted<'a>(
    patterns: impl Iterator<Item = (usize, &'a Pattern)>,
    folds: &[u8; 256],
) -> Vec<(Vec<u8>, u32)> {
    let folded = |bytes: &[u8]| bytes.iter().map(|byte| folds[usize::from(*byte)]).collect();
    let mut sorted: Vec<(Vec<u8>, u32)> =
        patterns.map(|(id, pattern)| (folded(&pattern.bytes), id as u32)).collect();
    sorted.sort();
    sorted
}

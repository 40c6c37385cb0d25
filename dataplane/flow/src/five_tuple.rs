//! Finds the first of many boxes that holds a key: in tables where the boxes are few, else in a
//! decision tree.

use crate::box_tree::Tree;
use crate::boxes::Entry;
use crate::few::{self, Few};
use crate::key::Key;
use crate::tree_build::{Placed, build, entries};

/// Where the boxes are: in tables when they are few, else in a tree.
#[derive(Clone, Debug)]
enum Boxes {
    Few(Few),
    Many(Tree),
}

/// Finds the first box that holds a key.
#[derive(Clone, Debug)]
pub(crate) struct Finder {
    boxes: Boxes,
    /// Class of each protocol: no box distinguishes protocols of a class. Class and kind of
    /// fragment together are a key's kind.
    classes: Box<[u8; 256]>,
}

impl Finder {
    /// Builds the structure over boxes sorted by the place of their rule.
    pub(crate) fn build(boxes: &[Placed]) -> Finder {
        let (classes, entries) = entries(boxes);
        let boxes = if entries.len() <= few::ENTRIES_MAX {
            Boxes::Few(Few::build(&entries))
        } else {
            Boxes::Many(build(&entries))
        };
        Finder { boxes, classes: Box::new(classes) }
    }

    /// The place of the first rule with a box that holds the key and that `verify` (called only for
    /// boxes that are bounds) confirms; [`crate::boxes::NONE`] if there is none.
    #[inline]
    pub(crate) fn find(&self, key: &Key, verify: impl FnMut(u32) -> bool) -> u32 {
        let kind = u32::from(self.classes[usize::from(key.proto)]) * 4 + u32::from(key.fragment);
        match &self.boxes {
            Boxes::Few(few) => few.find(key, kind, verify),
            Boxes::Many(tree) => tree.find(key, kind, verify),
        }
    }

    /// All boxes, by the order of their rules.
    pub(crate) fn boxes(&self) -> Vec<Entry> {
        let mut boxes = match &self.boxes {
            Boxes::Few(few) => few.entries().to_vec(),
            Boxes::Many(tree) => tree.entries.clone(),
        };
        // Leaves of a tree share boxes.
        boxes.sort_by_key(|entry| (entry.order, entry.lo, entry.span, entry.kinds));
        boxes.dedup();
        boxes
    }

    /// Each protocol's class.
    pub(crate) fn classes(&self) -> &[u8; 256] {
        &self.classes
    }

    /// Steps to a box on average, and of the rules that must still be run, by their places.
    pub(crate) fn steps(&self, tests: impl Fn(u32) -> f64) -> f64 {
        let (search, entries) = match &self.boxes {
            Boxes::Few(few) => (few.steps(), few.entries()),
            Boxes::Many(tree) => (tree.steps(), tree.entries.as_slice()),
        };
        let verified = entries.iter().filter(|entry| entry.verify);
        let tests: f64 = verified.map(|entry| tests(entry.order)).sum();
        search + tests / entries.len().max(1) as f64
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        match &self.boxes {
            Boxes::Few(few) => few.memory_bytes(),
            Boxes::Many(tree) => tree.memory_bytes(),
        }
    }
}

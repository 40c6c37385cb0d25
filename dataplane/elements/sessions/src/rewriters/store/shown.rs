//! Mappings as people see them.

use thruway_wire::flow::FiveTuple;
use zerocopy::FromBytes;

use super::{Mapping, Outputs, Store, TICK_NS, flow_of, owner_of};

/// A mapping for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::rewriters) struct Shown {
    pub flow: FiveTuple<u32>,
    pub rewritten: FiveTuple<u32>,
    pub outputs: Outputs,
    pub input: u16,
    /// Changes of sequence numbers, forward and of replies.
    pub added: [i32; 2],
    /// Seconds until it may be forgotten.
    pub left_s: i64,
}

impl Store {
    /// The mappings of an owner's for which `wants` holds, by protocol.
    pub(in crate::rewriters) fn list(
        &self,
        owner: u16,
        now: u32,
        wants: impl Fn(u8) -> bool,
    ) -> impl Iterator<Item = Shown> {
        let mine = move |index: &u32| {
            if !self.pool.is_linked(*index) {
                return false;
            }
            let last = self.pool.key(*index)[3];
            owner_of(last) == usize::from(owner) && wants(last as u8)
        };
        (0..self.pool.extent()).filter(mine).filter_map(move |index| self.shown(index, now))
    }

    fn shown(&self, index: u32, now: u32) -> Option<Shown> {
        let mapping = Mapping::ref_from_bytes(self.pool.scratch(index)).ok()?;
        let key = self.pool.key(index);
        let reply = self.pool.alias_key(index).unwrap_or(key);
        let (_, over) = self.times(index);
        let left = over.wrapping_sub(now) as i32;
        let sequences = mapping.sequences.checked_sub(1);
        let added = |is_reply| sequences.map_or(0, |n| self.sequences.now(n, is_reply));
        Some(Shown {
            flow: flow_of(key, key[3]),
            rewritten: flow_of(reply, key[3]).reversed(),
            outputs: Outputs { forward: mapping.forward, reply: mapping.reply },
            input: self.pool.head(index).leaf,
            added: [added(false), added(true)],
            left_s: (i64::from(left) * TICK_NS + 500_000_000).div_euclid(1_000_000_000),
        })
    }
}

//! What comes back of a function.

use std::collections::BTreeMap;

use thruway_exchange::{Mapped, Origin, Token};

/// How a packet came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// One that was put comes back.
    Returned,
    /// One that was put was dropped.
    Dropped,
    /// One emitted in consequence of the one before.
    Emitted,
    /// One injected.
    Injected,
}

/// What a function gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// How it came.
    pub arrival: Arrival,
    /// Output by which it leaves.
    pub output: u32,
    /// Its bytes; none when it was dropped.
    pub bytes: Vec<u8>,
}

/// The packets that the function has, as a host has them itself.
#[derive(Default)]
pub(super) struct Own {
    by_slot: BTreeMap<u32, Vec<u8>>,
    /// Packets that came back as they were put.
    pub kept: u64,
}

impl Own {
    /// A packet was put into a slot.
    pub fn put(&mut self, slot: u32, bytes: &[u8]) {
        self.by_slot.insert(slot, bytes.to_vec());
    }

    /// What a token gives: the host's own bytes where the function says that it kept them, as the
    /// engine does.
    pub fn given(&mut self, token: &Token<'_, Mapped>) -> Given {
        let arrival = match token.origin {
            Origin::Slot(_) => Arrival::Returned,
            Origin::Dropped(_) => Arrival::Dropped,
            Origin::Aux(_) => Arrival::Emitted,
            Origin::Injected => Arrival::Injected,
        };
        let own = match token.origin {
            Origin::Slot(slot) if token.is_kept => self.by_slot.get(&slot).cloned(),
            _ => None,
        };
        self.kept += u64::from(own.is_some());
        let bytes = own.unwrap_or_else(|| {
            let mut bytes = vec![0; token.len() as usize];
            token.copy_to(&mut bytes);
            bytes
        });
        Given { arrival, output: token.output, bytes }
    }
}

//! The maps that both programs and the process share.

use super::layout::{DECISION_LEN, KEY_LEN, SLOTS};
use super::memory::Memory;
use crate::bpf;
use std::io;
use std::os::fd::OwnedFd;

/// The kernel's maps.
pub(crate) struct Maps {
    pub(super) flows: OwnedFd,
    pub(super) slots: Memory,
    pub(super) generation: Memory,
    pub(super) decision: OwnedFd,
}

impl Maps {
    /// Empty ones.
    pub(super) fn new() -> io::Result<Maps> {
        Ok(Maps {
            flows: bpf::hash_map(KEY_LEN, 4, SLOTS * 2)?,
            slots: Memory::slots()?,
            generation: Memory::word()?,
            decision: bpf::array_by_processor(DECISION_LEN)?,
        })
    }
}

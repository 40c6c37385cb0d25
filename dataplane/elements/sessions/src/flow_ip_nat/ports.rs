//! Which inside address and port has an outside port, and which ports a thread may give.

use std::sync::{Arc, OnceLock};

use thruway_element::Args;
use thruway_sync::atomic::{AtomicU64, Ordering};

/// The first port that is given away: those below are well known (RFC 6335).
const FIRST_PORT: u32 = 1024;
/// Most ports that are looked at for a session.
const LOOKS_MAX: u32 = 1024;
/// In a word of [`PortMap`]: a session has this port.
const TAKEN: u64 = 1 << 63;

/// Maps each outside port to its inside address and port: one word each, written by the thread that
/// owns the port, and read by the thread that gets the first reply.
pub(crate) struct PortMap {
    pub(super) words: Box<[AtomicU64]>,
    /// The outside address; unset while there is no FlowIPNAT.
    pub(crate) sip: OnceLock<u32>,
}

impl PortMap {
    /// That of the FlowIPNAT of that (full) name, which need not be there yet.
    pub(crate) fn of(args: &Args<'_>, element: &str) -> Option<Arc<PortMap>> {
        args.env().shared.get(element, "ports", PortMap::new)
    }

    fn new() -> PortMap {
        let words = (0..=u16::MAX).map(|_| AtomicU64::new(0)).collect();
        PortMap { words, sip: OnceLock::new() }
    }

    fn word(&self, port: u16) -> &AtomicU64 {
        // There are as many as ports.
        &self.words[usize::from(port)]
    }

    /// The address and port inside that has an outside port.
    pub(crate) fn inside(&self, port: u16) -> Option<(u32, u16)> {
        // Acquire pairs with the release in `take`.
        let word = self.word(port).load(Ordering::Acquire);
        (word & TAKEN != 0).then_some(((word >> 16) as u32, word as u16))
    }

    /// Gives a free port of a share to an inside address and port.
    pub(super) fn take(&self, share: &mut Share, inside: (u32, u16)) -> Option<u16> {
        for _ in 0..LOOKS_MAX.min(share.len) {
            let port = share.next();
            let word = self.word(port);
            // Relaxed: no other thread writes it.
            if word.load(Ordering::Relaxed) == 0 {
                word.store(held_by(inside), Ordering::Release);
                return Some(port);
            }
        }
        None
    }

    /// Frees a port, unless it has another owner by now.
    pub(super) fn free(&self, port: u16, inside: (u32, u16)) {
        let word = self.word(port);
        if word.load(Ordering::Relaxed) == held_by(inside) {
            word.store(0, Ordering::Relaxed);
        }
    }
}

/// The word of a port that an inside address and port has.
fn held_by((addr, port): (u32, u16)) -> u64 {
    TAKEN | u64::from(addr) << 16 | u64::from(port)
}

/// The ports of one thread.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    first: u32,
    len: u32,
    /// What is looked at next, counted from `first`.
    at: u32,
}

impl Share {
    pub(super) fn new(rank: usize, threads: usize) -> Share {
        // At most 65536 threads have a port each.
        let len = (u32::from(u16::MAX) + 1 - FIRST_PORT) / threads.max(1) as u32;
        Share { first: FIRST_PORT + len * rank as u32, len, at: 0 }
    }

    fn next(&mut self) -> u16 {
        let port = self.first + self.at;
        self.at = (self.at + 1) % self.len.max(1);
        port as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_share_all_ports_and_give_none_twice() {
        let map = PortMap::new();
        let mut given = std::collections::BTreeSet::new();
        for rank in 0..3 {
            let mut share = Share::new(rank, 3);
            while let Some(port) = map.take(&mut share, (rank as u32, 7)) {
                assert!(given.insert(port));
                assert_eq!(map.inside(port), Some((rank as u32, 7)));
            }
        }
        assert_eq!((given.len(), given.first()), (64_512, Some(&1024)));
        // Only the owner frees a port.
        map.free(1024, (1, 7));
        assert_eq!(map.inside(1024), Some((0, 7)));
        map.free(1024, (0, 7));
        assert_eq!(map.inside(1024), None);
        let mut share = Share::new(0, 3);
        assert_eq!(map.take(&mut share, (9, 9)), Some(1024));
    }
}

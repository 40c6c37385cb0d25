//! Embryonic TCP sessions, oldest first: which of them ends when a new session finds no free port.
//!
//! A flood of SYNs takes all ports, and each stays in use until its session times out. RFC 5382
//! section 5 and RFC 7857 section 2 let a NAT end partially open connections earlier; established
//! ones never end for a new one's sake.

use super::chains::Slab;

/// No entry.
const NONE: u32 = u32::MAX;
/// Fewest and most embryonic sessions that are listed.
const LISTED: (usize, usize) = (1024, 1 << 16);

/// A listed session.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Entry {
    /// Its number in the flow manager.
    pub session: u32,
    /// `source` of the session's [`NatSession`](super::state::NatSession): the mapping, or the
    /// index of the address.
    pub source: u32,
    /// Its outside port; 0 in entries that are free.
    pub port: u16,
    /// The list that it is in.
    pub list: u32,
    pub older: u32,
    pub younger: u32,
}

/// The ends of a list.
#[derive(Clone, Copy)]
struct List {
    oldest: u32,
    youngest: u32,
    len: u32,
}

/// Lists of embryonic TCP sessions that hold a port: two for each outside address, as its ports are
/// well-known or not, or one for each block of ports. Each entry is looked at once at most, then it
/// leaves its list.
pub(super) struct Embryonic {
    pub entries: Slab<Entry>,
    lists: Box<[List]>,
    /// Sessions that ended so that others could have their ports.
    pub evicted: u64,
}

impl Embryonic {
    /// For this many lists and ports; without ports nothing is listed.
    pub(super) fn new(lists: usize, ports: usize) -> Embryonic {
        let capacity = if ports == 0 { 0 } else { ports.clamp(LISTED.0, LISTED.1) };
        let none = List { oldest: NONE, youngest: NONE, len: 0 };
        Embryonic {
            entries: Slab::new(capacity),
            lists: vec![none; lists].into_boxed_slice(),
            evicted: 0,
        }
    }

    /// Appends a session; gives its ticket. The caller makes room first.
    pub(super) fn add(&mut self, entry: Entry) -> Option<u32> {
        let list = *self.lists.get(entry.list as usize)?;
        let at = self.entries.add(Entry { older: list.youngest, younger: NONE, ..entry })?;
        self.link((list.youngest, at), entry.list as usize);
        self.link((at, NONE), entry.list as usize);
        self.lists[entry.list as usize].len += 1;
        Some(at + 1)
    }

    /// Makes two entries of a list neighbours; [`NONE`] is its end.
    fn link(&mut self, (older, younger): (u32, u32), list: usize) {
        match older {
            NONE => self.lists[list].oldest = younger,
            at => self.entries.get_mut(at).younger = younger,
        }
        match younger {
            NONE => self.lists[list].youngest = older,
            at => self.entries.get_mut(at).older = older,
        }
    }

    /// Takes the entry of a ticket out of its list, if it is of this source and port.
    pub(super) fn remove(&mut self, ticket: u32, (source, port): (u32, u16)) -> bool {
        let Some(at) = ticket.checked_sub(1) else { return false };
        let entry = *self.entries.get(at);
        if port == 0 || (entry.source, entry.port) != (source, port) {
            return false;
        }
        self.link((entry.older, entry.younger), entry.list as usize);
        self.lists[entry.list as usize].len -= 1;
        self.entries.remove(at);
        true
    }

    /// How many sessions a list has.
    pub(super) fn len(&self, list: u32) -> u32 {
        self.lists.get(list as usize).map_or(0, |list| list.len)
    }

    /// A list's sessions, the oldest first.
    pub(super) fn iter(&self, list: u32) -> impl Iterator<Item = &Entry> {
        let oldest = self.lists.get(list as usize).map_or(NONE, |list| list.oldest);
        let entry = |at: u32| (at != NONE).then(|| self.entries.get(at));
        std::iter::successors(entry(oldest), move |before| entry(before.younger))
    }

    /// The ticket of a list's oldest session.
    pub(super) fn oldest(&self, list: u32) -> Option<u32> {
        let at = self.lists.get(list as usize)?.oldest;
        (at != NONE).then_some(at.wrapping_add(1))
    }
}

//! Session scratch: memory of a function, indexed by session, that outlives its process.

use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use thruway_nf_abi::arena_stride;
use thruway_region::{Pages, Region, RegionError};

/// What a session's scratch is cleared with.
const ZEROS: [u8; 256] = [0; 256];

/// A function's arena, as its Worker or its host sees it.
#[derive(Debug)]
pub struct Arena {
    region: Arc<Region>,
    scratch_len: usize,
    stride: usize,
    /// Sessions that are this value's: all, or those of one Worker of several.
    own: Range<u32>,
}

/// Bytes of an arena.
fn arena_len(scratch_len: u32, sessions: u32) -> u64 {
    let len = arena_stride(scratch_len) * u64::from(sessions);
    if len == 0 { 0 } else { len.next_power_of_two() }
}

impl Arena {
    /// Makes one of zeros, for the host.
    ///
    /// # Errors
    /// When there is no memory, or no bytes are asked for.
    pub fn create(scratch_len: u32, sessions: u32) -> Result<Arena, RegionError> {
        // A power of two, as a PCI device has it, for functions in virtual machines; pages are
        // given on first touch.
        let len = arena_len(scratch_len, sessions);
        let region = Region::new(usize::try_from(len).unwrap_or(usize::MAX), Pages::Normal)?;
        Arena::over(region.guarded(), scratch_len, sessions)
    }

    /// Opens the one that the host handed over, for the Worker.
    ///
    /// # Errors
    /// When it cannot be mapped or is too short.
    pub fn open(fd: OwnedFd, scratch_len: u32, sessions: u32) -> Result<Arena, RegionError> {
        Arena::over(Region::open(fd)?, scratch_len, sessions)
    }

    fn over(region: Region, scratch_len: u32, sessions: u32) -> Result<Arena, RegionError> {
        let stride = usize::try_from(arena_stride(scratch_len)).unwrap_or(usize::MAX);
        region.bytes(0, stride.saturating_mul(sessions as usize))?;
        let (region, scratch_len) = (Arc::new(region), scratch_len as usize);
        Ok(Arena { region, scratch_len, stride, own: 0..sessions })
    }

    /// Two of one: of the sessions in front of this one, and of those from there on. Neither has
    /// the other's.
    pub fn split_at(self, session: u32) -> (Arena, Arena) {
        let Arena { region, scratch_len, stride, own } = self;
        let at = session.clamp(own.start, own.end);
        let part = |own| Arena { region: Arc::clone(&region), scratch_len, stride, own };
        (part(own.start..at), part(at..own.end))
    }

    #[inline]
    fn has(&self, session: u32) -> bool {
        self.own.contains(&session)
    }

    /// The descriptor to hand to the Worker.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.region.fd()
    }

    /// Whether memory of it was lost: see [`Region::is_damaged`].
    pub fn is_damaged(&self) -> bool {
        self.region.is_damaged()
    }

    /// Bytes of a session's scratch.
    pub fn scratch_len(&self) -> u32 {
        self.scratch_len as u32
    }

    /// Sessions that it has room for.
    pub fn sessions(&self) -> u32 {
        self.own.end - self.own.start
    }

    /// Makes a session's scratch zero: the host's, before it gives the index to a new session.
    pub fn clear(&self, session: u32) {
        if !self.has(session) {
            return;
        }
        let begin = session as usize * self.stride;
        for at in (0..self.scratch_len).step_by(ZEROS.len()) {
            let len = ZEROS.len().min(self.scratch_len - at);
            // Within the region, which `over` has checked.
            let _ = self.region.copy_in(begin + at, &ZEROS[..len]);
        }
    }

    /// Copies a session's scratch out: the host's, of a session that moves. While the function has
    /// a packet of the session, the copy may be of the middle of a change. False when there is no
    /// such session, or as many bytes.
    #[must_use]
    pub fn copy_out(&self, session: u32, bytes: &mut [u8]) -> bool {
        let is_whole = self.has(session) && bytes.len() == self.scratch_len;
        is_whole && self.region.copy_out(session as usize * self.stride, bytes).is_ok()
    }

    /// Writes a session's scratch, of which the rest is zeros: the host's, of a session that moves.
    /// False, and nothing done, when there is no such session, or room for so many bytes.
    #[must_use]
    pub fn copy_in(&self, session: u32, bytes: &[u8]) -> bool {
        if !self.has(session) || bytes.len() > self.scratch_len {
            return false;
        }
        if bytes.len() < self.scratch_len {
            self.clear(session);
        }
        self.region.copy_in(session as usize * self.stride, bytes).is_ok()
    }

    /// A session's scratch; `None` when there is no such session.
    #[inline]
    pub fn session(&mut self, session: u32) -> Option<&mut [u8]> {
        if !self.has(session) {
            return None;
        }
        let bytes = self.region.bytes(session as usize * self.stride, self.scratch_len).ok()?;
        // JUSTIFICATION: a function keeps its state there and works on it in place.
        // SAFETY: these bytes of the mapping are this value's alone: the others of the mapping
        // (`split_at`, which consumes the one that it splits) have other sessions. `&mut self`
        // excludes a second reference here. The host, whom a Worker trusts, writes a session's
        // scratch only while the function has no packet of that session. A host that uses this on
        // its own arena gets bytes that its function may change, which no caller does: it has
        // `clear`.
        Some(unsafe { bytes.as_mut_slice() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_see_one_memory_and_sessions_are_apart() {
        for scratch_len in [1, 8, 9, 64, 100, 256, 700] {
            let host = Arena::create(scratch_len, 5).unwrap();
            let mut worker =
                Arena::open(host.fd().try_clone_to_owned().unwrap(), scratch_len, 5).unwrap();
            for session in 0..5 {
                let scratch = worker.session(session).unwrap();
                assert_eq!(scratch, vec![0; scratch_len as usize]);
                scratch.fill(session as u8 + 1);
            }
            assert!(worker.session(5).is_none() && worker.session(u32::MAX).is_none());
            host.clear(3);
            host.clear(77);
            for session in 0..5 {
                let value = if session == 3 { 0 } else { session as u8 + 1 };
                assert_eq!(worker.session(session).unwrap(), vec![value; scratch_len as usize]);
            }
        }
        assert!(Arena::create(0, 0).is_err());
    }

    #[test]
    fn scratch_is_copied_to_where_as_much_is_kept_or_more() {
        let [small, large] = [8, 100].map(|len| Arena::create(len, 3).unwrap());
        let mut record = [0; 8];
        assert!(small.copy_in(2, &[1, 2, 3, 4, 5, 6, 7, 8]) && small.copy_out(2, &mut record));
        // Whatever another session left there.
        assert!(large.copy_in(1, &[9; 100]) && large.copy_in(1, &record));
        let mut found = [7; 100];
        assert!(large.copy_out(1, &mut found));
        assert_eq!(found[..8], record);
        assert_eq!(found[8..], [0; 92]);
        assert!(!small.copy_in(0, &found) && !small.copy_in(3, &record));
        assert!(!large.copy_out(1, &mut record) && !large.copy_out(3, &mut found));
    }

    #[test]
    fn parts_have_sessions_of_their_own() {
        let host = Arena::create(16, 10).unwrap();
        let whole = Arena::open(host.fd().try_clone_to_owned().unwrap(), 16, 10).unwrap();
        let (mut front, rest) = whole.split_at(4);
        // Beyond the end of what there is, and in front of it.
        let (rest, mut none) = rest.split_at(20);
        let (mut nothing, mut back) = rest.split_at(1);
        assert_eq!((front.sessions(), back.sessions(), none.sessions()), (4, 6, 0));
        for session in 0..12 {
            assert_eq!(front.session(session).is_some(), session < 4);
            assert_eq!(back.session(session).is_some(), (4..10).contains(&session));
            assert!(none.session(session).is_none() && nothing.session(session).is_none());
        }
        std::thread::scope(|scope| {
            scope.spawn(|| front.session(3).unwrap().fill(1));
            scope.spawn(|| back.session(4).unwrap().fill(2));
        });
        let mut found = [0; 16];
        assert!(host.copy_out(3, &mut found) && found == [1; 16]);
        assert!(host.copy_out(4, &mut found) && found == [2; 16]);
    }

    #[test]
    fn an_arena_that_is_too_short_is_not_opened() {
        let small = Arena::create(8, 1).unwrap();
        assert!(Arena::open(small.fd().try_clone_to_owned().unwrap(), 4096, 9).is_err());
    }
}

//! A run of ports of one address and protocol, and which of them are in use.

/// Ports `base` to `base + len - 1`, a bit each: set while in use.
#[derive(Default)]
pub(super) struct Lane {
    base: u16,
    len: u32,
    free: u32,
    words: Box<[u64]>,
}

impl Lane {
    /// All free. `base + len` is at most 65536.
    pub(super) fn new(base: u16, len: u32) -> Lane {
        let words = vec![0; len.div_ceil(64) as usize].into_boxed_slice();
        Lane { base, len, free: len, words }
    }

    /// How many there are.
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// How many are free.
    pub(super) fn free(&self) -> u32 {
        self.free
    }

    /// The place of a port of this lane.
    #[inline]
    pub(super) fn offset(&self, port: u16) -> Option<u32> {
        let offset = u32::from(port).wrapping_sub(u32::from(self.base));
        (offset < self.len).then_some(offset)
    }

    /// Takes the first free port from place `start` on, round the end; at most one look at each
    /// word of 64.
    pub(super) fn take(&mut self, start: u32) -> Option<u16> {
        if self.free == 0 {
            return None;
        }
        let start = start.min(self.len);
        let offset = self.first_free(start, self.len).or_else(|| self.first_free(0, start))?;
        self.set(offset);
        Some(self.port(offset))
    }

    /// The same within `count` places from `from` on.
    pub(super) fn take_within(&mut self, from: u32, count: u32, start: u32) -> Option<u16> {
        let end = from.saturating_add(count).min(self.len);
        let start = from.saturating_add(start).min(end);
        let offset = self.first_free(start, end).or_else(|| self.first_free(from, start))?;
        self.set(offset);
        Some(self.port(offset))
    }

    /// Takes this very port; false when it is in use or of another lane.
    pub(super) fn claim(&mut self, port: u16) -> bool {
        let offset = self.offset(port).filter(|offset| !self.is_set(*offset));
        offset.inspect(|offset| self.set(*offset)).is_some()
    }

    /// Frees a port in use.
    pub(super) fn release(&mut self, port: u16) {
        if let Some(offset) = self.offset(port).filter(|offset| self.is_set(*offset)) {
            self.words[(offset / 64) as usize] &= !(1 << (offset % 64));
            self.free += 1;
        }
    }

    /// The port at a place below [`Lane::len`].
    pub(super) fn port(&self, offset: u32) -> u16 {
        // At most 65535, see `new`.
        (u32::from(self.base) + offset) as u16
    }

    /// Whether the `count` places from `from` on are all free.
    pub(super) fn are_free(&self, from: u32, count: u32) -> bool {
        (from..from + count).all(|offset| offset < self.len && !self.is_set(offset))
    }

    fn is_set(&self, offset: u32) -> bool {
        self.words[(offset / 64) as usize] >> (offset % 64) & 1 == 1
    }

    fn set(&mut self, offset: u32) {
        self.words[(offset / 64) as usize] |= 1 << (offset % 64);
        self.free -= 1;
    }

    /// The first free place of `from..end`; `end` is at most [`Lane::len`].
    fn first_free(&self, from: u32, end: u32) -> Option<u32> {
        if from >= end {
            return None;
        }
        // Places in front of `from` count as used.
        let mut mask = u64::MAX << (from % 64);
        for word in from / 64..=(end - 1) / 64 {
            let free = !self.words[word as usize] & mask;
            if free != 0 {
                let offset = word * 64 + free.trailing_zeros();
                return (offset < end).then_some(offset);
            }
            mask = u64::MAX;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[derive(Clone, Debug)]
    enum Step {
        Take(u32),
        Within(u32, u32, u32),
        Claim(u16),
        Release(u16),
    }

    fn steps(base: u16, len: u32) -> impl Strategy<Value = Vec<Step>> {
        let port = (0..len + 4).prop_map(move |n| base.saturating_sub(2).wrapping_add(n as u16));
        let step = prop_oneof![
            4 => (0..len + 9).prop_map(Step::Take),
            2 => (0..len, 0..len + 9, 0..len + 9).prop_map(|(a, b, c)| Step::Within(a, b, c)),
            1 => port.clone().prop_map(Step::Claim),
            3 => port.prop_map(Step::Release),
        ];
        prop::collection::vec(step, 0..600)
    }

    proptest! {
        #[test]
        fn gives_what_a_set_would(
            (base, len, steps) in (0u16..65_000, 1u32..300).prop_flat_map(|(base, len)| {
                (Just(base), Just(len), steps(base, len))
            }),
        ) {
            let mut lane = Lane::new(base, len);
            let mut used: HashSet<u16> = HashSet::new();
            let all: Vec<u16> = (0..len).map(|offset| base + offset as u16).collect();
            for step in steps {
                // The oracle walks the places in the order that is promised.
                let first = |offsets: &mut dyn Iterator<Item = u32>| {
                    offsets.map(|at| all[at as usize]).find(|port| !used.contains(port))
                };
                match step {
                    Step::Take(start) => {
                        let start = start.min(len);
                        let wanted = first(&mut (start..len).chain(0..start));
                        prop_assert_eq!(lane.take(start), wanted);
                        used.extend(wanted);
                    }
                    Step::Within(from, count, start) => {
                        let end = (from + count).min(len);
                        let middle = (from + start).min(end);
                        let wanted = first(&mut (middle..end).chain(from..middle));
                        prop_assert_eq!(lane.take_within(from, count, start), wanted);
                        used.extend(wanted);
                    }
                    Step::Claim(port) => {
                        let wanted = all.contains(&port) && !used.contains(&port);
                        prop_assert_eq!(lane.claim(port), wanted);
                        if wanted {
                            used.insert(port);
                        }
                    }
                    Step::Release(port) => {
                        lane.release(port);
                        used.remove(&port);
                    }
                }
                prop_assert_eq!(lane.free() as usize, all.len() - used.len());
            }
        }
    }

    #[test]
    fn every_port_is_given_once_and_again_after_its_release() {
        let mut lane = Lane::new(1024, 64_512);
        let given: HashSet<u16> = std::iter::from_fn(|| lane.take(40_000)).collect();
        assert_eq!((given.len(), given.contains(&65_535), lane.free()), (64_512, true, 0));
        lane.release(33_333);
        assert_eq!((lane.take(7), lane.take(7)), (Some(33_333), None));
    }
}

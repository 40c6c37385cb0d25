//! Which of many things that are kept has been kept longest: a list through the places of a slab.

const NONE: u32 = u32::MAX;

/// Entries ordered by age.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Oldest {
    /// Its place in the slab.
    pub at: u32,
    /// Since when, nanoseconds.
    pub since: i64,
}

#[derive(Debug, Clone, Copy)]
struct Link {
    older: u32,
    newer: u32,
    since: i64,
}

/// See the module. Every operation is a few loads and stores.
#[derive(Debug)]
pub(crate) struct Ages {
    /// By place.
    links: Vec<Link>,
    oldest: u32,
    newest: u32,
}

impl Default for Ages {
    fn default() -> Ages {
        Ages { links: Vec::new(), oldest: NONE, newest: NONE }
    }
}

impl Ages {
    /// Bytes of memory for each place.
    pub(crate) const LINK_BYTES: usize = size_of::<Link>();

    /// Adds an entry, which must not be in the list yet.
    #[inline]
    pub(crate) fn add(&mut self, at: u32, since: i64) {
        let older = std::mem::replace(&mut self.newest, at);
        let link = Link { older, newer: NONE, since };
        if self.links.len() <= at as usize {
            self.links.resize(at as usize + 1, Link { older: NONE, newer: NONE, since: 0 });
        }
        self.links[at as usize] = link;
        match self.links.get_mut(older as usize) {
            Some(before) => before.newer = at,
            None => self.oldest = at,
        }
    }

    /// Removes an entry.
    #[inline]
    pub(crate) fn remove(&mut self, at: u32) {
        let Some(Link { older, newer, .. }) = self.links.get(at as usize).copied() else { return };
        match self.links.get_mut(older as usize) {
            Some(link) => link.newer = newer,
            None => self.oldest = newer,
        }
        match self.links.get_mut(newer as usize) {
            Some(link) => link.older = older,
            None => self.newest = older,
        }
    }

    /// The oldest entry.
    #[inline]
    pub(crate) fn oldest(&self) -> Option<Oldest> {
        let at = self.oldest;
        self.links.get(at as usize).map(|link| Oldest { at, since: link.since })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_list_in_order(steps in prop::collection::vec(0..16u32, 0..300)) {
            let (mut ages, mut plain) = (Ages::default(), Vec::<(u32, i64)>::new());
            for (now, at) in steps.into_iter().enumerate() {
                let before = plain.len();
                plain.retain(|(other, _)| *other != at);
                if plain.len() == before {
                    ages.add(at, now as i64);
                    plain.push((at, now as i64));
                } else {
                    ages.remove(at);
                }
                let oldest = plain.first().map(|(at, since)| Oldest { at: *at, since: *since });
                prop_assert_eq!(ages.oldest(), oldest);
            }
        }
    }
}

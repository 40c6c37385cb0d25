//! A box: ranges of the fields of a packet's key, for which one rule is to be run.

/// "Not there": no child, no rest, nothing found.
pub(crate) const NONE: u32 = u32::MAX;

/// A box and the place of its rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub lo: [u32; 4],
    /// `hi - lo` of each field.
    pub span: [u32; 4],
    /// Kinds (protocol class x 4 + kind of fragment), one bit each.
    pub kinds: u64,
    /// The rule's place in the list.
    pub order: u32,
    /// Whether the rule must still be run.
    pub verify: bool,
}

impl Entry {
    /// A box that holds no key.
    pub(crate) const NOTHING: Entry =
        Entry { lo: [0; 4], span: [0; 4], kinds: 0, order: NONE, verify: false };

    #[inline]
    pub(crate) fn holds(&self, fields: &[u32; 4], kind: u32) -> bool {
        let outside: [u32; 4] =
            std::array::from_fn(|f| u32::from(fields[f].wrapping_sub(self.lo[f]) > self.span[f]));
        (outside == [0; 4]) & (self.kinds >> kind & 1 == 1)
    }
}

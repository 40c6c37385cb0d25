//! Requests that wait for their answers.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Most requests of a connection that may wait for an answer.
pub const MAX_PENDING: usize = 64;

/// Requests in one byte.
const PER_BYTE: usize = 2;

/// The properties of a request that matter for its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Asked {
    /// HEAD: no body follows the answer's head.
    pub is_head: bool,
    /// CONNECT: after an answer 2xx both directions are a tunnel (RFC 9110 section 9.3.6).
    pub is_connect: bool,
    /// It offers another protocol (RFC 9110 section 7.8).
    pub offers_upgrade: bool,
    /// It speaks HTTP/1.0: its answer cannot have chunks.
    pub is_old: bool,
}

impl Asked {
    fn bits(self) -> u8 {
        u8::from(self.is_head)
            | u8::from(self.is_connect) << 1
            | u8::from(self.offers_upgrade) << 2
            | u8::from(self.is_old) << 3
    }

    fn of_bits(bits: u8) -> Asked {
        Asked {
            is_head: bits & 1 != 0,
            is_connect: bits & 2 != 0,
            offers_upgrade: bits & 4 != 0,
            is_old: bits & 8 != 0,
        }
    }
}

/// A queue of [`Asked`], four bits each. Zeros are an empty one.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct Pending {
    slots: [u8; MAX_PENDING / PER_BYTE],
    first: u8,
    count: u8,
}

impl Pending {
    /// Requests that wait.
    pub fn len(&self) -> usize {
        usize::from(self.count).min(MAX_PENDING)
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The one that waits longest.
    pub fn front(&self) -> Option<Asked> {
        let (byte, shift) = Pending::position(usize::from(self.first));
        (!self.is_empty()).then(|| Asked::of_bits(self.slots[byte] >> shift & 15))
    }

    /// The one that came last.
    pub fn back(&self) -> Option<Asked> {
        let last = (usize::from(self.first) + self.len()).wrapping_sub(1);
        let (byte, shift) = Pending::position(last);
        (!self.is_empty()).then(|| Asked::of_bits(self.slots[byte] >> shift & 15))
    }

    /// Adds a waiting request; false when there is no room.
    pub fn push(&mut self, asked: Asked) -> bool {
        if self.len() == MAX_PENDING {
            return false;
        }
        let (byte, shift) = Pending::position(usize::from(self.first) + self.len());
        self.slots[byte] = self.slots[byte] & !(15 << shift) | asked.bits() << shift;
        self.count += 1;
        true
    }

    /// The one that waited longest is answered.
    pub fn pop(&mut self) {
        if !self.is_empty() {
            self.first = ((usize::from(self.first) + 1) % MAX_PENDING) as u8;
            self.count -= 1;
        }
    }

    /// Byte and shift of a slot.
    fn position(number: usize) -> (usize, usize) {
        let number = number % MAX_PENDING;
        (number / PER_BYTE, number % PER_BYTE * 4)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_queue(steps in prop::collection::vec(0..40u8, 0..400)) {
            let (mut pending, mut plain) = (Pending::default(), VecDeque::new());
            for step in steps {
                if step < 24 {
                    let asked = Asked::of_bits(step & 15);
                    prop_assert_eq!(pending.push(asked), plain.len() < MAX_PENDING);
                    if plain.len() < MAX_PENDING {
                        plain.push_back(asked);
                    }
                } else {
                    pending.pop();
                    plain.pop_front();
                }
                prop_assert_eq!(pending.len(), plain.len());
                prop_assert_eq!(pending.front(), plain.front().copied());
                prop_assert_eq!(pending.back(), plain.back().copied());
            }
        }
    }
}

//! A map with one value of any length, in which a program reads and writes by offset.

use super::{Attributes, MAP_CREATE, MAP_LOOKUP, MAP_UPDATE, TYPE_ARRAY, call, descriptor};
use super::{number, pointer};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Memory that a program and this process share, as 32-bit words; zeros at first.
pub(crate) struct Area {
    map: OwnedFd,
    words: usize,
}

impl Area {
    /// A new one.
    pub(crate) fn new(words: usize) -> io::Result<Area> {
        let (key_len, value_len, entries) = (4, words as u32 * 4, 1);
        let attributes = Attributes::new(&[TYPE_ARRAY, key_len, value_len, entries]);
        descriptor(MAP_CREATE, &attributes).map(|map| Area { map, words })
    }

    /// What is in it.
    pub(crate) fn get(&self) -> io::Result<Vec<u32>> {
        let mut value = vec![0; self.words];
        let ([k0, k1], [v0, v1]) = (pointer(&raw const KEY), pointer(value.as_mut_ptr()));
        call(MAP_LOOKUP, &Attributes::new(&[number(self.as_fd()), 0, k0, k1, v0, v1]))?;
        Ok(value)
    }

    /// Puts words to its beginning, zeros behind them.
    pub(crate) fn set(&self, words: &[u32]) -> io::Result<()> {
        let mut value = vec![0; self.words];
        value.iter_mut().zip(words).for_each(|(to, from)| *to = *from);
        let ([k0, k1], [v0, v1]) = (pointer(&raw const KEY), pointer(value.as_ptr()));
        call(MAP_UPDATE, &Attributes::new(&[number(self.as_fd()), 0, k0, k1, v0, v1])).map(drop)
    }
}

/// The only key.
static KEY: u32 = 0;

impl AsFd for Area {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

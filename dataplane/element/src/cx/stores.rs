//! What an element that stores packets reports of itself.

use super::Cx;
use crate::host::Store;

impl Cx<'_> {
    /// Reports to upstream sources whether this element, a packet store, is full.
    #[inline]
    pub fn set_full(&mut self, is_full: bool) {
        self.host.set_store(self.node, Store { is_full, presses: false, passes: false });
    }

    /// The same; while this is true, upstream elements that can wait (a capture, an isolated
    /// function) must wait: packets emitted nevertheless may be dropped. See [`crate::Pressing`].
    #[inline]
    pub fn press_back(&mut self, is_full: bool) {
        self.host.set_store(self.node, Store { is_full, presses: true, passes: false });
    }

    /// The same of an element that packets pass but for times in which it holds them.
    #[inline]
    pub fn press_back_while_holding(&mut self, is_full: bool) {
        self.host.set_store(self.node, Store { is_full, presses: true, passes: true });
    }
}

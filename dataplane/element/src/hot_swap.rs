//! State that outlives a configuration.

use std::any::Any;

use crate::Element;

/// An element with state that its successor goes on with: the element of the same name and class in
/// a configuration that replaces this one while packets flow.
pub trait HotSwap: Element {
    /// Gives up its state; `None` when there is nothing worth keeping.
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>>;

    /// Takes what the element's predecessor handed over, before [`Element::initialize`]. A state of
    /// another type is ignored.
    fn take_over(&mut self, state: Box<dyn Any + Send>);
}

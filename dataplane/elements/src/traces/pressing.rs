//! What keeps a source from reading on, where what it does not read waits elsewhere.

use thruway_element::Cx;

/// The elements that packets from here may come to and that ask to wait while they are full; found
/// out at the first question.
#[derive(Default)]
pub(super) struct Pressing(Option<Vec<u32>>);

impl Pressing {
    /// Whether one of them is full.
    pub(super) fn is_on(&mut self, cx: &Cx<'_>) -> bool {
        let pressing = self.0.get_or_insert_with(|| cx.pressing_downstream());
        pressing.iter().any(|node| cx.is_full(*node))
    }
}

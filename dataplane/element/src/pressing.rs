//! Backpressure: which elements wait while a store downstream is full.

use crate::cx::Cx;

/// Elements that called [`Cx::press_back`] and that packets sent from here may reach. A sender that
/// can wait, or that had better drop packets itself, asks whether one of them is full.
#[derive(Debug, Default)]
pub struct Pressing {
    ends: Vec<u32>,
    /// Found at the first question: by then all elements are initialised.
    nodes: Option<Vec<u32>>,
}

impl Pressing {
    /// Of those in front of these elements only.
    pub fn before(ends: &[u32]) -> Pressing {
        Pressing { ends: ends.to_vec(), nodes: None }
    }

    /// Whether one of them is full. (Never for an element on a loop that presses itself: all would
    /// wait for each other.)
    #[inline]
    pub fn is_felt(&mut self, cx: &Cx<'_>) -> bool {
        let ends = &self.ends;
        let nodes = self.nodes.get_or_insert_with(|| {
            let found = cx.neighbours().pressing_downstream(ends);
            if found.contains(&cx.node()) { Vec::new() } else { found }
        });
        let neighbours = cx.neighbours();
        nodes.iter().any(|node| neighbours.is_full(*node))
    }
}

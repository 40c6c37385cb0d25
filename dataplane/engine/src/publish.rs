//! A thread publishes the figures of its elements.

use std::sync::Arc;

use thruway_element::{Facts, Outbox};

use crate::away::{NO_ELEMENT, Piece};
use crate::core::Core;
use crate::engine::Engine;
use crate::figures::{FIGURES_MAX, NodeFigures, PERIOD_NS, publisher};

impl Core {
    /// Publishes the figures of all elements of this thread.
    fn publish(&mut self, out: &mut Outbox) {
        let layout = Arc::clone(&self.layout);
        let figures = Arc::clone(&self.figures);
        for NodeFigures { node, values, .. } in figures.iter() {
            let mut numbers = [0; FIGURES_MAX];
            let numbers = &mut numbers[..values.len()];
            let published = self.with(out, *node as u32, |element, cx| {
                let publisher = layout.entries[*node]?.publisher(element)?;
                publisher.publish(cx, numbers);
                Some(())
            });
            if published.flatten().is_some() {
                values.iter().zip(numbers).for_each(|(value, number)| value.set(*number));
            }
        }
    }

    /// The facts about the elements of this thread.
    pub(crate) fn facts(&self) -> impl Iterator<Item = (usize, Arc<dyn Facts>)> {
        let of = |one: &NodeFigures| {
            Some((one.node, publisher(&self.layout, &self.elements, one.node)?.facts()?))
        };
        self.figures.iter().filter_map(of)
    }
}

impl Engine {
    /// Publishes figures, and again in a while.
    #[cold]
    pub(crate) fn publish(&mut self) {
        self.core.publish(&mut self.out);
        self.publish_at = match self.core.figures.is_empty() {
            true => i64::MAX,
            false => self.out.now().saturating_add(PERIOD_NS),
        };
        self.away.did(Piece::Round, NO_ELEMENT);
    }
}

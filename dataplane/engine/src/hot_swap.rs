//! One router follows another one: packets in rings, sessions, and the state of elements go over
//! while nothing runs.
//!
//! With as many threads, each thread's state goes to the same thread. With more or fewer,
//! [`crate::resize`] says which thread goes on for which.

use std::sync::Arc;

use thruway_element::{Entry, HotSwap};

use crate::control::Control;
use crate::engine::Engine;
use crate::resize::{self, Resizing, counterpart};
use crate::router::Router;
use crate::{flows, handoff};

impl Router {
    /// Whether this router can take over from a running one, though its number of threads may be
    /// another one.
    ///
    /// # Errors
    /// The first element that forbids it, and why.
    pub fn can_follow(&self, running: &Control) -> Result<(), String> {
        let (before, now) = (running.threads(), self.engines.len());
        let Some(old) = running.laid_out().filter(|_| before != now) else { return Ok(()) };
        let heirs = resize::heirs((&self.layout, &self.flows), (old, before), now);
        heirs.map(drop).map_err(|why| {
            format!("from {before} to {now} threads while packets flow: {why}; a restart can do it")
        })
    }

    /// Hands the state of `old`'s elements to those of the same name and class here, replica by
    /// replica. `old` no longer runs, and this router is not initialised yet. With another number
    /// of threads, [`Router::can_follow`] must allow it: else that state is lost.
    pub fn take_over(&mut self, old: &mut Router) {
        old.end_what_is_over();
        self.pass_clocks(old);
        let (layout, before) = (Arc::clone(&self.layout), Arc::clone(&old.layout));
        let same = |node: u32| counterpart(&before, &layout, node as usize).map(|at| at as u32);
        let counts = (old.engines.len(), self.engines.len());
        if counts.0 == counts.1 {
            flows::take_over(&mut self.engines, &mut old.engines, same);
            handoff::take_over(&mut self.engines, &mut old.engines, (same, None));
            return self.take_each(old);
        }
        let heirs = resize::heirs((&layout, &self.flows), (&before, counts.0), counts.1);
        let Ok(heirs) = heirs else { return };
        flows::inherit(&mut self.engines, &mut old.engines, (same, &heirs));
        handoff::take_over(&mut self.engines, &mut old.engines, (same, Some(&heirs)));
        let resizing = Resizing::new(&before, &layout, &heirs);
        self.for_each_pair(old, |(entry, node, at), news, olds| {
            resizing.pass((entry, node, at), news, olds);
        });
    }

    /// Takes back what `next` took over, which could not be initialised and never ran.
    pub fn take_back(&mut self, next: &mut Router) {
        if self.engines.len() == next.engines.len() {
            return self.take_over(next);
        }
        next.end_what_is_over();
        self.pass_clocks(next);
        let (layout, after) = (Arc::clone(&self.layout), Arc::clone(&next.layout));
        let same = |node: u32| counterpart(&after, &layout, node as usize).map(|at| at as u32);
        let counts = (self.engines.len(), next.engines.len());
        let heirs = resize::heirs((&after, &next.flows), (&layout, counts.0), counts.1);
        let Ok(heirs) = heirs else { return };
        flows::take_back(&mut self.engines, &mut next.engines, (same, &heirs));
        handoff::take_over(&mut self.engines, &mut next.engines, (same, None));
        let resizing = Resizing::new(&layout, &after, &heirs);
        self.for_each_pair(next, |(entry, node, at), olds, news| {
            resizing.give_back((entry, at, node), news, olds);
        });
    }

    /// What runs no more is told of what has ended, before it hands anything over.
    fn end_what_is_over(&mut self) {
        self.engines.iter_mut().for_each(Engine::close_short_cuts);
        self.engines.iter_mut().for_each(Engine::let_sessions_go);
    }

    /// Time does not go back, in threads that have no predecessor either.
    fn pass_clocks(&mut self, old: &mut Router) {
        let last = old.engines.iter().map(|engine| engine.out.now()).max();
        let continued = old.engines.len();
        for (new, old) in self.engines.iter_mut().zip(&mut old.engines) {
            new.take_time(old);
        }
        for new in self.engines.iter_mut().skip(continued) {
            new.begin_after(last.unwrap_or_default());
        }
    }

    /// The state of each replica goes to the one in the same thread.
    fn take_each(&mut self, old: &mut Router) {
        for node in 0..self.layout.graph.elements.len() {
            let same = counterpart(&self.layout, &old.layout, node);
            let (Some(at), Some(entry)) = (same, self.layout.entries[node]) else { continue };
            for (new, old) in self.engines.iter_mut().zip(&mut old.engines) {
                let (new, old) = (&mut new.core.elements[node], &mut old.core.elements[at]);
                let old = old.as_deref_mut().and_then(|element| entry.hot_swap_mut(element));
                let new = new.as_deref_mut().and_then(|element| entry.hot_swap_mut(element));
                let state = old.and_then(HotSwap::hand_over);
                if let (Some(new), Some(state)) = (new, state) {
                    new.take_over(state);
                }
            }
        }
    }

    /// Calls `pass` for each element with state that the other router has, too: its class, its
    /// number here and there, and the threads here and there.
    fn for_each_pair(
        &mut self,
        other: &mut Router,
        pass: impl Fn((&'static Entry, usize, usize), &mut [Engine], &mut [Engine]),
    ) {
        for node in 0..self.layout.graph.elements.len() {
            let same = counterpart(&self.layout, &other.layout, node);
            if let (Some(at), Some(entry)) = (same, self.layout.entries[node]) {
                pass((entry, node, at), &mut self.engines, &mut other.engines);
            }
        }
    }
}

//! Which thread goes on for which, where a configuration with another number of threads takes over;
//! and what forbids it.
//!
//! Thread `n` goes on for the former thread `n`, and with fewer threads for `n` and the number of
//! threads more, and so on; but a thread that does not reach all functions of the sessions does not
//! go on with them. Elements that keep state in a hot swap must be able to have another number of
//! replicas ([`thruway_element::Resize`]), where they have one.

use std::any::Any;

use thruway_element::{Entry, HotSwap, Resize};
use thruway_lang::ElementDecl;

use crate::engine::Engine;
use crate::flows::Flows;
use crate::layout::Layout;

/// Finds the element of the same name and class in another configuration.
pub(crate) fn counterpart(from: &Layout, to: &Layout, node: usize) -> Option<usize> {
    let decl = &from.graph.elements[node];
    let same = to.find(&decl.name)?;
    (to.graph.elements[same].class == decl.class).then_some(same)
}

/// By old thread: the one that goes on for it.
pub(crate) type Heirs = Vec<usize>;

/// The heirs of so many threads among so many.
///
/// # Errors
/// What would be lost: the first element that forbids it, and why.
pub(crate) fn heirs(
    (layout, flows): (&Layout, &Flows),
    (old, threads): (&Layout, usize),
    count: usize,
) -> Result<Heirs, String> {
    for (node, decl) in layout.graph.elements.iter().enumerate() {
        let Some(at) = counterpart(layout, old, node) else { continue };
        let (now, before) = (layout.threads[node].len(), old.threads[at].len());
        let keeps = layout.entries[node].is_some_and(Entry::keeps_replicas);
        if keeps && now != before && now.max(before) > 1 {
            return Err(format!(
                "{} keeps state that cannot go from {before} to {now} threads",
                about(decl)
            ));
        }
    }
    let functions = functions(layout, flows, old);
    let heirs: Heirs = (0..threads)
        .map(|thread| heir(layout, (old, thread), (&functions, count)))
        .collect::<Result<_, _>>()?;
    let is_moved = heirs.iter().enumerate().any(|(thread, heir)| thread != *heir);
    if is_moved {
        no_packets_wait((layout, old), &functions)?;
    }
    Ok(heirs)
}

fn about(decl: &ElementDecl) -> String {
    format!("'{}' ({})", decl.name, decl.class)
}

/// Functions with sessions that are in both configurations: their numbers here and there.
fn functions(layout: &Layout, flows: &Flows, old: &Layout) -> Vec<(usize, usize)> {
    let slots = flows.plan.levels.iter().flat_map(|level| &level.scratch_slots);
    let both = slots.filter_map(|slot| {
        let node = slot.node as usize;
        Some((node, counterpart(layout, old, node)?))
    });
    both.collect()
}

/// The thread that goes on for an old one: it reaches all functions of that one's sessions.
fn heir(
    layout: &Layout,
    (old, thread): (&Layout, usize),
    (functions, count): (&[(usize, usize)], usize),
) -> Result<usize, String> {
    let own: Vec<usize> = functions
        .iter()
        .filter(|(_, at)| old.threads[*at].contains(&thread))
        .map(|(node, _)| *node)
        .collect();
    let reaches = |heir: &usize| own.iter().all(|node| layout.threads[*node].contains(heir));
    let mut all = std::iter::once(thread % count).chain(0..count);
    all.find(reaches).ok_or_else(|| {
        let names = own.iter().map(|node| about(&layout.graph.elements[*node]));
        let names: Vec<String> = names.collect();
        format!(
            "no thread would reach all of {}, whose sessions thread {thread} has",
            names.join(", ")
        )
    })
}

/// Packets that elements hand on bear the numbers of their sessions, which may change.
fn no_packets_wait(
    (layout, old): (&Layout, &Layout),
    functions: &[(usize, usize)],
) -> Result<(), String> {
    for (node, decl) in layout.graph.elements.iter().enumerate() {
        let hands_on = layout.entries[node].is_some_and(Entry::hands_packets_on);
        if !hands_on || counterpart(layout, old, node).is_none() {
            continue;
        }
        let behind = layout.graph.downstream(node);
        if let Some((function, _)) = functions.iter().find(|(at, _)| behind.contains(at)) {
            return Err(format!(
                "packets may wait in {} in front of {}, whose sessions would go to another thread",
                about(decl),
                about(&layout.graph.elements[*function])
            ));
        }
    }
    Ok(())
}

/// Passes the state of elements on, from a layout to one with another number of threads.
pub(crate) struct Resizing<'a> {
    old: &'a Layout,
    new: &'a Layout,
    heirs: &'a [usize],
}

impl<'a> Resizing<'a> {
    pub(crate) fn new(old: &'a Layout, new: &'a Layout, heirs: &'a [usize]) -> Resizing<'a> {
        Resizing { old, new, heirs }
    }

    /// By old replica of an element: its thread, and the thread of the new one that goes on for it.
    fn pairs(&self, (node, at): (usize, usize)) -> Vec<(usize, usize)> {
        let (olds, news) = (&self.old.threads[at], &self.new.threads[node]);
        let of = |(rank, thread): (usize, &usize)| {
            let heir = self.heirs.get(*thread).copied().filter(|heir| news.contains(heir));
            Some((*thread, heir.or_else(|| news.get(rank % news.len().max(1)).copied())?))
        };
        olds.iter().enumerate().filter_map(of).collect()
    }

    /// Hands the state of all old replicas to new ones.
    pub(crate) fn pass(
        &self,
        (entry, node, at): (&'static Entry, usize, usize),
        news: &mut [Engine],
        olds: &mut [Engine],
    ) {
        let mut took: Vec<usize> = Vec::new();
        for (thread, heir) in self.pairs((node, at)) {
            let state = replica(entry, olds, (thread, at)).and_then(HotSwap::hand_over);
            if let Some(state) = state {
                give(entry, news, (heir, node), (!took.contains(&heir), state));
                took.push(heir);
            }
        }
        let Some(first) = took.first() else { return };
        for thread in self.new.threads[node].iter().filter(|thread| !took.contains(thread)) {
            let beside = resized(entry, news, (*first, node)).and_then(|one| one.beside());
            if let Some(state) = beside {
                give(entry, news, (*thread, node), (true, state));
            }
        }
    }

    /// Hands state back that was passed on to replicas which never ran.
    pub(crate) fn give_back(
        &self,
        (entry, node, at): (&'static Entry, usize, usize),
        news: &mut [Engine],
        olds: &mut [Engine],
    ) {
        let mut asked: Vec<usize> = Vec::new();
        let pairs = self.pairs((node, at));
        for (_, heir) in &pairs {
            if asked.contains(heir) {
                continue;
            }
            asked.push(*heir);
            // In this order: by it the element knows that its configuration did not begin.
            let rest = resized(entry, news, (*heir, node)).map_or_else(Vec::new, Resize::separate);
            let first = replica(entry, news, (*heir, node)).and_then(HotSwap::hand_over);
            let threads = pairs.iter().filter(|(_, other)| other == heir).map(|(old, _)| *old);
            for (thread, state) in threads.zip(first.into_iter().chain(rest)) {
                give(entry, olds, (thread, at), (true, state));
            }
        }
    }
}

/// A replica of an element with state.
fn replica<'a>(
    entry: &'static Entry,
    engines: &'a mut [Engine],
    (thread, node): (usize, usize),
) -> Option<&'a mut dyn HotSwap> {
    let element = engines.get_mut(thread)?.core.elements[node].as_deref_mut()?;
    entry.hot_swap_mut(element)
}

/// The same of an element that can have more or fewer replicas.
fn resized<'a>(
    entry: &'static Entry,
    engines: &'a mut [Engine],
    (thread, node): (usize, usize),
) -> Option<&'a mut dyn Resize> {
    let element = engines.get_mut(thread)?.core.elements[node].as_deref_mut()?;
    entry.resize_mut(element)
}

/// Gives a replica the state of a predecessor: the first one, or a further one.
fn give(
    entry: &'static Entry,
    engines: &mut [Engine],
    place: (usize, usize),
    (is_first, state): (bool, Box<dyn Any + Send>),
) {
    if is_first {
        if let Some(element) = replica(entry, engines, place) {
            element.take_over(state);
        }
    } else if let Some(element) = resized(entry, engines, place) {
        element.join(state);
    }
}

//! What elements want of the flow manager.

use thruway_flow::chain::Demand;
use thruway_flow::manager::Settings;
use thruway_flow::{Ended, Rule, SessionDef};

use crate::Element;
use crate::cx::Cx;

/// What an element wants of the flow manager, whatever its arguments; [`SessionFunction`] says it
/// where they matter.
#[derive(Debug, Clone, Copy)]
pub struct Wants {
    /// Traffic class of each input, as `FlowDispatcher` takes it; the last one counts for further
    /// inputs. Empty: any.
    pub classes: &'static [&'static str],
    /// Session definition ([`thruway_flow::SessionDef::parse`]).
    pub session: Option<&'static str>,
    /// Per-session scratch.
    pub scratch: Scratch,
    /// Whether it translates addresses, so that replies come under another key.
    pub translates: bool,
    /// Words that it publishes per session for the thread that serves the other direction.
    pub shared_words: usize,
    /// Whether one thread has to serve both directions of a session.
    pub whole: bool,
}

impl Wants {
    /// Of an element that asks for nothing.
    pub const NOTHING: Wants = Wants {
        classes: &[],
        session: None,
        scratch: Scratch { size: 0, align: 1 },
        translates: false,
        shared_words: 0,
        whole: false,
    };

    /// A session of this definition with a state of type `S` (see [`crate::PerSession`]).
    pub const fn session<S>(definition: &'static str) -> Wants {
        Wants { session: Some(definition), scratch: Scratch::of::<S>(), ..Wants::NOTHING }
    }

    /// The same for a session that the arguments define.
    pub fn demand_of(&self, session: SessionDef) -> Demand {
        Demand {
            translates: self.translates,
            shared_words: self.shared_words,
            whole: self.whole,
            ..Demand::of(session, self.scratch.size, self.scratch.align)
        }
    }
}

/// Size and alignment of per-session state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scratch {
    /// Bytes.
    pub size: usize,
    /// Power of two.
    pub align: usize,
}

impl Scratch {
    /// Those of a type.
    pub const fn of<S>() -> Scratch {
        Scratch { size: size_of::<S>(), align: align_of::<S>() }
    }
}

/// A function of sessions: what it wants of the flow manager depends on its arguments, or it is to
/// know when sessions end.
pub trait SessionFunction: Element {
    /// What it wants; `None`: what its spec's [`Wants`] say.
    fn demand(&self) -> Option<Demand> {
        None
    }

    /// Traffic class of input `port`, as `FlowDispatcher` takes it; `None`: its spec's.
    fn class(&self, port: usize) -> Option<String> {
        let _ = port;
        None
    }

    /// A session that this element had opened has ended; `state` is a copy of its scratch. Called
    /// exactly once for each.
    fn closed(&mut self, cx: &mut Cx<'_>, state: &[u8], why: Ended) {
        let _ = (cx, state, why);
    }
}

/// An element where classification begins.
pub trait FlowEntry: Element {
    /// What the user set of the flow manager.
    fn settings(&self) -> Settings;
}

/// An element that sorts packets by rules of the flow manager.
pub trait FlowDispatch: Element {
    /// Its rules; with none, they follow from the elements behind its outputs.
    fn rules(&self) -> Vec<Rule>;

    /// Of one without rules of its own: those that follow from the elements behind its outputs, and
    /// the class of each output as text. Called before [`Element::initialize`].
    ///
    /// # Errors
    /// Why it cannot go by them.
    fn take_rules(&mut self, rules: &[Rule], classes: &[String]) -> Result<(), String>;
}

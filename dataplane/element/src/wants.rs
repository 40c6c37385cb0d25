//! Demands of elements on the flow manager.

use thruway_flow::SessionDef;
use thruway_flow::chain::Demand;

/// The demand of an element on the flow manager, independent of its arguments;
/// [`crate::SessionFunction`] declares it if they matter.
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
    /// Scratch for a type.
    pub const fn of<S>() -> Scratch {
        Scratch { size: size_of::<S>(), align: align_of::<S>() }
    }
}

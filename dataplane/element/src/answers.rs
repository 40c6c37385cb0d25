//! Services of the flow manager for a function that opens a session.

use thruway_flow::manager::{At, Manager, NoAnswer};
use thruway_wire::flow::FiveTuple;

/// Services of the flow manager for a function that opens a session.
pub trait Answers {
    /// From now on packets with this five-tuple, as they come to the classifier, are this session's
    /// replies: an address translator calls this for its translation. Replaces an earlier one of
    /// this session.
    ///
    /// # Errors
    /// Another session has it, or there is no room: the translation must be another.
    fn answer(&mut self, reply: &FiveTuple<u32>) -> Result<(), NoAnswer>;

    /// The same for IPv6.
    ///
    /// # Errors
    /// As [`Answers::answer`].
    fn answer6(&mut self, reply: &FiveTuple<[u8; 16]>) -> Result<(), NoAnswer>;

    /// The words that this function published for the session in the thread that serves its other
    /// direction; `None` if there are none, or it has not opened the session.
    fn published(&self) -> Option<[u64; 4]>;

    /// Publishes the words that the other direction's thread needs: at most the declared number,
    /// and at most four. A function that translates does it before [`Answers::answer`].
    fn publish(&mut self, words: &[u64]);

    /// The session's number in this thread, for [`Answers::evict`]. It is given again after the
    /// session's end.
    fn session(&self) -> u32;

    /// Ends another session that this function has opened, if it is an embryonic TCP session and
    /// `take` accepts it. `take` gets the state of this function, which
    /// [`crate::PerSession::close`] is called with later: it must clear the parts that it frees.
    /// Returns whether the session has ended.
    fn evict(&mut self, session: u32, take: &mut dyn FnMut(&mut [u8]) -> bool) -> bool;
}

/// The flow manager's side of an opening.
pub(crate) struct Asked<'a> {
    pub(crate) flows: &'a mut Manager,
    pub(crate) at: At,
}

impl Answers for Asked<'_> {
    fn answer(&mut self, reply: &FiveTuple<u32>) -> Result<(), NoAnswer> {
        self.flows.answer(&self.at, reply)
    }

    fn answer6(&mut self, reply: &FiveTuple<[u8; 16]>) -> Result<(), NoAnswer> {
        self.flows.answer6(&self.at, reply)
    }

    fn published(&self) -> Option<[u64; 4]> {
        self.flows.published(&self.at)
    }

    fn publish(&mut self, words: &[u64]) {
        self.flows.publish(&self.at, words);
    }

    fn session(&self) -> u32 {
        self.at.index
    }

    fn evict(&mut self, session: u32, take: &mut dyn FnMut(&mut [u8]) -> bool) -> bool {
        self.flows.evict_embryonic(&self.at, session, take)
    }
}

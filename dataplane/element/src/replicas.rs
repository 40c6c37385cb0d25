//! The relation between the replicas of an element.

use std::fmt;

/// The relation between the replicas of an element that several threads reach: each thread has one,
/// with state of its own, and the *meaning* of an element may depend on that. A limit that each
/// replica keeps for itself is no limit, and fragments that come to two of them never
/// make a packet.
///
/// Where arguments matter, this is the usual case, and [`crate::Args::for_one_thread`] refuses the
/// others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replicas {
    /// Not declared yet: no element of the catalog may have this.
    Undeclared,
    /// Nothing that a packet leaves behind matters to the next but counts, which handlers add up.
    Alike,
    /// Each keeps state for the packets of its thread, and that is right; the text is for the user.
    Apart(&'static str),
    /// They share state, in a structure without locks; the text names it.
    Sharing(&'static str),
    /// There is only one: no packets are brought to it, and its task has one thread.
    Single,
    /// Only one thread can use the element, and why: the error for several names the paths by which
    /// they come.
    OneThread(&'static str),
}

impl Replicas {
    /// Why one thread only can use it, if that is so.
    pub fn one_thread(self) -> Option<&'static str> {
        match self {
            Replicas::OneThread(why) => Some(why),
            _ => None,
        }
    }
}

impl fmt::Display for Replicas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Replicas::Undeclared => f.write_str("not declared"),
            Replicas::Alike => f.write_str("independent; counts add up"),
            Replicas::Apart(what) => write!(f, "each for itself: {what}"),
            Replicas::Sharing(what) => write!(f, "they share {what}"),
            Replicas::Single => f.write_str("it is always in one"),
            Replicas::OneThread(why) => write!(f, "it is refused: {why}"),
        }
    }
}

//! How the context of HTTP reads messages and shows them.

use super::asks::Asks;
use super::reader::Rules;
use super::shown::Shown;
use super::unpack::Bounds;

/// What becomes of a connection with a message that is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnRefused {
    /// It is reset.
    #[default]
    Close,
    /// It goes on, and functions see nothing of it any more; but not from within a message that
    /// functions may hold back or make longer.
    Pass,
}

/// What becomes of bodies with a coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnEncoded {
    /// They go on, and functions are not shown them.
    Pass,
    /// Their connection is refused.
    Refuse,
    /// Where a function looks at bodies, they are unpacked within these bounds and go on so; those
    /// whose coding is not known are refused.
    Unpack(Bounds),
}

/// How messages are read and shown.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How they are judged.
    pub rules: Rules,
    /// Bodies that are shown.
    pub shown: Shown,
    /// Functions may change the length of bodies, or hold bytes back that would then stand behind
    /// framing: it is taken away, to be written anew by [`Leave`](super::Leave).
    pub resize: bool,
    /// A function looks at bodies: nothing may be in a message that it is not shown. Chunks are
    /// framed anew, without extensions and trailers, which are shown behind the body.
    pub looks: bool,
    /// What requests are made to ask for.
    pub asks: Asks,
    /// What becomes of bodies with a coding.
    pub encoded: OnEncoded,
    /// What becomes of what is refused.
    pub on_refused: OnRefused,
}

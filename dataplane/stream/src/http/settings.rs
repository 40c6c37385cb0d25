//! How the context of HTTP reads messages and shows them.

use super::asks::Asks;
use super::reader::Rules;
use super::shown::Shown;
use super::unpack::Bounds;

/// Treatment of a connection with a refused message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnRefused {
    /// It is reset.
    #[default]
    Close,
    /// It goes on, and functions see nothing more of it; but not from within a message that
    /// functions may hold back or make longer.
    Pass,
}

/// Treatment of bodies with a coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnEncoded {
    /// They are forwarded without inspection.
    Pass,
    /// Their connection is refused.
    Refuse,
    /// Bodies that a function inspects are decompressed within these bounds and forwarded so;
    /// bodies with an unknown coding are refused.
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
    /// framing: it is removed, and [`Leave`](super::Leave) rewrites it.
    pub resize: bool,
    /// A function looks at bodies: no part of a message may escape it. Chunks get new framing,
    /// without extensions and trailers, which are shown after the body.
    pub looks: bool,
    /// The preferences written into requests.
    pub asks: Asks,
    /// Treatment of bodies with a coding.
    pub encoded: OnEncoded,
    /// Treatment of refused messages.
    pub on_refused: OnRefused,
}

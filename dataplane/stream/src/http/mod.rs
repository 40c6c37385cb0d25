//! HTTP/1.1 (RFC 9110, RFC 9112) in transit: where messages begin and end, the contents of their
//! heads, and rewritten heads.
//! A [`Reader`] keeps no bytes: it gets the available bytes of a direction, classifies the first of
//! them, and asks for more if they do not suffice. Its state of a connection is a [`Connection`],
//! plain data of constant size. [`Enter`] and [`Leave`] are the context: packets with payload of
//! TCP become packets with heads and bodies of messages, and the reverse.

mod asides;
mod asks;
mod chunk;
mod counts;
mod edit;
mod enter;
mod fault;
mod framing;
mod groups;
mod gzip;
mod head;
mod inflate;
mod kind;
mod leave;
mod length;
mod line;
#[cfg(test)]
#[path = "../../tests/http/packers.rs"]
mod packers;
mod pending;
mod reader;
mod settings;
mod shown;
mod unpack;
mod zstd;

pub use asks::Asks;
pub use counts::EnterCounts;
pub use edit::{Change, EditError, Framing, rewrite, with_framing};
pub use enter::{Enter, EnterState};
pub use fault::{Fault, Faults};
pub use framing::{Connection, DirectionState};
pub use head::{Field, Head, Span, View};
pub use kind::Kind;
pub use leave::{Leave, LeaveCounts, LeaveState};
pub use length::{BodyLength, Declared};
pub use pending::{Asked, MAX_PENDING};
pub use reader::{Finish, Piece, Reader, Rules, Step};
pub use settings::{OnEncoded, OnRefused, Settings};
pub use shown::{MediaTypesError, Shown};
pub use unpack::{Bounds, Coding, Unpacker};

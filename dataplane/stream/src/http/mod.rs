//! HTTP/1.1 (RFC 9110, RFC 9112) as it passes by: where messages begin and end, what their heads
//! say, and heads written anew.
//!
//! Nothing here keeps bytes: a [`Reader`] is shown what there is of a direction, says what the
//! first of it are, and asks for more where it cannot tell. What it must remember of a connection
//! is a [`Connection`], plain data of constant size.

mod chunk;
mod edit;
mod fault;
mod framing;
mod head;
mod length;
mod line;
mod pending;
mod reader;
mod shown;

pub use edit::{BadEdit, Change, Framing, rewrite, with_framing};
pub use fault::{Fault, Faults};
pub use framing::{Connection, Way};
pub use head::{Field, Head, Kind, Span, View};
pub use length::{BodyLength, Declared};
pub use pending::{Asked, MAX_PENDING};
pub use reader::{Finish, Piece, Reader, Rules, Step};
pub use shown::{BadTypes, Shown, identity_only};

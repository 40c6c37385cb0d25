//! Netlink (netlink(7)): requests to the kernel about interfaces, addresses, routes and filters,
//! and its answers.
//!
//! A request is a [`Message`]; a [`Socket`] sends it and gives the bodies of the answers, of which
//! [`attributes`] are read. Who sends it knows the numbers and the fixed parts of its messages.
#![forbid(unsafe_code)]

mod message;
mod socket;

pub use message::{Message, attributes, number, text};
pub use socket::{ACK, CREATE, DUMP, EXCLUSIVE, REPLACE, REQUEST, Result, Socket};

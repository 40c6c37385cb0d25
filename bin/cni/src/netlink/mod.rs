//! The kernel's interfaces, addresses, routes and filters, by netlink (netlink(7), rtnetlink(7)).

mod address;
pub mod filter;
mod link;
mod socket;

pub use address::{Address, MAIN, Route};
pub use link::{Link, LinkKind, Sharing};
pub use socket::Route as RouteSocket;

//! Longest prefix match: the route tables behind every element that routes by address.
//!
//! - [`Fib4`]: IPv4, DIR-24-8. One table shared by any number of reading threads, changed in
//!   place one prefix at a time while they read.
//! - [`PoptrieFib`] ([`Fib6`] for IPv6): poptries, a few bytes per prefix; changed in bursts and
//!   then published.
//! - [`Rib`]: the routing information base both stand on (control plane: ordered, exact).
//! - [`synthetic`]: tables like the Internet's, from a seed, for tests and benches.
//!
//! Both tables answer with a [`Route`]: the gateway's address (0 when the destination is on the
//! link) and the output port.
#![forbid(unsafe_code)]

mod control;
mod dir24_8;
mod error;
mod fib4;
mod footprint;
mod hops;
mod limits;
mod poptrie;
mod poptrie_fib;
mod prefix;
mod rib;
pub mod synthetic;

pub use dir24_8::Dir24_8;
pub use error::LpmError;
pub use fib4::Fib4;
pub use footprint::Footprint;
pub use hops::{Hop, NO_ROUTE, Route};
pub use limits::MAX_HOPS;
pub use poptrie::Poptrie;
pub use poptrie_fib::{Fib6, PoptrieFib, Reader};
pub use prefix::{Key, Prefix, PrefixLenError};
pub use rib::Rib;

/// An IPv4 prefix.
pub type Prefix4 = Prefix<u32>;
/// An IPv6 prefix.
pub type Prefix6 = Prefix<u128>;
/// The routing information base of IPv4.
pub type Rib4<V> = Rib<u32, V>;
/// The routing information base of IPv6.
pub type Rib6<V> = Rib<u128, V>;
/// An IPv4 route's value.
pub type Route4 = Route<u32>;
/// An IPv6 route's value.
pub type Route6 = Route<u128>;

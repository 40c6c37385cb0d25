//! Rules for devices in front, made of a chain's decision: a prioritised table in the match fields
//! of OpenFlow.
//!
//! Nothing but the cost may change. Where a device cannot decide as the chain does, a rule says so
//! ([`Verdict::Software`]), and the host classifies exactly those packets.
//!
//! - [`mod@table`]: the walk from the decision to rules;
//! - [`fields`], [`mod@matches`]: what a rule can look at, and what it wants to see there;
//! - [`words`]: tests of a chain's rules, in those fields;
//! - `ofctl`: rules as `ovs-ofctl` reads them;
//! - [`guards`]: packets that a switch reads otherwise than a chain.

pub mod fallback;
pub mod fields;
pub mod guards;
pub mod matches;
mod ofctl;
pub mod table;
pub mod words;

pub use fallback::Fallback;
pub use fields::{Field, Protocol};
pub use matches::Match;
pub use table::{Rule, Table, Verdict, Wanted, table};

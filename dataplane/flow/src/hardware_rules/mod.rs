//! A chain's decision as rules for the network card in front of it (DPDK's rte_flow).
//!
//! A card drops packets that the chain would drop, and marks others with their class. Packets that
//! no rule takes come to the chain as without rules, so a rule may be left out, together with those
//! behind it that would take its packets ([`HardwareTable::leave`]). That is what makes it possible
//! to ask a card about each rule: what it refuses stays with the chain, and exactly that.
//!
//! - `table`: the rules, their priorities, and what is left to the chain;
//! - `guards`: whether a rule is right for packets that cards read in different ways;
//! - `items`: a rule in headers with masks, as rte_flow has them;
//! - `plain`: whether a card that marked a packet has read it as the chain does.

mod guards;
mod items;
mod plain;
mod table;

pub use guards::Guards;
pub use items::{HEADER_LEN_MAX, Header, Item};
pub use plain::is_plain;
pub use table::{Act, HardwareRule, HardwareTable, Left, RULES_MAX};

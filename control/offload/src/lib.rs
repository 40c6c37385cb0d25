//! Classification for switches: rules of OpenFlow made of a chain's decision.
//!
//! A [`FlowClassifier`](thruway_flow::manager) finds the class of a packet by one decision
//! structure. [`table()`] makes a prioritised table of it, in the match fields of OpenFlow. A
//! switch that has the table drops what the chain would drop at once, and tags all other packets
//! with the number of their class ([`thruway_flow::tags`]; thesis, section 6.2; Metron, NSDI 2018).
//! The host then reads the tag.
//!
//! Nothing but the cost may change. Where a switch cannot decide as the chain does, the rule says
//! so ([`Verdict::Software`]), and the host classifies exactly those packets, as without a switch.
//!
//! - [`thruway_flow::rule_table`]: from the decision to rules;
//! - [`tagging`]: what rules do so that packets carry their class, by the kind of the tag;
//! - [`ovs`]: the rules of one port of Open vSwitch, put there and taken away.
#![forbid(unsafe_code)]

mod error;
pub mod ovs;
mod switch;
pub mod tagging;
mod tlv_map;

pub use error::{Error, RULES_MAX};
pub use tagging::Tagging;
pub use thruway_flow::rule_table::{
    Fallback, Field, Match, Protocol, Rule, Table, Verdict, Wanted, fallback, fields, guards,
    matches, table, words,
};

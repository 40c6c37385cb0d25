//! Rules in the syntax of Suricata and Snort.
//!
//! [`Rule`] is a rule as written; a [`RuleSet`] is what a file of rules comes to: rules made ready,
//! and the [`FastPattern`]s by which those are found that are worth a look.

mod areas;
mod ast;
mod bits;
mod buffer;
mod by_address;
mod compiled;
mod condition;
mod ends;
mod error;
mod eval;
mod fast;
mod file;
mod limits;
mod matches;
#[cfg(test)]
mod naive;
mod numbers;
mod options;
mod order;
mod parse;
mod pcre;
mod print;
mod run;
mod session;
mod set;
#[cfg(test)]
mod tests;
mod variables;
mod view;

pub use ast::{About, Action, Arrow, End, Protocol, Rule};
pub use bits::FLOW_BITS_MAX;
pub use buffer::{Buffer, Side};
pub use compiled::Compiled;
pub use condition::{Condition, FlagsMode};
pub use ends::{AddressRange, PortRange, Spec};
pub use error::{Reason, RuleError};
pub use eval::{Outcome, Scratch};
pub use fast::FastPattern;
pub use matches::{
    ByteJump, ByteTest, Compare, Content, DataAt, Fast, Form, JumpFrom, Match, Number, Order, Part,
    Pcre,
};
pub use numbers::Range;
pub use run::{App, Facts, Found, HeadParts, Inspector, Kind, Limits, Piece, Session, Thresholds};
pub use session::{Flow, FlowBit, FlowBitOp, Threshold, ThresholdKind, Track, View as FlowView};
pub use set::{Loaded, RuleSet};
pub use variables::{Class, Variables};
pub use view::{View, Views};

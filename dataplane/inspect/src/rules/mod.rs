//! Rules in the syntax of Suricata and Snort.
//!
//! [`Rule`] is a rule as written.

mod ast;
mod buffer;
mod condition;
mod ends;
mod fast;
mod matches;
mod numbers;
mod session;

pub use ast::{About, Action, Arrow, End, Protocol, Rule};
pub use buffer::{Buffer, Side};
pub use condition::{Condition, FlagsMode};
pub use ends::{AddressRange, PortRange, Spec};
pub use fast::FastPattern;
pub use matches::{
    ByteJump, ByteTest, Compare, Content, DataAt, Fast, Form, JumpFrom, Match, Number, Order, Part,
    Pcre,
};
pub use numbers::Range;
pub use session::{Flow, FlowBit, FlowBitOp, Threshold, ThresholdKind, Track, View};

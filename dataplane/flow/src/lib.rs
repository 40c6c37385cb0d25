//! Classification: rules compiled once, evaluated per packet.
//!
//! Two rule languages (Click's `Classifier` patterns, and the expressions of `IPClassifier` and
//! `IPFilter`) become one small tree of tests on 32-bit words ([`Expr`]). From there:
//!
//! - [`naive`] walks the tree on the packet: slow, obvious, the oracle of the tests;
//! - [`general`] flattens trees to a jump program: exact for everything, safe on short packets;
//! - [`normal`] bounds each rule by boxes over the classical five-tuple, and `five_tuple` finds
//!   the first box that holds a packet without looking at most of them.
//!
//! [`IpProgram`] puts the last two together; [`PatternProgram`] is the `Classifier`'s.
//!
//! Beside it, [`shared_flows`] is the shared state of the threads that serve the two directions of
//! one connection, and [`hash`] the keyed hash of such tables.
//! ```
//! use thruway_flow::{IpProgram, NO_MATCH, NoNames, PacketView, parse_filter_rules};
//! let rules = ["allow src net 10.0.0.0/8 and udp dst port 53", "drop all"];
//! let program = IpProgram::compile(&parse_filter_rules(&rules, 1, &NoNames).unwrap()).unwrap();
//! assert_ne!(program.classify(&PacketView::from_ip(&[0x45; 40])), NO_MATCH);
//! ```
#![forbid(unsafe_code)]

pub mod ast;
mod box_tree;
mod boxes;
pub mod chain;
pub mod class;
mod common;
pub mod consolidate;
pub mod decision;
pub mod drop_table;
pub mod error;
mod explain;
pub mod fcb;
mod few;
mod five_tuple;
pub mod general;
pub mod hardware_rules;
pub mod hash;
pub mod key;
mod lexer;
pub mod life;
mod lower;
pub mod manager;
pub mod naive;
pub mod names;
pub mod normal;
mod parser;
mod path;
pub mod pattern;
pub mod plan;
pub mod program;
pub mod rule_table;
pub mod rules;
pub mod session;
pub mod shared_flows;
pub mod table;
pub mod tags;
pub mod tcp;
pub mod tcp_flags;
mod tree_build;
mod wordwise;

pub use ast::{Base, Expr, Rule, Word};
pub use class::parse_class;
pub use common::Common;
pub use consolidate::consolidate;
pub use error::{CompileError, RuleError};
pub use fcb::{Direction, Fcb};
pub use hash::Hasher;
pub use key::{Key, PacketView};
pub use life::{Ended, Life, Phase, Timeouts, Transport};
pub use naive::evaluate_naive;
pub use names::{Names, NoNames};
pub use path::Path;
pub use pattern::{PatternProgram, parse_pattern};
pub use program::IpProgram;
pub use rules::{parse_classifier_rules, parse_expression, parse_filter_rules};
pub use session::{KeyField, SessionDef};

/// Verdict of a packet that no rule matched.
pub const NO_MATCH: u32 = 0x7fff_ffff;
/// Verdict of a packet that a `drop` or `deny` rule matched.
pub const DROP: u32 = 0x7fff_fffe;
/// The largest output number a rule may name.
pub const OUTPUT_MAX: u32 = 0x7fff_fffd;

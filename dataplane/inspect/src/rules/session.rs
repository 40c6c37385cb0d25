//! What a rule wants of the session, and leaves there.

use crate::rules::buffer::Side;

/// `flow`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flow {
    /// The direction of its packets.
    pub side: Option<Side>,
    /// Whether the session must be established, or must not be.
    pub established: Option<bool>,
    /// `only_stream`, `no_stream`: only streams, only packets.
    pub view: Option<View>,
}

/// As what payload is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum View {
    /// The bytes of a direction, one after the other.
    Stream,
    /// Each packet's.
    Packet,
}

/// What to do with a flow bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FlowBitOp {
    /// One of them must be set.
    IsSet,
    /// None of them may be set.
    IsNotSet,
    /// Set when the rule matches.
    Set,
    /// Unset when the rule matches.
    Unset,
    /// Changed when the rule matches.
    Toggle,
}

impl FlowBitOp {
    /// As written.
    pub const NAMES: [(&'static str, FlowBitOp); 5] = [
        ("isset", FlowBitOp::IsSet),
        ("isnotset", FlowBitOp::IsNotSet),
        ("set", FlowBitOp::Set),
        ("unset", FlowBitOp::Unset),
        ("toggle", FlowBitOp::Toggle),
    ];

    /// Whether it asks rather than does.
    pub const fn is_test(self) -> bool {
        matches!(self, FlowBitOp::IsSet | FlowBitOp::IsNotSet)
    }
}

/// `flowbits`
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FlowBit {
    /// What.
    pub op: FlowBitOp,
    /// Which: any of these; several only for questions.
    pub names: Vec<String>,
}

/// The key by which matches are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Track {
    /// Those from the same address.
    BySource,
    /// Those to the same address.
    ByDestination,
    /// All of the rule's.
    ByRule,
}

/// What is done with the count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ThresholdKind {
    /// At most `count` events in each period.
    Limit,
    /// An event every `count` matches in a period.
    Every,
    /// One event a period, once there were `count` matches.
    Both,
    /// `detection_filter`: the rule matches only from the match after `count` on.
    Filter,
}

/// `threshold`, `detection_filter`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Threshold {
    /// What is done with the count.
    pub kind: ThresholdKind,
    /// What is counted together.
    pub track: Track,
    /// How many.
    pub count: u32,
    /// In which period, in seconds.
    pub seconds: u32,
}

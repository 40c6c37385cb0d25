//! The result of consolidation: the paths of packets, the keys of their sessions, and the place of
//! each function's state.

use std::fmt;

use crate::chain::Demand;
use crate::common::Common;
pub use crate::decision::LeafId;
use crate::decision::{Decision, Goto};
use crate::key::PacketView;
use crate::session::{KeyField, SessionDef};

/// Most different levels of sessions in one configuration.
pub const LEVELS_MAX: usize = 8;
/// Most leaves, and so most combinations of decisions.
pub const LEAVES_MAX: usize = 1 << 14;
/// Most functions with state in one level.
pub const FUNCTIONS_MAX: usize = 32;
/// Most bytes of scratch of one level.
pub const SCRATCH_MAX: usize = 1 << 16;

/// A place in [`Plan::levels`].
pub type LevelId = u8;

/// Where a dispatcher sends the packets of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Hop {
    /// Out of this output.
    Output(u16),
    /// Nowhere: no rule matches.
    Drop,
    /// It must read the packet: an element before it changes the bytes of its tests.
    InPlace,
    /// Packets of this leaf do not come here.
    Never,
}

/// Version of the IP header, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// IPv4.
    V4 = 0,
    /// IPv6.
    V6 = 1,
    /// Anything else.
    Other = 2,
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
            Family::Other => "all packets",
        })
    }
}

/// How it is known in which direction of its session a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Orientation {
    /// Sessions have one direction.
    Unidirectional,
    /// By comparing the two ends: the smaller one comes first in the key.
    Compared,
    /// The key is taken as it stands: the class fixes a field that implies the direction.
    AsIs,
    /// The key is taken with source and destination exchanged.
    Exchanged,
}

/// How packets of a leaf find their session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPlan {
    /// Level of the session that packets find (the finest).
    pub level: LevelId,
    /// The fields that are read from the packet: those of the definition that the leaf's decisions
    /// do not fix already. Each is at the place of its field in [`SessionTable::fields`]; with the
    /// orientation [`Orientation::Exchanged`], it is that field's mirror image, so that its value
    /// is the key's as it stands.
    pub fields: Vec<KeyField>,
    /// Order of source and destination.
    pub orientation: Orientation,
    /// How the records that [`SessionTable::links`] names are found, in the same order: a packet
    /// that opens a session looks them up, or opens them.
    pub links: Vec<KeyPlan>,
}

/// One result of classification: every decision on the path is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// The facts about its packets in human-readable form: `ethertype 0800, proto tcp, dst port
    /// 80`.
    pub class: String,
    /// The same by field: its name and its value or values.
    pub known: Vec<(String, String)>,
    /// By [`Family`]: how sessions are found, if any function on the path needs some.
    pub keys: [Option<KeyPlan>; 3],
    /// Nodes with a demand that its packets can reach, in the order of the path.
    pub functions: Vec<u32>,
    /// No element needs or counts it: the classifier drops it.
    pub early_drop: bool,
    /// Longest timeout that a function on the path requests, in seconds.
    pub timeout_s: Option<u32>,
    /// Longest minimum time for closed sessions that a function on the path requests, in seconds.
    pub closed_s: Option<u32>,
}

/// Space of one function in the records of a level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScratchSlot {
    /// The node.
    pub node: u32,
    /// Its demand.
    pub demand: Demand,
    /// Where its scratch begins, from the beginning of the record's scratch.
    pub offset: u32,
    /// Its bit among those of the functions that have opened the session.
    pub bit: u8,
    /// Where its shared words begin.
    pub shared_at: u16,
}

/// Sessions of one definition: one table per thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionTable {
    /// The definition.
    pub session: SessionDef,
    /// The fields of its keys: those of the definition except fields that all leaves fix.
    pub fields: Vec<KeyField>,
    /// Why fields were left out or kept, for people.
    pub remarks: Vec<String>,
    /// IP version of its sessions; [`Family::Other`] if the definition has no field of IP: then
    /// packets of all versions share them.
    pub family: Family,
    /// The functions with state in its records.
    pub scratch_slots: Vec<ScratchSlot>,
    /// Bytes of scratch, all slots; parallel paths share space.
    pub scratch_len: usize,
    /// Alignment of the scratch.
    pub scratch_align: usize,
    /// Coarser levels that its records have a link to.
    pub links: Vec<LevelId>,
    /// Whether a function translates addresses, so that sessions have a second key.
    pub translates: bool,
    /// Words that functions publish for the other direction's thread.
    pub shared_words: usize,
}

/// Which threads serve the sessions of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Serving {
    /// Each thread serves the packets that it receives: such a session has flows in several queues,
    /// and each thread has its own.
    Any,
    /// One for each direction: the first that received a packet of it.
    EachDirection,
    /// One for both: the first that received a packet.
    Both,
}

impl SessionTable {
    /// The threads that serve its sessions: for single flows (addresses and ports) one does,
    /// whichever queue a packet comes from.
    pub fn serving(&self) -> Serving {
        const FLOW: [KeyField; 4] =
            [KeyField::Src, KeyField::Dst, KeyField::SrcPort, KeyField::DstPort];
        if !FLOW.iter().all(|field| self.session.fields.contains(field)) {
            return Serving::Any;
        }
        let whole = self.session.bidirectional
            && self.scratch_slots.iter().any(|scratch_slot| scratch_slot.demand.whole);
        if whole { Serving::Both } else { Serving::EachDirection }
    }

    /// Whether its sessions are single connections in both directions, so that a TCP segment
    /// reports on the life of all that the session is.
    pub fn follows_tcp(&self) -> bool {
        self.session.bidirectional && self.serving() != Serving::Any
    }

    /// Whether its sessions may have packets in several threads that have to find each other.
    pub fn meets(&self) -> bool {
        self.session.bidirectional || self.serving() != Serving::Any
    }
}

/// Where a function's state is, seen from the record that a packet names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Level of the record that holds it.
    pub level: LevelId,
    /// The link to follow (place in [`SessionTable::links`]); `None`: it is in the packet's own
    /// record.
    pub via: Option<u8>,
    /// From the beginning of the record's scratch, in bytes.
    pub offset: u32,
    /// Bytes.
    pub size: u32,
    /// See [`ScratchSlot::bit`].
    pub bit: u8,
    /// See [`ScratchSlot::shared_at`].
    pub shared_at: u16,
}

/// The plan for one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodePlan {
    /// Of a dispatcher: by leaf, where its packets go. Empty for others.
    pub hops: Vec<Hop>,
    /// For a function with a demand: by the level that a packet's record is of.
    pub access: [Option<Access>; LEVELS_MAX],
    /// Of an entry: its place in [`Plan::entries`].
    pub entry: Option<u32>,
}

/// Everything that is known of a configuration before its first packet.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Nodes where classification begins.
    pub entries: Vec<EntryPlan>,
    /// Classes of packets.
    pub leaves: Vec<Leaf>,
    /// Sorts of sessions.
    pub levels: Vec<SessionTable>,
    /// By node of the chain.
    pub nodes: Vec<NodePlan>,
    /// The decision structure.
    pub decision: Decision,
    /// Remarks on surprising results: dispatchers that could not be decided in front, and the like.
    pub remarks: Vec<String>,
}

/// A place where classification begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryPlan {
    /// The node.
    pub node: u32,
    /// Where its packets begin in the decision structure.
    pub start: Goto,
}

impl Plan {
    /// The class of a packet that comes to an entry (a place in [`Plan::entries`]).
    ///
    /// # Panics
    /// When there is no such entry.
    #[inline]
    pub fn classify(&self, entry: u32, view: &PacketView<'_>) -> LeafId {
        self.decision.classify(self.entries[entry as usize].start, view)
    }

    /// Whether the leaf of a packet is that of all packets of its direction of a session.
    ///
    /// # Panics
    /// When there is no such entry.
    pub fn is_common(&self, entry: u32, view: &PacketView<'_>, common: Common) -> bool {
        self.decision.is_common(self.entries[entry as usize].start, view, common)
    }
}

/// Something that a configuration asks for and cannot have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PlanError {
    /// The node.
    pub node: usize,
    /// Its argument, where one is to blame.
    pub arg: Option<usize>,
    /// The error, and its remedy.
    pub message: String,
}

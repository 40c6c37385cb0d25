//! A graph with its counters, as the API gives it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The graph of a chain as it runs, with counters since its configuration began to run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct ChainGraph {
    /// The data plane's clock, microseconds since 1970: rates are differences of two graphs.
    pub time_us: u64,
    /// The data plane's cycle counter.
    pub cycles: u64,
    /// Process of the data plane.
    pub pid: u32,
    /// Configurations that took over in this process: with another number, counters began anew.
    pub swaps: u64,
    /// The threads.
    pub threads: Vec<GraphThread>,
    /// The elements.
    pub elements: Vec<GraphElement>,
    /// The connections.
    pub edges: Vec<GraphEdge>,
    /// Elements that store packets.
    pub queues: Vec<GraphQueue>,
    /// Functions in processes of their own.
    pub functions: Vec<GraphFunction>,
    /// Sessions, where there is a FlowClassifier.
    pub sessions: Option<GraphSessions>,
}

/// A thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GraphThread {
    /// Cycles in which it had nothing to do.
    pub idle_cycles: u64,
    /// Packets that its sources made or received.
    pub packets: u64,
}

/// An element.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct GraphElement {
    /// Its name.
    pub name: String,
    /// Its class.
    pub class: String,
    /// Threads that have a replica: `0,2-3`; `-` for none.
    pub threads: String,
    /// Packets that entered; of a source, packets that it made.
    pub packets: u64,
    /// Packets that it made besides those that came.
    pub made: u64,
    /// Clock cycles spent in it.
    pub cycles: u64,
    /// Packets that did not go on, by reason.
    pub drops: Vec<GraphDrop>,
}

/// Packets of an element that did not go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GraphDrop {
    /// Why.
    pub reason: String,
    /// How many.
    pub packets: u64,
    /// `lost`, `diverted` (they left by another output) or `consumed` (they did what they came
    /// for).
    pub fate: String,
}

/// A connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct GraphEdge {
    /// Place of the element it leaves, among the elements.
    pub from: usize,
    /// Output port.
    pub output: usize,
    /// Place of the element it enters, among the elements.
    pub to: usize,
    /// Input port.
    pub input: usize,
    /// Whether packets are pulled over it, not pushed.
    pub is_pull: bool,
    /// Whether it leads to or from a dispatcher that sorts packets (`~>`).
    pub is_context: bool,
    /// Packets that it carried, inferred from the elements' counters; null where these do not
    /// determine it. Packets that an element holds for a while may count as carried.
    pub packets: Option<u64>,
}

/// An element that stores packets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GraphQueue {
    /// Place of the element.
    pub element: usize,
    /// Packets in it now.
    pub length: u64,
    /// Packets that it holds.
    pub capacity: u64,
    /// Most packets that it held; null where it does not report that.
    pub highwater: Option<u64>,
}

/// A function in a process of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GraphFunction {
    /// Place of the element.
    pub element: usize,
    /// `running`, `restarting`, `stopped`.
    pub state: String,
    /// Its process; 0 if there is none.
    pub pid: u64,
    /// Times it was started again.
    pub restarts: u64,
    /// Packets handed to it.
    pub packets_in: u64,
    /// Packets that left it.
    pub packets_out: u64,
    /// Slots of its rings in use.
    pub occupancy: u64,
    /// Slots of its rings; null where the data plane does not report them.
    pub slots: Option<u64>,
    /// Times it was ended because it had a packet for longer than HANG; null where the data plane
    /// does not report them.
    pub hangs: Option<u64>,
    /// Batches that were timed; one at a time is. Null where the data plane does not report them.
    pub batches: Option<u64>,
    /// Those of them that were with it for 2^20 nanoseconds (1.05 ms) or longer.
    pub late_batches: Option<u64>,
    /// Why it was last ended or could not be started; may be empty.
    pub last_error: String,
}

/// Sessions of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct GraphSessions {
    /// Place of the first FlowClassifier: all share one table.
    pub element: usize,
    /// Sessions now.
    pub now: u64,
    /// Sessions begun.
    pub created: u64,
    /// Sessions that timed out.
    pub expired: u64,
    /// Sessions that their protocol or a function ended.
    pub closed: u64,
    /// Packets for whose session there was no room.
    pub refused: u64,
    /// Most sessions of one sort, in all threads; null where the data plane does not report it.
    pub capacity: Option<u64>,
    /// Sessions of the fullest sort that may still begin; null where the data plane does not
    /// report it.
    pub free: Option<u64>,
}

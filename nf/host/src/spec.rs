//! What a function is to be.

use crate::life::{Backoff, Patience};
use crate::sandbox::{Order, Program};
use std::sync::Arc;
use thruway_exchange::{Arena, GroupRegion, Pages};
use thruway_nf_abi::LinkShape;
use thruway_nf_abi::message::WaitMode;

/// The defaults of regions.
const DEFAULT_SHAPE: (LinkShape, Pages) = (LinkShape::DEFAULT, Pages::PreferHuge);

/// What a function is to be: its program and sandbox, its links, how it is supervised.
#[derive(Debug, Clone)]
pub struct FunctionSpec {
    /// The name that lines of the log have for it: that of its element.
    pub label: String,
    /// Program, limits, isolation. The limit to its regions is set by
    /// [`Function::start`](crate::Function::start).
    pub order: Order,
    /// Sizes of each link.
    pub shape: LinkShape,
    /// Pages of its regions.
    pub pages: Pages,
    /// The region of its trust group, where tokens are descriptors.
    pub group: Option<GroupRegion>,
    /// Master threads: each gets a link.
    pub links: u32,
    /// Workers, a thread of the function each, that share out the links: 1 to `links`. With more
    /// than one, `sessions` is a multiple of `links`.
    pub workers: u32,
    /// Inputs of its element.
    pub inputs: u32,
    /// Outputs of its element.
    pub outputs: u32,
    /// The roles that outputs lead to, by output; empty for one without.
    pub roles: Vec<String>,
    /// What it does when no packets wait.
    pub wait: WaitMode,
    /// Hybrid waiting: how long it looks before it sleeps, in nanoseconds.
    pub spin_ns: u32,
    /// Slots after which it publishes (WORKER_PKT_THRESHOLD).
    pub worker_threshold: u32,
    /// Sessions that its arena has room for.
    pub sessions: u32,
    /// Most scratch per session, in bytes.
    pub scratch_len_max: u32,
    /// What a function of streams may do, as bits of `stream_need` in `nf/abi`; 0 where it is to be
    /// one of packets.
    pub stream: u32,
    /// The arena to begin with, if it fits: that of a function in whose place this one comes.
    pub arena: Option<Arc<Arena>>,
    /// What it is configured with after WELCOME.
    pub configuration: Option<String>,
    /// How patient the host is.
    pub patience: Patience,
    /// What happens between its failures.
    pub backoff: Backoff,
    /// Whether another process waits, started and in its sandbox, to take its place.
    pub standby: bool,
}

impl FunctionSpec {
    /// One Master thread, one input, one output, blocking, strictly isolated.
    pub fn new(program: Program) -> FunctionSpec {
        let (shape, pages) = DEFAULT_SHAPE;
        FunctionSpec {
            label: program.path.display().to_string(),
            order: Order::new(program),
            shape,
            pages,
            group: None,
            links: 1,
            workers: 1,
            inputs: 1,
            outputs: 1,
            roles: Vec::new(),
            wait: WaitMode::Block,
            spin_ns: 50_000,
            worker_threshold: 32,
            sessions: 0,
            scratch_len_max: 256,
            stream: 0,
            arena: None,
            configuration: None,
            patience: Patience::default(),
            backoff: Backoff::default(),
            standby: false,
        }
    }
}

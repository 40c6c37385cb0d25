//! The last graph of each chain, for all who want it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, Semaphore};

use super::problem::Problem;
use crate::graph::ChainGraph;

/// A graph, and the same as JSON of one line.
#[derive(Debug)]
pub struct Seen {
    /// The graph.
    pub graph: ChainGraph,
    /// As the API gives it.
    pub json: String,
}

/// What came of the last look at a chain, and when that was.
pub type Last = Option<(Instant, Result<Arc<Seen>, Problem>)>;

/// Data planes that are asked for their graph at a time: fewer than calls are made at a time, so
/// that those that do not answer hold up no change.
const READS_MAX: usize = 4;

/// The last graph of each chain: however many read it, its data plane is asked once a
/// second.
#[derive(Debug)]
pub struct Recent {
    chains: Mutex<BTreeMap<String, Arc<AsyncMutex<Last>>>>,
    /// One permit for each data plane that may be asked.
    pub(super) permits: Arc<Semaphore>,
}

impl Default for Recent {
    fn default() -> Recent {
        Recent { chains: Mutex::default(), permits: Arc::new(Semaphore::new(READS_MAX)) }
    }
}

impl Recent {
    /// The last one of a chain; held by whoever asks for the next one.
    pub(super) fn of(&self, name: &str) -> Arc<AsyncMutex<Last>> {
        Arc::clone(self.chains.lock().entry(name.to_owned()).or_default())
    }

    /// Forgets a chain that is not asked for.
    pub(super) fn forget(&self, name: &str) {
        self.chains.lock().remove(name);
    }
}

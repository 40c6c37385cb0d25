//! What every request has at hand.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, watch};

use super::counts::Counts;
use super::problem::{Kind, Problem};
use crate::Manager;

/// Changes, and calls to data planes, that are made at a time; others wait.
const CALLS_MAX: usize = 8;

/// Event streams at a time.
pub const STREAMS_MAX: usize = 64;

/// Longest time that a request may take, its body included.
pub const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);

/// The process at the other end of a connection, as the kernel tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Its user.
    pub uid: u32,
}

impl Peer {
    /// How it stands in a chain's history.
    pub fn author(self) -> String {
        format!("uid {}", self.uid)
    }
}

/// What every request has at hand.
#[derive(Clone)]
pub struct Context {
    /// What is asked for, and who runs it.
    pub manager: Arc<Manager>,
    /// Counts of calls.
    pub counts: Arc<Counts>,
    /// One permit for each event stream.
    pub streams: Arc<Semaphore>,
    /// Becomes true when the program ends.
    pub ending: watch::Receiver<bool>,
    calls: Arc<Semaphore>,
}

impl Context {
    /// For a manager.
    pub fn new(manager: Arc<Manager>, ending: watch::Receiver<bool>) -> Context {
        Context {
            manager,
            counts: Arc::default(),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            ending,
            calls: Arc::new(Semaphore::new(CALLS_MAX)),
        }
    }

    /// Does what waits for a disk, a checker or a data plane, outside of the thread that serves.
    pub async fn call<T, E>(
        &self,
        call: impl FnOnce(&Manager) -> Result<T, E> + Send + 'static,
    ) -> Result<T, Problem>
    where
        T: Send + 'static,
        E: Into<Problem> + Send + 'static,
    {
        let failed = |what: &str| Problem::new(Kind::Internal, format!("the manager {what}"));
        let permit = Arc::clone(&self.calls).acquire_owned().await;
        let permit = permit.map_err(|_| failed("is ending"))?;
        let manager = Arc::clone(&self.manager);
        let done = tokio::task::spawn_blocking(move || {
            // Goes with the call, not with the client, who may be gone before it is done.
            let _permit = permit;
            call(&manager)
        });
        done.await.map_err(|_| failed("panicked; see its log"))?.map_err(Into::into)
    }
}

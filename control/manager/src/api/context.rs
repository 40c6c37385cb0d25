//! What every request has at hand.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::counts::Counts;
use super::problem::{Kind, Problem};
use super::rate::Rates;
use super::recent::Recent;
use crate::access::Sha256;
use crate::audit::Audit;
use crate::{ChainName, DataPlanes, Manager, PlaneError};

/// Changes, and calls to data planes, that are made at a time; others wait.
const CALLS_MAX: usize = 8;

/// Event streams of this host at a time, and as many of the network.
pub const STREAMS_MAX: usize = 64;

/// Searches for examples of packets at a time: each traces a data plane.
const SEARCHES_MAX: usize = 4;

/// Longest time that a request may take, its body included.
pub const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);

/// The other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// A process of this host, as the kernel shows it.
    Local {
        /// Its user.
        uid: u32,
    },
    /// Somebody on the network.
    Remote {
        /// Its address.
        address: IpAddr,
        /// Hash of the certificate whose key it proved to have, if it showed one.
        certificate: Option<Sha256>,
    },
}

/// What every request has at hand.
#[derive(Clone)]
pub struct Context {
    /// What is asked for, and who runs it.
    pub manager: Arc<Manager>,
    /// Counts of calls.
    pub counts: Arc<Counts>,
    /// How often each peer on the network may call.
    pub rates: Arc<Rates>,
    /// Where calls are recorded, if anywhere.
    pub audit: Option<Arc<Audit>>,
    /// One permit for each event stream of this host.
    pub streams: Arc<Semaphore>,
    /// One permit for each event stream of the network, which so takes none from this host.
    pub remote_streams: Arc<Semaphore>,
    /// The last graph of each chain.
    pub graphs: Arc<Recent>,
    /// One permit for each search for examples, and for each report.
    searches: Arc<Semaphore>,
    /// Becomes true when the program ends.
    pub ending: watch::Receiver<bool>,
    calls: Arc<Semaphore>,
}

impl Context {
    /// For a manager; calls are recorded nowhere.
    pub fn new(manager: Arc<Manager>, ending: watch::Receiver<bool>) -> Context {
        Context {
            manager,
            counts: Arc::default(),
            rates: Arc::default(),
            audit: None,
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            remote_streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            graphs: Arc::default(),
            searches: Arc::new(Semaphore::new(SEARCHES_MAX)),
            ending,
            calls: Arc::new(Semaphore::new(CALLS_MAX)),
        }
    }

    /// Records calls.
    #[must_use]
    pub fn audited(self, audit: Audit) -> Context {
        Context { audit: Some(Arc::new(audit)), ..self }
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

    /// A permit for a search, to be kept until the search is done: whoever asked for it may be
    /// gone before.
    pub(super) fn search_permit(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let detail = "other searches are made; try again in a few seconds";
        let place = Arc::clone(&self.searches).try_acquire_owned();
        place.map_err(|_| Problem::new(Kind::Busy, detail))
    }

    /// Asks about a chain that is asked for; if it is not, the error lists those that are.
    pub(super) async fn ask_of<T: Send + 'static>(
        &self,
        name: ChainName,
        ask: impl FnOnce(&dyn DataPlanes, &str) -> Result<T, PlaneError> + Send + 'static,
    ) -> Result<T, Problem> {
        let asked = self.call(move |manager| {
            manager.store().get(&name)?;
            ask(manager.planes(), name.as_str()).map_err(Problem::from)
        });
        asked.await
    }
}

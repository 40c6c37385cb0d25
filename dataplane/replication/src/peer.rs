//! The threads of this host that speak with the other one. They alone do I/O.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

use crate::caller::Caller;
use crate::claimant::Claimant;
use crate::key::Key;
use crate::link::Link;
use crate::listener::{Admitted, Gate, serve_streams};
use crate::term::Side;

/// The witness that a host asks for leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WitnessUse {
    /// Where it listens.
    pub at: SocketAddr,
    /// How long a lease is, milliseconds.
    pub lease_ms: u32,
}

/// See the module: they end when it is dropped.
pub struct Peer {
    link: Arc<Link>,
    threads: Vec<JoinHandle<()>>,
}

impl Peer {
    /// Begins to speak with the other host, by `link`: connects to the address, or listens there,
    /// as the side of the link has it. `chain` is what both hosts must have in common; `witness`
    /// grants leases, if there is one.
    ///
    /// # Errors
    /// The address cannot be listened at, or the system has no thread for it.
    pub fn begin(
        link: &Arc<Link>,
        address: SocketAddr,
        key: Key,
        chain: String,
        witness: Option<WitnessUse>,
    ) -> Result<Peer, String> {
        let mut peer = Peer { link: Arc::clone(link), threads: Vec::new() };
        let link = Arc::clone(link);
        if let Some(WitnessUse { at, lease_ms }) = witness {
            let (link, key) = (Arc::clone(&link), key.clone());
            let mut claimant = Claimant { link, witness: at, key, lease_ms, logged: String::new() };
            peer.spawn(move || claimant.run())?;
        }
        match link.side() {
            Side::Caller => {
                let mut caller = Caller { link, to: address, key, chain, logged: String::new() };
                peer.spawn(move || caller.run())?;
            }
            Side::Listener => {
                let failed = |error| format!("cannot listen at {address}: {error}");
                let listener = TcpListener::bind(address).map_err(failed)?;
                listener.set_nonblocking(true).map_err(failed)?;
                let admitted = Admitted::default();
                let (serving, taken) = (Arc::clone(&link), Arc::clone(&admitted));
                let gate = Gate { link, listener, key, chain, admitted };
                peer.spawn(move || gate.run())?;
                peer.spawn(move || serve_streams(&serving, &taken))?;
            }
        }
        Ok(peer)
    }

    fn spawn(&mut self, work: impl FnOnce() + Send + 'static) -> Result<(), String> {
        let thread = std::thread::Builder::new().name("replicate".into()).spawn(work);
        self.threads.push(thread.map_err(|error| format!("no thread for the stream: {error}"))?);
        Ok(())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.link.stop();
        // A panic there has been reported.
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

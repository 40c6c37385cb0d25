//! The witness: a third host that grants leases to the hosts of a pair.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use thruway_sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::frame::Kind;
use crate::key::Key;
use crate::lease::{Claim, Leases, Verdict};
use crate::listener::shown_key;
use crate::stream::{Stream, about};
use crate::term::Term;

/// How often somebody is looked for.
const LOOK: Duration = Duration::from_millis(5);
/// Hosts that are served at once: those of a pair, and their streams that are not over yet.
const HOSTS_MAX: usize = 16;
/// A host that was silent for so long is gone.
const SILENT: Duration = Duration::from_secs(5);
/// What both ends say that they are about.
pub(crate) const PURPOSE: &[u8] = b"leases";

/// What the element and the threads share.
#[derive(Debug)]
pub struct WitnessState {
    leases: Mutex<Leases>,
    begun: Instant,
    /// Claims granted, and those that were not.
    pub granted: AtomicU64,
    /// Claims that were not granted.
    pub denied: AtomicU64,
    /// Connections that were refused, or ended for what they sent.
    pub refused: AtomicU64,
    lines: crossbeam_queue::ArrayQueue<String>,
    stops: AtomicBool,
}

impl Default for WitnessState {
    fn default() -> WitnessState {
        WitnessState {
            leases: Mutex::default(),
            begun: Instant::now(),
            granted: AtomicU64::new(0),
            denied: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            lines: crossbeam_queue::ArrayQueue::new(16),
            stops: AtomicBool::new(false),
        }
    }
}

impl WitnessState {
    /// A line for the user.
    pub fn line(&self) -> Option<String> {
        self.lines.pop()
    }

    /// The last term granted, and whether it still is.
    pub fn term(&self) -> Option<(Term, bool)> {
        self.leases.lock().granted(self.now_ms())
    }

    fn now_ms(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    fn stops(&self) -> bool {
        self.stops.load(Ordering::Acquire)
    }

    fn decide(&self, claim: Claim) -> Verdict {
        let verdict = self.leases.lock().decide(claim, self.now_ms());
        let count = if verdict == Verdict::Granted { &self.granted } else { &self.denied };
        count.fetch_add(1, Ordering::Relaxed);
        verdict
    }
}

/// The threads of a witness: they end when it is dropped.
pub struct Witness {
    state: Arc<WitnessState>,
    thread: Option<JoinHandle<()>>,
}

impl Witness {
    /// Begins to listen.
    ///
    /// # Errors
    /// The address cannot be listened at, or the system has no thread for it.
    pub fn begin(state: &Arc<WitnessState>, at: SocketAddr, key: Key) -> Result<Witness, String> {
        let failed = |error: std::io::Error| format!("cannot listen at {at}: {error}");
        let listener = TcpListener::bind(at).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let shared = Arc::clone(state);
        let thread = std::thread::Builder::new().name("witness".into());
        let thread = thread.spawn(move || serve(&shared, &listener, &key)).map_err(failed)?;
        Ok(Witness { state: Arc::clone(state), thread: Some(thread) })
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.state.stops.store(true, Ordering::Release);
        // A panic there has been reported.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn serve(state: &WitnessState, listener: &TcpListener, key: &Key) {
    let served = AtomicU64::new(0);
    std::thread::scope(|scope| {
        while !state.stops() {
            let Ok((socket, peer)) = listener.accept() else {
                std::thread::sleep(LOOK);
                continue;
            };
            if served.load(Ordering::Acquire) >= HOSTS_MAX as u64 {
                state.refused.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            served.fetch_add(1, Ordering::AcqRel);
            let served = &served;
            scope.spawn(move || {
                let host = shown_key(socket, peer, key);
                if let Err(error) = host.and_then(|(stream, purpose)| {
                    if purpose != PURPOSE {
                        return Err("it asks for no lease: write WITNESS for this address".into());
                    }
                    grant(state, stream)
                }) {
                    state.refused.fetch_add(1, Ordering::Relaxed);
                    state.lines.force_push(about(peer, format_args!("refused: {error}")));
                }
                served.fetch_sub(1, Ordering::AcqRel);
            });
        }
    });
}

/// Answers the claims of a host until it is gone.
fn grant(state: &WitnessState, mut stream: Stream) -> Result<(), String> {
    stream.send(Kind::Welcome, &[])?;
    stream.hasten(false)?;
    let mut heard = Instant::now();
    while !state.stops() && heard.elapsed() < SILENT {
        let frame = match stream.receive() {
            Ok(Some(frame)) => frame,
            Ok(None) => continue,
            Err(error) if stream.is_violated => return Err(error),
            // It is gone.
            Err(_) => return Ok(()),
        };
        heard = Instant::now();
        let claim = Claim::parse(&frame.payload).filter(|_| frame.kind == Kind::Claim);
        let claim = claim.ok_or("it sent something else than a claim")?;
        stream.send(Kind::Verdict, &state.decide(claim).bytes(claim.number))?;
    }
    Ok(())
}

//! A datagram each millisecond from the client to the server and back: when it came back.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use parking_lot::Mutex;
use thruway_sync::atomic::{AtomicBool, Ordering};

use crate::namespace::Namespace;

const SERVER: &str = "203.0.113.1:7001";
const PERIOD: Duration = Duration::from_millis(1);
/// How long a thread waits for a datagram before it looks whether it is to end.
const LOOK: Duration = Duration::from_millis(100);

/// See the module. It ends with this value.
pub struct Probe {
    stop: Arc<AtomicBool>,
    times: Arc<Mutex<Vec<Instant>>>,
    threads: Vec<JoinHandle<()>>,
}

impl Probe {
    /// Begins.
    pub fn start(client: &Namespace, server: &Namespace) -> anyhow::Result<Probe> {
        let address: SocketAddr = SERVER.parse()?;
        let far = server.within(|| UdpSocket::bind(address))??;
        let near = client.within(|| UdpSocket::bind("0.0.0.0:0"))??;
        near.connect(address)?;
        for socket in [&far, &near] {
            socket.set_read_timeout(Some(LOOK))?;
        }
        let sender = near.try_clone()?;
        let (stop, times) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let mut probe = Probe { stop, times: Arc::clone(&times), threads: Vec::new() };
        probe.repeat("echo", move || {
            let mut bytes = [0; 64];
            if let Ok((len, from)) = far.recv_from(&mut bytes) {
                let _ = far.send_to(&bytes[..len], from);
            }
        })?;
        probe.repeat("probe", move || {
            // Nobody may be there at present.
            let _ = sender.send(b"probe");
            std::thread::sleep(PERIOD);
        })?;
        probe.repeat("times", move || {
            if near.recv(&mut [0; 64]).is_ok() {
                times.lock().push(Instant::now());
            }
        })?;
        Ok(probe)
    }

    fn repeat(
        &mut self,
        name: &str,
        mut work: impl FnMut() + Send + 'static,
    ) -> anyhow::Result<()> {
        let stop = Arc::clone(&self.stop);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                work();
            }
        });
        self.threads.push(thread.context("a thread")?);
        Ok(())
    }

    /// The longest time between two that came back, from the last before this time on. Until now
    /// where none came.
    pub fn longest_gap(&self, from: Instant) -> Duration {
        let times = self.times.lock();
        let first = times.partition_point(|time| *time < from).saturating_sub(1);
        let now = [Instant::now()];
        let times: Vec<Instant> =
            times[first.min(times.len())..].iter().chain(&now).copied().collect();
        let gaps = times.windows(2).map(|pair| pair[1].duration_since(pair[0]));
        gaps.max().unwrap_or(Duration::MAX)
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

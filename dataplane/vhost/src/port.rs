//! A network device that a front-end may connect to, and what packet threads hold of it.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::sync::Arc;

use thruway_packet::Batch;
use thruway_sync::atomic::Ordering;

use crate::queue::{Received, Sent};
use crate::service::{self, Source};
use crate::shared::{Address, FROM_GUEST, PortEvent, PortStatus, Shared, TO_GUEST};

/// See the module's description. It ends when it is dropped.
#[derive(Debug)]
pub struct Port {
    shared: Arc<Shared>,
    address: Address,
}

impl Port {
    /// Begins to listen, or to connect.
    ///
    /// # Errors
    /// Where a socket cannot be, and why.
    pub fn open(name: &str, address: Address) -> Result<Port, String> {
        Port::open_with(name, address, Box::new(|_| ()))
    }

    /// The same; `on_event` is called by the port's own thread. It must not wait.
    ///
    /// # Errors
    /// As [`Port::open`].
    pub fn open_with(
        name: &str,
        address: Address,
        on_event: Box<dyn Fn(PortEvent) + Send>,
    ) -> Result<Port, String> {
        let source = Source::open(&address)?;
        let shared = Shared::new(name);
        let shared = shared.map_err(|errno| format!("no descriptor left: {errno}"))?;
        let shared = Arc::new(shared);
        service::spawn(Arc::clone(&shared), source, on_event)?;
        Ok(Port { shared, address })
    }

    /// Hands over a socket at which one front-end will connect, of [`Address::Attached`]. It takes
    /// the place of one that waits.
    pub fn attach(&self, listener: UnixListener) {
        *self.shared.attached.lock() = Some(listener);
        self.shared.service.ring();
    }

    /// What is known of it.
    pub fn status(&self) -> PortStatus {
        self.shared.status.lock().clone()
    }

    /// Where its front-end is met.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// What receives of the guest. One at a time is of use.
    pub fn receiver(&self) -> Receiver {
        Receiver { shared: Arc::clone(&self.shared) }
    }

    /// What sends to the guest. One at a time is of use.
    pub fn sender(&self) -> Sender {
        Sender { shared: Arc::clone(&self.shared) }
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        if let Address::Listen(path) = &self.address {
            // Another program may have taken the name away.
            let _ = std::fs::remove_file(path);
        }
        // Its thread is not waited for: a front-end's descriptor may hold it.
        self.shared.is_closing.store(true, Ordering::Release);
        self.shared.service.ring();
    }
}

/// Takes packets that a guest sent.
#[derive(Debug)]
pub struct Receiver {
    shared: Arc<Shared>,
}

/// Gives packets to a guest.
#[derive(Debug)]
pub struct Sender {
    shared: Arc<Shared>,
}

impl AsFd for Receiver {
    /// Readable when there may be packets.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.ends[FROM_GUEST].bell.as_fd()
    }
}

impl AsFd for Sender {
    /// Readable when there may be room again.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.ends[TO_GUEST].bell.as_fd()
    }
}

impl Receiver {
    /// Takes up to `max` packets. If there are none, the guest is asked to wake the waiting thread.
    #[inline]
    pub fn receive(&mut self, max: usize, now: i64, batch: &mut Batch) -> Received {
        let mut received = Received::default();
        self.shared.with(FROM_GUEST, |queue| {
            let mut wants_call = queue.receive((max, now), batch, &mut received)?;
            let is_idle = received == Received::default();
            if is_idle == queue.is_polled() {
                queue.poll(!is_idle)?;
            }
            if is_idle {
                wants_call = queue.receive((max, now), batch, &mut received)?;
            }
            Ok(wants_call)
        });
        received
    }
}

impl Sender {
    /// Gives packets from the front of the batch, as far as there is room. If packets are left, the
    /// guest is asked to wake the thread that waits for free buffers.
    #[inline]
    pub fn send(&mut self, batch: &mut Batch) -> Sent {
        let mut sent = Sent::default();
        let is_up = self.shared.with(TO_GUEST, |queue| {
            let mut wants_call = queue.send(batch, &mut sent)?;
            let is_full = !batch.is_empty();
            if is_full == queue.is_polled() {
                queue.poll(!is_full)?;
            }
            if is_full {
                wants_call |= queue.send(batch, &mut sent)?;
            }
            Ok(wants_call)
        });
        sent.is_down = !is_up;
        sent
    }
}

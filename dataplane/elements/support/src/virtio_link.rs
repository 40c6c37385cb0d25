//! A port of a virtual machine, as an element uses it.

use std::sync::Arc;

use thruway_element::{Arg, ArgError, Args, Cx, Reason, Ty, reasons};
use thruway_packet::Batch;
use thruway_vhost::{Port, PortStatus, Received, Receiver, Sender, Sent};

/// Packets that wait for the guest's buffers.
pub const QUEUE: Arg =
    Arg::keyword("QUEUE", Ty::UInt, "packets that wait while the guest has no buffer").or("256");

/// Packets at once.
pub const BURST: Arg =
    Arg::keyword("BURST", Ty::UInt, "packets per scheduling; the engine's choice if not given");

reasons! {
    /// Why a packet does not reach the guest, or one of the guest is not emitted.
    pub enum Lost {
        NoGuest = "no-guest": "no driver of a guest uses the device",
        NoBuffer = "no-buffer": "the guest has no buffer, and QUEUE packets wait",
        Unfit = "unfit": "longer than the guest's buffers, or than any frame; or without a byte",
        Stopped = "stopped": "it waited for the guest when the run ended",
    }
}

/// The value of [`BURST`].
///
/// # Errors
/// It is 0.
pub fn burst(args: &Args<'_>) -> Result<Option<usize>, ArgError> {
    match args.opt("BURST")? {
        Some(0) => Err(args.error("BURST", "must be at least 1")),
        burst => Ok(burst),
    }
}

struct Open {
    port: Arc<Port>,
    receiver: Receiver,
    sender: Sender,
}

/// An open port, its counts, and packets that wait for the guest.
pub struct VirtioLink {
    open: Option<Open>,
    waiting: Batch,
    waiting_max: usize,
    count: u64,
    bytes: u64,
    sent: u64,
    sent_bytes: u64,
}

impl VirtioLink {
    /// A link without a port.
    ///
    /// # Errors
    /// The error in [`QUEUE`].
    pub fn of(args: &Args<'_>) -> Result<VirtioLink, ArgError> {
        Ok(VirtioLink {
            open: None,
            waiting: Batch::with_room(),
            waiting_max: args.get("QUEUE")?,
            count: 0,
            bytes: 0,
            sent: 0,
            sent_bytes: 0,
        })
    }

    /// Its port.
    pub fn port(&self) -> Option<&Port> {
        self.open.as_ref().map(|open| &*open.port)
    }

    /// Uses this port.
    pub fn set_port(&mut self, port: Arc<Port>) {
        let (receiver, sender) = (port.receiver(), port.sender());
        self.open = Some(Open { port, receiver, sender });
    }

    /// Uses another port from now on; packets that wait go there.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn change_port(&mut self, cx: &mut Cx<'_>, port: Arc<Port>) -> Result<(), String> {
        self.unwatch(cx);
        self.set_port(port);
        self.watch(cx)
    }

    /// Gives the port to another link.
    pub fn take_port(&mut self) -> Option<Arc<Port>> {
        self.open.take().map(|open| open.port)
    }

    /// Lets the thread's sleep end when the guest sends, or has room again.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn watch(&self, cx: &mut Cx<'_>) -> Result<(), String> {
        let Some(open) = &self.open else { return Ok(()) };
        let watched = cx.watch(&open.receiver).and_then(|()| cx.watch(&open.sender));
        watched.map_err(|error| format!("no descriptor left: {error}"))
    }

    /// Takes packets of the guest.
    #[inline]
    pub fn receive(&mut self, cx: &mut Cx<'_>, max: usize, batch: &mut Batch) {
        let Some(open) = &mut self.open else { return };
        let Received { packets, bytes, unfit, no_memory } =
            open.receiver.receive(max, cx.now(), batch);
        self.count += packets as u64;
        self.bytes += bytes;
        if unfit + no_memory > 0 {
            cx.count_drops(Lost::Unfit, unfit);
            cx.count_drops(Reason::NO_MEMORY, no_memory);
        }
    }

    /// Gives packets to the guest, behind those that wait.
    #[inline]
    pub fn send(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        if self.waiting.is_empty() {
            self.give(cx, batch);
        }
        if batch.is_empty() {
            return;
        }
        let room = self.waiting_max.saturating_sub(self.waiting.len());
        self.waiting.extend(batch.drain_front(room.min(batch.len())));
        cx.drop_all(Lost::NoBuffer, batch);
    }

    /// Gives what waits to the guest; whether it took any.
    #[inline]
    pub fn resume(&mut self, cx: &mut Cx<'_>) -> bool {
        let before = self.waiting.len();
        if before > 0 {
            let mut waiting = std::mem::take(&mut self.waiting);
            self.give(cx, &mut waiting);
            self.waiting = waiting;
        }
        self.waiting.len() < before
    }

    /// Packets that the guest sent.
    pub fn received(&self) -> u64 {
        self.count
    }

    /// Packets that were given to the guest.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Whether packets wait for the guest.
    #[inline]
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    #[inline]
    fn give(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let Some(open) = &mut self.open else { return cx.drop_all(Lost::NoGuest, batch) };
        let Sent { packets, bytes, unfit, is_down } = open.sender.send(batch);
        self.sent += packets as u64;
        self.sent_bytes += bytes;
        if unfit > 0 {
            cx.count_drops(Lost::Unfit, unfit);
        }
        if is_down {
            cx.drop_all(Lost::NoGuest, batch);
        }
    }

    /// The run ends.
    pub fn finish(&mut self, cx: &mut Cx<'_>) {
        cx.drop_all(Lost::Stopped, &mut self.waiting);
        self.unwatch(cx);
    }

    fn unwatch(&self, cx: &mut Cx<'_>) {
        if let Some(open) = &self.open {
            cx.unwatch(&open.receiver);
            cx.unwatch(&open.sender);
        }
    }

    fn status(&self) -> PortStatus {
        self.port().map_or_else(PortStatus::default, Port::status)
    }

    /// A handler's answer.
    pub fn read(&self, name: &str) -> Option<String> {
        Some(match name {
            "count" => self.count.to_string(),
            "byte_count" => self.bytes.to_string(),
            "sent" => self.sent.to_string(),
            "sent_bytes" => self.sent_bytes.to_string(),
            "state" => match self.status() {
                PortStatus { is_ready: true, .. } => "ready".to_owned(),
                PortStatus { is_connected: true, .. } => "connected".to_owned(),
                _ => "waiting".to_owned(),
            },
            "connections" => self.status().connections.to_string(),
            "faults" => self.status().faults.to_string(),
            "last_end" => match self.status().last_end {
                end if end.is_empty() => "-".to_owned(),
                end => end,
            },
            "features" => format!("{:#x}", self.status().features),
            _ => return None,
        })
    }
}

//! What each kind of socket does for the element.

use thruway_element::{Cx, reasons};
use thruway_packet::Batch;

reasons! {
    /// Why a packet is not sent, or not emitted.
    pub(super) enum Lost {
        QueueFull = "queue-full": "pushed while the socket took nothing and 1,024 packets waited",
        NotConnected = "not-connected": "there is nobody to send it to",
        Refused = "refused": "the kernel refused it: too long, or nobody takes it there",
        NotIp = "not-ip": "of a raw socket: there is no whole IPv4 header",
        Denied = "denied": "it came from an address in DENY",
        Unread = "unread": "it came, and there is no output",
    }
}

/// What came of asking for bytes.
pub(super) enum Received {
    /// Nothing now.
    Nothing,
    /// So many bytes in the buffer, of a message that had so many.
    Bytes { len: usize, whole_len: usize },
    /// Something that is not to be emitted; there may be more.
    Dropped(Lost),
}

/// What one go at sending came to; what must wait stays in the batch.
#[derive(Default)]
pub(super) struct Sent {
    pub packets: usize,
    pub refused: usize,
    pub not_ip: usize,
    pub not_connected: usize,
}

/// A kind of socket.
pub(super) trait Link: Send {
    /// Opens it, unless a predecessor left it open, and has it end the sleep of the thread.
    fn open(&mut self, cx: &mut Cx<'_>) -> Result<(), String>;
    /// Asks for the next bytes.
    fn receive(&mut self, cx: &mut Cx<'_>, buffer: &mut [u8]) -> Received;
    /// Whether there is someone to send to.
    fn is_connected(&self) -> bool;
    /// Sends packets from the front of a batch.
    fn send(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) -> Sent;
    /// Its own address, and its peer's.
    fn addresses(&self) -> [Option<String>; 2];
    /// Ends what `open` has begun; the socket stays open as long as the value.
    fn unwatch(&mut self, cx: &mut Cx<'_>);
}

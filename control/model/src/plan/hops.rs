//! What it costs to pass packets on: from core to core, and to a process and back.

use crate::Hardware;

/// Bytes of a cache line.
const LINE: f64 = 64.0;
/// Handles of packets (8 bytes) in a line of a ring.
const HANDLES: f64 = 8.0;
/// Lines of a packet that the next core reads beside its handle: metadata and headers.
const PACKET_LINES: f64 = 2.0;

/// Cycles per packet of passing it on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Hop {
    /// Of the sender (which also takes it back from a process).
    pub gives: f64,
    /// Of the receiver.
    pub takes: f64,
    /// From the one to the other (and back), for which both do something else.
    pub delay: f64,
}

/// What passing packets on costs on a host.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Hops {
    /// Cycles until a line that another core wrote is there.
    line: f64,
    /// The same, per line, of lines that were asked for in advance.
    ahead: f64,
    /// Cycles per line of a copy out of the last cache.
    copy: f64,
    /// Cycles per line of a copy out of the first cache.
    copy_near: f64,
    wake: f64,
    woken: f64,
    between_sockets: f64,
}

impl Hops {
    /// By a host's description; `None` if it has no entry for transfers between cores.
    pub fn of(hardware: &Hardware, between_sockets: f64) -> Option<Hops> {
        let between = hardware.between_cores.as_ref()?;
        let [.., cache, _memory] = hardware.levels.as_slice() else { return None };
        let line = between.line.value;
        // Lines from another core overlap as those from the last cache do.
        let overlap = cache.prefetched.value / cache.dependent.value.max(1.0);
        Some(Hops {
            line,
            ahead: line * overlap.min(1.0),
            copy: cache.stream.value,
            copy_near: hardware.levels[0].stream.value,
            wake: between.wake.value,
            woken: between.woken.value,
            between_sockets,
        })
    }

    /// To a thread of the same process on another core: a handle through a ring.
    pub fn next_core(&self, other_socket: bool) -> Hop {
        let factor = if other_socket { self.between_sockets } else { 1.0 };
        Hop {
            gives: factor * self.ahead / HANDLES,
            takes: factor * self.ahead * (1.0 / HANDLES + PACKET_LINES),
            // The ring's index, then the handle.
            delay: factor * self.line * 2.0,
        }
    }

    /// To a process on another core and back: the packet is copied into a slot and out again.
    pub fn process_elsewhere(&self, packet: f64, other_socket: bool) -> Hop {
        let factor = if other_socket { self.between_sockets } else { 1.0 };
        let lines = (packet / LINE).ceil();
        // The slot's own line comes with those of the packet.
        let moved = factor * self.ahead * (lines + 1.0);
        Hop { gives: self.copy * lines + moved, takes: moved, delay: factor * self.line * 4.0 }
    }

    /// To a process on the same core and back: copies, and one sleeps while the other runs.
    pub fn process_here(&self, packet: f64, burst: f64) -> Hop {
        let lines = (packet / LINE).ceil();
        let turn = (self.wake + self.woken) / burst;
        Hop {
            gives: 2.0 * self.copy_near * lines + turn,
            takes: turn,
            delay: 2.0 * (self.wake + self.woken),
        }
    }
}

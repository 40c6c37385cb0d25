//! The thread's flow manager, and functions of sessions.

use thruway_flow::manager::Manager;
use thruway_packet::Packet;

use crate::connection_transfer::{Connections, Streams};
use crate::outbox::Outbox;
use crate::probe::Probed;
use crate::session_mover::SessionMover;
use crate::session_transfer::Transfer;

/// Sessions of a thread. By default, there are none.
pub trait Flows {
    /// The flow manager, where the configuration has one. Not while an element works with it.
    fn manager(&mut self) -> Option<&mut Manager> {
        None
    }

    /// Takes the flow manager out, to use it while packets are sent.
    fn take_manager(&mut self) -> Option<Box<Manager>> {
        None
    }

    /// Puts it back.
    fn put_manager(&mut self, manager: Box<Manager>) {
        let _ = manager;
    }

    /// Shows functions that sessions of theirs have ended, and lets the flow manager use their
    /// records again.
    fn notify_ended(&mut self, out: &mut Outbox) {
        let _ = out;
    }

    /// Runs `transfer` on the function `node`, if this thread has it, it is not running, and it
    /// takes part in the transfer of sessions to another host.
    fn transfer(&mut self, node: u32, transfer: &mut Transfer<'_>) {
        let _ = (node, transfer);
    }

    /// [`Flows::transfer`] for contexts of connections.
    fn connections(&mut self, node: u32, visit: &mut Connections<'_>) {
        let _ = (node, visit);
    }

    /// [`Flows::transfer`] for functions of streams.
    fn streams(&mut self, node: u32, visit: &mut Streams<'_>) {
        let _ = (node, visit);
    }

    /// Whether an element of this thread is a context of streams, or a function that is in one.
    fn is_in_stream(&self, node: u32) -> bool {
        let _ = node;
        false
    }

    /// Runs `visit` on another element of this thread, if its sessions can go to another one and it
    /// is not running.
    fn session_mover(&mut self, node: u32, visit: &mut dyn FnMut(&mut dyn SessionMover)) {
        let _ = (node, visit);
    }

    /// See [`crate::Cx::probe`].
    fn probe(
        &mut self,
        out: &mut Outbox,
        node: u32,
        packet: Packet,
        stands_for: [u64; 2],
    ) -> Probed {
        let _ = (out, node, packet, stands_for);
        Probed::Lost
    }
}

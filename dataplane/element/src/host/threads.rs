//! Other threads that run the same configuration.

use thruway_packet::Batch;

/// Handoffs to other threads, and their sleep. By default, there are none.
pub trait Threads {
    /// Hands the first packets of a batch off to the replica of `node` in another thread, as many
    /// as fit into its ring, and wakes that thread if it sleeps; the others stay in the batch.
    /// Returns the number handed off.
    fn handoff(&mut self, node: u32, thread: usize, batch: &mut Batch) -> usize {
        let _ = (node, thread, batch);
        0
    }

    /// Packets that any element handed off from this thread, and that the others have not taken.
    fn handing(&self) -> usize {
        0
    }

    /// The threads that have a replica of `node`, ascending.
    fn having(&self, node: u32) -> &[usize] {
        let _ = node;
        &[]
    }

    /// The thread that runs the task, timers and handlers of `node`.
    fn home(&self, node: u32) -> usize {
        let _ = node;
        0
    }

    /// Wakes the sleeping threads, other than this one, that take packets from the store `node`. An
    /// element that threads share calls this once per batch, after it has made the packets visible
    /// to the others.
    fn wake_takers(&mut self, node: u32) {
        let _ = node;
    }

    /// Wakes the thread of this number ([`Env::thread`](crate::Env::thread)), if it sleeps. To be
    /// called once for a batch that was left where a task of that thread looks.
    fn wake(&mut self, thread: usize) {
        let _ = thread;
    }
}

//! The outputs of one thread's elements: where each leads, and the packets that they sent.
//!
//! Every input port of every element is a *slot*, which has a number. In *vector* mode packets wait
//! in their slot's pending batch until the engine dispatches the lowest ready slot, so paths that
//! join fill one batch. In *single* mode (one packet in flight) each packet goes depth first, in
//! the order in which it was sent, as in Click.
//!
//! PERF: a plain struct, so that sending, counting and reading the time are inlined in elements.
//! Elements reach it by [`crate::Cx`] alone; its functions are for the engine that owns it
//! (docs/adr/0094-outbox-and-capabilities-of-the-host.md).

use std::sync::Arc;

use thruway_packet::{Batch, Packet};

use crate::handoff::Staged;
use crate::probe::Probe;
use crate::stats::{NodeStats, Stats};

/// Where an output leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// To the slot of this number.
    Slot(u32),
    /// Back to the puller (the output is a pull port).
    Puller,
    /// Nowhere.
    Unconnected,
}

/// What the elements of one thread send and count.
#[derive(Default)]
pub struct Outbox {
    /// Outputs of all nodes, one node after the other.
    targets: Vec<Target>,
    /// Per node: its first output in `targets` (with one more entry for the end).
    first_target: Vec<u32>,
    /// Per slot: packets that wait.
    pending: Vec<Batch>,
    /// Per slot a bit: packets wait.
    ready: Vec<u64>,
    /// In single mode: packets sent and not yet dispatched, newest last.
    log: Vec<(u32, Packet)>,
    /// Whether one packet is in flight.
    single: bool,
    /// Packets put on a slot since the engine last looked.
    emitted: u32,
    /// Packets sent to a pull output while it is being pulled.
    returned: Batch,
    /// The probe in flight.
    pub(crate) probe: Option<Box<Probe>>,
    /// Packets for other threads, while their element looks at the rest of a batch.
    pub(crate) staged: Staged,
    /// Counters by element index.
    stats: Arc<Stats>,
    /// Present time, nanoseconds since the Unix epoch.
    now: i64,
}

impl Outbox {
    /// Of elements with these outputs and counters, and so many slots.
    pub fn new<T: IntoIterator<Item = Target>>(
        outputs: impl IntoIterator<Item = T>,
        slots: usize,
        stats: Arc<Stats>,
    ) -> Outbox {
        let (mut targets, mut first_target) = (Vec::new(), vec![0]);
        for own in outputs {
            targets.extend(own);
            first_target.push(targets.len() as u32);
        }
        Outbox {
            targets,
            first_target,
            pending: (0..slots).map(|_| Batch::new()).collect(),
            ready: vec![0; slots.div_ceil(64)],
            stats,
            ..Outbox::default()
        }
    }

    /// Sends a packet to the target of an output.
    ///
    /// # Errors
    /// The packet, where that is nowhere.
    #[inline]
    pub fn send(&mut self, target: Target, packet: Packet) -> Result<(), Packet> {
        match target {
            Target::Slot(slot) if self.single => self.log.push((slot, packet)),
            Target::Slot(slot) => {
                self.emitted += 1;
                self.mark_ready(slot);
                self.pending[slot as usize].push(packet);
            }
            Target::Puller => self.returned.push(packet),
            Target::Unconnected => return Err(packet),
        }
        Ok(())
    }

    /// The same for a whole batch, which is left empty.
    #[inline]
    pub(crate) fn send_all(&mut self, target: Target, batch: &mut Batch) -> Result<(), ()> {
        match target {
            // A slot that is ready has a packet: the engine relies on that when one is in flight.
            Target::Slot(_) if batch.is_empty() => {}
            Target::Slot(slot) if self.single => {
                self.log.extend(batch.drain().map(|packet| (slot, packet)));
            }
            Target::Slot(slot) => {
                self.emitted += batch.len() as u32;
                self.mark_ready(slot);
                self.pending[slot as usize].append(batch);
            }
            Target::Puller => self.returned.append(batch),
            Target::Unconnected => return Err(()),
        }
        Ok(())
    }

    #[inline]
    fn mark_ready(&mut self, slot: u32) {
        self.ready[slot as usize / 64] |= 1 << (slot % 64);
    }

    /// Number of outputs of a node.
    #[inline]
    pub fn outputs(&self, node: u32) -> usize {
        (self.first_target[node as usize + 1] - self.first_target[node as usize]) as usize
    }

    /// Where the outputs of a node lead.
    #[inline]
    pub fn targets(&self, node: u32) -> &[Target] {
        let first = self.first_target[node as usize] as usize;
        &self.targets[first..self.first_target[node as usize + 1] as usize]
    }

    /// Where output `port` of a node leads.
    #[inline]
    pub fn target(&self, node: u32, port: usize) -> Target {
        self.targets(node).get(port).copied().unwrap_or(Target::Unconnected)
    }

    /// Lets output `port` of a node, which exists, lead elsewhere.
    pub fn redirect(&mut self, node: u32, port: usize, target: Target) {
        self.targets[self.first_target[node as usize] as usize + port] = target;
    }

    /// Takes the lowest ready slot off the ready set.
    #[inline]
    pub fn next_ready(&mut self) -> Option<usize> {
        for (at, word) in self.ready.iter_mut().enumerate() {
            if *word != 0 {
                let bit = word.trailing_zeros() as usize;
                *word &= *word - 1;
                return Some(at * 64 + bit);
            }
        }
        None
    }

    /// Takes the packets that wait at a slot into the empty `batch`.
    #[inline]
    pub fn take(&mut self, slot: usize, batch: &mut Batch) {
        std::mem::swap(batch, &mut self.pending[slot]);
    }

    /// Packets that wait, by slot.
    pub fn pending(&self) -> &[Batch] {
        &self.pending
    }

    /// The same, to be changed: no packet may be put where none waits.
    pub fn pending_mut(&mut self) -> &mut [Batch] {
        &mut self.pending
    }

    /// Whether no packet is in flight.
    pub fn is_quiet(&self) -> bool {
        self.ready.iter().all(|word| *word == 0) && self.log.is_empty() && !self.single
    }

    /// Packets put on slots since [`Outbox::set_emitted`].
    #[inline]
    pub fn emitted(&self) -> u32 {
        self.emitted
    }

    /// Sets the number of packets put on slots; 0 where those before were dispatched.
    #[inline]
    pub fn set_emitted(&mut self, n: u32) {
        self.emitted = n;
    }

    /// Begins or ends single mode; returns what was.
    #[inline]
    pub fn set_single(&mut self, single: bool) -> bool {
        std::mem::replace(&mut self.single, single)
    }

    /// Begins single mode with the one packet that waits. False, and nothing done, if none does.
    #[inline]
    pub fn begin_single(&mut self) -> bool {
        let Some(slot) = self.next_ready() else { return false };
        let Some(packet) = self.pending[slot].pop() else { return false };
        self.single = true;
        self.log.push((slot as u32, packet));
        true
    }

    /// Packets sent in single mode and not yet dispatched, each with its slot, newest last.
    #[inline]
    pub fn log(&self) -> &[(u32, Packet)] {
        &self.log
    }

    /// The same, to be changed.
    #[inline]
    pub fn log_mut(&mut self) -> &mut Vec<(u32, Packet)> {
        &mut self.log
    }

    /// Whether packets were sent to the output that is being pulled.
    #[inline]
    pub(crate) fn has_returned(&self) -> bool {
        !self.returned.is_empty()
    }

    /// Puts `batch` in the place of the packets sent to the output that is being pulled, which it
    /// returns.
    #[inline]
    pub fn replace_returned(&mut self, batch: Batch) -> Batch {
        std::mem::replace(&mut self.returned, batch)
    }

    /// Makes a probe the one in flight, or ends it; returns the previous one.
    pub fn replace_probe(&mut self, probe: Option<Box<Probe>>) -> Option<Box<Probe>> {
        std::mem::replace(&mut self.probe, probe)
    }

    /// The probe in flight.
    pub fn probe(&self) -> Option<&Probe> {
        self.probe.as_deref()
    }

    /// Gives room for packets that are for other threads.
    pub fn set_staged(&mut self, staged: Staged) {
        self.staged = staged;
    }

    /// Counters by element index.
    pub fn stats(&self) -> &Arc<Stats> {
        &self.stats
    }

    /// Counters of a node.
    #[inline]
    pub fn counters(&self, node: u32) -> &NodeStats {
        &self.stats[node as usize]
    }

    /// Present time, nanoseconds since the Unix epoch.
    #[inline]
    pub fn now(&self) -> i64 {
        self.now
    }

    /// Sets the time.
    #[inline]
    pub fn set_now(&mut self, now: i64) {
        self.now = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_batch_makes_no_slot_ready() {
        let mut out = Outbox::new([[Target::Slot(1)]], 3, Arc::default());
        out.send_all(Target::Slot(1), &mut Batch::new()).unwrap();
        assert!(out.is_quiet());
        out.send(Target::Slot(2), Packet::new(&[1]).unwrap()).unwrap();
        assert_eq!((out.emitted(), out.next_ready()), (1, Some(2)));
    }

    #[test]
    fn outputs_lead_where_they_were_redirected() {
        let mut out =
            Outbox::new([vec![Target::Puller], vec![Target::Slot(0); 2]], 1, Arc::default());
        out.redirect(1, 1, Target::Unconnected);
        assert_eq!(out.targets(0), [Target::Puller]);
        assert_eq!(out.targets(1), [Target::Slot(0), Target::Unconnected]);
        assert_eq!((out.outputs(1), out.target(1, 2)), (2, Target::Unconnected));
    }

    #[test]
    fn a_single_packet_goes_to_the_log() {
        let mut out = Outbox::new([[Target::Slot(0)]], 1, Arc::default());
        assert!(!out.begin_single());
        out.send(Target::Slot(0), Packet::new(&[1]).unwrap()).unwrap();
        assert!(out.begin_single() && !out.is_quiet());
        out.send(Target::Slot(0), Packet::new(&[2]).unwrap()).unwrap();
        assert_eq!((out.log().len(), out.emitted(), out.pending()[0].len()), (2, 1, 0));
    }
}

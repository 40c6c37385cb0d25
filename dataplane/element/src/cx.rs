//! The engine as a running element sees it.

mod flows;
mod handoff;
mod neighbours;
mod probe;
mod stores;
mod verdict;
mod wake;

use std::any::Any;

use thruway_packet::{Batch, Packet};

use crate::host::{Calls, Driver, Host, Threads};
use crate::later::HandlerError;
use crate::outbox::{Outbox, Target};
use crate::reason::Reason;
use crate::spec::Spec;

pub use neighbours::Neighbours;
pub use verdict::Verdict;

/// The context of one call into an element.
pub struct Cx<'a> {
    node: u32,
    out: &'a mut Outbox,
    host: &'a mut dyn Host,
}

impl<'a> Cx<'a> {
    /// A context for element number `node`.
    pub fn new(node: u32, out: &'a mut Outbox, host: &'a mut dyn Host) -> Cx<'a> {
        Cx { node, out, host }
    }

    /// Index of the element itself.
    pub fn node(&self) -> u32 {
        self.node
    }

    /// Present time in nanoseconds since the Unix epoch, read once per dispatch round.
    #[inline]
    pub fn now(&self) -> i64 {
        self.out.now()
    }

    /// Number of connected outputs.
    #[inline]
    pub fn outputs(&self) -> usize {
        self.out.outputs(self.node)
    }

    /// Number of connected inputs.
    #[inline]
    pub fn inputs(&self) -> usize {
        self.host.inputs(self.node)
    }

    /// Sends one packet out of `port`; counted as unconnected where that leads nowhere.
    #[inline]
    pub fn emit(&mut self, port: usize, packet: Packet) {
        let target = self.out.target(self.node, port);
        if let Err(packet) = self.out.send(target, packet) {
            self.drop(Reason::UNCONNECTED, packet);
        }
    }

    /// Sends a whole batch out of `port`, leaving it empty.
    #[inline]
    pub fn emit_all(&mut self, port: usize, batch: &mut Batch) {
        let target = self.out.target(self.node, port);
        if self.out.send_all(target, batch).is_err() {
            self.drop_all(Reason::UNCONNECTED, batch);
        }
    }

    /// Sends the packets of each input by the output of the same number, for an element with as
    /// many outputs as inputs. (Packets left in a batch leave by output 0.)
    #[inline]
    pub fn pass_on(&mut self, port: usize, batch: &mut Batch) {
        if port != 0 {
            self.emit_all(port, batch);
        }
    }

    /// Drops a packet for a reason of the element's spec.
    #[inline]
    pub fn drop(&mut self, reason: impl Into<Reason>, _packet: Packet) {
        self.count_drops(reason, 1);
    }

    /// Drops all packets of a batch.
    #[inline]
    pub fn drop_all(&mut self, reason: impl Into<Reason>, batch: &mut Batch) {
        self.count_drops(reason, batch.len());
        batch.clear();
    }

    /// Counts `n` drops of packets that the element freed itself.
    #[inline]
    pub fn count_drops(&mut self, reason: impl Into<Reason>, n: usize) {
        self.out.counters(self.node).dropped(reason.into(), n as u64);
    }

    /// Counts `n` packets that the element created, to balance the account of all packets: received
    /// + created = sent + dropped + held.
    #[inline]
    pub fn count_made(&mut self, n: usize) {
        self.out.counters(self.node).made.add(n as u64);
    }

    /// Counts the reason and sends the packet out of `port` if that is connected, else drops it.
    #[inline]
    pub fn reject(&mut self, port: usize, reason: impl Into<Reason>, packet: Packet) {
        // An unconnected output drops the packet: the reason says why.
        let sent = self.out.send(self.out.target(self.node, port), packet).is_ok();
        self.out.counters(self.node).rejected(reason.into(), sent);
    }

    /// A new packet, or `None` with the drop counted when memory is used up.
    pub fn packet(&mut self, bytes: &[u8]) -> Option<Packet> {
        let packet = Packet::new(bytes);
        if packet.is_none() {
            self.count_drops(Reason::NO_MEMORY, 1);
        }
        packet
    }

    /// A copy of a packet, or `None` with the drop counted when memory is used up.
    pub fn duplicate(&mut self, packet: &Packet) -> Option<Packet> {
        let copy = packet.duplicate();
        if copy.is_none() {
            self.count_drops(Reason::NO_MEMORY, 1);
        }
        copy
    }

    /// Pulls up to `max` packets at pull input `port` into the empty `batch`.
    #[inline]
    pub fn pull(&mut self, port: usize, max: usize, batch: &mut Batch) {
        self.host.pull(self.out, (self.node, port), max, batch);
        self.count_packets(batch.len());
    }

    /// Runs `visit` on another element of this thread, if it is not running: for an element that
    /// knows the other's type, and does more at it than hand it packets.
    #[inline]
    pub fn visit(&mut self, node: u32, mut visit: impl FnMut(&mut dyn Any, &mut Cx<'_>)) {
        self.host.visit(self.out, node, &mut |element, out, host| {
            visit(element, &mut Cx::new(node, out, host));
        });
    }

    /// Counts packets that came together, otherwise than from another element.
    #[inline]
    pub fn count_packets(&mut self, n: usize) {
        let stats = self.out.counters(self.node);
        stats.packets.add(n as u64);
        stats.batches.add(u64::from(n > 0));
    }

    /// Whether packets were sent to the output that is being pulled.
    pub(crate) fn has_returned(&self) -> bool {
        self.out.has_returned()
    }

    /// Whether input `port` is a pull input.
    pub fn is_pull_input(&self, port: usize) -> bool {
        self.host.is_pull_input(self.node, port)
    }

    /// From now on, rewires pulls on `output` directly to the upstream of `input`. An element
    /// cannot be pulled while it pulls: one that packets pass twice must be bypassed once.
    pub fn shortcut_pull(&mut self, output: usize, input: usize) {
        self.host.shortcut_pull(self.node, output, input);
    }

    /// Whether output `port` is a pull output.
    pub fn is_pull_output(&self, port: usize) -> bool {
        self.out.target(self.node, port) == Target::Puller
    }

    /// Asks for [`crate::Element::timer`] with `token` at time `at` (as [`Cx::now`]).
    pub fn set_timer(&mut self, token: u32, at: i64) {
        self.host.set_timer(self.node, token, at);
    }

    /// Forgets the timers of this token.
    pub fn clear_timer(&mut self, token: u32) {
        self.host.clear_timer(self.node, token);
    }

    /// Reads a handler: `element.handler param`.
    ///
    /// # Errors
    /// As [`HandlerError`].
    pub fn read_handler(&mut self, call: &str) -> Result<String, HandlerError> {
        self.host.read(self.out, self.node, call)
    }

    /// Writes a handler: `element.handler`.
    ///
    /// # Errors
    /// As [`HandlerError`].
    pub fn write_handler(&mut self, call: &str, value: &str) -> Result<(), HandlerError> {
        self.host.write(self.out, self.node, call, value)
    }

    /// Writes a handler after this call has returned; logs a failure to the user.
    pub fn write_later(&mut self, call: impl Into<String>, value: impl Into<String>) {
        self.host.write_later(self.node, call.into(), value.into());
    }

    /// Asks the driver to stop.
    pub fn stop(&mut self) {
        self.host.stop();
    }

    /// A line for the user.
    pub fn log(&mut self, line: &str) {
        self.host.log(line);
    }

    /// Name of the element; empty where nothing has names.
    pub fn name(&self) -> String {
        self.describe(self.node).map_or(String::new(), |(name, _)| name.to_owned())
    }

    /// Name and class of an element.
    pub fn describe(&self, node: u32) -> Option<(&str, &str)> {
        self.host.describe(node)
    }

    /// Index of the element `name`, seen from the compound element of `from`.
    pub fn find(&self, from: u32, name: &str) -> Option<u32> {
        self.host.find(from, name)
    }

    /// The declarations of an element's class.
    pub fn spec(&self, node: u32) -> Option<&'static Spec> {
        self.host.spec(node)
    }

    /// The elements around this one.
    pub fn neighbours(&self) -> Neighbours<'_> {
        Neighbours::new(self.node, self.out, self.host)
    }

    /// The other threads.
    #[inline]
    pub fn threads(&mut self) -> &mut dyn Threads {
        self.host
    }

    /// Handler calls, for an element that passes on those of others.
    pub fn calls(&mut self) -> &mut dyn Calls {
        self.host
    }

    /// The driver of all threads.
    pub fn driver(&mut self) -> &mut dyn Driver {
        self.host
    }

    /// The sessions of this thread.
    #[inline]
    pub(crate) fn sessions(&mut self) -> (&mut Outbox, &mut dyn Host) {
        (self.out, self.host)
    }

    /// Packets to make per run when the user did not say.
    pub fn burst(&self) -> usize {
        self.host.burst()
    }
}

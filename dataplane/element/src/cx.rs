//! The engine as a running element sees it.

mod connections;
mod flows;
mod handoff;
mod probe;
mod stores;
mod transfer;
mod verdict;
mod wake;

use std::any::Any;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;

use thruway_packet::{Batch, Packet};

use crate::connection_transfer::{Connections, Streams};
use crate::later::HandlerError;
use crate::outside::{Origin, Remote};
use crate::probe::Probed;
use crate::reason::Reason;
use crate::session_mover::SessionMover;
use crate::session_transfer::Transfer;
use crate::spec::Spec;
use crate::storage::{Backlog, Storage};
use crate::wires::{PullFrom, Target, Wires};

pub use verdict::Verdict;

/// The action of one element at another; see [`Cx::visit`].
pub type Visit<'a> = dyn FnMut(&mut dyn Any, &mut Cx<'_>) + 'a;

/// Hears the lines for the user, from any thread; it must return soon and write none itself.
pub type LogSink = Arc<dyn Fn(&str) + Send + Sync>;

/// Services of the engine for elements, besides moving packets.
pub trait Host {
    /// Pulls up to `max` packets out of an output, into the empty `batch`.
    fn pull(&mut self, wires: &mut Wires, from: PullFrom, max: usize, batch: &mut Batch);

    /// Calls [`crate::Element::timer`] of `node` at time `at` (once).
    fn set_timer(&mut self, node: u32, token: u32, at: i64);

    /// Forgets all timers of `node` with this token.
    fn clear_timer(&mut self, node: u32, token: u32);

    /// See [`Cx::probe`].
    fn probe(
        &mut self,
        wires: &mut Wires,
        node: u32,
        packet: Packet,
        stands_for: [u64; 2],
    ) -> Probed {
        let _ = (wires, node, packet, stands_for);
        Probed::Lost
    }

    /// Runs `visit` on the element `node`, if this thread has it and it is not running.
    fn visit(&mut self, wires: &mut Wires, node: u32, visit: &mut Visit<'_>) {
        let _ = (wires, node, visit);
    }

    /// Hands the first packets of a batch off to the replica of `node` in another thread, as many
    /// as fit into its ring, and wakes that thread if it sleeps; the others stay in the batch.
    /// Returns the number handed off.
    fn handoff(&mut self, node: u32, thread: usize, batch: &mut Batch) -> usize {
        let _ = (node, thread, batch);
        0
    }

    /// Packets that this thread handed off and the others have not taken yet.
    fn handing(&self) -> usize {
        0
    }

    /// The threads that have a replica of `node`, ascending.
    fn threads(&self, node: u32) -> &[usize] {
        let _ = node;
        &[]
    }

    /// The thread that runs the task, timers and handlers of `node`.
    fn home(&self, node: u32) -> usize {
        let _ = node;
        0
    }

    /// Wakes the sleeping threads, other than this one, that take packets from the store `node`.
    fn wake_takers(&mut self, node: u32) {
        let _ = node;
    }

    /// Wakes a thread, if it sleeps: something was left for it.
    fn wake(&mut self, thread: usize) {
        let _ = thread;
    }

    /// Lets the thread's sleep end when `fd` (a duplicate of descriptor number `key`) is readable;
    /// `None` ends that.
    fn watch(&mut self, key: RawFd, fd: Option<OwnedFd>);

    /// Reads `[element.]handler [param]`, with names relative to `node`'s compound element; a bare
    /// handler name is one of the router's own.
    ///
    /// # Errors
    /// As [`HandlerError`].
    fn read(&mut self, wires: &mut Wires, node: u32, call: &str) -> Result<String, HandlerError>;

    /// Writes `[element.]handler` likewise.
    ///
    /// # Errors
    /// As [`HandlerError`].
    fn write(
        &mut self,
        wires: &mut Wires,
        node: u32,
        call: &str,
        value: &str,
    ) -> Result<(), HandlerError>;

    /// Writes a handler once the running element has returned, so that it may be this element's
    /// own or lead back to it.
    fn write_later(&mut self, node: u32, call: String, value: String);

    /// Asks the driver to stop, as a source at its LIMIT or a `stop` handler does.
    fn stop(&mut self);

    /// Number of stop requests that no element has taken up yet; takes one up if `take`.
    fn pending_stops(&mut self, take: bool) -> u32;

    /// Declares that `node` takes up stops (DriverManager), so that the driver no longer does; or
    /// that it no longer takes them up, which always works.
    ///
    /// # Errors
    /// Another element takes them up already.
    fn manage_stops(&mut self, node: u32, on: bool) -> Result<(), String>;

    /// Has handler `run` of `node` written, once, when the process receives this signal.
    ///
    /// # Errors
    /// Where this driver passes no signals on.
    fn take_signal(&mut self, node: u32, signal: i32) -> Result<(), String> {
        let _ = (node, signal);
        Err("this driver does not pass signals on to elements".to_owned())
    }

    /// Acts as if the process had received this signal, before the next round begins. False, and
    /// nothing done, when no element waits for it.
    fn raise(&mut self, signal: i32) -> bool {
        let _ = signal;
        false
    }

    /// Shows functions that sessions of theirs have ended, and lets the flow manager use their
    /// records again.
    fn notify_ended(&mut self, wires: &mut Wires) {
        let _ = wires;
    }

    /// Runs `transfer` on the function `node`, if this thread has it, it is not running, and it
    /// takes part in the transfer of sessions to another host.
    fn transfer(&mut self, wires: &mut Wires, node: u32, transfer: &mut Transfer<'_>) {
        let _ = (wires, node, transfer);
    }

    /// [`Host::transfer`] for contexts of connections.
    fn connections(&mut self, wires: &mut Wires, node: u32, visit: &mut Connections<'_>) {
        let _ = (wires, node, visit);
    }

    /// [`Host::transfer`] for functions of streams.
    fn streams(&mut self, wires: &mut Wires, node: u32, visit: &mut Streams<'_>) {
        let _ = (wires, node, visit);
    }

    /// Whether an element of this thread is a context of streams, or a function that is in one.
    fn is_in_stream(&self, node: u32) -> bool {
        let _ = node;
        false
    }

    /// A line for the user (standard error).
    fn log(&mut self, line: &str);

    /// Shows the user that the call which `call` describes failed, where that is known later only
    /// ([`HandlerError::Later`]) when it is.
    fn report(&mut self, call: String, error: HandlerError) {
        self.log(&format!("{call} {error}"));
    }

    /// Copies all lines for the user to `sink` while the configuration exists.
    fn add_log_sink(&mut self, sink: LogSink) {
        let _ = sink;
    }

    /// Origin of the handler call that is running; `None` outside of calls and for calls by the
    /// configuration itself.
    fn origin(&self) -> Origin {
        None
    }

    /// Sets the origin of the handler calls that follow; returns the previous one.
    fn set_origin(&mut self, origin: Origin) -> Origin {
        let _ = origin;
        None
    }

    /// The router's handlers for a thread that runs no elements, with names as seen from `node`.
    fn remote(&self, node: u32) -> Option<Arc<dyn Remote>> {
        let _ = node;
        None
    }

    /// Index of the element `name`, seen from `node`'s compound element.
    fn find(&self, node: u32, name: &str) -> Option<u32>;

    /// Name and class of an element.
    fn describe(&self, node: u32) -> Option<(&str, &str)>;

    /// The declarations of an element's class.
    fn spec(&self, node: u32) -> Option<&'static Spec> {
        let _ = node;
        None
    }

    /// [`crate::Buffer::storage`] of another element of this thread.
    fn storage(&self, node: u32) -> Option<Storage> {
        let _ = node;
        None
    }

    /// The backlog of another element of this thread; `None` for one that keeps no packets
    /// ([`crate::Buffer`]).
    fn backlog(&self, node: u32) -> Option<Backlog> {
        let _ = node;
        None
    }

    /// Runs `visit` on another element of this thread, if its sessions can go to another one and it
    /// is not running.
    fn session_mover(&mut self, node: u32, visit: &mut dyn FnMut(&mut dyn SessionMover)) {
        let _ = (node, visit);
    }

    /// Packets a source should make per run when the user did not say: 1 where Click's order must
    /// be kept, a vector otherwise.
    fn burst(&self) -> usize;
}

/// The context of one call into an element.
pub struct Cx<'a> {
    node: u32,
    wires: &'a mut Wires,
    host: &'a mut dyn Host,
}

impl<'a> Cx<'a> {
    /// A context for element number `node`.
    pub fn new(node: u32, wires: &'a mut Wires, host: &'a mut dyn Host) -> Cx<'a> {
        Cx { node, wires, host }
    }

    /// Index of the element itself.
    pub fn node(&self) -> u32 {
        self.node
    }

    /// Present time in nanoseconds since the Unix epoch, read once per dispatch round.
    #[inline]
    pub fn now(&self) -> i64 {
        self.wires.now
    }

    /// Number of connected outputs.
    #[inline]
    pub fn outputs(&self) -> usize {
        self.wires.outputs(self.node)
    }

    /// Number of connected inputs.
    #[inline]
    pub fn inputs(&self) -> usize {
        self.wires.inputs(self.node)
    }

    /// Sends one packet out of `port`; counted as unconnected where that leads nowhere.
    #[inline]
    pub fn emit(&mut self, port: usize, packet: Packet) {
        let target = self.wires.target(self.node, port);
        if let Err(packet) = self.wires.send(target, packet) {
            self.drop(Reason::UNCONNECTED, packet);
        }
    }

    /// Sends a whole batch out of `port`, leaving it empty.
    #[inline]
    pub fn emit_all(&mut self, port: usize, batch: &mut Batch) {
        let target = self.wires.target(self.node, port);
        if self.wires.send_all(target, batch).is_err() {
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
        self.wires.stats[self.node as usize].dropped(reason.into(), n as u64);
    }

    /// Counts `n` packets that the element created, to balance the account of all packets: received
    /// + created = sent + dropped + held.
    #[inline]
    pub fn count_made(&mut self, n: usize) {
        self.wires.stats[self.node as usize].made.add(n as u64);
    }

    /// Counts the reason and sends the packet out of `port` if that is connected, else drops it.
    #[inline]
    pub fn reject(&mut self, port: usize, reason: impl Into<Reason>, packet: Packet) {
        // An unconnected output drops the packet: the reason says why.
        let sent = self.wires.send(self.wires.target(self.node, port), packet).is_ok();
        self.wires.stats[self.node as usize].rejected(reason.into(), sent);
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
        if let Some(from) = self.wires.source(self.node, port) {
            self.host.pull(self.wires, from, max, batch);
            let stats = &self.wires.stats[self.node as usize];
            stats.packets.add(batch.len() as u64);
            stats.batches.add(u64::from(!batch.is_empty()));
        }
    }

    /// Where packets of output `port` come to: the element and its input.
    pub fn leads_to(&self, port: usize) -> Option<(u32, usize)> {
        match self.wires.target(self.node, port) {
            Target::Slot(slot) => {
                let at = self.wires.slots[slot as usize];
                Some((at.node, at.port as usize))
            }
            _ => None,
        }
    }

    /// Runs `visit` on another element of this thread, if it is not running: for an element that
    /// knows the other's type, and does more at it than hand it packets.
    #[inline]
    pub fn visit(&mut self, node: u32, visit: &mut Visit<'_>) {
        self.host.visit(self.wires, node, visit);
    }

    /// Counts packets that came together, otherwise than from another element.
    #[inline]
    pub fn count_packets(&mut self, n: usize) {
        let stats = &self.wires.stats[self.node as usize];
        stats.packets.add(n as u64);
        stats.batches.add(u64::from(n > 0));
    }

    /// Whether packets were sent to the output that is being pulled.
    pub(crate) fn has_returned(&self) -> bool {
        !self.wires.returned.is_empty()
    }

    /// Reports to upstream sources whether this element, a packet store, is full.
    #[inline]
    pub fn set_full(&mut self, full: bool) {
        self.wires.stores.set(self.node, full, false);
    }

    /// The same; while this is true, upstream elements that can wait (a capture, an isolated
    /// function) must wait: packets emitted nevertheless may be dropped. See [`crate::Pressing`].
    #[inline]
    pub fn press_back(&mut self, full: bool) {
        self.wires.stores.set(self.node, full, true);
    }

    /// The same of an element that packets pass but for times in which it holds them.
    #[inline]
    pub fn press_back_while_holding(&mut self, full: bool) {
        self.wires.stores.set_passing(self.node, full);
    }

    /// See [`crate::Pressing`]: the element itself is one of them if it is on a loop.
    pub(crate) fn pressing_downstream(&self, ends: &[u32]) -> Vec<u32> {
        self.wires.pressing_downstream(self.node, ends)
    }

    /// Whether input `port` is a pull input.
    pub fn is_pull_input(&self, port: usize) -> bool {
        self.wires.source(self.node, port).is_some()
    }

    /// From now on, rewires pulls on `output` directly to the upstream of `input`. An element
    /// cannot be pulled while it pulls: one that packets pass twice must be bypassed once.
    pub fn shortcut_pull(&mut self, output: usize, input: usize) {
        self.wires.shortcut_pull(self.node, output, input);
    }

    /// Whether output `port` is a pull output.
    pub fn is_pull_output(&self, port: usize) -> bool {
        self.wires.target(self.node, port) == Target::Puller
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
        self.host.read(self.wires, self.node, call)
    }

    /// Writes a handler: `element.handler`.
    ///
    /// # Errors
    /// As [`HandlerError`].
    pub fn write_handler(&mut self, call: &str, value: &str) -> Result<(), HandlerError> {
        self.host.write(self.wires, self.node, call, value)
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

    /// The engine's other services.
    pub fn host(&mut self) -> &mut dyn Host {
        self.host
    }

    /// Packets to make per run when the user did not say.
    pub fn burst(&self) -> usize {
        self.host.burst()
    }
}

//! What a thread does for its elements while they run.

use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;

use thruway_element::{
    Backlog, Buffer, Calls, Connections, Driver, Flows, HandlerError, Host, LogSink, Origin,
    Outbox, Probed, Purpose, Remote, SessionMover, Spec, Storage, Store, Streams, Threads,
    Transfer, Visit, Wiring,
};
use thruway_flow::manager::Manager;
use thruway_packet::{Batch, Packet};

use crate::command::CommandTarget;
use crate::core::{Core, Later};
use crate::remote;
use crate::signals::Taker;

impl Host for Core {
    #[inline]
    fn pull(&mut self, out: &mut Outbox, at: (u32, usize), max: usize, batch: &mut Batch) {
        let Some(from) = self.wires.source(at.0, at.1) else { return };
        if self.tracer.is_some() {
            return self.pull_traced(out, from, max, batch);
        }
        self.pull_plain(out, from, max, batch);
    }

    fn set_timer(&mut self, node: u32, token: u32, at: i64) {
        if !self.layout.parked[node as usize] {
            self.timers.set(node, token, at);
        }
    }

    fn clear_timer(&mut self, node: u32, token: u32) {
        self.timers.clear(node, token);
    }

    fn watch(&mut self, key: RawFd, fd: Option<OwnedFd>) {
        self.fds.retain(|(watched, _)| *watched != key);
        self.fds.extend(fd.map(|fd| (key, fd)));
    }

    #[inline]
    fn visit(&mut self, out: &mut Outbox, node: u32, visit: &mut Visit<'_>) {
        let found = self.elements.get_mut(node as usize).and_then(Option::take);
        let Some(mut element) = found else { return };
        visit(&mut *element, out, self);
        self.elements[node as usize] = Some(element);
    }

    fn log(&mut self, line: &str) {
        self.control.log(line);
    }

    fn find(&self, node: u32, name: &str) -> Option<u32> {
        self.layout.find_from(node as usize, name).map(|found| found as u32)
    }

    fn describe(&self, node: u32) -> Option<(&str, &str)> {
        let decl = self.layout.graph.elements.get(node as usize)?;
        Some((&decl.name, &decl.class))
    }

    fn spec(&self, node: u32) -> Option<&'static Spec> {
        Some(&self.layout.entries.get(node as usize)?.as_ref()?.spec)
    }

    fn burst(&self) -> usize {
        self.burst
    }
}

impl Wiring for Core {
    fn inputs(&self, node: u32) -> usize {
        self.wires.inputs(node)
    }

    fn is_pull_input(&self, node: u32, port: usize) -> bool {
        self.wires.source(node, port).is_some()
    }

    fn input_of(&self, slot: u32) -> Option<(u32, usize)> {
        self.wires.slots.get(slot as usize).map(|at| (at.node, at.port as usize))
    }

    fn shortcut_pull(&mut self, node: u32, output: usize, input: usize) {
        self.wires.shortcut_pull(node, output, input);
    }

    fn set_store(&mut self, node: u32, store: Store) {
        self.wires.set_store(node, store);
    }

    fn store(&self, node: u32) -> Option<Store> {
        self.wires.store(node)
    }

    fn storage(&self, node: u32) -> Option<Storage> {
        let element = self.elements.get(node as usize)?.as_deref()?;
        let buffer = self.layout.entries[node as usize]?.buffer(element);
        buffer.and_then(Buffer::storage).or_else(|| self.handoffs.storage(node))
    }

    fn backlog(&self, node: u32) -> Option<Backlog> {
        if let Some(Storage { len, capacity }) = self.handoffs.storage(node) {
            return Some(Backlog { packets: len, accepts: len < capacity });
        }
        let element = self.elements.get(node as usize)?.as_deref()?;
        let buffer = self.layout.entries[node as usize]?.buffer(element)?;
        Some(Backlog { packets: buffer.holding(), accepts: buffer.accepts() })
    }

    fn stores_downstream(&self, out: &Outbox, node: u32, port: usize) -> Option<Vec<u32>> {
        self.wires.stores_downstream(out, node, port)
    }

    fn pressing_downstream(&self, out: &Outbox, node: u32, ends: &[u32]) -> Vec<u32> {
        self.wires.pressing_downstream(out, node, ends)
    }

    fn nearest(
        &self,
        out: &Outbox,
        from: (u32, usize, bool),
        wanted: &dyn Fn(u32) -> bool,
    ) -> Vec<u32> {
        self.wires.nearest(out, from, wanted)
    }
}

impl Threads for Core {
    #[inline]
    fn handoff(&mut self, node: u32, thread: usize, batch: &mut Batch) -> usize {
        debug_assert!(
            self.layout.graph.elements[node as usize].spec.threading.hands_off(),
            "declared"
        );
        let handed = self.handoffs.put(node, thread, batch);
        self.control.mailbox(thread).wake();
        handed
    }

    fn handing(&self) -> usize {
        Core::handing(self)
    }

    fn having(&self, node: u32) -> &[usize] {
        &self.layout.threads[node as usize]
    }

    fn home(&self, node: u32) -> usize {
        self.layout.home[node as usize]
    }

    #[inline]
    fn wake_takers(&mut self, node: u32) {
        let takers = self.takers[node as usize].iter();
        takers.for_each(|thread| self.control.mailbox(*thread).wake());
    }

    fn wake(&mut self, thread: usize) {
        self.control.mailbox(thread).wake();
    }
}

impl Calls for Core {
    fn read(&mut self, out: &mut Outbox, node: u32, call: &str) -> Result<String, HandlerError> {
        self.read_from(out, node, call)
    }

    fn write(
        &mut self,
        out: &mut Outbox,
        node: u32,
        call: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        self.write_from(out, node, call, value)
    }

    fn write_later(&mut self, node: u32, call: String, value: String) {
        let origin = self.origin.clone();
        self.later.push(Later { node, call, value, origin });
    }

    fn report(&mut self, call: String, error: HandlerError) {
        self.report_failure(call, error);
    }

    fn origin(&self) -> Origin {
        self.origin.clone()
    }

    fn set_origin(&mut self, origin: Origin) -> Origin {
        std::mem::replace(&mut self.origin, origin)
    }

    fn remote(&self, node: u32) -> Option<Arc<dyn Remote>> {
        Some(remote::of(&self.layout, &self.control, node))
    }
}

impl Driver for Core {
    fn stop(&mut self) {
        self.control.stop();
    }

    fn pending_stops(&mut self, take: bool) -> u32 {
        self.control.pending_stops(take)
    }

    fn manage_stops(&mut self, node: u32, on: bool) -> Result<(), String> {
        self.control.manage(node, on).map_err(|other| {
            let name = self.layout.graph.elements.get(other as usize).map_or("", |decl| &decl.name);
            format!("'{name}' decides about stops already; only one element can")
        })
    }

    fn take_signal(&mut self, node: u32, signal: i32) -> Result<(), String> {
        self.control.takers().take(Taker { signal, thread: self.thread, node })
    }

    fn raise(&mut self, signal: i32) -> bool {
        self.control.signal(signal)
    }

    fn add_log_sink(&mut self, sink: LogSink) {
        self.control.add_log_sink(sink);
    }
}

impl Flows for Core {
    fn manager(&mut self) -> Option<&mut Manager> {
        self.flows.as_deref_mut()
    }

    #[inline]
    fn take_manager(&mut self) -> Option<Box<Manager>> {
        self.flows.take()
    }

    #[inline]
    fn put_manager(&mut self, manager: Box<Manager>) {
        let before = self.flows.replace(manager);
        debug_assert!(before.is_none(), "it was taken out");
        // PERF: nothing is dropped: an assignment would look, and take twice the instructions.
        std::mem::forget(before);
    }

    fn notify_ended(&mut self, out: &mut Outbox) {
        self.notify_functions(out);
    }

    fn transfer(&mut self, node: u32, transfer: &mut Transfer<'_>) {
        let Some((element, entry)) = self.at_rest(node) else { return };
        entry.session_transfer_mut(element).into_iter().for_each(transfer);
    }

    fn connections(&mut self, node: u32, visit: &mut Connections<'_>) {
        let Some((element, entry)) = self.at_rest(node) else { return };
        entry.connection_transfer_mut(element).into_iter().for_each(visit);
    }

    fn streams(&mut self, node: u32, visit: &mut Streams<'_>) {
        let Some((element, entry)) = self.at_rest(node) else { return };
        entry.stream_transfer_mut(element).into_iter().for_each(visit);
    }

    fn is_in_stream(&self, node: u32) -> bool {
        let Some(entry) = self.layout.entries.get(node as usize).copied().flatten() else {
            return false;
        };
        let is_edge =
            matches!(entry.spec.purpose, Purpose::BeginContext(_) | Purpose::EndContext(_));
        let element = self.elements.get(node as usize).and_then(|element| element.as_deref());
        let member = element.and_then(|element| entry.stream_member(element));
        is_edge || member.is_some_and(|member| member.needs().is_some())
    }

    fn session_mover(&mut self, node: u32, visit: &mut dyn FnMut(&mut dyn SessionMover)) {
        let Some((element, entry)) = self.at_rest(node) else { return };
        entry.session_mover_mut(element).into_iter().for_each(visit);
    }

    fn probe(
        &mut self,
        out: &mut Outbox,
        node: u32,
        packet: Packet,
        stands_for: [u64; 2],
    ) -> Probed {
        self.send_probe(out, node, packet, stands_for)
    }
}

//! Connections of contexts (TCPIn) for a backup host: exported here, imported there.

use thruway_flow::manager::{Installed, Key, Manager};
use thruway_flow::plan::LevelId;
use thruway_flow::{Direction, Fcb};

use super::Transfers;
use crate::connection_transfer::{ConnectionParts, ConnectionTransfer};
use crate::parts::{parts, write_part};

impl Transfers<'_> {
    /// Whether the function `node` of this thread belongs to streams: sessions of other hosts begin
    /// anew for it.
    pub fn is_in_stream(&self, node: u32) -> bool {
        self.host.is_in_stream(node)
    }

    /// What a function in streams of this thread must have alike on the other host; `None` if no
    /// other host can go on with its streams.
    pub fn stream_identity(&mut self, node: u32) -> Option<String> {
        let mut identity = None;
        self.host.streams(node, &mut |function| identity = Some(function.identity()));
        identity
    }

    /// Exports what contexts know of the connection in a record, and what functions do if it is to
    /// go on at the other host; overwrites `parts`. False if that is nothing.
    pub fn export_connection(
        &mut self,
        (level, index): (u8, u32),
        goes_on: bool,
        parts: &mut ConnectionParts,
    ) -> bool {
        parts.contexts.clear();
        let Some(flows) = self.host.take_manager() else { return false };
        let session = Installed { level, index };
        let is_complete = goes_on && self.export_functions(&flows, session, &mut parts.functions);
        let [one, other] = &parts.functions;
        let functions = is_complete.then_some([&one[..], &other[..]]);
        for slot in 0.. {
            let Some((at, node)) = flows.slot(session, slot) else { break };
            let Some(state) = flows.state(&at) else { continue };
            let mut due = None;
            let host = &mut *self.host;
            write_part(slot, &mut parts.contexts, |out| {
                let mut is_exported = false;
                host.connections(node, &mut |context| {
                    is_exported = context.export(state, functions, out);
                    due = context.due();
                });
                is_exported
            });
            if let Some(due) = due {
                self.host.set_timer(node, 0, due);
            }
        }
        self.host.put_manager(flows);
        !parts.contexts.is_empty()
    }

    /// Exports the states of functions in a connection, by direction; whether all of them, and one
    /// context only, can go on with it.
    fn export_functions(
        &mut self,
        flows: &Manager,
        session: Installed,
        parts: &mut [Vec<u8>; 2],
    ) -> bool {
        parts.iter_mut().for_each(Vec::clear);
        let mut contexts = 0;
        for slot in 0.. {
            let Some((at, node)) = flows.slot(session, slot) else { break };
            if !self.host.is_in_stream(node) {
                continue;
            }
            let mut is_context = false;
            self.host.connections(node, &mut |_| is_context = true);
            contexts += usize::from(is_context);
            let Some(state) = flows.state(&at).filter(|_| !is_context) else { continue };
            for (direction, parts) in parts.iter_mut().enumerate() {
                let host = &mut *self.host;
                let is_exported = write_part(slot, parts, |out| {
                    let mut is_exported = false;
                    host.streams(node, &mut |function| {
                        is_exported = function.export(state, direction, out);
                    });
                    is_exported
                });
                if !is_exported {
                    return false;
                }
            }
        }
        contexts == 1
    }

    /// Whether packets of the connection in a record are with functions: it is exported when they
    /// have left.
    pub fn is_connection_busy(&mut self, (level, index): (u8, u32)) -> bool {
        let Some(flows) = self.host.take_manager() else { return false };
        let mut is_busy = false;
        for slot in 0.. {
            let Some((at, node)) = flows.slot(Installed { level, index }, slot) else { break };
            let Some(state) = flows.state(&at) else { continue };
            self.host.connections(node, &mut |context| {
                is_busy |= context.is_busy(state);
            });
        }
        self.host.put_manager(flows);
        is_busy
    }

    /// Gives functions the states of one direction that another host exported for a context. `fcb`
    /// is the word of that direction's packets.
    ///
    /// # Errors
    /// Why one of them cannot go on with that.
    pub fn restore_stream(
        &mut self,
        fcb: u32,
        direction: usize,
        functions: &[u8],
    ) -> Result<(), &'static str> {
        let session = Fcb(fcb).session().ok_or("a connection without a session")?;
        let session = Installed { level: session.0, index: session.1 };
        let Some(mut flows) = self.host.take_manager() else {
            return Err("there is no FlowClassifier");
        };
        let result = parts(functions).try_for_each(|part| {
            let (slot, part) = part.ok_or("the state of a function is cut short")?;
            let (at, node) = flows.slot(session, slot).ok_or("a function that is not here")?;
            let state = flows.scratch_or_zeros(&at);
            let mut imported = Err("a function that cannot go on with streams of other hosts");
            self.host.streams(node, &mut |function| {
                imported = function.import(part, direction, state);
            });
            imported.inspect(|()| flows.set_opened(&at))
        });
        self.host.put_manager(flows);
        result
    }

    /// Gives contexts what they exported at the host that serves.
    ///
    /// # Errors
    /// Why one of them cannot know the connection.
    pub fn import_connection(
        &mut self,
        level: LevelId,
        key: Key,
        bytes: &[u8],
    ) -> Result<(), &'static str> {
        let Some(mut flows) = self.host.take_manager() else {
            return Err("there is no FlowClassifier");
        };
        let result = (|| {
            let session =
                flows.session(level, &key).ok_or("there is no session of a connection")?;
            let fcb = |direction| Fcb::of_session(level, session.index, direction, false).0;
            let fcbs = [fcb(Direction::Forward), fcb(Direction::Reply)];
            for part in parts(bytes) {
                let (slot, part) = part.ok_or("the state of a connection is cut short")?;
                let (at, node) = flows.slot(session, slot).ok_or("a context that is not here")?;
                let state = flows.scratch_or_zeros(&at);
                let mut imported = Err("a context that takes no connections of other hosts");
                self.host.connections(node, &mut |context| {
                    imported = context.import(part, fcbs, state);
                });
                imported?;
                flows.set_opened(&at);
            }
            Ok(())
        })();
        self.host.put_manager(flows);
        result
    }

    /// Has contexts know that this host serves the traffic from now on, or no longer does.
    pub fn set_serving(&mut self, serves: bool) {
        let now = self.out.now();
        self.each_context(|context| context.serve(now, serves));
    }

    /// Has contexts know that there is a backup that goes on with connections, or none any more.
    pub fn set_replicating(&mut self, is_live: bool) {
        self.each_context(|context| context.replicate(is_live));
    }

    /// Whether there are contexts of connections.
    pub fn has_connections(&mut self) -> bool {
        let mut has = false;
        self.each_context(|_| has = true);
        has
    }

    fn each_context(&mut self, mut visit: impl FnMut(&mut dyn ConnectionTransfer)) {
        let Some(flows) = self.host.manager() else { return };
        let levels = 0..flows.plan().levels.len() as LevelId;
        let mut nodes: Vec<u32> = levels.flat_map(|level| flows.functions(level)).collect();
        nodes.sort_unstable();
        nodes.dedup();
        for node in nodes {
            let mut due = None;
            self.host.connections(node, &mut |context| {
                visit(context);
                due = context.due();
            });
            if let Some(due) = due {
                self.host.set_timer(node, 0, due);
            }
        }
    }
}

//! Connections of contexts (TCPIn) for a backup host: exported here, imported there.

use thruway_flow::manager::{Installed, Key};
use thruway_flow::plan::LevelId;
use thruway_flow::{Direction, Fcb};

use crate::Cx;
use crate::connection_transfer::connection_parts;

/// Bytes in front of a context's part: its slot and its length.
const PART_HEAD: usize = 3;

impl Cx<'_> {
    /// Whether the function `node` of this thread belongs to streams: sessions of other hosts begin
    /// anew for it.
    pub fn is_in_stream(&self, node: u32) -> bool {
        self.host.is_in_stream(node)
    }

    /// Exports what contexts know of the connection in a record into `parts`, which it overwrites;
    /// false if that is nothing.
    pub fn export_connection(&mut self, (level, index): (u8, u32), parts: &mut Vec<u8>) -> bool {
        parts.clear();
        let Some(flows) = self.take_flows() else { return false };
        for slot in 0.. {
            let Some((at, node)) = flows.slot(Installed { level, index }, slot) else { break };
            let Some(state) = flows.state(&at) else { continue };
            let begin = parts.len();
            parts.extend_from_slice(&[slot as u8, 0, 0]);
            let mut is_exported = false;
            self.host.connections(self.wires, node, &mut |context| {
                is_exported = context.export(state, parts);
            });
            match u16::try_from(parts.len() - begin - PART_HEAD) {
                Ok(len) if is_exported => {
                    parts[begin + 1..begin + PART_HEAD].copy_from_slice(&len.to_be_bytes());
                }
                _ => parts.truncate(begin),
            }
        }
        self.put_flows(flows);
        !parts.is_empty()
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
        let Some(mut flows) = self.take_flows() else { return Err("there is no FlowClassifier") };
        let result = (|| {
            let session =
                flows.session(level, &key).ok_or("there is no session of a connection")?;
            let fcb = |direction| Fcb::of_session(level, session.index, direction, false).0;
            let fcbs = [fcb(Direction::Forward), fcb(Direction::Reply)];
            for part in connection_parts(bytes) {
                let (slot, part) = part.ok_or("the state of a connection is cut short")?;
                let (at, node) = flows.slot(session, slot).ok_or("a context that is not here")?;
                if !flows.is_opened(&at) {
                    flows.scratch_mut(&at).fill(0);
                }
                let state = flows.scratch_mut(&at);
                let mut imported = Err("a context that takes no connections of other hosts");
                self.host.connections(self.wires, node, &mut |context| {
                    imported = context.import(part, fcbs, state);
                });
                imported?;
                flows.set_opened(&at);
            }
            Ok(())
        })();
        self.put_flows(flows);
        result
    }

    /// Has contexts know that this host serves the traffic from now on, or no longer does.
    pub fn set_serving(&mut self, serves: bool) {
        let now = self.now();
        let Some(flows) = self.flows() else { return };
        let levels = 0..flows.plan().levels.len() as LevelId;
        let mut nodes: Vec<u32> = levels.flat_map(|level| flows.functions(level)).collect();
        nodes.sort_unstable();
        nodes.dedup();
        for node in nodes {
            let mut due = None;
            self.host.connections(self.wires, node, &mut |context| {
                due = context.serve(now, serves);
            });
            if let Some(due) = due {
                self.host.set_timer(node, 0, due);
            }
        }
    }
}

//! Transfer of sessions to another host: exported here, imported there.

use thruway_flow::manager::{Installed, Manager, SessionImage};

use crate::Cx;
use crate::answers::Asked;
use crate::session_transfer::states;

impl Cx<'_> {
    /// Whether another host can take over sessions of the function `node` of this thread.
    pub fn can_transfer(&mut self, node: u32) -> bool {
        let mut can = false;
        self.host.transfer(self.wires, node, &mut |_| can = true);
        can
    }

    /// Exports the session of a record into `states`, which it overwrites; `None` if the record has
    /// no session or one of its functions cannot be replicated.
    pub fn export_session(
        &mut self,
        (level, index): (u8, u32),
        states: &mut Vec<u8>,
    ) -> Option<SessionImage> {
        states.clear();
        let flows = self.take_flows()?;
        let image = flows.image(level, index, self.now());
        let exported =
            image.filter(|_| self.export_states(&flows, Installed { level, index }, states));
        self.put_flows(flows);
        exported
    }

    fn export_states(&mut self, flows: &Manager, session: Installed, states: &mut Vec<u8>) -> bool {
        for slot in 0.. {
            let Some((at, node)) = flows.slot(session, slot) else { return true };
            let Some(state) = flows.state(&at) else { continue };
            let begin = states.len();
            states.extend_from_slice(&[slot as u8, 0]);
            let mut is_exported = None;
            self.host.transfer(self.wires, node, &mut |function| {
                is_exported = Some(function.export(state, states));
            });
            if is_exported.is_none() {
                // A function of streams: it begins anew, or its context closes the connection.
                states.truncate(begin);
                continue;
            }
            let len = u8::try_from(states.len() - begin - 2);
            let (Ok(len), Some(true)) = (len, is_exported) else { return false };
            states[begin + 1] = len;
        }
        true
    }

    /// Installs a session that another host exported, or brings it up to date.
    ///
    /// # Errors
    /// Why this host cannot take the session over; then there is no such session.
    pub fn import_session(
        &mut self,
        image: &SessionImage,
        bytes: &[u8],
    ) -> Result<Installed, &'static str> {
        let now = self.now();
        let Some(mut flows) = self.take_flows() else { return Err("there is no FlowClassifier") };
        let installed = flows.install(image, now).map_err(|_| "the table has no room for it");
        let result = installed.and_then(|session| {
            let imported = self.import_states(&mut flows, session, bytes);
            imported.inspect_err(|_| flows.remove_record(session.level, session.index))?;
            Ok(session)
        });
        self.put_flows(flows);
        self.host.notify_ended(self.wires);
        result
    }

    fn import_states(
        &mut self,
        flows: &mut Box<Manager>,
        session: Installed,
        bytes: &[u8],
    ) -> Result<(), &'static str> {
        for state in states(bytes) {
            let (slot, state) = state.ok_or("the functions' state is cut short")?;
            let (at, node) = flows.slot(session, slot).ok_or("a function that is not here")?;
            if flows.is_opened(&at) {
                continue;
            }
            flows.scratch_mut(&at).fill(0);
            let mut scratch = flows.scratch_mut(&at).to_vec();
            let mut imported = Err("a function that cannot take sessions of other hosts");
            self.host.transfer(self.wires, node, &mut |function| {
                let answers = &mut Asked { flows, at };
                imported = function.import(state, answers, &mut scratch);
            });
            imported?;
            flows.scratch_mut(&at).copy_from_slice(&scratch);
            flows.set_opened(&at);
        }
        Ok(())
    }

    /// Ends sessions as `end` does with the flow manager, and has functions know.
    pub fn end_sessions(&mut self, end: impl FnOnce(&mut Manager)) {
        if let Some(flows) = self.flows() {
            end(flows);
        }
        self.host.notify_ended(self.wires);
    }
}

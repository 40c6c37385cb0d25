//! Transfer of sessions to another host: exported here, imported there.

use thruway_flow::manager::{Installed, Manager, SessionImage};

use crate::answers::Asked;
use crate::cx::Cx;
use crate::host::Flows;
use crate::outbox::Outbox;
use crate::session_transfer::states;

/// The sessions of a thread, for transfer to another host: see [`Cx::transfers`].
pub struct Transfers<'a> {
    out: &'a mut Outbox,
    host: &'a mut dyn Flows,
}

impl Cx<'_> {
    /// The sessions of this thread, for an element that transfers them to another host.
    pub fn transfers(&mut self) -> Transfers<'_> {
        let (out, host) = self.sessions();
        Transfers { out, host }
    }
}

impl Transfers<'_> {
    /// Whether another host can take over sessions of the function `node` of this thread.
    pub fn are_possible(&mut self, node: u32) -> bool {
        let mut can = false;
        self.host.transfer(node, &mut |_| can = true);
        can
    }

    /// Exports the session of a record into `states`, which it overwrites; `None` if the record has
    /// no session or one of its functions cannot be replicated.
    pub fn export(
        &mut self,
        (level, index): (u8, u32),
        states: &mut Vec<u8>,
    ) -> Option<SessionImage> {
        states.clear();
        let flows = self.host.take_manager()?;
        let image = flows.image(level, index, self.out.now());
        let exported =
            image.filter(|_| self.export_states(&flows, Installed { level, index }, states));
        self.host.put_manager(flows);
        exported
    }

    fn export_states(&mut self, flows: &Manager, session: Installed, states: &mut Vec<u8>) -> bool {
        for slot in 0.. {
            let Some((at, node)) = flows.slot(session, slot) else { return true };
            let Some(state) = flows.state(&at) else { continue };
            let begin = states.len();
            states.extend_from_slice(&[slot as u8, 0]);
            let mut is_exported = false;
            self.host.transfer(node, &mut |function| {
                is_exported = function.export(state, states);
            });
            let len = u8::try_from(states.len() - begin - 2);
            let (Ok(len), true) = (len, is_exported) else { return false };
            states[begin + 1] = len;
        }
        true
    }

    /// Installs a session that another host exported, or brings it up to date.
    ///
    /// # Errors
    /// Why this host cannot take the session over; then there is no such session.
    pub fn import(
        &mut self,
        image: &SessionImage,
        bytes: &[u8],
    ) -> Result<Installed, &'static str> {
        let now = self.out.now();
        let Some(mut flows) = self.host.take_manager() else {
            return Err("there is no FlowClassifier");
        };
        let installed = flows.install(image, now).map_err(|_| "the table has no room for it");
        let result = installed.and_then(|session| {
            let imported = self.import_states(&mut flows, session, bytes);
            imported.inspect_err(|_| flows.remove_record(session.level, session.index))?;
            Ok(session)
        });
        self.host.put_manager(flows);
        self.host.notify_ended(self.out);
        result
    }

    fn import_states(
        &mut self,
        flows: &mut Manager,
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
            self.host.transfer(node, &mut |function| {
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
    pub fn end(&mut self, end: impl FnOnce(&mut Manager)) {
        if let Some(flows) = self.host.manager() {
            end(flows);
        }
        self.host.notify_ended(self.out);
    }
}

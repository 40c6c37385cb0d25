//! Transfer of sessions to another host: exported here, imported there.

mod connections;

use thruway_flow::manager::{Installed, Manager, SessionImage};

use crate::answers::Asked;
use crate::cx::Cx;
use crate::host::Host;
use crate::outbox::Outbox;
use crate::parts::{parts, write_part};
use crate::session_transfer::{SessionTransfer, TransferForm};

/// The sessions of a thread, for transfer to another host: see [`Cx::transfers`].
pub struct Transfers<'a> {
    out: &'a mut Outbox,
    host: &'a mut dyn Host,
}

impl Cx<'_> {
    /// The sessions of this thread, for an element that transfers them to another host.
    pub fn transfers(&mut self) -> Transfers<'_> {
        let (out, host) = self.sessions();
        Transfers { out, host }
    }
}

impl Transfers<'_> {
    /// What `ask` gets of the function `node` of this thread; `None` if that takes no part in the
    /// transfer of sessions to another host.
    fn ask_function<T>(
        &mut self,
        node: u32,
        mut ask: impl FnMut(&mut dyn SessionTransfer) -> T,
    ) -> Option<T> {
        let mut answer = None;
        self.host.transfer(node, &mut |function| answer = Some(ask(function)));
        answer
    }

    /// What another host must have in common to take over sessions of the function `node` of this
    /// thread, or why none can; `None` if the function takes no part in that.
    pub fn form(&mut self, node: u32) -> Option<Result<TransferForm, String>> {
        self.ask_function(node, |function| function.form())
    }

    /// How many sessions of the function `node` may have changed by packets since
    /// [`Transfers::next_changed`] gave them.
    pub fn count_changed(&mut self, node: u32) -> usize {
        self.ask_function(node, |function| function.count_changed()).unwrap_or(0)
    }

    /// The session, as level and record, that the function `node` changed with packets and that was
    /// given longest ago.
    pub fn next_changed(&mut self, node: u32) -> Option<(u8, u32)> {
        self.ask_function(node, |function| function.next_changed()).flatten()
    }

    /// Whether the function `node`, if it takes part in the transfer of sessions, holds no packet.
    pub fn is_settled(&mut self, node: u32) -> bool {
        self.ask_function(node, |function| function.is_settled()).unwrap_or(true)
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
            let mut takes_part = true;
            let export = |out: &mut Vec<u8>| {
                let exported = self.ask_function(node, |function| {
                    function.exported((session.level, session.index), state);
                    function.export(state, out)
                });
                takes_part = exported.is_some();
                exported.unwrap_or(false)
            };
            // A function of streams takes none: it begins anew, or its context closes the
            // connection.
            if !write_part(slot, states, export) && takes_part {
                return false;
            }
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
        for state in parts(bytes) {
            let (slot, state) = state.ok_or("the functions' state is cut short")?;
            let (at, node) = flows.slot(session, slot).ok_or("a function that is not here")?;
            let is_update = flows.is_opened(&at);
            let mut scratch = flows.scratch_or_zeros(&at).to_vec();
            let imported = self.ask_function(node, |function| {
                if is_update {
                    return function.update(state, &mut scratch);
                }
                function.import(state, &mut Asked { flows, at }, &mut scratch)
            });
            imported.unwrap_or(Err("a function that cannot take sessions of other hosts"))?;
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

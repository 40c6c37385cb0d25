//! What both hosts must have in common.

use thruway_element::{Cx, PART_HEAD_LEN, TransferForm};
use thruway_replication::STATES_LEN_MAX;

/// The replicated data of a chain.
#[derive(Default)]
pub(super) struct Chain {
    /// A description that both hosts compare: classes, and functions of sessions.
    pub text: String,
    /// The functions of sessions, as nodes.
    pub functions: Vec<u32>,
    /// Of each the longest state of a session, in bytes.
    lens_max: Vec<usize>,
    /// Longest states of a session, in bytes.
    pub states_len_max: usize,
}

impl Chain {
    /// Of this thread's configuration.
    ///
    /// # Errors
    /// Why its sessions cannot be replicated.
    pub fn of(cx: &mut Cx<'_>) -> Result<Chain, String> {
        let Some(flows) = cx.flows() else {
            return Err("needs a FlowClassifier: there are no sessions".into());
        };
        let mut chain = Chain {
            text: format!("classes {:016x}", flows.plan().fingerprint()),
            ..Chain::default()
        };
        let levels = 0..flows.plan().levels.len() as u8;
        let mut of_levels: Vec<Vec<u32>> = Vec::new();
        for level in levels {
            let table = &flows.plan().levels[usize::from(level)];
            if !flows.is_replicable(level) {
                return Err(format!(
                    "sessions '{}' of {} cannot be replicated: only 'connection' can, in one \
                     thread and without coarser sessions (pair, source)",
                    table.session, table.family
                ));
            }
            chain.text += &format!("; {} {}:", table.family, table.session);
            let functions: Vec<u32> = flows.functions(level).collect();
            functions.iter().for_each(|node| chain.text += &format!(" {node}"));
            of_levels.push(functions);
        }
        for functions in of_levels {
            let mut states_len = 0;
            for node in functions {
                states_len += PART_HEAD_LEN + chain.state_len_max(cx, node)?;
            }
            chain.states_len_max = chain.states_len_max.max(states_len);
        }
        if chain.states_len_max > STATES_LEN_MAX {
            return Err(format!(
                "the functions may keep {} bytes of a session, and at most {STATES_LEN_MAX} can be \
                 replicated: lower SCRATCH of each Nf to what its function keeps",
                chain.states_len_max
            ));
        }
        Ok(chain)
    }

    /// Longest state of a session of a function, which is added where it is new: a function says
    /// once what it has in common with the other host's, for that may take a while.
    fn state_len_max(&mut self, cx: &mut Cx<'_>, node: u32) -> Result<usize, String> {
        if let Some(at) = self.functions.iter().position(|known| *known == node) {
            return Ok(self.lens_max[at]);
        }
        let (name, class) = cx.describe(node).unwrap_or_default();
        let function = format!("{name} :: {class}");
        let TransferForm { identity, state_len_max } = form(cx, node)
            .map_err(|why| format!("sessions of '{function}' cannot be replicated: {why}"))?;
        self.functions.push(node);
        self.lens_max.push(state_len_max);
        self.text += &format!("; {node} {function}");
        if !identity.is_empty() {
            self.text += &format!(" ({identity})");
        }
        Ok(state_len_max)
    }
}

/// What a function has in common with the other host's.
fn form(cx: &mut Cx<'_>, node: u32) -> Result<TransferForm, String> {
    let mut transfers = cx.transfers();
    match transfers.form(node) {
        Some(form) => form,
        // It begins anew, or its context goes on with the connection or resets it.
        None if transfers.is_in_stream(node) => {
            let identity = transfers.stream_identity(node).unwrap_or_default();
            Ok(TransferForm { identity, state_len_max: 0 })
        }
        None => Err("only those of NAT, StatefulFirewall, Nf and functions of streams can".into()),
    }
}

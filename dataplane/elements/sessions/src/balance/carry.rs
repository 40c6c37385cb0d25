//! Moves a function's record of a session from one replica to another.

use thruway_element::{Cx, SessionMover};
use thruway_flow::manager::At;

use super::assigned::own_state;
use super::spread::{Replica, Spread};

/// Bytes that the flow manager keeps of a session for a function that can give it away.
const STATE_LEN: usize = 8;

/// The length of the records of a replica's function.
///
/// # Errors
/// Why its sessions cannot move.
pub(super) fn record_len(
    cx: &mut Cx<'_>,
    spread: &Spread,
    replica: Replica,
) -> Result<usize, String> {
    let node = spread.function_of(replica);
    let len = node.and_then(|node| cx.session_mover(node, |mover| mover.record_len()));
    len.unwrap_or_else(|| Err("its output leads to no function: connect an Nf".to_owned()))
        .map_err(|why| format!("sessions of replica {replica} cannot move: {why}"))
}

/// Carries records.
#[derive(Default)]
pub(super) struct Carrier {
    record: Vec<u8>,
}

impl Carrier {
    /// Makes ready for records of this length.
    pub(super) fn prepare(&mut self, len: usize) {
        self.record.resize(len, 0);
    }

    /// Carries what the function keeps of a session from one replica to another. False, and nothing
    /// done, when it cannot.
    pub(super) fn carry(
        &mut self,
        cx: &mut Cx<'_>,
        spread: &Spread,
        (from, to): (Replica, Replica),
        session: (u8, u32),
    ) -> bool {
        let (Some(from), Some(to)) = (spread.function_of(from), spread.function_of(to)) else {
            return false;
        };
        let Some(flows) = cx.flows() else { return false };
        let old = own_state(flows, from, session);
        let (Some(old), Some(new)) = (old, own_state(flows, to, session)) else {
            // It is kept for more than this session.
            return false;
        };
        // Nothing may be known of it there yet.
        let Some((_, scratch)) = flows.enter(&old) else { return true };
        let Ok(before) = <[u8; STATE_LEN]>::try_from(&*scratch) else { return false };
        if flows.scratch_mut(&new).len() != STATE_LEN {
            return false;
        }
        let Some(after) = self.carry_record(cx, (from, to), &before) else { return false };
        self.note(cx, (&old, &new), &after);
        true
    }

    /// Carries a record; what the flow manager is to keep for the function that has it now.
    fn carry_record(
        &mut self,
        cx: &mut Cx<'_>,
        (from, to): (u32, u32),
        before: &[u8; STATE_LEN],
    ) -> Option<[u8; STATE_LEN]> {
        let record = &mut self.record;
        let is_known = cx.session_mover(from, |mover| mover.copy_record(before, record))??;
        let mut after = [0; STATE_LEN];
        let take = |mover: &mut dyn SessionMover| mover.take_record(record, is_known, &mut after);
        cx.session_mover(to, take)?.then_some(())?;
        cx.session_mover(from, |mover| mover.leave(before));
        Some(after)
    }

    fn note(&self, cx: &mut Cx<'_>, (old, new): (&At, &At), after: &[u8; STATE_LEN]) {
        if let Some(flows) = cx.flows() {
            flows.clear_opened(old);
            flows.scratch_mut(new).copy_from_slice(after);
            flows.set_opened(new);
        }
    }
}

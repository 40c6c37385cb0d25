//! Why a packet of a connection goes no further.

use thruway_element::{Drop, Reason};
use thruway_stream::tcp::DropReason;
use thruway_stream::unseen;

/// Reasons of the engine, as those of the elements.
pub const DROPS: [Drop; DropReason::ALL.len() + 1 + unseen::REASONS.len()] = {
    let mut drops = [Drop::new("no-room", "there are as many connections as may be"); _];
    let mut at = 0;
    while at < DropReason::ALL.len() {
        drops[at] = Drop::new(DropReason::ALL[at].1, DropReason::ALL[at].2);
        at += 1;
    }
    let mut at = 0;
    while at < unseen::REASONS.len() {
        drops[UNSEEN.0 as usize + at] = Drop::new(unseen::REASONS[at].0, unseen::REASONS[at].1);
        at += 1;
    }
    drops
};
/// Too many connections.
pub const NO_ROOM: Reason = Reason(DropReason::ALL.len() as u8);
/// The first of [`unseen::REASONS`].
pub const UNSEEN: Reason = Reason(NO_ROOM.0 + 1);

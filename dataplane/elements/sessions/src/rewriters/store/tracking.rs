//! A packet's effect on its mapping: which flags of a segment count, in this thread or in all.

use std::sync::Arc;

use thruway_flow::Direction;
use thruway_flow::shared_flows::{RecordId, SharedFlows};
use thruway_flow::tcp::{Segment, Side};

use crate::rewriters::state::is_done;

/// The flags of a segment that count, once its numbers have been noted.
#[inline]
pub(super) fn believed(sides: &mut [Side; 2], state: u8, is_reply: bool, segment: &Segment) -> u8 {
    if is_done(state) && segment.begins() {
        *sides = [Side::default(); 2];
    }
    let [forward, reply] = sides;
    let (own, other) = if is_reply { (reply, forward) } else { (forward, reply) };
    if own.goes_on(segment) { segment.flags } else { own.follow(other, segment) }
}

/// A packet reports on a mapping that others know: what is known of it now.
#[cold]
pub(super) fn publish(
    shared_flows: Option<&Arc<SharedFlows>>,
    record: u32,
    (segment, is_reply, now): (Option<&Segment>, bool, u32),
    track: impl Fn(u8, u8) -> u8,
) -> u8 {
    let (Some(shared_flows), Some(record)) = (shared_flows, record.checked_sub(1)) else {
        return track(0, 0);
    };
    let record = RecordId::from_index(record);
    shared_flows.touch(record, now);
    let flags_of = |segment| believed_by_all(shared_flows, record, is_reply, segment);
    let flags = segment.map_or(0, flags_of);
    let was = shared_flows.update_state(record, |state| u32::from(track(state as u8, flags)));
    track(was as u8, flags)
}

/// The flags of a segment that count, once all threads know its numbers.
fn believed_by_all(
    shared_flows: &SharedFlows,
    record: RecordId,
    is_reply: bool,
    segment: &Segment,
) -> u8 {
    let directions = [Direction::Forward, Direction::Reply];
    let before = directions.map(|direction| shared_flows.side(record, direction));
    let mut sides = before;
    let flags = believed(&mut sides, shared_flows.state(record) as u8, is_reply, segment);
    for (direction, (now, was)) in directions.into_iter().zip(sides.iter().zip(&before)) {
        if now != was {
            shared_flows.set_side(record, direction, now);
        }
    }
    flags
}

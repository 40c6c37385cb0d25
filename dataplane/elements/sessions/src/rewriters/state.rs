//! The state of a mapping: what its packets have shown, and what follows from it.

use thruway_flow::tcp::Segment;
use thruway_wire::tcp::flags;

/// Bits of a TCP mapping's state.
const FORWARD_DONE: u8 = 1;
const BOTH_DONE: u8 = 3;
const FORWARD_DATA: u8 = 4;
const BOTH_DATA: u8 = 12;
/// The other end has answered.
const ANSWERED: u8 = 16;
/// The initiator has sent after the answer.
const ESTABLISHED: u8 = 32;

/// Whether both ends of a TCP mapping in this state are done, so that a SYN begins another
/// connection.
pub(super) fn is_done(state: u8) -> bool {
    state & BOTH_DONE == BOTH_DONE
}

/// Bits of another mapping's: packets up to three, and whether there was a reply.
const REPLIED: u8 = 1;
const PACKET: u8 = 2;
/// Three packets, and one of them a reply.
const STREAMING: u8 = 3 * PACKET + REPLIED;

/// Timeouts by state: none of TCP's ends is done and data was not seen in both directions; data
/// was; both are done.
pub(super) fn tcp_by_state(nodata: u32, data: u32, done: u32) -> [u32; 16] {
    std::array::from_fn(|state| match state as u8 {
        state if state & BOTH_DONE == BOTH_DONE => done,
        state if state & BOTH_DATA == BOTH_DATA => data,
        _ => nodata,
    })
}

/// Timeouts by state: of streams and of others.
pub(super) fn others_by_state(few: u32, streaming: u32) -> [u32; 16] {
    std::array::from_fn(|state| if state as u8 == STREAMING { streaming } else { few })
}

/// States of TCP in which a mapping is evictable when there is no room for a new one, as bits: its
/// connection is not established yet, or over.
pub(super) fn tcp_yields() -> u64 {
    let is_established = |state: u8| state & ESTABLISHED != 0 || state & BOTH_DATA == BOTH_DATA;
    states(|state| is_done(state) || !is_established(state))
}

/// The same for other mappings: no answer was seen.
pub(super) fn others_yield() -> u64 {
    states(|state| state & REPLIED == 0)
}

/// A bit for each state that is one of these.
fn states(is_one: impl Fn(u8) -> bool) -> u64 {
    (0..64).filter(|state| is_one(*state)).fold(0, |bits, state| bits | 1 << state)
}

/// What a TCP segment reports on its mapping: of its flags those that are `believed` count.
#[inline]
pub(super) fn track_tcp(segment: &Segment, believed: u8, mut state: u8, is_reply: bool) -> u8 {
    if believed == 0 {
        return state;
    }
    let has_payload = segment.len > 0;
    let shift = u8::from(is_reply);
    if believed & flags::RST != 0 {
        state |= BOTH_DONE;
    } else if believed & flags::FIN != 0 {
        state |= FORWARD_DONE << shift;
    } else if believed & flags::SYN != 0 || has_payload {
        state &= !(FORWARD_DONE << shift);
    }
    if believed == flags::SYN && !is_reply {
        state &= !(ANSWERED | ESTABLISHED);
    } else if is_reply {
        state |= ANSWERED;
    } else if state & ANSWERED != 0 && believed & flags::SYN == 0 {
        state |= ESTABLISHED;
    }
    if has_payload { state | FORWARD_DATA << shift } else { state }
}

/// What a packet reports on its mapping by being there.
#[inline]
pub(super) fn track_packets(state: u8, is_reply: bool) -> u8 {
    let more = if state < 3 * PACKET { state + PACKET } else { state };
    more | if is_reply { REPLIED } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_choose_their_timeouts() {
        let tcp = tcp_by_state(1, 2, 3);
        assert_eq!([tcp[0], tcp[4], tcp[12], tcp[13], tcp[3], tcp[15]], [1, 1, 2, 2, 3, 3]);
        let others = others_by_state(1, 2);
        let seen = |packets: &[bool]| {
            let state = packets.iter().fold(0, |state, is_reply| track_packets(state, *is_reply));
            others[usize::from(state)]
        };
        assert_eq!(seen(&[false, true]), 1);
        assert_eq!(seen(&[false, true, true]), 2);
        assert_eq!(seen(&[false, false, true]), 2);
        assert_eq!(seen(&[false; 9]), 1);
        assert_eq!(seen(&[false, false, false, false, true]), 2);
    }
}

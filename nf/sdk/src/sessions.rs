//! Sessions that begin and end, told to the function in order with their packets.

use thruway_exchange::{Mapped, Worker};
use thruway_nf_abi::{SlotHead, flag};

use crate::cx::FunctionState;
use crate::function::Function;
use crate::session::Session;

/// What stands at the front of a link.
pub(crate) struct Front {
    /// News of ended sessions, which were told and are done with.
    pub news: u32,
    /// Packets up to the next news.
    pub packets: u32,
}

/// Shows the function what there is to tell before the first of `left` (at least one) waiting slots
/// that is a packet, and finds how many packets follow of which nothing is to be reported.
pub(crate) fn announce<F: Function>(
    function: &mut F,
    worker: &mut Worker<Mapped>,
    state: &mut FunctionState,
    left: u32,
) -> Front {
    let mut news = 0;
    while news < left {
        let head = worker.head(0);
        if head.flags & flag::RELEASED == 0 {
            if head.flags & flag::NEW != 0 {
                function.new_session(&mut Session { number: head.fcb, state });
            }
            break;
        }
        function.released_session(&mut Session { number: head.fcb, state });
        worker.set_head(0, SlotHead { flags: flag::DROPPED, ..head });
        worker.advance(1);
        news += 1;
    }
    let left = left - news;
    let is_news = |nth: &u32| worker.head(*nth).flags & flag::FROM_MASTER != 0;
    Front { news, packets: (1..left).find(is_news).unwrap_or(left) }
}

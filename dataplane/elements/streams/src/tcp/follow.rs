//! TCPIn where no function needs more than a look: packets stay in their batch, and what is known
//! of a connection is what the flow manager knows of its session.

use thruway_element::{Ended, Opening, PerSession, Reason, Session, Verdict};
use thruway_flow::Transport;
use thruway_packet::Packet;
use thruway_stream::content::{Content, HasContent};
use thruway_stream::tcp::{DropReason, mark_payload};
use thruway_wire::tcp::flags;

use super::session_state::{FOLLOWED, SessionState, is_tcp};

/// Looks at connections, and counts them.
#[derive(Default)]
pub(super) struct Follow {
    /// Whether connections are taken that were not seen to open.
    pub pick_up: bool,
    pub opened: u64,
    pub picked_up: u64,
    pub open: u64,
}

impl PerSession for Follow {
    type State = SessionState;

    fn open(
        &mut self,
        _opening: &mut Opening<'_>,
        packet: &mut Packet,
        state: &mut SessionState,
    ) -> Result<(), Reason> {
        if !is_tcp(packet) {
            return Ok(());
        }
        state.conn = FOLLOWED;
        let is_syn = packet.transport().get(13).is_some_and(|all| all & flags::SYN != 0);
        self.picked_up += u64::from(!is_syn);
        self.opened += 1;
        self.open += 1;
        Ok(())
    }

    #[inline]
    fn each(&mut self, packet: &mut Packet, session: &mut Session<'_, SessionState>) -> Verdict {
        if session.related || session.life.transport() != Transport::Tcp {
            return self.without(packet);
        }
        if !self.pick_up && session.life.is_picked_up() {
            return Verdict::Drop(Reason(DropReason::NotOpened as u8));
        }
        mark_payload(packet).map_or_else(|why| Verdict::Drop(Reason(why as u8)), |()| Verdict::Pass)
    }

    fn without(&mut self, packet: &mut Packet) -> Verdict {
        packet.set_content_mark(Content::NONE);
        Verdict::Pass
    }

    fn close(&mut self, state: &SessionState, _why: Ended) {
        self.open -= u64::from(state.conn == FOLLOWED).min(self.open);
    }
}

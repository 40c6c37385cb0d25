//! What is kept of a connection so that another host can go on with it.

use super::Seq;
use super::checkpoints::Checkpoints;
use super::image::Whole;

/// What is kept of a connection for that.
#[derive(Default)]
pub(super) struct Replica {
    /// The how manyth image was the last one.
    pub number: u32,
    /// By direction, at the serving host: the checkpoints that were written.
    pub written: [Checkpoints; 2],
    /// By direction, at the other one: those that it may begin at.
    pub known: [Checkpoints; 2],
    /// By direction, at a host that took over: the last checkpoint's place, out, until that much
    /// was sent again.
    pub known_to: [Option<Seq>; 2],
    /// By direction, until then: the last number that the receiver acknowledged.
    pub reached: [Option<Seq>; 2],
    /// By direction, where the receiver is not known to have reached the first one: that one's
    /// place, out.
    pub unproven: [Option<Seq>; 2],
    /// By direction: all before is sent again as the receiver asks for it. Its sender is not told
    /// yet how far the receiver is, and would begin too early.
    pub resend_to: [Option<Seq>; 2],
    /// At a host that took over: how long an acknowledgement of what the other one sent counts with
    /// any number near the expected one; later, with that alone.
    pub watched_until: Option<i64>,
    /// By direction, at a host that took over: what its sender is acknowledged, and since when and
    /// how often it sends the same again.
    pub repeated: [Option<(Seq, i64, u8)>; 2],
    /// At a backup: the last image was of a connection that can go on.
    pub can_go_on: bool,
}

/// Functions' states that are to be restored before anything of a direction is shown.
pub struct Restore {
    /// The connection.
    pub conn: u32,
    /// The flow manager's word in packets of the direction.
    pub fcb: u32,
    /// Which one.
    pub direction: usize,
    /// As functions wrote them.
    pub functions: Box<[u8]>,
}

impl Replica {
    /// Takes another image of the connection: one is missing if its number is not the next one.
    pub(super) fn take(&mut self, whole: Whole) {
        let is_next = whole.number == self.number.wrapping_add(1);
        self.number = whole.number;
        for (dir, (acked, checkpoint)) in whole.positions.into_iter().enumerate() {
            let known = &mut self.known[dir];
            if !is_next || !self.can_go_on {
                known.clear();
            }
            // One that lies before the last one is of another connection, between the same ports.
            if !known.push(checkpoint.clone()) {
                known.push(checkpoint);
            }
            known.acknowledge(acked);
            let first = known.first().map(|first| first.at_out);
            self.unproven[dir] = first.filter(|first| first.after(acked));
        }
        self.can_go_on = true;
    }

    /// How far a sender may be told that its bytes arrived, of which the receiver has those before
    /// `acked`. Behind the last checkpoint: only while no backup is there.
    pub(super) fn may_acknowledge(&self, dir: usize, acked: Seq, is_live: bool) -> Option<Seq> {
        let written = &self.written[dir];
        match written.last() {
            None => Some(acked),
            Some(last) if acked.after(last.at_in) && !is_live => Some(acked),
            Some(_) => written.floor(acked),
        }
    }
}

//! TCPOut, which hands what leaves to the TCPIn of its context.

use thruway_element::{Buffer, Cx, Element, Reason, StreamMember, StreamPlan};
use thruway_flow::Fcb;
use thruway_packet::{Batch, Packet};
use thruway_stream::content::{Content, HasContent, flag};
use thruway_stream::tcp::{DropReason, Out};

use super::enter::{TcpIn, send};

#[derive(Default)]
pub(super) struct TcpOut {
    enter: u32,
    out: Out,
    waiting: Batch,
    /// The flow manager's words of connections of which data left, which a backup has to know.
    changed: Vec<u32>,
}

impl TcpOut {
    /// Has these replicated: with output commit, what leaves of them waits for that.
    fn note_changes(&mut self, cx: &mut Cx<'_>) {
        self.changed.dedup();
        for fcb in self.changed.drain(..) {
            if let Some(((level, index), flows)) = Fcb(fcb).session().zip(cx.flows()) {
                flows.touch(level, index);
            }
        }
    }
}

impl Element for TcpOut {
    fn process(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        // Packets of no connection, or only inspected ones, are forwarded unchanged.
        let is_plain = |packet: &Packet| {
            let mark = packet.content_mark();
            mark.conn == 0 && !mark.has(flag::CLOSE | flag::CHANGED)
        };
        if self.waiting.is_empty() && batch.iter().all(is_plain) {
            batch.iter_mut().for_each(|packet| packet.set_content_mark(Content::NONE));
            cx.pass_on(port, batch);
            return;
        }
        let now = cx.now();
        let (out, waiting, changed) = (&mut self.out, &mut self.waiting, &mut self.changed);
        waiting.append(batch);
        cx.visit(self.enter, |enter, cx| {
            let Some(enter) = enter.downcast_mut::<TcpIn>() else { return };
            let is_replicating = enter.tcp.is_replicating();
            for packet in waiting.drain() {
                if is_replicating && packet.content_mark().is_shown() {
                    changed.push(packet.fcb());
                }
                enter.tcp.depart(port, packet, now, out);
            }
            enter.arm(cx);
        });
        self.note_changes(cx);
        // If TCPIn could not be visited, `waiting` keeps its packets for the next time.
        send(cx, &mut self.out, batch);
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.drop_all(Reason(DropReason::Closed as u8), &mut self.waiting);
        Ok(())
    }
}

impl Buffer for TcpOut {
    fn holding(&self) -> usize {
        self.waiting.len()
    }
}

impl StreamMember for TcpOut {
    fn take_stream(&mut self, plan: &StreamPlan) {
        self.enter = plan.enters.first().copied().unwrap_or(0);
    }
}

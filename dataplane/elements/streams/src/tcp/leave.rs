//! TCPOut, which hands what leaves to the TCPIn of its context.

use thruway_element::{Buffer, Cx, Element, Reason, StreamMember, StreamPlan};
use thruway_packet::{Batch, Packet};
use thruway_stream::content::{Content, HasContent, flag};
use thruway_stream::tcp::{DropReason, Out};

use super::enter::{TcpIn, send};

#[derive(Default)]
pub(super) struct TcpOut {
    enter: u32,
    out: Out,
    waiting: Batch,
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
        let (out, waiting) = (&mut self.out, &mut self.waiting);
        waiting.append(batch);
        cx.visit(self.enter, |enter, cx| {
            let Some(enter) = enter.downcast_mut::<TcpIn>() else { return };
            for packet in waiting.drain() {
                enter.tcp.depart(port, packet, now, out);
            }
            enter.arm(cx);
        });
        // If TCPIn could not be visited, `waiting` keeps its packets for the next time.
        send(cx, out, batch);
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

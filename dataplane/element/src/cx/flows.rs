//! The flow manager as an element sees it.

use thruway_flow::manager::{Input, Manager, Refusal};
use thruway_packet::Batch;

use crate::Cx;
use crate::reason::Reason;
use crate::session_mover::SessionMover;

impl Cx<'_> {
    /// Runs `work` with the flow manager, where the configuration has one, taken out so that
    /// packets can be sent meanwhile.
    #[inline]
    pub fn with_flows<T>(&mut self, work: impl FnOnce(&mut Self, &mut Manager) -> T) -> Option<T> {
        let mut flows = self.host.take_manager()?;
        let result = work(self, &mut flows);
        self.host.put_manager(flows);
        Some(result)
    }

    /// The flow manager of this thread, where the configuration has one.
    pub fn flows(&mut self) -> Option<&mut Manager> {
        self.host.manager()
    }

    /// Has the flow manager look up class and session of each packet of a batch. Drops refused
    /// packets for the reason that `reason` returns. Hands packets of a session that another thread
    /// serves off to that thread's replica of this element.
    #[inline]
    pub fn classify(
        &mut self,
        input: Input,
        batch: &mut Batch,
        reason: impl Fn(Refusal) -> Reason,
    ) {
        let (node, now) = (self.node, self.now());
        let news = self.with_flows(|cx, flows| {
            flows.classify((node, input), batch, now, |packet, refusal| match refusal {
                // A probe reports on this thread.
                Refusal::Elsewhere(_) if cx.is_probe() => {}
                Refusal::Elsewhere(to) => cx.stage(usize::from(to), packet),
                _ => cx.drop(reason(refusal), packet),
            });
            cx.hand_staged(|to, rest| flows.not_handed(to as u16, rest));
            (flows.next_ended().is_some(), flows.is_spoiled())
        });
        let Some((ended, is_spoiled)) = news else { return };
        if is_spoiled {
            self.spoil_probe();
        }
        if ended {
            self.host.notify_ended(self.out);
        }
    }

    /// Calls `f` with another element of this thread that can move its sessions; `None` if the
    /// element cannot.
    pub fn session_mover<R>(
        &mut self,
        node: u32,
        visit: impl FnOnce(&mut dyn SessionMover) -> R,
    ) -> Option<R> {
        let (mut visit, mut found) = (Some(visit), None);
        self.host.session_mover(node, &mut |mover| {
            found = visit.take().map(|visit| visit(mover));
        });
        found
    }
}

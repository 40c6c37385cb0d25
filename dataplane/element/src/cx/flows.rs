//! The flow manager as an element sees it.

use thruway_flow::Fcb;
use thruway_flow::manager::{Input, Manager, Refusal};
use thruway_flow::plan::Hop;
use thruway_packet::{Batch, Packet};

use crate::Cx;
use crate::reason::Reason;

impl Cx<'_> {
    /// Takes the flow manager out, to use it while packets are sent.
    #[inline]
    pub(crate) fn take_flows(&mut self) -> Option<Box<Manager>> {
        self.wires.flows.take()
    }

    /// Puts it back.
    #[inline]
    pub(crate) fn put_flows(&mut self, flows: Box<Manager>) {
        self.wires.flows = Some(flows);
    }

    /// The flow manager of this thread, where the configuration has one.
    pub fn flows(&mut self) -> Option<&mut Manager> {
        self.wires.flows.as_deref_mut()
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
        let Some(mut flows) = self.wires.flows.take() else { return };
        let now = self.wires.now;
        flows.classify((self.node, input), batch, now, |packet, refusal| match refusal {
            // A probe reports on this thread.
            Refusal::Elsewhere(_) if self.is_probe() => {}
            Refusal::Elsewhere(to) => self.stage(usize::from(to), packet),
            _ => self.drop(reason(refusal), packet),
        });
        self.hand_staged(|to, rest| flows.not_handed(to as u16, rest));
        let (ended, is_spoiled) = (flows.next_ended().is_some(), flows.is_spoiled());
        self.wires.flows = Some(flows);
        if is_spoiled {
            self.spoil_probe();
        }
        if ended {
            self.host.notify_ended(self.wires);
        }
    }

    /// Where the flow manager's plan sends a packet from this dispatcher.
    #[inline]
    pub fn hop(&self, packet: &Packet) -> Hop {
        match &self.wires.flows {
            Some(flows) => flows.hop(self.node, Fcb(packet.fcb())),
            None => Hop::InPlace,
        }
    }
}

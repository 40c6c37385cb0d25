//! What an element sees of the flow manager.

use thruway_flow::Fcb;
use thruway_flow::manager::{Input, Manager, Refusal};
use thruway_flow::plan::Hop;
use thruway_packet::{Batch, Packet};

use crate::Cx;
use crate::reason::Reason;

impl Cx<'_> {
    /// Takes the flow manager out, to work with it while packets are sent on.
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

    /// Has the flow manager find class and session of the packets of a batch; who is refused is
    /// dropped for the reason that `reason` gives. Packets whose session another thread serves go
    /// there, to its replica of this element.
    #[inline]
    pub fn classify(
        &mut self,
        input: Input,
        batch: &mut Batch,
        reason: impl Fn(Refusal) -> Reason,
    ) {
        let Some(mut flows) = self.wires.flows.take() else { return };
        let now = self.wires.now;
        flows.classify((self.node, input), batch, now, |packet, refusal| {
            match (refusal, &mut self.wires.crossing) {
                (Refusal::Elsewhere(to), Some(crossing)) => crossing.stage(to, self.node, packet),
                _ => self.drop(reason(refusal), packet),
            }
        });
        if let Some(crossing) = &mut self.wires.crossing {
            let stats = &self.wires.stats[self.node as usize];
            crossing.hand_over(|to, rest| {
                flows.not_handed(to, rest.len());
                stats.dropped(reason(Refusal::Crowded), rest.len() as u64);
                self.host.wake(usize::from(to));
            });
        }
        let ended = flows.next_ended().is_some();
        self.wires.flows = Some(flows);
        if ended {
            self.host.tell_ended(self.wires);
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

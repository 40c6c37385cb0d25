//! Marks of a card's rules: the classes of packets, for the classifier behind.

use std::sync::Arc;

use thruway_element::Cx;
use thruway_flow::fcb::Fcb;
use thruway_flow::hardware_rules::is_plain;
use thruway_packet::Batch;
use thruway_port::dpdk::Receiver;

use super::offload::MarkNumber;

/// What one thread knows of the marks of its port.
pub(in super::super) struct Marks {
    number: Arc<MarkNumber>,
    /// The number that the classifier behind trusts; 0 if none.
    trusted: u32,
    /// Whether ICMP errors may belong to a session.
    leaves_errors: bool,
}

impl Marks {
    pub(in super::super) fn new(number: Arc<MarkNumber>) -> Marks {
        Marks { number, trusted: 0, leaves_errors: false }
    }

    /// To be called before packets are received: follows the card's rules.
    #[inline]
    pub(in super::super) fn follow(&mut self, cx: &mut Cx<'_>, receiver: &mut Receiver) {
        let number = self.number.get();
        if number != self.trusted {
            self.trust(cx, receiver, number);
        }
    }

    #[cold]
    fn trust(&mut self, cx: &mut Cx<'_>, receiver: &mut Receiver, number: u32) {
        self.trusted = number;
        receiver.read_marks(number != 0);
        let behind = cx.neighbours().leads_to(0).map(|(node, _)| node);
        if let (Some(node), Some(flows)) = (behind, cx.flows()) {
            flows.trust_notes(node, (number != 0).then_some(u64::from(number)));
            self.leaves_errors = !flows.plan().levels.is_empty();
        }
    }

    /// Makes notes for the classifier of the marks of packets that were received. A card may read
    /// headers less thoroughly than the chain, so the mark of a packet counts only where both
    /// surely read the same.
    #[inline]
    pub(in super::super) fn take(&self, batch: &mut Batch) {
        if self.trusted == 0 {
            return;
        }
        for packet in batch.iter_mut() {
            let mark = Fcb(packet.fcb()).0;
            let is_ours = mark != 0 && mark >> 16 == self.trusted;
            let note = match is_ours && is_plain(packet.data(), self.leaves_errors) {
                true => Fcb::of_note(mark as u16, u64::from(self.trusted)),
                false => Fcb::NONE,
            };
            packet.set_fcb(note.0);
        }
    }
}

//! Classes that the program in front of an interface notes, for the classifier behind.

use thruway_element::Cx;
use thruway_flow::fcb::Fcb;
use thruway_packet::Batch;
use thruway_port::drop_stage::Notes;

/// Has the classifier right behind trust notes: they are of the program that has its table.
#[cold]
pub(super) fn trust(cx: &mut Cx<'_>, notes: Option<Notes>) {
    let behind = cx.neighbours().leads_to(0).map(|(node, _)| node);
    if let (Some(node), Some(flows)) = (behind, cx.flows()) {
        flows.trust_notes(node, notes.map(Notes::number));
    }
}

/// Takes the notes in front of packets that came by AF_XDP, for the classifier.
#[inline]
pub(super) fn take(notes: Notes, batch: &mut Batch) {
    for packet in batch.iter_mut() {
        if let Some(class) = notes.take(packet) {
            packet.set_fcb(Fcb::of_note(class, notes.number()).0);
        }
    }
}

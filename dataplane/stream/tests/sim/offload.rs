//! What hardware and kernels do to long packets: segments of a sender leave as one packet that
//! stands for them, and such a packet is cut before it reaches its receiver.

use thruway_packet::Packet;
use thruway_wire::tcp::flags;

use crate::frame::{Segment, Side, Wire};

/// Most segments in a packet: 64 kB of the shortest that senders make would be more.
const COUNT_MAX: usize = 40;

/// The packets of a host: segments that follow each other are joined.
pub fn joined(segments: Vec<Segment>, wire: &Wire, from: Side) -> Vec<Packet> {
    let mut packets = Vec::new();
    let mut segments = segments.into_iter().peekable();
    while let Some(mut whole) = segments.next() {
        let each = whole.payload.len();
        let mut count = 1;
        while count < COUNT_MAX
            && whole.payload.len() == each * count
            && let Some(next) = segments.next_if(|next| continues(&whole, next, each))
        {
            whole.payload.extend(next.payload);
            whole.flags |= next.flags;
            count += 1;
        }
        let mut packet = whole.emit(wire, from);
        assert!(packet.set_segments(count), "few enough to be counted");
        packets.push(packet);
    }
    packets
}

/// Whether a segment can stand behind others in one packet: the same header, but for what only the
/// last one may have.
fn continues(whole: &Segment, next: &Segment, each: usize) -> bool {
    let plain = flags::ACK | flags::PSH;
    let header =
        |segment: &Segment| Segment { payload: Vec::new(), flags: 0, seq: 0, ..segment.clone() };
    let is_payload = !next.payload.is_empty() && next.payload.len() <= each;
    let follows = next.seq == whole.seq.wrapping_add(whole.payload.len() as u32);
    let may_follow = whole.flags & !plain == 0 && next.flags & !(plain | flags::FIN) == 0;
    is_payload && follows && may_follow && header(whole) == header(next)
}

/// The segments of a packet for a host, as the kernel cuts it; none if it must not be cut.
pub fn cut(packet: &Packet, wire: &Wire, to: Side) -> Option<Vec<Packet>> {
    let count = packet.segments();
    if count < 2 {
        return None;
    }
    let whole = Segment::parse(wire, to, packet.data()).ok()?;
    let each = whole.payload.len().div_ceil(count).max(1);
    let last = whole.payload.len().div_ceil(each).max(1) - 1;
    let piece = |index: usize| {
        let range = index * each..whole.payload.len().min((index + 1) * each);
        let seq = whole.seq.wrapping_add(range.start as u32);
        let only_last = if index == last { 0 } else { flags::FIN | flags::PSH };
        let flags = whole.flags & !only_last;
        Segment { seq, flags, payload: whole.payload[range].to_vec(), ..whole.clone() }
    };
    Some((0..=last).map(|index| piece(index).emit(wire, to.other())).collect())
}

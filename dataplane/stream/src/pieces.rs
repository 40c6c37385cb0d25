//! The packets of one session and direction that follow each other, as a cursor sees them.

use thruway_packet::Packet;
use thruway_payload::Pieces;

use crate::content::{HasContent, flag};
use crate::splice::splice;

/// A run of packets: at least one.
pub struct Run<'a>(pub &'a mut [Packet]);

/// Bytes between the transport header and the content, in `data()`.
fn prefix(packet: &Packet) -> Option<core::ops::Range<usize>> {
    let transport = packet.transport_offset()?;
    let header = usize::from(packet.data().get(transport + 12)? >> 4) * 4;
    let from = transport + header;
    let to = packet.content_range().start;
    (from <= to).then_some(from..to)
}

/// A packet's headers, from the network header to the content.
pub fn headers(packet: &Packet) -> &[u8] {
    let from = packet.network_offset().unwrap_or(packet.len());
    packet.data().get(from..packet.content_range().start).unwrap_or(&[])
}

/// The message head in front of a packet's content, if there is one.
pub fn head(packet: &Packet) -> Option<&[u8]> {
    let head = packet.content_mark().has(flag::HEAD).then(|| prefix(packet))??;
    packet.data().get(head)
}

impl Pieces for Run<'_> {
    #[inline]
    fn count(&self) -> usize {
        self.0.len()
    }

    #[inline]
    fn content(&self, piece: usize) -> &[u8] {
        self.0.get(piece).map_or(&[], HasContent::content)
    }

    #[inline]
    fn content_mut(&mut self, piece: usize) -> &mut [u8] {
        self.0.get_mut(piece).map_or(&mut [], HasContent::content_mut)
    }

    fn splice(&mut self, piece: usize, at: usize, len: usize, with: &[u8]) -> bool {
        let Some(packet) = self.0.get_mut(piece) else { return false };
        let place = packet.content_range();
        let within = at.checked_add(len).is_some_and(|end| end <= place.len());
        if !within || !splice(packet, place.start + at, len, with) {
            return false;
        }
        let mut mark = packet.content_mark();
        mark.flags |= flag::CHANGED;
        packet.set_content_mark(mark);
        true
    }

    fn headers(&self, piece: usize) -> &[u8] {
        self.0.get(piece).map_or(&[], headers)
    }

    fn head(&self, piece: usize) -> Option<&[u8]> {
        self.0.get(piece).and_then(head)
    }

    fn set_head(&mut self, piece: usize, head: &[u8]) -> bool {
        let Some(packet) = self.0.get_mut(piece) else { return false };
        let mut mark = packet.content_mark();
        let Some(place) = prefix(packet).filter(|_| mark.has(flag::HEAD)) else { return false };
        let start = usize::from(mark.start) - place.len() + head.len();
        let Ok(start) = u16::try_from(start) else { return false };
        if !splice(packet, place.start, place.len(), head) {
            return false;
        }
        (mark.start, mark.flags) = (start, mark.flags | flag::CHANGED);
        packet.set_content_mark(mark);
        true
    }
}

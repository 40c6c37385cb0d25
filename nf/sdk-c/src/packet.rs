//! A packet as C sees it.

use thruway_nf::{Packet, Verdict};

/// `thruway_packet` of the header.
#[repr(C)]
pub struct CPacket {
    data: *mut u8,
    len: u32,
    headroom: u32,
    tailroom: u32,
    session: u32,
    input: u8,
    direction: u8,
    output: u8,
    dropped: u8,
}

/// `THRUWAY_NO_SESSION`.
const NO_SESSION: u32 = u32::MAX;

impl CPacket {
    /// No packet.
    pub const NONE: CPacket = CPacket {
        data: std::ptr::null_mut(),
        len: 0,
        headroom: 0,
        tailroom: 0,
        session: NO_SESSION,
        input: 0,
        direction: 0,
        output: 0,
        dropped: 0,
    };

    /// Shows a packet.
    #[inline]
    pub fn show(&mut self, packet: &mut Packet<'_>) {
        let start = packet.start();
        *self = CPacket {
            // Lengths are of a slot, at most 64 KB.
            len: packet.len() as u32,
            headroom: packet.headroom() as u32,
            tailroom: packet.tailroom() as u32,
            session: packet.session().unwrap_or(NO_SESSION),
            input: packet.input() as u8,
            direction: packet.direction(),
            output: 0,
            dropped: 0,
            data: packet.frame_mut().as_mut_ptr().wrapping_add(start),
        };
    }

    /// Carries out what became of it. False when it no longer lies in its frame: it is dropped.
    #[inline]
    pub fn finish(&self, mut packet: Packet<'_>) -> bool {
        let frame = packet.frame_mut().as_mut_ptr().addr();
        let start = self.data.addr().wrapping_sub(frame);
        let lies_within = packet.set_span(start, self.len as usize);
        let drops = self.dropped != 0 || !lies_within;
        packet.judge(if drops { Verdict::Drop } else { Verdict::Next(self.output) });
        lies_within
    }
}

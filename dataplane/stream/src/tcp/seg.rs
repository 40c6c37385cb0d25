//! A parsed segment.

use thruway_packet::Packet;
use thruway_wire::tcp::flags;

use super::options::{self, ParsedOptions};
use super::{DropReason, Seq};
use crate::segment::{Malformed, Parts, tcp};

/// The fields that count, as they came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seg {
    pub parts: Parts,
    pub seq: Seq,
    pub ack: Seq,
    pub flags: u8,
    pub window: u16,
    /// Bytes of payload.
    pub len: u32,
    pub options: ParsedOptions,
}

impl Seg {
    /// Reads a packet and cuts off padding.
    pub(crate) fn read(packet: &mut Packet) -> Result<Seg, DropReason> {
        let parts = Parts::of_tcp(packet).map_err(|drop_reason| match drop_reason {
            Malformed::Checksum => DropReason::BadChecksum,
            Malformed::Ip | Malformed::Transport => DropReason::BadSegment,
        })?;
        parts.trim(packet);
        let header = tcp(packet, &parts).ok_or(DropReason::BadSegment)?;
        let options = &packet.data()[parts.transport + 20..parts.payload];
        Ok(Seg {
            parts,
            seq: Seq::new(header.seq()),
            ack: Seq::new(header.ack()),
            flags: header.flags(),
            window: header.window(),
            len: parts.payload_len() as u32,
            options: options::read(options).map_err(|_| DropReason::BadOptions)?,
        })
    }

    /// The window in the unit of later segments: that of a SYN is not scaled (RFC 7323 section
    /// 2.2).
    #[inline]
    pub(crate) fn scaled_window(&self) -> u16 {
        self.window >> self.options.window_scale.unwrap_or(0)
    }

    #[inline]
    pub(crate) fn has(&self, mask: u8) -> bool {
        self.flags & mask != 0
    }

    /// 1 where it has FIN.
    #[inline]
    pub(crate) fn fin(&self) -> u32 {
        u32::from(self.has(flags::FIN))
    }

    /// Behind its last byte, or its FIN.
    #[inline]
    pub(crate) fn end(&self) -> Seq {
        self.seq + self.len + self.fin()
    }

    /// Whether no stack sends this: SYN with FIN or RST, or neither SYN nor ACK nor RST (RFC 9293
    /// section 3.10.7; data without ACK is dropped by all that follow it).
    #[inline]
    pub(crate) fn is_absurd(&self) -> bool {
        let syn = self.has(flags::SYN) && self.has(flags::FIN | flags::RST);
        syn || !self.has(flags::SYN | flags::ACK | flags::RST)
    }
}

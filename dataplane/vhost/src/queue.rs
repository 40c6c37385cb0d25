//! Packets out of and into a ring, each behind a header (`struct virtio_net_hdr`, virtio 1.2,
//! section 5.1.6).

use thruway_packet::{Batch, Packet, PacketKind};

use crate::memory::{GuestMemory, Outside};
use crate::message::Features;
use crate::ring::{Direction, Piece, Ring, RingFault, SIZE_MAX};

/// Length of the header of virtio 1, and of one with merged buffers.
const HEADER_LEN: usize = 12;
/// Length of the header of earlier drivers.
const HEADER_LEN_LEGACY: usize = 10;
/// Where the number of merged buffers is.
const BUFFERS_AT: usize = 10;
/// The checksum is not complete.
const NEEDS_CHECKSUM: u8 = 1;

/// Longest packet that is taken, bytes: as long as any IP packet with its link's header.
const PACKET_LEN_MAX: u64 = 65_536 + 64;

/// What one call took from a guest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Received {
    /// Packets.
    pub packets: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that were dropped: longer than any frame, or empty.
    pub unfit: usize,
    /// Packets that were dropped: no memory.
    pub no_memory: usize,
}

/// What one call gave to a guest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sent {
    /// Packets.
    pub packets: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that were dropped: longer than the guest's buffers.
    pub unfit: usize,
    /// The ring cannot be used now: the guest has none.
    pub is_down: bool,
}

/// A ring with packets in it.
#[derive(Debug)]
pub struct Queue {
    ring: Ring,
    header_len: usize,
    /// A packet may lie in several chains.
    is_merging: bool,
    pieces: Vec<Piece>,
    /// Heads of the chains that a packet goes into, and bytes of each.
    chains: Vec<(u16, u64)>,
    is_polled: bool,
}

impl Queue {
    /// A ring, used as the features say.
    pub fn new(ring: Ring, features: Features) -> Queue {
        let is_merging = features.contains(Features::MERGED_BUFFERS);
        let is_long = is_merging || features.contains(Features::VERSION_1);
        Queue {
            ring,
            header_len: if is_long { HEADER_LEN } else { HEADER_LEN_LEGACY },
            is_merging,
            // What a call looks at, and the chain with which it is tired.
            pieces: Vec::with_capacity(2 * usize::from(SIZE_MAX)),
            chains: Vec::with_capacity(2 * usize::from(SIZE_MAX)),
            is_polled: false,
        }
    }

    /// The ring.
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Takes up to `max` packets that the guest sent. Whether the guest wants to be called.
    ///
    /// # Errors
    /// The guest's lie; what came before it was taken.
    pub fn receive(
        &mut self,
        (max, now): (usize, i64),
        batch: &mut Batch,
        received: &mut Received,
    ) -> Result<bool, RingFault> {
        let count = self.ring.available()?.min(max);
        let taken = (0..count).try_for_each(|_| self.take(now, batch, received));
        let has_taken = *received != Received::default();
        let wants_call = if has_taken { self.ring.publish() } else { Ok(false) };
        match taken {
            Ok(()) | Err(Stop::Tired) => wants_call,
            Err(Stop::Fault(fault)) => Err(fault),
        }
    }

    /// Takes the next packet.
    #[inline]
    fn take(&mut self, now: i64, batch: &mut Batch, received: &mut Received) -> Result<(), Stop> {
        if self.ring.is_tired() {
            return Err(Stop::Tired);
        }
        self.pieces.clear();
        let (head, len) = self.ring.chain(0, Direction::FromGuest, &mut self.pieces)?;
        let memory = self.ring.memory();
        let mut cursor = Cursor { pieces: &self.pieces, within: 0 };
        let mut header = [0; HEADER_LEN];
        let header = &mut header[..self.header_len];
        let len = len.checked_sub(header.len() as u64).ok_or(RingFault::ShortHeader)?;
        cursor.read(memory, header)?;
        if header[0] & NEEDS_CHECKSUM != 0 || header[1] != 0 {
            return Err(RingFault::Offload.into());
        }
        if len == 0 || len > PACKET_LEN_MAX {
            received.unfit += 1;
        } else if let Some(mut packet) = room_for(len as usize) {
            cursor.read(memory, packet.data_mut())?;
            describe(&mut packet, now);
            received.packets += 1;
            received.bytes += len;
            batch.push(packet);
        } else {
            received.no_memory += 1;
        }
        Ok(self.ring.give_back(head, 0)?)
    }

    /// Gives packets to the guest, from the front, as far as it has buffers. Whether the guest
    /// wants to be called.
    ///
    /// # Errors
    /// The guest's lie; what went before it is gone from the batch.
    pub fn send(&mut self, batch: &mut Batch, sent: &mut Sent) -> Result<bool, RingFault> {
        let mut left = self.ring.available()?;
        let mut done = 0;
        let given = batch.iter().try_for_each(|packet| {
            self.give(packet, &mut left, sent)?;
            done += 1;
            Ok(())
        });
        drop(batch.drain_front(done));
        let wants_call = if sent.packets > 0 { self.ring.publish() } else { Ok(false) };
        match given {
            Ok(()) | Err(Stop::Tired) => wants_call,
            Err(Stop::Fault(fault)) => Err(fault),
        }
    }

    /// Gives one packet.
    #[inline]
    fn give(&mut self, packet: &Packet, left: &mut usize, sent: &mut Sent) -> Result<(), Stop> {
        let needed = (self.header_len + packet.len()) as u64;
        self.pieces.clear();
        self.chains.clear();
        let mut room = 0;
        while room < needed {
            if self.chains.len() == *left || (self.ring.is_tired() && sent.packets > 0) {
                return Err(Stop::Tired);
            }
            if self.ring.is_tired() && !self.chains.is_empty() {
                return Err(RingFault::ChainTooLong.into());
            }
            let ahead = self.chains.len();
            let (head, len) = self.ring.chain(ahead, Direction::ToGuest, &mut self.pieces)?;
            if len == 0 {
                return Err(RingFault::EmptyBuffer.into());
            }
            self.chains.push((head, len));
            room += len;
            if !self.is_merging && room < needed {
                sent.unfit += 1;
                return Ok(());
            }
        }
        self.write(packet)?;
        *left -= self.chains.len();
        sent.packets += 1;
        sent.bytes += packet.len() as u64;
        Ok(())
    }

    /// Writes a packet into the chains that were found for it.
    #[inline]
    fn write(&mut self, packet: &Packet) -> Result<(), RingFault> {
        let mut header = [0; HEADER_LEN];
        let header = &mut header[..self.header_len];
        if let Some(field) = header.get_mut(BUFFERS_AT..) {
            // At most the ring's entries. Without merged buffers it is one.
            field.copy_from_slice(&(self.chains.len() as u16).to_le_bytes());
        }
        let memory = self.ring.memory();
        let mut cursor = Cursor { pieces: &self.pieces, within: 0 };
        cursor.write(memory, header)?;
        cursor.write(memory, packet.data())?;
        let mut left = (self.header_len + packet.len()) as u64;
        for (head, len) in &self.chains {
            let written = left.min(*len);
            left -= written;
            // No longer than a packet.
            self.ring.give_back(*head, written as u32)?;
        }
        Ok(())
    }

    /// Says whether a thread looks at the ring without being kicked. After false, what is available
    /// must be looked at once more.
    ///
    /// # Errors
    /// As [`Ring::want_kicks`].
    pub fn poll(&mut self, is_polled: bool) -> Result<(), RingFault> {
        self.is_polled = is_polled;
        self.ring.want_kicks(!is_polled)
    }

    /// Whether a thread looks at the ring without being kicked.
    pub fn is_polled(&self) -> bool {
        self.is_polled
    }
}

/// Why a call goes no further.
enum Stop {
    /// It has done enough, or there is no room.
    Tired,
    Fault(RingFault),
}

impl From<RingFault> for Stop {
    fn from(fault: RingFault) -> Stop {
        Stop::Fault(fault)
    }
}

impl From<Outside> for Stop {
    fn from(outside: Outside) -> Stop {
        Stop::Fault(outside.into())
    }
}

/// A packet of bytes that are still to be written.
fn room_for(len: usize) -> Option<Packet> {
    let mut packet = Packet::new(&[])?;
    packet.put(len).then_some(packet)
}

/// What is known of a frame.
fn describe(packet: &mut Packet, now: i64) {
    packet.set_mac_offset(0);
    packet.set_timestamp(now);
    packet.set_kind(match packet.data() {
        [255, 255, 255, 255, 255, 255, ..] => PacketKind::Broadcast,
        [first, ..] if first & 1 == 1 => PacketKind::Multicast,
        _ => PacketKind::Host,
    });
}

/// Where in the pieces of a packet a copy goes on.
struct Cursor<'a> {
    pieces: &'a [Piece],
    /// Bytes of the first piece that are done.
    within: u32,
}

impl Cursor<'_> {
    /// Copies from the pieces, which hold as much.
    #[inline]
    fn read(&mut self, memory: &GuestMemory, bytes: &mut [u8]) -> Result<(), Outside> {
        let mut at = 0;
        while let Some((guest, len)) = self.next(bytes.len() - at)? {
            memory.copy_out(guest, &mut bytes[at..at + len])?;
            at += len;
        }
        Ok(())
    }

    /// Copies to the pieces, which have as much room.
    #[inline]
    fn write(&mut self, memory: &GuestMemory, bytes: &[u8]) -> Result<(), Outside> {
        let mut at = 0;
        while let Some((guest, len)) = self.next(bytes.len() - at)? {
            memory.copy_in(guest, &bytes[at..at + len])?;
            at += len;
        }
        Ok(())
    }

    /// The next range, of at most `left` bytes; `None` if none are left.
    #[inline]
    fn next(&mut self, left: usize) -> Result<Option<(u64, usize)>, Outside> {
        if left == 0 {
            return Ok(None);
        }
        loop {
            let piece = self.pieces.first().ok_or(Outside)?;
            let rest = piece.len - self.within;
            if rest == 0 {
                (self.pieces, self.within) = (&self.pieces[1..], 0);
                continue;
            }
            let guest = piece.guest.checked_add(u64::from(self.within)).ok_or(Outside)?;
            let len = left.min(rest as usize);
            self.within += len as u32;
            return Ok(Some((guest, len)));
        }
    }
}

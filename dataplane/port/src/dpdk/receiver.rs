//! Frames in: some receive queues of a port.

use super::device::Device;
use super::eal;
use super::mbufs::Table;
use super::sys::{self, Mbuf};
use std::ptr::NonNull;
use std::sync::Arc;
use thruway_packet::{Batch, Extent, Frames, MAX_BATCH, Packet, PacketKind, prefetch_bytes};

/// Frames ahead of the one that is being looked at.
const AHEAD: usize = 4;

/// What one go at receiving came to, besides what is in the batch.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Packets put into the batch.
    pub packets: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Dropped because they came in pieces and no frame has room for the whole.
    pub too_long: usize,
    /// Dropped because the port found the checksum of an IPv4 header wrong.
    pub bad_checksum: usize,
}

/// Receives from queues of a port, which nobody else receives from.
pub struct Receiver {
    device: Arc<Device>,
    table: Table,
    queues: std::ops::Range<u16>,
    /// The queue to look at first: each in turn.
    turn: u16,
    /// The flags that count: none if the port checks nothing.
    checked: u64,
    /// The flag of packets with a mark; none if marks are not read.
    marked: u64,
    /// Bytes of the port's Ethernet address, the first lowest.
    mac: u64,
    burst: Box<[Option<NonNull<Mbuf>>; MAX_BATCH]>,
}

// SAFETY: the pointers in `burst` are written and read within one call; the rest is Send.
unsafe impl Send for Receiver {}

/// `RTE_MBUF_F_RX_IP_CKSUM_MASK`: what the port found out of an IPv4 header's checksum.
const IP_CHECKSUM: u64 = (1 << 4) | (1 << 7);
/// Of that, what stands for a wrong one.
const IP_BAD: u64 = 1 << 4;

impl Receiver {
    pub(super) fn new(device: Arc<Device>, table: Table, queues: std::ops::Range<u16>) -> Receiver {
        let [a, b, c, d, e, f] = device.about().mac;
        Receiver {
            checked: if device.about().checks { IP_CHECKSUM } else { 0 },
            marked: 0,
            mac: u64::from_le_bytes([a, b, c, d, e, f, 0, 0]),
            turn: queues.start,
            device,
            table,
            queues,
            burst: Box::new([None; MAX_BATCH]),
        }
    }

    /// Adds up to `max` received packets to a batch, without waiting: from the first queue, in
    /// turn, that has some. They bear the mark of their Ethernet header, how they reached the
    /// port, and `now` (nanoseconds since the Unix epoch) as their time.
    #[inline]
    pub fn receive(&mut self, max: usize, now: i64, batch: &mut Batch) -> Received {
        eal::enter();
        let max = max.min(MAX_BATCH) as u16;
        for _ in self.queues.clone() {
            let queue = self.turn;
            self.turn = if queue + 1 == self.queues.end { self.queues.start } else { queue + 1 };
            let port = self.device.port();
            // JUSTIFICATION: DPDK's call to receive.
            // SAFETY: the port runs and has this queue, from which nobody else receives; there is
            // room for so many.
            let count = unsafe { sys::tw_rx(port, queue, self.burst.as_mut_ptr().cast(), max) };
            if count > 0 {
                return self.take(count as usize, now, batch);
            }
        }
        Received::default()
    }

    /// Makes packets of what came.
    #[inline]
    fn take(&mut self, count: usize, now: i64, batch: &mut Batch) -> Received {
        let mut result = Received::default();
        let mbufs = &self.burst[..count.min(MAX_BATCH)];
        for mbuf in mbufs.iter().flatten().take(AHEAD) {
            self.ask_for(*mbuf);
        }
        for (at, mbuf) in mbufs.iter().enumerate() {
            let Some(mbuf) = *mbuf else { continue };
            if let Some(Some(next)) = mbufs.get(at + AHEAD) {
                self.ask_for(*next);
            }
            if let Some(packet) = self.packet(mbuf, now, &mut result) {
                result.bytes += packet.len() as u64;
                result.packets += 1;
                batch.push(packet);
            }
        }
        result
    }

    /// Asks the processor for what is needed of a packet.
    #[inline]
    fn ask_for(&self, mbuf: NonNull<Mbuf>) {
        if self.table.has(mbuf) {
            self.table.frames.prefetch(self.table.number(mbuf));
        }
        // JUSTIFICATION: DPDK's structure.
        // SAFETY: the mbuf was received and is this thread's alone.
        let header = unsafe { mbuf.as_ref() };
        let start = header.buf_addr.wrapping_add(header.data_off.into());
        // JUSTIFICATION: a slice of no bytes, for its address.
        // SAFETY: a slice of no bytes may begin anywhere but at null, where no buffer is.
        prefetch_bytes(unsafe { std::slice::from_raw_parts(start, 0) });
    }

    /// The packet of an mbuf that was received, which has one no more.
    #[inline]
    fn packet(&self, mbuf: NonNull<Mbuf>, now: i64, result: &mut Received) -> Option<Packet> {
        // JUSTIFICATION: DPDK's structure.
        // SAFETY: the mbuf was received and is this thread's alone.
        let header = unsafe { mbuf.as_ref() };
        let flags = header.ol_flags;
        if flags & self.checked == IP_BAD {
            result.bad_checksum += 1;
            free(mbuf);
            return None;
        }
        let (start, len) = (header.data_off, header.data_len);
        let fits = usize::from(start) + usize::from(len) <= Frames::LEN;
        if header.nb_segs != 1 || header.refcnt != 1 || !fits || !self.table.has(mbuf) {
            return self.copy(mbuf, header.pkt_len, now, result);
        }
        let extent = Extent { number: self.table.number(mbuf), start, len };
        let kind = self.kind(header);
        // JUSTIFICATION: the frame was DPDK's.
        // SAFETY: DPDK took the frame of the pool and gave its mbuf to us, whose count of users was
        // one; the extent was tested.
        let mut packet = unsafe { self.table.frames.packet(extent, kind, now) };
        if flags & self.marked != 0 {
            packet.set_fcb(header.mark);
        }
        Some(packet)
    }

    /// A packet in pieces, or in memory that is not ours, put together in a frame.
    #[cold]
    fn copy(
        &self,
        mbuf: NonNull<Mbuf>,
        len: u32,
        now: i64,
        result: &mut Received,
    ) -> Option<Packet> {
        let packet = Packet::zeroed(len as usize).map(|mut packet| {
            let to = packet.data_mut().as_mut_ptr();
            // JUSTIFICATION: DPDK's chain of pieces.
            // SAFETY: the mbuf was received and is this thread's alone; so many bytes are there.
            unsafe { sys::tw_copy(mbuf, to, len) };
            packet.set_mac_offset(0);
            packet.set_timestamp(now);
            let kind = kind_of(self.mac, first_bytes(packet.data()));
            packet.set_kind(kind);
            packet
        });
        free(mbuf);
        result.too_long += usize::from(packet.is_none());
        packet
    }

    /// How a packet reached the port.
    #[inline]
    fn kind(&self, header: &Mbuf) -> PacketKind {
        let start = header.buf_addr.wrapping_add(header.data_off.into());
        if usize::from(header.data_off) + 8 > Frames::LEN {
            return PacketKind::Host;
        }
        // JUSTIFICATION: one load; the packet's own bytes would be read by parts.
        // SAFETY: eight bytes from there on lie in the frame, as was tested; nobody writes them.
        let bytes = unsafe { start.cast::<u64>().read_unaligned() };
        kind_of(self.mac, u64::from_le(bytes))
    }

    /// Whether packets that a rule of the port has marked are to have the mark in their FCB word,
    /// which is zero without. Packets that came in pieces have none.
    pub fn read_marks(&mut self, reads: bool) {
        self.marked = if reads { sys::MARKED } else { 0 };
    }

    /// The port.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// The queues that it receives from.
    pub fn queues(&self) -> std::ops::Range<u16> {
        self.queues.clone()
    }
}

/// The first eight bytes, the first one lowest; zeros behind the end.
fn first_bytes(bytes: &[u8]) -> u64 {
    let mut first = [0; 8];
    first.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    u64::from_le_bytes(first)
}

/// How a frame reached a port of this address, by its first bytes.
#[inline]
fn kind_of(mac: u64, first: u64) -> PacketKind {
    const ADDRESS: u64 = (1 << 48) - 1;
    match first & ADDRESS {
        destination if destination == mac => PacketKind::Host,
        ADDRESS => PacketKind::Broadcast,
        destination if destination & 1 == 1 => PacketKind::Multicast,
        _ => PacketKind::OtherHost,
    }
}

/// Gives an mbuf back.
fn free(mbuf: NonNull<Mbuf>) {
    // JUSTIFICATION: a function of the shim.
    // SAFETY: the caller has the mbuf, and uses it no more.
    unsafe { sys::tw_free(mbuf) };
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.device.give_rx(self.queues.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_give_the_kind() {
        let mac = first_bytes(&[2, 0, 0, 0, 0, 1]);
        let kind = |bytes: &[u8]| kind_of(mac, first_bytes(bytes));
        assert_eq!(kind(&[2, 0, 0, 0, 0, 1, 9, 9, 9]), PacketKind::Host);
        assert_eq!(kind(&[2, 0, 0, 0, 0, 2, 9, 9, 9]), PacketKind::OtherHost);
        assert_eq!(kind(&[0xFF; 12]), PacketKind::Broadcast);
        assert_eq!(kind(&[0x33, 0x33, 0, 0, 0, 1, 0, 0]), PacketKind::Multicast);
    }
}

//! The fragments received so far of a packet.

use thruway_packet::Packet;
use thruway_wire::Header;
use thruway_wire::ipv4::{Ipv4Header, MAX_HEADER_LEN, MORE_FRAGMENTS, OFFSET_MASK};

/// Bytes that a packet costs besides its payload.
const OVERHEAD: usize = 256;

/// A fragment that can be.
pub(super) struct Fragment<'a> {
    header: &'a Ipv4Header,
    options: &'a [u8],
    payload: &'a [u8],
    from: usize,
    to: usize,
}

impl<'a> Fragment<'a> {
    /// `None` when its length or place cannot be.
    pub(super) fn new(
        header: &'a Ipv4Header,
        options: &'a [u8],
        payload: &'a [u8],
    ) -> Option<Fragment<'a>> {
        let from = usize::from(header.fragment_offset());
        let to = from + payload.len();
        let bad = payload.is_empty()
            || to > usize::from(u16::MAX)
            || header.more_fragments() && !payload.len().is_multiple_of(8);
        (!bad).then_some(Fragment { header, options, payload, from, to })
    }
}

/// Header and annotations, of the first fragment if it has come.
struct Front {
    header: [u8; MAX_HEADER_LEN],
    header_len: usize,
    /// An empty packet with the annotations.
    marks: Option<Packet>,
}

/// The fragments of one packet so far.
#[derive(Default)]
pub(super) struct Partial {
    front: Option<Front>,
    /// Whether `front` is the first fragment's.
    has_first: bool,
    data: Vec<u8>,
    /// Parts of `data` that have come: sorted, apart from one another, not empty.
    ranges: Vec<(usize, usize)>,
    /// Where the payload ends, once the last fragment has come.
    end: Option<usize>,
    last: i64,
    longest: u16,
    /// Fragments that are in it.
    count: usize,
}

impl Partial {
    /// Bytes it costs.
    pub(super) fn memory(&self) -> usize {
        match &self.front {
            Some(_) => OVERHEAD + self.data.len(),
            None => 0,
        }
    }

    /// When the latest fragment came.
    pub(super) fn last(&self) -> i64 {
        self.last
    }

    /// Fragments that are in it.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Total length of the longest fragment.
    pub(super) fn longest(&self) -> u16 {
        self.longest
    }

    /// All of it has come.
    pub(super) fn is_whole(&self) -> bool {
        self.has_first && self.ranges[..] == [(0, self.end.unwrap_or(0))]
    }

    /// Adds a fragment contained in `packet`; false if it cannot belong to this datagram.
    pub(super) fn add(&mut self, fragment: &Fragment<'_>, packet: &Packet, time: i64) -> bool {
        let Fragment { from, to, .. } = *fragment;
        let is_last = !fragment.header.more_fragments();
        let contradicts = match self.end {
            Some(end) => to > end || is_last && to != end,
            None => is_last && to < self.data.len(),
        };
        if contradicts && self.front.is_some() {
            return false;
        }
        if is_last {
            self.end = Some(to);
        }
        if self.front.is_none() || from == 0 {
            self.take_front(fragment, packet);
            self.has_first |= from == 0;
        }
        if self.data.len() < to {
            self.data.resize(to, 0);
        }
        self.data[from..to].copy_from_slice(fragment.payload);
        self.cover(from, to);
        self.count += 1;
        self.last = time;
        self.longest = self.longest.max(fragment.header.total_len());
        true
    }

    fn take_front(&mut self, fragment: &Fragment<'_>, packet: &Packet) {
        // The header that a first fragment lacks is the fixed part of any other.
        let options = if fragment.from == 0 { fragment.options } else { &[] };
        let mut header = *fragment.header;
        let header_len = Ipv4Header::LEN + options.len();
        header.set_flags_offset(header.flags_offset() & !OFFSET_MASK);
        // 20 to 60, as it was in the fragment.
        let _ = header.set_header_len(header_len);
        let mut bytes = [0; MAX_HEADER_LEN];
        if let Ok(rest) = header.emit(&mut bytes) {
            rest[..options.len()].copy_from_slice(options);
        }
        let mut marks = Packet::new(&[]);
        if let Some(marks) = &mut marks {
            marks.copy_annotations(packet);
        }
        self.front = Some(Front { header: bytes, header_len, marks });
    }

    /// Notes that these bytes have come.
    fn cover(&mut self, from: usize, to: usize) {
        let first = self.ranges.partition_point(|(_, end)| *end < from);
        let behind = self.ranges.partition_point(|(begin, _)| *begin <= to);
        let touched = &self.ranges[first..behind];
        let from = touched.first().map_or(from, |(begin, _)| from.min(*begin));
        let to = touched.last().map_or(to, |(_, end)| to.max(*end));
        self.ranges.splice(first..behind, [(from, to)]);
    }

    /// One packet of what there is; `None` when packet memory is used up or no frame is so large.
    pub(super) fn assemble(&self) -> Option<Packet> {
        let front = self.front.as_ref()?;
        let total_len = front.header_len + self.data.len();
        let mut packet = Packet::zeroed(total_len)?;
        if let Some(marks) = &front.marks {
            packet.copy_annotations(marks);
        }
        let (head, body) = packet.data_mut().split_at_mut(front.header_len);
        head.copy_from_slice(&front.header[..front.header_len]);
        body.copy_from_slice(&self.data);
        let (header, options) = Ipv4Header::view_mut(head).ok()?;
        header.set_total_len(u16::try_from(total_len).ok()?);
        if self.end.is_some() {
            header.set_flags_offset(header.flags_offset() & !MORE_FRAGMENTS);
        } else {
            header.set_flags_offset(header.flags_offset() | MORE_FRAGMENTS);
        }
        header.fill_checksum(options);
        packet.set_network(0, front.header_len);
        packet.set_timestamp(self.last);
        packet.set_dst_ip(front.marks.as_ref().map_or([0; 4], Packet::dst_ip));
        Some(packet)
    }
}

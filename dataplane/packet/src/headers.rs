//! Where a packet's headers are: marks that are kept from the frame's start, so that they survive
//! pushing and pulling.

use crate::meta::NO_HEADER;
use crate::packet::Packet;

impl Packet {
    fn offset_of(&self, mark: u16) -> Option<usize> {
        let offset = (mark != NO_HEADER).then_some(mark as usize)?;
        offset.checked_sub(self.headroom())
    }

    fn signed_offset_of(&self, mark: u16) -> Option<isize> {
        (mark != NO_HEADER).then(|| mark as isize - self.headroom() as isize)
    }

    fn mark_at(&self, offset: usize) -> u16 {
        u16::try_from(self.headroom() + offset).unwrap_or(NO_HEADER)
    }

    /// Start of a marked header of at least `n` bytes in the frame, if the packet contains it, and
    /// the number of bytes from there to the packet's end.
    #[inline]
    fn header_span(&self, mark: u16, n: u32) -> Option<(usize, usize)> {
        let meta = self.meta();
        let at = u32::from(mark);
        // PERF: before the packet it is a number that is larger than any length: one test for both.
        let offset = at.wrapping_sub(meta.start);
        let within = mark != NO_HEADER && u64::from(offset) + u64::from(n) <= u64::from(meta.len);
        within.then(|| (at as usize, meta.len.wrapping_sub(offset) as usize))
    }

    /// Bytes from a marked header on; empty when it is not marked or not within the packet.
    #[inline]
    fn bytes_from(&self, mark: u16) -> &[u8] {
        let Some((at, len)) = self.header_span(mark, 0) else { return &[] };
        // JUSTIFICATION: tests the mark once instead of once per nested slice.
        // SAFETY: `header_span` found at..at + len within the packet, and we own its bytes.
        unsafe { core::slice::from_raw_parts(self.meta().frame().add(at), len) }
    }

    /// The same, to be changed.
    #[inline]
    fn bytes_from_mut(&mut self, mark: u16) -> &mut [u8] {
        let Some((at, len)) = self.header_span(mark, 0) else { return &mut [] };
        // JUSTIFICATION: as in `bytes_from`.
        // SAFETY: as in `bytes_from`; `&mut self` excludes other borrows.
        unsafe { core::slice::from_raw_parts_mut(self.meta().frame().add(at), len) }
    }

    /// The first `N` bytes of the link-layer header, to be changed; `None` when it is not marked,
    /// was pulled off, or is not all there.
    #[inline]
    pub fn mac_head_mut<const N: usize>(&mut self) -> Option<&mut [u8; N]> {
        let (at, _) = self.header_span(self.meta().l2, N as u32)?;
        // JUSTIFICATION: as in `bytes_from`.
        // SAFETY: as in `network_head`; `&mut self` excludes other borrows.
        Some(unsafe { &mut *self.meta().frame().add(at).cast::<[u8; N]>() })
    }

    /// The first `N` bytes of the network header; `None` when it is not marked or not all there.
    #[inline]
    pub fn network_head<const N: usize>(&self) -> Option<&[u8; N]> {
        let (at, _) = self.header_span(self.meta().l3, N as u32)?;
        // JUSTIFICATION: as in `bytes_from`.
        // SAFETY: `header_span` found N bytes at `at` within the packet; an array has no alignment.
        Some(unsafe { &*self.meta().frame().add(at).cast::<[u8; N]>() })
    }

    /// The same, to be changed.
    #[inline]
    pub fn network_head_mut<const N: usize>(&mut self) -> Option<&mut [u8; N]> {
        let (at, _) = self.header_span(self.meta().l3, N as u32)?;
        // JUSTIFICATION: as in `bytes_from`.
        // SAFETY: as in `network_head`; `&mut self` excludes other borrows.
        Some(unsafe { &mut *self.meta().frame().add(at).cast::<[u8; N]>() })
    }

    /// Bytes from the link-layer header on; empty when it is not marked or was pulled off.
    #[inline]
    pub fn mac(&self) -> &[u8] {
        self.bytes_from(self.meta().l2)
    }

    /// Where the link-layer header begins relative to `data()`: negative when it was pulled off
    /// but still stands in the head room.
    pub fn mac_offset(&self) -> Option<isize> {
        self.signed_offset_of(self.meta().l2)
    }

    /// The `n` bytes of the link-layer header even when it was pulled off `data()`.
    pub fn mac_bytes(&self, n: usize) -> Option<&[u8]> {
        let at = (self.meta().l2 != NO_HEADER).then_some(self.meta().l2 as usize)?;
        let end = at.checked_add(n)?;
        if end > self.headroom() + self.len() {
            return None;
        }
        // JUSTIFICATION: the bytes lie before `data()`, in the same frame.
        // SAFETY: `end` is inside the frame (checked above against start + len), the frame is ours
        // alone and its bytes are initialised.
        Some(unsafe { core::slice::from_raw_parts(self.meta().frame().add(at), n) })
    }

    /// Marks where the link-layer header begins, in bytes from `data()`'s start.
    #[inline]
    pub fn set_mac_offset(&mut self, offset: usize) {
        self.meta_mut().l2 = self.mark_at(offset);
    }

    /// Puts a link-layer header in front and marks it; false, and nothing changed, as with
    /// [`push`](Self::push).
    #[inline]
    #[must_use]
    pub fn push_mac<const N: usize>(&mut self, header: &[u8; N]) -> bool {
        if !self.push(N) {
            return false;
        }
        let meta = self.meta_mut();
        meta.l2 = u16::try_from(meta.start).unwrap_or(NO_HEADER);
        // JUSTIFICATION: a slice of the packet would be tested for its length again.
        // SAFETY: N bytes were just added in front, the frame is this packet's alone; an array has
        // no alignment.
        unsafe { *meta.frame().add(meta.start as usize).cast::<[u8; N]>() = *header };
        true
    }

    /// Bytes from the network header on; empty when it is not marked.
    #[inline]
    pub fn network(&self) -> &[u8] {
        self.bytes_from(self.meta().l3)
    }

    /// Bytes from the network header on, to be changed.
    #[inline]
    pub fn network_mut(&mut self) -> &mut [u8] {
        self.bytes_from_mut(self.meta().l3)
    }

    /// Where the network header begins in `data()`, when it is marked and within.
    #[inline]
    pub fn network_offset(&self) -> Option<usize> {
        self.offset_of(self.meta().l3)
    }

    /// Where the network header begins relative to `data()`: negative when it was pulled off but
    /// still stands in the head room.
    #[inline]
    pub fn network_signed_offset(&self) -> Option<isize> {
        self.signed_offset_of(self.meta().l3)
    }

    /// The same of the transport header.
    #[inline]
    pub fn transport_signed_offset(&self) -> Option<isize> {
        self.signed_offset_of(self.meta().l4)
    }

    /// Adjusts the header marks after the headers moved by `by` bytes within the frame.
    pub fn move_marks(&mut self, by: isize) {
        let moved = |mark: u16| match mark {
            NO_HEADER => NO_HEADER,
            at => u16::try_from(at as isize + by).unwrap_or(NO_HEADER),
        };
        let meta = self.meta_mut();
        (meta.l2, meta.l3, meta.l4) = (moved(meta.l2), moved(meta.l3), moved(meta.l4));
    }

    /// Marks where the network header begins in `data()` and how long it is (so that the transport
    /// header follows).
    #[inline]
    pub fn set_network(&mut self, offset: usize, header_len: usize) {
        let at = self.headroom() + offset;
        if at + header_len < NO_HEADER as usize {
            let meta = self.meta_mut();
            (meta.l3, meta.l4) = (at as u16, (at + header_len) as u16);
        } else {
            self.set_network_beyond(offset, header_len);
        }
    }

    /// The same in a large frame, where an offset may be too large to be kept.
    #[cold]
    fn set_network_beyond(&mut self, offset: usize, header_len: usize) {
        let (l3, l4) = (self.mark_at(offset), self.mark_at(offset + header_len));
        let meta = self.meta_mut();
        (meta.l3, meta.l4) = (l3, l4);
    }

    /// Forgets network and transport header.
    #[inline]
    pub fn clear_network(&mut self) {
        let meta = self.meta_mut();
        (meta.l3, meta.l4) = (NO_HEADER, NO_HEADER);
    }

    /// Bytes from the transport header on; empty when it is not marked.
    #[inline]
    pub fn transport(&self) -> &[u8] {
        self.bytes_from(self.meta().l4)
    }

    /// Bytes from the transport header on, to be changed.
    #[inline]
    pub fn transport_mut(&mut self) -> &mut [u8] {
        self.bytes_from_mut(self.meta().l4)
    }

    /// Where the transport header begins in `data()`, when it is marked and within.
    #[inline]
    pub fn transport_offset(&self) -> Option<usize> {
        self.offset_of(self.meta().l4)
    }
}

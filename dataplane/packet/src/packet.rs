//! The owning handle of a frame.

use core::fmt;
use core::ptr::NonNull;

use crate::anno::Anno;
use crate::cache;
use crate::meta::{Meta, NO_HEADER, PacketKind, TAG_SHIFT};
use crate::pool::{self, LARGE_FRAME, Memory, Pool, SMALL_FRAME};

/// A packet: the one owner of a frame and its metadata line. Eight bytes, moved freely.
///
/// Its bytes are `data()`; around them are head room and tail room, so that headers can be pushed
/// and pulled without moving the payload. Header offsets are kept from the frame's start and so
/// survive `push` and `pull`.
#[repr(transparent)]
pub struct Packet(NonNull<Meta>);

// SAFETY: a Packet is the only handle of its frame and metadata line (Pool hands each out once and
// takes it back by value), so moving it moves all access; pools are never freed.
unsafe impl Send for Packet {}
// SAFETY: `&Packet` gives only reads of memory that no other thread may write meanwhile.
unsafe impl Sync for Packet {}

impl Packet {
    /// How many tags there are; see [`Self::tag`].
    pub const TAGS: u8 = u8::MAX >> TAG_SHIFT;

    /// Takes ownership of a frame.
    ///
    /// # Safety
    /// `meta` is a line of a [`crate::Pool`], initialised, and no other `Packet` has it.
    #[inline]
    pub(crate) unsafe fn from_meta(meta: NonNull<Meta>) -> Packet {
        Packet(meta)
    }

    /// Gives ownership up without freeing.
    #[inline]
    pub(crate) fn into_meta(self) -> NonNull<Meta> {
        let meta = self.0;
        core::mem::forget(self);
        meta
    }

    /// The address of the metadata line, for the pool.
    #[inline]
    pub(crate) fn line(&self) -> NonNull<Meta> {
        self.0
    }

    #[inline]
    pub(crate) fn meta(&self) -> &Meta {
        // JUSTIFICATION: the line is shared memory of the pool, reached by pointer.
        // SAFETY: this handle is its only owner; it was initialised when it left the pool.
        unsafe { self.0.as_ref() }
    }

    #[inline]
    pub(crate) fn meta_mut(&mut self) -> &mut Meta {
        // JUSTIFICATION: as in `meta`.
        // SAFETY: as in `meta`, and `&mut self` excludes other borrows.
        unsafe { self.0.as_mut() }
    }

    /// A packet with these bytes, from the process's packet memory; `None` when that is used up or
    /// the bytes exceed the largest frame.
    pub fn new(bytes: &[u8]) -> Option<Packet> {
        let mut packet = Packet::uninit(bytes.len(), 0)?;
        packet.data_mut().copy_from_slice(bytes);
        Some(packet)
    }

    /// A packet of `len` bytes, all zero; `None` as in [`Packet::new`].
    pub fn zeroed(len: usize) -> Option<Packet> {
        let mut packet = Packet::uninit(len, 0)?;
        packet.data_mut().fill(0);
        Some(packet)
    }

    /// A second packet with the same bytes, annotations and header offsets; `None` when packet
    /// memory is used up.
    pub fn duplicate(&self) -> Option<Packet> {
        let mut copy = Packet::uninit(self.len(), self.headroom())?;
        copy.data_mut().copy_from_slice(self.data());
        copy.copy_marks(self);
        // A tag is one packet's.
        copy.set_tag(0);
        if let Some(mark) = self.mark() {
            copy.mark_copy(mark);
        }
        Some(copy)
    }

    /// Copies annotations, timestamp, kind and header positions from `other`; this packet must hold
    /// the same bytes.
    fn copy_marks(&mut self, other: &Packet) {
        let shift = self.meta().start as i64 - other.meta().start as i64;
        let moved = |offset: u16| match offset {
            NO_HEADER => NO_HEADER,
            at => u16::try_from(i64::from(at) + shift).unwrap_or(NO_HEADER),
        };
        let (from, to) = (other.meta(), self.meta_mut());
        (to.l2, to.l3, to.l4) = (moved(from.l2), moved(from.l3), moved(from.l4));
        to.kind_and_tag = from.kind_and_tag;
        to.timestamp = from.timestamp;
        to.fcb = from.fcb;
        to.anno = from.anno;
    }

    /// Copies annotations, timestamp and kind, but no header positions. Watchers of the other
    /// packet follow this one, too.
    pub fn copy_annotations(&mut self, other: &Packet) {
        self.set_kind(other.kind());
        let (from, to) = (other.meta(), self.meta_mut());
        to.timestamp = from.timestamp;
        to.fcb = from.fcb;
        to.anno = from.anno;
        if let Some(mark) = other.mark() {
            self.mark_copy(mark);
        }
    }

    /// Length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.meta().len as usize
    }

    /// Whether the packet has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The packet's bytes.
    #[inline]
    pub fn data(&self) -> &[u8] {
        let meta = self.meta();
        // JUSTIFICATION: frames are raw memory of the region.
        // SAFETY: start + len <= frame size is kept by every function that changes them, the frame
        // belongs to this packet alone, and its bytes were written (regions begin zeroed).
        unsafe {
            core::slice::from_raw_parts(meta.frame().add(meta.start as usize), meta.len as usize)
        }
    }

    /// The packet's bytes, to be changed.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        let meta = self.meta_mut();
        // JUSTIFICATION: as in `data`.
        // SAFETY: as in `data`; `&mut self` excludes other borrows.
        unsafe {
            core::slice::from_raw_parts_mut(
                meta.frame().add(meta.start as usize),
                meta.len as usize,
            )
        }
    }

    /// Free bytes in front of the packet.
    #[inline]
    pub fn headroom(&self) -> usize {
        self.meta().start as usize
    }

    /// Free bytes behind the packet.
    #[inline]
    pub fn tailroom(&self) -> usize {
        let meta = self.meta();
        pool::frame_size(meta.pool) - meta.start as usize - meta.len as usize
    }

    /// Bytes of packet memory that it holds, however short it is: its frame and its metadata line.
    #[inline]
    pub fn memory_bytes(&self) -> usize {
        pool::frame_size(self.meta().pool) + size_of::<Meta>()
    }

    /// Whether it is in a large frame, of which there are few.
    #[inline]
    pub fn is_large(&self) -> bool {
        self.meta().pool & 1 != pool::SMALL
    }

    /// Puts `n` bytes of unspecified content in front; moves to another frame if there is no room
    /// here. False, and nothing changed, when packet memory is used up or no frame is that large.
    #[inline]
    #[must_use]
    pub fn push(&mut self, n: usize) -> bool {
        if n > self.headroom() && !self.make_room(n, 0) {
            return false;
        }
        let meta = self.meta_mut();
        meta.start -= n as u32;
        meta.len += n as u32;
        true
    }

    /// Removes `n` bytes from the front; false, and nothing changed, when there are fewer.
    #[inline]
    #[must_use]
    pub fn pull(&mut self, n: usize) -> bool {
        if n > self.len() {
            return false;
        }
        let meta = self.meta_mut();
        meta.start += n as u32;
        meta.len -= n as u32;
        true
    }

    /// Gives back `n` bytes that `pull` took from the front; false, and nothing changed, when the
    /// head room is smaller. Unlike [`push`](Self::push) it never moves the packet, so the bytes
    /// are those that were there.
    #[inline]
    #[must_use]
    pub fn unpull(&mut self, n: usize) -> bool {
        n <= self.headroom() && self.push(n)
    }

    /// Adds `n` bytes of unspecified content at the end, as [`push`](Self::push) does in front.
    #[inline]
    #[must_use]
    pub fn put(&mut self, n: usize) -> bool {
        if n > self.tailroom() && !self.make_room(0, n) {
            return false;
        }
        self.meta_mut().len += n as u32;
        true
    }

    /// Shortens the packet to `len` bytes if it is longer.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        if len < self.len() {
            self.meta_mut().len = len as u32;
        }
    }

    /// A packet of `len` bytes of old content, with at least `head` bytes of head room.
    #[inline]
    fn uninit(len: usize, head: usize) -> Option<Packet> {
        if len <= SMALL_FRAME - pool::HEADROOM && head <= pool::HEADROOM {
            return Packet::take(Memory::get().small(), len as u32, pool::HEADROOM as u32);
        }
        Packet::uninit_with_room(len, head.max(pool::HEADROOM))
    }

    #[cold]
    fn uninit_with_room(len: usize, head: usize) -> Option<Packet> {
        let total = len.checked_add(head)?;
        if total > LARGE_FRAME {
            return None;
        }
        let memory = Memory::get();
        let pool = if total <= SMALL_FRAME { memory.small() } else { memory.large() };
        Packet::take(pool, len as u32, head as u32)
    }

    /// A packet of `len` bytes of old content behind `head` bytes of room; they fit a frame.
    #[inline]
    fn take(pool: &'static Pool, len: u32, head: u32) -> Option<Packet> {
        let mut meta = cache::with_cache(pool.id(), |cache| cache.pop(pool))??;
        // JUSTIFICATION: the line is reached by pointer.
        // SAFETY: the frame was free, so this is its only user; the line is initialised.
        unsafe { meta.as_mut() }.reset(head, len);
        // SAFETY: popped from the free frames, so no other Packet has it.
        Some(unsafe { Packet::from_meta(meta) })
    }

    /// Moves the packet to a frame with at least `head` and `tail` bytes of room.
    #[cold]
    fn make_room(&mut self, head: usize, tail: usize) -> bool {
        let Some(total) = self.len().checked_add(head).and_then(|n| n.checked_add(tail)) else {
            return false;
        };
        let front = head.max(self.headroom().min(pool::HEADROOM));
        let Some(mut moved) = Packet::uninit_with_room(total, front) else { return false };
        let len = self.len() as u32;
        moved.meta_mut().len = len;
        moved.data_mut().copy_from_slice(self.data());
        moved.copy_marks(self);
        moved.take_mark(self);
        core::mem::swap(self, &mut moved);
        true
    }

    /// Arrival time in nanoseconds since the Unix epoch, 0 when unset.
    #[inline]
    pub fn timestamp(&self) -> i64 {
        self.meta().timestamp
    }

    /// Sets the arrival time, nanoseconds since the Unix epoch.
    #[inline]
    pub fn set_timestamp(&mut self, ns: i64) {
        self.meta_mut().timestamp = ns;
    }

    /// How the packet reached this host.
    #[inline]
    pub fn kind(&self) -> PacketKind {
        PacketKind::of(self.meta().kind_and_tag & ((1 << TAG_SHIFT) - 1))
    }

    /// Sets how the packet reached this host.
    #[inline]
    pub fn set_kind(&mut self, kind: PacketKind) {
        let meta = self.meta_mut();
        meta.kind_and_tag = meta.kind_and_tag >> TAG_SHIFT << TAG_SHIFT | kind as u8;
    }

    /// The tag that the packet's source set, 0 for none: 1 to [`Self::TAGS`]. It moves with the
    /// packet, but copies do not inherit it.
    #[inline]
    pub fn tag(&self) -> u8 {
        self.meta().kind_and_tag >> TAG_SHIFT
    }

    /// Gives the packet a tag; one that is greater than [`Self::TAGS`] is none.
    #[inline]
    pub fn set_tag(&mut self, tag: u8) {
        let tag = if tag > Self::TAGS { 0 } else { tag };
        let kind = self.kind() as u8;
        self.meta_mut().kind_and_tag = tag << TAG_SHIFT | kind;
    }

    /// Flow control block index.
    #[inline]
    pub fn fcb(&self) -> u32 {
        self.meta().fcb
    }

    /// Sets the flow control block index.
    #[inline]
    pub fn set_fcb(&mut self, fcb: u32) {
        self.meta_mut().fcb = fcb;
    }

    /// The bytes of an annotation, in network order where it is an address, else in host order.
    #[inline]
    pub fn anno(&self, anno: Anno) -> &[u8] {
        &self.meta().anno[anno.offset as usize..][..anno.size as usize]
    }

    /// The bytes of an annotation, to be changed.
    #[inline]
    pub fn anno_mut(&mut self, anno: Anno) -> &mut [u8] {
        &mut self.meta_mut().anno[anno.offset as usize..][..anno.size as usize]
    }

    /// An annotation of up to four bytes as a number.
    #[inline]
    pub fn anno_number(&self, anno: Anno) -> u32 {
        match *self.anno(anno) {
            [a] => u32::from(a),
            [a, b] => u32::from(u16::from_ne_bytes([a, b])),
            [a, b, c, d, ..] => u32::from_ne_bytes([a, b, c, d]),
            _ => 0,
        }
    }

    /// Sets an annotation of up to four bytes; high bits that do not fit are dropped.
    #[inline]
    pub fn set_anno_number(&mut self, anno: Anno, value: u32) {
        match anno.size {
            1 => self.anno_mut(anno)[0] = value as u8,
            2 => self.anno_mut(anno).copy_from_slice(&(value as u16).to_ne_bytes()),
            _ => self.anno_mut(anno)[..4].copy_from_slice(&value.to_ne_bytes()),
        }
    }

    /// Number of TCP segments that the packet represents: more than one if its sender left
    /// segmentation to hardware (annotation `SEGMENTS`).
    #[inline]
    pub fn segments(&self) -> usize {
        usize::from(self.anno(Anno::SEGMENTS)[0]).max(1)
    }

    /// Makes the packet represent so many segments. False, and nothing changed, if that many cannot
    /// be counted.
    #[inline]
    #[must_use]
    pub fn set_segments(&mut self, count: usize) -> bool {
        let Ok(count) = u8::try_from(count) else { return false };
        self.anno_mut(Anno::SEGMENTS)[0] = if count > 1 { count } else { 0 };
        true
    }

    /// Colour set by Paint.
    #[inline]
    pub fn paint(&self) -> u8 {
        self.meta().anno[Anno::PAINT.offset as usize]
    }

    /// Destination address annotation, network order.
    #[inline]
    pub fn dst_ip(&self) -> [u8; 4] {
        let [a, b, c, d, ..] = self.meta().anno;
        [a, b, c, d]
    }

    /// Sets the destination address annotation, network order.
    #[inline]
    pub fn set_dst_ip(&mut self, addr: [u8; 4]) {
        self.meta_mut().anno[..4].copy_from_slice(&addr);
    }

    /// Destination IPv6 address annotation.
    #[inline]
    pub fn dst_ip6(&self) -> [u8; 16] {
        let mut addr = [0; 16];
        addr.copy_from_slice(&self.meta().anno[..16]);
        addr
    }

    /// Sets the destination IPv6 address annotation.
    #[inline]
    pub fn set_dst_ip6(&mut self, addr: [u8; 16]) {
        self.meta_mut().anno[..16].copy_from_slice(&addr);
    }

    /// Asks the processor to fetch the metadata line and the first line of data.
    #[inline]
    pub fn prefetch_data(&self) {
        prefetch(self.data().as_ptr());
    }

    #[inline]
    pub(crate) fn prefetch_meta(&self) {
        prefetch(self.0.as_ptr().cast());
    }
}

/// Asks the processor to fetch the line where `bytes` begin, without waiting for it.
#[inline]
pub fn prefetch_bytes(bytes: &[u8]) {
    prefetch(bytes.as_ptr());
}

/// Asks for the line at an address.
#[inline]
pub(crate) fn prefetch_line(at: *const u8) {
    prefetch(at);
}

#[inline]
fn prefetch(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // JUSTIFICATION: only an intrinsic requests a line without stalling on it.
    // SAFETY: a prefetch never faults, whatever the address.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}

impl Drop for Packet {
    #[inline]
    fn drop(&mut self) {
        cache::release_one(self.0);
    }
}

impl fmt::Debug for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packet").field("len", &self.len()).field("data", &self.data()).finish()
    }
}

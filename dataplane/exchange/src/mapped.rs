//! Links in shared memory.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use thruway_nf_abi::{
    HEAD_LEN, LinkHeader, LinkLayout, LinkShape, Ring, ShapeError, SlotHead, Token, Word,
};
use thruway_region::{Pages, Region, RegionError, SharedBytes};
use thruway_sync::atomic::{AtomicU32, Ordering};

use crate::storage::{Location, Span, Storage};
use crate::worker::Worker;

/// Heads of slots that share a line.
const HEADS_PER_LINE: u32 = thruway_nf_abi::LINE_LEN / HEAD_LEN;

/// A link that could not be made or opened.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// Sizes that make no link.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// No memory, or not a region.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// The region does not begin as a link of this version, or is shorter than it says.
    #[error("what was handed over is not a link of this version of the function interface")]
    NotALink,
    /// Tokens are descriptors and there is no group's region, or too small a one.
    #[error("the link's tokens are descriptors: it needs its group's region")]
    NoGroup,
    /// A link has one Worker.
    #[error("the link has a Worker already")]
    Taken,
}

/// A region of equal frames that the members of a trust group share.
#[derive(Debug, Clone)]
pub struct GroupRegion {
    region: Arc<Region>,
    stride: usize,
    frames: u32,
}

impl GroupRegion {
    /// A region of at least so many frames for links of this shape.
    ///
    /// # Errors
    /// [`LinkError`].
    pub fn create(shape: &LinkShape, frames: u32, pages: Pages) -> Result<GroupRegion, LinkError> {
        let stride = shape.layout()?.frame_stride() as usize;
        // A power of two, as a PCI device has it, for members in virtual machines; pages are given
        // on first touch.
        let len = (stride * frames as usize).checked_next_power_of_two();
        let region = Region::new(len.ok_or(LinkError::NoGroup)?, pages)?.guarded();
        Ok(GroupRegion { region: Arc::new(region), stride, frames })
    }

    /// The region that the host handed over.
    ///
    /// # Errors
    /// [`LinkError`].
    pub fn open(fd: OwnedFd, shape: &LinkShape) -> Result<GroupRegion, LinkError> {
        let stride = shape.layout()?.frame_stride() as usize;
        let region = Region::open(fd)?;
        let frames = u32::try_from(region.len() / stride).map_err(|_| LinkError::NoGroup)?;
        Ok(GroupRegion { region: Arc::new(region), stride, frames })
    }

    /// Whether both are one region.
    pub fn is_same(&self, other: &GroupRegion) -> bool {
        Arc::ptr_eq(&self.region, &other.region)
    }

    /// Frames there are.
    pub fn frames(&self) -> u32 {
        self.frames
    }

    /// The descriptor to hand to a member.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.region.fd()
    }

    /// Copies a packet into a frame, after `start` bytes of head room; bytes that do not fit are
    /// left out.
    #[inline]
    pub fn copy_in(&self, frame: u32, start: u32, bytes: &[u8]) {
        if let Some(to) = self.frame(frame).and_then(|f| f.slice(start as usize, bytes.len())) {
            to.copy_from(bytes);
        }
    }

    /// Copies from a frame's beginning; bytes beyond the frame read as they were.
    #[inline]
    pub fn copy_out(&self, frame: u32, bytes: &mut [u8]) {
        if let Some(from) = self.frame(frame).and_then(|f| f.slice(0, bytes.len())) {
            from.copy_to(bytes);
        }
    }

    /// Asks the processor for a frame's first line.
    #[inline]
    pub fn prefetch(&self, frame: u32) {
        if let Some(frame) = self.frame(frame) {
            frame.prefetch();
        }
    }

    /// Asks for the line behind a frame's head room, to write it.
    #[inline]
    pub fn prefetch_fill(&self, frame: u32, headroom: u32) {
        self.region.prefetch_write(frame as usize * self.stride + headroom as usize);
    }

    /// Gives a frame's bytes to `function`, if there is such a frame.
    ///
    /// # Safety
    /// The frame is the caller's alone meanwhile.
    #[inline]
    pub unsafe fn with_mut(&self, frame: u32, function: impl FnOnce(&mut [u8])) {
        if let Some(frame) = self.frame(frame) {
            // JUSTIFICATION: functions change packets in place.
            // SAFETY: the caller's promise is that of `as_mut_slice`.
            function(unsafe { frame.as_mut_slice() });
        }
    }

    #[inline]
    fn frame(&self, frame: u32) -> Option<SharedBytes<'_>> {
        if frame >= self.frames {
            return None;
        }
        self.region.bytes(frame as usize * self.stride, self.stride).ok()
    }
}

/// A link in shared memory, as either side sees it.
#[derive(Debug, Clone)]
pub struct Mapped {
    region: Arc<Region>,
    layout: LinkLayout,
    ring_plans: [RingPlan; 3],
    group: Option<GroupRegion>,
}

/// Where a ring's heads and frames are: the layout's numbers, ready for use.
///
/// PERF: computing them from the layout for each access was a third of all instructions of a round
/// trip (`round_trip single` under callgrind).
#[derive(Debug, Clone)]
struct RingPlan {
    mask: u32,
    heads: usize,
    frames: usize,
    stride: usize,
    /// Bytes of a frame; 0 where the frames are the group's.
    frame_len: usize,
    headroom: usize,
}

impl RingPlan {
    fn new(layout: &LinkLayout, ring: Ring) -> RingPlan {
        let is_group = ring == Ring::Primary && layout.shape.token == Token::Descriptor;
        RingPlan {
            mask: layout.shape.ring_slots(ring) - 1,
            heads: layout.heads(ring) as usize,
            frames: if is_group { 0 } else { layout.frames(ring) as usize },
            stride: if is_group { 0 } else { layout.frame_stride() as usize },
            frame_len: if is_group { 0 } else { layout.shape.frame_len() as usize },
            headroom: layout.shape.headroom as usize,
        }
    }

    #[inline(always)]
    fn head(&self, slot: u32) -> usize {
        self.heads + (slot & self.mask) as usize * HEAD_LEN as usize
    }

    #[inline(always)]
    fn frame(&self, slot: u32) -> usize {
        self.frames + (slot & self.mask) as usize * self.stride
    }

    /// Where a packet is that no head was pushed to or stripped from.
    #[inline(always)]
    fn packet(&self, slot: u32) -> usize {
        self.frame(slot) + self.headroom
    }
}

impl Mapped {
    /// Makes a link, for the Master.
    ///
    /// # Errors
    /// [`LinkError`].
    pub fn create(
        shape: &LinkShape,
        group: Option<GroupRegion>,
        pages: Pages,
    ) -> Result<Mapped, LinkError> {
        let len = shape.layout()?.len();
        Mapped::create_in(shape, group, len, pages)
    }

    /// The same in a region as long as a power of two, as a PCI device has it: for a Worker in a
    /// virtual machine.
    ///
    /// # Errors
    /// [`LinkError`].
    pub fn create_padded(
        shape: &LinkShape,
        group: Option<GroupRegion>,
    ) -> Result<Mapped, LinkError> {
        let len = shape.layout()?.len().next_power_of_two();
        Mapped::create_in(shape, group, len, Pages::Normal)
    }

    fn create_in(
        shape: &LinkShape,
        group: Option<GroupRegion>,
        len: u64,
        pages: Pages,
    ) -> Result<Mapped, LinkError> {
        let layout = shape.layout()?;
        let len = usize::try_from(len).map_err(|_| LinkError::NotALink)?;
        let region = Region::new(len, pages)?.guarded();
        region.copy_in(0, &LinkHeader::new(shape).to_bytes())?;
        Mapped::over(region, layout, group)
    }

    /// Opens a link that the host made, for the Worker.
    ///
    /// # Errors
    /// [`LinkError`].
    pub fn open(fd: OwnedFd, group: Option<GroupRegion>) -> Result<Mapped, LinkError> {
        let region = Region::open(fd)?;
        let mut header = [0; LinkHeader::LEN];
        region.copy_out(0, &mut header)?;
        let shape = LinkHeader::parse(&header).ok_or(LinkError::NotALink)?;
        Mapped::over(region, shape.layout()?, group)
    }

    fn over(
        region: Region,
        layout: LinkLayout,
        group: Option<GroupRegion>,
    ) -> Result<Mapped, LinkError> {
        if (region.len() as u64) < layout.len() {
            return Err(LinkError::NotALink);
        }
        let stride = layout.frame_stride() as usize;
        let is_group = group.as_ref().is_some_and(|g| g.stride == stride && g.frames > 0);
        if layout.shape.token == Token::Descriptor && !is_group {
            return Err(LinkError::NoGroup);
        }
        let ring_plans =
            [Ring::Primary, Ring::Aux, Ring::Injection].map(|r| RingPlan::new(&layout, r));
        Ok(Mapped { region: Arc::new(region), layout, ring_plans, group })
    }

    /// Marks the link as taken by a Worker; false when it was taken before.
    pub fn claim(&self) -> bool {
        let offset = core::mem::offset_of!(LinkHeader, reserved);
        let word = self.region.word(offset).expect("a word of the header");
        // Relaxed: only the value counts, nothing is ordered by it.
        word.swap(1, Ordering::Relaxed) == 0
    }

    /// The descriptor to hand to the other side.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.region.fd()
    }

    /// The memory itself, all of which the Worker may write.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// The kind of pages under it.
    pub fn pages(&self) -> Pages {
        self.region.pages()
    }

    /// Its group's region.
    pub fn group(&self) -> Option<&GroupRegion> {
        self.group.as_ref()
    }

    /// The head of a slot. Offsets come from the private layout and a masked number, so that they
    /// always lie within.
    #[inline(always)]
    fn head_bytes(&self, ring: Ring, slot: u32) -> Option<SharedBytes<'_>> {
        let offset = self.ring_plans[ring as usize].head(slot);
        self.region.bytes(offset, HEAD_LEN as usize).ok()
    }

    /// Part of a frame; none when it does not lie within.
    ///
    /// PERF: one check against the region, of the part that is wanted.
    #[inline(always)]
    fn part(&self, location: Location, start: usize, len: usize) -> Option<SharedBytes<'_>> {
        match location {
            Location::Slot(ring, slot) => {
                let plan = &self.ring_plans[ring as usize];
                let is_within = start.checked_add(len)? <= plan.frame_len;
                is_within.then(|| self.region.bytes(plan.frame(slot) + start, len).ok())?
            }
            Location::Frame(frame) => self.group_frame(frame).slice(start, len),
        }
    }

    #[inline(always)]
    fn frame(&self, location: Location) -> SharedBytes<'_> {
        match location {
            Location::Slot(ring, slot) => {
                let plan = &self.ring_plans[ring as usize];
                self.within(self.region.bytes(plan.frame(slot), plan.frame_len))
            }
            Location::Frame(frame) => self.group_frame(frame),
        }
    }

    #[inline]
    fn group_frame(&self, frame: u32) -> SharedBytes<'_> {
        let Some(group) = &self.group else { return self.empty() };
        let frame = if frame < group.frames { frame } else { 0 };
        let at = frame as usize * group.stride;
        self.within(group.region.bytes(at, self.layout.shape.frame_len() as usize))
    }

    #[inline]
    fn within<'a>(&'a self, bytes: Result<SharedBytes<'a>, RegionError>) -> SharedBytes<'a> {
        bytes.unwrap_or_else(|_| self.empty())
    }

    #[cold]
    fn empty(&self) -> SharedBytes<'_> {
        self.region.bytes(0, 0).expect("no bytes lie within every region")
    }
}

impl Worker<Mapped> {
    /// Opens a link that a Master made and takes the Worker's end of it, without a host and its
    /// handshake: for benches. Its mapping is its own.
    ///
    /// # Errors
    /// [`LinkError`]; [`LinkError::Taken`] when it has a Worker.
    pub fn open(fd: OwnedFd, threshold: u32) -> Result<Worker<Mapped>, LinkError> {
        let storage = Mapped::open(fd, None)?;
        if !storage.claim() {
            return Err(LinkError::Taken);
        }
        // JUSTIFICATION: gives a Worker's end to callers that may not write `unsafe`.
        // SAFETY: the mapping is this Worker's alone and never given out, and the region's word of
        // claims was 0, so no other Worker was created; that its Master keeps to the protocol is
        // what every Worker trusts its host for.
        Ok(unsafe { Worker::new(storage, threshold) })
    }
}

impl Storage for Mapped {
    #[inline]
    fn layout(&self) -> &LinkLayout {
        &self.layout
    }

    #[inline]
    fn is_damaged(&self) -> bool {
        self.region.is_damaged()
            || self.group.as_ref().is_some_and(|group| group.region.is_damaged())
    }

    #[inline]
    fn word(&self, word: Word) -> &AtomicU32 {
        // The layout was checked against the region's length, which is sealed.
        self.region.word(self.layout.word(word) as usize).expect("a word of the layout")
    }

    #[inline]
    fn head(&self, ring: Ring, slot: u32) -> SlotHead {
        match self.head_bytes(ring, slot) {
            Some(bytes) => SlotHead::from_words([bytes.read_word(0), bytes.read_word(8)]),
            None => SlotHead::default(),
        }
    }

    #[inline]
    fn set_head(&self, ring: Ring, slot: u32, head: SlotHead) {
        self.set_head_words(ring, slot, head.to_words());
    }

    #[inline]
    fn set_head_words(&self, ring: Ring, slot: u32, [low, high]: [u64; 2]) {
        if let Some(bytes) = self.head_bytes(ring, slot) {
            bytes.write_word(0, low);
            bytes.write_word(8, high);
        }
    }

    #[inline]
    fn copy_in(&self, location: Location, start: u32, bytes: &[u8]) {
        if let Some(to) = self.part(location, start as usize, bytes.len()) {
            to.copy_from(bytes);
        }
    }

    #[inline]
    fn set_words(&self, location: Location, start: u32, words: &[u64]) {
        let Some(to) = self.part(location, start as usize, 8 * words.len()) else { return };
        for (nth, word) in words.iter().enumerate() {
            to.copy_word(8 * nth, *word);
        }
    }

    #[inline]
    fn copy_out(&self, location: Location, start: u32, bytes: &mut [u8]) {
        if let Some(from) = self.part(location, start as usize, bytes.len()) {
            from.copy_to(bytes);
        }
    }

    #[inline]
    fn copy_across(&self, from: Location, span: Span, to: &Self, target: Location) {
        let len = span.len as usize;
        let source = self.part(from, span.start as usize, len);
        let target = to.part(target, to.layout.shape.headroom as usize, len);
        if let (Some(source), Some(target)) = (source, target) {
            source.copy_across(target, len);
        }
    }

    #[inline]
    fn prefetch(&self, location: Location) {
        match location {
            Location::Slot(ring, slot) => {
                self.region.prefetch(self.ring_plans[ring as usize].packet(slot));
            }
            Location::Frame(frame) => {
                if let Some(group) = &self.group {
                    let headroom = self.layout.shape.headroom as usize;
                    group.region.prefetch(frame as usize * group.stride + headroom);
                }
            }
        }
    }

    #[inline]
    fn prefetch_take(&self, slot: u32) {
        let plan = &self.ring_plans[Ring::Primary as usize];
        self.region.prefetch(plan.head(slot));
        self.region.prefetch(plan.packet(slot));
    }

    #[inline]
    fn prefetch_fill(&self, slot: u32) {
        let plan = &self.ring_plans[Ring::Primary as usize];
        if slot.is_multiple_of(HEADS_PER_LINE) {
            self.region.prefetch_write(plan.head(slot));
        }
        self.region.prefetch_write(plan.packet(slot));
    }

    #[inline]
    #[allow(clippy::mut_from_ref, reason = "exclusive by the caller's promise")]
    unsafe fn frame_mut(&self, location: Location) -> &mut [u8] {
        // JUSTIFICATION: the Worker's access to its packets.
        // SAFETY: the caller's promise is that of `as_mut_slice`.
        unsafe { self.frame(location).as_mut_slice() }
    }
}

//! Links in shared memory.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use thruway_nf_abi::{
    HEAD_LEN, LinkHeader, LinkLayout, LinkShape, Ring, ShapeError, SlotHead, Token, Word,
};
use thruway_region::{Pages, Region, RegionError, SharedBytes};
use thruway_sync::atomic::AtomicU32;

use crate::storage::{Place, Span, Storage};

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
        let region = Region::new(stride * frames as usize, pages)?;
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
    group: Option<GroupRegion>,
}

impl Mapped {
    /// Makes a link: the Master's way in.
    ///
    /// # Errors
    /// [`LinkError`].
    pub fn create(
        shape: &LinkShape,
        group: Option<GroupRegion>,
        pages: Pages,
    ) -> Result<Mapped, LinkError> {
        let layout = shape.layout()?;
        let len = usize::try_from(layout.len()).map_err(|_| LinkError::NotALink)?;
        let region = Region::new(len, pages)?;
        region.copy_in(0, &LinkHeader::new(shape).to_bytes())?;
        Mapped::over(region, layout, group)
    }

    /// Opens a link that the host made: the Worker's way in.
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
        Ok(Mapped { region: Arc::new(region), layout, group })
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
    #[inline]
    fn head_bytes(&self, ring: Ring, slot: u32) -> SharedBytes<'_> {
        let slot = slot & (self.layout.shape.ring_slots(ring) - 1);
        let offset = self.layout.heads(ring) + slot * HEAD_LEN;
        self.within(self.region.bytes(offset as usize, HEAD_LEN as usize))
    }

    #[inline]
    fn frame(&self, place: Place) -> SharedBytes<'_> {
        match (place, &self.group) {
            (Place::Frame(frame), Some(group)) => {
                let frame = if frame < group.frames { frame } else { 0 };
                let at = frame as usize * group.stride;
                self.within(group.region.bytes(at, self.layout.shape.frame_len() as usize))
            }
            (Place::Frame(_), None) => self.empty(),
            (Place::Slot(Ring::Primary, _), _) if self.layout.shape.token == Token::Descriptor => {
                self.empty()
            }
            (Place::Slot(ring, slot), _) => {
                let slot = slot & (self.layout.shape.ring_slots(ring) - 1);
                let stride = u64::from(self.layout.frame_stride());
                let at = (self.layout.frames(ring) + u64::from(slot) * stride) as usize;
                self.within(self.region.bytes(at, self.layout.shape.frame_len() as usize))
            }
        }
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

impl Storage for Mapped {
    #[inline]
    fn layout(&self) -> &LinkLayout {
        &self.layout
    }

    #[inline]
    fn word(&self, word: Word) -> &AtomicU32 {
        // The layout was checked against the region's length, which is sealed.
        self.region.word(self.layout.word(word) as usize).expect("a word of the layout")
    }

    #[inline]
    fn head(&self, ring: Ring, slot: u32) -> SlotHead {
        let bytes = self.head_bytes(ring, slot);
        SlotHead::from_words([bytes.read_word(0), bytes.read_word(8)])
    }

    #[inline]
    fn set_head(&self, ring: Ring, slot: u32, head: SlotHead) {
        let bytes = self.head_bytes(ring, slot);
        let [low, high] = head.to_words();
        bytes.write_word(0, low);
        bytes.write_word(8, high);
    }

    #[inline]
    fn copy_in(&self, place: Place, start: u32, bytes: &[u8]) {
        if let Some(to) = self.frame(place).slice(start as usize, bytes.len()) {
            to.copy_from(bytes);
        }
    }

    #[inline]
    fn copy_out(&self, place: Place, start: u32, bytes: &mut [u8]) {
        if let Some(from) = self.frame(place).slice(start as usize, bytes.len()) {
            from.copy_to(bytes);
        }
    }

    #[inline]
    fn copy_across(&self, from: Place, span: Span, to: &Self, target: Place) {
        let len = span.len as usize;
        let source = self.frame(from).slice(span.start as usize, len);
        let target = to.frame(target).slice(to.layout.shape.headroom as usize, len);
        if let (Some(source), Some(target)) = (source, target) {
            source.copy_across(target, len);
        }
    }

    #[inline]
    fn prefetch(&self, place: Place) {
        if let Some(packet) = self.frame(place).slice(self.layout.shape.headroom as usize, 0) {
            packet.prefetch();
        }
    }

    #[inline]
    #[allow(clippy::mut_from_ref, reason = "exclusive by the caller's promise")]
    unsafe fn frame_mut(&self, place: Place) -> &mut [u8] {
        // JUSTIFICATION: the Worker's way to its packets.
        // SAFETY: the caller's promise is that of `as_mut_slice`.
        unsafe { self.frame(place).as_mut_slice() }
    }
}

//! The content annotation of a packet, and the bytes that it speaks of.

use core::ops::Range;

use thruway_packet::{Anno, Packet};
pub use thruway_payload::{Content, Layer, flag};
use zerocopy::{FromBytes, IntoBytes};

/// The content of a packet for functions of streams.
pub trait HasContent {
    /// The annotation.
    fn content_mark(&self) -> Content;

    /// Sets the annotation.
    fn set_content_mark(&mut self, content: Content);

    /// Where the content is in `data()`: an empty place at the packet's end where the annotation
    /// is none, or wrong.
    fn content_range(&self) -> Range<usize>;

    /// The content.
    fn content(&self) -> &[u8];

    /// The content, to be changed; the packet is marked as changed.
    fn content_mut(&mut self) -> &mut [u8];
}

impl HasContent for Packet {
    #[inline]
    fn content_mark(&self) -> Content {
        Content::read_from_bytes(self.anno(Anno::CONTENT)).unwrap_or_default()
    }

    #[inline]
    fn set_content_mark(&mut self, content: Content) {
        self.anno_mut(Anno::CONTENT).copy_from_slice(content.as_bytes());
    }

    #[inline]
    fn content_range(&self) -> Range<usize> {
        let mark = self.content_mark();
        let len = self.len();
        let Some(network) = self.network_offset() else { return len..len };
        let from = network + usize::from(mark.start);
        let to = len.saturating_sub(usize::from(mark.suffix));
        if mark.layer() == Layer::None || from > to { len..len } else { from..to }
    }

    #[inline]
    fn content(&self) -> &[u8] {
        &self.data()[self.content_range()]
    }

    #[inline]
    fn content_mut(&mut self) -> &mut [u8] {
        let mut mark = self.content_mark();
        mark.flags |= flag::CHANGED;
        self.set_content_mark(mark);
        let place = self.content_range();
        &mut self.data_mut()[place]
    }
}

//! Where in a packet the payload is that functions see, passed from element to element, and by the
//! host to an isolated function.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The content of a packet for functions of streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Layer {
    /// None: the packet passes by. Pure acknowledgements, retransmissions, RST.
    #[default]
    None,
    /// Payload of IP.
    Ip,
    /// Payload of UDP.
    Udp,
    /// Payload of TCP, in order.
    Tcp,
    /// Body of an HTTP message.
    Http,
    /// Part of the stream that functions of this context do not see: framing, bodies that are
    /// compressed or of another type, connections that were upgraded.
    Opaque,
}

/// Flags of [`Content`].
pub mod flag {
    /// No content of this direction (of this message) follows.
    pub const LAST: u8 = 1 << 0;
    /// Between the transport header and the content stands a whole message head.
    pub const HEAD: u8 = 1 << 1;
    /// Bytes were changed: checksums are to be computed.
    pub const CHANGED: u8 = 1 << 2;
    /// The connection must end, instead of this packet being forwarded.
    pub const CLOSE: u8 = 1 << 3;
    /// A message begins with this packet.
    pub const FIRST: u8 = 1 << 4;
    /// Made to carry bytes that were held back for too long.
    pub const LATE: u8 = 1 << 5;
    /// With [`HEAD`]: a body follows that may change its length; the end of the context writes its
    /// end mark.
    pub const REFRAME: u8 = 1 << 6;
    /// With [`HEAD`]: the message is to or from a client that does not know chunks.
    pub const OLD: u8 = 1 << 7;
}

/// The annotation: 12 bytes, in the order of this machine.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct Content {
    /// Bytes from the network header to the first byte of the content.
    pub start: u16,
    /// Bytes behind the content.
    pub suffix: u16,
    /// How many bytes of the stream that the sender sent this packet accounts for.
    pub took: u16,
    /// See [`flag`].
    pub flags: u8,
    layer: u8,
    /// The connection's number in the context that it entered last.
    pub conn: u32,
}

impl Content {
    /// Bytes of it.
    pub const LEN: usize = size_of::<Content>();

    /// No content.
    pub const NONE: Content = Content { start: 0, suffix: 0, took: 0, flags: 0, layer: 0, conn: 0 };

    /// Content of a layer, from this many bytes behind the network header's beginning to the end,
    /// as its sender sent it: `took` bytes.
    #[inline]
    pub fn new(layer: Layer, start: u16, took: u16) -> Content {
        Content { start, took, ..Content::NONE }.with_layer(layer)
    }

    /// The packet's content.
    #[inline]
    pub fn layer(&self) -> Layer {
        match self.layer {
            1 => Layer::Ip,
            2 => Layer::Udp,
            3 => Layer::Tcp,
            4 => Layer::Http,
            5 => Layer::Opaque,
            _ => Layer::None,
        }
    }

    /// Sets the packet's content.
    #[inline]
    pub fn set_layer(&mut self, layer: Layer) {
        self.layer = match layer {
            Layer::None => 0,
            Layer::Ip => 1,
            Layer::Udp => 2,
            Layer::Tcp => 3,
            Layer::Http => 4,
            Layer::Opaque => 5,
        };
    }

    /// The same with another layer.
    #[must_use]
    #[inline]
    pub fn with_layer(mut self, layer: Layer) -> Content {
        self.set_layer(layer);
        self
    }

    /// Whether one of these flags is set.
    #[inline]
    pub fn has(&self, flags: u8) -> bool {
        self.flags & flags != 0
    }

    /// Whether functions are shown this packet.
    #[inline]
    pub fn is_shown(&self) -> bool {
        !matches!(self.layer(), Layer::None | Layer::Opaque)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_kept() {
        for layer in [Layer::None, Layer::Ip, Layer::Udp, Layer::Tcp, Layer::Http, Layer::Opaque] {
            let content = Content { took: 7, ..Content::NONE }.with_layer(layer);
            let read = Content::read_from_bytes(content.as_bytes()).unwrap();
            assert_eq!((read.layer(), read.took), (layer, 7));
        }
        assert_eq!(Content::read_from_bytes(&[0xff; Content::LEN]).unwrap().layer(), Layer::None);
        assert_eq!(Content::LEN, 12);
    }
}

//! Messages: a header, a fixed part, attributes.

/// Of `struct nlmsghdr` (netlink(7)).
pub(crate) const HEADER_LEN: usize = 16;
/// Of `struct nlattr`.
const ATTRIBUTE_LEN: usize = 4;
/// Messages and attributes begin at multiples of this.
const ALIGNMENT: usize = 4;
/// `NLA_F_NESTED`, `NLA_F_NET_BYTEORDER`: bits of an attribute's number that are not the number.
const NESTED: u16 = 0x8000;
const NUMBER: u16 = 0x3fff;

/// A request that is being written.
#[derive(Debug)]
pub struct Message {
    bytes: Vec<u8>,
}

impl Message {
    /// A request of a type and flags, with its fixed part.
    pub fn new(kind: u16, flags: u16, fixed: &[u8]) -> Message {
        let mut bytes = vec![0; HEADER_LEN];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        bytes.extend_from_slice(fixed);
        let mut message = Message { bytes };
        message.pad();
        message
    }

    /// Adds an attribute.
    #[must_use]
    pub fn with(mut self, kind: u16, value: &[u8]) -> Message {
        let begin = self.begin(kind);
        self.bytes.extend_from_slice(value);
        self.end(begin);
        self
    }

    /// Adds a text, with the zero at its end.
    #[must_use]
    pub fn with_text(self, kind: u16, text: &str) -> Message {
        self.with(kind, &[text.as_bytes(), &[0]].concat())
    }

    /// Adds an attribute of attributes.
    #[must_use]
    pub fn with_nested(mut self, kind: u16, fill: impl FnOnce(Message) -> Message) -> Message {
        let begin = self.begin(kind | NESTED);
        let mut filled = fill(self);
        filled.end(begin);
        filled
    }

    /// Adds bytes as they are: the fixed part of a message in an attribute.
    #[must_use]
    pub fn with_bytes(mut self, bytes: &[u8]) -> Message {
        self.bytes.extend_from_slice(bytes);
        self.pad();
        self
    }

    fn begin(&mut self, kind: u16) -> usize {
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 2]);
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        begin
    }

    /// Values are shorter than 64 kB: names, addresses, and attributes of these.
    fn end(&mut self, begin: usize) {
        let len = u16::try_from(self.bytes.len() - begin).unwrap_or(u16::MAX);
        self.bytes[begin..begin + 2].copy_from_slice(&len.to_ne_bytes());
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
    }

    /// Its bytes, under a number of the sender's choice.
    pub(crate) fn finish(mut self, sequence: u32) -> Vec<u8> {
        let len = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        self.bytes[..4].copy_from_slice(&len.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.bytes
    }
}

/// A message that was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Received<'b> {
    /// Its type.
    pub kind: u16,
    /// Its flags.
    pub flags: u16,
    /// The number of the request that it answers.
    pub sequence: u32,
    /// What follows its header.
    pub body: &'b [u8],
}

/// The messages of a datagram; it ends at the first one that is not whole.
pub(crate) fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Received<'_>> {
    std::iter::from_fn(move || {
        let header = bytes.first_chunk::<HEADER_LEN>()?;
        let [a, b, c, d, k, l, f, g, s, t, u, v, ..] = *header;
        let len = usize::try_from(u32::from_ne_bytes([a, b, c, d])).ok()?;
        let body = bytes.get(HEADER_LEN..len)?;
        bytes = bytes.get(len.next_multiple_of(ALIGNMENT)..).unwrap_or_default();
        Some(Received {
            kind: u16::from_ne_bytes([k, l]),
            flags: u16::from_ne_bytes([f, g]),
            sequence: u32::from_ne_bytes([s, t, u, v]),
            body,
        })
    })
}

/// Numbers and values of attributes; it ends at the first one that is not whole.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let [a, b, k, l] = *bytes.first_chunk::<ATTRIBUTE_LEN>()?;
        let len = usize::from(u16::from_ne_bytes([a, b]));
        let value = bytes.get(ATTRIBUTE_LEN..len)?;
        bytes = bytes.get(len.next_multiple_of(ALIGNMENT)..).unwrap_or_default();
        Some((u16::from_ne_bytes([k, l]) & NUMBER, value))
    })
}

/// A text, without the zeros at its end.
pub fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).trim_end_matches('\0').to_owned()
}

/// A number of four bytes; 0 for anything else.
pub fn number(value: &[u8]) -> u32 {
    value.try_into().map_or(0, u32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let message = Message::new(16, 5, &[1; 3]).with_text(3, "ab").with_nested(18, |inner| {
            inner.with(1, b"veth").with_nested(2, |inner| inner.with_bytes(&[7; 5]).with(9, &[]))
        });
        let bytes = message.finish(77);
        assert_eq!(bytes.len() % 4, 0);
        let all: Vec<Received<'_>> = messages(&bytes).collect();
        assert_eq!((all[0].kind, all[0].flags, all[0].sequence), (16, 5, 77));
        assert_eq!(all[0].body[..4], [1, 1, 1, 0]);
        let outer: Vec<_> = attributes(&all[0].body[4..]).collect();
        assert_eq!(outer[0], (3, &b"ab\0"[..]));
        assert_eq!(text(outer[0].1), "ab");
        let inner: Vec<_> = attributes(outer[1].1).collect();
        assert_eq!((outer[1].0, inner[0], inner[1].0), (18, (1, &b"veth"[..]), 2));
        assert_eq!(inner[1].1, [7, 7, 7, 7, 7, 0, 0, 0, 4, 0, 9, 0]);
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_read(bytes: Vec<u8>) {
            prop_assert!(messages(&bytes).count() <= bytes.len());
            prop_assert!(attributes(&bytes).count() <= bytes.len());
        }
    }
}

//! What a process at the other end of the control socket sends: what was understood is, written
//! again, the same bytes.

use thruway_nf_abi::message::{Head, Hello, Welcome, role_names};
use thruway_nf_abi::{LinkHeader, SlotHead, StreamHead};

/// See the module.
pub fn run(bytes: &[u8]) {
    if let Ok((head, body)) = Head::parse(bytes) {
        // All but the last word, which is reserved.
        let len = Head::LEN - 4;
        assert_eq!(head.to_bytes()[..len], bytes[..len]);
        assert_eq!(body.len(), bytes.len() - Head::LEN);
    }
    if let Ok(hello) = Hello::parse(bytes) {
        assert_eq!(hello.to_bytes()[..], bytes[..Hello::LEN]);
        assert!(hello.name().len() <= 32);
    }
    if let Ok(welcome) = Welcome::parse(bytes) {
        assert_eq!(welcome.to_bytes()[..], bytes[..Welcome::LEN]);
        if let Ok(names) = role_names(bytes) {
            assert_eq!(names.as_bytes(), &bytes[Welcome::LEN..]);
        }
    }
    if let Some(Ok(header)) = bytes.get(..LinkHeader::LEN).map(<[u8; LinkHeader::LEN]>::try_from)
        && let Some(shape) = LinkHeader::parse(&header)
    {
        // What opens a region checks the shape, too.
        if let Ok(layout) = shape.layout() {
            assert_eq!(layout.shape, shape);
        }
    }
    if let Some(Ok(words)) = bytes.get(..16).map(<[u8; 16]>::try_from) {
        let number = u128::from_le_bytes(words);
        let words = [number as u64, (number >> 64) as u64];
        assert_eq!(SlotHead::from_words(words).to_words(), words);
    }
    if let Some(Ok(head)) = bytes.get(..StreamHead::LEN).map(<[u8; StreamHead::LEN]>::try_from) {
        let _ = StreamHead::from_bytes(head).to_bytes();
    }
}

//! What a process at the other end of the control socket sends: what was understood is, written
//! again, the same bytes.

use thruway_nf_abi::features::{Features, Offer};
use thruway_nf_abi::message::{Head, Hello, Kind, Welcome, role_names};
use thruway_nf_abi::{LinkHeader, SlotHead, StreamHead};

/// See the module.
pub fn run(bytes: &[u8]) {
    if let Ok((head, body)) = Head::parse(bytes) {
        // A refusal may be of any version.
        assert_eq!(head.to_bytes()[..8], bytes[..8]);
        assert_eq!(head.to_bytes()[12..], bytes[12..Head::LEN]);
        assert_eq!(body.len(), bytes.len() - Head::LEN);
        agree(head, body);
    }
    let head = Head::new(Kind::Hello, 0);
    if let Ok(hello) = Hello::parse(head, bytes) {
        assert_eq!(hello.to_bytes()[..], bytes[..Hello::LEN]);
        assert!(hello.name().len() <= 32);
    }
    if let Ok(welcome) = Welcome::parse(head, bytes) {
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

/// Whatever a Worker offers, what its host puts into force is accepted.
fn agree(head: Head, body: &[u8]) {
    let offer = Offer::from_word(head.features);
    assert_eq!(offer.to_word(), head.features);
    if let Ok(in_force) = offer.agree(Features::ALL) {
        assert!(Features::ALL.contains(in_force) && offer.known.contains(in_force));
        assert_eq!(offer.accept(in_force), Ok(()));
    }
    if let Ok(hello) = Hello::parse(head, body) {
        assert_eq!(hello.offer, offer);
    }
    if let Ok(welcome) = Welcome::parse(head, body) {
        assert_eq!(welcome.head().features, head.features);
        let _ = offer.accept(welcome.features);
    }
}

//! Any bytes are a message or are not; none is a panic. What is one is read back from its bytes.

use proptest::prelude::*;
use thruway_nf_abi::message::{Head, Hello, Kind, Welcome};
use thruway_nf_abi::{LinkHeader, OLDEST_VERSION, Ring, SlotHead, VERSION};

/// Bytes that are often nearly right: small numbers, and the beginning of a true message.
fn nearly(len: usize) -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![3 => Just(0u8), 2 => 0u8..3, 1 => any::<u8>()];
    prop::collection::vec(byte, 0..len + 8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn heads(kind in 0u32..14, id: u32, version in 0..VERSION + 2, cut in 0usize..30, body in nearly(9)) {
        let mut bytes = Head::new(Kind::Hello, id).to_bytes().to_vec();
        bytes[8..12].copy_from_slice(&version.to_le_bytes());
        bytes[12..16].copy_from_slice(&kind.to_le_bytes());
        bytes.extend(&body);
        bytes.truncate(bytes.len().min(cut + body.len()));
        if let Ok((head, rest)) = Head::parse(&bytes) {
            prop_assert_eq!((head.kind as u32, head.id), (kind, id));
            let is_spoken = (OLDEST_VERSION..=VERSION).contains(&version);
            prop_assert!(is_spoken || head.kind == Kind::Refused);
            prop_assert_eq!(rest, &bytes[Head::LEN..]);
        }
    }

    #[test]
    fn bodies(features: u32, bytes in nearly(Hello::LEN)) {
        let head = Head { features, ..Head::new(Kind::Hello, 0) };
        if let Ok(hello) = Hello::parse(head, &bytes) {
            prop_assert!(hello.outputs <= 256 && hello.scratch_len <= 1 << 20);
            prop_assert_eq!(Hello::parse(hello.head(), &hello.to_bytes()), Ok(hello));
            let _ = hello.name();
        }
        if let Ok(welcome) = Welcome::parse(head, &bytes) {
            prop_assert!(welcome.links > 0 && welcome.worker_threshold > 0);
            prop_assert_eq!(Welcome::parse(welcome.head(), &welcome.to_bytes()), Ok(welcome));
        }
    }

    #[test]
    fn link_headers(shape: [u32; 8], small: bool) {
        let mut shape = if small { shape.map(|n| 1 << (n % 18)) } else { shape };
        shape[6] = thruway_nf_abi::INDEX_STRIDE;
        let header = LinkHeader { shape, ..LinkHeader::new(&thruway_nf_abi::LinkShape::DEFAULT) };
        let Some(parsed) = LinkHeader::parse(&header.to_bytes()) else { return Ok(()) };
        let Ok(layout) = parsed.layout() else { return Ok(()) };
        let end = layout.frames(Ring::Injection)
            + u64::from(parsed.injection_slots) * u64::from(layout.frame_stride());
        prop_assert_eq!(end, layout.len());
        prop_assert!(layout.len() < 1 << 33);
    }

    #[test]
    fn slot_heads(words: [u64; 2]) {
        prop_assert_eq!(SlotHead::from_words(words).to_words(), words);
    }
}

use crate::message::{Head, Hello, Kind, Malformed, WaitMode, Wake, Welcome};
use crate::{
    HEAD_LEN, LinkHeader, LinkShape, Ring, ShapeError, SlotHead, StreamHead, Token, Word,
    stream_need,
};

#[test]
fn heads_survive_the_way_through_words() {
    let head = SlotHead {
        start: 64,
        len: 1514,
        flags: 5,
        output: 7,
        input: 3,
        direction: 1,
        fcb: 0x1234_5678,
        frame: 0x9abc_def0,
    };
    assert_eq!(SlotHead::from_words(head.to_words()), head);
}

#[test]
fn parts_of_a_link_do_not_overlap() {
    for token in [Token::Inline, Token::Descriptor] {
        for (slots, align) in [(2, 64), (1024, 8), (65_536, 64)] {
            let shape = LinkShape { slots, token, frame_align: align, ..LinkShape::DEFAULT };
            let layout = shape.layout().expect("a good shape");
            let mut end = u64::from(layout.word(Word::MasterWaits)) + 4;
            let rings = [Ring::Primary, Ring::Aux, Ring::Injection];
            for ring in rings {
                assert!(u64::from(layout.heads(ring)) >= end);
                end = u64::from(layout.heads(ring) + shape.ring_slots(ring) * HEAD_LEN);
            }
            for ring in rings {
                assert!(layout.frames(ring) >= end && layout.frames(ring).is_multiple_of(8));
                let inline = ring != Ring::Primary || token == Token::Inline;
                let count = if inline { shape.ring_slots(ring) } else { 0 };
                end = layout.frames(ring) + u64::from(count) * u64::from(layout.frame_stride());
            }
            assert_eq!(end, layout.len());
            assert!(layout.frame_stride() >= shape.frame_len());
        }
    }
}

#[test]
fn frames_begin_on_lines_an_odd_number_apart() {
    let layout = LinkShape::DEFAULT.layout().expect("the default");
    assert_eq!(layout.frames(Ring::Primary) % 64, 0);
    assert_eq!(layout.frame_stride() % 128, 64);
}

#[test]
fn bad_sizes_are_named() {
    let bad = |shape: LinkShape| shape.layout().expect_err("refused");
    assert_eq!(bad(LinkShape { slots: 3, ..LinkShape::DEFAULT }), ShapeError::Slots(3));
    assert_eq!(bad(LinkShape { slots: 1, ..LinkShape::DEFAULT }), ShapeError::Slots(1));
    assert_eq!(bad(LinkShape { slots: 1 << 17, ..LinkShape::DEFAULT }), ShapeError::Slots(1 << 17));
    assert_eq!(bad(LinkShape { aux_slots: 0, ..LinkShape::DEFAULT }), ShapeError::AuxSlots(0));
    let long = LinkShape { packet_len_max: u32::MAX, ..LinkShape::DEFAULT };
    assert_eq!(bad(long), ShapeError::PacketLen(u32::MAX));
    let head = LinkShape { headroom: u32::MAX, ..LinkShape::DEFAULT };
    assert_eq!(bad(head), ShapeError::Headroom(u32::MAX));
}

#[test]
fn link_headers_are_read_back_or_refused() {
    let shape = LinkShape { slots: 64, token: Token::Descriptor, ..LinkShape::DEFAULT };
    let mut bytes = LinkHeader::new(&shape).to_bytes();
    assert_eq!(LinkHeader::parse(&bytes), Some(shape));
    // Another version; then another distance of shared words, which is no choice.
    for (at, bit) in [(8, 1), (36, 4)] {
        bytes[at] ^= bit;
        assert_eq!(LinkHeader::parse(&bytes), None);
        bytes[at] ^= bit;
    }
}

#[test]
fn messages_are_read_back() {
    let hello = Hello {
        wake: Wake::Eventfd,
        outputs: 2,
        scratch_len: 64,
        stream: stream_need::STREAM | 5,
        name: Hello::name_from("naïve"),
    };
    assert_eq!(Hello::parse(&hello.to_bytes()), Ok(hello));
    assert_eq!(hello.name(), "naïve");
    let welcome = Welcome {
        links: 2,
        inputs: 1,
        outputs: 3,
        wait: WaitMode::Hybrid,
        spin_ns: 50_000,
        worker_threshold: 32,
        sessions: 9,
        has_group: true,
        restarted: false,
    };
    assert_eq!(Welcome::parse(&welcome.to_bytes()), Ok(welcome));
    let head = Head { kind: Kind::Hello, id: 7 };
    assert_eq!(Head::parse(&head.to_bytes()), Ok((head, &[][..])));
}

#[test]
fn stream_heads_survive_the_way_through_bytes() {
    let head = StreamHead { headers: 40, message_head: 0x102, kept: 0x304, flags: 33, now: -5 };
    assert_eq!(StreamHead::from_bytes(head.to_bytes()), head);
    assert_eq!(StreamHead::from_bytes([0; 16]), StreamHead::default());
}

#[test]
fn what_is_no_message_says_why() {
    let mut bytes = Head { kind: Kind::Ready, id: 0 }.to_bytes();
    assert_eq!(Head::parse(&bytes[..5]), Err(Malformed::Short));
    bytes[8] = 9;
    assert_eq!(Head::parse(&bytes), Err(Malformed::Version(9)));
    bytes[0] = b'X';
    assert_eq!(Head::parse(&bytes), Err(Malformed::Magic));
    assert_eq!(Hello::parse(&[0; 47]), Err(Malformed::Short));
    assert_eq!(Welcome::parse(&[0; 36]), Err(Malformed::Value));
}

#[test]
fn long_names_are_cut_between_characters() {
    let name = Hello::name_from("a names of many letters, ééééééééééé");
    assert!(core::str::from_utf8(&name[..31]).is_ok() && name[31] == 0);
}

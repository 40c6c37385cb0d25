extern crate std;

use std::string::ToString as _;

use crate::features::{Features, Offer};
use crate::message::{
    Head, Hello, Kind, Malformed, WaitMode, Wake, Welcome, first_link_of, worker_of,
};
use crate::{
    HEAD_LEN, LinkHeader, LinkShape, OLDEST_VERSION, Ring, ShapeError, SlotHead, StreamHead, Token,
    VERSION, Word, arena_stride, control, flag, stream_need,
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
        offer: Offer { known: Features::from_bits(0x8001), needed: Features::ROLES },
        name: Hello::name_from("naïve"),
    };
    assert_eq!(Hello::parse(hello.head(), &hello.to_bytes()), Ok(hello));
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
        features: Features::ROLES,
        workers: 1,
    };
    assert_eq!(Welcome::parse(welcome.head(), &welcome.to_bytes()), Ok(welcome));
    assert_eq!(welcome.head().features, 1, "as before there were Workers");
    let two = Welcome { features: Features::ALL, workers: 2, ..welcome };
    assert_eq!(Welcome::parse(two.head(), &two.to_bytes()), Ok(two));
    // Not agreed on; more than there are links.
    for wrong in [Welcome { features: Features::ROLES, ..two }, Welcome { workers: 3, ..two }] {
        assert_eq!(Welcome::parse(wrong.head(), &wrong.to_bytes()), Err(Malformed::Value));
    }
    let head = Head { features: u32::MAX, ..Head::new(Kind::Hello, 7) };
    assert_eq!(Head::parse(&head.to_bytes()), Ok((head, &[][..])));
}

/// All numbers of links and Workers: each link is one Worker's, in order, and they have as many, or
/// one more.
#[test]
fn links_are_shared_out_among_workers() {
    for (links, workers) in (1..=40).flat_map(|links| (1..=links).map(move |n| (links, n))) {
        let mut counts = std::vec![0; workers as usize];
        for link in 0..links {
            let worker = worker_of(link, links, workers);
            assert!(link >= first_link_of(worker, links, workers));
            assert!(link < first_link_of(worker + 1, links, workers));
            counts[worker as usize] += 1;
        }
        let (least, most) = (links / workers, links.div_ceil(workers));
        assert!(counts.iter().all(|count| (least..=most).contains(count)), "{links} {workers}");
        assert_eq!(first_link_of(workers, links, workers), links);
    }
}

#[test]
fn stream_heads_survive_the_way_through_bytes() {
    let head = StreamHead { headers: 40, message_head: 0x102, kept: 0x304, flags: 33, now: -5 };
    assert_eq!(StreamHead::from_bytes(head.to_bytes()), head);
    assert_eq!(StreamHead::from_bytes([0; 16]), StreamHead::default());
}

#[test]
fn what_is_no_message_says_why() {
    let mut bytes = Head::new(Kind::Ready, 0).to_bytes();
    assert_eq!(Head::parse(&bytes[..5]), Err(Malformed::Short));
    bytes[8] = 9;
    assert_eq!(Head::parse(&bytes), Err(Malformed::Version(9)));
    bytes[0] = b'X';
    assert_eq!(Head::parse(&bytes), Err(Malformed::Magic));
    let head = Head::new(Kind::Hello, 0);
    assert_eq!(Hello::parse(head, &[0; 47]), Err(Malformed::Short));
    assert_eq!(Welcome::parse(head, &[0; 36]), Err(Malformed::Value));
}

#[test]
fn long_names_are_cut_between_characters() {
    let name = Hello::name_from("a names of many letters, ééééééééééé");
    assert!(core::str::from_utf8(&name[..31]).is_ok() && name[31] == 0);
}

/// Every version in the head of every kind of message: spoken versions are read, others are named,
/// and a REFUSED is read from any version.
#[test]
fn versions_that_are_not_spoken_are_named() {
    let around = OLDEST_VERSION.saturating_sub(2)..VERSION + 3;
    for (version, kind) in around.flat_map(|version| (1..=10).map(move |kind| (version, kind))) {
        let mut bytes = Head::new(Kind::Ready, 3).to_bytes();
        bytes[8..12].copy_from_slice(&version.to_le_bytes());
        bytes[12..16].copy_from_slice(&u32::to_le_bytes(kind));
        let is_spoken = version >= OLDEST_VERSION && version <= VERSION;
        match Head::parse(&bytes) {
            Ok((head, _)) => {
                assert!(is_spoken || head.kind == Kind::Refused, "{version} {head:?}");
                assert_eq!((head.kind as u32, head.id), (kind, 3));
            }
            Err(error) => {
                assert_eq!(error, Malformed::Version(version));
                assert!(!is_spoken && kind != Kind::Refused as u32, "{version} {kind}");
            }
        }
    }
    let than = |version| Malformed::Version(version).to_string();
    assert!(than(VERSION + 1).contains(", later than") && than(1).contains(", earlier than"));
}

/// The bytes that existing functions read and write: a change of one of them needs a new
/// [`VERSION`].
#[test]
fn bytes_of_this_version_are_as_they_were_when_it_began() {
    let hello = Hello {
        wake: Wake::Eventfd,
        outputs: 2,
        scratch_len: 0x1234,
        stream: 0,
        offer: Offer::default(),
        name: Hello::name_from("n"),
    };
    let head =
        [b"THRUWAY\0".as_slice(), &[5, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]].concat();
    assert_eq!(hello.head().to_bytes()[..], head);
    let numbers = [1, 0, 0, 0, 2, 0, 0, 0, 0x34, 0x12, 0, 0, 0, 0, 0, 0];
    assert_eq!(hello.to_bytes()[..17], [&numbers[..], b"n"].concat());
    let shape = LinkShape::DEFAULT;
    let layout = shape.layout().expect("the default");
    assert_eq!(LinkHeader::new(&shape).to_bytes()[8..16], [5, 0, 0, 0, 0, 4, 0, 0]);
    assert_eq!(Word::ALL.map(|word| layout.word(word)), [4096, 4224, 4352, 4480, 4608, 4736, 4864]);
    assert_eq!(Ring::ALL.map(|ring| layout.heads(ring)), [4992, 21_376, 25_472]);
    assert_eq!(Ring::ALL.map(|ring| layout.frames(ring)), [32_768, 1_671_168, 2_080_768]);
    assert_eq!((layout.frame_stride(), layout.len()), (1600, 2_490_368));
    let flags = [flag::DROPPED, flag::AUX, flag::NEXT, flag::NEW, flag::RELEASED, flag::LOST];
    assert_eq!((flags, flag::KEPT), ([1, 2, 4, 8, 16, 32], 64));
    let words = SlotHead {
        start: 1,
        len: 2,
        flags: 3,
        output: 4,
        input: 5,
        direction: 6,
        fcb: 7,
        frame: 8,
    };
    assert_eq!(words.to_words(), [0x0605_0403_0002_0001, 0x8_0000_0007]);
    assert_eq!([1, 8, 9, 64, 65].map(arena_stride), [8, 8, 16, 64, 128]);
    let words = [control::STATUS, control::COMMAND, control::REQUESTS, control::WORKER_THRESHOLD];
    assert_eq!(words, [128, 256, 260, 264]);
    let rest = [control::HEARTBEAT, control::FIGURES, control::COUNTERS, control::COUNTER_LEN];
    assert_eq!((rest, control::LEN), ([384, 512, 1024, 48], 8192));
}

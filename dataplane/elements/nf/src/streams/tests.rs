//! A host's side against functions that are honest, and against others.

use proptest::prelude::*;
use thruway_nf_abi::SlotHead;
use thruway_stream::content::{Content, Layer};

use super::*;

const HEADROOM: u32 = 64;
const HEADERS: usize = 20;

/// A packet of a connection: Ethernet header, headers, content.
fn packet(content: &[u8], flags: u8) -> Packet {
    let mut packet = Packet::new(&[&[0xee; 14][..], &[0x45; HEADERS], content].concat()).unwrap();
    packet.set_network(14, HEADERS);
    let mut mark = Content::new(Layer::Tcp, HEADERS as u16, content.len() as u16);
    mark.flags = flags;
    packet.set_content_mark(mark);
    packet
}

/// One session's two directions, without a ring: each packet comes back at once.
struct Game {
    streams: Streams,
    /// What the function holds back, by direction.
    copies: [Vec<u8>; 2],
}

const ENTRY: u32 = 3;

fn mark(direction: u8) -> SlotTag {
    SlotTag::of(1, direction, 100 + ENTRY)
}

fn bytes_of(head: StreamHead, content: &[u8]) -> Vec<u8> {
    [&head.to_bytes(), &[0x45; HEADERS][..], content].concat()
}

impl Game {
    fn new(needs: Needs) -> Game {
        let mut game = Game { streams: Streams::new(needs, 8, 1000), copies: Default::default() };
        game.restarts();
        game
    }

    /// What the function finds in the slot.
    fn slot(&mut self, direction: u8, packet: &Packet) -> (StreamHead, Vec<u8>) {
        let bytes = self.streams.pack(mark(direction), Some(ENTRY), packet, 7).to_vec();
        self.streams.put(mark(direction), Some(ENTRY));
        let head = StreamHead::from_bytes(bytes[..StreamHead::LEN].try_into().unwrap());
        assert_eq!(head.now, 7);
        (head, bytes[(StreamHead::LEN + usize::from(head.headers)).min(bytes.len())..].to_vec())
    }

    fn answers(&mut self, direction: u8, packet: &mut Packet, start: u32, bytes: &[u8]) -> bool {
        let span = Span { start, len: bytes.len() as u32 };
        let place = (HEADROOM, StreamHead::LEN + headers(packet).len(), packet.content().len());
        let fill = |to: &mut [u8]| {
            let len = to.len().min(bytes.len());
            to[..len].copy_from_slice(&bytes[..len]);
        };
        let answer = self.streams.read(span, place, fill);
        self.streams.follow((mark(direction), Some(ENTRY)), packet, answer, 7)
    }

    /// An honest function that upper-cases, doubles every `b`, and holds back an `a` at the end.
    fn honest(&mut self, direction: u8, packet: &mut Packet) -> bool {
        let (mut head, content) = self.slot(direction, packet);
        assert_ne!(head.flags & stream_flag::SHOWN, 0);
        let copy = &mut self.copies[usize::from(direction)];
        let before = std::mem::take(copy);
        let before = if head.flags & stream_flag::RESENT != 0 { Vec::new() } else { before };
        let mut out = Vec::new();
        for byte in before.iter().chain(&content) {
            out.push(*byte);
            out.extend((*byte == b'b').then_some(b'b'));
        }
        let holds =
            out.last() == Some(&b'a') && head.flags & (stream_flag::LAST | stream_flag::LATE) == 0;
        if holds {
            head.kept = 1;
            copy.push(b'a');
        }
        head.flags |= stream_flag::CHANGED;
        self.answers(direction, packet, HEADROOM, &bytes_of(head, &out))
    }

    fn restarts(&mut self) {
        self.streams.begin();
        self.copies = Default::default();
    }
}

#[derive(Debug, Clone)]
enum Step {
    Packet(u8, Vec<u8>),
    /// It is not treated.
    Passes(u8, Vec<u8>),
    /// One without content.
    Bare(u8),
    Remind,
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let content = || prop::collection::vec(b'a'..=b'b', 0..6);
    prop_oneof![
        8 => (0..2u8, content()).prop_map(|(way, content)| Step::Packet(way, content)),
        1 => (0..2u8, content()).prop_map(|(way, content)| Step::Passes(way, content)),
        2 => (0..2u8).prop_map(Step::Bare),
        1 => Just(Step::Remind),
        1 => Just(Step::Restart),
    ]
}

proptest! {
    #[test]
    fn nothing_is_lost_and_nothing_is_there_twice(steps in prop::collection::vec(step(), 0..40)) {
        let mut game = Game::new(Needs::RESIZE);
        let (mut want, mut got) = (vec![Vec::<u8>::new(); 2], vec![Vec::<u8>::new(); 2]);
        for step in &steps {
            match step {
                Step::Packet(way, content) => {
                    for byte in content {
                        want[usize::from(*way)].push(*byte);
                        want[usize::from(*way)].extend((*byte == b'b').then_some(b'b'));
                    }
                    let mut packet = packet(content, 0);
                    prop_assert!(game.honest(*way, &mut packet));
                    got[usize::from(*way)].extend(packet.content());
                }
                Step::Passes(way, content) => {
                    // Then its process is gone, too.
                    want[usize::from(*way)].extend(content);
                    let mut packet = packet(content, 0);
                    prop_assert!(game.streams.pass(mark(*way), Some(ENTRY), &mut packet, 7));
                    got[usize::from(*way)].extend(packet.content());
                    game.restarts();
                }
                Step::Remind => {
                    while let Some((port, mut packet)) = game.streams.remind(i64::MAX) {
                        prop_assert_eq!(port, 1);
                        // The stage does not say which: both are asked.
                        let way = u8::from(game.streams.stage.kept(&game.streams.known[ENTRY as usize].memory, 0).is_empty());
                        prop_assert!(game.honest(way, &mut packet));
                        got[usize::from(way)].extend(packet.content());
                    }
                }
                Step::Bare(way) => {
                    let mut bare = packet(b"", 0);
                    bare.set_content_mark(Content::NONE);
                    let (head, content) = game.slot(*way, &bare);
                    prop_assert_eq!((head.flags, content.len()), (0, 0));
                    let bytes = head.to_bytes();
                    prop_assert!(game.answers(*way, &mut bare, HEADROOM, &bytes));
                    prop_assert_eq!(bare.content_mark(), Content::NONE);
                }
                Step::Restart => game.restarts(),
            }
        }
        for way in 0..2 {
            let mut last = packet(b"", flag::LAST);
            prop_assert!(game.honest(way, &mut last));
            got[usize::from(way)].extend(last.content());
        }
        prop_assert_eq!(got, want);
        prop_assert_eq!(game.streams.stage.holding(), 0);
        prop_assert_eq!((game.streams.lies, game.streams.stage.counts.closed), (0, 0));
    }

    #[test]
    fn whoever_lies_harms_only_its_connection(
        needs in prop::sample::select(vec![Needs::ORDER, Needs::CHANGE, Needs::RESIZE]),
        content in prop::collection::vec(any::<u8>(), 0..20),
        start in prop_oneof![4 => Just(HEADROOM), 1 => 0..200u32],
        flags: u8, kept in prop_oneof![0..30u16, any::<u16>()],
        answer in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let mut game = Game::new(needs);
        let mut packet = packet(&content, 0);
        game.slot(0, &packet);
        let head = StreamHead { flags, kept, ..StreamHead::default() };
        let bytes = [&head.to_bytes()[..], &answer].concat();
        let before = packet.data()[..14 + HEADERS].to_vec();
        prop_assert!(game.answers(0, &mut packet, start, &bytes));
        // What is not content is as it was.
        prop_assert_eq!(&packet.data()[..14 + HEADERS], before);
        let (mark, came) = (packet.content_mark(), packet.content());
        if mark.has(flag::CLOSE) {
            return Ok(());
        }
        let kept = usize::from(kept);
        if flags & stream_flag::CHANGED != 0 {
            prop_assert!(needs.change && start == HEADROOM);
            let new = &answer[HEADERS..];
            prop_assert_eq!(came, &new[..new.len() - kept]);
            prop_assert!(needs.resize || new.len() == content.len());
        } else {
            prop_assert!(content.starts_with(came));
        }
        prop_assert!(needs.resize || kept == 0);
        prop_assert_eq!(game.streams.lies, 0);
    }
}

#[test]
fn a_lie_closes_and_is_counted() {
    let mut game = Game::new(Needs::CHANGE);
    let mut first = packet(b"content", 0);
    let (head, _) = game.slot(0, &first);
    let head = StreamHead { flags: head.flags | stream_flag::CHANGED, ..head };
    assert!(game.answers(0, &mut first, HEADROOM, &bytes_of(head, b"longer content")));
    assert!(first.content_mark().has(flag::CLOSE));
    assert_eq!(game.streams.figure("streams_lies"), Some(1));
    // Both directions are at their end, and the function is not shown any more of them.
    let (head, content) = game.slot(1, &packet(b"more", 0));
    assert_eq!((head.flags, content.len()), (0, 0));
    // The next session in the entry begins anew.
    game.streams.release(ENTRY);
    assert_ne!(game.slot(1, &packet(b"more", 0)).0.flags & stream_flag::SHOWN, 0);
}

#[test]
fn what_is_lost_closes_if_it_has_content() {
    let mut game = Game::new(Needs::ORDER);
    let mut acknowledgement = packet(b"", 0);
    acknowledgement.set_content_mark(Content::NONE);
    assert!(!game.streams.close(mark(0), Some(ENTRY), &mut acknowledgement, 7));
    let mut stranger = packet(b"x", 0);
    assert!(!game.streams.close(SlotTag::of(0, 0, SlotHead::NO_SESSION), None, &mut stranger, 7));
    let mut data = packet(b"x", 0);
    assert!(game.streams.close(mark(0), Some(ENTRY), &mut data, 7));
    assert!(data.content_mark().has(flag::CLOSE));
}

#[test]
fn a_reminder_that_finds_nothing_goes_nowhere() {
    let mut game = Game::new(Needs::RESIZE);
    let mut first = packet(b"xa", 0);
    assert!(game.honest(0, &mut first));
    assert_eq!(first.content(), b"x");
    assert_eq!(game.streams.ask_due(), Some(1007));
    assert_eq!(game.streams.ask_due(), None);
    let (_, mut reminder) = game.streams.remind(1007).unwrap();
    let mut second = packet(b"c", 0);
    assert!(game.honest(0, &mut second));
    assert_eq!(second.content(), b"ac");
    assert!(!game.honest(0, &mut reminder));
}

//! Functions of streams on trial: the host's side is a few lines here.

use proptest::prelude::*;
use thruway_exchange::SlotTag;
use thruway_nf::trial::{Arrival, Setup, Trial};
use thruway_nf::{Config, Needs, Next, StreamCursor, StreamFunction, Streams};
use thruway_nf_abi::{StreamHead, stream_flag as flag};

/// Replaces a word, and counts how often in each direction.
struct Replacer {
    word: &'static [u8],
    with: &'static [u8],
}

impl StreamFunction for Replacer {
    type State = [u64; 2];
    const NEEDS: Needs = Needs::RESIZE;

    fn process(&mut self, counts: &mut [u64; 2], data: &mut StreamCursor<'_>) -> Next {
        let mut found = 0;
        while let Some(byte) = data.next() {
            if byte == b'!' {
                return Next::Close;
            }
            if byte != self.word[found] {
                data.back(found);
                found = 0;
            } else if found + 1 == self.word.len() {
                data.replace_back(self.word.len(), self.with);
                counts[data.direction()] += 1;
                found = 0;
            } else {
                found += 1;
            }
        }
        data.back(found);
        if found > 0 { Next::NeedMore } else { Next::Continue }
    }
}

const HEADERS: &[u8] = b"some headers";

fn setup() -> Setup {
    Setup { sessions: 4, ..Setup::DEFAULT }
}

fn start(word: &'static [u8], with: &'static [u8]) -> Trial {
    let config = Config::stream::<Replacer>("replacer");
    setup().thread(config, move |_| Ok(Streams::new(Replacer { word, with }))).unwrap()
}

fn slot(content: &[u8], flags: u8) -> Vec<u8> {
    let headers = HEADERS.len() as u16;
    let head = StreamHead { headers, flags: flag::SHOWN | flags, now: 9, ..StreamHead::default() };
    [&head.to_bytes(), HEADERS, content].concat()
}

/// What the function answers: the head, and the content without what is held back.
fn answer(bytes: &[u8]) -> (StreamHead, Vec<u8>) {
    let head = StreamHead::from_bytes(bytes[..StreamHead::LEN].try_into().unwrap());
    let (headers, content) = bytes[StreamHead::LEN..].split_at(HEADERS.len());
    assert_eq!(headers, HEADERS);
    (head, content[..content.len() - usize::from(head.kept)].to_vec())
}

fn exchange(trial: &mut Trial, mark: SlotTag, bytes: &[u8]) -> (StreamHead, Vec<u8>) {
    let given = trial.exchange_marked(&[(mark, bytes)]).unwrap();
    assert_eq!((given.len(), given[0].arrival), (1, Arrival::Returned));
    answer(&given[0].bytes)
}

/// All words of a whole.
fn replaced(all: &[u8], word: &[u8], with: &[u8]) -> (Vec<u8>, u64) {
    let (mut out, mut at, mut count) = (Vec::new(), 0, 0);
    while at < all.len() {
        if all[at..].starts_with(word) {
            out.extend(with);
            at += word.len();
            count += 1;
        } else {
            out.push(all[at]);
            at += 1;
        }
    }
    (out, count)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_stream_is_replaced_as_a_whole(
        pieces in prop::collection::vec(
            (0..2u8, 0..2u32, prop::collection::vec(b'a'..=b'b', 0..9)), 1..20,
        ),
        with in prop::sample::select(vec![&b""[..], b"X", b"XYZXYZ"]),
    ) {
        let word = b"aab";
        let mut trial = start(word, with);
        let (mut sent, mut got) = (vec![Vec::new(); 4], vec![Vec::new(); 4]);
        let mut bytes: Vec<(SlotTag, Vec<u8>)> = Vec::new();
        for (direction, session, piece) in &pieces {
            sent[usize::from(*direction) + 2 * *session as usize].extend(piece);
            bytes.push((SlotTag::of(0, *direction, *session), slot(piece, 0)));
        }
        for stream in 0..4 {
            let mark = SlotTag::of(0, stream as u8 & 1, stream as u32 / 2);
            bytes.push((mark, slot(b"", flag::LAST)));
        }
        // All at once: the function is not asked one by one.
        let each = bytes.iter().map(|(mark, bytes)| (*mark, &bytes[..]));
        let all: Vec<(SlotTag, &[u8])> = each.collect();
        for (given, (mark, _)) in trial.exchange_marked(&all).unwrap().iter().zip(&all) {
            let stream = usize::from(mark.direction) + 2 * mark.fcb as usize;
            got[stream].extend(answer(&given.bytes).1);
        }
        for stream in 0..4 {
            let (want, count) = replaced(&sent[stream], word, with);
            prop_assert_eq!(&got[stream], &want);
            let scratch = trial.arena().unwrap().session(stream as u32 / 2).unwrap();
            let at = 8 * (stream & 1);
            prop_assert_eq!(&scratch[at..at + 8], &count.to_le_bytes());
        }
        trial.finish().unwrap();
    }
}

#[test]
fn what_is_held_back_goes_on_when_asked_and_only_once() {
    let mut trial = start(b"word", b"-");
    let mark = SlotTag::of(0, 1, 2);
    let (head, content) = exchange(&mut trial, mark, &slot(b"a wo", 0));
    assert_eq!((head.kept, &content[..], head.flags & flag::CHANGED), (2, &b"a "[..], 0));
    let (head, content) = exchange(&mut trial, mark, &slot(b"", flag::LATE));
    assert_eq!((head.kept, &content[..]), (0, &b"wo"[..]));
    assert_ne!(head.flags & flag::CHANGED, 0);
    let (_, content) = exchange(&mut trial, mark, &slot(b"rd", 0));
    assert_eq!(content, b"rd");
    // The host has put it in front: after a restart, for one.
    assert_eq!(exchange(&mut trial, mark, &slot(b"wo", 0)).0.kept, 2);
    assert_eq!(exchange(&mut trial, mark, &slot(b"word", flag::RESENT)).1, b"-");
    // The session ends: another one in its place does not get it.
    assert_eq!(exchange(&mut trial, mark, &slot(b"wo", 0)).0.kept, 2);
    trial.put_released(2).unwrap();
    trial.exchange(&[]).unwrap();
    assert_eq!(exchange(&mut trial, mark.new_session(), &slot(b"rd", 0)).1, b"rd");
    trial.finish().unwrap();
}

#[test]
fn what_cannot_be_done_ends_the_connection() {
    let mut trial = start(b"x", &[b'y'; 1000]);
    let mark = SlotTag::of(0, 0, 1);
    assert_ne!(exchange(&mut trial, mark, &slot(b"xxx", 0)).0.flags & flag::CLOSE, 0);
    assert_ne!(exchange(&mut trial, mark, &slot(b"!", 0)).0.flags & flag::CLOSE, 0);
    assert_eq!(exchange(&mut trial, mark, &slot(b"abc", 0)).0.flags & flag::CLOSE, 0);
    trial.finish().unwrap();
}

#[test]
fn what_passes_by_is_left_alone() {
    let mut trial = start(b"word", b"-");
    let bare = StreamHead::default().to_bytes();
    let lies = StreamHead { headers: 999, flags: flag::SHOWN, ..StreamHead::default() }.to_bytes();
    let given = trial.exchange(&[&bare, &lies, b"short", &slot(b"word", 0)]).unwrap();
    assert_eq!([&given[0].bytes[..], &given[1].bytes], [bare, lies]);
    assert_eq!(given[2].bytes, b"short");
    // It has no session.
    assert_eq!(given[3].bytes, slot(b"word", 0));
    trial.finish().unwrap();
}

//! Against replacement in the whole stream, whatever pieces it comes in.

use proptest::prelude::*;
use thruway_payload::About;

use super::super::list::Wanted;
use super::*;

/// The input of a case.
#[derive(Debug, Clone)]
enum Event {
    /// Packets at once.
    Run(Vec<Vec<u8>>),
    /// Nothing, for too long.
    Late,
}

fn event() -> impl Strategy<Value = Event> {
    let packet = prop::collection::vec(prop::sample::select(b"abABc".to_vec()), 0..7);
    prop_oneof![
        4 => prop::collection::vec(packet, 1..4).prop_map(Event::Run),
        1 => Just(Event::Late),
    ]
}

fn words() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let word = prop::collection::vec(prop::sample::select(b"abAB".to_vec()), 1..6);
    prop::collection::vec(word, 1..6)
}

fn matcher(words: &[Vec<u8>], nocase: bool, mode: Mode, with: &[u8]) -> Matcher {
    let wanted = Wanted { words: words.to_vec(), file: None, nocase };
    Matcher {
        list: Arc::new(wanted.make().unwrap()),
        acts: Acts {
            mode,
            with: with.to_vec(),
            mask: b"*".to_vec(),
            counts: vec![0; words.len()],
            totals: Totals::default(),
        },
    }
}

/// The bytes that the receiver gets.
struct Receiver {
    got: Vec<u8>,
    held: Vec<u8>,
    /// After each event: how much was held back.
    held_lens: Vec<usize>,
    is_closed: bool,
}

/// Shows a matcher one direction of a session, as a stage does; the last event ends it.
fn pass(matcher: &mut Matcher, events: &[Event]) -> Receiver {
    let mut state = SessionState::default();
    let mut to =
        Receiver { got: Vec::new(), held: Vec::new(), held_lens: Vec::new(), is_closed: false };
    for (at, event) in events.iter().chain([&Event::Run(vec![Vec::new()])]).enumerate() {
        let mut pieces = match event {
            Event::Run(packets) => packets.clone(),
            Event::Late if to.held.is_empty() => continue,
            Event::Late => vec![Vec::new()],
        };
        pieces[0].splice(0..0, std::mem::take(&mut to.held));
        let (is_last, is_late) = (at == events.len(), matches!(event, Event::Late));
        let about = About { direction: 1, is_last, is_late, now: 0 };
        let mut data = StreamCursor::new(&mut pieces, about);
        let next = matcher.process(&mut state, &mut data);
        let (piece, byte) = data.position();
        if next == Next::Close {
            to.is_closed = true;
            return to;
        }
        let mut all = pieces.concat();
        if next == Next::NeedMore && !is_last && !is_late {
            let gone = pieces[..piece].concat().len() + byte;
            to.held = all.split_off(gone);
        }
        to.got.extend(all);
        to.held_lens.push(to.held.len());
    }
    matcher.ended(&state);
    to
}

fn is_at(word: &[u8], stream: &[u8], at: usize, nocase: bool) -> bool {
    stream
        .get(at..at + word.len())
        .is_some_and(|here| here == word || nocase && here.eq_ignore_ascii_case(word))
}

/// Leftmost and longest, one after the other; and how often that was.
fn replaced(
    stream: &[u8],
    words: &[Vec<u8>],
    nocase: bool,
    with: impl Fn(usize) -> Vec<u8>,
) -> (Vec<u8>, u64) {
    let (mut out, mut at, mut count) = (Vec::new(), 0, 0);
    while at < stream.len() {
        let here = words.iter().filter(|word| is_at(word, stream, at, nocase));
        match here.map(Vec::len).max() {
            None => {
                out.push(stream[at]);
                at += 1;
            }
            Some(len) => {
                out.extend(with(len));
                at += len;
                count += 1;
            }
        }
    }
    (out, count)
}

fn stream_of(events: &[Event]) -> Vec<u8> {
    let bytes = |event: &Event| match event {
        Event::Run(packets) => packets.concat(),
        Event::Late => Vec::new(),
    };
    events.iter().flat_map(bytes).collect()
}

fn in_time(events: &[Event]) -> Vec<Event> {
    events.iter().filter(|event| matches!(event, Event::Run(_))).cloned().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn it_is_as_in_the_whole_stream(
        words in words(),
        nocase in any::<bool>(),
        with in prop::sample::select(vec![&b""[..], b"X", b"XYZXYZ", b"ab"]),
        events in prop::collection::vec(event(), 0..8),
    ) {
        let events = in_time(&events);
        let stream = stream_of(&events);
        for mode in [Mode::Alert, Mode::Mask, Mode::Replace] {
            let mut matcher = matcher(&words, nocase, mode, with);
            let to = pass(&mut matcher, &events);
            let (expected, count) = replaced(&stream, &words, nocase, |len| match mode {
                Mode::Mask => vec![b'*'; len],
                _ => with.to_vec(),
            });
            let expected = if mode == Mode::Alert { stream.clone() } else { expected };
            prop_assert_eq!(to.got, expected, "{:?}", mode);
            prop_assert_eq!(matcher.acts.totals.matches, count, "{:?}", mode);
            prop_assert_eq!(matcher.acts.counts.iter().sum::<u64>(), count);
            prop_assert_eq!((matcher.acts.totals.sessions, matcher.acts.totals.partly),
                (u64::from(count > 0), 0));
        }
    }

    /// Nothing is held back that could go on: what is held begins a word, or is one that may
    /// become longer.
    #[test]
    fn what_is_held_is_the_least(
        words in words(),
        events in prop::collection::vec(event(), 0..8),
    ) {
        let events = in_time(&events);
        let mut read = Vec::new();
        let to = pass(&mut matcher(&words, false, Mode::Remove, b""), &events);
        for (event, held) in events.iter().zip(to.held_lens) {
            read.extend(stream_of(std::slice::from_ref(event)));
            let end = &read[read.len() - held..];
            let begins = |word: &Vec<u8>| word.len() > held && word.starts_with(end);
            prop_assert!(held == 0 || words.iter().any(begins), "{:?}", end);
        }
    }

    /// No word goes by whole, even if its beginning had to be let go.
    #[test]
    fn late_words_do_not_pass(
        words in words(),
        nocase in any::<bool>(),
        events in prop::collection::vec(event(), 0..12),
    ) {
        let stream = stream_of(&events);
        let to = pass(&mut matcher(&words, nocase, Mode::Mask, b""), &events);
        prop_assert_eq!(to.got.len(), stream.len());
        for at in 0..stream.len() {
            for word in words.iter().filter(|word| is_at(word, &stream, at, nocase)) {
                let seen = &to.got[at..at + word.len()];
                prop_assert!(seen.contains(&b'*'), "{:?} at {} of {:?}", word, at, to.got);
            }
        }
        let same = to.got.iter().zip(&stream).all(|(got, sent)| got == sent || *got == b'*');
        prop_assert!(same);
    }

    #[test]
    fn a_connection_ends_before_its_first_word_does(
        words in words(),
        events in prop::collection::vec(event(), 0..8),
    ) {
        let stream = stream_of(&events);
        let mut matcher = matcher(&words, false, Mode::Close, b"");
        let to = pass(&mut matcher, &events);
        let end = |word: &Vec<u8>| {
            (0..stream.len()).find(|at| is_at(word, &stream, *at, false)).map(|at| at + word.len())
        };
        let first = words.iter().filter_map(end).min();
        prop_assert_eq!(to.is_closed, first.is_some());
        prop_assert!(first.is_none_or(|end| to.got.len() < end));
        prop_assert_eq!(matcher.acts.totals.matches, u64::from(first.is_some()));
    }
}

#[test]
fn the_rest_of_a_word_is_replaced_alone() {
    let mut matcher = matcher(&[b"attack".to_vec()], false, Mode::Replace, b"<>");
    let run = |bytes: &[u8]| Event::Run(vec![bytes.to_vec()]);
    let events = [run(b"an att"), Event::Late, run(b"a"), run(b"ck, attac"), run(b"k")];
    let to = pass(&mut matcher, &events);
    assert_eq!(to.got, b"an att<>, <>");
    assert_eq!(to.held_lens[..3], [3, 0, 1]);
    assert_eq!((matcher.acts.totals.matches, matcher.acts.totals.partly), (2, 1));
}

#[test]
fn other_words_forget_what_went_on() {
    let mut state = SessionState::default();
    let mut show = |word: &[u8], bytes: &[u8]| {
        let mut matcher = matcher(&[word.to_vec()], false, Mode::Alert, b"");
        let mut pieces = vec![bytes.to_vec()];
        matcher.process(&mut state, &mut StreamCursor::new(&mut pieces, About::default()));
        matcher.acts.totals.matches
    };
    assert_eq!((show(b"xab", b"xa"), show(b"yab", b"b"), show(b"yab", b"yab")), (0, 0, 1));
}

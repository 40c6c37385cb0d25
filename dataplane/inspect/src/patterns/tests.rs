//! Against what anyone can see: every window of the whole stream compared with every pattern.

use proptest::prelude::*;

use super::*;

/// Few different bytes, so that patterns overlap, in both cases and none.
fn byte() -> impl Strategy<Value = u8> {
    prop::sample::select(b"abABc\0".to_vec())
}

fn bytes(len: std::ops::Range<usize>) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(byte(), len)
}

fn patterns(count: usize, shortest: usize) -> impl Strategy<Value = Vec<Pattern>> {
    let one = (bytes(shortest..shortest + 6), any::<bool>());
    prop::collection::vec(one, 1..count)
        .prop_map(|all| all.into_iter().map(|(bytes, nocase)| Pattern { bytes, nocase }).collect())
}

/// A stream in pieces.
fn pieces() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(bytes(0..9), 0..12)
}

fn is_at(pattern: &Pattern, window: &[u8]) -> bool {
    if pattern.nocase {
        pattern.bytes.eq_ignore_ascii_case(window)
    } else {
        pattern.bytes == window
    }
}

/// Pattern and end of every occurrence.
fn by_windows(patterns: &[Pattern], stream: &[u8]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for (number, pattern) in patterns.iter().enumerate() {
        let len = pattern.bytes.len();
        let windows = stream.windows(len).enumerate();
        found.extend(windows.filter(|it| is_at(pattern, it.1)).map(|it| (number, it.0 + len)));
    }
    found.sort_unstable();
    found
}

/// The longest beginning of a pattern that the stream ends with.
fn naive_depth(patterns: &[Pattern], stream: &[u8]) -> usize {
    let depth = |pattern: &Pattern| {
        let fits = |len: &usize| {
            let begin = Pattern { bytes: pattern.bytes[..*len].to_vec(), nocase: pattern.nocase };
            *len <= stream.len() && is_at(&begin, &stream[stream.len() - len..])
        };
        (0..=pattern.bytes.len()).rev().find(fits).unwrap_or(0)
    };
    patterns.iter().map(depth).max().unwrap_or(0)
}

/// What the automaton finds, with ends counted from the stream's beginning.
fn by_feeding(
    patterns: &Patterns,
    pieces: &[Vec<u8>],
) -> Result<Vec<(usize, usize)>, TestCaseError> {
    let (mut state, mut before, mut found) = (SearchState::default(), 0, Vec::new());
    for piece in pieces {
        let flow = patterns.feed(&mut state, piece, |pattern, end| {
            found.push((pattern, before + end));
            ControlFlow::Continue(())
        });
        prop_assert_eq!(flow, ControlFlow::Continue(()));
        before += piece.len();
    }
    found.sort_unstable();
    Ok(found)
}

fn check_all(wanted: &[Pattern], pieces: &[Vec<u8>]) -> Result<(), TestCaseError> {
    let patterns = Patterns::new(wanted).unwrap();
    let found = by_feeding(&patterns, pieces)?;
    prop_assert_eq!(found, by_windows(wanted, &pieces.concat()));
    let mut state = SearchState::default();
    let mut read = Vec::new();
    for piece in pieces {
        let _ = patterns.feed(&mut state, piece, |_, _| ControlFlow::Continue(()));
        read.extend(piece);
        prop_assert_eq!(patterns.depth(state), naive_depth(wanted, &read));
    }
    Ok(())
}

/// Whole-stream search: leftmost, longest, one after the other.
fn words_in(words: &[Pattern], stream: &[u8]) -> Vec<(usize, usize)> {
    let (mut at, mut found) = (0, Vec::new());
    while at < stream.len() {
        let here = |it: &(usize, &Pattern)| {
            stream[at..].get(..it.1.bytes.len()).is_some_and(|window| is_at(it.1, window))
        };
        let all = words.iter().enumerate().filter(here);
        match all.max_by_key(|it| (it.1.bytes.len(), std::cmp::Reverse(it.0))) {
            None => at += 1,
            Some((word, it)) => {
                found.push((word, at));
                at += it.bytes.len();
            }
        }
    }
    found
}

/// The same by [`Words`], as a function that holds back pending bytes, and reads bytes again if
/// needed.
fn words_by_pieces(words: &Words, pieces: &[Vec<u8>]) -> Vec<(usize, usize)> {
    let stream = pieces.concat();
    let (mut seek, mut at, mut end, mut found) = (Seek::default(), 0, 0, Vec::new());
    // One more turn, in which nothing new comes.
    for len in pieces.iter().map(Vec::len).chain([0]) {
        let is_last = end == stream.len() && len == 0;
        end += len;
        loop {
            let (read, mut it) = words.next(&mut seek, &stream[at..end]);
            at += read;
            if it.is_none() && is_last {
                it = words.finish(&mut seek);
            }
            let Some(it) = it else { break };
            at -= it.back;
            found.push((it.word, at - it.len));
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn windows_are_found(wanted in patterns(8, 1), pieces in pieces()) {
        check_all(&wanted, &pieces)?;
    }

    /// Openings of full length.
    #[test]
    fn windows_of_longer_patterns_are_found(wanted in patterns(40, 4), pieces in pieces()) {
        check_all(&wanted, &pieces)?;
    }

    #[test]
    fn words_are_leftmost_and_longest(
        words in prop::collection::vec(bytes(1..7), 1..8),
        nocase in any::<bool>(),
        pieces in pieces(),
    ) {
        let plain: Vec<Pattern> =
            words.iter().map(|bytes| Pattern { bytes: bytes.clone(), nocase }).collect();
        let machine = Words::new(&words, nocase).unwrap();
        prop_assert_eq!(words_by_pieces(&machine, &pieces), words_in(&plain, &pieces.concat()));
    }

    /// States of other patterns, as after a reload, lead nowhere bad.
    #[test]
    fn any_state_is_read(wanted in patterns(8, 1), numbers in any::<[u32; 2]>(), piece in bytes(0..9)) {
        let patterns = Patterns::new(&wanted).unwrap();
        let mut state = SearchState { folded: numbers[0], exact: numbers[1] };
        let _ = patterns.depth(state);
        let _ = patterns.feed(&mut state, &piece, |_, _| ControlFlow::Continue(()));
    }
}

#[test]
fn all_bytes_may_follow_a_beginning() {
    let wanted: Vec<Pattern> =
        (0..=255).map(|last| Pattern { bytes: vec![1, 2, last], nocase: false }).collect();
    let patterns = Patterns::new(&wanted).unwrap();
    let stream: Vec<u8> = (0..=255).flat_map(|last| [1, 2, last]).collect();
    let found = by_feeding(&patterns, std::slice::from_ref(&stream)).unwrap();
    assert_eq!(found, by_windows(&wanted, &stream));
}

#[test]
fn who_breaks_begins_again() {
    let pattern = Pattern { bytes: b"ab".to_vec(), nocase: true };
    let patterns = Patterns::new(&[pattern]).unwrap();
    let mut state = SearchState::default();
    let flow = patterns.feed(&mut state, b"xaba", |_, _| ControlFlow::Break(()));
    assert_eq!((flow, state), (ControlFlow::Break(()), SearchState::default()));
}

#[test]
fn feeding_does_not_allocate() {
    let words = ["attack", "password", "GET ", "a", "bb"];
    let pattern =
        |(at, it): (usize, &&str)| Pattern { bytes: it.as_bytes().into(), nocase: at < 3 };
    let patterns =
        Patterns::new(&words.iter().enumerate().map(pattern).collect::<Vec<_>>()).unwrap();
    let mut state = SearchState::default();
    let mut found = 0;
    let info = allocation_counter::measure(|| {
        for piece in ["an atta", "ck GE", "T bb", "b"] {
            let _ = patterns.feed(&mut state, piece.as_bytes(), |_, _| {
                found += 1;
                ControlFlow::Continue(())
            });
        }
    });
    assert_eq!((info.count_total, found), (0, 7));
}

#[test]
fn what_is_refused_is_named() {
    let pattern = |len: usize| Pattern { bytes: vec![b'x'; len], nocase: false };
    let error = |all: &[Pattern]| Patterns::new(all).unwrap_err();
    assert_eq!(error(&[pattern(1), pattern(0)]), PatternError::Empty { pattern: 1 });
    let len = PATTERN_LEN_MAX + 1;
    assert_eq!(error(&[pattern(len)]), PatternError::TooLong { pattern: 0, len });
    let many = vec![pattern(1); PATTERNS_MAX + 1];
    assert_eq!(error(&many), PatternError::TooMany { count: PATTERNS_MAX + 1 });
    assert!(Patterns::new(&[]).unwrap().is_empty());
}

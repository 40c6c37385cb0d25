//! The path of one frame through the tests of patterns, for others that are likely to take it.

use crate::ast::{Base, Word};
use crate::pattern::PatternProgram;

/// Most tests of a path.
const TESTS_MAX: usize = 8;

/// A test, and its answer on the path.
type Answer = (Word, bool);

/// The tests that a frame met, and the verdict that they led to.
#[derive(Debug, Clone)]
pub struct Path {
    tests: [Answer; TESTS_MAX],
    count: usize,
    verdict: u32,
}

impl Path {
    /// The path of a frame; `None` if it is longer than is worth following.
    pub fn of(program: &PatternProgram, frame: &[u8]) -> Option<Path> {
        let unused = (Word::equal(Base::Frame, 0, 0, 0), true);
        let mut path = Path { tests: [unused; TESTS_MAX], count: 0, verdict: 0 };
        path.verdict = program.follow(frame, |word, answer| {
            if let Some(place) = path.tests.get_mut(path.count) {
                *place = (*word, answer);
            }
            path.count += 1;
        });
        (path.count <= TESTS_MAX).then_some(path)
    }

    /// Where it leads.
    pub fn verdict(&self) -> u32 {
        self.verdict
    }

    /// The frames that take it, as bits, the first frame's lowest. A frame that ends within the
    /// four bytes of a test is none of them, on any path.
    ///
    /// PERF: a test is done for all frames, and neighbouring tests of the same bytes read them
    /// once. The compiler makes vector instructions of the inner loops.
    #[inline]
    pub fn takers<const N: usize>(&self, frames: &[&[u8]; N]) -> u8 {
        const { assert!(N <= 8, "a bit for each") };
        let (mut words, mut read_at, mut strays) = ([0; N], None, [0_u32; N]);
        for (word, answer) in self.tests.iter().take(self.count) {
            if read_at != Some(word.at) {
                read_at = Some(word.at);
                read(frames, usize::from(word.at), &mut words, &mut strays);
            }
            for at in 0..N {
                strays[at] |= u32::from(word.holds(words[at]) != *answer);
            }
        }
        let mut bits = 0;
        for (at, stray) in strays.iter().enumerate() {
            bits |= u8::from(*stray == 0) << at;
        }
        bits
    }
}

/// Reads four bytes of each frame; one that has not so many is a stray.
#[inline]
fn read<const N: usize>(
    frames: &[&[u8]; N],
    at: usize,
    words: &mut [u32; N],
    strays: &mut [u32; N],
) {
    for (nth, frame) in frames.iter().enumerate() {
        match frame.get(at..).and_then(|rest| rest.first_chunk::<4>()) {
            Some(four) => words[nth] = u32::from_be_bytes(*four),
            None => strays[nth] = 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn compiled(patterns: &[&str]) -> PatternProgram {
        let rules = PatternProgram::parse(patterns).expect("patterns");
        PatternProgram::compile(&rules).expect("few rules")
    }

    /// Frames of few different bytes, so that many take the same path.
    fn frame() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop::sample::select(vec![0_u8, 1, 8, 6]), 0..30)
    }

    proptest! {
        /// A packet that takes a path gets the path's verdict; a packet with all bytes that gets
        /// its verdict by the same tests takes the path.
        #[test]
        fn takers_have_the_verdict(first in frame(), others in prop::array::uniform8(frame())) {
            let program =
                compiled(&["12/0806 20/0001", "12/0806 20/0002", "12/0800", "!0/01 4/00%f0", "-"]);
            let Some(path) = Path::of(&program, &first) else { return Ok(()) };
            prop_assert_eq!(path.verdict(), program.classify(&first));
            let bits = path.takers(&others.each_ref().map(|frame| frame.as_slice()));
            for (at, other) in others.iter().enumerate() {
                if bits >> at & 1 != 0 {
                    prop_assert_eq!(program.classify(other), path.verdict());
                }
            }
            let own = path.takers(&[first.as_slice(); 3]);
            prop_assert!(own == 0b111 || first.len() < 24, "it takes its own path: {own:b}");
        }
    }

    #[test]
    fn long_paths_are_not_followed() {
        let patterns: Vec<String> = (0..12).map(|nth| format!("{}/01", 4 * nth)).collect();
        let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
        assert!(Path::of(&compiled(&patterns), &[0; 64]).is_none());
        assert!(Path::of(&compiled(&patterns), &[1; 64]).is_some());
        let path = Path::of(&compiled(&["-"]), &[]).expect("no tests at all");
        assert_eq!((path.verdict(), path.takers(&[&[][..], &[1][..]])), (0, 0b11));
    }
}

//! Regular expressions in streams that come in pieces: one automaton for all of them, whose state
//! is all that is remembered of a stream.

use regex_automata::dfa::{Automaton, StartKind, dense};
use regex_automata::nfa::thompson;
use regex_automata::util::look::Look;
use regex_automata::util::primitives::StateID;
use regex_automata::util::{start, syntax};
use regex_automata::{Anchored, MatchKind};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Most bytes of an automaton, and of what is used to make it.
const MEMORY_MAX: usize = 16 << 20;
/// What looks at what has been read, and at nothing that may still come.
const LOOKS_BACK: [Look; 2] = [Look::Start, Look::StartLF];

/// Why expressions are not looked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    /// A letter means nothing.
    #[error("no flag '{0}'; there are i, m, s, H, V, 8 and W")]
    Flag(char),
    /// An expression breaks the rules.
    #[error("expression {}: {error}", index + 1)]
    Syntax {
        /// Which one, from 0.
        index: usize,
        /// In words.
        error: String,
    },
    /// An expression matches where there is nothing.
    #[error("expression {} matches nothing at all, that is, everywhere", index + 1)]
    Empty {
        /// Which one, from 0.
        index: usize,
    },
    /// An expression asks for what comes behind it.
    #[error("$, \\b and \\B are not known in a stream, which has no known end")]
    LooksAhead,
    /// The automaton would be too large.
    #[error("the expressions together are too large: their automaton exceeds {} MB", MEMORY_MAX >> 20)]
    TooLarge,
}

/// What is remembered of a stream between two pieces of it: plain data, zeros at the beginning. It
/// belongs to the [`Expressions`] that made it; to others it is a beginning.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct Progress {
    /// Number of the state.
    state: u32,
    /// Which expressions made it; 0 at the beginning.
    number: u32,
}

/// Regular expressions that are looked for together. Immutable: threads share it.
///
/// ```
/// use thruway_inspect::expressions::{Expressions, Progress};
///
/// let expressions = Expressions::new(&["at+ack", "ta"], "i")?;
/// let mut progress = Progress::default();
/// assert!(!expressions.feed(&mut progress, b"an AT"));
/// assert!(expressions.feed(&mut progress, b"ack"));
/// # Ok::<(), thruway_inspect::expressions::ExpressionError>(())
/// ```
#[derive(Debug)]
pub struct Expressions {
    dfa: dense::DFA<Vec<u32>>,
    start: StateID,
    number: u32,
}

impl Expressions {
    /// For these expressions, at least one, with Hyperscan's letters for flags.
    ///
    /// # Errors
    /// [`ExpressionError`].
    pub fn new(texts: &[impl AsRef<str>], flags: &str) -> Result<Expressions, ExpressionError> {
        let syntax = syntax_of(flags)?;
        let mut parsed = Vec::new();
        for (index, text) in texts.iter().enumerate() {
            let hir = syntax::parse_with(text.as_ref(), &syntax)
                .map_err(|error| ExpressionError::Syntax { index, error: plain(&error) })?;
            if hir.properties().minimum_len() == Some(0) {
                return Err(ExpressionError::Empty { index });
            }
            parsed.push(hir);
        }
        let limits = thompson::Config::new().utf8(false).nfa_size_limit(Some(MEMORY_MAX));
        let nfa = thompson::Compiler::new()
            .configure(limits)
            .build_many_from_hir(&parsed)
            .map_err(|_| ExpressionError::TooLarge)?;
        if nfa.look_set_any().iter().any(|look| !LOOKS_BACK.contains(&look)) {
            return Err(ExpressionError::LooksAhead);
        }
        // All: whatever ends somewhere is found, wherever others begin or end.
        let config = dense::Config::new()
            .match_kind(MatchKind::All)
            .start_kind(StartKind::Unanchored)
            .dfa_size_limit(Some(MEMORY_MAX))
            .determinize_size_limit(Some(MEMORY_MAX));
        let dfa = dense::Builder::new()
            .configure(config)
            .build_from_nfa(&nfa)
            .map_err(|_| ExpressionError::TooLarge)?;
        let begin = start::Config::new().anchored(Anchored::No);
        let start = dfa.start_state(&begin).map_err(|_| ExpressionError::TooLarge)?;
        Ok(Expressions { dfa, start, number: number(texts, flags) })
    }

    /// Looks at what comes next in a stream: whether an expression ends in it.
    ///
    /// The automaton is a byte late: it reports an end when it reads the byte behind it. So the
    /// first step is not looked at (that end was reported with the bytes before), and after the
    /// last one it is asked for what would be the end there.
    #[inline]
    pub fn feed(&self, progress: &mut Progress, bytes: &[u8]) -> bool {
        let is_known = progress.number == self.number && self.number != 0;
        // A number of another automaton's is no state of this one.
        let mut state =
            if is_known { StateID::new_unchecked(progress.state as usize) } else { self.start };
        let mut is_found = false;
        for (at, byte) in bytes.iter().enumerate() {
            state = self.dfa.next_state(state, *byte);
            is_found |= at > 0 && self.dfa.is_match_state(state);
        }
        if !bytes.is_empty() {
            is_found |= self.dfa.is_match_state(self.dfa.next_eoi_state(state));
        }
        *progress = Progress { state: state.as_u32(), number: self.number };
        is_found
    }

    /// What it takes, bytes.
    pub fn memory(&self) -> usize {
        self.dfa.memory_usage()
    }
}

/// What letters mean.
fn syntax_of(flags: &str) -> Result<syntax::Config, ExpressionError> {
    let mut config = syntax::Config::new().unicode(false).utf8(false);
    for flag in flags.chars() {
        config = match flag {
            'i' => config.case_insensitive(true),
            'm' => config.multi_line(true),
            's' => config.dot_matches_new_line(true),
            '8' | 'W' => config.unicode(true),
            'H' | 'V' => config,
            _ => return Err(ExpressionError::Flag(flag)),
        };
    }
    Ok(config)
}

/// The last line of what a parser says: those before it show the place.
fn plain(error: &dyn std::fmt::Display) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default();
    last.trim_start_matches("error: ").to_owned()
}

/// Distinguishes expressions, not 0: FNV-1a, 32 bits (draft-eastlake-fnv section 2).
fn number(texts: &[impl AsRef<str>], flags: &str) -> u32 {
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let texts = texts.iter().flat_map(|text| text.as_ref().bytes().chain([0]));
    texts.chain(flags.bytes()).fold(0x811c_9dc5, step).max(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_a_stream_cannot_tell_is_refused() {
        let error = |text: &str, flags: &str| Expressions::new(&[text], flags).unwrap_err();
        assert_eq!(error("a", "q"), ExpressionError::Flag('q'));
        for ahead in ["a$", r"\bword", r"a\B", "(?m)a$"] {
            assert_eq!(error(ahead, ""), ExpressionError::LooksAhead, "{ahead}");
        }
        for empty in ["", "a*", "(b|)"] {
            assert_eq!(error(empty, ""), ExpressionError::Empty { index: 0 }, "{empty}");
        }
        assert!(matches!(error("a(", ""), ExpressionError::Syntax { index: 0, .. }));
        assert_eq!(error("(a{1000}){1000}", ""), ExpressionError::TooLarge);
    }

    #[test]
    fn flags_are_heeded() {
        let finds = |text: &str, flags: &str, bytes: &[u8]| {
            Expressions::new(&[text], flags).unwrap().feed(&mut Progress::default(), bytes)
        };
        assert!(!finds("get", "", b"GET") && finds("get", "i", b"GET"));
        assert!(!finds("a.b", "", b"a\nb") && finds("a.b", "s", b"a\nb"));
        assert!(!finds("^b", "", b"a\nb") && finds("^b", "m", b"a\nb"));
    }

    #[test]
    fn the_state_of_others_is_a_beginning() {
        let [first, second] = ["abc", "xbc"].map(|text| Expressions::new(&[text], "").unwrap());
        let mut progress = Progress::default();
        assert!(!first.feed(&mut progress, b"ab"));
        assert!(!second.feed(&mut progress, b"c"));
        assert!(!first.feed(&mut progress, b"c"));
    }

    /// Whether some expression ends within the last `new` bytes of `all`, naively: each
    /// part of `all` that ends there is compared.
    fn plainly(expressions: &[&str], all: &[u8], new: usize) -> bool {
        let whole = |text: &str| regex::bytes::Regex::new(&format!("(?s-u)^(?:{text})$")).unwrap();
        let whole: Vec<_> = expressions.iter().map(|text| whole(text)).collect();
        let ends = all.len() - new + 1..=all.len();
        ends.into_iter()
            .any(|end| (0..=end).any(|begin| whole.iter().any(|it| it.is_match(&all[begin..end]))))
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(
            pieces in prop::collection::vec(prop::collection::vec(b'a'..b'e', 0..5), 1..8),
        ) {
            let texts = ["ab+c", "c[ad]d", "dd", "a.c"];
            let expressions = Expressions::new(&texts, "s").unwrap();
            let (mut progress, mut all) = (Progress::default(), Vec::new());
            for piece in pieces {
                all.extend(&piece);
                let found = expressions.feed(&mut progress, &piece);
                prop_assert_eq!(found, plainly(&texts, &all, piece.len()), "{:?}", all);
            }
        }
    }
}

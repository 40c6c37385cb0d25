//! Regular expressions as PCRE writes them, in the words of the regex crate, which runs in time
//! linear in what is searched, whatever the expression.
//!
//! What cannot be said so is refused by its name: lookaround, backreferences, possessive
//! quantifiers, atomic groups, recursion, conditions. Bytes are bytes: no Unicode.

mod class;
mod rest;
mod walk;

use regex::bytes::{Regex, RegexBuilder};

use crate::rules::error::Reason;
use crate::rules::matches::Pcre;

/// Bytes that a compiled expression may take: counted repetitions are written out.
const SIZE_MAX: usize = 1 << 20;
/// Bytes that the search may remember of it.
const CACHE_BYTES_MAX: usize = 1 << 18;

/// An expression to search with.
#[derive(Debug, Clone)]
pub struct Expression {
    /// Compiled.
    pub regex: Regex,
    /// It asks what stands around it (`^`, `\A`, `\b`): so where it is searched from matters.
    pub anchored: bool,
    /// It asks what stands behind it (`$`, `\z`, `\b`): so more bytes may make it match.
    pub looks_ahead: bool,
}

/// Compiles an expression.
///
/// # Errors
/// What of it is not served, or wrong.
pub fn compile(pcre: &Pcre) -> Result<Expression, Reason> {
    let has = |flag| pcre.flags.contains(flag);
    let walk = walk::Walk { extended: has('x'), multi_line: has('m'), dollar_end_only: has('E') };
    let mut pattern = walk.translate(&pcre.pattern)?;
    if has('A') {
        pattern = format!("\\A(?:{pattern})");
    }
    let regex = RegexBuilder::new(&pattern)
        .unicode(false)
        .case_insensitive(has('i'))
        .dot_matches_new_line(has('s'))
        .multi_line(has('m'))
        .swap_greed(has('G'))
        .size_limit(SIZE_MAX)
        .dfa_size_limit(CACHE_BYTES_MAX)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => {
                Reason::TooLarge(format!("pcre: takes more than {SIZE_MAX} bytes"))
            }
            error => Reason::Wrong(format!("pcre: {}", last_line(&error.to_string()))),
        })?;
    let asks = |signs: &[&str]| signs.iter().any(|sign| pattern.contains(sign));
    Ok(Expression {
        anchored: asks(&["\\A", "^", "\\b", "\\B"]),
        looks_ahead: asks(&["\\z", "$", "\\b", "\\B"]),
        regex,
    })
}

/// What is wrong, without the picture of where.
fn last_line(text: &str) -> &str {
    text.lines().last().unwrap_or(text).trim_start_matches("error: ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pcre(pattern: &str, flags: &str) -> Pcre {
        Pcre { pattern: pattern.into(), flags: flags.into(), negated: false, relative: false }
    }

    #[test]
    fn it_matches_as_pcre_does() {
        for (pattern, flags, text, matches) in [
            ("^foo", "", "foo", true),
            ("^foo", "", "x\nfoo", false),
            ("^foo", "m", "x\nfoo", true),
            ("foo$", "", "foo\n", true),
            ("foo$", "", "foo\nx", false),
            ("foo$", "E", "foo\n", false),
            ("foo$", "m", "foo\nx", true),
            ("a.b", "", "a\nb", false),
            ("a.b", "s", "a\nb", true),
            (r"a\<b\>\/\-\_", "", "a<b>/-_", true),
            (r"\x41\x{42}\103\0", "", "ABC\0", true),
            ("[]a]{2}", "", "]a", true),
            ("[^]a]", "", "]a", false),
            (r"[\d&&x]+$", "", "1&x", true),
            ("[[:digit:]-]+$", "", "1-2", true),
            ("[a[b]", "", "[", true),
            ("a{,3}", "", "a{,3}", true),
            ("a{x}", "", "a{x}", true),
            ("a{2}", "", "aa", true),
            ("a b # c", "x", "ab", true),
            (r"a\ b[ ]", "x", "a b ", true),
            (r"\Qa.b\E", "", "axb", false),
            (r"\Qa.b\E.", "", "a.bx", true),
            (r"a\hb\Rc", "", "a\tb\r\nc", true),
            ("(?i)AB", "", "ab", true),
            ("(?:(?P<n>a)|b)", "", "b", true),
            ("a(?#no)b", "", "ab", true),
            (r"[\x00-\x20]", "", "\n", true),
            (r"[\w\.\-]+@", "", "a.-b@", true),
            ("foo\\b", "", "foobar", false),
        ] {
            let compiled =
                compile(&pcre(pattern, flags)).unwrap_or_else(|e| panic!("{pattern}: {e}"));
            assert_eq!(
                compiled.regex.is_match(text.as_bytes()),
                matches,
                "{pattern} {flags} {text:?}"
            );
        }
        let greedy = compile(&pcre("a+", "G")).unwrap();
        assert_eq!(greedy.regex.find(b"aaa").unwrap().end(), 1);
        assert!(compile(&pcre(r"\xff[\x80-\xfe]", "")).unwrap().regex.is_match(b"\xff\x90"));
    }

    #[test]
    fn what_is_not_served_is_named() {
        for (pattern, name) in [
            ("(?=a)", "pcre lookaround"),
            ("(?<!a)b", "pcre lookaround"),
            (r"(a)\1", "pcre backreference"),
            ("(?P<a>b)(?P=a)", "pcre backreference"),
            ("(?>a)", "pcre atomic group"),
            ("a++", "pcre possessive quantifier"),
            ("a{2}+", "pcre possessive quantifier"),
            ("(?R)", "pcre recursion"),
            (r"a\Kb", r"pcre \K"),
            (r"a\Zb", r"pcre \Z"),
            ("(*ACCEPT)", "pcre verb"),
        ] {
            match compile(&pcre(pattern, "")) {
                Err(Reason::Unsupported { what, .. }) => assert_eq!(what, name, "{pattern}"),
                other => panic!("{pattern}: {other:?}"),
            }
        }
        for pattern in ["(", "[a", "\\", "(?z)", "[z-a]"] {
            assert!(compile(&pcre(pattern, "")).is_err(), "{pattern}");
        }
        assert!(matches!(compile(&pcre("(.{1000}){1000}", "")), Err(Reason::TooLarge(_))));
    }
}

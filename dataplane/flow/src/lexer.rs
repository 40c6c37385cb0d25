//! Words and operators of the IP expression language.

use std::ops::Range;

/// One token: its bytes in the rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub text: &'a str,
    pub span: Range<usize>,
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '/' | '@' | '_' | ':')
}

fn token_len(rest: &str, first: char) -> usize {
    let doubled = matches!(first, '&' | '|') && rest[1..].starts_with(first);
    let compared = matches!(first, '<' | '>' | '!' | '=') && rest[1..].starts_with('=');
    if doubled || compared {
        2
    } else if is_word(first) {
        rest.find(|c| !is_word(c)).unwrap_or(rest.len())
    } else {
        first.len_utf8()
    }
}

/// Splits a rule into tokens. Never fails: a character that no rule can contain becomes a token.
pub(crate) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut out = Vec::new();
    let mut pos = 0;
    while let Some(first) = text[pos..].chars().next() {
        if first.is_whitespace() {
            pos += first.len_utf8();
            continue;
        }
        let end = pos + token_len(&text[pos..], first);
        out.push(Token { text: &text[pos..end], span: pos..end });
        pos = end;
    }
    out
}

/// Cuts a Classifier pattern at white space.
pub(crate) fn clauses(text: &str) -> Vec<Token<'_>> {
    let start_of = |part: &str| part.as_ptr() as usize - text.as_ptr() as usize;
    text.split_whitespace()
        .map(|part| Token { text: part, span: start_of(part)..start_of(part) + part.len() })
        .collect()
}

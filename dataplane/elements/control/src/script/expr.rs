//! Substitutions in the text of instructions: `$x`, `${x}` and `$(handler args)`.

use thruway_element::text::{Piece, escaped, piece};

/// Longest text that a substitution may yield, bytes: a script that doubles a variable in a loop
/// comes to an end.
pub(super) const TEXT_MAX: usize = 1 << 20;
/// How deep references may stand within references.
const DEPTH_MAX: u32 = 10;

/// The values of references.
pub(super) trait Values {
    /// The variable `name`.
    fn variable(&mut self, name: &str) -> Option<String>;
    /// The answer to `handler args`; `derived` where references in it were replaced first.
    fn call(&mut self, call: &str, derived: bool) -> Option<String>;
}

/// Whether what is put in outside of quotes gets its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outside {
    /// It is put in as it is.
    Plain,
    /// It is quoted, so that unquoting the whole gives it back unchanged.
    Quoted,
}

/// A reference in a text.
struct Reference<'a> {
    call: bool,
    name: &'a str,
    /// The byte after it.
    end: usize,
}

/// `text` with its references replaced; what has no value stays as written.
pub(super) fn expand(text: &str, outside: Outside, values: &mut dyn Values) -> String {
    expand_at(text, outside, values, 0)
}

fn expand_at(text: &str, outside: Outside, values: &mut dyn Values, depth: u32) -> String {
    let bytes = text.as_bytes();
    let mut out = String::new();
    let (mut at, mut copied) = (0, 0);
    let mut quote = None;
    while at < bytes.len() && out.len() <= TEXT_MAX {
        match (bytes[at], quote) {
            (b'\\', Some(b'"')) => at += 2,
            (mark @ (b'"' | b'\''), None) => {
                quote = Some(mark);
                at += 1;
            }
            (mark, Some(open)) if mark == open => {
                quote = None;
                at += 1;
            }
            (b'/', None) => match piece(text, at) {
                (Piece::Comment, end) => at = end,
                _ => at += 1,
            },
            (b'$', None | Some(b'"')) if depth <= DEPTH_MAX => {
                let Some(reference) = reference(text, at) else {
                    at += 1;
                    continue;
                };
                out.push_str(&text[copied..at]);
                let value = value(&reference, &text[at..reference.end], values, depth);
                match (value, quote, outside) {
                    (Err(unknown), ..) => out.push_str(&unknown),
                    (Ok(value), None, Outside::Plain) => out.push_str(&value),
                    (Ok(value), Some(_), _) => out.push_str(&escaped(value.as_bytes())),
                    (Ok(value), None, Outside::Quoted) => {
                        out.push('"');
                        out.push_str(&escaped(value.as_bytes()));
                        out.push('"');
                    }
                }
                at = reference.end;
                copied = at;
            }
            _ => at += 1,
        }
    }
    out.push_str(text.get(copied..).unwrap_or(""));
    cut(&mut out);
    out
}

/// The value of a reference, or what to write in its place.
fn value(
    reference: &Reference<'_>,
    written: &str,
    values: &mut dyn Values,
    depth: u32,
) -> Result<String, String> {
    let mut name = reference.name.to_owned();
    let inner = name.contains('$');
    if inner {
        name = expand_at(&name, Outside::Plain, values, depth + 1);
    }
    let value = if reference.call { values.call(&name, inner) } else { values.variable(&name) };
    value.ok_or_else(|| match (inner, reference.call) {
        (false, _) => written.to_owned(),
        (true, true) => format!("$({name})"),
        (true, false) => format!("${{{name}}}"),
    })
}

fn cut(text: &mut String) {
    if text.len() > TEXT_MAX {
        let mut end = TEXT_MAX;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
    }
}

/// The reference that the `$` at `at` begins.
fn reference(text: &str, at: usize) -> Option<Reference<'_>> {
    let rest = &text[at + 1..];
    let start = at + 1;
    let word = |c: &u8| c.is_ascii_alphanumeric() || *c == b'_';
    match rest.as_bytes().first()? {
        b'{' => {
            let len = rest.find('}')?;
            Some(Reference { call: false, name: &rest[1..len], end: start + len + 1 })
        }
        b'(' => {
            let len = end_of_call(&rest.as_bytes()[1..])?;
            Some(Reference { call: true, name: &rest[1..=len], end: start + len + 2 })
        }
        b'?' | b'#' | b'$' => Some(Reference { call: false, name: &rest[..1], end: start + 1 }),
        c if word(c) => {
            let len = rest.bytes().take_while(|c| word(c)).count();
            Some(Reference { call: false, name: &rest[..len], end: start + len })
        }
        _ => None,
    }
}

/// Bytes before the parenthesis that closes a call; parentheses in quotes do not count.
fn end_of_call(bytes: &[u8]) -> Option<usize> {
    let (mut level, mut quote, mut at) = (1, None, 0);
    while at < bytes.len() {
        match (bytes[at], quote) {
            (b'(', None) => level += 1,
            (b')', None) => level -= 1,
            (b'\\', None | Some(b'"')) => at += 1,
            (mark @ (b'"' | b'\''), None) => quote = Some(mark),
            (mark, Some(open)) if mark == open => quote = None,
            _ => {}
        }
        if level == 0 {
            return Some(at);
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Fake;

    impl Values for Fake {
        fn variable(&mut self, name: &str) -> Option<String> {
            match name {
                "x" => Some("1".into()),
                "f" => Some("g".into()),
                "q" => Some("a \"b\"".into()),
                "big" => Some("b".repeat(TEXT_MAX)),
                _ => None,
            }
        }

        fn call(&mut self, call: &str, _derived: bool) -> Option<String> {
            (!call.starts_with("no")).then(|| format!("<{call}>"))
        }
    }

    fn plain(text: &str) -> String {
        expand(text, Outside::Plain, &mut Fake)
    }

    #[test]
    fn references() {
        assert_eq!(plain("a$x b${x}c"), "a1 b1c");
        assert_eq!(plain("$(h $x)"), "<h 1>");
        assert_eq!(plain("$($f a (b) ')')"), "<g a (b) ')'>");
        assert_eq!(plain("$($(h).x)"), "<<h>.x>");
        assert_eq!(plain("$none $(no $x) $(no x)"), "$none $(no 1) $(no x)");
        assert_eq!(plain("$ $( ${ 5$"), "$ $( ${ 5$");
        assert_eq!(plain("é$x"), "é1");
    }

    #[test]
    fn quotes() {
        assert_eq!(plain(r#"'$x' "$x" "\$x""#), r#"'$x' "1" "\$x""#);
        assert_eq!(plain(r#""$q" $q"#), r#""a \"b\"" a "b""#);
        assert_eq!(expand("a $q", Outside::Quoted, &mut Fake), r#"a "a \"b\"""#);
    }

    #[test]
    fn texts_are_bounded() {
        assert_eq!(plain("$big$big$big").len(), TEXT_MAX);
        let deep = "$(h ".repeat(5_000) + &")".repeat(5_000);
        assert!(plain(&deep).len() <= TEXT_MAX);
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "[$(){}'\"\\\\a/* é<>]{0,40}") {
            plain(&text);
            expand(&text, Outside::Quoted, &mut Fake);
        }
    }
}

//! The text of configuration strings: splitting into arguments, quoting and unquoting, as click(5)
//! describes them under "Configuration strings". This module does not know the meaning of
//! arguments.
//!
//! A string has plain parts, `"..."` (with backslash escapes), `'...'` (verbatim), byte literals
//! `\<48 45 4c>` and comments. Only a comma in a plain part separates arguments.

use std::ops::Range;

/// Start and kind of a piece of a configuration string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece {
    /// A byte outside of quotes, byte literals and comments.
    Plain,
    /// `"..."`, `'...'` or `\<...>`, the delimiters included.
    Quoted,
    /// `// ...` up to the end of the line (which is not part of it), or `/* ... */`.
    Comment,
}

/// The piece that begins at byte `at` of `text`, and the byte after it.
///
/// A quote, literal or comment that is not closed extends to the end of the text.
pub fn piece(text: &str, at: usize) -> (Piece, usize) {
    let bytes = text.as_bytes();
    match (bytes[at], bytes.get(at + 1)) {
        (b'"', _) => (Piece::Quoted, end_of_double_quote(bytes, at + 1)),
        (b'\'', _) => {
            (Piece::Quoted, find(bytes, at + 1, b'\'').map_or(bytes.len(), |end| end + 1))
        }
        (b'\\', Some(b'<')) => (Piece::Quoted, end_of_bytes(bytes, at + 2)),
        _ => match end_of_comment(bytes, at) {
            Some(end) => (Piece::Comment, end),
            None => (Piece::Plain, at + 1),
        },
    }
}

fn find(bytes: &[u8], from: usize, wanted: u8) -> Option<usize> {
    bytes[from..].iter().position(|byte| *byte == wanted).map(|length| from + length)
}

fn end_of_double_quote(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    while at < bytes.len() {
        match (bytes[at], bytes.get(at + 1)) {
            (b'"', _) => return at + 1,
            (b'\\', Some(b'<')) => at = end_of_bytes(bytes, at + 2),
            (b'\\', Some(_)) => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The byte after the `>` of a byte literal. Comments inside it do not count.
fn end_of_bytes(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    while at < bytes.len() {
        match (bytes[at], end_of_comment(bytes, at)) {
            (_, Some(end)) => at = end,
            (b'>', None) => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The byte behind the comment that begins at `at`, if one does; a `//` comment ends before the end
/// of its line.
fn end_of_comment(bytes: &[u8], at: usize) -> Option<usize> {
    let inner = bytes.get(at + 2..)?;
    let length = match bytes[at..at + 2] {
        [b'/', b'/'] => inner.iter().position(|byte| matches!(byte, b'\n' | b'\r')),
        [b'/', b'*'] => inner.windows(2).position(|pair| pair == b"*/").map(|length| length + 2),
        _ => return None,
    };
    Some(length.map_or(bytes.len(), |length| at + 2 + length))
}

/// Splits a configuration string into its arguments, each with the byte range it came from.
///
/// Comments become a space, blanks around an argument are removed, quotes stay (see [`unquote`]).
/// An empty last argument does not count: `""` has no argument, `"a,"` has one.
pub fn split_args(config: &str) -> Vec<(String, Range<usize>)> {
    let mut args = Vec::new();
    let mut start = 0;
    let mut at = 0;
    while at < config.len() {
        let (kind, end) = piece(config, at);
        if kind == Piece::Plain && config.as_bytes()[at] == b',' {
            args.push(argument(config, start..at));
            start = end;
        }
        at = end;
    }
    let last = argument(config, start..config.len());
    if !last.0.is_empty() {
        args.push(last);
    }
    args
}

/// One argument without its comments and outer blanks, and the range that is left.
fn argument(config: &str, range: Range<usize>) -> (String, Range<usize>) {
    let mut text = String::new();
    let mut first = None;
    let mut last = range.start;
    let mut at = range.start;
    while at < range.end {
        let (kind, end) = piece(config, at);
        let end = end.min(range.end);
        let blank = kind == Piece::Plain && is_space(config.as_bytes()[at]);
        if kind == Piece::Comment {
            text.push(' ');
        } else {
            // A multi-byte character is passed over byte by byte and copied by its first one.
            push_piece(&mut text, config, at, end);
            if !blank {
                first = first.or(Some(at));
                last = end;
            }
        }
        at = end;
    }
    let first = first.unwrap_or(range.start);
    (
        text.trim_matches(|c: char| c.is_ascii() && is_space(c as u8)).to_string(),
        first..last.max(first),
    )
}

fn push_piece(text: &mut String, config: &str, at: usize, end: usize) {
    if end - at > 1 {
        text.push_str(&config[at..end]);
    } else if let Some(c) = config.get(at..).and_then(|rest| rest.chars().next()) {
        text.push(c);
    }
}

/// Blank in the sense of C's `isspace`.
pub fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// Splits one argument into words at blanks outside of quotes; the quotes stay.
pub fn split_words(arg: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut start = None;
    let mut at = 0;
    while at < arg.len() {
        let (kind, end) = piece(arg, at);
        let gap = kind == Piece::Comment || kind == Piece::Plain && is_space(arg.as_bytes()[at]);
        match (gap, start) {
            (true, Some(from)) => {
                words.push(&arg[from..at]);
                start = None;
            }
            (false, None) => start = Some(at),
            _ => {}
        }
        at = end;
    }
    words.extend(start.map(|from| &arg[from..]));
    words
}

/// Removes the quotes of an argument: `"a\tb"`, `'verbatim'` and `\<48 45>` become the bytes that
/// they denote, comments become a space; everything else stays as it is.
pub fn unquote(arg: &str) -> Vec<u8> {
    let bytes = arg.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let (kind, end) = piece(arg, at);
        match (kind, bytes[at]) {
            (Piece::Comment, _) => out.push(b' '),
            (Piece::Quoted, b'\\') => push_bytes(&mut out, &bytes[at + 2..end]),
            (Piece::Quoted, quote) => {
                let closed = end - at >= 2 && bytes[end - 1] == quote;
                let inner = &bytes[at + 1..if closed { end - 1 } else { end }];
                if quote == b'"' { unescape(&mut out, inner) } else { out.extend(inner) }
            }
            (Piece::Plain, byte) => out.push(byte),
        }
        at = end;
    }
    out
}

/// [`unquote`] for arguments that are text; bytes that are not UTF-8 are replaced.
pub fn unquote_text(arg: &str) -> String {
    match String::from_utf8(unquote(arg)) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    }
}

/// The inside of a byte literal: pairs of hexadecimal digits; comments and all else are passed
/// over.
fn push_bytes(out: &mut Vec<u8>, inner: &[u8]) {
    let (mut high, mut at) = (None, 0);
    while at < inner.len() {
        if let Some(end) = end_of_comment(inner, at) {
            at = end;
            continue;
        }
        if let Some(digit) = char::from(inner[at]).to_digit(16) {
            match high.take() {
                None => high = Some(digit),
                Some(high) => out.push((high * 16 + digit) as u8),
            }
        }
        at += 1;
    }
}

/// The inside of a double-quoted string.
fn unescape(out: &mut Vec<u8>, inner: &[u8]) {
    let mut at = 0;
    while at < inner.len() {
        if inner[at] != b'\\' || at + 1 == inner.len() {
            out.push(inner[at]);
            at += 1;
        } else {
            at = escape(out, inner, at + 1);
        }
    }
}

/// Decodes one escape with its letter at `at`; returns the byte after it.
fn escape(out: &mut Vec<u8>, inner: &[u8], at: usize) -> usize {
    let simple = |byte| (Some(byte), at + 1);
    let (byte, next) = match inner[at] {
        b'a' => simple(7),
        b'b' => simple(8),
        b't' => simple(b'\t'),
        b'n' => simple(b'\n'),
        b'v' => simple(11),
        b'f' => simple(12),
        b'r' => simple(b'\r'),
        b'\n' => (None, at + 1),
        b'\r' => (None, if inner.get(at + 1) == Some(&b'\n') { at + 2 } else { at + 1 }),
        b'0'..=b'7' => {
            let end = (at..inner.len().min(at + 3)).find(|i| !(b'0'..=b'7').contains(&inner[*i]));
            let end = end.unwrap_or(inner.len().min(at + 3));
            let value = inner[at..end].iter().fold(0u32, |sum, d| sum * 8 + u32::from(d - b'0'));
            (Some(value as u8), end)
        }
        b'x' => {
            let digits = inner[at + 1..].iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
            let end = at + 1 + digits;
            let value = inner[at + 1..end].iter().fold(0u32, |sum, digit| {
                sum.wrapping_mul(16) + char::from(*digit).to_digit(16).unwrap_or(0)
            });
            (Some(value as u8), end)
        }
        b'<' => {
            let end = end_of_bytes(inner, at + 1);
            push_bytes(out, &inner[at + 1..end]);
            (None, end)
        }
        other => simple(other),
    };
    out.extend(byte);
    next
}

/// Writes bytes as one double-quoted string that [`unquote`] takes back to the same bytes.
pub fn quote(bytes: &[u8]) -> String {
    format!("\"{}\"", escaped(bytes))
}

/// The text between the double quotes of [`quote`].
pub fn escaped(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'\\' | b'"' | b'$' => out.extend(['\\', char::from(*byte)]),
            b'\t' => out.push_str("\\t"),
            b'\r' => out.push_str("\\r"),
            b'\n' => out.push_str("\\n"),
            32..=126 => out.push(char::from(*byte)),
            _ => out.push_str(&format!("\\{byte:03o}")),
        }
    }
    out
}

/// Joins arguments (quoted where they need it) into a configuration string.
pub fn join<T: AsRef<str>>(args: &[T]) -> String {
    let args: Vec<&str> = args.iter().map(AsRef::as_ref).collect();
    let mut text = args.join(", ");
    if args.last().is_some_and(|last| last.is_empty()) {
        text.push(',');
    }
    text
}

/// The numbers of a list in the kernel's format (`0-2,5`), in its order; `None` for any other text,
/// or for numbers above `max`. An empty text is an empty list.
pub fn numbers(text: &str, max: usize) -> Option<Vec<usize>> {
    let mut all = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.trim().parse::<usize>().ok();
        let (first, last) = (number(first)?, number(last)?);
        if first > last || last > max {
            return None;
        }
        all.extend(first..=last);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(config: &str) -> Vec<String> {
        split_args(config).into_iter().map(|arg| arg.0).collect()
    }

    #[test]
    fn commas_separate_outside_of_quotes() {
        assert_eq!(split("a, b"), ["a", "b"]);
        assert_eq!(split(r#""a,b", 'c,d', \<2c, 2c>"#), [r#""a,b""#, "'c,d'", r"\<2c, 2c>"]);
        assert_eq!(split(r#""a\",b", c"#), [r#""a\",b""#, "c"]);
        assert_eq!(split(r"'a\', b"), [r"'a\'", "b"]);
    }

    #[test]
    fn empty_arguments() {
        assert!(split("").is_empty());
        assert!(split(" /* none */ ").is_empty());
        assert_eq!(split(","), [""]);
        assert_eq!(split("a,"), ["a"]);
        assert_eq!(split("a,,b"), ["a", "", "b"]);
    }

    #[test]
    fn comments_are_blanks() {
        assert_eq!(split("a/* , */b // , c\n d, e"), ["a b  \n d", "e"]);
    }

    #[test]
    fn ranges_point_at_the_text() {
        let config = " alpha , /* x */ \"b, c\" ,é";
        let ranges: Vec<&str> =
            split_args(config).into_iter().map(|(_, range)| &config[range]).collect();
        assert_eq!(ranges, ["alpha", "\"b, c\"", "é"]);
    }

    #[test]
    fn words() {
        assert_eq!(split_words(r#" a "b c"  d/* x */e "#), ["a", r#""b c""#, "d", "e"]);
    }

    #[test]
    fn unquoting() {
        assert_eq!(unquote(r#""a\tb\x41\101\\\q""#), b"a\tbAA\\q");
        assert_eq!(unquote(r"'a\t$x'"), br"a\t$x");
        assert_eq!(unquote(r"x\<48 45 4c4C 4f>y"), b"xHELLOy");
        assert_eq!(unquote(r#""\<00 ff>""#), [0, 255]);
        assert_eq!(unquote("\\<// add, >\n1 /*2>*/ 2 // 3>\r\n33>4"), b"\x12\x334");
        assert_eq!(split("\\<01 // ,>\n02>, \\</*>*/03>").len(), 2);
        assert_eq!(unquote("\"a\\\nb\""), b"ab");
        assert_eq!(unquote("\"open"), b"open");
        assert_eq!(unquote("\""), b"");
        assert_eq!(unquote_text("'a b'c"), "a bc");
    }

    #[test]
    fn quoting_is_undone_by_unquoting() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(unquote(&quote(&all)), all);
        assert_eq!(quote(b""), "\"\"");
        assert_eq!(split_args(&quote(b"a,b")).len(), 1);
    }

    #[test]
    fn joining() {
        assert_eq!(join(&["a", "b"]), "a, b");
        assert_eq!(split(&join(&["a", ""])), ["a", ""]);
    }

    #[test]
    fn lists_of_numbers() {
        assert_eq!(numbers("0", 9), Some(vec![0]));
        assert_eq!(numbers("0-2, 5", 5), Some(vec![0, 1, 2, 5]));
        for wrong in ["", "x", "2-1", "1-", "-1", "-", "0,,1", "1 2", "1-2-3", "10", "0-99999999"] {
            assert_eq!(numbers(wrong, 9), None, "{wrong}");
        }
    }
}

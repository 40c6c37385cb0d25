//! One path through an expression, from left to right.

use crate::rules::error::Reason;
use crate::rules::pcre::class;
use crate::rules::pcre::rest::{Rest, literal};

/// How an expression is to be read.
pub(super) struct Walk {
    /// `x`: white space and comments mean nothing.
    pub extended: bool,
    /// `m`: `$` matches in front of every newline.
    pub multi_line: bool,
    /// `E`: without `m`, `$` matches at the very end only.
    pub dollar_end_only: bool,
}

fn unsupported(what: &str) -> Reason {
    Reason::unsupported(format!("pcre {what}"), "")
}

impl Walk {
    pub(super) fn translate(&self, pattern: &str) -> Result<String, Reason> {
        let mut rest = Rest { bytes: pattern.as_bytes(), at: 0 };
        let mut out = String::with_capacity(pattern.len() + 16);
        while let Some(byte) = rest.next() {
            match byte {
                b'\\' => escape(&mut rest, &mut out)?,
                b'[' => class::translate(&mut rest, &mut out)?,
                b'(' => group(&mut rest, &mut out)?,
                b'$' => out.push_str(self.dollar()),
                b'{' if counted(rest.after()).is_none() => literal(b'{', &mut out),
                b'*' | b'+' | b'?' | b'{' => quantifier(byte, &mut rest, &mut out)?,
                b'^' | b'.' | b'|' | b')' => out.push(char::from(byte)),
                b'#' if self.extended => rest.skip_line(),
                byte if self.extended && byte.is_ascii_whitespace() => {}
                byte => literal(byte, &mut out),
            }
        }
        Ok(out)
    }

    /// Without `m`, PCRE's `$` also matches in front of a newline that ends everything.
    fn dollar(&self) -> &'static str {
        match (self.multi_line, self.dollar_end_only) {
            (true, _) => "$",
            (false, true) => "\\z",
            (false, false) => "(?:\\n?\\z)",
        }
    }
}

/// The length of `n}`, `n,}` or `n,m}`; anything else behind a brace makes it a letter.
fn counted(after: &[u8]) -> Option<usize> {
    let end = after.iter().position(|byte| *byte == b'}')?;
    let (inner, mut commas) = (&after[..end], 0);
    for byte in inner {
        match byte {
            b',' => commas += 1,
            byte if byte.is_ascii_digit() => {}
            _ => return None,
        }
    }
    (inner.first().is_some_and(u8::is_ascii_digit) && commas <= 1).then_some(end + 1)
}

fn quantifier(first: u8, rest: &mut Rest<'_>, out: &mut String) -> Result<(), Reason> {
    out.push(char::from(first));
    if first == b'{' {
        let len = counted(rest.after()).unwrap_or(0);
        out.extend(rest.after()[..len].iter().map(|byte| char::from(*byte)));
        rest.skip(len);
    }
    if rest.take(b"?") {
        out.push('?');
    } else if rest.peek() == Some(b'+') {
        return Err(unsupported("possessive quantifier"));
    }
    Ok(())
}

fn group(rest: &mut Rest<'_>, out: &mut String) -> Result<(), Reason> {
    if rest.peek() == Some(b'*') {
        return Err(unsupported("verb"));
    }
    if !rest.take(b"?") {
        out.push('(');
        return Ok(());
    }
    if rest.take(b"#") {
        let end = rest.until(b")");
        return end.map(drop).ok_or_else(|| Reason::wrong("pcre: a comment is not closed"));
    }
    match rest.after() {
        [b'=' | b'!', ..] | [b'<', b'=' | b'!', ..] => Err(unsupported("lookaround")),
        [b'P', b'=', ..] => Err(unsupported("backreference")),
        [b'>', ..] => Err(unsupported("atomic group")),
        [b'R' | b'&' | b'0'..=b'9', ..] | [b'P', b'>', ..] | [b'+' | b'-', b'0'..=b'9', ..] => {
            Err(unsupported("recursion"))
        }
        [b'(', ..] => Err(unsupported("condition")),
        [b'|', ..] => Err(unsupported("branch reset")),
        [b'<', ..] | [b'P', b'<', ..] | [b'\'', ..] => named(rest, out),
        _ => flags(rest, out),
    }
}

/// A group with a name, which nothing can refer to: the name is dropped.
fn named(rest: &mut Rest<'_>, out: &mut String) -> Result<(), Reason> {
    let end: &[u8] = if rest.take(b"'") { b"'" } else { b">" };
    out.push('(');
    rest.until(end).map(drop).ok_or_else(|| Reason::wrong("pcre: a name is not closed"))
}

/// `(?i)`, `(?i-s:...`, `(?:...`.
fn flags(rest: &mut Rest<'_>, out: &mut String) -> Result<(), Reason> {
    out.push_str("(?");
    loop {
        match rest.next() {
            Some(byte @ (b')' | b':')) => {
                out.push(char::from(byte));
                return Ok(());
            }
            Some(byte @ (b'i' | b's' | b'm' | b'U' | b'-')) => out.push(char::from(byte)),
            Some(byte) => {
                return Err(unsupported(&format!("group (?{}", byte.escape_ascii())));
            }
            None => return Err(Reason::wrong("pcre: a group is not closed")),
        }
    }
}

/// What stands behind a backslash, outside of classes.
fn escape(rest: &mut Rest<'_>, out: &mut String) -> Result<(), Reason> {
    let byte = rest.next().ok_or_else(|| Reason::wrong("pcre: ends with '\\'"))?;
    match byte {
        b'b' | b'B' | b'A' | b'z' => {
            out.push('\\');
            out.push(char::from(byte));
        }
        // Three octal digits are a byte.
        b'1'..=b'9' if !is_octal(byte, rest.after()) => return Err(unsupported("backreference")),
        b'g' | b'k' => return Err(unsupported("backreference")),
        b'Q' => {
            let text = match rest.until(b"\\E") {
                Some(text) => text,
                None => {
                    let text = rest.after();
                    rest.skip(text.len());
                    text
                }
            };
            text.iter().for_each(|byte| literal(*byte, out));
        }
        b'E' => {}
        b'R' => out.push_str("(?:\\r\\n|[\\n\\x0B\\f\\r\\x85])"),
        b'N' => out.push_str("[^\\n]"),
        byte => match class::set(byte) {
            Some(set) => out.push_str(set),
            None => literal(class::one(byte, rest)?, out),
        },
    }
    Ok(())
}

fn is_octal(first: u8, after: &[u8]) -> bool {
    matches!((first, after), (b'1'..=b'3', [b'0'..=b'7', b'0'..=b'7', ..]))
}

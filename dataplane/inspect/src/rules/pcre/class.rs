//! Classes of bytes, and the escapes that stand for bytes.

use crate::rules::error::Reason;
use crate::rules::pcre::rest::{Rest, literal};

/// What is behind `[`, to the `]` that closes it.
pub(super) fn translate(rest: &mut Rest<'_>, out: &mut String) -> Result<(), Reason> {
    out.push('[');
    if rest.take(b"^") {
        out.push('^');
    }
    let mut is_first = true;
    // A bracket that comes first stands for itself.
    while is_first || rest.peek() != Some(b']') {
        is_first = false;
        item(rest, out)?;
    }
    rest.skip(1);
    out.push(']');
    Ok(())
}

/// One byte, range or set.
fn item(rest: &mut Rest<'_>, out: &mut String) -> Result<(), Reason> {
    if rest.after().starts_with(b"[:")
        && let Some(name) = posix(rest)
    {
        out.push_str(&name);
        return Ok(());
    }
    if rest.after().starts_with(b"\\Q") || rest.after().starts_with(b"\\E") {
        return Err(Reason::unsupported("pcre \\Q in a class", ""));
    }
    let first = match member(rest)? {
        Member::Set(set) => {
            out.push_str(set);
            return Ok(());
        }
        Member::Byte(byte) => byte,
    };
    literal(first, out);
    // A range, unless the bar is the last thing or stands in front of a set.
    if let [b'-', next, after, ..] = rest.after()
        && *next != b']'
        && !(*next == b'\\' && set(*after).is_some())
        && !(*next == b'[' && *after == b':')
    {
        rest.skip(1);
        if let Member::Byte(last) = member(rest)? {
            out.push('-');
            literal(last, out);
        }
    }
    Ok(())
}

enum Member {
    Byte(u8),
    Set(&'static str),
}

fn member(rest: &mut Rest<'_>) -> Result<Member, Reason> {
    let open = || Reason::wrong("pcre: a class is not closed");
    match rest.next().ok_or_else(open)? {
        b'\\' => {
            let byte = rest.next().ok_or_else(open)?;
            match byte {
                b'b' => Ok(Member::Byte(0x08)),
                byte => match set(byte) {
                    Some(set) => Ok(Member::Set(set)),
                    None => one(byte, rest).map(Member::Byte),
                },
            }
        }
        byte => Ok(Member::Byte(byte)),
    }
}

/// `[:name:]`, if there is such.
fn posix(rest: &mut Rest<'_>) -> Option<String> {
    const NAMES: [&str; 14] = [
        "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
        "space", "upper", "word", "xdigit",
    ];
    let inner = &rest.after()[2..];
    let len = inner.windows(2).position(|pair| pair == b":]")?;
    let name = std::str::from_utf8(&inner[..len]).ok()?;
    if !NAMES.contains(&name.trim_start_matches('^')) {
        return None;
    }
    let text = format!("[:{name}:]");
    rest.skip(text.len());
    Some(text)
}

/// The set of bytes that a letter stands for behind a backslash.
pub(super) fn set(letter: u8) -> Option<&'static str> {
    Some(match letter {
        b'd' => "\\d",
        b'D' => "\\D",
        b's' => "\\s",
        b'S' => "\\S",
        b'w' => "\\w",
        b'W' => "\\W",
        b'h' => "[\\t\\x20\\xA0]",
        b'H' => "[^\\t\\x20\\xA0]",
        b'v' => "[\\n\\x0B\\f\\r\\x85]",
        b'V' => "[^\\n\\x0B\\f\\r\\x85]",
        _ => return None,
    })
}

/// The byte that a letter (and what follows it) stands for behind a backslash.
pub(super) fn one(letter: u8, rest: &mut Rest<'_>) -> Result<u8, Reason> {
    Ok(match letter {
        b'a' => 0x07,
        b'e' => 0x1b,
        b'f' => 0x0c,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'x' => return hex(rest),
        b'0'..=b'7' => return octal(letter, rest),
        letter if letter.is_ascii_alphanumeric() => {
            return Err(Reason::unsupported(format!("pcre \\{}", char::from(letter)), ""));
        }
        letter => letter,
    })
}

/// `41`, `{41}`, or nothing, which is 0.
fn hex(rest: &mut Rest<'_>) -> Result<u8, Reason> {
    let digits = if rest.take(b"{") {
        rest.until(b"}").ok_or_else(|| Reason::wrong("pcre: '\\x{' is not closed"))?
    } else {
        let len = rest.after().iter().take(2).take_while(|byte| byte.is_ascii_hexdigit()).count();
        let digits = &rest.after()[..len];
        rest.skip(len);
        digits
    };
    let text = std::str::from_utf8(digits).unwrap_or("?");
    match text {
        "" => Ok(0),
        text => u8::from_str_radix(text, 16).map_err(|_| {
            Reason::wrong(format!("pcre: '\\x{{{}}}' is no byte", text.escape_default()))
        }),
    }
}

/// Up to three octal digits.
fn octal(first: u8, rest: &mut Rest<'_>) -> Result<u8, Reason> {
    let mut value = u32::from(first - b'0');
    for _ in 0..2 {
        match rest.peek() {
            Some(digit @ b'0'..=b'7') => value = value * 8 + u32::from(digit - b'0'),
            _ => break,
        }
        rest.skip(1);
    }
    u8::try_from(value).map_err(|_| Reason::wrong("pcre: an octal number above 377"))
}

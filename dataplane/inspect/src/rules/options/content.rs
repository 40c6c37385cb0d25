//! `content`, what may stand behind it, and `pcre`.

use super::builder::{Builder, Reader, Result, named, nothing, number, quoted};
use crate::rules::buffer::Buffer;
use crate::rules::error::{Reason, shown};
use crate::rules::limits::{CONTENT_BYTES_MAX, OFFSET_MAX, PCRE_BYTES_MAX};
use crate::rules::matches::{Content, Fast, Match, Pcre};

/// Options that say more of the content before them.
pub(super) const MODIFIERS: &[(&str, Reader)] = &[
    ("depth", depth),
    ("distance", distance),
    ("endswith", endswith),
    ("fast_pattern", fast_pattern),
    ("nocase", nocase),
    ("offset", offset),
    ("rawbytes", rawbytes),
    ("startswith", startswith),
    ("within", within),
];

pub(super) fn content(builder: &mut Builder, value: &str) -> Result {
    let buffer = builder.buffer;
    add(builder, buffer, value)
}

pub(super) fn uricontent(builder: &mut Builder, value: &str) -> Result {
    add(builder, Buffer::HttpUri, value)
}

fn add(builder: &mut Builder, buffer: Buffer, value: &str) -> Result {
    let (negated, value) = negation(value);
    let (text, rest) = quoted(value)?;
    let bytes = decode(text)?;
    builder.part_of(buffer, Match::Content(Content { bytes, negated, ..Content::default() }))?;
    modifiers(builder, rest)
}

fn negation(value: &str) -> (bool, &str) {
    match value.strip_prefix('!') {
        Some(rest) => (true, rest.trim_start()),
        None => (false, value),
    }
}

/// Modifiers in the content's own value, as Snort 3 writes them: `"x",nocase,depth 4`.
fn modifiers(builder: &mut Builder, rest: &str) -> Result {
    if rest.is_empty() {
        return Ok(());
    }
    let list = rest
        .strip_prefix(',')
        .ok_or_else(|| Reason::wrong(format!("'{}' behind the quotes", shown(rest))))?;
    for modifier in list.split(',') {
        let modifier = modifier.trim();
        let (name, value) = modifier.split_once(char::is_whitespace).unwrap_or((modifier, ""));
        match MODIFIERS.iter().find(|(known, _)| *known == name) {
            Some((_, read)) => {
                read(builder, value.trim()).map_err(|reason| named(name, reason))?;
            }
            None => return Err(Reason::unsupported(shown(name), "behind a content")),
        }
    }
    Ok(())
}

/// The bytes that a content's text means: `\` in front of what is special, hex between bars.
fn decode(text: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'\\' => match rest.next() {
                Some(byte @ (b'\\' | b'"' | b';' | b':')) => bytes.push(byte),
                Some(byte) if byte.is_ascii_punctuation() => bytes.push(byte),
                other => {
                    let c = char::from(other.unwrap_or(b' '));
                    return Err(Reason::wrong(format!("'\\{}' is no escape", c.escape_default())));
                }
            },
            b'|' => hex(&mut rest, &mut bytes)?,
            byte => bytes.push(byte),
        }
    }
    if bytes.is_empty() {
        return Err(Reason::wrong("is empty"));
    }
    if bytes.len() > CONTENT_BYTES_MAX {
        return Err(Reason::TooLarge(format!("more than {CONTENT_BYTES_MAX} bytes")));
    }
    Ok(bytes)
}

/// Hex digits in pairs, to the next bar.
fn hex(rest: &mut impl Iterator<Item = u8>, bytes: &mut Vec<u8>) -> Result {
    let mut high = None;
    for byte in rest {
        if byte == b'|' {
            return match high {
                None => Ok(()),
                Some(_) => Err(Reason::wrong("an odd number of hex digits")),
            };
        }
        if byte.is_ascii_whitespace() {
            continue;
        }
        let digit = char::from(byte)
            .to_digit(16)
            .ok_or_else(|| Reason::wrong(format!("'{}' is no hex digit", byte.escape_ascii())))?;
        high = match high {
            None => Some(digit as u8),
            Some(high) => {
                bytes.push(high << 4 | digit as u8);
                None
            }
        };
    }
    Err(Reason::wrong("a bar is not closed"))
}

pub(super) fn nocase(builder: &mut Builder, value: &str) -> Result {
    nothing(value)?;
    builder.last()?.1.nocase = true;
    Ok(())
}

pub(super) fn rawbytes(builder: &mut Builder, value: &str) -> Result {
    nothing(value)?;
    builder.last()?.1.raw = true;
    Ok(())
}

pub(super) fn offset(builder: &mut Builder, value: &str) -> Result {
    let (_, content) = builder.last()?;
    once(&mut content.offset, number(value, 0, OFFSET_MAX)?)
}

pub(super) fn depth(builder: &mut Builder, value: &str) -> Result {
    let (_, content) = builder.last()?;
    once(&mut content.depth, number(value, 1, OFFSET_MAX)?)
}

pub(super) fn within(builder: &mut Builder, value: &str) -> Result {
    let (_, content) = builder.last()?;
    once(&mut content.within, number(value, 1, OFFSET_MAX)?)
}

pub(super) fn distance(builder: &mut Builder, value: &str) -> Result {
    let (_, content) = builder.last()?;
    let most = OFFSET_MAX as i32;
    once(&mut content.distance, number(value, -most, most)?)
}

fn once<T>(slot: &mut Option<T>, value: T) -> Result {
    if slot.is_some() {
        return Err(Reason::wrong("given twice for one content"));
    }
    *slot = Some(value);
    Ok(())
}

pub(super) fn startswith(builder: &mut Builder, value: &str) -> Result {
    nothing(value)?;
    let (_, content) = builder.last()?;
    let len = content.bytes.len() as u32;
    once(&mut content.offset, 0)?;
    once(&mut content.depth, len)
}

pub(super) fn endswith(builder: &mut Builder, value: &str) -> Result {
    nothing(value)?;
    builder.last()?.1.ends = true;
    Ok(())
}

pub(super) fn fast_pattern(builder: &mut Builder, value: &str) -> Result {
    let (_, content) = builder.last()?;
    content.fast = match (value, value.split_once(',')) {
        ("", _) => Fast::Yes,
        ("only", _) => Fast::Only,
        (_, Some((offset, len))) => Fast::Cut {
            offset: number(offset, 0, CONTENT_BYTES_MAX as u16)?,
            len: number(len, 1, CONTENT_BYTES_MAX as u16)?,
        },
        _ => {
            let reason = format!("'{}' is neither 'only' nor offset,length", shown(value));
            return Err(Reason::Wrong(reason));
        }
    };
    Ok(())
}

/// A buffer's name behind a content.
pub(super) fn move_to(builder: &mut Builder, to: Buffer, value: &str) -> Result {
    nothing(value).map_err(|reason| named(to.modifier(), reason))?;
    let (buffer, _) = builder.last().map_err(|reason| named(to.modifier(), reason))?;
    *buffer = to;
    Ok(())
}

/// Letters behind a regular expression's slash that choose a buffer.
const BUFFERS: [(char, Buffer); 13] = [
    ('U', Buffer::HttpUri),
    ('I', Buffer::HttpRawUri),
    ('H', Buffer::HttpHeader),
    ('D', Buffer::HttpRawHeader),
    ('P', Buffer::HttpClientBody),
    ('Q', Buffer::HttpServerBody),
    ('M', Buffer::HttpMethod),
    ('C', Buffer::HttpCookie),
    ('Y', Buffer::HttpStatMsg),
    ('S', Buffer::HttpStatCode),
    ('V', Buffer::HttpUserAgent),
    ('W', Buffer::HttpHost),
    ('Z', Buffer::HttpRawHost),
];

pub(super) fn pcre(builder: &mut Builder, value: &str) -> Result {
    let (negated, value) = negation(value);
    let (text, rest) = quoted(value)?;
    nothing(rest)?;
    let inner = text.strip_prefix('/').ok_or_else(|| Reason::wrong("does not begin with '/'"))?;
    let (pattern, letters) =
        inner.rsplit_once('/').ok_or_else(|| Reason::wrong("does not end with '/'"))?;
    if pattern.len() > PCRE_BYTES_MAX {
        return Err(Reason::TooLarge(format!("more than {PCRE_BYTES_MAX} bytes")));
    }
    let (mut buffer, mut relative, mut flags) = (builder.buffer, false, Vec::new());
    for letter in letters.chars() {
        match letter {
            'i' | 's' | 'm' | 'x' | 'A' | 'E' | 'G' => flags.push(letter),
            'R' => relative = true,
            // As sent, and without limit: so it is anyway.
            'B' | 'O' => {}
            letter => match BUFFERS.iter().find(|(known, _)| *known == letter) {
                Some((_, chosen)) => buffer = *chosen,
                None => {
                    let name = format!("pcre flag {}", letter.escape_default());
                    return Err(Reason::unsupported(name, ""));
                }
            },
        }
    }
    flags.sort_unstable();
    flags.dedup();
    let flags = flags.into_iter().collect();
    let pattern = pattern.to_owned();
    builder.part_of(buffer, Match::Pcre(Pcre { pattern, flags, negated, relative }))
}

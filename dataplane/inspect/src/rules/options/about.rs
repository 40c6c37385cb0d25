//! What a rule says of itself.

use super::builder::{Builder, Result, nothing, number, quoted};
use crate::rules::error::{Reason, shown};

pub(super) fn msg(builder: &mut Builder, value: &str) -> Result {
    let (text, rest) = quoted(value)?;
    nothing(rest)?;
    let (mut msg, mut escaped) = (String::with_capacity(text.len()), false);
    for c in text.chars() {
        match c {
            '\\' if !escaped => escaped = true,
            c => {
                if escaped && !matches!(c, '\\' | '"' | ';' | ':') {
                    msg.push('\\');
                }
                msg.push(c);
                escaped = false;
            }
        }
    }
    builder.rule.about.msg = msg;
    Ok(())
}

pub(super) fn sid(builder: &mut Builder, value: &str) -> Result {
    if builder.rule.about.sid != 0 {
        return Err(Reason::wrong("given twice"));
    }
    builder.rule.about.sid = number(value, 1, u32::MAX)?;
    Ok(())
}

pub(super) fn gid(builder: &mut Builder, value: &str) -> Result {
    builder.rule.about.gid = number(value, 1, u32::MAX)?;
    Ok(())
}

pub(super) fn rev(builder: &mut Builder, value: &str) -> Result {
    builder.rule.about.rev = number(value, 0, u32::MAX)?;
    Ok(())
}

pub(super) fn priority(builder: &mut Builder, value: &str) -> Result {
    builder.rule.about.priority = Some(number(value, 1, u8::MAX)?);
    Ok(())
}

pub(super) fn classtype(builder: &mut Builder, value: &str) -> Result {
    let good = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    if value.is_empty() || !value.bytes().all(good) {
        return Err(Reason::wrong(format!("'{}' is no class", shown(value))));
    }
    builder.rule.about.classtype = value.to_owned();
    Ok(())
}

pub(super) fn reference(builder: &mut Builder, value: &str) -> Result {
    builder.rule.about.references.push(plain(value)?);
    Ok(())
}

pub(super) fn metadata(builder: &mut Builder, value: &str) -> Result {
    builder.rule.about.metadata.push(plain(value)?);
    Ok(())
}

/// A value that is kept as it is written.
fn plain(value: &str) -> Result<String> {
    if value.is_empty() { Err(Reason::wrong("is empty")) } else { Ok(value.to_owned()) }
}

//! `isdataat`, `byte_test`, `byte_jump`.

use super::builder::{Builder, Result, number};
use crate::rules::error::{Reason, shown};
use crate::rules::limits::OFFSET_MAX;
use crate::rules::matches::{
    ByteJump, ByteTest, Compare, DataAt, Form, JumpFrom, Match, Number, Order,
};

pub(super) fn isdataat(builder: &mut Builder, value: &str) -> Result {
    let (negated, value) = match value.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, value),
    };
    let mut words = value.split(',').map(str::trim);
    let bytes = number(words.next().unwrap_or(""), 0, OFFSET_MAX)?;
    let mut relative = false;
    for word in words {
        match word {
            "relative" => relative = true,
            // As sent: so it is anyway.
            "rawbytes" => {}
            other => return Err(unknown(other)),
        }
    }
    builder.part(Match::DataAt(DataAt { bytes, negated, relative }))
}

fn unknown(word: &str) -> Reason {
    Reason::unsupported(shown(word), "in an option about bytes")
}

/// Words that say how a number is written, collected.
#[derive(Default)]
struct Words {
    relative: bool,
    order: Order,
    string: bool,
    base: u8,
}

impl Words {
    /// Whether the word was one of them.
    fn take(&mut self, word: &str) -> bool {
        match word {
            "relative" => self.relative = true,
            "big" => self.order = Order::Big,
            "little" => self.order = Order::Little,
            "string" => self.string = true,
            "dec" => self.base = 10,
            "hex" => self.base = 16,
            "oct" => self.base = 8,
            _ => return false,
        }
        true
    }

    fn number(&self, bytes: u8, offset: i32) -> Result<Number> {
        let form = match (self.string, self.base) {
            (false, 0) => Form::Binary(self.order),
            (true, 0) => Form::Digits(10),
            (true, base) => Form::Digits(base),
            (false, _) => return Err(Reason::wrong("'hex', 'dec', 'oct' go with 'string'")),
        };
        let most = if self.string { 23 } else { 8 };
        if bytes > most {
            return Err(Reason::wrong(format!("a number of more than {most} bytes")));
        }
        Ok(Number { bytes, offset, relative: self.relative, form })
    }
}

pub(super) fn byte_test(builder: &mut Builder, value: &str) -> Result {
    let parts: Vec<&str> = value.split(',').map(str::trim).collect();
    let [bytes, operator, wanted, offset, words @ ..] = &parts[..] else {
        return Err(Reason::wrong("takes at least bytes, operator, value, offset"));
    };
    let (negated, operator) = match operator.strip_prefix('!') {
        Some(rest) => (true, rest.trim()),
        None => (false, *operator),
    };
    let compare = match operator {
        "<" => Compare::Less,
        ">" => Compare::More,
        "=" | "" => Compare::Equal,
        "<=" => Compare::AtMost,
        ">=" => Compare::AtLeast,
        "&" => Compare::And,
        "^" => Compare::Xor,
        other => return Err(Reason::wrong(format!("'{}' is no operator", shown(other)))),
    };
    let (mut form, mut mask) = (Words::default(), None);
    for word in words {
        match word.strip_prefix("bitmask") {
            _ if form.take(word) => {}
            Some(bits) => mask = Some(u32::try_from(any_base(bits.trim())?).unwrap_or(0)),
            None => return Err(unknown(word)),
        }
    }
    if mask == Some(0) {
        return Err(Reason::wrong("a bitmask has 1 to 32 bits, not all of them 0"));
    }
    let number = form.number(number(bytes, 1, 23)?, offset_option(offset)?)?;
    let value = any_base(wanted)?;
    builder.part(Match::ByteTest(ByteTest { number, negated, compare, value, mask }))
}

pub(super) fn byte_jump(builder: &mut Builder, value: &str) -> Result {
    let parts: Vec<&str> = value.split(',').map(str::trim).collect();
    let [bytes, offset, words @ ..] = &parts[..] else {
        return Err(Reason::wrong("takes at least bytes and offset"));
    };
    let mut form = Words::default();
    let mut jump = ByteJump {
        number: Number { bytes: 1, offset: 0, relative: false, form: Form::Digits(10) },
        multiplier: 1,
        align: false,
        from: JumpFrom::Here,
        post_offset: 0,
    };
    for word in words {
        match word.split_once(char::is_whitespace) {
            Some(("multiplier", times)) => jump.multiplier = number(times, 1, OFFSET_MAX)?,
            Some(("post_offset", bytes)) => jump.post_offset = offset_option(bytes)?,
            None if *word == "align" => jump.align = true,
            None if *word == "from_beginning" => jump.from = JumpFrom::Beginning,
            None if form.take(word) => {}
            _ => return Err(unknown(word)),
        }
    }
    jump.number = form.number(number(bytes, 1, 23)?, offset_option(offset)?)?;
    builder.part(Match::ByteJump(jump))
}

fn offset_option(text: &str) -> Result<i32> {
    let most = OFFSET_MAX as i32;
    number(text, -most, most)
}

/// A number, in hex where it begins so.
fn any_base(text: &str) -> Result<u64> {
    let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| Reason::wrong(format!("'{}' is no number", shown(text))))
}

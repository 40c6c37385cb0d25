//! `sprintf`: C's format strings over words.

use thruway_element::text;

use super::integer::integer;

/// Widest field, and most digits.
const WIDTH_MAX: usize = 4_096;

/// One `%` directive.
#[derive(Debug, Default)]
struct Directive {
    left: bool,
    zero: bool,
    alternate: bool,
    sign: Option<char>,
    width: usize,
    precision: Option<usize>,
    short: bool,
}

/// The first word of `param` is the format, the others are its arguments.
pub(super) fn sprintf(param: &str) -> Result<String, String> {
    let words = text::split_words(param);
    let (format, args) = words.split_first().ok_or("expected a format string")?;
    let format = text::unquote_text(format);
    let mut args = args.iter().copied();
    let mut chars = format.chars().peekable();
    let mut out = String::new();
    while let Some(c) = chars.next() {
        if c == '%' {
            directive(&mut chars, &mut args, &mut out)?;
        } else {
            out.push(c);
        }
    }
    if args.next().is_some() { Err("too many arguments for the format".into()) } else { Ok(out) }
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

fn directive<'a>(
    chars: &mut Chars<'_>,
    args: &mut impl Iterator<Item = &'a str>,
    out: &mut String,
) -> Result<(), String> {
    let mut field = Directive::default();
    while let Some(flag) = chars.next_if(|c| matches!(c, '0' | '#' | '-' | ' ' | '+')) {
        match flag {
            '0' => field.zero = true,
            '#' => field.alternate = true,
            '-' => field.left = true,
            '+' => field.sign = Some('+'),
            _ => field.sign = field.sign.or(Some(' ')),
        }
    }
    if chars.next_if_eq(&'*').is_some() {
        let width = number(args)?;
        field.left |= width < 0;
        field.width = width.unsigned_abs().min(WIDTH_MAX as u64) as usize;
    } else {
        field.width = digits(chars);
    }
    if chars.next_if_eq(&'.').is_some() {
        field.precision = Some(match chars.next_if_eq(&'*') {
            Some(_) => {
                usize::try_from(number(args)?).map_err(|_| "negative precision")?.min(WIDTH_MAX)
            }
            None => digits(chars),
        });
    }
    while let Some(size) = chars.next_if(|c| matches!(c, 'h' | 'l' | 'L' | 'q')) {
        field.short = size == 'h';
    }
    match chars.next() {
        Some('%') => out.push('%'),
        Some('s') => {
            let word = text::unquote_text(args.next().ok_or("too few arguments for the format")?);
            let cut: String = word.chars().take(field.precision.unwrap_or(usize::MAX)).collect();
            field.pad(out, "", &cut, ' ');
        }
        Some(kind @ ('d' | 'i' | 'u' | 'o' | 'x' | 'X')) => field.integer(out, kind, number(args)?),
        Some(kind) => return Err(format!("'%{kind}' is not a conversion")),
        None => return Err("the format ends in a '%'".into()),
    }
    Ok(())
}

fn digits(chars: &mut Chars<'_>) -> usize {
    let mut value = 0;
    while let Some(digit) = chars.next_if(char::is_ascii_digit) {
        value = (value * 10 + digit as usize - '0' as usize).min(WIDTH_MAX);
    }
    value
}

fn number<'a>(args: &mut impl Iterator<Item = &'a str>) -> Result<i64, String> {
    let word = args.next().ok_or("too few arguments for the format")?;
    integer(word).ok_or_else(|| format!("'{word}' is not an integer"))
}

impl Directive {
    fn integer(&self, out: &mut String, kind: char, value: i64) {
        let signed = matches!(kind, 'd' | 'i');
        let value = match (self.short, signed) {
            (false, _) => value,
            (true, true) => i64::from(value as i16),
            (true, false) => i64::from(value as u16),
        };
        let magnitude = if signed { value.unsigned_abs() } else { value as u64 };
        let mut body = match kind {
            'o' => format!("{magnitude:o}"),
            'x' => format!("{magnitude:x}"),
            'X' => format!("{magnitude:X}"),
            _ => magnitude.to_string(),
        };
        if let Some(precision) = self.precision {
            body = format!("{body:0>precision$}");
        }
        let prefix = match kind {
            'd' | 'i' if value < 0 => "-",
            'd' | 'i' if self.sign == Some('+') => "+",
            'd' | 'i' if self.sign == Some(' ') => " ",
            'o' if self.alternate && !body.starts_with('0') => "0",
            'x' if self.alternate && magnitude != 0 => "0x",
            'X' if self.alternate && magnitude != 0 => "0X",
            _ => "",
        };
        let zero = self.zero && !self.left && self.precision.is_none();
        self.pad(out, prefix, &body, if zero { '0' } else { ' ' });
    }

    fn pad(&self, out: &mut String, prefix: &str, body: &str, fill: char) {
        let missing = self.width.saturating_sub(prefix.len() + body.chars().count());
        let blanks = |out: &mut String, fill: char| out.extend(std::iter::repeat_n(fill, missing));
        if !self.left && fill == ' ' {
            blanks(out, ' ');
        }
        out.push_str(prefix);
        if !self.left && fill == '0' {
            blanks(out, '0');
        }
        out.push_str(body);
        if self.left {
            blanks(out, ' ');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_c_does() {
        for (text, value) in [
            (r#""%05x" 127"#, "0007f"),
            (r#""%5d|%-5d|%05d" 42 42 -42"#, "   42|42   |-0042"),
            (r#""%+d % d %i" 1 2 3"#, "+1  2 3"),
            (r#""%#x %#o %X" 255 8 255"#, "0xff 010 FF"),
            (r#""%s is %.2s" "a b" xyz"#, "a b is xy"),
            (r#""%*d%%" 4 7"#, "   7%"),
            (r#""%.3d" 7"#, "007"),
            (r#""%hu %lld" 65537 -1"#, "1 -1"),
            (r#""%u" 18446744073709551615"#, "18446744073709551615"),
            ("plain", "plain"),
        ] {
            assert_eq!(sprintf(text).unwrap(), value, "{text}");
        }
    }

    #[test]
    fn mistakes() {
        for text in ["", "%d", "%d x", "%d 1 2", "%", "%k 1", "%.*d -1 2"] {
            assert!(sprintf(text).is_err(), "{text}");
        }
        assert!(sprintf("%999999999d 1").unwrap().len() <= WIDTH_MAX);
    }
}

//! JSON (RFC 8259), as far as events need it, in ASCII.

use std::fmt::Write;

/// An object that is being written.
pub(super) struct Object<'a> {
    out: &'a mut String,
    is_first: bool,
}

impl<'a> Object<'a> {
    pub(super) fn begin(out: &'a mut String) -> Object<'a> {
        out.push('{');
        Object { out, is_first: true }
    }

    pub(super) fn end(self) {
        self.out.push('}');
    }

    fn name(&mut self, name: &str) {
        if !std::mem::take(&mut self.is_first) {
            self.out.push(',');
        }
        string(self.out, name.as_bytes());
        self.out.push(':');
    }

    pub(super) fn text(&mut self, name: &str, value: &str) {
        self.bytes(name, value.as_bytes());
    }

    pub(super) fn bytes(&mut self, name: &str, value: &[u8]) {
        self.name(name);
        string(self.out, value);
    }

    pub(super) fn number(&mut self, name: &str, value: u64) {
        self.name(name);
        push(self.out, format_args!("{value}"));
    }

    pub(super) fn object(&mut self, name: &str) -> Object<'_> {
        self.name(name);
        Object::begin(self.out)
    }
}

/// Writing to a string does not fail.
fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    let written = out.write_fmt(text);
    debug_assert!(written.is_ok());
}

/// A string: printable ASCII as it is, everything else escaped; what is not UTF-8 is U+FFFD.
fn string(out: &mut String, bytes: &[u8]) {
    out.push('"');
    for chunk in bytes.utf8_chunks() {
        chunk.valid().chars().for_each(|c| character(out, c));
        if !chunk.invalid().is_empty() {
            character(out, char::REPLACEMENT_CHARACTER);
        }
    }
    out.push('"');
}

fn character(out: &mut String, c: char) {
    match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        ' '..='~' => out.push(c),
        c => {
            for unit in c.encode_utf16(&mut [0; 2]) {
                push(out, format_args!("\\u{unit:04x}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The text that a string of JSON stands for: a reader that knows what is written here.
    fn read(json: &str) -> String {
        let inner = json.strip_prefix('"').unwrap().strip_suffix('"').unwrap();
        let (mut units, mut chars) = (Vec::new(), inner.chars());
        while let Some(c) = chars.next() {
            assert!((' '..='~').contains(&c) && c != '"', "{json}");
            if c != '\\' {
                units.push(c as u16);
                continue;
            }
            units.push(match chars.next().unwrap() {
                'n' => b'\n'.into(),
                'r' => b'\r'.into(),
                't' => b'\t'.into(),
                'u' => {
                    let hex: String = chars.by_ref().take(4).collect();
                    u16::from_str_radix(&hex, 16).unwrap()
                }
                c => c as u16,
            });
        }
        String::from_utf16(&units).unwrap()
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_string(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut out = String::new();
            string(&mut out, &bytes);
            prop_assert_eq!(read(&out), String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn any_text_is_a_string(text in "\\PC*[\\x00-\\x20\"\\\\\u{10ffff}]*") {
            let mut out = String::new();
            string(&mut out, text.as_bytes());
            prop_assert_eq!(read(&out), text);
        }
    }
}

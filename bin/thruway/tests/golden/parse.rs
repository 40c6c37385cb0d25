//! Reads golden test files: the format of Click's `testie` and `clicktest`.
//!
//! A file is a series of sections, each begun by a line with `%` and a word. `%script` is a shell
//! script, `%file NAME` a file it finds in its directory, `%expect NAME` what a file (or `stdout`,
//! `stderr`) must hold afterwards. `%eot` begins another test in the same file.

/// How a line of an `%expect` or `%ignore` section is to be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Byte by byte.
    Verbatim,
    /// Literally, but for `{{regex}}`.
    Braces,
    /// As a regular expression.
    Regex,
}

/// One `%expect` section.
#[derive(Debug)]
pub struct Expect {
    /// Line in the test file where its text begins.
    pub line: usize,
    pub file: String,
    pub mode: Mode,
    /// `-w`: blanks do not count.
    pub whitespace: bool,
    pub text: Vec<u8>,
}

/// One `%ignore` section.
#[derive(Debug)]
pub struct Ignore {
    /// File name, or `all`.
    pub file: String,
    pub mode: Mode,
    pub whitespace: bool,
    pub text: String,
}

/// One test.
#[derive(Debug, Default)]
pub struct Test {
    /// Line where it begins.
    pub line: usize,
    pub require: String,
    pub script: String,
    pub files: Vec<(String, Vec<u8>)>,
    pub expects: Vec<Expect>,
    pub ignores: Vec<Ignore>,
    /// What is wrong with the file itself.
    pub problems: Vec<String>,
}

/// The flags and names after a section's word.
#[derive(Debug, Default)]
struct Options {
    delete_first: bool,
    ignore_case: bool,
    base64: bool,
    whitespace: bool,
    length: Option<usize>,
    names: Vec<String>,
}

impl Options {
    fn parse(text: &str) -> Options {
        let mut options = Options::default();
        for word in text.split_whitespace() {
            let length = word.strip_prefix('+').and_then(|digits| digits.parse().ok());
            if !options.names.is_empty() || !(word.starts_with('-') || length.is_some()) {
                options.names.push(word.to_owned());
                continue;
            }
            options.length = options.length.or(length);
            for flag in word.trim_start_matches('-').chars() {
                match flag {
                    'd' => options.delete_first = true,
                    'i' => options.ignore_case = true,
                    'e' => options.base64 = true,
                    'w' => options.whitespace = true,
                    // `-a` (an alternative) needs no mark: every section for a file is one.
                    _ => {}
                }
            }
        }
        options
    }
}

struct Reader<'a> {
    lines: Vec<&'a [u8]>,
    at: usize,
    /// `.testie` files have regular expressions in `%ignore`, `.clicktest` files braces.
    testie: bool,
}

/// All tests of a file. `testie` says that the older of the two dialects is meant.
pub fn parse(text: &[u8], testie: bool) -> Vec<Test> {
    let lines = text.split_inclusive(|byte| *byte == b'\n').collect();
    let mut reader = Reader { lines, at: 0, testie };
    let mut tests = Vec::new();
    loop {
        let (test, more) = reader.test();
        if !test.script.trim().is_empty() || !test.problems.is_empty() {
            tests.push(test);
        }
        if !more {
            return tests;
        }
    }
}

impl Reader<'_> {
    fn test(&mut self) -> (Test, bool) {
        let mut test = Test { line: self.at + 1, ..Test::default() };
        while let Some(line) = self.lines.get(self.at) {
            let line = String::from_utf8_lossy(line).trim_end().to_owned();
            self.at += 1;
            let Some(head) = line.strip_prefix('%') else { continue };
            let head = head.trim_start();
            let end = head.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(head.len());
            let (word, options) = head.split_at(end);
            match word.to_ascii_lowercase().as_str() {
                "eot" => return (test, true),
                "eof" => self.at = self.lines.len(),
                word => self.section(&mut test, word, options),
            }
        }
        (test, false)
    }

    fn section(&mut self, test: &mut Test, word: &str, options: &str) {
        let line = self.at + 1;
        match word {
            "script" | "test" => test.script.push_str(&self.text()),
            // `-q` (do not say that it failed) makes no difference: what is skipped is listed.
            "require" => test.require.push_str(&self.text()),
            "info" | "desc" | "cut" => drop(self.text()),
            "file" => self.file(test, options, "stdin"),
            "stdin" | "input" => self.file(test, options, "stdin"),
            "expect" | "stdout" | "output" => self.expect(test, options, Mode::Braces, "stdout"),
            "stderr" => self.expect(test, options, Mode::Braces, "stderr"),
            "expectx" => self.expect(test, options, Mode::Regex, "stdout"),
            "expectv" | "expect_verbatim" | "verbatim" => {
                self.expect(test, options, Mode::Verbatim, "stdout");
            }
            "ignore" if self.testie => self.ignore(test, options, Mode::Regex),
            "ignore" => self.ignore(test, options, Mode::Braces),
            "ignorex" => self.ignore(test, options, Mode::Regex),
            "ignorev" => self.ignore(test, options, Mode::Verbatim),
            _ => {
                test.problems.push(format!("line {}: unknown section %{word}", line - 1));
                self.text();
            }
        }
    }

    /// The lines up to the next section; `\%` at the start of a line stands for `%`.
    fn bytes(&mut self, options: &Options) -> Vec<u8> {
        let mut out = Vec::new();
        while let Some(line) = self.lines.get(self.at) {
            if options.length.is_none_or(|length| out.len() >= length) && line.starts_with(b"%") {
                break;
            }
            let line =
                line.strip_prefix(b"\\").filter(|rest| rest.starts_with(b"%")).unwrap_or(line);
            let skip = usize::from(options.delete_first && line.len() > 1);
            out.extend_from_slice(&line[skip..]);
            self.at += 1;
        }
        if let Some(length) = options.length {
            out.truncate(length);
        }
        if options.base64 { base64(&out) } else { out }
    }

    fn text(&mut self) -> String {
        String::from_utf8_lossy(&self.bytes(&Options::default())).into_owned()
    }

    fn file(&mut self, test: &mut Test, options: &str, default: &str) {
        let options = Options::parse(options);
        let text = self.bytes(&options);
        for name in or_default(&options.names, default) {
            test.files.push((name, text.clone()));
        }
    }

    fn expect(&mut self, test: &mut Test, options: &str, mode: Mode, default: &str) {
        let options = Options::parse(options);
        let line = self.at + 1;
        let mut text = self.bytes(&options);
        if options.ignore_case && mode != Mode::Verbatim {
            text = String::from_utf8_lossy(&text).replace("{{", "{{(?i)").into_bytes();
        }
        let mode = if options.base64 { Mode::Verbatim } else { mode };
        for file in or_default(&options.names, default) {
            let whitespace = options.whitespace;
            test.expects.push(Expect { line, file, mode, whitespace, text: text.clone() });
        }
    }

    fn ignore(&mut self, test: &mut Test, options: &str, mode: Mode) {
        let options = Options::parse(options);
        let text = String::from_utf8_lossy(&self.bytes(&options)).into_owned();
        for file in or_default(&options.names, "all") {
            let whitespace = options.whitespace;
            test.ignores.push(Ignore { file, mode, whitespace, text: text.clone() });
        }
    }
}

fn or_default(names: &[String], default: &str) -> Vec<String> {
    if names.is_empty() { vec![default.to_owned()] } else { names.to_vec() }
}

/// Decodes base64; characters that are none are passed over.
fn base64(text: &[u8]) -> Vec<u8> {
    let digit = |byte: &u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let (mut out, mut bits, mut held) = (Vec::new(), 0u32, 0);
    for digit in text.iter().filter_map(digit) {
        bits = bits << 6 | u32::from(digit);
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections() {
        let text = b"%info\nsay\n%script\necho a\n%file X Y\n1\n\\%2\n%expect -w stdout\na {{b}}\n\
                     %expect -a stdout\nb\n%ignore\nx\n%eot\n%script\ntrue\n%expectv -d F\n>%\n";
        let tests = parse(text, false);
        assert_eq!(tests.len(), 2);
        let one = &tests[0];
        assert_eq!(one.script, "echo a\n");
        assert_eq!(one.files[1], ("Y".to_owned(), b"1\n%2\n".to_vec()));
        assert_eq!((one.expects.len(), one.expects[0].whitespace), (2, true));
        assert_eq!(one.expects[0].line, 9);
        assert_eq!(one.ignores[0].file, "all");
        assert_eq!(one.ignores[0].mode, Mode::Braces);
        assert_eq!(tests[1].expects[0].text, b"%\n");
        assert_eq!(tests[1].expects[0].mode, Mode::Verbatim);
    }

    #[test]
    fn lengths_and_base64() {
        let tests = parse(b"%script\ntrue\n%file +3 A\n%a\nb\n%file -e B\naGVs\nbG8=\n", false);
        assert_eq!(tests[0].files[0], ("A".to_owned(), b"%a\n".to_vec()));
        assert_eq!(tests[0].files[1], ("B".to_owned(), b"hello".to_vec()));
    }

    #[test]
    fn dialects_and_problems() {
        assert_eq!(parse(b"%ignore\nx\n%script\ny\n", true)[0].ignores[0].mode, Mode::Regex);
        assert_eq!(parse(b"%frob\nx\n", true)[0].problems, ["line 1: unknown section %frob"]);
    }
}

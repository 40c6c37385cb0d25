//! A connection to a running Thruway's control socket (Click's protocol, version 1), over which
//! anything may come: what is read is bounded, what is shown is harmless.
//!
//! `thruway ctl`, `top`, `trace` and `reload` use it, and the manager.
#![forbid(unsafe_code)]

pub mod trace;
mod unix;

use std::io::{BufRead as _, BufReader, Read, Write};

use anyhow::{anyhow, bail};

/// A stream to a server.
pub trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// The server refused what it was asked; its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused(pub String);

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

/// A connection to a ControlSocket.
pub struct Client {
    stream: BufReader<Box<dyn Stream>>,
}

/// Longest line of an answer, bytes; and of all its status lines.
const LINE_MAX: u64 = 1 << 20;
/// Longest answer taken: ControlSocket sends no more.
const ANSWER_MAX: u64 = 64 << 20;
const GREETING: &str = "Click::ControlSocket/1.";

impl Client {
    /// Takes the greeting, and shows the token where there is one.
    ///
    /// # Errors
    /// The peer is no ControlSocket, refuses the token, or the stream fails.
    pub fn greet(stream: Box<dyn Stream>, token: Option<&str>) -> anyhow::Result<Client> {
        let mut client = Client { stream: BufReader::new(stream) };
        let greeting = client.line()?;
        if !greeting.starts_with(GREETING) {
            bail!("it greets with '{}': no ControlSocket", shown(&greeting));
        }
        if let Some(token) = token {
            client.command(&format!("AUTH {token}"))?;
        }
        Ok(client)
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = Vec::new();
        (&mut self.stream).take(LINE_MAX).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            bail!("it closed the connection");
        }
        if line.last() != Some(&b'\n') {
            bail!("it sends a line without an end");
        }
        Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
    }

    /// Sends a command of one line and takes the status lines of its answer.
    fn command(&mut self, command: &str) -> anyhow::Result<()> {
        if command.contains(['\n', '\r']) {
            bail!("a command is one line");
        }
        self.send(format!("{command}\r\n").as_bytes())?;
        self.answer()
    }

    /// Sends bytes. A server that takes no more may have said why.
    fn send(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        match self.stream.get_mut().write_all(bytes) {
            Ok(()) => Ok(()),
            Err(error) => self.answer().and(Err(error.into())),
        }
    }

    /// Writes a handler; the value may be of several lines.
    ///
    /// # Errors
    /// The server refuses, in its words, or the stream fails.
    pub fn write(&mut self, handler: &str, value: &str) -> anyhow::Result<()> {
        if !value.contains(['\n', '\r']) || handler.contains(['\n', '\r']) {
            return self.command(&format!("WRITE {handler} {value}"));
        }
        let head = format!("WRITEDATA {handler} {}\r\n", value.len());
        self.send(&[head.as_bytes(), value.as_bytes()].concat())?;
        self.answer()
    }

    /// The status lines of an answer.
    fn answer(&mut self) -> anyhow::Result<()> {
        let mut said = Vec::new();
        let mut bytes = 0;
        loop {
            let line = self.line()?;
            bytes += line.len() as u64;
            if bytes > LINE_MAX {
                bail!("its answer has no end");
            }
            let (code, rest) = line.split_at_checked(3).unwrap_or((&line, ""));
            said.push(shown(rest.trim_start_matches([' ', '-'])));
            if !rest.starts_with('-') {
                return match code {
                    "200" | "220" => Ok(()),
                    _ => Err(Refused(said.join("\n")).into()),
                };
            }
        }
    }

    /// Reads a handler.
    ///
    /// # Errors
    /// The server refuses, in its words, or the stream fails.
    pub fn read(&mut self, call: &str) -> anyhow::Result<String> {
        self.command(&format!("READ {call}"))?;
        let line = self.line()?;
        let len: Option<u64> = line.strip_prefix("DATA ").and_then(|len| len.parse().ok());
        let len = len
            .filter(|len| *len <= ANSWER_MAX)
            .ok_or_else(|| anyhow!("it answers '{}' where its data should begin", shown(&line)))?;
        let mut data = Vec::new();
        (&mut self.stream).take(len).read_to_end(&mut data)?;
        if (data.len() as u64) < len {
            bail!("it closed the connection");
        }
        Ok(String::from_utf8_lossy(&data).into_owned())
    }
}

/// A text that does nothing to a terminal: control characters, and those that turn the direction of
/// writing, are written out. Ends of lines and tabs stay.
pub fn shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => out.push(c),
            c if acts(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

/// The same for JSON, whose strings write them otherwise.
pub fn shown_json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push(c),
            c if acts(c) => out += &format!("\\u{:04x}", u32::from(c)),
            c => out.push(c),
        }
    }
    out
}

/// Whether a terminal may do something else with a character than show it. All are of the basic
/// plane.
fn acts(c: char) -> bool {
    let turns = matches!(
        c,
        '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}'
            | '\u{feff}'
    );
    c.is_control() || turns
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Cursor;

    /// A server that says what it says, whatever it hears.
    struct Parrot(Cursor<Vec<u8>>);

    impl Read for Parrot {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            self.0.read(buffer)
        }
    }

    impl Write for Parrot {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn talk(said: &[u8]) -> anyhow::Result<String> {
        let mut client = Client::greet(Box::new(Parrot(Cursor::new(said.to_vec()))), None)?;
        client.read("c.count")
    }

    #[test]
    fn answers_are_read_and_others_are_told() {
        let good = b"Click::ControlSocket/1.3\r\n200 ok\r\nDATA 2\r\n42";
        assert_eq!(talk(good).expect("a whole answer"), "42");
        for (said, why) in [
            (&b"HTTP/1.1 400 no\r\n"[..], "no ControlSocket"),
            (b"Click::ControlSocket/1.3\r\n", "closed"),
            (b"Click::ControlSocket/1.3\r\n200 ok\r\nDATA 3\r\n42", "closed"),
            (b"Click::ControlSocket/1.3\r\n200 ok\r\nDATA 99999999999\r\n", "should begin"),
            (b"Click::ControlSocket/1.3\r\n510-a\x1b[2J\r\n510 b\r\n", "a\\u{1b}[2J\nb"),
            (b"\x1b]0;title\x07\r\n", "'\\u{1b}]0;title\\u{7}'"),
        ] {
            let told = talk(said).expect_err(why).to_string();
            assert!(told.contains(why), "{told}");
        }
        let endless =
            [&b"Click::ControlSocket/1.3\r\n"[..], &b"200-x\r\n".repeat(1 << 20)].concat();
        assert!(talk(&endless).expect_err("no end").to_string().contains("no end"));
        let long = vec![b'x'; 3 << 20];
        assert!(talk(&long).expect_err("no end").to_string().contains("without an end"));
    }

    #[test]
    fn what_is_shown_does_nothing() {
        let hostile = "a\x1b[31mb\u{9b}2J\r\u{202e}\u{7f}\0\tc\nd\u{e9}";
        let harmless = shown(hostile);
        assert_eq!(harmless, "a\\u{1b}[31mb\\u{9b}2J\\u{d}\\u{202e}\\u{7f}\\u{0}\tc\nd\u{e9}");
        let json = serde_json::to_string_pretty(&[hostile]).expect("JSON");
        let back: Vec<String> = serde_json::from_str(&shown_json(&json)).expect("still JSON");
        assert_eq!(back, [hostile]);
    }

    proptest! {
        /// Whatever a server says: an answer or an error, within bounds, and never a panic; and
        /// what would be shown of it does nothing to a terminal.
        #[test]
        fn any_server_is_heard_out(
            greets in any::<bool>(),
            lines in proptest::collection::vec(
                prop_oneof![
                    Just(b"200 ok\r\n".to_vec()), Just(b"200-more\n".to_vec()),
                    Just(b"DATA 4\r\n".to_vec()), Just(b"DATA -1\r\n".to_vec()),
                    Just(b"5".to_vec()), Just("\u{e9}\u{e9}\n".into()),
                    proptest::collection::vec(any::<u8>(), 0..40),
                ],
                0..12,
            ),
        ) {
            let mut said = lines.concat();
            if greets {
                said = [b"Click::ControlSocket/1.3\r\n", &said[..]].concat();
            }
            let text = talk(&said).unwrap_or_else(|error| error.to_string());
            prop_assert!(!shown(&text).contains(|c| acts(c) && !['\n', '\t'].contains(&c)));
        }
    }
}

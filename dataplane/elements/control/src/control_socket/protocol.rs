//! The protocol of Click's ControlSocket, version 1.3, without any socket: bytes come in, commands
//! come out, answers are formatted.
//!
//! Clients may be hostile: lines and data have bounds, no byte is scanned repeatedly, and a client
//! that breaks the bounds is disconnected.

use std::fmt::Write as _;

/// The server's greeting.
pub(super) const GREETING: &str = "Click::ControlSocket/1.3\r\n";
/// Longest command line, bytes.
pub(super) const LINE_MAX: usize = 64 << 10;
/// Longest one of a client that has not shown its token.
pub(super) const STRANGER_LINE_MAX: usize = 1 << 10;
/// First words of HTTP requests that are no commands here (GET is: an old name of READ).
const HTTP_VERBS: &[&str] =
    &["CONNECT", "DELETE", "HEAD", "OPTIONS", "PATCH", "POST", "PRI", "PUT", "TRACE"];
/// Most data for one handler, bytes.
pub(super) const DATA_MAX: usize = 4 << 20;

/// The command worked.
pub(super) const OK: u16 = 200;
/// It was not understood.
pub(super) const SYNTAX: u16 = 500;
/// There is no such command.
pub(super) const UNIMPLEMENTED: u16 = 501;
/// There is no such element.
pub(super) const NO_ELEMENT: u16 = 510;
/// There is no such handler.
pub(super) const NO_HANDLER: u16 = 511;
/// The write handler failed.
pub(super) const HANDLER_ERROR: u16 = 520;
/// More than [`DATA_MAX`].
pub(super) const TOO_BIG: u16 = 521;
/// The handler does not permit this use.
pub(super) const PERMISSION: u16 = 530;
/// The read handler failed.
pub(super) const UNSPECIFIED: u16 = 590;

/// The request of a client about a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Read,
    Write,
    CheckRead,
    CheckWrite,
    Llrpc,
}

/// One command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// Something about a handler; the text is its parameter or value.
    Handler(Verb, String, String),
    /// The token of a TCP port.
    Auth(String),
    Help,
    Quit,
    /// An error: code and message.
    Invalid(u16, String),
    /// One after which the connection cannot go on.
    Fatal(u16, String),
    /// Another protocol: the connection is closed without a word.
    Foreign,
}

/// Kind of the next bytes.
#[derive(Debug)]
enum Expect {
    /// A command line; bytes before `scanned` hold no line end.
    Line { scanned: usize },
    /// Data of known length.
    Data { verb: Verb, handler: String, len: usize },
    /// Data up to a line that says `end`; lines before `scanned` do not.
    Until { verb: Verb, handler: String, end: String, scanned: usize },
}

/// Bytes from a client, to be parsed into commands.
#[derive(Debug)]
pub(super) struct Input {
    pub(super) bytes: Vec<u8>,
    expect: Expect,
    /// The last line ended with a carriage return that was the last byte: a line feed that comes
    /// next belongs to it.
    skip_line_feed: bool,
    /// The client sends no more.
    pub closed: bool,
    /// The client may use handlers: it need show no token, or has shown it.
    pub trusted: bool,
}

impl Input {
    pub(super) fn new() -> Input {
        let expect = Expect::Line { scanned: 0 };
        let (closed, trusted) = (false, true);
        Input { bytes: Vec::new(), expect, skip_line_feed: false, closed, trusted }
    }

    /// Of a client that must show its token, unless it is trusted.
    pub(super) fn of(trusted: bool) -> Input {
        Input { trusted, ..Input::new() }
    }

    /// Adds received bytes. Call it only when [`Input::next`] has returned everything.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.closed {
            return;
        }
        let bytes = match bytes {
            [b'\n', rest @ ..] if std::mem::take(&mut self.skip_line_feed) => rest,
            bytes => bytes,
        };
        if !bytes.is_empty() {
            self.skip_line_feed = false;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Whether everything was taken.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty() && matches!(self.expect, Expect::Line { .. })
    }

    /// Whether part of a command has come.
    pub(super) fn is_begun(&self) -> bool {
        !self.is_empty()
    }

    /// Forgets everything and takes no more.
    pub(super) fn close(&mut self) {
        *self = Input { closed: true, ..Input::new() };
    }

    /// The next whole command.
    pub(super) fn next(&mut self) -> Option<Command> {
        loop {
            let expect = std::mem::replace(&mut self.expect, Expect::Line { scanned: 0 });
            let command = match expect {
                Expect::Line { scanned } => {
                    let line = self.line(scanned)?;
                    match line.and_then(|line| self.parse(&line)) {
                        Ok(Some(command)) => command,
                        // An empty line, or one with its data still to come.
                        Ok(None) => continue,
                        Err(command) => command,
                    }
                }
                Expect::Data { verb, handler, len } => self.data(verb, handler, len)?,
                Expect::Until { verb, handler, end, scanned } => {
                    self.until(verb, handler, end, scanned)?
                }
            };
            if matches!(command, Command::Fatal(..) | Command::Foreign) {
                self.close();
            }
            return Some(command);
        }
    }

    /// Takes a line off, without its end.
    fn line(&mut self, scanned: usize) -> Option<Result<Vec<u8>, Command>> {
        let end = self.bytes[scanned..].iter().position(|byte| matches!(byte, b'\r' | b'\n'));
        match end.map(|end| end + scanned) {
            Some(end) => {
                let next = self.after_line(end);
                let mut line: Vec<u8> = self.bytes.drain(..next).collect();
                line.truncate(end);
                Some(Ok(line))
            }
            None if self.bytes.len() > self.line_max() => {
                Some(Err(Command::Fatal(SYNTAX, "Line too long".into())))
            }
            None if self.closed && !self.bytes.is_empty() => {
                Some(Ok(std::mem::take(&mut self.bytes)))
            }
            None => {
                self.expect = Expect::Line { scanned: self.bytes.len() };
                None
            }
        }
    }

    fn line_max(&self) -> usize {
        if self.trusted { LINE_MAX } else { STRANGER_LINE_MAX }
    }

    /// The byte after the line end at `end`.
    fn after_line(&mut self, end: usize) -> usize {
        match (self.bytes[end], self.bytes.get(end + 1)) {
            (b'\r', Some(b'\n')) => end + 2,
            (b'\r', None) => {
                self.skip_line_feed = true;
                end + 1
            }
            _ => end + 1,
        }
    }

    fn data(&mut self, verb: Verb, handler: String, len: usize) -> Option<Command> {
        if self.bytes.len() >= len {
            let data: Vec<u8> = self.bytes.drain(..len).collect();
            return Some(Command::Handler(verb, handler, text(&data)));
        }
        if self.closed {
            self.bytes.clear();
            return Some(Command::Invalid(SYNTAX, "Not enough data".into()));
        }
        self.expect = Expect::Data { verb, handler, len };
        None
    }

    fn until(
        &mut self,
        verb: Verb,
        handler: String,
        end: String,
        mut scanned: usize,
    ) -> Option<Command> {
        loop {
            let line = self.bytes[scanned..].iter().position(|byte| matches!(byte, b'\r' | b'\n'));
            let Some(line_end) = line.map(|len| scanned + len) else { break };
            if text(&self.bytes[scanned..line_end]).trim_end() == end {
                let next = self.after_line(line_end);
                let mut data: Vec<u8> = self.bytes.drain(..next).collect();
                data.truncate(scanned);
                return Some(Command::Handler(verb, handler, text(&data)));
            }
            scanned = match self.bytes[line_end..] {
                // Its line feed may still come, and is data.
                [b'\r'] => break,
                [b'\r', b'\n', ..] => line_end + 2,
                _ => line_end + 1,
            };
        }
        if self.bytes.len() > DATA_MAX || self.bytes.len() - scanned > LINE_MAX {
            return Some(Command::Fatal(TOO_BIG, "Data too large".into()));
        }
        if self.closed {
            self.bytes.clear();
            return Some(Command::Invalid(SYNTAX, "Connection closed".into()));
        }
        self.expect = Expect::Until { verb, handler, end, scanned };
        None
    }

    /// Understands a line. `None` for an empty one, and when its data must come first.
    fn parse(&mut self, line: &[u8]) -> Result<Option<Command>, Command> {
        let line = text(line);
        let (word, rest) = split_word(&line);
        let (handler, param) = split_word(rest);
        let name = word.to_ascii_uppercase();
        if is_foreign(&name, &line) {
            return Err(Command::Foreign);
        }
        if !self.trusted && !matches!(name.as_str(), "" | "AUTH" | "QUIT" | "CLOSE") {
            let message = "Permission denied: AUTH TOKEN comes first".into();
            return Err(Command::Fatal(PERMISSION, message));
        }
        let verb = match name.as_str() {
            "" => return Ok(None),
            "AUTH" => return Ok(Some(Command::Auth(rest.to_owned()))),
            "READ" | "GET" | "READDATA" | "READUNTIL" => Verb::Read,
            "WRITE" | "SET" | "WRITEDATA" | "SETDATA" | "WRITEUNTIL" => Verb::Write,
            "CHECKREAD" => Verb::CheckRead,
            "CHECKWRITE" => Verb::CheckWrite,
            "LLRPC" => Verb::Llrpc,
            "HELP" => return Ok(Some(Command::Help)),
            "QUIT" | "CLOSE" => return Ok(Some(Command::Quit)),
            _ => {
                // The rest may be meant for another protocol: nothing of it is executed.
                let message = format!("Command '{name}' unimplemented");
                return Err(Command::Fatal(UNIMPLEMENTED, message));
            }
        };
        let wrong_number = || Command::Invalid(SYNTAX, "Wrong number of arguments".into());
        let data = name.ends_with("DATA");
        let check = matches!(verb, Verb::CheckRead | Verb::CheckWrite);
        if handler.is_empty() || (check && !param.is_empty()) || (data && param.is_empty()) {
            return Err(wrong_number());
        }
        let handler = handler.to_owned();
        if data || (verb == Verb::Llrpc && !param.is_empty()) {
            let syntax = || Command::Invalid(SYNTAX, format!("Syntax error in '{name}'"));
            let len: usize = param.parse().map_err(|_| syntax())?;
            if len > DATA_MAX {
                return Err(Command::Fatal(TOO_BIG, "Data too large".into()));
            }
            self.expect = Expect::Data { verb, handler, len };
            return Ok(None);
        }
        if name.ends_with("UNTIL") {
            self.expect = Expect::Until { verb, handler, end: param.to_owned(), scanned: 0 };
            return Ok(None);
        }
        Ok(Some(Command::Handler(verb, handler, param.to_owned())))
    }
}

/// Whether a line is the first one of an HTTP request, or of its like: a page in a browser can have
/// one sent here, with commands behind it.
fn is_foreign(verb: &str, line: &str) -> bool {
    let last = line.trim_ascii_end().rsplit(' ').next().unwrap_or("");
    HTTP_VERBS.contains(&verb) || (verb == "GET" && last.starts_with("HTTP/"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The first word, and what follows it without blanks around.
fn split_word(text: &str) -> (&str, &str) {
    let text = text.trim_ascii();
    match text.find(|c: char| c.is_ascii_whitespace()) {
        Some(end) => (&text[..end], text[end..].trim_ascii()),
        None => (text, ""),
    }
}

/// Appends an answer line for every message; all but the last are marked as going on.
pub(super) fn answer(out: &mut Vec<u8>, code: u16, messages: &[&str]) {
    let lines: Vec<&str> = messages.iter().flat_map(|message| message.lines()).collect();
    for (at, line) in lines.iter().enumerate() {
        let mark = if at + 1 < lines.len() { '-' } else { ' ' };
        let shown: String = line.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        let mut text = String::new();
        // Writing to a String does not fail.
        let _ = write!(text, "{code}{mark}{shown}\r\n");
        out.extend(text.as_bytes());
    }
}

/// Appends data.
pub(super) fn data(out: &mut Vec<u8>, data: &str) {
    out.extend(format!("DATA {}\r\n", data.len()).as_bytes());
    out.extend(data.as_bytes());
}

/// The answer to HELP.
pub(super) const HELP: &[&str] = &[
    "Commands supported:",
    "READ handler [arg...]   call read handler, return DATA",
    "READDATA handler len    call read handler with len data bytes, return DATA",
    "READUNTIL handler term  call read handler, take data until term, return DATA",
    "WRITE handler [arg...]  call write handler",
    "WRITEDATA handler len   call write handler, pass len data bytes",
    "WRITEUNTIL handler term call write handler, take data until term",
    "CHECKREAD handler       check if read handler is valid",
    "CHECKWRITE handler      check if write handler is valid",
    "AUTH token              show the token of a TCP port",
    "QUIT                    close connection",
];

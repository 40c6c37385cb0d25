//! The formatter: one layout for every configuration, comments kept.
//!
//! It works on the parser's tokens and what stands between them, so it cannot change what the text
//! means. The author's line breaks stay (at most one empty line in a row); blanks between tokens,
//! indentation and the blanks in configuration strings of one line are settled.

use std::iter::Peekable;
use std::vec::IntoIter;

use thruway_element::text::{self, Piece};

use crate::diagnostics::Diagnostics;
use crate::lexer::{Tok, Token};
use crate::parser;
use crate::source::{Source, SourceMap};

const INDENT: &str = "    ";

/// Formats a configuration, or says why it cannot be parsed.
pub fn format(source: &Source) -> Result<String, Diagnostics> {
    let mut sources = SourceMap::default();
    let index = sources.add(source.clone());
    let syntax = parser::parse(&source.text, index);
    if !syntax.errors.is_empty() {
        let mut diagnostics = Diagnostics::of(sources.into());
        syntax.errors.into_iter().for_each(|error| diagnostics.push(error));
        return Err(diagnostics);
    }
    let mut writer = Writer::default();
    let mut tokens = syntax.tokens.into_iter().peekable();
    let mut at = 0;
    while let Some(token) = tokens.next() {
        let range = token.span.range();
        let ends = matches!(token.kind, Tok::Char(';'));
        if !ends && syntax.starts.binary_search(&token.span.start).is_ok() {
            writer.within = false;
        }
        writer.between(&source.text[at..range.start]);
        at = range.end;
        writer.token(token, &source.text[range], &mut tokens);
    }
    writer.between(&source.text[at..]);
    Ok(writer.finish())
}

#[derive(Default)]
struct Writer {
    out: String,
    /// Line breaks asked for since the last token or comment.
    breaks: usize,
    /// Open braces and parentheses (those of configuration strings as `Config`).
    open: Vec<Tok>,
    /// A statement has begun, so that a further line of it is indented.
    within: bool,
    last: Option<Tok>,
    /// The last thing written was a comment to the end of the line or a line directive.
    must_break: bool,
    /// The next closing parenthesis closes a configuration string.
    in_config: bool,
}

impl Writer {
    /// Comments, line directives and line breaks between two tokens.
    fn between(&mut self, gap: &str) {
        let mut at = 0;
        while at < gap.len() {
            let byte = gap.as_bytes()[at];
            if text::is_space(byte) {
                let crlf = byte == b'\r' && gap.as_bytes().get(at + 1) == Some(&b'\n');
                self.breaks += usize::from(byte == b'\n' || byte == b'\r' && !crlf);
                at += 1;
            } else if byte == b'#' {
                let end = gap[at..].find(['\n', '\r']).map_or(gap.len(), |length| at + length);
                self.breaks = self.breaks.max(usize::from(!self.out.is_empty()));
                self.start_line(0);
                self.out.push_str(gap[at..end].trim_end());
                self.must_break = true;
                at = end;
            } else {
                let (_, end) = text::piece(gap, at);
                let comment = gap[at..end].trim_end();
                self.comment(comment);
                at = end;
            }
        }
    }

    fn comment(&mut self, comment: &str) {
        let depth = self.open.len() + usize::from(self.within);
        self.space(depth, true);
        self.out.push_str(comment);
        self.must_break = comment.starts_with("//");
        self.last = Some(Tok::Config);
    }

    /// Line breaks as asked for, else a blank if `blank`.
    fn space(&mut self, depth: usize, blank: bool) {
        if self.must_break {
            self.breaks = self.breaks.max(1);
        }
        if self.out.is_empty() {
            self.breaks = 0;
        } else if self.breaks > 0 {
            self.start_line(depth);
        } else if blank {
            self.out.push(' ');
        }
        self.must_break = false;
    }

    fn start_line(&mut self, depth: usize) {
        self.out.push_str(&"\n".repeat(self.breaks.min(2)));
        self.breaks = 0;
        self.out.push_str(&INDENT.repeat(depth));
        self.must_break = false;
    }

    fn token(&mut self, token: Token, text: &str, rest: &mut Peekable<IntoIter<Token>>) {
        let closes = matches!(token.kind, Tok::Char('}' | ')')) && self.last_open().is_some();
        match token.kind {
            Tok::Config => return self.config(text),
            Tok::Char(')') if std::mem::take(&mut self.in_config) => {
                self.out.push(')');
                self.last = Some(token.kind);
                return;
            }
            _ => {}
        }
        if closes {
            self.open.pop();
            self.within = false;
        }
        let config = rest.peek().is_some_and(|next| next.kind == Tok::Config);
        let bars = token.kind == Tok::Bars;
        let depth =
            (self.open.len() + usize::from(self.within && !bars)).saturating_sub(usize::from(bars));
        let blank = self.blank_before(token.kind, config);
        // Ports, commas and configuration strings stay on their line unless a comment ends it.
        if matches!(token.kind, Tok::Char(';' | ',')) || config {
            self.breaks = 0;
        }
        self.space(depth, blank);
        self.out.push_str(text);
        self.within = !matches!(token.kind, Tok::Char(';' | '{' | '|') | Tok::Bars);
        match token.kind {
            Tok::Char('{') => self.open.push(token.kind),
            Tok::Char('(') if !config => {
                self.open.push(token.kind);
                self.within = false;
            }
            Tok::Char('(') => self.open.push(Tok::Config),
            _ => {}
        }
        self.last = Some(token.kind);
    }

    /// The innermost brace or parenthesis that is open.
    fn last_open(&self) -> Option<Tok> {
        self.open.last().copied()
    }

    fn blank_before(&self, kind: Tok, config: bool) -> bool {
        let Some(last) = self.last else { return false };
        let opens = matches!(last, Tok::Char('[')) || last == Tok::Char('(');
        match kind {
            Tok::Char(';' | ',' | ']') => false,
            Tok::Char('[') => !matches!(last, Tok::Ident | Tok::Char(']')) && !opens,
            Tok::Char('(') if config => false,
            Tok::Char(')') => false,
            Tok::Ident if last == Tok::Char(']') => false,
            _ => !opens,
        }
    }

    /// A configuration string, after its parenthesis.
    fn config(&mut self, config: &str) {
        self.open.pop();
        self.in_config = true;
        self.breaks = 0;
        self.must_break = false;
        match config.contains(['\n', '\r']) {
            true => self.long_config(config),
            false => self.out.push_str(&short_config(config)),
        }
        self.last = Some(Tok::Config);
    }

    /// Lines of a long configuration string are indented, but for those that begin within quotes
    /// or comments.
    fn long_config(&mut self, config: &str) {
        let depth = self.open.len() + 1;
        let mut at = 0;
        while at < config.len() {
            let (kind, end) = text::piece(config, at);
            let byte = config.as_bytes()[at];
            if kind == Piece::Plain && matches!(byte, b'\n' | b'\r') {
                at = self.config_break(config, at, depth);
                continue;
            }
            match config.get(at..end) {
                Some(piece) => self.out.push_str(piece),
                None => {
                    // The beginning of a character of several bytes.
                    let c = config.get(at..).and_then(|rest| rest.chars().next());
                    self.out.extend(c);
                    at += c.map_or(1, char::len_utf8);
                    continue;
                }
            }
            at = end;
        }
    }

    /// Line breaks and blanks at `at`; returns the byte after them.
    fn config_break(&mut self, config: &str, at: usize, depth: usize) -> usize {
        let trimmed = self.out.trim_end_matches([' ', '\t']).len();
        self.out.truncate(trimmed);
        let rest = &config[at..];
        let blanks = rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
        let gap = &rest[..blanks];
        let breaks = gap.matches('\n').count().max(usize::from(!gap.contains('\n')));
        let end = at + blanks;
        let directive = config[end..].starts_with('#') && gap.ends_with(['\n', '\r']);
        self.out.push_str(&"\n".repeat(breaks.min(2)));
        if !directive {
            let last = end == config.len();
            self.out.push_str(&INDENT.repeat(if last { depth - 1 } else { depth }));
        }
        end
    }

    fn finish(mut self) -> String {
        let length = self.out.trim_end().len();
        self.out.truncate(length);
        if !self.out.is_empty() {
            self.out.push('\n');
        }
        self.out
    }
}

/// One line: blanks around commas settled.
fn short_config(config: &str) -> String {
    let mut pieces = Vec::new();
    let (mut start, mut at) = (0, 0);
    while at < config.len() {
        let (kind, end) = text::piece(config, at);
        if kind == Piece::Plain && config.as_bytes()[at] == b',' {
            pieces.push(config[start..at].trim_matches([' ', '\t']));
            start = end;
        }
        at = end;
    }
    pieces.push(config[start..].trim_matches([' ', '\t']));
    let mut out = pieces.join(", ");
    out.truncate(out.trim_end_matches(' ').len());
    out
}

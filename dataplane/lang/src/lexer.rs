//! Text to tokens. Configuration strings have rules of their own: the parser, which knows where
//! one begins, asks for it.

use thruway_element::text;

use crate::ast::Config;
use crate::source::Span;

/// Sort of token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tok {
    /// Element or class name, also a port number.
    Ident,
    /// `$name`.
    Variable,
    /// `->`
    Arrow,
    /// `=>`
    Many,
    /// `~>`
    Context,
    /// `::`
    Colons,
    /// `||`
    Bars,
    /// `...`
    Dots,
    /// `elementclass`
    ElementClass,
    /// `require`
    Require,
    /// `provide`
    Provide,
    /// `define`
    Define,
    /// A configuration string between its parentheses.
    Config,
    /// Any other character.
    Char(char),
    /// End of the text.
    End,
}

/// A token with its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    /// Sort.
    pub kind: Tok,
    /// Place.
    pub span: Span,
}

/// A line directive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineDirective {
    /// Beginning of the line after it.
    pub offset: usize,
    /// What that line is called.
    pub line: u32,
    /// File name; empty for the text's own, `None` if unchanged.
    pub name: Option<String>,
}

/// The lexer: a position in a text.
#[derive(Debug)]
pub struct Lexer<'a> {
    text: &'a str,
    source: u32,
    pos: usize,
    /// Line directives met.
    pub directives: Vec<LineDirective>,
    /// Lines that begin with `#` but are not line directives.
    pub malformed_directives: Vec<Span>,
    /// End of the last line directive: each counts once although text may be lexed twice.
    seen: usize,
}

impl<'a> Lexer<'a> {
    /// At the beginning of `text`, which has index `source`.
    pub fn new(text: &'a str, source: u32) -> Lexer<'a> {
        let (directives, malformed_directives) = (Vec::new(), Vec::new());
        Lexer { text, source, pos: 0, directives, malformed_directives, seen: 0 }
    }

    /// Where the next token is looked for.
    pub fn position(&self) -> usize {
        self.pos
    }

    /// Goes back (or forth) to `position`.
    pub fn seek(&mut self, position: usize) {
        self.pos = position;
    }

    /// A span of this text.
    pub fn span(&self, start: usize, end: usize) -> Span {
        Span { source: self.source, start: start as u32, end: end as u32 }
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    /// Passes over blanks, comments and line directives.
    fn skip_blanks(&mut self) {
        while let Some(byte) = self.byte(self.pos) {
            if text::is_space(byte) {
                self.pos += 1;
            } else if byte == b'/' && matches!(self.byte(self.pos + 1), Some(b'/' | b'*')) {
                self.pos = text::piece(self.text, self.pos).1;
            } else if byte == b'#' && self.at_line_start(self.pos) {
                self.pos = self.line_directive(self.pos);
            } else {
                return;
            }
        }
    }

    fn at_line_start(&self, at: usize) -> bool {
        at == 0 || matches!(self.byte(at - 1), Some(b'\n' | b'\r'))
    }

    /// `# LINE "FILE"` or `#line LINE "FILE"` at `at`; returns the beginning of the next line.
    fn line_directive(&mut self, at: usize) -> usize {
        let rest = &self.text[at..];
        let length = rest.find(['\n', '\r']).unwrap_or(rest.len());
        let crlf = rest[length..].starts_with("\r\n");
        let next = (at + length + 1 + usize::from(crlf)).min(self.text.len());
        if at >= self.seen {
            self.seen = next;
            match parse_directive(&rest[..length]) {
                Some((line, name)) => {
                    self.directives.push(LineDirective { offset: next, line, name });
                }
                None => self.malformed_directives.push(self.span(at, at + length)),
            }
        }
        next
    }

    /// The next token.
    pub fn token(&mut self) -> Token {
        self.skip_blanks();
        let start = self.pos;
        let Some(byte) = self.byte(start) else {
            return Token { kind: Tok::End, span: self.span(start, start) };
        };
        let kind = match byte {
            byte if is_word(byte) => self.word(),
            b'$' if self.byte(start + 1).is_some_and(is_variable) => {
                self.pos += 1;
                self.pass_while(is_variable);
                Tok::Variable
            }
            _ => self.symbol(),
        };
        Token { kind, span: self.span(start, self.pos) }
    }

    fn pass_while(&mut self, wanted: fn(u8) -> bool) {
        while self.byte(self.pos).is_some_and(wanted) {
            self.pos += 1;
        }
    }

    /// Letters, digits, `_`, `@`, and single slashes within.
    fn word(&mut self) -> Tok {
        let start = self.pos;
        self.pass_while(is_word);
        while self.byte(self.pos) == Some(b'/') && self.byte(self.pos + 1).is_some_and(is_word) {
            self.pos += 1;
            self.pass_while(is_word);
        }
        match &self.text[start..self.pos] {
            "elementclass" => Tok::ElementClass,
            "require" => Tok::Require,
            "provide" => Tok::Provide,
            "define" => Tok::Define,
            _ => Tok::Ident,
        }
    }

    fn symbol(&mut self) -> Tok {
        const SYMBOLS: [(&str, Tok); 6] = [
            ("->", Tok::Arrow),
            ("=>", Tok::Many),
            ("~>", Tok::Context),
            ("::", Tok::Colons),
            ("||", Tok::Bars),
            ("...", Tok::Dots),
        ];
        let rest = &self.text[self.pos..];
        if let Some((text, kind)) = SYMBOLS.iter().find(|(text, _)| rest.starts_with(text)) {
            self.pos += text.len();
            return *kind;
        }
        let c = rest.chars().next().unwrap_or('\0');
        self.pos += c.len_utf8();
        Tok::Char(c)
    }

    /// The configuration string that begins here, just after its `(`; stops before its `)` (or at
    /// the end of the text).
    pub fn config(&mut self) -> Config {
        let start = self.pos;
        let mut holes = Vec::new();
        let mut depth = 1usize;
        while let Some(byte) = self.byte(self.pos) {
            match byte {
                b'(' => depth += 1,
                b')' if depth == 1 => break,
                b')' => depth -= 1,
                b'#' if self.at_line_start(self.pos) => {
                    let next = self.line_directive(self.pos);
                    holes.push(self.span(self.pos, next));
                    self.pos = next;
                    continue;
                }
                _ => {}
            }
            self.pos = text::piece(self.text, self.pos).1;
        }
        Config { span: self.span(start, self.pos), holes }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'@'
}

/// Whether a byte can be part of a variable's name.
pub fn is_variable(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn parse_directive(line: &str) -> Option<(u32, Option<String>)> {
    let rest = line.strip_prefix('#')?.trim_start_matches([' ', '\t']);
    let rest = match rest.strip_prefix("line") {
        Some(rest) => rest.trim_start_matches([' ', '\t']),
        None => rest,
    };
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let number = rest[..digits].parse().ok()?;
    let rest = rest[digits..].trim_start_matches([' ', '\t']);
    let name = rest.starts_with('"').then(|| {
        let end = text::piece(rest, 0).1;
        text::unquote_text(&rest[..end])
    });
    Some((number, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Tok> {
        let mut lexer = Lexer::new(text, 0);
        std::iter::from_fn(|| Some(lexer.token().kind))
            .take_while(|kind| *kind != Tok::End)
            .collect()
    }

    #[test]
    fn tokens() {
        use Tok::*;
        assert_eq!(
            kinds("a->b=>c~>d::E||..."),
            [Ident, Arrow, Ident, Many, Ident, Context, Ident, Colons, Ident, Bars, Dots]
        );
        assert_eq!(
            kinds("elementclass require provide define elementclassy $x $"),
            [ElementClass, Require, Provide, Define, Ident, Variable, Char('$')]
        );
        assert_eq!(kinds("[0,1] é"), [Char('['), Ident, Char(','), Ident, Char(']'), Char('é')]);
    }

    #[test]
    fn words_have_single_slashes_and_end_at_comments() {
        let mut lexer = Lexer::new("an/id/with//too/many\n/* x */b@1/", 0);
        assert_eq!(lexer.token().span, lexer.span(0, 10));
        assert_eq!(lexer.token().span, lexer.span(28, 31));
        assert_eq!(lexer.token().kind, Tok::Char('/'));
    }

    #[test]
    fn configuration_strings_balance() {
        let config = |text: &str| {
            let mut lexer = Lexer::new(text, 0);
            text[lexer.config().span.range()].to_string()
        };
        assert_eq!(config("a (b) c) d"), "a (b) c");
        assert_eq!(config("\")\" ')' \\<)> /* ) */ // )\n) x"), "\")\" ')' \\<)> /* ) */ // )\n");
        assert_eq!(config("open"), "open");
    }

    #[test]
    fn line_directives() {
        let mut lexer = Lexer::new("# 7 \"f\"\na\n#line 3\n#bad\n", 0);
        lexer.token();
        lexer.seek(0);
        while lexer.token().kind != Tok::End {}
        assert_eq!(lexer.directives.len(), 2);
        assert_eq!((lexer.directives[0].line, lexer.directives[0].name.as_deref()), (7, Some("f")));
        assert_eq!((lexer.directives[1].line, lexer.directives[1].offset), (3, 18));
        assert_eq!(lexer.malformed_directives.len(), 1);
    }
}

//! Tokens to the syntax tree. After an error the parser goes on at the next `;`, or at the end of
//! the braces or parentheses it is in.

use crate::ast::*;
use crate::diagnostics::Diagnostic;
use crate::lexer::{Lexer, LineDirective, Tok, Token};
use crate::source::Span;

/// How deep compound elements and groups may nest in the text.
pub const MAX_NESTING: usize = 64;
/// Most tokens of a text; a configuration string is one.
pub const MAX_TOKENS: usize = 500_000;
/// Highest port number plus one.
pub const MAX_PORTS: u32 = 1024;

/// What the parser hands on.
#[derive(Debug)]
pub struct Syntax {
    /// The statements of the file.
    pub body: Body,
    /// Every token, in order (what the formatter works on).
    pub tokens: Vec<Token>,
    /// Where statements begin, in order.
    pub starts: Vec<u32>,
    /// Line directives.
    pub directives: Vec<LineDirective>,
    /// Syntax errors.
    pub errors: Vec<Diagnostic>,
}

/// Parses the text with index `source`.
pub fn parse(text: &str, source: u32) -> Syntax {
    let mut parser = Parser {
        lexer: Lexer::new(text, source),
        text,
        tokens: Vec::new(),
        starts: Vec::new(),
        errors: Vec::new(),
        depth: 0,
    };
    let mut body = Body::default();
    loop {
        body.statements.extend(parser.body().statements);
        let token = parser.peek();
        if token.kind == Tok::End {
            break;
        }
        parser.unexpected(token);
        parser.bump();
    }
    for span in std::mem::take(&mut parser.lexer.malformed_directives) {
        parser.errors.push(Diagnostic::error(span, "unknown preprocessor directive"));
    }
    Syntax {
        body,
        tokens: parser.tokens,
        starts: parser.starts,
        directives: parser.lexer.directives,
        errors: parser.errors,
    }
}

/// The statement has a syntax error, which was reported.
struct Broken;

type Parsed<T> = Result<T, Broken>;

struct Parser<'a> {
    lexer: Lexer<'a>,
    text: &'a str,
    tokens: Vec<Token>,
    starts: Vec<u32>,
    errors: Vec<Diagnostic>,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&mut self) -> Token {
        let position = self.lexer.position();
        let token = self.lexer.token();
        self.lexer.seek(position);
        token
    }

    fn bump(&mut self) -> Token {
        let token = self.lexer.token();
        if self.tokens.len() == MAX_TOKENS && token.kind != Tok::End {
            let message = format!("more than {MAX_TOKENS} words and signs");
            self.errors.push(Diagnostic::error(token.span, message));
            self.lexer.seek(self.text.len());
        } else if token.kind != Tok::End {
            self.tokens.push(token);
        }
        token
    }

    fn at(&mut self, kind: Tok) -> bool {
        self.peek().kind == kind
    }

    fn accept(&mut self, kind: Tok) -> Option<Token> {
        self.at(kind).then(|| self.bump())
    }

    fn expect(&mut self, kind: Tok, what: &str) -> Parsed<Token> {
        match self.accept(kind) {
            Some(token) => Ok(token),
            None => {
                let token = self.peek();
                self.errors.push(Diagnostic::error(token.span, format!("expected {what}")));
                Err(Broken)
            }
        }
    }

    fn name_of(&self, token: Token) -> Name {
        Name { text: self.text[token.span.range()].to_string(), span: token.span }
    }

    fn unexpected(&mut self, token: Token) -> Broken {
        let message = match token.kind {
            Tok::End => "syntax error at the end of the text".to_string(),
            _ => format!("syntax error near '{}'", &self.text[token.span.range()]),
        };
        self.errors.push(Diagnostic::error(token.span, message));
        Broken
    }

    /// Passes over the rest of a broken statement.
    fn recover(&mut self) {
        let mut braces = 0usize;
        loop {
            match self.peek().kind {
                Tok::End => return,
                Tok::Char(';') if braces == 0 => {
                    self.bump();
                    return;
                }
                Tok::Char('}') | Tok::Bars | Tok::Char(')') if braces == 0 && self.depth > 0 => {
                    return;
                }
                Tok::Char('{') => braces += 1,
                Tok::Char('}') => braces = braces.saturating_sub(1),
                Tok::Char('(') => {
                    self.bump();
                    self.lexer.config();
                }
                _ => {}
            }
            self.bump();
        }
    }

    /// Statements up to something that is not the beginning of one.
    fn body(&mut self) -> Body {
        let mut body = Body::default();
        loop {
            let token = self.peek();
            self.starts.push(token.span.start);
            let statement = match token.kind {
                Tok::Char(';') => {
                    self.bump();
                    continue;
                }
                Tok::Ident | Tok::Char('[' | '{' | '(') | Tok::Arrow | Tok::Many | Tok::Context => {
                    self.chain().map(Statement::Chain)
                }
                Tok::ElementClass => self.class_decl().map(Statement::Class),
                Tok::Require => self.keyword_config().map(Statement::Require),
                Tok::Provide => self.keyword_config().map(Statement::Provide),
                Tok::Define => self.keyword_config().map(Statement::Define),
                Tok::End | Tok::Bars | Tok::Char('}' | ')') => return body,
                _ => Err(self.unexpected(token)),
            };
            match statement {
                Ok(statement) => body.statements.push(statement),
                Err(Broken) => self.recover(),
            }
        }
    }

    /// Runs `inner` one level deeper, unless that is too deep.
    fn nested<T>(&mut self, open: Span, inner: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth == MAX_NESTING {
            let message = format!("compound elements and groups nest deeper than {MAX_NESTING}");
            self.errors.push(Diagnostic::error(open, message));
            self.lexer.seek(self.text.len());
            return Err(Broken);
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    fn keyword_config(&mut self) -> Parsed<Config> {
        self.bump();
        let open = self.peek().span;
        if !self.at(Tok::Char('(')) {
            self.expect(Tok::Char('('), "'('")?;
        }
        self.config(open)
    }

    /// `( ... )`, the opening parenthesis being next.
    fn config(&mut self, open: Span) -> Parsed<Config> {
        self.bump();
        let config = self.lexer.config();
        self.tokens.push(Token { kind: Tok::Config, span: config.span });
        if self.accept(Tok::Char(')')).is_none() {
            self.errors.push(Diagnostic::error(open, "expected ')'").label("opened here"));
            return Err(Broken);
        }
        Ok(config)
    }

    fn chain(&mut self) -> Parsed<Chain> {
        let mut links = Vec::new();
        let mut connector = None;
        loop {
            let items = self.list(links.is_empty())?;
            links.push(Link { connector, items });
            let token = self.peek();
            let kind = match token.kind {
                Tok::Arrow => ConnectorKind::Arrow,
                Tok::Many => ConnectorKind::Many,
                Tok::Context => ConnectorKind::Context,
                Tok::Colons => return Err(self.unexpected(token)),
                _ => break,
            };
            self.bump();
            connector = Some(Connector { kind, span: token.span });
        }
        Ok(Chain { links })
    }

    /// Items with commas between; a comma behind the last one is allowed.
    fn list(&mut self, first: bool) -> Parsed<Vec<Item>> {
        let mut items = Vec::new();
        loop {
            match self.item(first, items.is_empty())? {
                Some(item) => items.push(item),
                None => return Ok(items),
            }
            if self.accept(Tok::Char(',')).is_none() {
                return Ok(items);
            }
        }
    }

    /// One item; none after a last comma.
    fn item(&mut self, first_list: bool, first_item: bool) -> Parsed<Option<Item>> {
        let before = self.ports()?;
        let token = self.peek();
        let what = match token.kind {
            Tok::Ident => {
                self.bump();
                What::Name(self.name_of(token))
            }
            Tok::Char('{') => What::Compound(self.compound()?),
            Tok::Char('(') => What::Group(self.group()?),
            kind => {
                let listed = before.is_some() || first_item;
                let implicit = self.depth > 0
                    && match kind {
                        Tok::Arrow | Tok::Many | Tok::Context => first_list && listed,
                        Tok::Char(',') => before.is_some(),
                        Tok::Colons | Tok::End => false,
                        _ => !first_list && listed,
                    };
                if implicit {
                    let span = before.as_ref().map_or(token.span, |ports| ports.span);
                    return Ok(Some(implicit_item(before, first_list, span)));
                }
                return if listed { Err(self.unexpected(token)) } else { Ok(None) };
            }
        };
        let class = match self.accept(Tok::Colons) {
            Some(_) => Some(self.class_ref()?),
            None => None,
        };
        let config = match self.at(Tok::Char('(')) {
            true => Some(self.config(token.span)?),
            false => None,
        };
        let end = self.tokens.last().map_or(token.span, |last| last.span);
        let after = self.ports()?;
        Ok(Some(Item { before, what, class, config, after, span: token.span.to(end) }))
    }

    fn class_ref(&mut self) -> Parsed<ClassRef> {
        let token = self.peek();
        match token.kind {
            Tok::Ident => {
                self.bump();
                Ok(ClassRef::Name(self.name_of(token)))
            }
            Tok::Char('{') => Ok(ClassRef::Compound(self.compound()?)),
            _ => {
                let message = "missing element class in declaration";
                self.errors.push(Diagnostic::error(token.span, message));
                Err(Broken)
            }
        }
    }

    /// `[PORTS]`, if there is one.
    fn ports(&mut self) -> Parsed<Option<PortList>> {
        let Some(open) = self.accept(Tok::Char('[')) else { return Ok(None) };
        let mut list = PortList { ports: Vec::new(), grows: false, span: open.span };
        loop {
            if let Some(close) = self.accept(Tok::Char(']')) {
                list.grows = true;
                if list.ports.is_empty() {
                    list.ports.push(0);
                }
                list.span = open.span.to(close.span);
                return Ok(Some(list));
            }
            self.port_range(&mut list.ports)?;
            if let Some(close) = self.accept(Tok::Char(']')) {
                list.span = open.span.to(close.span);
                return Ok(Some(list));
            }
            self.expect(Tok::Char(','), "',' or ']'")?;
        }
    }

    /// A port, or FastClick's `first-last`.
    fn port_range(&mut self, ports: &mut Vec<u32>) -> Parsed<()> {
        let token = self.expect(Tok::Ident, "port number")?;
        let first = self.port_number(token)?;
        let mut last = first;
        let mut span = token.span;
        if self.accept(Tok::Char('-')).is_some() {
            let token = self.expect(Tok::Ident, "last port number of the range")?;
            last = self.port_number(token)?;
            span = span.to(token.span);
        }
        let count = (last + 1).saturating_sub(first) as usize;
        if count == 0 || ports.len() + count > MAX_PORTS as usize {
            let message = match count {
                0 => format!("empty port range; write [{last}-{first}]"),
                _ => format!("more than {MAX_PORTS} ports in one list"),
            };
            self.errors.push(Diagnostic::error(span, message));
            return Err(Broken);
        }
        ports.extend(first..=last);
        Ok(())
    }

    fn port_number(&mut self, token: Token) -> Parsed<u32> {
        let text = &self.text[token.span.range()];
        let message = match text.parse::<u32>() {
            Ok(port) if port < MAX_PORTS => return Ok(port),
            Ok(_) => format!("port number {text} is too large (at most {})", MAX_PORTS - 1),
            Err(_) => "syntax error: port number should be integer".to_string(),
        };
        self.errors.push(Diagnostic::error(token.span, message));
        Err(Broken)
    }

    fn group(&mut self) -> Parsed<Body> {
        let open = self.bump().span;
        self.nested(open, |parser| {
            let body = parser.body();
            parser.close(open, Tok::Char(')'), "')'")?;
            Ok(body)
        })
    }

    fn close(&mut self, open: Span, kind: Tok, what: &str) -> Parsed<Token> {
        if let Some(token) = self.accept(kind) {
            return Ok(token);
        }
        let span = self.peek().span;
        let error = Diagnostic::error(span, format!("expected {what}"));
        self.errors.push(error.note_at(open, "opened here"));
        Err(Broken)
    }

    fn compound(&mut self) -> Parsed<Compound> {
        let open = self.bump().span;
        self.nested(open, |parser| parser.overloads(open))
    }

    fn overloads(&mut self, open: Span) -> Parsed<Compound> {
        let mut compound = Compound { overloads: Vec::new(), extends: None, span: open };
        loop {
            if let Some(dots) = self.accept(Tok::Dots) {
                compound.extends = Some(dots.span);
                if compound.overloads.is_empty() || !self.at(Tok::Char('}')) {
                    let message = "'...' should occur last, after one or more compounds";
                    self.errors.push(Diagnostic::error(dots.span, message));
                }
            } else {
                let span = self.peek().span;
                let formals = self.formals()?;
                let body = self.body();
                compound.overloads.push(Overload { formals, body, span });
            }
            if self.accept(Tok::Bars).is_none() {
                let close = self.close(open, Tok::Char('}'), "'}'")?;
                compound.span = open.to(close.span);
                return Ok(compound);
            }
        }
    }

    /// `$a, KEYWORD $b, __REST__ $c |`, or `|`, or nothing.
    fn formals(&mut self) -> Parsed<Vec<Formal>> {
        let mut formals = Vec::new();
        if self.accept(Tok::Char('|')).is_some() || !self.at_formal() {
            return Ok(formals);
        }
        loop {
            let keyword = self.accept(Tok::Ident).map(|token| self.name_of(token));
            let variable = self.expect(Tok::Variable, "variable")?;
            let span = keyword.as_ref().map_or(variable.span, |word| word.span.to(variable.span));
            formals.push(Formal {
                keyword: keyword.map_or(String::new(), |word| word.text),
                variable: self.text[variable.span.range()][1..].to_string(),
                span,
            });
            if self.accept(Tok::Char('|')).is_some() {
                return Ok(formals);
            }
            self.expect(Tok::Char(','), "',' or '|'")?;
        }
    }

    fn at_formal(&mut self) -> bool {
        let position = self.lexer.position();
        let first = self.lexer.token().kind;
        let second = self.lexer.token().kind;
        self.lexer.seek(position);
        first == Tok::Variable || first == Tok::Ident && second == Tok::Variable
    }

    fn class_decl(&mut self) -> Parsed<ClassDecl> {
        self.bump();
        let token = self.expect(Tok::Ident, "element class name")?;
        let name = self.name_of(token);
        Ok(ClassDecl { name, value: self.class_ref()? })
    }
}

/// Ports without an element: those of `input` at the beginning of a chain, else of `output`.
fn implicit_item(ports: Option<PortList>, first_list: bool, span: Span) -> Item {
    let (text, before, after) =
        if first_list { ("input", None, ports) } else { ("output", ports, None) };
    let what = What::Name(Name { text: text.to_string(), span });
    Item { before, what, class: None, config: None, after, span }
}

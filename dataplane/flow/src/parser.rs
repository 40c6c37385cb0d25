//! The grammar of IP expressions: ternary, or, and (also by juxtaposition), not, parentheses,
//! tests.

use crate::ast::Expr;
use crate::error::RuleError;
use crate::lexer::Token;
use crate::lower::{Data, Direction, Field, Header, Kind, Op, Primitive};
use crate::names::{
    ICMP_TYPES, Names, PORTS, PROTO_TCP_OR_UDP, PROTOS, TCP_FLAGS, find, suggestion,
};
use std::ops::Range;

/// Deepest nesting of parentheses and ternaries that a rule may have.
pub const DEPTH_MAX: usize = 64;

type Parsed<T> = Result<T, RuleError>;

/// A parser over the tokens of one rule.
pub(crate) struct Parser<'a> {
    words: &'a [Token<'a>],
    end: usize,
    pos: usize,
    depth: usize,
    names: &'a dyn Names,
    /// The test before this one: its parts need not be repeated (`port 80 or 81`).
    previous: Primitive,
    warnings: Vec<String>,
}

impl<'a> Parser<'a> {
    pub(crate) fn new(words: &'a [Token<'a>], end: usize, names: &'a dyn Names) -> Parser<'a> {
        let previous = Primitive::default();
        Parser { words, end, pos: 0, depth: 0, names, previous, warnings: Vec::new() }
    }

    /// Parses the whole rule.
    pub(crate) fn parse(mut self) -> Parsed<(Expr, Vec<String>)> {
        let expr = self.expression()?;
        if let Some(word) = self.peek() {
            return Err(self.unexpected(word, "the end of the rule"));
        }
        Ok((expr, self.warnings))
    }

    fn peek(&self) -> Option<&'a str> {
        self.peek_at(0)
    }

    fn peek_at(&self, ahead: usize) -> Option<&'a str> {
        self.words.get(self.pos + ahead).map(|t| t.text)
    }

    fn span(&self) -> Range<usize> {
        self.words.get(self.pos).map_or(self.end..self.end, |t| t.span.clone())
    }

    fn span_from(&self, first: usize) -> Range<usize> {
        let start = self.words.get(first).map_or(self.end, |t| t.span.start);
        let last = self.words.get(self.pos.saturating_sub(1)).map_or(self.end, |t| t.span.end);
        start..last.max(start)
    }

    fn accept(&mut self, options: &[&str]) -> bool {
        let found = self.peek().is_some_and(|w| options.contains(&w));
        self.pos += usize::from(found);
        found
    }

    fn unexpected(&self, word: &str, expected: &str) -> RuleError {
        let near = match word {
            "|" => Some("||".to_owned()),
            _ => suggestion(word).filter(|s| s != word),
        };
        let message = format!("expected {expected}, found '{word}'");
        RuleError::new(self.span(), message).suggest(near)
    }

    fn expected(&self, expected: &str) -> RuleError {
        match self.peek() {
            Some(word) => self.unexpected(word, expected),
            None => {
                RuleError::new(self.span(), format!("expected {expected}, found the rule's end"))
            }
        }
    }

    /// `or ? expression : or ? expression : ... : or`
    fn expression(&mut self) -> Parsed<Expr> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            let message = format!("more than {DEPTH_MAX} levels of nesting: simplify the rule");
            return Err(RuleError::new(self.span(), message));
        }
        let mut cases = Vec::new();
        let mut last = self.disjunction()?;
        while self.accept(&["?"]) {
            let then = self.expression()?;
            if !self.accept(&[":"]) {
                return Err(self.expected("' : ' of a ternary expression"));
            }
            cases.push((last, then));
            last = self.disjunction()?;
        }
        self.depth -= 1;
        Ok(if cases.is_empty() { last } else { Expr::Choice(cases, Box::new(last)) })
    }

    fn disjunction(&mut self) -> Parsed<Expr> {
        let mut list = vec![self.conjunction()?];
        while self.accept(&["or", "||"]) {
            list.push(self.conjunction()?);
        }
        Ok(Expr::any(list))
    }

    fn conjunction(&mut self) -> Parsed<Expr> {
        let mut list = vec![self.factor()?];
        loop {
            // A lone `&` that is no mask can only mean "and"; Click asks for `&&` there.
            let explicit = self.accept(&["and", "&&", "&"]);
            if !explicit && self.peek().is_none_or(|w| matches!(w, ")" | "or" | "||" | "?" | ":")) {
                return Ok(Expr::all(list));
            }
            list.push(self.factor()?);
        }
    }

    fn factor(&mut self) -> Parsed<Expr> {
        let mut negated = false;
        while self.accept(&["not", "!"]) {
            negated = !negated;
        }
        if self.accept(&["("]) {
            let inner = self.expression()?;
            if !self.accept(&[")"]) {
                return Err(self.expected("')'"));
            }
            return Ok(inner.negated_if(negated));
        }
        if self.accept(&["true"]) {
            return Ok(Expr::Const(!negated));
        }
        if self.accept(&["false"]) {
            return Ok(Expr::Const(negated));
        }
        self.test(negated)
    }

    /// `qualifiers [brackets] [& mask] [operator] [data]`
    fn test(&mut self, mut negated: bool) -> Parsed<Expr> {
        let first = self.pos;
        let mut prim = Primitive::default();
        while self.qualifier(&mut prim, &mut negated)? {}
        let qualified = self.pos > first;
        if qualified {
            self.previous = Primitive::default();
            if prim.kind == Kind::None && self.peek() == Some("[") {
                self.brackets(&mut prim)?;
            }
        }
        self.mask(&mut prim)?;
        let operator = self.operator(&mut prim);
        self.data(&mut prim)?;
        if operator && prim.data == Data::None {
            return Err(self.expected("a value after the operator"));
        }
        if self.pos == first {
            return Err(self.expected("a test such as 'src host 10.0.0.1' or 'tcp'"));
        }
        let completed = prim.inherit(&self.previous);
        let expr = completed
            .and_then(|()| prim.lower(&mut self.warnings))
            .map_err(|m| self.incomplete(&prim, m, first))?;
        self.previous = prim;
        Ok(expr.negated_if(negated))
    }

    /// An error about a test; if its value is missing and a strange word stands there, about that.
    fn incomplete(&self, prim: &Primitive, message: String, first: usize) -> RuleError {
        match self.peek().filter(|w| prim.data == Data::None && is_strange(w)) {
            Some(word) => self.unexpected(word, "a field or a value"),
            None => RuleError::new(self.span_from(first), message),
        }
    }

    fn qualifier(&mut self, prim: &mut Primitive, negated: &mut bool) -> Parsed<bool> {
        let Some(word) = self.peek() else { return Ok(false) };
        let result = if let Some((kind, proto)) = kind_of(word) {
            prim.set_kind(kind).and_then(|()| proto.map_or(Ok(()), |p| prim.set_proto(p)))
        } else if let Some(proto) = find(PROTOS, word) {
            prim.set_proto(proto)
        } else {
            match word {
                "src" => prim.set_direction(self.source()),
                "dst" | "dest" => prim.set_direction(Direction::Dst),
                "ip" => prim.set_header(Header::Ip),
                "ether" => prim.set_header(Header::Ether),
                "not" | "!" => {
                    *negated = !*negated;
                    Ok(())
                }
                _ => return Ok(false),
            }
        };
        result.map_err(|m| RuleError::new(self.span(), m))?;
        self.pos += 1;
        Ok(true)
    }

    /// `src`, `src or dst`, `src and dst`; leaves the position at the last word.
    fn source(&mut self) -> Direction {
        if !matches!(self.peek_at(2), Some("dst" | "dest")) {
            return Direction::Src;
        }
        let direction = match self.peek_at(1) {
            Some("and" | "&&") => Direction::Both,
            Some("or" | "||") => Direction::Either,
            _ => return Direction::Src,
        };
        self.pos += 2;
        direction
    }

    /// `[POS]`, `[POS:LEN]` or `[FIRST,LAST]`
    fn brackets(&mut self, prim: &mut Primitive) -> Parsed<()> {
        let first = self.pos;
        self.pos += 1;
        let mut inner = String::new();
        while let Some(word) = self.peek().filter(|w| *w != "]") {
            inner.push_str(word);
            self.pos += 1;
        }
        if !self.accept(&["]"]) {
            return Err(self.expected("']'"));
        }
        let wrong = |m: &str| RuleError::new(self.span_from(first), m);
        let (at, len) = field_range(&inner)
            .ok_or_else(|| wrong("expected '[POS]', '[POS:LEN]' or '[FIRST,LAST]'"))?;
        if !(1..=4).contains(&len) {
            return Err(wrong("a field has 1 to 4 bytes"));
        }
        if at > 8191 {
            return Err(wrong("a field begins at byte 8191 at most"));
        }
        if at / 4 != (at + len - 1) / 4 {
            return Err(wrong("a field must lie within one aligned word of four bytes"));
        }
        let field = Field { proto: prim.proto, bit: at * 8, bits: len * 8 };
        prim.kind = Kind::Field(field);
        Ok(())
    }

    fn mask(&mut self, prim: &mut Primitive) -> Parsed<()> {
        if self.peek() != Some("&") {
            return Ok(());
        }
        let word = self.peek_at(1).unwrap_or("");
        let Some(mask) = integer(word).or_else(|| address(word)) else {
            return Ok(());
        };
        if mask == 0 {
            return Err(RuleError::new(self.span(), "a mask of 0 looks at nothing"));
        }
        prim.mask = Some(mask);
        self.pos += 2;
        Ok(())
    }

    fn operator(&mut self, prim: &mut Primitive) -> bool {
        let (op, negated) = match self.peek() {
            Some("=" | "==") => (Op::Equal, false),
            Some("!=") => (Op::Equal, true),
            Some(">") => (Op::Greater, false),
            Some("<=") => (Op::Greater, true),
            Some("<") => (Op::Less, false),
            Some(">=") => (Op::Less, true),
            _ => return false,
        };
        prim.op = op;
        prim.op_negated = negated;
        self.pos += 1;
        true
    }

    fn data(&mut self, prim: &mut Primitive) -> Parsed<()> {
        let Some(word) = self.peek() else { return Ok(()) };
        if is_connective(word) {
            return Ok(());
        }
        let data = match self.named(prim, word)? {
            Some(named) => named,
            None => self.literal(prim, word),
        };
        if data == Data::None {
            return Ok(());
        }
        self.pos += 1;
        prim.data = data;
        if let (Data::Address(a), Some("mask")) = (data, self.peek())
            && let Some(mask) = self.peek_at(1).and_then(|w| self.address(w))
        {
            prim.data = Data::Prefix(a, mask);
            self.pos += 2;
        }
        Ok(())
    }

    /// A value given by name, read as the test permits.
    fn named(&self, prim: &Primitive, word: &str) -> Parsed<Option<Data>> {
        let free = prim.kind == Kind::None;
        let transport =
            |p: u16| prim.proto.is_none_or(|q| q == p || (p != 1 && q == PROTO_TCP_OR_UDP));
        let port = find(PORTS, word).or_else(|| self.names.port(word));
        let readings = [
            ("ip proto", find(PROTOS, word), free || prim.kind == Kind::Proto, Kind::Proto),
            ("port", port, (free || prim.kind == Kind::Port) && prim.proto != Some(1), Kind::Port),
            (
                "tcp opt",
                find(TCP_FLAGS, word),
                (free || prim.kind == Kind::TcpFlags) && transport(6),
                Kind::TcpFlags,
            ),
            (
                "icmp type",
                find(ICMP_TYPES, word),
                (free || prim.kind == Kind::Field(Field::ICMP_TYPE)) && transport(1),
                Kind::Field(Field::ICMP_TYPE),
            ),
        ];
        let known: Vec<_> = readings.iter().filter_map(|r| r.1.map(|v| (r, v))).collect();
        let fits: Vec<_> = known.iter().filter(|(r, _)| r.2).collect();
        match (known.as_slice(), fits.as_slice()) {
            ([], _) => Ok(None),
            (_, [(r, value)]) => Ok(Some(Data::Named(r.3, u32::from(*value)))),
            _ => {
                let what = if fits.is_empty() { "has no meaning here" } else { "is ambiguous" };
                let tries: Vec<_> =
                    known.iter().map(|(r, _)| format!("'{} {word}'", r.0)).collect();
                let message = format!("'{word}' {what}; try {}", tries.join(" or "));
                Err(RuleError::new(self.span(), message))
            }
        }
    }

    fn address(&self, word: &str) -> Option<u32> {
        address(word).or_else(|| self.names.address(word))
    }

    fn literal(&self, prim: &Primitive, word: &str) -> Data {
        if let Some(value) = integer(word) {
            return Data::Int(value);
        }
        if let Some((a, b)) = word.split_once('-')
            && let (Some(a), Some(b)) = (integer(a), integer(b))
        {
            return Data::Range(a, b);
        }
        if prim.header != Header::Ether {
            let net = prim.kind == Kind::Net;
            let by_name = self.names.prefix(word);
            if let Some((a, m)) = prefix(word).or(by_name.filter(|_| net)) {
                return Data::Prefix(a, m);
            }
            if let Some(a) = self.address(word) {
                return Data::Address(a);
            }
            if let Some((a, m)) = by_name {
                return Data::Prefix(a, m);
            }
        }
        let ether = (prim.header != Header::Ip)
            .then(|| ether_address(word).or_else(|| self.names.ether(word)));
        ether.flatten().map_or(Data::None, Data::Ether)
    }
}

fn is_connective(word: &str) -> bool {
    matches!(word, "and" | "&&" | "&" | "or" | "||" | ")" | "?" | ":" | "(" | "not" | "!")
}

fn is_strange(word: &str) -> bool {
    !is_connective(word) && kind_of(word).is_none()
}

/// Words that name the field of a test, and the protocol that they imply.
fn kind_of(word: &str) -> Option<(Kind, Option<u16>)> {
    let plain = |bit, bits| Some((Kind::Field(Field { proto: None, bit, bits }), None));
    match word {
        "ce" => Some((Kind::Ce, None)),
        "dscp" => plain(8, 6),
        "ect" => Some((Kind::Ect, None)),
        "frag" => Some((Kind::Frag, None)),
        "hl" => plain(4, 4),
        "host" => Some((Kind::Host, None)),
        "id" => plain(32, 16),
        "len" => plain(16, 16),
        "net" => Some((Kind::Net, None)),
        "opt" => Some((Kind::TcpFlags, None)),
        "port" => Some((Kind::Port, None)),
        "proto" => Some((Kind::Proto, None)),
        "tos" => plain(8, 8),
        "ttl" => plain(64, 8),
        "type" => Some((Kind::Field(Field::ICMP_TYPE), Some(1))),
        "unfrag" => Some((Kind::Unfrag, None)),
        "vers" => plain(0, 4),
        "win" => Some((Kind::Field(Field { proto: Some(6), bit: 14 * 8, bits: 16 }), Some(6))),
        _ => None,
    }
}

fn field_range(inner: &str) -> Option<(u32, u32)> {
    if let Some((at, len)) = inner.split_once(':') {
        return Some((integer(at)?, integer(len)?));
    }
    if let Some((first, last)) = inner.split_once(',') {
        let (first, last) = (integer(first)?, integer(last)?);
        return Some((first, last.checked_sub(first)?.checked_add(1)?));
    }
    Some((integer(inner)?, 1))
}

/// Decimal, `0x` hexadecimal, or `0` octal.
fn integer(word: &str) -> Option<u32> {
    let (digits, radix) = match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        Some(hex) => (hex, 16),
        None if word.len() > 1 && word.starts_with('0') => (&word[1..], 8),
        None => (word, 10),
    };
    u32::from_str_radix(digits, radix).ok()
}

fn octets(word: &str) -> Option<Vec<u8>> {
    word.split('.').map(|p| p.parse().ok()).collect::<Option<Vec<u8>>>().filter(|v| v.len() <= 4)
}

fn address(word: &str) -> Option<u32> {
    let four: [u8; 4] = octets(word)?.try_into().ok()?;
    Some(u32::from_be_bytes(four))
}

/// `a.b.c.d/len`, `a.b.c.d/mask`; trailing zero bytes of the address may be left out.
fn prefix(word: &str) -> Option<(u32, u32)> {
    let (addr, len) = word.split_once('/')?;
    let mut four = [0; 4];
    let parts = octets(addr)?;
    four[..parts.len()].copy_from_slice(&parts);
    let mask = match len.parse::<u32>() {
        Ok(len) if len <= 32 => u32::MAX.checked_shl(32 - len).unwrap_or(0),
        _ => address(len)?,
    };
    Some((u32::from_be_bytes(four), mask))
}

fn ether_address(word: &str) -> Option<[u8; 6]> {
    let separator = if word.contains('-') { '-' } else { ':' };
    let bytes: Option<Vec<u8>> =
        word.split(separator).map(|p| u8::from_str_radix(p, 16).ok()).collect();
    bytes?.try_into().ok()
}

//! Variables, and their replacement in configuration strings: `$x`, `${x}`, `${x-default}`,
//! `${x[1]}`; not in single quotes and comments, quoted anew within double quotes. A variable that
//! is not defined stays as it is written (scripts have variables of their own).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use thruway_element::{nearest, text};

use crate::ast::Config;
use crate::lexer::is_variable;
use crate::source::{SourceMap, Span};

/// How deep values may refer to variables.
pub const MAX_VALUE_DEPTH: usize = 10;

/// Variables given from outside: `NAME=VALUE` on the command line. They win over `define`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Variables {
    values: BTreeMap<String, String>,
    must_be_known: bool,
}

impl Variables {
    /// None.
    pub fn new() -> Variables {
        Variables::default()
    }

    /// Sets `name` (without `$`).
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.values.insert(name.into(), value.into());
    }

    /// Sets from `NAME=VALUE`; false if this is not of that form.
    pub fn assign(&mut self, assignment: &str) -> bool {
        match assignment.split_once('=') {
            Some((name, value)) if !name.is_empty() && name.bytes().all(is_variable) => {
                self.set(name, value);
                true
            }
            _ => false,
        }
    }

    /// The same, where a name that the configuration does not know is an error.
    #[must_use]
    pub fn known_only(self) -> Variables {
        Variables { must_be_known: true, ..self }
    }

    /// The same, where a name that the configuration does not know is ignored, as Click does.
    #[must_use]
    pub fn or_unknown(self) -> Variables {
        Variables { must_be_known: false, ..self }
    }

    /// Errors about names that none of these texts mentions and `defined` does not have.
    pub(crate) fn unknown<'a>(
        &'a self,
        texts: impl IntoIterator<Item = &'a str>,
        defined: impl IntoIterator<Item = &'a str>,
    ) -> Vec<String> {
        if !self.must_be_known {
            return Vec::new();
        }
        let mut known: BTreeSet<&str> = defined.into_iter().collect();
        let texts = texts.into_iter().map(mentioned);
        known.extend(texts.flatten());
        // The value of one may mention another.
        known.extend(self.values.values().flat_map(|value| mentioned(value)));
        let unknown = self.values.keys().filter(|name| !known.contains(name.as_str()));
        unknown.map(|name| unknown_variable(name, &known)).collect()
    }

    /// All, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// `$NAME` and `${NAME...}` in a text, wherever they stand: a part of the configuration that this
/// run does not use knows its variables too.
fn mentioned(text: &str) -> Vec<&str> {
    let names = text.match_indices('$').map(|(at, _)| {
        let rest = &text[at + 1..];
        let rest = rest.strip_prefix('{').map_or(rest, str::trim_start);
        let length = rest.bytes().take_while(|byte| is_variable(*byte)).count();
        &rest[..length]
    });
    names.filter(|name| !name.is_empty()).collect()
}

fn unknown_variable(name: &str, known: &BTreeSet<&str>) -> String {
    let remedy = match nearest(name, known.iter().copied()) {
        Some(meant) => format!("did you mean '{meant}'?"),
        None if known.is_empty() => "the configuration has no variables".to_owned(),
        None => {
            let known: Vec<&str> = known.iter().copied().collect();
            format!("the configuration has {}", known.join(", "))
        }
    };
    format!("unknown variable '{name}'; {remedy}")
}

/// The variables of a scope, with those around it.
#[derive(Debug, Default)]
pub(crate) struct Env {
    values: BTreeMap<String, Value>,
    parent: Option<Rc<Env>>,
    depth: usize,
}

#[derive(Debug)]
struct Value {
    text: String,
    /// Variables in it were replaced where it was given.
    done: bool,
}

impl Env {
    /// A scope within `parent`.
    pub fn within(parent: Option<Rc<Env>>) -> Env {
        let depth = parent.as_ref().map_or(0, |parent| parent.depth + 1);
        Env { values: BTreeMap::new(), parent, depth }
    }

    /// Gives `name` a value; `done` says that its variables are replaced already.
    pub fn set(&mut self, name: &str, text: String, done: bool) {
        self.values.insert(name.to_string(), Value { text, done });
    }

    /// The nearest scope around (or this one) that is less deep than `depth`.
    pub fn outside(env: &Rc<Env>, depth: usize) -> Option<Rc<Env>> {
        let mut at = Some(env.clone());
        while let Some(env) = at.as_ref().filter(|env| env.depth >= depth) {
            at = env.parent.clone();
        }
        at
    }

    fn value(&self, name: &str) -> Option<&Value> {
        let mut env = Some(self);
        while let Some(at) = env {
            if let Some(value) = at.values.get(name) {
                return Some(value);
            }
            env = at.parent.as_deref();
        }
        None
    }
}

/// The replaced texts of a configuration would be longer than is allowed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// A configuration string that knows where its parts stand in the sources.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mapped {
    pub text: String,
    parts: Vec<Part>,
}

/// From byte `at` of the text on, what stands at `span`: the same text if `exact`, else something
/// that replaces it.
#[derive(Debug, Clone, Copy)]
struct Part {
    at: usize,
    span: Span,
    exact: bool,
}

impl Mapped {
    /// A configuration string as written, without its line directives.
    pub fn written(config: &Config, sources: &SourceMap) -> Mapped {
        let mut mapped = Mapped::default();
        let mut start = config.span.start;
        for hole in &config.holes {
            mapped.push_exact(Span { start, end: hole.start, ..config.span }, sources);
            start = hole.end;
        }
        mapped.push_exact(Span { start, ..config.span }, sources);
        mapped
    }

    fn push_exact(&mut self, span: Span, sources: &SourceMap) {
        self.parts.push(Part { at: self.text.len(), span, exact: true });
        self.text.push_str(sources.text(span));
    }

    /// Where a range of the text stands.
    pub fn span_of(&self, range: Range<usize>) -> Span {
        let last = range.end.max(range.start + 1) - 1;
        let (Some(first), Some(last)) = (self.part(range.start), self.part(last)) else {
            return Span::default();
        };
        let start = match first.exact {
            true => first.span.start + (range.start - first.at) as u32,
            false => first.span.start,
        };
        let end = match last.exact {
            true => last.span.start + (range.end.max(last.at) - last.at) as u32,
            false => last.span.end,
        };
        Span { start, end: end.max(start), source: first.span.source }
    }

    fn part(&self, at: usize) -> Option<&Part> {
        let after = self.parts.partition_point(|part| part.at <= at);
        self.parts.get(after.checked_sub(1)?)
    }

    /// The text with variables of `env` replaced; `left` bytes may be used for it.
    pub fn expand(&self, env: &Env, left: &mut usize) -> Result<Mapped, TooLong> {
        let mut out = Mapped::default();
        for (range, piece) in pieces(&self.text) {
            let span = self.span_of(range.clone());
            let (text, exact) = match piece {
                Some(variable) => match variable.value(env, left, 0)? {
                    Some(value) => (value, false),
                    None => (self.text[range].to_string(), true),
                },
                None => (self.text[range].to_string(), true),
            };
            *left = left.checked_sub(text.len()).ok_or(TooLong)?;
            out.parts.push(Part { at: out.text.len(), span, exact });
            out.text.push_str(&text);
        }
        Ok(out)
    }
}

/// `text` with variables of `env` replaced; `left` bytes may be used for it.
fn expand(text: &str, env: &Env, left: &mut usize, depth: usize) -> Result<String, TooLong> {
    if depth > MAX_VALUE_DEPTH {
        return Ok(text.to_string());
    }
    let mut out = String::new();
    for (range, piece) in pieces(text) {
        let value = match piece {
            Some(variable) => variable.value(env, left, depth)?,
            None => None,
        };
        let piece = value.as_deref().unwrap_or(&text[range]);
        *left = left.checked_sub(piece.len() + 1).ok_or(TooLong)?;
        out.push_str(piece);
    }
    Ok(out)
}

/// A text with variables of `env` replaced; `left` bytes may be used for it.
pub(crate) fn expand_text(text: &str, env: &Env, left: &mut usize) -> Result<String, TooLong> {
    expand(text, env, left, 0)
}

/// A variable as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reference<'a> {
    name: &'a str,
    /// `${name[N]}`: only that word of the value; N may be a variable.
    word: Option<&'a str>,
    /// `${name-default}`.
    default: Option<&'a str>,
    /// Within double quotes.
    quoted: bool,
}

impl Reference<'_> {
    fn value(&self, env: &Env, left: &mut usize, depth: usize) -> Result<Option<String>, TooLong> {
        *left = left.checked_sub(1).ok_or(TooLong)?;
        let value = match (env.value(self.name), self.default) {
            (Some(value), _) if value.done => value.text.clone(),
            (Some(value), _) => expand(&value.text, env, left, depth + 1)?,
            (None, Some(default)) => expand(default, env, left, depth + 1)?,
            (None, None) => return Ok(None),
        };
        let value = match self.word {
            Some(index) => {
                let index = expand(index, env, left, depth + 1)?;
                let index = index.trim().parse().unwrap_or(usize::MAX);
                text::split_words(&value).get(index).copied().unwrap_or("").to_string()
            }
            None => value,
        };
        Ok(Some(if self.quoted { text::escaped(value.as_bytes()) } else { value }))
    }
}

/// Splits a text into literals and references.
fn pieces(text: &str) -> Vec<(Range<usize>, Option<Reference<'_>>)> {
    let bytes = text.as_bytes();
    let mut out = Vec::new();
    let (mut start, mut at, mut quote) = (0, 0, None);
    while at < bytes.len() {
        match (bytes[at], quote) {
            (b'\\', Some(b'"')) => at += 1,
            (b'\'' | b'"', None) => quote = Some(bytes[at]),
            (byte, Some(open)) if byte == open => quote = None,
            (b'/', None) if matches!(bytes.get(at + 1), Some(b'/' | b'*')) => {
                at = text::piece(text, at).1;
                continue;
            }
            (b'$', None | Some(b'"')) => {
                if let Some((reference, end)) = reference(text, at, quote.is_some()) {
                    out.push((start..at, None));
                    out.push((at..end, Some(reference)));
                    (start, at) = (end, end);
                    continue;
                }
            }
            _ => {}
        }
        at += 1;
    }
    out.push((start..bytes.len(), None));
    out.retain(|(range, _)| !range.is_empty());
    out
}

/// The variable with its `$` at `at`, and the byte after it.
fn reference(text: &str, at: usize, quoted: bool) -> Option<(Reference<'_>, usize)> {
    let rest = &text[at + 1..];
    let name_of = |text: &str| text.bytes().take_while(|byte| is_variable(*byte)).count();
    let Some(inner) = rest.strip_prefix('{') else {
        let length = name_of(rest);
        let reference = Reference { name: &rest[..length], word: None, default: None, quoted };
        return (length > 0).then_some((reference, at + 1 + length));
    };
    let close = inner.find('}')?;
    let end = at + 2 + close + 1;
    let inner = inner[..close].trim_start();
    let (name, mut rest) = inner.split_at(name_of(inner));
    rest = rest.trim_start();
    let mut word = None;
    let brackets = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    if let Some((index, after)) = brackets
        && index.trim().starts_with(|c: char| c == '$' || c.is_ascii_digit())
    {
        word = Some(index.trim());
        rest = after.trim_start();
    }
    Some((Reference { name, word, default: rest.strip_prefix('-'), quoted }, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(values: &[(&str, &str)]) -> Env {
        let mut env = Env::default();
        values.iter().for_each(|(name, value)| env.set(name, value.to_string(), false));
        env
    }

    fn expanded(text: &str, values: &[(&str, &str)]) -> String {
        expand_text(text, &env(values), &mut 1000).unwrap()
    }

    #[test]
    fn replacement() {
        let values = [("x", "5"), ("y", "a b"), ("z", "$x/$y")];
        assert_eq!(expanded("$x, ${x}0, $xx, $z", &values), "5, 50, $xx, 5/a b");
        assert_eq!(expanded("${y[1]} ${y[7]} ${ x }", &values), "b  5");
        assert_eq!(expanded("${y[$n]} ${y[$x]}", &[("y", "a b"), ("n", "1"), ("x", "-")]), "b ");
        assert_eq!(expanded("${n-none} ${x-none} ${n-$x} ${n}", &values), "none 5 5 ${n}");
        assert_eq!(expanded("$ $$ ${x $(x $x)", &values), "$ $$ ${x $(x 5)");
    }

    #[test]
    fn replacement_heeds_quotes_and_comments() {
        let values = [("q", "say \"hi\", \\o/"), ("x", "5")];
        assert_eq!(expanded("\"$q\"", &values), r#""say \"hi\", \\o/""#);
        assert_eq!(
            expanded("'$x' /* $x */ \\$x \"\\$x\" // $x", &values),
            "'$x' /* $x */ \\5 \"\\$x\" // $x"
        );
    }

    #[test]
    fn values_that_refer_to_themselves_are_bounded() {
        assert!(expanded("$x", &[("x", "a$x")]).len() < 20);
        let many = "$x".repeat(200);
        assert_eq!(expand_text("$x", &env(&[("x", &many)]), &mut 100_000), Err(TooLong));
    }

    #[test]
    fn spans_follow_replacement() {
        let mut sources = SourceMap::default();
        sources.add(crate::source::Source::new("f", "E(ab, $x cd, e)"));
        let config = Config { span: Span { source: 0, start: 2, end: 14 }, holes: Vec::new() };
        let mapped = Mapped::written(&config, &sources)
            .expand(&env(&[("x", "long, er")]), &mut 100)
            .unwrap();
        assert_eq!(mapped.text, "ab, long, er cd, e");
        let spans: Vec<&str> = text::split_args(&mapped.text)
            .into_iter()
            .map(|(_, range)| sources.text(mapped.span_of(range)))
            .collect();
        assert_eq!(spans, ["ab", "$x", "$x cd", "e"]);
    }

    #[test]
    fn assignments() {
        let mut variables = Variables::new();
        assert!(variables.assign("A=b=c") && variables.assign("X="));
        assert!(!variables.assign("=b") && !variables.assign("a b=c") && !variables.assign("ab"));
        assert_eq!(variables.iter().collect::<Vec<_>>(), [("A", "b=c"), ("X", "")]);
    }
}

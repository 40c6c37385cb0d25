//! Which bodies functions are shown.

use super::head::View;
use super::line::{all_token, trim};

/// Longest list of types, in members.
const MAX_TYPES: usize = 64;

/// Part of a list of media types.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Pattern {
    /// `*`: all, and bodies without a type.
    Any,
    /// `none`: bodies without a type.
    Untyped,
    /// `text`, `text/*`: all that begin so, up to the stroke.
    Main(Box<[u8]>),
    /// `application/json`.
    Exact(Box<[u8]>),
    /// `+json`: all types with a name that ends so (RFC 6838 section 4.2.8).
    Suffix(Box<[u8]>),
}

/// Bodies of which types functions are shown. Bodies with a content encoding or a transfer coding
/// besides chunked are never shown: their bytes are not their content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown(Vec<Pattern>);

/// A list of types that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MediaTypesError {
    /// A member of the list is nothing that is known.
    #[error("\"{0}\" is no type: there are TYPE, TYPE/SUBTYPE, +SUFFIX, none and *")]
    Type(String),
    /// It is too long.
    #[error("more than {MAX_TYPES} types")]
    Many,
}

impl Shown {
    /// The types of text, in pages and forms, and bodies without a type.
    pub const TEXT: &'static str = "none text application/json application/javascript \
        application/xml application/xhtml+xml application/x-javascript \
        application/x-www-form-urlencoded multipart/form-data +json +xml";

    /// All bodies that are their content.
    pub const ALL: &'static str = "*";

    /// Reads types that are parted by spaces.
    pub fn parse(text: &str) -> Result<Shown, MediaTypesError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.len() > MAX_TYPES {
            return Err(MediaTypesError::Many);
        }
        let pattern =
            |word: &&str| pattern(word).ok_or_else(|| MediaTypesError::Type((*word).to_owned()));
        words.iter().map(pattern).collect::<Result<_, _>>().map(Shown)
    }

    /// Whether the bytes of the body behind a head are not its content: it is compressed, say.
    pub fn is_encoded(view: View<'_>) -> bool {
        let mut codings = view.values(b"content-encoding");
        let is_plain =
            |coding: &[u8]| coding.is_empty() || coding.eq_ignore_ascii_case(b"identity");
        view.declared().coded || !codings.all(is_plain)
    }

    /// Whether the body behind a head is shown as it is.
    pub fn shows(&self, view: View<'_>) -> bool {
        !Shown::is_encoded(view) && self.has_type(view)
    }

    /// Whether bodies of the type in a head are shown.
    pub fn has_type(&self, view: View<'_>) -> bool {
        let mut types = view.values(b"content-type");
        // Two types count as none: it is ambiguous which one holds.
        let only = types.next().filter(|_| types.next().is_none());
        let name = only.map(|value| trim(value.split(|byte| *byte == b';').next().unwrap_or(&[])));
        self.0.iter().any(|pattern| pattern.matches(name.filter(|name| !name.is_empty())))
    }
}

impl Pattern {
    fn matches(&self, name: Option<&[u8]>) -> bool {
        match (self, name) {
            (Pattern::Any, _) | (Pattern::Untyped, None) => true,
            (_, None) | (Pattern::Untyped, Some(_)) => false,
            (Pattern::Exact(all), Some(name)) => name.eq_ignore_ascii_case(all),
            (Pattern::Main(main), Some(name)) => {
                name.get(..main.len()).is_some_and(|start| start.eq_ignore_ascii_case(main))
            }
            (Pattern::Suffix(suffix), Some(name)) => {
                let start = name.len().checked_sub(suffix.len());
                start.is_some_and(|start| name[start..].eq_ignore_ascii_case(suffix))
            }
        }
    }
}

fn pattern(word: &str) -> Option<Pattern> {
    let bytes = word.as_bytes();
    if word == "*" || word == "*/*" {
        return Some(Pattern::Any);
    }
    if word == "none" {
        return Some(Pattern::Untyped);
    }
    if let Some(suffix) = word.strip_prefix('+') {
        return all_token(suffix.as_bytes()).then(|| Pattern::Suffix(bytes.into()));
    }
    let (main, sub) = word.split_once('/').unwrap_or((word, "*"));
    if !all_token(main.as_bytes()) || !all_token(sub.as_bytes()) || main == "*" {
        return None;
    }
    match sub {
        "*" => Some(Pattern::Main([main.as_bytes(), b"/"].concat().into())),
        _ => Some(Pattern::Exact(bytes.into())),
    }
}

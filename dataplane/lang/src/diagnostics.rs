//! Errors and warnings: collected, not thrown, so that all of a file are shown at once.

use std::fmt::Write as _;
use std::sync::Arc;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

pub use crate::source::{Source, SourceMap, Span};

/// After so many, further ones are only counted.
pub const MAX_DIAGNOSTICS: usize = 100;

/// Severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing; Click's driver says no such thing.
    Advice,
    /// The configuration can run.
    Warning,
    /// The configuration cannot run.
    Error,
}

/// Something to say about a place in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Error or warning.
    pub severity: Severity,
    /// What is wrong, in Click's words, without place.
    pub message: String,
    /// The same for people, where Click's words are not plain.
    pub plain: Option<String>,
    /// Where; `None` if it concerns the whole configuration.
    pub span: Option<Span>,
    /// Written under the caret.
    pub label: String,
    /// Further lines, each perhaps with a place of its own.
    pub notes: Vec<Note>,
    /// A name that was perhaps meant.
    pub suggestion: Option<String>,
}

/// What a [`Note`] is to its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It explains the message.
    Detail,
    /// It is as much to blame.
    Peer,
    /// It shows people where to look; Click's driver says no such thing.
    Hint,
}

/// A detail of a [`Diagnostic`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// What to know.
    pub message: String,
    /// Where.
    pub span: Option<Span>,
    /// What it is to the message.
    pub role: Role,
}

impl Diagnostic {
    /// An error at `span`.
    pub fn error(span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            message: message.into(),
            plain: None,
            span: Some(span),
            label: String::new(),
            notes: Vec::new(),
            suggestion: None,
        }
    }

    /// An error of the whole configuration.
    pub fn global(message: impl Into<String>) -> Diagnostic {
        Diagnostic { span: None, ..Diagnostic::error(Span::default(), message) }
    }

    /// A warning at `span`.
    pub fn warning(span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(span, message) }
    }

    /// An advice at `span`.
    pub fn advice(span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Advice, ..Diagnostic::error(span, message) }
    }

    /// That no element class has this name.
    pub fn no_class(span: Span, name: &str) -> Diagnostic {
        let message = format!("unknown element class '{name}'");
        let plain = Some(format!("no element class '{name}'"));
        Diagnostic { plain, ..Diagnostic::error(span, message) }
    }

    /// With a text under the caret.
    pub fn label(mut self, label: impl Into<String>) -> Diagnostic {
        self.label = label.into();
        self
    }

    /// With a further line.
    pub fn note(mut self, message: impl Into<String>) -> Diagnostic {
        self.notes.push(Note { message: message.into(), span: None, role: Role::Detail });
        self
    }

    /// With a further line that points at a place.
    pub fn note_at(mut self, span: Span, message: impl Into<String>) -> Diagnostic {
        self.notes.push(Note { message: message.into(), span: Some(span), role: Role::Detail });
        self
    }

    /// With the other place that is as much to blame.
    pub fn beside(mut self, span: Span, message: impl Into<String>) -> Diagnostic {
        self.notes.push(Note { message: message.into(), span: Some(span), role: Role::Peer });
        self
    }

    /// With a place to look at.
    pub fn hint(mut self, span: Span, message: impl Into<String>) -> Diagnostic {
        self.notes.push(Note { message: message.into(), span: Some(span), role: Role::Hint });
        self
    }

    /// With "did you mean", if there is something to mean.
    pub fn suggest(mut self, name: Option<&str>) -> Diagnostic {
        self.suggestion = name.map(str::to_string);
        self
    }

    /// The message for people, with the suggestion: "...; did you mean IPFilter?".
    pub fn headline(&self) -> String {
        let message = self.plain.as_ref().unwrap_or(&self.message);
        match &self.suggestion {
            Some(name) => format!("{message}; did you mean {name}?"),
            None => message.clone(),
        }
    }
}

/// The errors and warnings of a configuration, in the order in which they were found.
#[derive(Debug, Clone, Default)]
pub struct Diagnostics {
    items: Vec<Diagnostic>,
    suppressed: usize,
    errors: usize,
    /// The texts that spans refer to.
    pub sources: Arc<SourceMap>,
}

impl Diagnostics {
    /// About these texts, none yet.
    pub fn of(sources: Arc<SourceMap>) -> Diagnostics {
        Diagnostics { sources, ..Diagnostics::default() }
    }

    /// None yet, about these texts.
    pub fn about(sources: &Arc<SourceMap>) -> Diagnostics {
        Diagnostics { sources: Arc::clone(sources), ..Diagnostics::default() }
    }

    /// Adds one; beyond [`MAX_DIAGNOSTICS`] it is only counted.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.errors += usize::from(diagnostic.severity == Severity::Error);
        if self.items.len() < MAX_DIAGNOSTICS {
            self.items.push(diagnostic);
        } else {
            self.suppressed += 1;
        }
    }

    /// Adds all of `other`, which is about the same texts.
    pub fn append(&mut self, other: Diagnostics) {
        self.suppressed += other.suppressed;
        let shown: usize = other.items.iter().filter(|d| d.severity == Severity::Error).count();
        self.errors += other.errors - shown;
        other.items.into_iter().for_each(|item| self.push(item));
    }

    /// Puts them in the order of the text.
    pub fn sort(&mut self) {
        self.items.sort_by_key(|item| item.span.map(|span| (span.source, span.start)));
    }

    /// Whether the configuration cannot run.
    pub fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// Number of errors, those that are not shown included.
    pub fn errors(&self) -> usize {
        self.errors
    }

    /// Whether further ones will only be counted.
    pub fn is_full(&self) -> bool {
        self.items.len() >= MAX_DIAGNOSTICS
    }

    /// Whether there is nothing to say.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Those that are kept.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.items.iter()
    }

    /// For people: source, line, caret, notes, suggestion. `color` uses terminal escapes.
    pub fn render(&self, color: bool) -> String {
        let renderer = if color { Renderer::styled() } else { Renderer::plain() };
        let mut out = String::new();
        for item in &self.items {
            let _ = writeln!(out, "{}\n", renderer.render(&self.report(item)));
        }
        if self.suppressed > 0 {
            let _ = writeln!(out, "({} more not shown)", self.suppressed);
        }
        out
    }

    /// In the manner of Click's driver: `file:line: message`, details indented.
    pub fn click(&self) -> String {
        let mut out = String::new();
        for item in self.items.iter().filter(|item| item.severity != Severity::Advice) {
            let location = item.span.map_or(String::new(), |span| self.landmark(span) + ": ");
            let kind = if item.severity == Severity::Warning { "warning: " } else { "" };
            let _ = writeln!(out, "{location}{kind}{}", item.message);
            for note in item.notes.iter().filter(|note| note.role != Role::Hint) {
                let location = note.span.map_or(String::new(), |span| self.landmark(span) + ":");
                let indent = match (note.role, note.span) {
                    (Role::Detail, Some(_)) => "   ",
                    (Role::Detail, None) => "  ",
                    (_, Some(_)) => " ",
                    (_, None) => "",
                };
                let _ = writeln!(out, "{location}{indent}{}", note.message);
            }
        }
        if self.suppressed > 0 {
            let _ = writeln!(out, "({} more not shown)", self.suppressed);
        }
        out
    }

    fn landmark(&self, span: Span) -> String {
        self.sources.landmark(span)
    }

    fn report<'a>(&'a self, item: &'a Diagnostic) -> Vec<Group<'a>> {
        let level = match item.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning | Severity::Advice => Level::WARNING,
        };
        let mut group = Group::with_title(level.primary_title(item.headline()));
        if let Some(span) = item.span {
            group = group.element(self.snippet(span, &item.label));
        }
        for note in &item.notes {
            group = match note.span {
                Some(span) => group
                    .element(Level::NOTE.message(note.message.as_str()))
                    .element(self.snippet(span, "")),
                None => group.element(Level::NOTE.message(note.message.as_str())),
            };
        }
        vec![group]
    }

    /// Only the lines that the span touches are given to the renderer.
    fn snippet<'a>(
        &'a self,
        span: Span,
        label: &'a str,
    ) -> Snippet<'a, annotate_snippets::Annotation<'a>> {
        let lines = self.sources.lines_of(span);
        let text =
            self.sources.source(span.source).and_then(|source| source.text.get(lines.clone()));
        let text = text.unwrap_or("");
        let (name, line) = self.sources.position(Span { start: lines.start as u32, ..span });
        let range = span.range();
        let start = range.start.clamp(lines.start, lines.end) - lines.start;
        let end = range.end.clamp(lines.start, lines.end) - lines.start;
        let annotation = AnnotationKind::Primary.span(start..end.max(start));
        let annotation = if label.is_empty() { annotation } else { annotation.label(label) };
        Snippet::source(text).path(name).line_start(line as usize).annotation(annotation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rendering_points_at_the_text() {
        let mut sources = SourceMap::default();
        sources.add(Source::new("f", "one\n  two three\n"));
        let mut all = Diagnostics::of(Arc::new(sources));
        let span = Span { source: 0, start: 10, end: 15 };
        all.push(Diagnostic::error(span, "wrong").label("this").suggest(Some("four")));
        all.push(
            Diagnostic::warning(span, "odd")
                .note_at(Span { start: 6, end: 9, ..span }, "see")
                .note("in it")
                .hint(span, "look"),
        );
        all.push(Diagnostic::advice(span, "perhaps"));
        assert_eq!(all.click(), "f:2: wrong\nf:2: warning: odd\nf:2:   see\n  in it\n");
        let shown = all.render(false);
        let expected = "error: wrong; did you mean four?\n --> f:2:7\n  |\n\
            2 |   two three\n  |       ^^^^^ this\n";
        assert!(shown.starts_with(expected), "{shown}");
        assert!(shown.contains("note: look") && shown.contains("warning: perhaps"), "{shown}");
        assert!(all.render(true).contains("\u{1b}["));
    }
}

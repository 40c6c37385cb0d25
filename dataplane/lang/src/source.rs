//! The texts of a configuration and places in them.

use std::ops::Range;

/// A configuration text with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// File name, or `config` for an expression given on the command line.
    pub name: String,
    /// The text.
    pub text: String,
}

impl Source {
    /// A text called `name`.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Source {
        Source { name: name.into(), text: text.into() }
    }
}

/// A range of bytes in one of the texts of a [`SourceMap`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span {
    /// Index of the text.
    pub source: u32,
    /// First byte.
    pub start: u32,
    /// After the last byte.
    pub end: u32,
}

impl Span {
    /// From the beginning of `self` to the end of `other`, which is in the same text.
    pub fn to(self, other: Span) -> Span {
        Span { end: self.end.max(other.end), start: self.start.min(other.start), ..self }
    }

    /// As a range of bytes.
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// All texts of a configuration: the file itself and required libraries.
#[derive(Debug, Clone, Default)]
pub struct SourceMap {
    files: Vec<File>,
}

#[derive(Debug, Clone)]
struct File {
    source: Source,
    /// Offsets at which lines begin.
    lines: Vec<u32>,
    /// Line directives, in order.
    marks: Vec<LineMark>,
}

/// A line directive: the line that begins at `offset` is called `line` of `name`.
#[derive(Debug, Clone)]
struct LineMark {
    offset: u32,
    line: u32,
    name: String,
}

impl SourceMap {
    /// Adds a text and returns its index. Texts must be shorter than 4 GiB.
    pub fn add(&mut self, source: Source) -> u32 {
        let bytes = source.text.as_bytes();
        let mut lines = vec![0];
        for (at, byte) in bytes.iter().enumerate() {
            let ends = match byte {
                b'\n' => true,
                b'\r' => bytes.get(at + 1) != Some(&b'\n'),
                _ => false,
            };
            if ends {
                lines.push(at as u32 + 1);
            }
        }
        self.files.push(File { source, lines, marks: Vec::new() });
        self.files.len() as u32 - 1
    }

    /// Notes a line directive: from `offset` on lines count from `line`; an empty `name` means the
    /// text's own.
    pub fn mark(&mut self, source: u32, offset: usize, line: u32, name: &str) {
        if let Some(file) = self.files.get_mut(source as usize) {
            let name = if name.is_empty() { file.source.name.clone() } else { name.to_string() };
            file.marks.push(LineMark { offset: offset as u32, line, name });
        }
    }

    /// All texts.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|file| file.source.text.as_str())
    }

    /// The text with index `source`.
    pub fn source(&self, source: u32) -> Option<&Source> {
        self.files.get(source as usize).map(|file| &file.source)
    }

    /// The text of a span.
    pub fn text(&self, span: Span) -> &str {
        self.source(span.source).and_then(|source| source.text.get(span.range())).unwrap_or("")
    }

    /// File name and line number (from 1), line directives heeded.
    pub fn position(&self, span: Span) -> (&str, u32) {
        let Some(file) = self.files.get(span.source as usize) else { return ("", 0) };
        let row = file.row(span.start);
        let after = file.marks.partition_point(|mark| mark.offset <= span.start);
        match after.checked_sub(1).map(|index| &file.marks[index]) {
            Some(mark) => {
                (&mark.name, mark.line.saturating_add((row - file.row(mark.offset)) as u32))
            }
            None => (&file.source.name, row as u32 + 1),
        }
    }

    /// `file:line`, line directives heeded.
    pub fn landmark(&self, span: Span) -> String {
        let (name, line) = self.position(span);
        format!("{name}:{line}")
    }

    /// Bytes of the lines that a span touches, without the last line's end.
    pub fn lines_of(&self, span: Span) -> Range<usize> {
        let Some(file) = self.files.get(span.source as usize) else { return 0..0 };
        let start = file.lines[file.row(span.start)] as usize;
        let last = file.row(span.end.max(span.start + 1) - 1);
        let end = file.lines.get(last + 1).map_or(file.source.text.len(), |next| *next as usize);
        let text = file.source.text.get(start..end).unwrap_or("");
        start..start + text.trim_end_matches(['\n', '\r']).len()
    }
}

impl File {
    fn row(&self, offset: u32) -> usize {
        self.lines.partition_point(|start| *start <= offset).saturating_sub(1)
    }
}

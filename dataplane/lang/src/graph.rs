//! What a configuration becomes: a flat list of elements and the edges between their ports.

use std::fmt;
use std::sync::Arc;

use thruway_element::Spec;

use crate::diagnostics::{SourceMap, Span};

/// A flat configuration: no compound elements, no variables.
#[derive(Debug, Clone)]
pub struct Graph {
    /// In Click's order: as declared, then what compound elements expand to; then the dispatchers
    /// of context links.
    pub elements: Vec<ElementDecl>,
    /// Sorted by source port, then by target port; no duplicates.
    pub edges: Vec<Edge>,
    /// `require(...)` statements, in order.
    pub requirements: Vec<Requirement>,
    /// Names given in `provide(...)`.
    pub provides: Vec<String>,
    /// The texts that spans refer to.
    pub sources: Arc<SourceMap>,
}

impl Graph {
    /// The index of the element called `name`.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.elements.iter().position(|element| element.name == name)
    }

    /// The elements that edges lead to from one, however many others are between; itself only
    /// where they lead back.
    pub fn downstream(&self, element: usize) -> Vec<usize> {
        let mut is_reached = vec![false; self.elements.len()];
        let mut pending = vec![element];
        while let Some(at) = pending.pop() {
            for edge in self.edges.iter().filter(|edge| edge.from.element == at) {
                let to = edge.to.element;
                if !std::mem::replace(&mut is_reached[to], true) {
                    pending.push(to);
                }
            }
        }
        (0..is_reached.len()).filter(|at| is_reached[*at]).collect()
    }
}

/// One element.
#[derive(Debug, Clone)]
pub struct ElementDecl {
    /// Unique name; `outer/inner` inside of compound elements, `Class@N` when it was not given.
    pub name: String,
    /// Class as written (an alias stays an alias, a synonym from `elementclass A B` does not).
    pub class: String,
    /// The declaration of the class. [`UNKNOWN`] if there is no such class (then there was an
    /// error).
    pub spec: &'static Spec,
    /// Configuration string with variables replaced.
    pub config: String,
    /// The configuration string split into arguments.
    pub args: Vec<ArgText>,
    /// The declaration in the text.
    pub span: Span,
    /// `file:line` of the declaration.
    pub landmark: String,
    /// The compound elements around it, innermost first.
    pub context: Vec<Frame>,
}

/// One argument of an element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArgText {
    /// Text without comments and outer blanks, with its quotes.
    pub text: String,
    /// Where it stands. Inside of a compound element this is the element class's body, where a
    /// replaced variable counts as its `$name`.
    pub span: Span,
}

/// A compound element that another element was expanded from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Full name of the compound element.
    pub name: String,
    /// Its declaration.
    pub span: Span,
    /// `file:line` of its declaration.
    pub landmark: String,
}

/// A connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// Output port.
    pub from: PortRef,
    /// Input port.
    pub to: PortRef,
    /// How it was written.
    pub kind: EdgeKind,
    /// The connector and what it connects.
    pub span: Span,
}

/// A port of an element; whether input or output follows from where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortRef {
    /// Index into [`Graph::elements`].
    pub element: usize,
    /// Port number.
    pub port: usize,
}

/// Sort of connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EdgeKind {
    /// `->` or `=>`: packets.
    Packet,
    /// `~>`: packets, sorted by what the elements behind it want. Leads to or from the dispatcher
    /// that sorts them.
    Context,
}

/// One `require`ment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// `package` or `compact_config`.
    pub kind: String,
    /// Name of the package; empty for `compact_config`.
    pub value: String,
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        if !self.value.is_empty() {
            write!(f, " {}", thruway_element::text::quote(self.value.as_bytes()))?;
        }
        Ok(())
    }
}

/// Stands for a class that does not exist: any ports, so that one error does not cause others.
pub static UNKNOWN: Spec = Spec {
    name: "(unknown)",
    summary: "stands for an unknown element class",
    ports: "-/-",
    processing: "a/a",
    flow: "x/y",
    ..Spec::DEFAULT
};

impl ElementDecl {
    /// Whether the class was not found.
    pub fn is_unknown(&self) -> bool {
        std::ptr::eq(self.spec, &UNKNOWN)
    }
}

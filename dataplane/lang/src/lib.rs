//! The Click language: text to checked graph, with diagnostics.
#![forbid(unsafe_code)]

pub mod checked;
pub mod codes;
pub mod diagnostics;
pub mod graph;
pub mod source;

pub use checked::{Checked, ElementPorts, Port, Processing, TaskReach};
pub use diagnostics::{Diagnostic, Diagnostics, Note, Severity, nearest};
pub use graph::{ArgText, Edge, EdgeKind, ElementDecl, Frame, Graph, PortRef, Requirement};
pub use source::{Source, SourceMap, Span};

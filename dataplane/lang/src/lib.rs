//! The Click language: text to checked graph, with diagnostics.
#![forbid(unsafe_code)]

pub mod ast;
pub mod check;
pub mod checked;
pub mod codes;
mod connect;
pub mod diagnostics;
pub mod dot;
pub mod edit;
pub mod expand;
pub mod fmt;
pub mod graph;
pub mod lexer;
pub mod load;
pub mod lower;
mod members;
mod overload;
pub mod parser;
pub mod patterns;
mod reach;
mod scope;
pub mod source;
pub mod svg;
#[cfg(test)]
mod tests;
pub mod unparse;
pub mod variables;

pub use check::resolve;
pub use checked::{Checked, ElementPorts, Port, Processing, TaskReach};
pub use diagnostics::{Diagnostic, Diagnostics, Note, Role, Severity};
pub use dot::dot;
pub use edit::Editor;
pub use fmt::format;
pub use graph::{ArgText, Edge, EdgeKind, ElementDecl, Frame, Graph, PortRef, Requirement};
pub use load::{Examined, Loaded, examine, load, parse, parse_with};
pub use lower::{Loader, NoLibraries};
pub use source::{Source, SourceMap, Span};
pub use svg::svg;
pub use unparse::unparse;
pub use variables::Variables;

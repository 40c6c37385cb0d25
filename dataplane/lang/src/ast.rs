//! A configuration as written.

use crate::source::Span;

/// A name with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// Text.
    pub text: String,
    /// Place.
    pub span: Span,
}

/// A configuration string as written, without its parentheses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Between the parentheses.
    pub span: Span,
    /// Line directives within, which are not part of the string.
    pub holes: Vec<Span>,
}

/// Statements, of a file, a compound element or a group.
#[derive(Debug, Clone, Default)]
pub struct Body {
    /// In order.
    pub statements: Vec<Statement>,
}

/// One statement.
#[derive(Debug, Clone)]
pub enum Statement {
    /// Declarations and connections.
    Chain(Chain),
    /// `elementclass NAME ...`.
    Class(ClassDecl),
    /// `require(...)`.
    Require(Config),
    /// `provide(...)`.
    Provide(Config),
    /// `define(...)`.
    Define(Config),
}

/// Element lists joined by connectors; a lone list declares its elements.
#[derive(Debug, Clone)]
pub struct Chain {
    /// At least one.
    pub links: Vec<Link>,
}

/// One list of a chain.
#[derive(Debug, Clone)]
pub struct Link {
    /// The connector before it; none before the first.
    pub connector: Option<Connector>,
    /// At least one.
    pub items: Vec<Item>,
}

/// A connector.
#[derive(Debug, Clone, Copy)]
pub struct Connector {
    /// Which.
    pub kind: ConnectorKind,
    /// Place.
    pub span: Span,
}

/// Sort of connector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectorKind {
    /// `->`
    Arrow,
    /// `=>`
    Many,
    /// `~>`
    Context,
}

/// An element in a list, with its ports.
#[derive(Debug, Clone)]
pub struct Item {
    /// Ports before it.
    pub before: Option<PortList>,
    /// The element.
    pub what: What,
    /// The class after `::`.
    pub class: Option<ClassRef>,
    /// Configuration string.
    pub config: Option<Config>,
    /// Ports behind it.
    pub after: Option<PortList>,
    /// All of it but the ports.
    pub span: Span,
}

/// What an item begins with.
#[derive(Debug, Clone)]
pub enum What {
    /// An element or a class; `input` or `output` if only ports (or nothing) are written.
    Name(Name),
    /// An anonymous compound element.
    Compound(Compound),
    /// `( ... )`.
    Group(Body),
}

/// `[1, 2]`; `[]` and `[1,]` can grow.
#[derive(Debug, Clone)]
pub struct PortList {
    /// At least one.
    pub ports: Vec<u32>,
    /// As many further ports as needed.
    pub grows: bool,
    /// Place.
    pub span: Span,
}

/// A class: a name or a compound.
#[derive(Debug, Clone)]
pub enum ClassRef {
    /// By name.
    Name(Name),
    /// Written out.
    Compound(Compound),
}

/// `elementclass NAME { ... }` or `elementclass NAME OTHER`.
#[derive(Debug, Clone)]
pub struct ClassDecl {
    /// The new name.
    pub name: Name,
    /// What it stands for.
    pub value: ClassRef,
}

/// `{ ... || ... || ... }`.
#[derive(Debug, Clone)]
pub struct Compound {
    /// The overloads, at least one.
    pub overloads: Vec<Overload>,
    /// `...` at the end: extends the class of the same name.
    pub extends: Option<Span>,
    /// Place.
    pub span: Span,
}

/// One overload of a compound.
#[derive(Debug, Clone)]
pub struct Overload {
    /// Parameters.
    pub formals: Vec<Formal>,
    /// Statements.
    pub body: Body,
    /// Place of its beginning.
    pub span: Span,
}

/// A parameter of a compound.
#[derive(Debug, Clone)]
pub struct Formal {
    /// Empty if positional, `__REST__`, or a keyword.
    pub keyword: String,
    /// Name without `$`.
    pub variable: String,
    /// Place.
    pub span: Span,
}

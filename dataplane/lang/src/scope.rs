//! What the statements of one file or compound element declare, before compound elements are
//! expanded.

use std::collections::{BTreeMap, HashMap};

use thruway_element::Spec;

use crate::ast::Formal;
use crate::connect::Point;
use crate::graph::EdgeKind;
use crate::source::Span;
use crate::variables::Mapped;

/// Index into the list of classes.
pub(crate) type ClassId = usize;

/// An element class.
#[derive(Debug)]
pub(crate) enum Class {
    /// One of the catalog, under the name it was found by.
    Primitive(String, &'static Spec),
    /// Reported as unknown.
    Unknown(String),
    /// A compound element.
    Compound(Box<CompoundClass>),
}

/// One overload of a compound element class.
#[derive(Debug)]
pub(crate) struct CompoundClass {
    pub name: String,
    pub formals: Vec<Formal>,
    pub scope: Scope,
    pub inputs: u32,
    pub outputs: u32,
    /// Tried next if this one does not match.
    pub overload: Option<ClassId>,
    pub span: Span,
    /// How many compounds it is written in, itself included.
    pub depth: usize,
}

/// An element as declared.
#[derive(Debug)]
pub(crate) struct Decl {
    pub name: String,
    pub anonymous: bool,
    pub kind: DeclKind,
    pub config: Mapped,
    pub span: Span,
    /// Highest port used plus one.
    pub inputs: u32,
    pub outputs: u32,
}

/// What is declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeclKind {
    /// An element of a class.
    Class(ClassId),
    /// A group from outside; `input` and `output` within are the next two declarations.
    Group { inputs: u32, outputs: u32 },
    /// `input`: packets go on from here.
    Input,
    /// `output`: packets go on from the group or compound element with this index, if it is in the
    /// same scope.
    Output,
}

/// A connection as declared.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Conn {
    pub from: Point,
    pub to: Point,
    pub kind: EdgeKind,
    pub span: Span,
}

/// The declarations of one file or compound element.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    pub decls: Vec<Decl>,
    pub conns: Vec<Conn>,
    pub defines: BTreeMap<String, String>,
    pub names: HashMap<String, usize>,
    /// Declarations that do not count in the numbers of anonymous elements.
    pub uncounted: usize,
}

impl Scope {
    /// The scope of a compound element, with `input` and `output`.
    pub fn compound(span: Span) -> Scope {
        let mut scope = Scope { uncounted: 2, ..Scope::default() };
        scope.declare("input".to_string(), DeclKind::Input, Mapped::default(), span);
        scope.declare("output".to_string(), DeclKind::Output, Mapped::default(), span);
        scope
    }

    /// Adds a declaration.
    pub fn declare(&mut self, name: String, kind: DeclKind, config: Mapped, span: Span) -> usize {
        let index = self.decls.len();
        self.names.insert(name.clone(), index);
        let anonymous = false;
        self.decls.push(Decl { name, anonymous, kind, config, span, inputs: 0, outputs: 0 });
        index
    }

    /// Adds a declaration; [`Scope::make_names_unique`] settles its name, `CLASS@N`.
    pub fn declare_anonymous(
        &mut self,
        class: &str,
        kind: DeclKind,
        config: Mapped,
        span: Span,
    ) -> usize {
        let name = format!("{class}@{}", self.decls.len() - self.uncounted + 1);
        let index = self.decls.len();
        self.decls.push(Decl { name, anonymous: true, kind, config, span, inputs: 0, outputs: 0 });
        index
    }

    /// Adds a connection.
    pub fn connect(&mut self, conn: Conn) {
        let (from, to) = (&mut self.decls[conn.from.0].outputs, conn.from.1 + 1);
        *from = (*from).max(to);
        let (from, to) = (&mut self.decls[conn.to.0].inputs, conn.to.1 + 1);
        *from = (*from).max(to);
        self.conns.push(conn);
    }

    /// Makes the names of anonymous elements unique by counting their number up.
    pub fn make_names_unique(&mut self) {
        // Per class the numbers that were found taken, from the first to the last: numbers begin
        // higher and higher, so that no number is looked at twice.
        let mut taken: HashMap<String, usize> = HashMap::new();
        for index in 0..self.decls.len() {
            if !self.decls[index].anonymous {
                continue;
            }
            let mut name = self.decls[index].name.clone();
            if self.names.contains_key(&name) {
                let (class, number) = name.rsplit_once('@').unwrap_or((&name, "0"));
                let mut number: usize = number.parse().unwrap_or(0);
                let class = class.to_string();
                let last = taken.entry(class.clone()).or_insert(number);
                number = number.max(*last);
                while self.names.contains_key(&name) {
                    number += 1;
                    name = format!("{class}@{number}");
                }
                *last = number;
            }
            self.names.insert(name.clone(), index);
            self.decls[index].name = name;
        }
        self.rename_group_ports();
    }

    /// `input` and `output` of a group are called after the group.
    fn rename_group_ports(&mut self) {
        for index in 0..self.decls.len() {
            if matches!(self.decls[index].kind, DeclKind::Group { .. }) {
                let name = self.decls[index].name.clone();
                self.decls[index + 1].name = format!("{name}/input");
                self.decls[index + 2].name = format!("{name}/output");
            }
        }
    }
}

//! The registry: one explicit sorted list of element classes.

use crate::args::{ArgErrors, Args};
use crate::spec::Spec;
use crate::{Element, values::Addresses};

/// Enters the names that an information element called `name` declares by its arguments.
pub type Declare = fn(name: &str, args: &[String], &mut Addresses) -> Result<(), ArgErrors>;

/// One element class: its declaration and how to make one.
pub struct Entry {
    /// The declaration.
    pub spec: Spec,
    /// Makes an element from checked arguments; does no I/O.
    pub build: fn(&Args<'_>) -> Result<Box<dyn Element>, ArgErrors>,
    /// For information elements (AddressInfo): enters names for the others' arguments. Called for
    /// all elements of the class before any element is built.
    pub declare: Option<Declare>,
}

impl Entry {
    /// The usual entry.
    pub const fn new(
        spec: Spec,
        build: fn(&Args<'_>) -> Result<Box<dyn Element>, ArgErrors>,
    ) -> Entry {
        Entry { spec, build, declare: None }
    }
}

/// The element classes that a configuration may name.
pub trait Catalog {
    /// The spec of the class written `name`, which may be an alias.
    fn spec(&self, name: &str) -> Option<&'static Spec>;
    /// Every class name, aliases included, sorted.
    fn names(&self) -> Vec<&'static str>;
}

/// A catalog over lists of entries, one list per topic.
#[derive(Clone, Copy)]
pub struct Registry(pub &'static [&'static [&'static Entry]]);

impl Registry {
    /// All entries.
    pub fn entries(&self) -> impl Iterator<Item = &'static Entry> {
        self.0.iter().flat_map(|topic| topic.iter().copied())
    }

    /// The entry of the class written `name`, which may be an alias.
    pub fn entry(&self, name: &str) -> Option<&'static Entry> {
        self.entries().find(|entry| {
            entry.spec.name == name || entry.spec.aliases.iter().any(|alias| alias.name == name)
        })
    }
}

impl Catalog for Registry {
    fn spec(&self, name: &str) -> Option<&'static Spec> {
        self.entry(name).map(|entry| &entry.spec)
    }

    fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<&'static str> = self
            .entries()
            .flat_map(|e| e.spec.aliases.iter().map(|a| a.name).chain([e.spec.name]))
            .collect();
        names.sort_unstable();
        names
    }
}

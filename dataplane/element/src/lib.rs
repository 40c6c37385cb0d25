//! The Element trait, specs, arguments, handlers, drop reasons.
#![forbid(unsafe_code)]

pub mod spec;
pub mod text;

pub use spec::{Access, Alias, Arg, ArgRule, Drop, Handler, Merge, Spec, Topic, Ty};

/// The element classes that a configuration may name.
pub trait Catalog {
    /// The spec of the class written `name`, which may be an alias.
    fn spec(&self, name: &str) -> Option<&'static Spec>;
    /// Every class name, aliases included, sorted.
    fn names(&self) -> Vec<&'static str>;
}

//! What an element may ask about the graph while it is built: by which paths threads reach it and
//! others, and what stands behind it.

use crate::spec::Spec;

/// The graph as the element that is built may ask about it.
pub trait Paths {
    /// Tells those to the element itself.
    fn describe(&self) -> String;

    /// Those to the element that it calls `name`; `None` where there is none, or nobody knows.
    fn of(&self, name: &str) -> Option<Reach> {
        let _ = name;
        None
    }

    /// The classes of all elements that packets can come to from the one that is built; `None`
    /// where nobody knows.
    fn downstream(&self) -> Option<Vec<&'static Spec>> {
        None
    }
}

impl<F: Fn() -> String> Paths for F {
    fn describe(&self) -> String {
        self()
    }
}

/// Who reaches an element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    /// The threads, ascending.
    pub threads: Vec<usize>,
    /// By which ways.
    pub paths: String,
}

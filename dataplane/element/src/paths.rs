//! Queries about the graph while an element is built: the paths by which threads reach it and
//! others, and the elements downstream.

use crate::spec::Spec;

/// The graph as the element that is built may ask about it.
pub trait Paths {
    /// The paths to the element itself, in words.
    fn describe(&self) -> String;

    /// The paths to the element that this one calls `name`; `None` if there is none or they are
    /// unknown.
    fn of(&self, name: &str) -> Option<Reach> {
        let _ = name;
        None
    }

    /// The classes of all elements that packets can reach from the one that is built; `None` if
    /// unknown.
    fn downstream(&self) -> Option<Vec<&'static Spec>> {
        None
    }
}

impl<F: Fn() -> String> Paths for F {
    fn describe(&self) -> String {
        self()
    }
}

/// Threads that reach an element, and their paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    /// The threads, ascending.
    pub threads: Vec<usize>,
    /// The paths, in words.
    pub paths: String,
}

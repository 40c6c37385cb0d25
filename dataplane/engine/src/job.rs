//! The task of each replica of an element in a handler call.

use thruway_element::Origin;

use crate::call::Call;

/// A handler call for the replicas of one element.
#[derive(Clone)]
pub(crate) struct Job {
    pub node: usize,
    pub name: String,
    /// Parameter of a read, value of a write.
    pub param: String,
    pub write: bool,
    /// One replica is enough.
    pub one: bool,
    /// The caller.
    pub origin: Origin,
}

impl Job {
    pub(crate) fn new(
        node: usize,
        call: &Call<'_>,
        (one, write): (bool, bool),
        origin: Origin,
    ) -> Job {
        let (name, param) = (call.name.to_owned(), call.param.to_owned());
        Job { node, name, param, write, one, origin }
    }
}

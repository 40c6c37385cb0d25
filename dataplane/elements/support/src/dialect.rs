//! FastClick's and MiddleClick's arguments that configurations carry and that change nothing here.

use thruway_element::{Arg, Ty};

/// An argument that is accepted, whatever its value, and has no effect.
pub const fn ignored(name: &'static str) -> Arg {
    Arg::keyword(name, Ty::Any, "FastClick's; accepted without effect")
}

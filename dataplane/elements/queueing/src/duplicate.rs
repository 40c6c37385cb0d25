//! Duplicate: FastClick's name of a tee.

use thruway_element::{Arg, Arguments, Entry, Purpose, Replicas, Spec};

use thruway_elements_support::dialect::ignored;

use super::tee::{self, Tee};

const ARGS: &[Arg] = &[Tee::ARGS[0], ignored("DATA_ONLY")];

/// See the spec.
pub static ENTRY: Entry = Entry::built::<Tee>(
    Spec {
        name: "Duplicate",
        summary: "copies packets to all outputs (FastClick)",
        docs: "A Tee: copies are always whole here, whatever DATA_ONLY says. What doubles packets at \
               random is Repeat.",
        example: "InfiniteSource(LIMIT 1, STOP true) -> t :: Duplicate(2);\n\
                  t[0] -> Print(a) -> Discard; t[1] -> Print(b) -> Discard",
        args: ARGS,
        replicas: Replicas::Alike,
        purpose: Purpose::Ordinary,
        ..tee::ENTRY.spec
    },
    |args| Ok(Box::new(Tee::from_args(args)?)),
)
.with_cost_model::<Tee>();

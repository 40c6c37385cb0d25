//! Duplicate: FastClick's name of a tee.

use thruway_element::{Entry, Purpose, Replicas, Spec};

use thruway_elements_support::dialect::ignored;

use super::tee::{self, OUTPUTS, Tee, build};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "Duplicate",
        summary: "copies packets to all outputs (FastClick)",
        docs: "A Tee: copies are always whole here, whatever DATA_ONLY says. What doubles packets at \
               random is Repeat.",
        example: "InfiniteSource(LIMIT 1, STOP true) -> t :: Duplicate(2);\n\
                  t[0] -> Print(a) -> Discard; t[1] -> Print(b) -> Discard",
        args: &[OUTPUTS, ignored("DATA_ONLY")],
        replicas: Replicas::Alike,
        purpose: Purpose::Ordinary,
        ..tee::ENTRY.spec
    },
    build,
)
.with_cost_model::<Tee>();

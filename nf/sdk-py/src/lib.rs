//! `thruway_nf` for Python: `python/thruway_nf/__init__.py` is what an author imports.
//!
//! A callback sees copies: of packets, and of their sessions' scratch. What it has changed, sent
//! and ordered is carried out when it returns. So no object of Python's refers to memory that the
//! host shares, however long it is kept.
//!
//! *Absent here:* unsafe code of our own; that of pyo3's macros is all.
#![forbid(unsafe_code)]

mod apply;
mod batch;
mod context;
mod function;
mod packet;
mod settings;

use pyo3::prelude::*;

/// The module.
#[pymodule]
mod thruway_nf_native {
    #[pymodule_export]
    use crate::batch::Batch;
    #[pymodule_export]
    use crate::context::{Context, Session, Start};
    #[pymodule_export]
    use crate::function::run;
    #[pymodule_export]
    use crate::packet::Packet;
}

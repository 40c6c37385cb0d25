//! The Click language: text to checked graph, with diagnostics.
#![forbid(unsafe_code)]

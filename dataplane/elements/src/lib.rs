//! The network functions.
#![forbid(unsafe_code)]

//! The Element trait, specs, arguments, handlers, drop reasons.
#![forbid(unsafe_code)]

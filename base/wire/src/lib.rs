//! Header views, checksums, typed parse errors.
#![forbid(unsafe_code)]

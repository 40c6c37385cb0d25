//! Classification: rules compiled once, evaluated per packet.
#![forbid(unsafe_code)]

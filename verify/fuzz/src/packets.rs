//! What comes over the wire. The checks stand beside the crates that they are about, whose ordinary
//! tests run them too.

#[path = "../../../base/wire/tests/every_parser/mod.rs"]
mod every_parser;

#[path = "../../../dataplane/stream/tests/http/any_bytes/mod.rs"]
mod any_bytes;

#[path = "../../../dataplane/stream/tests/http/any_bodies/mod.rs"]
mod any_bodies;

#[path = "../../../dataplane/stream/tests/tcp_packets/any_packets/mod.rs"]
mod any_packets;

#[path = "../../../dataplane/elements/hops/tests/hops/any_packets/mod.rs"]
mod any_hops;

#[path = "../../../dataplane/inspect/tests/rule_file/mod.rs"]
mod rule_file;

/// A packet to every parser of headers.
pub fn headers(bytes: &[u8]) {
    every_parser::every_parser(bytes);
}

/// A DHCP message, read and written again.
pub fn dhcp(bytes: &[u8]) {
    every_parser::dhcp_message(bytes);
}

/// Both directions of an HTTP connection.
pub fn http(bytes: &[u8]) {
    any_bytes::any_bytes(bytes);
}

/// A body with a content coding.
pub fn unpack(bytes: &[u8]) {
    any_bodies::any_bodies(bytes);
}

/// The packets of a few TCP connections through TCPIn and TCPOut.
pub fn tcp(bytes: &[u8]) {
    any_packets::any_packets(bytes);
}

/// Rules of intrusion prevention, and traffic.
pub fn inspect(bytes: &[u8]) {
    rule_file::rule_file(bytes);
}

/// What other hosts send: hops, service headers, BFD.
pub fn hops(bytes: &[u8]) {
    any_hops::any_packets(bytes);
}

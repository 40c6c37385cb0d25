//! The options of a rule, one after the other.

mod about;
mod builder;
mod bytes;
mod content;
mod headers;
mod session;
mod verify;

use crate::rules::buffer::Buffer;
use crate::rules::error::{Reason, shown};
use builder::{Reader, Result, named};
use content::MODIFIERS;

pub(super) use builder::Builder;

/// All options but buffers ([`Buffer`] has their names) and [`MODIFIERS`].
const READERS: &[(&str, Reader)] = &[
    ("ack", headers::tcp_ack),
    ("bsize", headers::buffer_len),
    ("byte_jump", bytes::byte_jump),
    ("byte_test", bytes::byte_test),
    ("classtype", about::classtype),
    ("content", content::content),
    ("detection_filter", session::detection_filter),
    ("dsize", headers::payload_len),
    ("file_data", |builder, value| builder.sticky(Buffer::FileData, value)),
    ("flags", headers::tcp_flags),
    ("flow", session::flow),
    ("flowbits", session::flowbits),
    ("gid", about::gid),
    ("icmp_id", headers::icmp_id),
    ("icmp_seq", headers::icmp_seq),
    ("icode", headers::icmp_code),
    ("id", headers::ip_id),
    ("ip_proto", headers::ip_protocol),
    ("isdataat", bytes::isdataat),
    ("itype", headers::icmp_type),
    ("metadata", about::metadata),
    ("msg", about::msg),
    ("noalert", session::noalert),
    ("pcre", content::pcre),
    ("priority", about::priority),
    ("reference", about::reference),
    ("rev", about::rev),
    ("sameip", headers::same_address),
    ("seq", headers::tcp_seq),
    ("sid", about::sid),
    ("tcp.flags", headers::tcp_flags),
    ("threshold", session::threshold),
    ("ttl", headers::ttl),
    ("uricontent", content::uricontent),
    ("urilen", headers::uri_len),
    ("window", headers::tcp_window),
];

/// Reads one option; its errors are reported at the end.
pub(super) fn read(builder: &mut Builder, text: &str) {
    let (name, value) = text.split_once(':').unwrap_or((text, ""));
    let (name, value) = (name.trim(), value.trim());
    if let Err(reason) = read_named(builder, name, value) {
        builder.errors.push(reason);
    }
}

fn read_named(builder: &mut Builder, name: &str, value: &str) -> Result {
    if let Some((_, read)) = READERS.iter().chain(MODIFIERS).find(|(known, _)| *known == name) {
        return read(builder, value).map_err(|reason| named(name, reason));
    }
    let name_is = |known: &str| !known.is_empty() && known == name;
    if let Some(&buffer) = Buffer::ALL.iter().find(|buffer| name_is(buffer.name())) {
        return builder.sticky(buffer, value);
    }
    match Buffer::ALL.iter().find(|buffer| name_is(buffer.modifier())) {
        Some(&buffer) => content::move_to(builder, buffer, value),
        None => Err(Reason::unsupported(shown(name), "no such option is served")),
    }
}

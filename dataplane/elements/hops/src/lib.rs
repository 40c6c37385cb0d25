//! Hops between hosts: a chain goes on in another one.
#![forbid(unsafe_code)]

mod bfd;
mod entropy;
mod hop_decap;
mod hop_encap;
mod inner;
mod metadata;
mod nsh_decap;
mod nsh_encap;
mod nsh_forward;
mod overlay;
#[cfg(test)]
mod tests;
mod underlay;

use thruway_element::Entry;

/// The elements of this topic, sorted by name.
pub static ELEMENTS: &[&Entry] = &[
    &bfd::ENTRY,
    &hop_decap::ENTRY,
    &hop_encap::ENTRY,
    &nsh_decap::ENTRY,
    &nsh_encap::ENTRY,
    &nsh_forward::ENTRY,
];

//! Code shared by elements of several topics.
#![forbid(unsafe_code)]

pub mod call;
pub mod collector;
pub mod dialect;
pub mod durations;
pub mod ewma;
pub mod links;
pub mod marked;
pub mod named_file;
pub mod notice;
pub mod pace;
pub mod random;
pub mod rate;
pub mod reaching;
pub mod text;
pub mod traffic_profile;
pub mod virtio_link;

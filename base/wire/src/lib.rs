//! Header views, checksums, typed parse errors: the formats that packets have on the wire.
//!
//! Every header is a `repr(C)` struct that lies over the bytes of the packet: reading and rewriting
//! copy nothing. [`Header::parse`] checks lengths and versions once; after that no accessor can
//! panic, whatever the bytes. Numbers are host values at the API and network order in memory.
//!
//! ```
//! use thruway_wire::{Header, ethernet::EthernetHeader, ipv4::Ipv4Header};
//!
//! fn hop(frame: &mut [u8]) -> Result<u8, thruway_wire::ParseError> {
//!     let (_, rest) = EthernetHeader::parse_mut(frame)?;
//!     let (ip, _payload) = Ipv4Header::parse_mut(rest)?;
//!     ip.decrement_ttl();
//!     Ok(ip.ttl())
//! }
//! assert!(hop(&mut [0; 20]).is_err());
//! ```
//!
//! Invariants: this crate does no I/O, allocates nothing, knows no packet buffer and no element.
#![forbid(unsafe_code)]

#[macro_use]
mod header;
#[macro_use]
mod icmp_header;
mod error;
mod layers;
mod mac;

pub mod arp;
pub mod bfd;
pub mod checksum;
pub mod dhcp;
pub mod ethernet;
pub mod flow;
pub mod geneve;
pub mod gre;
pub mod gtp;
pub mod icmp;
pub mod icmp_names;
pub mod icmpv6;
pub mod ip_protocol;
pub mod ipv4;
pub mod ipv4_option;
pub mod ipv6;
pub mod ipv6_ext;
pub mod mpls;
pub mod ndp;
pub mod nsh;
pub mod tcp;
pub mod tcp_option;
pub mod udp;
pub mod vlan;
pub mod vxlan;
pub mod vxlan_gpe;

pub use error::{Defect, Layer, ParseError};
pub use header::{Extent, Header};
pub use layers::Layers;
pub use mac::{MacAddr, MacParseError};

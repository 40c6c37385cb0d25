//! Real clients through address translation, a stateful firewall and a load balancer.
//!
//! What must work is a list of trials. The kernel undergoes them first, forwarding by nftables,
//! which shows that the trials ask for nothing odd; then Thruway does, in the same place.

mod balancer;
mod everyday;
mod firewall;
mod forged;
mod lab;
mod nat;
pub mod overload;
mod sockets;
mod strays;

use std::net::{Ipv4Addr, SocketAddrV4};

/// A socket's address.
fn at(address: &str, port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(address.parse::<Ipv4Addr>().expect("an address"), port)
}

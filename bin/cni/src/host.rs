//! Interfaces of the host that are a chain's, and the host's own stack, which is to leave them
//! alone: a pod must reach nothing but the chain, whether the chain runs or not.

use std::io::ErrorKind;

use crate::error::CniError;
use crate::netlink::{Link, RouteSocket, filter};

/// Parameters of an interface, below `/proc/sys/net/PROTOCOL/conf/NAME`.
const PARAMETERS: [(&str, &str, &str); 6] = [
    // No address, and no router of a pod's choice.
    ("ipv6", "disable_ipv6", "1"),
    // Answer no ARP for addresses of the host.
    ("ipv4", "arp_ignore", "8"),
    ("ipv4", "forwarding", "0"),
    // No route leads back by this interface, so nothing is from where it should be.
    ("ipv4", "rp_filter", "1"),
    ("ipv4", "accept_redirects", "0"),
    ("ipv4", "drop_unicast_in_l2_multicast", "1"),
];

/// Keeps the host's stack from an interface as far as parameters can.
///
/// # Errors
/// The system refused it.
pub fn quiet(socket: &mut RouteSocket, link: &Link) -> Result<(), CniError> {
    for (protocol, parameter, value) in PARAMETERS {
        set(protocol, &link.name, parameter, value)?;
    }
    socket
        .set_without_arp(link.index)
        .map_err(|error| CniError::io(format!("interface '{}'", link.name), error))
}

/// Sets a parameter of an interface in this thread's namespace. What a kernel does not have needs
/// no setting.
///
/// # Errors
/// The system refused it.
pub fn set(protocol: &str, name: &str, parameter: &str, value: &str) -> Result<(), CniError> {
    let path = format!("/proc/sys/net/{protocol}/conf/{name}/{parameter}");
    match std::fs::write(&path, value) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(CniError::io(path, error)),
        _ => Ok(()),
    }
}

/// Has the host's stack see nothing of what an interface receives.
///
/// # Errors
/// The kernel refused it.
pub fn shut(name: &str) -> Result<(), CniError> {
    filter::shut(name).map_err(|error| refused(name, error))
}

/// The same if it is not so yet.
///
/// # Errors
/// The kernel refused it.
pub fn keep_shut(name: &str) -> Result<(), CniError> {
    match filter::is_shut(name).map_err(|error| refused(name, error))? {
        true => Ok(()),
        false => shut(name),
    }
}

fn refused(name: &str, error: rustix::io::Errno) -> CniError {
    let why = "the kernel needs nf_tables with the family netdev (CONFIG_NF_TABLES_NETDEV)";
    CniError::io(format!("a filter that keeps the host's stack from '{name}'; {why}"), error)
}

//! How services and servers are written.

use std::net::Ipv4Addr;

use thruway_wire::flow::FiveTuple;
use thruway_wire::ip_protocol::{ICMP, TCP, UDP};

use super::servers::ServerAddress;
use crate::pool::WEIGHT_MAX;

/// Most services of one balancer: each new session is compared with all.
pub(super) const SERVICES_MAX: usize = 64;

/// A virtual address: what clients connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Service {
    pub(super) addr: u32,
    /// `None`: every port.
    pub(super) port: Option<u16>,
    pub(super) protocol: u8,
}

impl Service {
    /// Whether this is the destination of a packet.
    pub(super) fn takes(&self, tuple: &FiveTuple<u32>) -> bool {
        self.addr == tuple.dst
            && self.protocol == tuple.protocol
            && self.port.is_none_or(|port| port == tuple.dst_port)
    }
}

/// Reads an address, which may be a name.
pub(super) type ReadAddr<'a> = dyn Fn(&str) -> Result<Ipv4Addr, String> + 'a;

/// `ADDR[:PORT]`.
fn server_address(text: &str, addr: &ReadAddr<'_>) -> Result<ServerAddress, String> {
    let numbered = text
        .rsplit_once(':')
        .filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()) && !port.is_empty());
    let Some((host, port)) = numbered else {
        return Ok(ServerAddress { addr: addr(text)?.into(), port: None });
    };
    let port: u16 = port
        .parse()
        .ok()
        .filter(|port| *port > 0)
        .ok_or_else(|| format!("'{port}' is no port; it must be from 1 to 65535"))?;
    Ok(ServerAddress { addr: addr(host)?.into(), port: Some(port) })
}

/// `ADDR[:PORT]/PROTOCOL`.
fn service(text: &str, addr: &ReadAddr<'_>) -> Result<Service, String> {
    let (host, protocol) = text
        .rsplit_once('/')
        .ok_or_else(|| format!("'{text}' is no service; write ADDRESS:PORT/tcp or /udp"))?;
    let protocol = match protocol {
        "tcp" => TCP,
        "udp" => UDP,
        "icmp" => ICMP,
        other => return Err(format!("'{other}' is none of tcp, udp and icmp")),
    };
    let ServerAddress { addr, port } = server_address(host, addr)?;
    if protocol == ICMP && port.is_some() {
        return Err(format!("'{text}': ICMP has no ports"));
    }
    Ok(Service { addr, port, protocol })
}

/// Services with spaces between.
pub(super) fn services(text: &str, addr: &ReadAddr<'_>) -> Result<Vec<Service>, String> {
    let services: Vec<Service> =
        text.split_whitespace().map(|word| service(word, addr)).collect::<Result<_, _>>()?;
    if services.len() > SERVICES_MAX {
        return Err(format!("{} services are more than {SERVICES_MAX}", services.len()));
    }
    Ok(services)
}

/// `ADDR[:PORT] [WEIGHT]`; the weight is 1 if it is not given.
pub(super) fn server(text: &str, addr: &ReadAddr<'_>) -> Result<(ServerAddress, u32), String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (host, weight) = match words[..] {
        [host] => (host, "1"),
        [host, weight] => (host, weight),
        _ => return Err(format!("'{text}' is no server; write ADDRESS[:PORT] [WEIGHT]")),
    };
    let weight = weight
        .parse()
        .map_err(|_| format!("'{weight}' is no weight; it must be from 1 to {WEIGHT_MAX}"))?;
    Ok((server_address(host, addr)?, weight))
}

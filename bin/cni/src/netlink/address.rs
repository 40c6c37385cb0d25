//! Addresses and routes.

use std::net::IpAddr;

use rustix::io::Errno;
use thruway_netlink::{CREATE, DUMP, EXCLUSIVE, Message, REQUEST, Result, attributes, number};

use super::socket::Route as Socket;

/// Of rtnetlink(7).
const NEW_ADDRESS: u16 = 20;
const GET_ADDRESS: u16 = 22;
const NEW_ROUTE: u16 = 24;
const GET_ROUTE: u16 = 26;
/// `IFA_ADDRESS`, `IFA_LOCAL`, `IFA_BROADCAST`.
const ADDRESS: u16 = 1;
const LOCAL: u16 = 2;
const BROADCAST: u16 = 4;
/// `IFA_F_NODAD`: the IPAM plugin knows that no other station has the address.
const WITHOUT_DETECTION: u8 = 2;
/// `RTA_...`.
const DESTINATION: u16 = 1;
const OUTPUT: u16 = 4;
const GATEWAY: u16 = 5;
const PRIORITY: u16 = 6;
const METRICS: u16 = 8;
const TABLE: u16 = 15;
/// `RTAX_MTU`, `RTAX_ADVMSS`.
const METRIC_MTU: u16 = 2;
const METRIC_MSS: u16 = 8;
/// `RT_TABLE_MAIN`, `RTPROT_STATIC`, `RT_SCOPE_LINK`, `RTN_UNICAST`.
const TABLE_MAIN: u32 = 254;
const PROTOCOL_STATIC: u8 = 4;
const SCOPE_LINK: u8 = 253;
const TYPE_UNICAST: u8 = 1;
/// Of `struct ifaddrmsg` and `struct rtmsg`.
const ADDRESS_LEN: usize = 8;
const ROUTE_LEN: usize = 12;

/// An address with the length of its network's prefix; or a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// The address.
    pub ip: IpAddr,
    /// Bits of the prefix.
    pub len: u8,
}

impl Address {
    /// The broadcast address of its network, where there is one.
    fn broadcast(&self) -> Option<[u8; 4]> {
        match self.ip {
            IpAddr::V4(ip) if self.len < 31 => {
                let hosts = u32::MAX.checked_shr(u32::from(self.len)).unwrap_or(0);
                Some((ip.to_bits() | hosts).to_be_bytes())
            }
            _ => None,
        }
    }
}

/// A route by one interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The network that it leads to, without host bits.
    pub to: Address,
    /// The router; none for a network on the link.
    pub gateway: Option<IpAddr>,
    /// Its table; the main one if none is given.
    pub table: Option<u32>,
    /// Its metric.
    pub priority: Option<u32>,
    /// Its scope.
    pub scope: Option<u8>,
    /// The longest packet on it, in bytes.
    pub mtu: Option<u32>,
    /// The segment length that TCP announces, in bytes.
    pub mss: Option<u32>,
}

fn family(ip: IpAddr) -> u8 {
    let family = if ip.is_ipv4() { families::INET } else { families::INET6 };
    u8::try_from(family).unwrap_or(0)
}

/// `AF_INET`, `AF_INET6`.
mod families {
    use rustix::net::AddressFamily;

    pub const INET: u16 = AddressFamily::INET.as_raw();
    pub const INET6: u16 = AddressFamily::INET6.as_raw();
}

fn bytes_of(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

fn ip_of(bytes: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from).ok();
    four.or_else(|| <[u8; 16]>::try_from(bytes).map(IpAddr::from).ok())
}

impl Socket {
    /// Gives an interface an address.
    ///
    /// # Errors
    /// It has the address, or its kernel lacks the protocol.
    pub fn add_address(&mut self, index: u32, address: &Address) -> Result<()> {
        let [a, b, c, d] = index.to_ne_bytes();
        let family = family(address.ip);
        let flags = if address.ip.is_ipv6() { WITHOUT_DETECTION } else { 0 };
        let fixed = [family, address.len, flags, 0, a, b, c, d];
        let bytes = bytes_of(address.ip);
        let mut request = Socket::request(NEW_ADDRESS, CREATE | EXCLUSIVE, &fixed)
            .with(LOCAL, &bytes)
            .with(ADDRESS, &bytes);
        if let Some(broadcast) = address.broadcast() {
            request = request.with(BROADCAST, &broadcast);
        }
        self.0.ask(request).map(drop)
    }

    /// The addresses of an interface.
    ///
    /// # Errors
    /// The kernel refused the question.
    pub fn addresses(&mut self, index: u32) -> Result<Vec<Address>> {
        let request = || Message::new(GET_ADDRESS, REQUEST | DUMP, &[0; ADDRESS_LEN]);
        let bodies = self.0.list(request)?;
        let read = |body: &Vec<u8>| {
            let (fixed, rest) = body.split_first_chunk::<ADDRESS_LEN>()?;
            let value = |kind| attributes(rest).find(|(number, _)| *number == kind);
            let (_, ip) = value(LOCAL).or_else(|| value(ADDRESS))?;
            let address = Address { ip: ip_of(ip)?, len: fixed[1] };
            (number(&fixed[4..]) == index).then_some(address)
        };
        Ok(bodies.iter().filter_map(read).collect())
    }

    /// Adds a route by an interface; false if there is one of its destination, table and metric.
    ///
    /// # Errors
    /// The kernel refused it: no network of the interface has its router, say.
    pub fn add_route(&mut self, index: u32, route: &Route) -> Result<bool> {
        let link = if route.gateway.is_none() { SCOPE_LINK } else { 0 };
        let scope = route.scope.unwrap_or(link);
        let family = family(route.to.ip);
        let fixed =
            [family, route.to.len, 0, 0, 0, PROTOCOL_STATIC, scope, TYPE_UNICAST, 0, 0, 0, 0];
        let table = route.table.unwrap_or(TABLE_MAIN);
        let mut request = Socket::request(NEW_ROUTE, CREATE | EXCLUSIVE, &fixed)
            .with(DESTINATION, &bytes_of(route.to.ip))
            .with(OUTPUT, &index.to_ne_bytes())
            .with(TABLE, &table.to_ne_bytes());
        if let Some(gateway) = route.gateway {
            request = request.with(GATEWAY, &bytes_of(gateway));
        }
        if let Some(priority) = route.priority {
            request = request.with(PRIORITY, &priority.to_ne_bytes());
        }
        let metrics = [(METRIC_MTU, route.mtu), (METRIC_MSS, route.mss)];
        if metrics.iter().any(|(_, value)| value.is_some()) {
            request = request.with_nested(METRICS, |inner| {
                let given = metrics.iter().filter_map(|(kind, value)| Some((*kind, (*value)?)));
                given.fold(inner, |inner, (kind, value)| inner.with(kind, &value.to_ne_bytes()))
            });
        }
        match self.0.ask(request) {
            Ok(_) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Destination, router and table of each route by an interface.
    ///
    /// # Errors
    /// The kernel refused the question.
    pub fn routes(&mut self, index: u32) -> Result<Vec<(Address, Option<IpAddr>, u32)>> {
        let request = || Message::new(GET_ROUTE, REQUEST | DUMP, &[0; ROUTE_LEN]);
        let bodies = self.0.list(request)?;
        let read = |body: &Vec<u8>| {
            let (fixed, rest) = body.split_first_chunk::<ROUTE_LEN>()?;
            let value = |kind| {
                let found = attributes(rest).find(|(number, _)| *number == kind);
                found.map(|(_, value)| value)
            };
            let any = match u16::from(fixed[0]) {
                families::INET => IpAddr::from([0; 4]),
                families::INET6 => IpAddr::from([0; 16]),
                _ => return None,
            };
            let ip = value(DESTINATION).map_or(Some(any), ip_of)?;
            let table = value(TABLE).map_or(u32::from(fixed[4]), number);
            let route = (Address { ip, len: fixed[1] }, value(GATEWAY).and_then(ip_of), table);
            (value(OUTPUT).map(number) == Some(index)).then_some(route)
        };
        Ok(bodies.iter().filter_map(read).collect())
    }
}

/// The table of a route that names none.
pub const MAIN: u32 = TABLE_MAIN;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_have_broadcast_addresses() {
        let of = |ip: [u8; 4], len| Address { ip: ip.into(), len }.broadcast();
        assert_eq!(of([10, 1, 2, 3], 24), Some([10, 1, 2, 255]));
        assert_eq!(of([10, 1, 2, 3], 0), Some([255; 4]));
        assert_eq!((of([10, 1, 2, 3], 31), of([10, 1, 2, 3], 32)), (None, None));
    }
}

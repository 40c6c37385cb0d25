//! The servers of a balancer, and the words for how it chooses one.

use std::fmt;
use std::net::Ipv4Addr;

use crate::pool::{Identity, Member, Method, Pool, Ticket};

/// One server.
pub(super) type Server = Member<ServerAddress>;
/// All servers.
pub(super) type Servers = Pool<ServerAddress>;

/// Address and port of a server; without a port packets keep theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ServerAddress {
    pub(super) addr: u32,
    pub(super) port: Option<u16>,
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Ipv4Addr::from(self.addr))?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl Identity for ServerAddress {
    const NOUN: &'static str = "server";

    fn key(&self) -> u64 {
        u64::from(self.addr) << 16 | u64::from(self.port.unwrap_or(0))
    }
}

/// The words for the methods.
pub(super) const METHODS: &[&str] =
    &["round-robin", "weighted", "least-connections", "consistent-hash"];

/// The method of one of [`METHODS`].
pub(super) fn method(word: &str) -> Option<Method> {
    use Method::{ConsistentHash, LeastSessions, RoundRobin, Weighted};
    let at = METHODS.iter().position(|known| *known == word)?;
    [RoundRobin, Weighted, LeastSessions, ConsistentHash].get(at).copied()
}

/// The ticket of the server at this address, for a session that another replica began.
pub(super) fn ticket_of(servers: &Servers, addr: u32, port: Option<u16>) -> Option<Ticket> {
    servers.ticket_of(|server_address| {
        server_address.addr == addr
            && server_address.port.zip(port).is_none_or(|(its, port)| its == port)
    })
}

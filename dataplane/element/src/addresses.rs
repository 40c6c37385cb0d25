//! Names that a configuration declares: for addresses, for ports, and for the shared parts of
//! rewriters.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use thruway_wire::MacAddr;

use crate::prefix::{Ip6Prefix, IpPrefix};

/// Names that AddressInfo gives to addresses, and PortInfo to ports.
#[derive(Debug, Clone, Default)]
pub struct Addresses {
    names: HashMap<String, Named>,
}

/// The meanings of one name.
#[derive(Debug, Clone, Default)]
pub struct Named {
    /// IPv4 address.
    pub ip: Option<Ipv4Addr>,
    /// IPv4 prefix.
    pub prefix: Option<IpPrefix>,
    /// IPv6 address.
    pub ip6: Option<Ipv6Addr>,
    /// IPv6 prefix.
    pub prefix6: Option<Ip6Prefix>,
    /// Ethernet address.
    pub ether: Option<MacAddr>,
    /// Frames of a trust group of isolated functions.
    pub group_frames: Option<u32>,
    /// Where random numbers begin (RandomSeed).
    pub seed: Option<u64>,
    /// TCP port (PortInfo).
    pub tcp: Option<u16>,
    /// UDP port (PortInfo).
    pub udp: Option<u16>,
    /// Pattern of rewriters (IPRewriterPatterns).
    pub pattern: Option<Declared>,
    /// An element that rewriters ask for patterns (RoundRobinIPMapper).
    pub mapper: Option<Declared>,
}

/// A declaration by one element for others to read, in a form known to both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    /// A unique name, under which the shared parts are stored.
    pub owner: String,
    /// Class of the element that declares it.
    pub class: &'static str,
    /// Its texts.
    pub texts: Vec<String>,
}

impl Addresses {
    /// The entry of `name`, made if there is none. Names inside of compound elements are entered
    /// with their full path.
    pub fn entry(&mut self, name: &str) -> &mut Named {
        self.names.entry(name.to_owned()).or_default()
    }

    /// The meaning of `name` as seen from element `from`: the innermost compound's name counts. A
    /// suffix (`:ip`, `:ipnet`, `:ip6`, `:eth`...) is ignored.
    pub fn look_up<T>(
        &self,
        from: &str,
        name: &str,
        pick: impl Fn(&Named) -> Option<T>,
    ) -> Option<T> {
        self.find(from, name.rsplit_once(':').map_or(name, |(bare, _)| bare), pick)
    }

    /// The same of a name without a suffix.
    fn find<T>(&self, from: &str, bare: &str, pick: impl Fn(&Named) -> Option<T>) -> Option<T> {
        let mut scope = from;
        loop {
            scope = scope.rsplit_once('/').map_or("", |(outer, _)| outer);
            let full = if scope.is_empty() { bare.to_owned() } else { format!("{scope}/{bare}") };
            if let Some(found) = self.names.get(&full).and_then(&pick) {
                return Some(found);
            }
            if scope.is_empty() {
                return None;
            }
        }
    }

    /// The IPv4 address `name` as seen from element `from`. `NAME:bcast` is the broadcast address
    /// of its prefix; `NAME:gw` is the address of that very name, or else the first one of the
    /// prefix.
    pub fn ip(&self, from: &str, name: &str) -> Option<Ipv4Addr> {
        let of_prefix = |bits: fn(u32, u32) -> u32| {
            let prefix = self.look_up(from, name, |named| named.prefix)?;
            Some(Ipv4Addr::from(bits(prefix.addr.into(), prefix.mask.into())))
        };
        match suffix(name).as_deref() {
            Some("bcast") => of_prefix(|addr, mask| addr | !mask),
            Some("gw") => self
                .find(from, name, |named| named.ip)
                .or_else(|| of_prefix(|addr, mask| addr & mask | 1)),
            None | Some("ip" | "ip4") => self.look_up(from, name, |named| named.ip),
            Some(_) => None,
        }
    }

    /// The IPv4 prefix `name` as seen from element `from`. As in Click, a name that also denotes an
    /// address means that host, unless its suffix is `:ipnet`, `:ip4net` or `:net`.
    pub fn prefix(&self, from: &str, name: &str) -> Option<IpPrefix> {
        let net = || self.look_up(from, name, |named| named.prefix);
        if matches!(suffix(name).as_deref(), Some("ipnet" | "ip4net" | "net")) {
            return net();
        }
        let host = |addr| IpPrefix { addr, mask: Ipv4Addr::BROADCAST };
        self.ip(from, name).map(host).or_else(|| net().filter(|_| !name.contains(':')))
    }
}

/// The suffix after a name's colon, in lower case.
fn suffix(name: &str) -> Option<String> {
    name.rsplit_once(':').map(|(_, suffix)| suffix.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_of_names() {
        let mut addresses = Addresses::default();
        let named = addresses.entry("foo");
        named.prefix = IpPrefix::parse("1.2.3.4/20");
        named.ip = Some(Ipv4Addr::new(1, 2, 3, 4));
        addresses.entry("net").prefix = IpPrefix::parse("10.0.0.0/8");
        let ip = |name| addresses.ip("x", name).map(|ip| ip.to_string());
        assert_eq!(ip("foo").as_deref(), Some("1.2.3.4"));
        assert_eq!(ip("foo:ip").as_deref(), Some("1.2.3.4"));
        assert_eq!(ip("foo:bcast").as_deref(), Some("1.2.15.255"));
        assert_eq!(ip("foo:gw").as_deref(), Some("1.2.0.1"));
        assert_eq!(ip("net:bcast").as_deref(), Some("10.255.255.255"));
        assert_eq!([ip("foo:IP4"), ip("foo:ip")], [Some("1.2.3.4".into()), ip("foo")]);
        addresses.entry("foo:gw").ip = Some(Ipv4Addr::new(1, 2, 3, 9));
        let ip = |name| addresses.ip("x", name).map(|ip| ip.to_string());
        assert_eq!(ip("foo:gw").as_deref(), Some("1.2.3.9"));
        assert_eq!([ip("net"), ip("foo:eth"), ip("foo:ip6")], [None, None, None]);
        let length = |name| addresses.prefix("x", name).and_then(|prefix| prefix.length());
        assert_eq!([length("foo"), length("foo:ipnet"), length("net")], [32, 20, 8].map(Some));
        assert_eq!([length("foo:ip4net"), length("net:net")], [20, 8].map(Some));
        assert_eq!(length("foo:bcast"), Some(32));
        assert_eq!([length("foo:eth"), length("net:eth"), length("net:ip")], [None; 3]);
    }
}

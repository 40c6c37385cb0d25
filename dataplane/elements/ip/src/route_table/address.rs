//! Addresses as configurations write them.

use std::net::{Ipv4Addr, Ipv6Addr};

use thruway_element::{Env, FromArg, Ip6Prefix, IpPrefix};
use thruway_lpm::{Key, Prefix};

/// An address as configurations write it.
pub(crate) trait Address: Key {
    fn parse(text: &str, env: &Env<'_>) -> Option<Self>;
    fn parse_prefix(text: &str, env: &Env<'_>) -> Option<Prefix<Self>>;
}

impl Address for u32 {
    fn parse(text: &str, env: &Env<'_>) -> Option<u32> {
        Ipv4Addr::from_arg(text, env).ok().map(u32::from)
    }

    fn parse_prefix(text: &str, env: &Env<'_>) -> Option<Prefix<u32>> {
        let prefix = IpPrefix::from_arg(text, env).ok()?;
        Prefix::new(u32::from(prefix.addr), prefix.length()?).ok()
    }
}

impl Address for u128 {
    fn parse(text: &str, env: &Env<'_>) -> Option<u128> {
        Ipv6Addr::from_arg(text, env).ok().map(u128::from)
    }

    fn parse_prefix(text: &str, env: &Env<'_>) -> Option<Prefix<u128>> {
        let prefix = Ip6Prefix::from_arg(text, env).ok()?;
        Prefix::new(u128::from(prefix.addr), prefix.length).ok()
    }
}

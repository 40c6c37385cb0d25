//! Routes as people write them.

use std::fmt;

use thruway_element::{Env, FromArg};
use thruway_lpm::{Key, Prefix, Route};

use super::address::Address;

/// A route as written; a removal may leave the output away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Written<K> {
    pub prefix: Prefix<K>,
    pub gateway: K,
    pub port: Option<u32>,
}

impl<K: Key> Written<K> {
    pub fn of(prefix: Prefix<K>, route: Route<K>) -> Written<K> {
        Written { prefix, gateway: route.gateway, port: Some(route.port) }
    }

    /// Whether a removal written so means this route.
    pub fn means(&self, route: Route<K>) -> bool {
        self.port.is_none_or(|port| route == Route { gateway: self.gateway, port })
    }
}

impl<K: Key> fmt::Display for Written<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gateway = Shown(self.gateway);
        write!(f, "{} {gateway} {}", self.prefix, self.port.map_or(-1, i64::from))
    }
}

/// A gateway, `-` when there is none.
pub(super) struct Shown<K>(pub K);

impl<K: Key> fmt::Display for Shown<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == K::zero() { f.write_str("-") } else { self.0.fmt_address(f) }
    }
}

/// The request of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// A route where there is none yet.
    Add,
    /// A route, whatever there is.
    Set,
    /// No route.
    Remove,
}

impl Change {
    /// The change that handler or command `word` makes.
    pub fn named(word: &str) -> Option<Change> {
        match word {
            "add" => Some(Change::Add),
            "set" => Some(Change::Set),
            "remove" => Some(Change::Remove),
            _ => None,
        }
    }
}

/// The route that `text` says: `ADDR/MASK [GATEWAY] OUTPUT`, the output optional in a removal.
pub(super) fn parse<K: Address>(
    env: &Env<'_>,
    text: &str,
    change: Change,
) -> Result<Written<K>, String> {
    let wrong = || match change {
        Change::Remove => "expected 'ADDR/MASK [GATEWAY OUTPUT]'".to_owned(),
        _ => "expected 'ADDR/MASK [GATEWAY] OUTPUT'".to_owned(),
    };
    let mut words = text.split_ascii_whitespace();
    let prefix = words.next().and_then(|word| K::parse_prefix(word, env)).ok_or_else(wrong)?;
    let mut word = words.next();
    let mut gateway = K::zero();
    match word.map(|word| (word, K::parse(word, env))) {
        Some(("-", _)) => word = words.next(),
        Some((_, Some(addr))) => {
            gateway = addr;
            word = words.next();
        }
        _ => {}
    }
    let port = match word.map(|word| i64::from(i32::from_arg(word, env).unwrap_or(i32::MIN))) {
        None | Some(-1) if change == Change::Remove => None,
        Some(port) if port > i64::from(i32::MIN) => {
            Some(u32::try_from(port).map_err(|_| "bad OUTPUT".to_owned())?)
        }
        _ => return Err(wrong()),
    };
    if words.next().is_some() { Err(wrong()) } else { Ok(Written { prefix, gateway, port }) }
}

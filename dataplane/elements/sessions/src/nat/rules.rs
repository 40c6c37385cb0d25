//! What the arguments say: which sources get which outside addresses, and which outside ports
//! lead inside.

use std::net::Ipv4Addr;

use thruway_element::text::split_words;
use thruway_element::{ArgError, ArgErrors, Args, IpPrefix};

use super::address::WELL_KNOWN_END;
use super::kind::Kind;
use super::ports::Pool;

/// Most outside addresses of one element.
const ADDRESSES_MAX: u32 = 1024;
/// Most rules.
const RULES_MAX: usize = 1024;
/// Ports of a pool where none are written.
const PORTS: (u16, u16) = (WELL_KNOWN_END, 65_535);

/// How sources are written.
const SNAT: &str = "SNAT SOURCES -> ADDRESS[-ADDRESS][:PORT-PORT]";
/// How port forwarding is written.
const DNAT: &str = "DNAT tcp|udp|icmp ADDRESS[:PORT[-PORT]] -> ADDRESS[:PORT[-PORT]]";
/// How exceptions are written.
const KEEP: &str = "KEEP ADDRESSES";

/// The treatment of packets from these inside addresses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source {
    /// The inside addresses.
    pub prefix: IpPrefix,
    /// Number of the pool; `None` to leave them alone.
    pub pool: Option<usize>,
}

/// Outside ports that lead to an inside host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Forward {
    /// The forwarded addresses and ports.
    pub kind: Kind,
    /// Outside address.
    pub addr: u32,
    /// First and last outside port.
    pub ports: (u16, u16),
    /// Inside address.
    pub to: u32,
    /// Inside port of the first one.
    pub to_port: u16,
}

impl Forward {
    /// Rules are sorted by this.
    fn sort_key(&self) -> (u8, u32, u16) {
        (self.kind as u8, self.addr, self.ports.0)
    }

    fn overlaps(&self, other: &Forward) -> bool {
        (self.kind, self.addr) == (other.kind, other.addr)
            && self.ports.0 <= other.ports.1
            && other.ports.0 <= self.ports.1
    }
}

/// All rules.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules {
    /// In order: the first that has an address counts.
    pub sources: Vec<Source>,
    /// Outside addresses; those of different pools have no port in common.
    pub pools: Vec<Pool>,
    /// Sorted; no two overlap. An ICMP query's identifier counts as its port.
    pub forwards: Vec<Forward>,
    /// Runs of outside addresses, of pools and forwards, sorted and apart.
    outside: Vec<(u32, u32)>,
}

impl Rules {
    /// The rule for an inside address.
    pub(super) fn source(&self, addr: u32) -> Option<&Source> {
        self.sources.iter().find(|source| source.prefix.contains(addr.into()))
    }

    /// Whether an address is left alone.
    pub(super) fn keeps(&self, addr: u32) -> bool {
        self.source(addr).is_some_and(|source| source.pool.is_none())
    }

    /// Where packets for an outside address and port go: inside address and port.
    pub(super) fn forward(&self, kind: Kind, addr: u32, port: u16) -> Option<(u32, u16)> {
        let key = (kind as u8, addr, port);
        let before = self.forwards.partition_point(|forward| forward.sort_key() <= key);
        let found = self.forwards.get(before.checked_sub(1)?)?;
        let is_it = (found.kind, found.addr) == (kind, addr) && port <= found.ports.1;
        // Within the range, so it does not overflow.
        is_it.then(|| (found.to, found.to_port + (port - found.ports.0)))
    }

    /// Whether an address is one of the outside ones.
    pub(super) fn is_outside(&self, addr: u32) -> bool {
        let before = self.outside.partition_point(|(first, _)| *first <= addr);
        before > 0 && addr <= self.outside[before - 1].1
    }

    /// Reads them. `own` are addresses of interfaces of this host, with their names.
    ///
    /// # Errors
    /// All that is wrong, each with what to change.
    pub(super) fn parse(args: &Args<'_>, own: &[(String, Ipv4Addr)]) -> Result<Rules, ArgErrors> {
        let mut rules = Rules::default();
        let mut errors = Vec::new();
        if args.rest().len() > RULES_MAX {
            return Err(ArgErrors::whole(format!("there may be {RULES_MAX} rules at most")));
        }
        for (index, text) in args.rest() {
            let words = split_words(text);
            let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
            let done = match words[..] {
                ["SNAT", from, "->", to] => rules.add_pool(args, (from, to), own),
                ["SNAT", ..] => Err(format!("expected {SNAT}")),
                ["KEEP", from] => args.parse(from).and_then(|from| rules.add_source(from, None)),
                ["KEEP", ..] => Err(format!("expected {KEEP}")),
                ["DNAT", kind, at, "->", to] => rules.add_forward(args, kind, (at, to)),
                ["DNAT", ..] => Err(format!("expected {DNAT}")),
                _ => Err(format!("'{text}' is no rule; expected {SNAT}, {DNAT} or {KEEP}")),
            };
            errors.extend(done.err().map(|message| args.rest_error(index, message)));
        }
        rules.sort();
        errors.extend(rules.contradictions(args));
        if errors.is_empty() { Ok(rules) } else { Err(ArgErrors(errors)) }
    }

    /// The preconditions of lookups.
    fn sort(&mut self) {
        self.forwards.sort_unstable_by_key(Forward::sort_key);
        let pools = self.pools.iter().map(|pool| pool.addresses);
        let forwards = self.forwards.iter().map(|forward| (forward.addr, forward.addr));
        let mut runs: Vec<(u32, u32)> = pools.chain(forwards).collect();
        runs.sort_unstable();
        self.outside.clear();
        for (first, last) in runs {
            match self.outside.last_mut() {
                Some((_, end)) if first <= *end => *end = last.max(*end),
                _ => self.outside.push((first, last)),
            }
        }
    }

    fn add_source(&mut self, prefix: IpPrefix, pool: Option<usize>) -> Result<(), String> {
        let bits = |prefix: &IpPrefix| (prefix.addr.to_bits(), prefix.mask.to_bits());
        let (addr, mask) = bits(&prefix);
        let covers = |earlier: &&Source| {
            let (other, wider) = bits(&earlier.prefix);
            wider & mask == wider && (other ^ addr) & wider == 0
        };
        if let Some(earlier) = self.sources.iter().find(covers) {
            return Err(format!(
                "an earlier rule has all of these addresses already ({}/{}); put this one before \
                 it or leave it out",
                earlier.prefix.addr, earlier.prefix.mask
            ));
        }
        self.sources.push(Source { prefix, pool });
        Ok(())
    }

    fn add_pool(
        &mut self,
        args: &Args<'_>,
        (from, to): (&str, &str),
        own: &[(String, Ipv4Addr)],
    ) -> Result<(), String> {
        let prefix: IpPrefix = args.parse(from)?;
        let outside = Endpoint::parse(args, to)?;
        let (first, last) = outside.addresses;
        let taken = own.iter().find(|(_, addr)| (first..=last).contains(&addr.to_bits()));
        if let (Some((name, addr)), None) = (taken, outside.ports) {
            return Err(format!(
                "{addr} is the address of interface '{name}', which uses its ports for its own \
                 connections: name the ports for translation, such as {addr}:61000-65535, or leave \
                 it out"
            ));
        }
        let pool = Pool { addresses: (first, last), ports: outside.ports.unwrap_or(PORTS) };
        if let Some(same) = self.pools.iter().position(|known| *known == pool) {
            return self.add_source(prefix, Some(same));
        }
        let overlaps = |(a, b): (u32, u32), (c, d): (u32, u32)| a <= d && c <= b;
        let wide = |ports: (u16, u16)| (u32::from(ports.0), u32::from(ports.1));
        let clash = |known: &&Pool| {
            overlaps(known.addresses, pool.addresses)
                && overlaps(wide(known.ports), wide(pool.ports))
        };
        if self.pools.iter().any(|known| clash(&known)) {
            return Err(
                "another rule gives out some of these addresses and ports: write the same range in \
                 both, or ranges that have none in common"
                    .into(),
            );
        }
        let threads = args.env().threads.max(1);
        if usize::from(pool.ports.1 - pool.ports.0) + 1 < threads {
            return Err(format!(
                "{threads} threads share these ports: the range must have one for each at least"
            ));
        }
        let count: u32 = self.pools.iter().map(Pool::len).sum();
        if last - first >= ADDRESSES_MAX - count {
            return Err(format!(
                "there may be {ADDRESSES_MAX} outside addresses at most: write a smaller range"
            ));
        }
        self.add_source(prefix, Some(self.pools.len()))?;
        self.pools.push(pool);
        Ok(())
    }

    fn add_forward(
        &mut self,
        args: &Args<'_>,
        kind: &str,
        (at, to): (&str, &str),
    ) -> Result<(), String> {
        let kind = Kind::ALL.into_iter().find(|known| known.name() == kind);
        let kind = kind.ok_or("the protocol must be tcp, udp or icmp")?;
        let at = Endpoint::parse(args, at)?;
        let to = Endpoint::parse(args, to)?;
        for endpoint in [&at, &to] {
            if endpoint.addresses.0 != endpoint.addresses.1 {
                return Err("expected one address on each side of '->', not a range".into());
            }
        }
        if kind == Kind::Icmp && (at.ports.is_some() || to.ports.is_some()) {
            return Err("icmp has no ports: leave them out".into());
        }
        let ports = match kind {
            Kind::Icmp => (0, 65_535),
            _ => at.ports.unwrap_or((1, 65_535)),
        };
        let (first, last) = to.ports.unwrap_or(ports);
        let count = ports.1 - ports.0;
        if last != first && last - first != count {
            return Err(format!(
                "{} outside ports and {} inside ports: write as many on both sides, or the first \
                 one only inside",
                u32::from(count) + 1,
                u32::from(last - first) + 1
            ));
        }
        if u32::from(first) + u32::from(count) > 65_535 {
            return Err("the inside ports would go beyond 65535".into());
        }
        let (addr, to) = (at.addresses.0, to.addresses.0);
        let forward = Forward { kind, addr, ports, to, to_port: first };
        if self.forwards.iter().any(|known| known.overlaps(&forward)) {
            return Err("another DNAT rule has some of these ports already".into());
        }
        self.forwards.push(forward);
        Ok(())
    }

    /// Checks that need all rules.
    fn contradictions(&self, args: &Args<'_>) -> Vec<ArgError> {
        let mut errors = Vec::new();
        if args.rest().len() == 0 {
            errors.extend(ArgErrors::whole(format!("no rule: write {SNAT}, or {DNAT}")).0);
        }
        let to_itself = self.forwards.iter().find(|forward| self.is_outside(forward.to));
        if let Some(forward) = to_itself {
            let to = Ipv4Addr::from_bits(forward.to);
            let is_it = |text: &str| {
                text.trim_start().starts_with("DNAT")
                    && text.split_once("->").is_some_and(|(_, target)| {
                        Endpoint::parse(args, target.trim())
                            .is_ok_and(|endpoint| endpoint.addresses.0 == forward.to)
                    })
            };
            let index = args.rest().find(|(_, text)| is_it(text)).map(|(index, _)| index);
            let message = format!("{to} is an outside address itself: forward to an inside one");
            errors.push(ArgError { index, message });
        }
        errors
    }
}

/// Addresses and ports as written.
struct Endpoint {
    addresses: (u32, u32),
    ports: Option<(u16, u16)>,
}

impl Endpoint {
    /// `ADDRESS[-ADDRESS][:PORT[-PORT]]`.
    fn parse(args: &Args<'_>, text: &str) -> Result<Endpoint, String> {
        let is_ports =
            |tail: &str| tail.starts_with(|c: char| c.is_ascii_digit()) || tail.is_empty();
        let (addresses, ports) = match text.rsplit_once(':') {
            Some((addresses, tail)) if is_ports(tail) => (addresses, Some(tail)),
            _ => (text, None),
        };
        let ends = addresses.split_once('-').unwrap_or((addresses, addresses));
        let (first, last): (Ipv4Addr, Ipv4Addr) = (args.parse(ends.0)?, args.parse(ends.1)?);
        for addr in [first, last] {
            if addr.is_unspecified() || addr.is_multicast() || addr.is_broadcast() {
                return Err(format!("{addr} is not the address of a host"));
            }
        }
        let addresses = (first.to_bits(), last.to_bits());
        if addresses.0 > addresses.1 {
            return Err(format!(
                "the range {first}-{last} is empty: write the lower address first"
            ));
        }
        let ports = ports.map(ports_of).transpose()?;
        Ok(Endpoint { addresses, ports })
    }
}

/// `PORT[-PORT]`.
fn ports_of(text: &str) -> Result<(u16, u16), String> {
    let ends = text.split_once('-').unwrap_or((text, text));
    match (ends.0.parse::<u16>(), ends.1.parse::<u16>()) {
        (Ok(first), Ok(last)) if (1..=last).contains(&first) => Ok((first, last)),
        (Ok(first), Ok(last)) if first > last => {
            Err(format!("the range of ports {text} is empty: write the lower port first"))
        }
        _ => Err(format!("'{text}' are no ports; write PORT or PORT-PORT, from 1 to 65535")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn forward() -> impl Strategy<Value = Forward> {
        let kind = prop_oneof![Just(Kind::Tcp), Just(Kind::Udp)];
        (kind, 0u32..4, 0u16..40, 0u16..12, 60_000u16..65_000).prop_map(
            |(kind, addr, first, more, to_port)| Forward {
                kind,
                addr,
                ports: (first, first + more),
                to: 9,
                to_port,
            },
        )
    }

    proptest! {
        #[test]
        fn finds_what_a_walk_finds(
            all in prop::collection::vec(forward(), 0..20),
            pools in prop::collection::vec((0u32..50, 0u32..9), 0..5),
            port in 0u16..60, addr in 0u32..60,
        ) {
            let mut rules = Rules::default();
            for forward in all {
                if !rules.forwards.iter().any(|known| known.overlaps(&forward)) {
                    rules.forwards.push(forward);
                }
            }
            rules.pools = pools
                .into_iter()
                .map(|(first, more)| Pool { addresses: (first, first + more), ports: PORTS })
                .collect();
            rules.sort();
            for kind in [Kind::Tcp, Kind::Udp] {
                let wanted = rules.forwards.iter().find(|f| {
                    (f.kind, f.addr) == (kind, addr) && (f.ports.0..=f.ports.1).contains(&port)
                });
                let wanted = wanted.map(|f| (f.to, f.to_port + (port - f.ports.0)));
                prop_assert_eq!(rules.forward(kind, addr, port), wanted);
            }
            let wanted = rules.pools.iter().any(|pool| pool.has(addr))
                || rules.forwards.iter().any(|forward| forward.addr == addr);
            prop_assert_eq!(rules.is_outside(addr), wanted);
        }
    }
}

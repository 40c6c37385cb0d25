//! Patterns: what becomes of the flow that a new mapping is made for.

use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;

use thruway_element::{IpPrefix, Names};
use thruway_sync::atomic::{AtomicU32, Ordering};
use thruway_wire::flow::FiveTuple;

use thruway_elements_support::random::Secret;

/// Values of a range that are looked at for one new mapping: with fewer, an exhausted range is soon
/// known; the next mapping goes on where this one stopped.
const TRIES_MAX: u32 = 1024;

/// Which field has a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Range {
    Nothing,
    SourceAddress,
    SourcePort,
}

/// Which value of a range is tried first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    /// That of the packet, if it is one of them; else a random one.
    Own,
    /// A random one.
    Secret,
    /// The one behind that of the last mapping.
    Next,
}

/// A pattern. Replicas of a rewriter, and all elements that name it, share its counter.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    src: Option<u32>,
    src_port: Option<u16>,
    dst: Option<u32>,
    dst_port: Option<u16>,
    range: Range,
    /// The last value of the range, counted from its first.
    top: u32,
    first: First,
    /// Written with ports.
    has_ports: bool,
    next: Arc<AtomicU32>,
}

/// A range's first and last value, and the order of its values.
type Span = ((u32, u32), First);

/// Takes the mark of the order off a range.
fn order(word: &str) -> (&str, First) {
    match word.as_bytes().last() {
        Some(b'#') => (&word[..word.len() - 1], First::Next),
        Some(b'?') => (&word[..word.len() - 1], First::Secret),
        _ => (word, First::Own),
    }
}

/// `L-H`, or a prefix without its first and its last address.
fn address_range(word: &str, names: &Names) -> Option<Span> {
    let (text, first) = order(word);
    let address = |text: &str| names.parse::<Ipv4Addr>(text).ok().map(Ipv4Addr::to_bits);
    if let Some((low, high)) = text.split_once('-') {
        let (low, high) = (address(low)?, address(high)?);
        return (low <= high).then_some(((low, high), first));
    }
    let prefix: IpPrefix = names.parse(text).ok()?;
    let (addr, mask) = (prefix.addr.to_bits(), prefix.mask.to_bits());
    let (low, high) = (addr & mask, addr & mask | !mask);
    if addr == 0 {
        return None;
    }
    match prefix.length()? {
        0 => None,
        32 => Some(((addr, addr), first)),
        31 => Some(((low, high), first)),
        _ => Some(((low + 1, high - 1), first)),
    }
}

fn port_range(word: &str, names: &Names) -> Option<Span> {
    let (text, first) = order(word);
    let (low, high) = text.split_once('-')?;
    let (low, high) = (names.parse::<u16>(low).ok()?, names.parse::<u16>(high).ok()?);
    (low <= high).then_some(((low.into(), high.into()), first))
}

fn port(word: &str, names: &Names) -> Option<u16> {
    names.parse(word).ok().filter(|port| *port > 0)
}

/// A field that is `-` or one value.
fn field<T>(
    word: &str,
    what: &str,
    value: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, String> {
    match word {
        "-" => Ok(None),
        _ => value(word).map(Some).ok_or_else(|| format!("bad {what}")),
    }
}

impl Pattern {
    /// Reads `SADDR DADDR`, `SADDR DADDR SPORT` or `SADDR SPORT DADDR DPORT`; `next` is the counter
    /// of the one of this name, or a new one.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub(super) fn parse(
        words: &[&str],
        names: &Names,
        next: Arc<AtomicU32>,
    ) -> Result<Pattern, String> {
        let (src, src_port, dst, dst_port) = match *words {
            [src, dst] => (src, None, dst, None),
            [src, dst, port] => (src, Some(port), dst, None),
            [src, port, dst, dst_port] => (src, Some(port), dst, Some(dst_port)),
            _ => {
                return Err("syntax error: expected SADDR SPORT DADDR DPORT, or SADDR DADDR for \
                            rewriters of addresses"
                    .to_owned());
            }
        };
        let address = |word: &str| names.parse::<Ipv4Addr>(word).ok().map(Ipv4Addr::to_bits);
        let mut pattern = Pattern {
            src: None,
            src_port: None,
            dst: None,
            dst_port: None,
            range: Range::Nothing,
            top: 0,
            first: First::Own,
            has_ports: src_port.is_some(),
            next,
        };
        let one = |word: &str| address(word).map(|addr| ((addr, addr), First::Own));
        let span = |word: &str| one(word).or_else(|| address_range(word, names));
        if let Some(((low, high), first)) = field(src, "source address", span)? {
            pattern.src = Some(low);
            pattern.set_range(Range::SourceAddress, (low, high), first);
        }
        let one =
            |word: &str| port(word, names).map(|port| ((port.into(), port.into()), First::Own));
        let span = |word: &str| one(word).or_else(|| port_range(word, names));
        if let Some(((low, high), first)) = field(src_port.unwrap_or("-"), "source port", span)? {
            pattern.src_port = u16::try_from(low).ok();
            if pattern.range != Range::Nothing {
                return Err("bad source address: there may be one range, of addresses or of ports"
                    .to_owned());
            }
            pattern.set_range(Range::SourcePort, (low, high), first);
        }
        pattern.dst = field(dst, "destination address", address)?;
        let dst_port = dst_port.unwrap_or("-");
        pattern.dst_port = field(dst_port, "destination port", |word| port(word, names))?;
        Ok(pattern)
    }

    fn set_range(&mut self, range: Range, (low, high): (u32, u32), first: First) {
        if high > low {
            (self.range, self.top, self.first) = (range, high - low, first);
        }
    }

    /// Whether it was written with ports.
    pub(super) fn has_ports(&self) -> bool {
        self.has_ports
    }

    /// What `flow` becomes; `None` where every value of the range that was looked at is taken:
    /// `is_taken` says so of the flow that would come of it.
    pub(super) fn choose(
        &self,
        flow: &FiveTuple<u32>,
        random: &mut Secret,
        mut is_taken: impl FnMut(&FiveTuple<u32>) -> bool,
    ) -> Option<FiveTuple<u32>> {
        let mut to = FiveTuple {
            src: self.src.unwrap_or(flow.src),
            dst: self.dst.unwrap_or(flow.dst),
            src_port: self.src_port.unwrap_or(flow.src_port),
            dst_port: self.dst_port.unwrap_or(flow.dst_port),
            protocol: flow.protocol,
        };
        if self.range == Range::Nothing {
            return Some(to);
        }
        let mut is_free = |value: u32| {
            match self.range {
                Range::SourcePort => to.src_port = (u32::from(self.base_port()) + value) as u16,
                _ => to.src = self.src.unwrap_or(0) + value,
            }
            !is_taken(&to)
        };
        let found = self.own(flow).filter(|own| is_free(*own)).or_else(|| {
            let begin = match self.first {
                First::Next => Some(self.next.load(Ordering::Relaxed)),
                _ => None,
            };
            let begin = begin.map(|next| if next > self.top { 0 } else { next });
            let begin = begin.unwrap_or_else(|| random.below(u64::from(self.top) + 1) as u32);
            let turn = |step: u32| (u64::from(begin) + u64::from(step)) % (u64::from(self.top) + 1);
            let tries = TRIES_MAX.min(self.top.saturating_add(1));
            let found = (0..tries).map(|step| turn(step) as u32).find(|value| is_free(*value));
            // Where nothing is found the next one goes on behind what was looked at.
            let last = found.unwrap_or_else(|| turn(tries - 1) as u32);
            self.next.store(last + 1, Ordering::Relaxed);
            found
        })?;
        match self.range {
            Range::SourcePort => to.src_port = (u32::from(self.base_port()) + found) as u16,
            _ => to.src = self.src.unwrap_or(0) + found,
        }
        Some(to)
    }

    fn base_port(&self) -> u16 {
        self.src_port.unwrap_or(0)
    }

    /// The packet's own port, if it is preferred and in the range.
    fn own(&self, flow: &FiveTuple<u32>) -> Option<u32> {
        if (self.range, self.first) != (Range::SourcePort, First::Own) {
            return None;
        }
        let value = u32::from(flow.src_port).checked_sub(self.base_port().into())?;
        (value <= self.top).then_some(value)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = |addr: Option<u32>| match addr {
            Some(addr) => Ipv4Addr::from_bits(addr).to_string(),
            None => "-".to_owned(),
        };
        let port = |port: Option<u16>| port.map_or_else(|| "-".to_owned(), |port| port.to_string());
        f.write_str(&address(self.src))?;
        if self.range == Range::SourceAddress {
            write!(f, "-{}", address(self.src.map(|first| first + self.top)))?;
        }
        if self.has_ports {
            write!(f, " {}", port(self.src_port))?;
        }
        if self.range == Range::SourcePort {
            write!(f, "-{}", u32::from(self.base_port()) + self.top)?;
        }
        write!(f, " {}", address(self.dst))?;
        if self.has_ports {
            write!(f, " {}", port(self.dst_port))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn pattern(text: &str) -> Result<Pattern, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        Pattern::parse(&words, &Names::default(), Arc::default())
    }

    fn flow(src: u32, src_port: u16) -> FiveTuple<u32> {
        FiveTuple { src, src_port, dst: 9, dst_port: 53, protocol: 17 }
    }

    #[test]
    fn patterns_are_read_and_shown() {
        for (text, shown) in [
            ("1.0.0.1 1 - -", "1.0.0.1 1 - -"),
            ("1.0.0.1 1-65535 - -", "1.0.0.1 1-65535 - -"),
            ("- 1024-65535# 2.0.0.2 80", "- 1024-65535 2.0.0.2 80"),
            ("- - - -", "- - - -"),
            ("1.0.0.1 -", "1.0.0.1 -"),
            ("1.0.0.1/24 -", "1.0.0.1-1.0.0.254 -"),
            ("1.0.0.1/8? 3.0.0.3", "1.0.0.1-1.255.255.254 3.0.0.3"),
            ("1.0.0.6/31 -", "1.0.0.6-1.0.0.7 -"),
            ("1.0.0.6/32 -", "1.0.0.6 -"),
            ("2.0.0.2 - 0-65535", "2.0.0.2 0-65535 - -"),
            ("2.0.0.2 - 7-7#", "2.0.0.2 7 - -"),
        ] {
            assert_eq!(pattern(text).unwrap().to_string(), shown, "{text}");
        }
        for (text, wrong) in [
            ("1.0.0.1 1x - -", "source port"),
            ("1.0.0.1 456-19 - -", "source port"),
            ("1.0.0.1 456-65536 - -", "source port"),
            ("1.0.0.1 0 - -", "source port"),
            ("1.0.0.x -", "source address"),
            ("1.255.0.0-1.0.255.255 -", "source address"),
            ("1.0.0.0/0 -", "source address"),
            ("1.0.0.1-1.0.0.9 1-9 - -", "source address"),
            ("- - 1.0.0 -", "destination address"),
            ("- - - 1-2", "destination port"),
            ("1.0.0.1", "syntax error"),
            ("- - - - -", "syntax error"),
        ] {
            let error = pattern(text).unwrap_err();
            assert!(error.contains(wrong), "{text}: {error}");
        }
    }

    #[test]
    fn numbers_follow_each_other_and_begin_again() {
        let pattern = pattern("1.0.0.1 1024-1026# - -").unwrap();
        let mut random = Secret::from_seed(1);
        let mut ports = || pattern.choose(&flow(5, 1025), &mut random, |_| false).unwrap().src_port;
        assert_eq!([ports(), ports(), ports(), ports()], [1024, 1025, 1026, 1024]);
    }

    #[test]
    fn the_own_port_comes_first_unless_forbidden() {
        let mut random = Secret::from_seed(1);
        let mut port_of = |text: &str, taken: &[u16]| {
            let is_taken = |to: &FiveTuple<u32>| taken.contains(&to.src_port);
            let to = pattern(text).unwrap().choose(&flow(5, 5000), &mut random, is_taken);
            to.map(|to| to.src_port)
        };
        assert_eq!(port_of("1.0.0.1 1024-65535 - -", &[]), Some(5000));
        assert_ne!(port_of("1.0.0.1 1024-65535 - -", &[5000]), Some(5000));
        assert_ne!(port_of("1.0.0.1 1024-65535? - -", &[]), Some(5000));
        assert_eq!(port_of("1.0.0.1 6000-6001 - -", &[6000]), Some(6001));
        assert_eq!(port_of("1.0.0.1 6000-6001 - -", &[6000, 6001]), None);
        assert_eq!(port_of("1.0.0.1 - - -", &[5000]), Some(5000));
    }

    #[test]
    fn a_large_range_is_gone_through_a_part_at_a_time() {
        let pattern = pattern("1.0.0.1 1-65535# - -").unwrap();
        let mut random = Secret::from_seed(1);
        let mut tries = 0;
        let mut port = None;
        while port.is_none() {
            tries += 1;
            let found = pattern.choose(&flow(5, 1), &mut random, |to| to.src_port != 60_000);
            port = found.map(|to| to.src_port);
        }
        assert_eq!((port, tries), (Some(60_000), 60_000_u32.div_ceil(TRIES_MAX)));
    }

    proptest! {
        /// Against the plain reading: every field is the pattern's or the packet's own, what is
        /// chosen is of the range and free, and nothing is refused while something is free.
        #[test]
        fn what_is_chosen_is_free_and_nothing_free_is_refused(
            low in 1u16..65_000, len in 1u16..40, mark in prop_oneof![Just(""), Just("#"), Just("?")],
            src in any::<u32>(), own in any::<u16>(), near in any::<bool>(), seed in any::<u64>(),
            rest in prop_oneof![Just("- -"), Just("7.7.7.7 -"), Just("- 99"), Just("7.7.7.7 99")],
        ) {
            let high = low.saturating_add(len);
            let pattern = pattern(&format!("9.9.9.9 {low}-{high}{mark} {rest}")).unwrap();
            let own = if near { low.saturating_add(own % 50) } else { own };
            let mut random = Secret::from_seed(seed);
            let mut taken = HashSet::new();
            for n in 0..=u32::from(high - low) + 1 {
                let from = flow(src, own);
                let to = pattern.choose(&from, &mut random, |to| taken.contains(&to.src_port));
                let all_taken = n > u32::from(high - low);
                prop_assert_eq!(to.is_none(), all_taken);
                let Some(to) = to else { break };
                prop_assert!((low..=high).contains(&to.src_port));
                prop_assert!(taken.insert(to.src_port));
                prop_assert_eq!(to.src, 0x0909_0909);
                prop_assert_eq!(to.dst, if rest.starts_with('7') { 0x0707_0707 } else { from.dst });
                prop_assert_eq!(to.dst_port, if rest.ends_with("99") { 99 } else { from.dst_port });
                if n == 0 && mark.is_empty() && (low..=high).contains(&own) {
                    prop_assert_eq!(to.src_port, own);
                }
            }
        }

        #[test]
        fn any_words_are_read_or_refused(text in "([-0-9./#?a-z]{1,12} ){0,6}") {
            if let Ok(read) = pattern(&text) {
                prop_assert!(read.choose(&flow(1, 1), &mut Secret::from_seed(1), |_| false).is_some());
            }
        }
    }
}

//! Which sessions a listing shows: `proto tcp src 10.0.0.0/8 dport 80 state open`.

use std::net::IpAddr;

use crate::life::Phase;
use crate::manager::list::{Ends, Flow, PHASES, protocol_name};

/// The properties that a session must have, all of them. The default filter accepts all sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    protocol: Option<String>,
    src: Option<(IpAddr, u8)>,
    dst: Option<(IpAddr, u8)>,
    src_port: Option<u16>,
    dst_port: Option<u16>,
    phase: Option<Phase>,
    session: Option<String>,
}

const EXPECTED: &str = "expected proto NAME, src ADDRESS[/BITS], dst ADDRESS[/BITS], sport PORT, \
                        dport PORT, state new|open|closing|closed, session NAME";

impl Filter {
    /// Reads a filter: pairs of words, in any order; nothing takes all.
    ///
    /// # Errors
    /// The wrong word, and the permitted ones.
    pub fn parse(text: &str) -> Result<Filter, String> {
        let mut filter = Filter::default();
        let mut words = text.split_whitespace();
        while let Some(name) = words.next() {
            let value =
                words.next().ok_or_else(|| format!("'{name}' lacks a value; {EXPECTED}"))?;
            filter.set(name, value)?;
        }
        Ok(filter)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let port = || value.parse().map_err(|_| format!("'{value}' is no port"));
        match name {
            "proto" => self.protocol = Some(value.to_ascii_lowercase()),
            "src" => self.src = Some(prefix(value)?),
            "dst" => self.dst = Some(prefix(value)?),
            "sport" => self.src_port = Some(port()?),
            "dport" => self.dst_port = Some(port()?),
            "state" => {
                let phase = PHASES.iter().find(|(_, name)| *name == value);
                let phase = phase.ok_or_else(|| format!("'{value}' is no state; {EXPECTED}"))?;
                self.phase = Some(phase.0);
            }
            "session" => self.session = Some(value.to_owned()),
            _ => return Err(format!("'{name}' is no filter; {EXPECTED}")),
        }
        Ok(())
    }

    /// Whether a session is to be shown: one of its two directions has the ends that are wanted.
    pub fn takes(&self, flow: &Flow<'_>) -> bool {
        let named = |protocol: u8, name: &String| {
            *name == protocol_name(protocol).to_ascii_lowercase() || *name == protocol.to_string()
        };
        let protocol = self
            .protocol
            .as_ref()
            .is_none_or(|name| flow.forward.protocol.is_some_and(|protocol| named(protocol, name)));
        protocol
            && self.phase.is_none_or(|phase| phase == flow.phase)
            && self.session.as_ref().is_none_or(|name| *name == flow.session)
            && (self.meets(&flow.forward) || flow.reply.is_some_and(|reply| self.meets(&reply)))
    }

    fn meets(&self, ends: &Ends) -> bool {
        within(self.src, ends.src)
            && within(self.dst, ends.dst)
            && self.src_port.is_none_or(|port| ends.src_port == Some(port))
            && self.dst_port.is_none_or(|port| ends.dst_port == Some(port))
    }
}

fn prefix(text: &str) -> Result<(IpAddr, u8), String> {
    let (address, bits) = text.split_once('/').map_or((text, None), |(a, bits)| (a, Some(bits)));
    let wrong = || format!("'{text}' is no address or prefix such as 10.0.0.0/8");
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let longest = if address.is_ipv4() { 32 } else { 128 };
    let bits = match bits {
        None => longest,
        Some(bits) => bits.parse().ok().filter(|bits| *bits <= longest).ok_or_else(wrong)?,
    };
    Ok((address, bits))
}

/// An address as 128 bits, its first at the top.
fn bits_of(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn within(wanted: Option<(IpAddr, u8)>, address: Option<IpAddr>) -> bool {
    let Some((prefix, bits)) = wanted else { return true };
    let Some(address) = address.filter(|address| address.is_ipv4() == prefix.is_ipv4()) else {
        return false;
    };
    let differ = bits_of(prefix) ^ bits_of(address);
    bits == 0 || differ >> (128 - u32::from(bits)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn flow() -> Flow<'static> {
        let ends = |src: &str, dst: &str, src_port, dst_port| Ends {
            src: src.parse().ok(),
            dst: dst.parse().ok(),
            src_port: Some(src_port),
            dst_port: Some(dst_port),
            protocol: Some(6),
        };
        Flow {
            session: "connection".into(),
            phase: Phase::Open,
            forward: ends("10.0.0.1", "192.0.2.1", 1000, 80),
            reply: Some(ends("192.0.2.1", "198.51.100.1", 80, 61_000)),
            idle_s: 1,
            left_s: 2,
            class: "",
        }
    }

    #[test]
    fn filters_take_what_they_say() {
        for (text, wanted) in [
            ("", true),
            ("proto tcp src 10.0.0.0/8 dport 80 state open session connection", true),
            ("proto TCP", true),
            ("proto 6 sport 1000", true),
            ("proto udp", false),
            ("dst 198.51.100.1 sport 80", true),
            // One direction must have both.
            ("src 10.0.0.1 sport 80", false),
            ("src 0.0.0.0/0", true),
            ("src ::/0", false),
            ("src 10.0.0.2", false),
            ("state new", false),
        ] {
            assert_eq!(Filter::parse(text).unwrap().takes(&flow()), wanted, "{text}");
        }
    }

    #[test]
    fn mistakes_are_reported() {
        for (text, wanted) in [
            ("colour red", "is no filter"),
            ("proto", "lacks a value"),
            ("src 10.0.0.0/33", "no address or prefix"),
            ("src ten", "no address or prefix"),
            ("dport 70000", "no port"),
            ("state asleep", "no state"),
        ] {
            assert!(Filter::parse(text).unwrap_err().contains(wanted), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[a-z0-9 /.:]{0,40}|.{0,20}") {
            if let Ok(filter) = Filter::parse(&text) {
                filter.takes(&flow());
            }
        }
    }
}

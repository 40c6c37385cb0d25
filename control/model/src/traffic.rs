//! Traffic that is only described: sorts of flows, in TOML.

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::path::Path;

use serde::Deserialize;
use thruway_element::IpPrefix;

/// Packets that stand for all of them.
const PACKETS: u32 = 8192;
/// What Ethernet, IPv4 and UDP take of a frame; TCP takes 12 bytes more.
const HEADERS: u32 = 14 + 20 + 8;

/// What comes in.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// Sorts of flows.
    pub flows: Vec<Flows>,
}

/// A sort of flows.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flows {
    /// Packets of this sort, in proportion to the other sorts' numbers.
    #[serde(default = "one")]
    pub share: f64,
    /// Bytes of a frame, Ethernet header included.
    #[serde(default = "short")]
    pub packet_bytes: u32,
    /// Different flows; their packets come in turn.
    #[serde(default = "few")]
    pub sessions: u32,
    /// `udp` or `tcp`.
    #[serde(default = "udp")]
    pub protocol: String,
    /// Prefix of source addresses.
    #[serde(default = "inside")]
    pub src: String,
    /// Prefix of destination addresses.
    pub dst: String,
    /// Destination port.
    #[serde(default = "web")]
    pub port: u16,
}

fn one() -> f64 {
    1.0
}
fn short() -> u32 {
    64
}
fn few() -> u32 {
    1000
}
fn udp() -> String {
    "udp".into()
}
fn inside() -> String {
    "10.0.0.0/8".into()
}
fn web() -> u16 {
    443
}

/// Why a description is not used.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {why}")]
pub struct TrafficError {
    /// Which file.
    pub path: String,
    /// What is wrong and what to do.
    pub why: String,
}

/// A sort of flows, checked.
struct Sort<'a> {
    flows: &'a Flows,
    src: IpPrefix,
    dst: IpPrefix,
    packets: u32,
}

impl Description {
    /// Reads a description.
    ///
    /// # Errors
    /// When the file cannot be read, is none, or says what cannot be.
    pub fn load(path: &Path) -> Result<Description, TrafficError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| TrafficError { path: name.clone(), why: error.to_string() })?;
        Description::parse(&name, &text)
    }

    /// The same of a text; `path` is what errors call it.
    ///
    /// # Errors
    /// As [`Description::load`].
    pub fn parse(path: &str, text: &str) -> Result<Description, TrafficError> {
        let wrong = |why: String| TrafficError { path: path.to_owned(), why };
        let description: Description =
            toml::from_str(text).map_err(|error| wrong(error.to_string().trim_end().to_owned()))?;
        if description.flows.is_empty() {
            return Err(wrong("no flows: describe at least one sort in a [[flows]] table".into()));
        }
        description.sorts().map_err(wrong)?;
        Ok(description)
    }

    /// Bytes of a frame, on average.
    pub fn packet_bytes(&self) -> f64 {
        let sum: f64 = self.flows.iter().map(|it| it.share).sum();
        self.flows.iter().map(|it| it.share * f64::from(it.packet_bytes)).sum::<f64>() / sum
    }

    /// Sessions.
    pub fn sessions(&self) -> f64 {
        self.flows.iter().map(|it| f64::from(it.sessions)).sum()
    }

    /// Packets as lines that FromIPSummaryDump reads, the types mixed by their shares throughout.
    /// Where there are more sessions than packets these are some of them.
    ///
    /// # Panics
    /// Never of a description that was parsed.
    pub fn lines(&self) -> String {
        let mut text =
            "!data ip_src sport ip_dst dport ip_proto ip_ttl payload_len tcp_flags\n".to_owned();
        let sorts = self.sorts().unwrap_or_default();
        let mut given = vec![0; sorts.len()];
        // The type with the earliest next packet: the n-th of N is due at n/N of the total.
        let due = |given: &[u32]| {
            let left = sorts.iter().zip(given).enumerate();
            let left = left.filter(|(_, (sort, given))| **given < sort.packets);
            let position = |(at, (sort, given)): (usize, (&Sort<'_>, &u32))| {
                (at, (f64::from(*given) + 0.5) / f64::from(sort.packets))
            };
            left.map(position).min_by(|one, other| one.1.total_cmp(&other.1)).map(|(at, _)| at)
        };
        while let Some(at) = due(&given) {
            sorts[at].write(given[at], &mut text);
            given[at] += 1;
        }
        text
    }

    fn sorts(&self) -> Result<Vec<Sort<'_>>, String> {
        let sum: f64 = self.flows.iter().map(|it| it.share).sum();
        let numbered = self.flows.iter().enumerate();
        numbered
            .map(|(at, flows)| {
                Sort::of(flows, sum).map_err(|why| format!("flows {}: {why}", at + 1))
            })
            .collect()
    }
}

impl Sort<'_> {
    fn of(flows: &Flows, sum: f64) -> Result<Sort<'_>, String> {
        let prefix = |field: &str, text: &str| {
            IpPrefix::parse(text).ok_or_else(|| {
                format!("{field} = \"{text}\" is not an IP prefix; write ADDRESS/LENGTH")
            })
        };
        if !(flows.share > 0.0 && flows.share.is_finite()) {
            return Err(format!("share = {}: give a number above 0", flows.share));
        }
        if flows.sessions == 0 {
            return Err("sessions = 0: give at least 1".into());
        }
        if !(64..=9018).contains(&flows.packet_bytes) {
            let bytes = flows.packet_bytes;
            return Err(format!("packet_bytes = {bytes}: give a frame's bytes, 64 to 9018"));
        }
        if !["udp", "tcp"].contains(&flows.protocol.as_str()) {
            return Err(format!("protocol = \"{}\": write \"udp\" or \"tcp\"", flows.protocol));
        }
        let packets = (f64::from(PACKETS) * flows.share / sum).ceil() as u32;
        let (src, dst) = (prefix("src", &flows.src)?, prefix("dst", &flows.dst)?);
        Ok(Sort { flows, src, dst, packets })
    }

    /// One packet, by its number within the sort.
    fn write(&self, packet: u32, text: &mut String) {
        let flows = self.flows;
        let (letter, headers, flags) =
            if flows.protocol == "tcp" { ('T', HEADERS + 12, "PA") } else { ('U', HEADERS, "-") };
        let payload = flows.packet_bytes - headers;
        let session = packet % flows.sessions;
        let (src, dst) = (address(&self.src, session), address(&self.dst, session));
        let port = 1024 + session % 60_000;
        // Writing to a String does not fail.
        let _ = writeln!(text, "{src} {port} {dst} {} {letter} 64 {payload} {flags}", flows.port);
    }
}

/// An address of a prefix, others for other numbers as far as there are any; the first and the last
/// of a net are nobody's.
fn address(prefix: &IpPrefix, number: u32) -> Ipv4Addr {
    let mask = u32::from(prefix.mask);
    let room = (!mask).saturating_sub(1);
    let host = if room == 0 { u32::from(prefix.addr) & !mask } else { 1 + spread(number) % room };
    Ipv4Addr::from(u32::from(prefix.addr) & mask | host)
}

/// Neighbouring numbers far apart (a bijection: Knuth's multiplicative hashing).
fn spread(number: u32) -> u32 {
    number.wrapping_mul(2_654_435_761)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> String {
        Description::parse("t.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn sorts_of_flows_become_packets() {
        let text = "[[flows]]\nshare = 3\ndst = \"203.0.113.0/24\"\nsessions = 10\n\
                    [[flows]]\ndst = \"198.51.100.7/32\"\nprotocol = \"tcp\"\npacket_bytes = 1514\n";
        let traffic = Description::parse("t.toml", text).unwrap();
        assert_eq!((traffic.packet_bytes(), traffic.sessions()), (426.5, 1010.0));
        let lines = traffic.lines();
        let of = |letter: &str| lines.lines().filter(|line| line.contains(letter)).count() as u32;
        assert_eq!((of(" U "), of(" T ")), (PACKETS * 3 / 4, PACKETS / 4));
        assert!(lines.lines().any(|line| line.contains(" 198.51.100.7 443 T 64 1460 PA")));
        let sources: std::collections::BTreeSet<&str> = lines
            .lines()
            .filter(|line| line.contains(" U "))
            .filter_map(|line| line.split(' ').next())
            .collect();
        assert_eq!(sources.len(), 10);
        // Any part of them has its share of each.
        let letters: Vec<char> = lines
            .lines()
            .skip(1)
            .map(|line| if line.contains(" T ") { 'T' } else { 'U' })
            .collect();
        for part in letters.chunks_exact(64) {
            let of_tcp = part.iter().filter(|letter| **letter == 'T').count();
            assert!((15..=17).contains(&of_tcp), "{part:?}");
        }
    }

    #[test]
    fn what_cannot_be_is_named() {
        let flows = |more: &str| format!("[[flows]]\ndst = \"203.0.113.0/24\"\n{more}\n");
        assert!(wrong("").contains("missing field `flows`"));
        assert!(wrong("flows = []").contains("at least one sort"));
        assert!(wrong(&flows("sessions = 0")).contains("flows 1: sessions = 0"));
        assert!(wrong(&flows("packet_bytes = 20")).contains("64 to 9018"));
        assert!(wrong(&flows("share = -1")).contains("above 0"));
        assert!(wrong(&flows("protocol = \"icmp\"")).contains("write \"udp\" or \"tcp\""));
        assert!(wrong("[[flows]]\ndst = \"x\"").contains("dst = \"x\" is not an IP prefix"));
    }
}

//! Names of ports.

use std::collections::HashMap;
use std::io::Read as _;

use thruway_element::{Names, UdpPort};
use thruway_flow::Names as _;
use thruway_wire::ip_protocol;

/// The host's list, as services(5) has it, and how much of it is read, bytes.
const LIST: &str = "/etc/services";
const LIST_MAX: u64 = 1 << 20;

/// The numbers of port names: those of the configuration, then those of the host.
pub(super) struct Services {
    names: Names,
    /// By name and protocol.
    host: HashMap<(String, u8), u16>,
}

impl Services {
    pub(super) fn new(names: Names) -> Services {
        Services { names, host: HashMap::new() }
    }

    /// Reads the host's list, if it has one.
    pub(super) fn load(&mut self) {
        let mut text = String::new();
        let read =
            std::fs::File::open(LIST).map(|file| file.take(LIST_MAX).read_to_string(&mut text));
        if matches!(read, Ok(Ok(_))) {
            self.add(&text);
        }
    }

    /// Adds the lines `NAME PORT/PROTOCOL [ALIAS...]`.
    fn add(&mut self, text: &str) {
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or("");
            let mut words = line.split_whitespace();
            let (Some(name), Some(position)) = (words.next(), words.next()) else { continue };
            let Some((port, protocol)) = position.split_once('/') else { continue };
            let protocol = match protocol {
                "tcp" => ip_protocol::TCP,
                "udp" => ip_protocol::UDP,
                _ => continue,
            };
            let Ok(port) = port.parse() else { continue };
            for name in std::iter::once(name).chain(words) {
                self.host.entry((name.to_owned(), protocol)).or_insert(port);
            }
        }
    }

    /// The port of this number or name.
    pub(super) fn port(&self, text: &str, protocol: u8) -> Option<u16> {
        if text.starts_with(|c: char| c.is_ascii_digit())
            && let Ok(port) = text.parse()
        {
            return Some(port);
        }
        let named = match protocol {
            ip_protocol::UDP => self.names.parse::<UdpPort>(text).ok().map(|port| port.0),
            _ => self.names.port(text),
        };
        let of = |protocol| self.host.get(&(text.to_owned(), protocol)).copied();
        // A service may be listed under one of them only.
        let either = || of(ip_protocol::TCP).or_else(|| of(ip_protocol::UDP));
        named.or_else(|| of(protocol)).or_else(either)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_listed_names() {
        let mut services = Services::new(Names::default());
        services.add("ssh 22/tcp # remote\n\nhttp\t80/tcp www\nntp 123/udp\nbad\nworse x/tcp\n");
        let port = |name, protocol| services.port(name, protocol);
        assert_eq!(port("8080", 6), Some(8080));
        assert_eq!([port("ssh", 6), port("www", 6), port("ntp", 17)], [22, 80, 123].map(Some));
        assert_eq!(port("ssh", 17), Some(22));
        assert_eq!([port("bad", 6), port("99999", 6), port("", 6)], [None; 3]);
    }
}

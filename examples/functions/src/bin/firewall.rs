//! A firewall that looks at headers only: drops TCP and UDP packets to given ports.
//!
//! `Nf(EXEC "firewall 23 445")`
//!
//! IPv4 only; what it does not understand passes. Of a fragmented packet it sees the ports in the
//! first fragment alone, and that is the one it drops: without it the rest is useless.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use thruway_nf::{Batch, Config, Verdict};

/// Destination port of a TCP or UDP packet in an Ethernet frame.
fn port(frame: &[u8]) -> Option<u16> {
    let ip = frame.strip_prefix(frame.get(..12)?)?.strip_prefix(&[0x08, 0x00])?;
    let header_len = usize::from(ip.first()? & 15) * 4;
    let is_version_4 = ip.first()? >> 4 == 4 && header_len >= 20;
    let is_first = u16::from_be_bytes([*ip.get(6)?, *ip.get(7)?]) & 0x1fff == 0;
    let has_ports = matches!(ip.get(9)?, 6 | 17);
    if !(is_version_4 && is_first && has_ports) {
        return None;
    }
    let transport = ip.get(header_len..)?;
    Some(u16::from_be_bytes([*transport.get(2)?, *transport.get(3)?]))
}

fn main() -> ExitCode {
    let config = Config { name: "firewall", ..Config::DEFAULT };
    thruway_nf::run(&config, |start| {
        let mut blocked = vec![false; 1 << 16];
        for word in std::env::args().skip(1) {
            let port: u16 = word.parse().map_err(|_| format!("'{word}' is not a port"))?;
            blocked[usize::from(port)] = true;
        }
        let dropped = start.counter("dropped");
        Ok(move |batch: &mut Batch<'_>| {
            batch.each(|packet| match port(packet.bytes()) {
                Some(port) if blocked[usize::from(port)] => {
                    dropped.add(1);
                    Verdict::Drop
                }
                _ => Verdict::Next(0),
            });
        })
    })
}

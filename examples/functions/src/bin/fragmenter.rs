//! Cuts IPv4 packets that are longer than a link's MTU into fragments (RFC 791, section 3.2): the
//! fragments are packets made in consequence of the long one, which is dropped.
//!
//! `Nf(EXEC "fragmenter 576")`. Packets that must not be fragmented are dropped and counted.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use thruway_nf::{Batch, Config, Packet, Verdict};

const ETHERNET_LEN: usize = 14;
const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;

/// The options of later fragments: those with the `copied` bit, padded (section 3.1).
fn copied(mut options: &[u8]) -> Vec<u8> {
    let mut kept = Vec::new();
    while let [kind, rest @ ..] = options {
        let len = match kind {
            0 => break,
            1 => 1,
            _ => usize::from(*rest.first().unwrap_or(&0)).clamp(2, options.len().max(2)),
        };
        let Some((option, rest)) = options.split_at_checked(len) else { break };
        if kind & 0x80 != 0 {
            kept.extend_from_slice(option);
        }
        options = rest;
    }
    kept.resize(kept.len().next_multiple_of(4), 0);
    kept
}

fn checksum(header: &[u8]) -> u16 {
    let words = header.as_chunks().0.iter().map(|word| u32::from(u16::from_be_bytes(*word)));
    let sum = words.sum::<u32>();
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

/// Link header and IP header of the fragment that holds `data` bytes from `offset` on.
fn headers(link: &[u8], ip: &[u8], options: &[u8], field: u16, data: usize) -> Vec<u8> {
    let len = 20 + options.len();
    let mut all = [link, &ip[..20], options].concat();
    let header = &mut all[link.len()..];
    header[0] = 0x40 | (len / 4) as u8;
    header[2..4].copy_from_slice(&((len + data) as u16).to_be_bytes());
    header[6..8].copy_from_slice(&field.to_be_bytes());
    header[10..12].fill(0);
    let sum = checksum(header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    all
}

/// Sends the packet in pieces. `None` when it is not IPv4 of more than `mtu` bytes; false when it
/// must not be cut, or the ring is full.
fn fragment(packet: &mut Packet<'_>, mtu: usize) -> Option<bool> {
    let frame = packet.bytes();
    let ip = frame.get(ETHERNET_LEN..).filter(|_| frame[12..14] == [0x08, 0x00])?;
    let header_len = usize::from(ip.first()? & 15) * 4;
    let total = usize::from(u16::from_be_bytes([*ip.get(2)?, *ip.get(3)?]));
    if ip[0] >> 4 != 4 || header_len < 20 || total <= mtu || total > ip.len() || header_len > total
    {
        return None;
    }
    let field = u16::from_be_bytes([ip[6], ip[7]]);
    if field & DONT_FRAGMENT != 0 {
        return Some(false);
    }
    let link = frame[..ETHERNET_LEN].to_vec();
    let ip = ip[..header_len].to_vec();
    let mut options = ip[20..].to_vec();
    let mut at = header_len;
    while at < total {
        // All but the last hold a multiple of eight bytes.
        let room = (mtu - 20 - options.len()) / 8 * 8;
        let data = room.min(total - at);
        let more = if at + data < total { MORE_FRAGMENTS } else { field & MORE_FRAGMENTS };
        let offset = (field & 0x1fff) + ((at - header_len) / 8) as u16;
        let front = headers(&link, &ip, &options, offset | more, data);
        let part = ETHERNET_LEN + at..ETHERNET_LEN + at + data;
        if packet.emit_part(0, &front, part).is_err() {
            return Some(false);
        }
        at += data;
        options = copied(&options);
    }
    Some(true)
}

fn main() -> ExitCode {
    let config = Config { name: "fragmenter", ..Config::DEFAULT };
    thruway_nf::run(&config, |start| {
        let mtu = std::env::args().nth(1).and_then(|word| word.parse().ok());
        // The least that any link must carry (section 3.2).
        let mtu = mtu.filter(|mtu| *mtu >= 68).ok_or("argument: MTU in bytes, at least 68")?;
        let [cut, lost] = ["fragmented", "dropped"].map(|name| start.counter(name));
        Ok(move |batch: &mut Batch<'_>| {
            batch.each(|packet| match fragment(packet, mtu) {
                None => Verdict::Next(0),
                Some(is_sent) => {
                    if is_sent {
                        cut.add(1)
                    } else {
                        lost.add(1)
                    }
                    Verdict::Drop
                }
            });
        })
    })
}

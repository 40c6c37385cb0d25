//! Answers ARP requests for one address (RFC 826): the reply is a packet made in consequence of
//! the request, which ends here.
//!
//! `Nf(EXEC "arp_responder 10.0.0.1 02:00:00:00:00:01", OUTPUTS 2)`: replies leave by output 1,
//! everything else by output 0.
#![forbid(unsafe_code)]

use std::net::Ipv4Addr;
use std::process::ExitCode;

use thruway_nf::{Batch, Config, Verdict};

/// Ethernet and ARP header up to the operation: broadcast or not, for IPv4, a request.
const REQUEST: [u8; 10] = [0x08, 0x06, 0x00, 0x01, 0x08, 0x00, 6, 4, 0x00, 0x01];

/// The reply to a frame, if it asks for `ip`.
fn reply(frame: &[u8], ip: Ipv4Addr, mac: [u8; 6]) -> Option<[u8; 60]> {
    let asks = frame.get(12..22)? == REQUEST && frame.get(38..42)? == ip.octets();
    if !asks {
        return None;
    }
    // The shortest frame that Ethernet carries, its end padded.
    let mut reply = [0; 60];
    reply[..6].copy_from_slice(&frame[22..28]);
    reply[6..12].copy_from_slice(&mac);
    reply[12..22].copy_from_slice(&REQUEST);
    reply[21] = 2;
    reply[22..28].copy_from_slice(&mac);
    reply[28..32].copy_from_slice(&ip.octets());
    reply[32..42].copy_from_slice(&frame[22..32]);
    Some(reply)
}

fn mac(text: &str) -> Option<[u8; 6]> {
    let bytes: Result<Vec<u8>, _> = text.split(':').map(|b| u8::from_str_radix(b, 16)).collect();
    bytes.ok()?.try_into().ok()
}

fn main() -> ExitCode {
    let config = Config { name: "arp-responder", outputs: 2, ..Config::DEFAULT };
    thruway_nf::run(&config, |start| {
        let words: Vec<String> = std::env::args().skip(1).collect();
        let [ip, own] = words.as_slice() else {
            return Err("arguments: IP-ADDRESS ETHERNET-ADDRESS".into());
        };
        let ip: Ipv4Addr = ip.parse().map_err(|_| format!("'{ip}' is not an IPv4 address"))?;
        let own = mac(own).ok_or_else(|| format!("'{own}' is not an Ethernet address"))?;
        let replies = start.counter("replies");
        Ok(move |batch: &mut Batch<'_>| {
            batch.each(|packet| match reply(packet.bytes(), ip, own) {
                Some(reply) => {
                    replies.add(u64::from(packet.emit(1, &reply).is_ok()));
                    Verdict::Drop
                }
                None => Verdict::Next(0),
            });
        })
    })
}

//! One hop of a small UDP packet: parse Ethernet, IPv4 and UDP, take the five-tuple, decrement the
//! TTL with its checksum. `cargo bench -p thruway-wire --bench headers`.

use std::hint::black_box;
use std::time::{Duration, Instant};
use thruway_wire::ethernet::{EthernetHeader, ethertype};
use thruway_wire::flow::FiveTuple;
use thruway_wire::ipv4::Ipv4Header;
use thruway_wire::udp::UdpHeader;
use thruway_wire::{Header, MacAddr, ParseError, ip_protocol};

fn hop(frame: &mut [u8]) -> Result<FiveTuple<u32>, ParseError> {
    let (_, packet) = EthernetHeader::parse_mut(frame)?;
    let (ip, payload) = Ipv4Header::parse_mut(packet)?;
    ip.decrement_ttl();
    Ok(FiveTuple::of_ipv4(ip, payload))
}

fn frame() -> Result<[u8; 60], ParseError> {
    let mut frame = [0; 60];
    let (src, dst) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let ethernet = EthernetHeader::new(MacAddr::BROADCAST, MacAddr::ZERO, ethertype::IPV4);
    let rest = ethernet.emit(&mut frame)?;
    let rest = Ipv4Header::new(ip_protocol::UDP, src, dst, 26)?.emit(rest)?;
    UdpHeader::new(1, 2, 18)?.emit(rest)?;
    Ok(frame)
}

fn main() -> Result<(), ParseError> {
    const FRAMES: usize = 64;
    const TURNS: usize = 4_000;
    let mut frames = [frame()?; FRAMES];
    let mut best = Duration::MAX;
    for _ in 0..25 {
        let start = Instant::now();
        for _ in 0..TURNS {
            for frame in &mut frames {
                black_box(hop(black_box(frame))?);
            }
        }
        best = best.min(start.elapsed());
    }
    println!("{:.2} ns per packet", best.as_secs_f64() * 1e9 / (FRAMES * TURNS) as f64);
    Ok(())
}

//! FastUDPFlows: UDP packets of many flows.

use std::net::Ipv4Addr;

use thruway_element::{
    Arg, ArgErrors, Args, Cx, Element, Entry, Handler, HandlerError, Spec, Topic, Ty, handler_value,
};
use thruway_packet::{Batch, Packet};
use thruway_wire::checksum::{Sum, checksum_20};
use thruway_wire::{MacAddr, ip_protocol};

use crate::random::Random;
use crate::rate::TokenBucket;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "FastUDPFlows",
        topic: Topic::Seeing,
        summary: "makes UDP packets of many flows",
        docs: "Makes Ethernet packets of LENGTH bytes (at least 60) with UDP in IP, RATE a second (0 \
               for as many as are pulled), LIMIT in all. Each packet belongs to one of FLOWS flows, \
               taken at random; after FLOWSIZE packets a flow gets new random ports. Equal SEEDs \
               give equal packets.",
        example: "FastUDPFlows(0, 10, 60, 0:0:0:0:0:1, 1.0.0.1, 0:0:0:0:0:2, 2.0.0.2, 4, 2, \
                  STOP true) -> Unqueue -> Discard",
        ports: "0/1",
        processing: "/l",
        args: &[
            Arg::required("RATE", Ty::UInt, "packets a second; 0 for no limit"),
            Arg::required("LIMIT", Ty::Int, "packets in all; -1 for no limit"),
            Arg::required("LENGTH", Ty::UInt, "bytes of a packet, Ethernet header included"),
            Arg::required("SRCETH", Ty::Ether, "source Ethernet address"),
            Arg::required("SRCIP", Ty::Ip, "source IP address"),
            Arg::required("DSTETH", Ty::Ether, "destination Ethernet address"),
            Arg::required("DSTIP", Ty::Ip, "destination IP address"),
            Arg::required("FLOWS", Ty::UInt, "number of flows"),
            Arg::required("FLOWSIZE", Ty::UInt, "packets before a flow changes its ports"),
            Arg::optional("CHECKSUM", Ty::Bool, "whether UDP checksums are computed").or("true"),
            Arg::optional("ACTIVE", Ty::Bool, "whether it makes packets").or("true"),
            Arg::optional("STOP", Ty::Bool, "whether the driver stops after the last").or("false"),
            Arg::keyword("SEED", Ty::UInt, "where random numbers begin").or("1"),
        ],
        handlers: &[
            Handler::sum("count", "packets made"),
            Handler::both("rate", "packets a second over the run, once LIMIT is reached"),
            Handler::both("length", "bytes of a packet"),
            Handler::write("limit", "packets in all; -1 for no limit"),
            Handler::write("active", "whether it makes packets; true resets the counts"),
            Handler::write("srceth", "source Ethernet address"),
            Handler::write("dsteth", "destination Ethernet address"),
            Handler::write("reset", "sets the counts to zero"),
        ],
        ..Spec::DEFAULT
    },
    build,
);

/// Shortest packet, as in Click: the least that Ethernet carries.
const LENGTH_MIN: usize = 60;
const LENGTH_MAX: usize = 65_535 + ETHER;
const ETHER: usize = 14;
const IP: usize = 20;
const UDP: usize = 8;
const FLOWS_MAX: u32 = 1 << 22;
/// Timer: whoever pulled in vain may try again.
const AGAIN: u32 = 0;
/// Time to live of the packets, as in Click.
const TTL: u8 = 250;

#[derive(Debug, Clone, Copy)]
struct Flow {
    ports: [u8; 4],
    sent: u32,
}

struct FastUdpFlows {
    frame: Frame,
    flows: Vec<Flow>,
    flow_size: u32,
    random: Random,
    bucket: Option<TokenBucket>,
    limit: i64,
    active: bool,
    stop: bool,
    count: u64,
    first: i64,
    last: i64,
}

/// The packet of all flows, with ports and UDP checksum zero.
struct Frame {
    bytes: Vec<u8>,
    /// Sum over what the UDP checksum covers.
    sum: Option<Sum>,
}

#[derive(Clone, Copy)]
struct Ends {
    src_ether: MacAddr,
    dst_ether: MacAddr,
    src: Ipv4Addr,
    dst: Ipv4Addr,
}

impl Frame {
    fn new(len: usize, ends: Ends, checksum: bool) -> Frame {
        let len = len.clamp(LENGTH_MIN, LENGTH_MAX);
        let (ip_len, udp_len) = (len - ETHER, len - ETHER - IP);
        let mut bytes = Vec::with_capacity(len);
        bytes.extend(ends.dst_ether.0);
        bytes.extend(ends.src_ether.0);
        bytes.extend([8, 0]);
        // Lengths fit: LENGTH_MAX is that of the largest IP packet.
        let mut header = [0; IP];
        header[0] = 0x45;
        header[2..4].copy_from_slice(&(ip_len as u16).to_be_bytes());
        header[8] = TTL;
        header[9] = ip_protocol::UDP;
        header[12..16].copy_from_slice(&ends.src.octets());
        header[16..].copy_from_slice(&ends.dst.octets());
        let check = checksum_20(&header);
        header[10..12].copy_from_slice(&check.to_be_bytes());
        bytes.extend(header);
        bytes.extend([0; 4]);
        bytes.extend((udp_len as u16).to_be_bytes());
        bytes.resize(len, 0);
        let (src, dst) = (u32::from(ends.src), u32::from(ends.dst));
        // The payload is all zero and adds nothing.
        let udp = &bytes[ETHER + IP..][..UDP];
        let sum = Sum::pseudo_v4(src, dst, ip_protocol::UDP, udp_len).with(udp);
        Frame { bytes, sum: checksum.then_some(sum) }
    }

    fn ends(&self) -> Ends {
        let take = |at: usize| std::array::from_fn(|i| self.bytes[at + i]);
        let ip = |at: usize| {
            let octets: [u8; 4] = std::array::from_fn(|i| self.bytes[at + i]);
            Ipv4Addr::from(octets)
        };
        Ends {
            dst_ether: MacAddr(take(0)),
            src_ether: MacAddr(take(6)),
            src: ip(ETHER + 12),
            dst: ip(ETHER + 16),
        }
    }

    /// Gives a copy of the frame its ports.
    fn finish(&self, packet: &mut Packet, ports: [u8; 4]) {
        let udp = &mut packet.data_mut()[ETHER + IP..];
        udp[..4].copy_from_slice(&ports);
        if let Some(sum) = self.sum {
            udp[6..8].copy_from_slice(&sum.with(&ports).checksum_udp().to_be_bytes());
        }
    }
}

fn bucket(rate: u32) -> Option<TokenBucket> {
    let capacity = u64::from(rate / 1_000).max(1);
    (rate > 0).then(|| TokenBucket::fine(u64::from(rate), capacity))
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let flows: u32 = args.get("FLOWS")?;
    if flows == 0 || flows > FLOWS_MAX {
        return Err(args.error("FLOWS", format!("must be from 1 to {FLOWS_MAX}")).into());
    }
    let ends = Ends {
        src_ether: args.get("SRCETH")?,
        dst_ether: args.get("DSTETH")?,
        src: args.get("SRCIP")?,
        dst: args.get("DSTIP")?,
    };
    let mut random = Random::from_seed(args.get("SEED")?);
    let flows = (0..flows).map(|_| Flow { ports: random_ports(&mut random), sent: 0 }).collect();
    Ok(Box::new(FastUdpFlows {
        frame: Frame::new(args.get("LENGTH")?, ends, args.get("CHECKSUM")?),
        flows,
        flow_size: args.get("FLOWSIZE")?,
        random,
        bucket: bucket(args.get("RATE")?),
        limit: args.get("LIMIT")?,
        active: args.get("ACTIVE")?,
        stop: args.get("STOP")?,
        count: 0,
        first: 0,
        last: 0,
    }))
}

fn random_ports(random: &mut Random) -> [u8; 4] {
    (random.next() as u32).to_be_bytes()
}

impl FastUdpFlows {
    fn at_limit(&self) -> bool {
        u64::try_from(self.limit).is_ok_and(|limit| self.count >= limit)
    }

    /// The next packet, if one is due and there is memory.
    fn make(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        if self.bucket.as_mut().is_some_and(|bucket| !bucket.take(1)) {
            return None;
        }
        let mut packet = cx.packet(&self.frame.bytes)?;
        let flow = self.random.below(self.flows.len() as u64) as usize;
        let flow = &mut self.flows[flow];
        if flow.sent >= self.flow_size {
            *flow = Flow { ports: random_ports(&mut self.random), sent: 0 };
        }
        flow.sent = flow.sent.saturating_add(1);
        self.frame.finish(&mut packet, flow.ports);
        packet.set_mac_offset(0);
        packet.set_network(ETHER, IP);
        packet.set_dst_ip(self.frame.ends().dst.octets());
        Some(packet)
    }

    fn made(&mut self, cx: &mut Cx<'_>) {
        self.count += 1;
        if self.count == 1 {
            self.first = cx.now();
        }
        if self.at_limit() {
            self.last = cx.now();
            if self.stop {
                cx.stop();
            }
        }
    }

    /// Packets a second, whole; 0 until LIMIT is reached.
    fn rate(&self) -> u64 {
        if self.last == 0 {
            return 0;
        }
        let ms = (self.last.saturating_sub(self.first) / 1_000_000).max(1) as u64;
        self.count.saturating_mul(1_000) / ms
    }

    fn reset(&mut self) {
        (self.count, self.first, self.last) = (0, 0, 0);
    }

    fn change_frame(&mut self, change: impl FnOnce(&mut Ends, &mut usize)) {
        let (mut ends, mut len) = (self.frame.ends(), self.frame.bytes.len());
        change(&mut ends, &mut len);
        self.frame = Frame::new(len, ends, self.frame.sum.is_some());
    }
}

impl Element for FastUdpFlows {
    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize, batch: &mut Batch) {
        if !self.active || self.at_limit() {
            return;
        }
        if let Some(bucket) = &mut self.bucket {
            bucket.refill(cx.now());
        }
        while batch.len() < max && !self.at_limit() {
            let Some(packet) = self.make(cx) else { break };
            batch.push(packet);
            self.made(cx);
        }
        if batch.is_empty()
            && let Some(at) = self.bucket.as_ref().and_then(|bucket| bucket.ready_at(1))
        {
            cx.clear_timer(AGAIN);
            cx.set_timer(AGAIN, at);
        }
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, HandlerError> {
        match name {
            "count" => Ok(self.count.to_string()),
            "rate" => Ok(self.rate().to_string()),
            "length" => Ok(self.frame.bytes.len().to_string()),
            _ => Err(HandlerError::no_read(name)),
        }
    }

    fn write(&mut self, _cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "rate" => self.bucket = bucket(handler_value(name, value)?),
            "limit" => self.limit = handler_value(name, value)?,
            "active" => {
                self.active = handler_value(name, value)?;
                if self.active {
                    self.reset();
                }
            }
            "length" => {
                let wanted = handler_value(name, value)?;
                self.change_frame(|_, len| *len = wanted);
            }
            "srceth" => {
                let address = handler_value(name, value)?;
                self.change_frame(|ends, _| ends.src_ether = address);
            }
            "dsteth" => {
                let address = handler_value(name, value)?;
                self.change_frame(|ends, _| ends.dst_ether = address);
            }
            "reset" => self.reset(),
            _ => return Err(HandlerError::no_write(name)),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thruway_wire::checksum::checksum;

    #[test]
    fn frames_have_right_checksums() {
        let ends = Ends {
            src_ether: MacAddr([1; 6]),
            dst_ether: MacAddr([2; 6]),
            src: Ipv4Addr::new(1, 0, 0, 1),
            dst: Ipv4Addr::new(2, 0, 0, 2),
        };
        for len in [10, 60, 61, 1500] {
            let frame = Frame::new(len, ends, true);
            let mut packet = Packet::new(&frame.bytes).unwrap();
            frame.finish(&mut packet, [1, 2, 3, 4]);
            let data = packet.data();
            assert_eq!(data.len(), len.max(60));
            assert_eq!(checksum(&data[14..34]), 0);
            let udp = data.len() - 34;
            let sum = Sum::pseudo_v4(0x0100_0001, 0x0200_0002, 17, udp).with(&data[34..]);
            assert_eq!(sum.checksum(), 0);
            assert_eq!(frame.ends().src_ether, MacAddr([1; 6]));
        }
    }
}

//! SFlow: headers of sampled packets, sent to a collector.

use std::net::{IpAddr, SocketAddr};

use thruway_element::{
    ArgErrors, Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic,
    Ty,
};
use thruway_elements_support::collector::Collector;
use thruway_elements_support::notice::warn;
use thruway_elements_support::random::{self, Random, SEED, seed_of};
use thruway_packet::{Batch, Packet};

use datagram::{HeaderProtocol, Sample, Source, Writer};
use waiting::Waiting;

mod datagram;
mod waiting;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<SFlow>(Spec {
    name: "SFlow",
    topic: Topic::Counters,
    summary: "sends the headers of one packet in RATE to a collector (sFlow version 5)",
    docs: "Passes packets on unchanged. One in RATE, drawn at random, is sampled: the first \
           HEADER bytes of it go to COLLECTOR by UDP, with the packet's length and how many \
           packets went by, as flow samples of sFlow version 5 (sflow.org, July 2004, section \
           5). A packet that is not sampled costs nothing of its own.\n\n\
           Samples wait for up to 10 ms, SAMPLES_MAX of them at most; further ones are lost, \
           counted in `lost`, and named in the samples that follow (their field drops). So are \
           those of datagrams that cannot be sent.\n\n\
           AGENT is the address by which the collector knows this host; by default the one \
           that datagrams come from. INTERFACE is the SNMP index of the interface at which \
           packets are sampled, for the collector's use. Each thread is a sub-agent by its \
           number. Samples of counters are not sent. A TCP packet that holds many segments is \
           one packet, of its whole length.",
    example: "FromDump(examples/captures/lan.pcap, STOP true) \
              -> SFlow(127.0.0.1:6343, RATE 100) -> Discard",
    straight: true,
    changes: Changes::Nothing,
    cost: &[Operation::Count.once()],
    replicas: Replicas::Apart("each samples the packets of its thread, as a sub-agent"),
    large_packets: true,
    ..Spec::DEFAULT
});

/// How long a sample waits for others; the protocol allows a second.
const SEND_EVERY_NS: i64 = 10_000_000;
/// Most of RATE: a mean skip that twice fits 32 bits.
const RATE_MAX: usize = 1 << 30;
/// Most bytes of a header, so that a sample fits a datagram.
const HEADER_MAX: usize = 1_024;
/// Most of SAMPLES_MAX.
const SAMPLES_MAX: usize = 1 << 20;

#[derive(Arguments, Handlers)]
#[handler(sum, name = "count", "packets that went by", get = self.pool)]
#[handler(sum, field = samples, "packets sampled, lost ones included")]
#[handler(sum, field = lost, "samples lost")]
struct SFlow {
    #[arg(required, name = "COLLECTOR", unread, ty = Ty::Str, "ADDRESS:PORT that samples are sent to")]
    #[new(Collector::address(args, "COLLECTOR")?.ok_or(ArgErrors::whole("give COLLECTOR"))?)]
    to: SocketAddr,
    /// Once it is initialized.
    out: Option<(Collector, Writer)>,
    #[arg(
        keyword, name = "RATE", value = usize, or = "1000", range = 1..=RATE_MAX,
        "packets of which one is sampled, on average"
    )]
    #[arg(
        keyword, name = "HEADER", value = usize, or = "128", range = 1..=HEADER_MAX,
        "bytes of a packet that are sent"
    )]
    #[arg(
        keyword, name = "INPUT", unread, ty = Ty::Choice(&["ethernet", "ip"]), or = "ethernet",
        "what packets begin with"
    )]
    #[new((args.choice("INPUT")? == 0).then_some(HeaderProtocol::Ethernet))]
    protocol: Option<HeaderProtocol>,
    /// this host's address, as the collector knows it
    #[arg(keyword, as = String, via = address)]
    agent: Option<IpAddr>,
    #[arg(
        keyword, name = "INTERFACE", value = u32, or = "0", "index of the interface; 0: unknown"
    )]
    #[new(Source { agent: to.ip(), sub_agent: 0, interface, rate: rate as u32 })]
    source: Source,
    #[arg(
        keyword, name = "SAMPLES_MAX", value = usize, or = "4096", range = 1..=SAMPLES_MAX,
        "most samples that wait"
    )]
    #[new(Waiting::new(samples_max, header))]
    waiting: Waiting,
    #[arg(like = SEED)]
    #[new(random::of_element(args, seed_of(args)?))]
    random: Random,
    /// Packets to go by before the next sample.
    skip: usize,
    /// Packets that went by.
    pool: u64,
    samples: u64,
    lost: u64,
    has_timer: bool,
}

fn address(text: String) -> Result<IpAddr, String> {
    text.parse().map_err(|_| format!("'{text}' is no address"))
}

impl SFlow {
    /// Packets to go by before the next sample: RATE - 1 of them on average.
    fn draw(&mut self) -> usize {
        self.random.below(u64::from(2 * self.source.rate - 1)) as usize
    }

    /// Takes a sample; `pool` packets went by, this one included.
    fn sample(&mut self, packet: &Packet, pool: u64) {
        self.samples += 1;
        let bytes = packet.data();
        let protocol = self.protocol.unwrap_or(match bytes.first() {
            Some(first) if first >> 4 == 6 => HeaderProtocol::Ipv6,
            _ => HeaderProtocol::Ipv4,
        });
        let (sequence, len) = (self.samples as u32, bytes.len() as u32);
        let sample = Sample { sequence, pool: pool as u32, drops: self.lost as u32, protocol, len };
        self.lost += u64::from(!self.waiting.push(sample, bytes));
    }

    /// Sends what waits.
    fn send(&mut self, cx: &mut Cx<'_>) {
        let Some((collector, writer)) = &mut self.out else { return };
        let (now, mut why) = (cx.now(), None);
        let mut send = |datagram: &[u8], samples: u32| {
            if let Err(unsent) = collector.send(datagram) {
                self.lost += u64::from(samples);
                why = unsent.why.or(why.take());
            }
        };
        self.waiting.drain(|sample, header| writer.add(sample, header, now, &mut send));
        writer.finish(&mut send);
        if let Some(why) = why {
            warn(cx, &why);
        }
    }
}

impl Element for SFlow {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.skip = self.draw();
        let collector = Collector::open(self.to)?;
        self.source.agent = self.agent.unwrap_or(collector.source());
        let node = cx.node();
        self.source.sub_agent = cx.threads().home(node) as u32;
        self.out = Some((collector, Writer::new(self.source, cx.now())));
        Ok(())
    }

    /// PERF: a batch without a sample is counted, and not looked at.
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let packets = batch.len();
        while self.skip < packets {
            let at = self.skip;
            if let Some(packet) = batch.iter().nth(at) {
                self.sample(packet, self.pool + at as u64 + 1);
            }
            self.skip = at + 1 + self.draw();
        }
        self.skip -= packets;
        self.pool += packets as u64;
        if !self.has_timer && !self.waiting.is_empty() {
            self.has_timer = true;
            cx.set_timer(0, cx.now().saturating_add(SEND_EVERY_NS));
        }
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        self.has_timer = false;
        self.send(cx);
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.send(cx);
        Ok(())
    }
}

#[cfg(test)]
mod tests;

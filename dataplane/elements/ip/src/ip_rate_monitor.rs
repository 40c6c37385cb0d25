//! IPRateMonitor: rates by address prefix, finer where they are high.

mod tree;

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use thruway_element::text::split_words;
use thruway_element::{
    ArgError, Args, Arguments, Changes, Cx, Element, Entry, HandlerError, Handlers, Operation,
    Replicas, Spec, Topic, Ty, handler_value,
};
use thruway_packet::{Anno, Batch, Packet};

use thruway_elements_support::random::{self, Probability, Random, SEED, seed_of};
use tree::{LEVELS, Tree};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<IpRateMonitor>(Spec {
    name: "IPRateMonitor",
    topic: Topic::Ip,
    summary: "measures rates by address, finer where they are high",
    docs: "Measures how many packets (or bytes of IP packets) a second come from and go to \
           addresses: at input 0 by source address, the forward rate, at input 1 by destination \
           address, the reverse rate. First there is a rate for each value of the first byte; \
           where the forward or the reverse rate of a prefix exceeds THRESH, addresses that share \
           it get rates by their next byte too, until it has fallen again. Rates are averages over \
           about two and a half seconds. Packets are never dropped; those without a marked IPv4 \
           header are not counted.\n\n\
           With ANNO, the FWD_RATE annotation, which Block reads, is set to the forward rate of \
           the longest prefix of the address that has one. There is no annotation for the reverse \
           rate. With RATIO, a part of the packets is counted, and rates are estimates of what all \
           would give. Where MEMORY is used up, no more prefixes are divided. With several \
           threads, each measures its own packets.",
    example: "InfiniteSource(DATA a, LIMIT 5, STOP true) -> UDPIPEncap(18.26.4.9, 1, 2.0.0.2, 2)\n\
              -> m :: IPRateMonitor(PACKETS, 0.5, 256, 600) -> Discard",
    ports: "1-2/=",
    flow: "#/#",
    changes: Changes::Nothing,
    cost: &[
        Operation::HeaderRead.once(),
        Operation::ArrayLookup.times(2.0),
        Operation::Count.times(2.0),
        Operation::Annotate.once(),
    ],
    replicas: Replicas::Apart(
        "each measures what its thread sees, and sets FWD_RATE by it: a rate over all threads \
         is shown by none; look shows each",
    ),
    ..Spec::DEFAULT
});

/// Kilobytes where none are given.
const MEMORY: u32 = 16_384;
/// Fewest kilobytes, as Click.
const MEMORY_MIN: u32 = 100;
/// Most kilobytes.
const MEMORY_MAX: u32 = 4 << 20;
/// Most lines of rates in `look`.
const LINES: usize = 10_000;

#[derive(Arguments, Handlers)]
#[handler(
    read, concat, name = "look",
    "hundredths of a second since the last reset; then, a line each, prefixes with \
     forward and reverse rate, indented by their length; 10,000 at most",
    read = self.read_look(cx)
)]
#[handler(read, field = thresh, "rate above which a prefix is divided")]
#[handler(read, name = "mem", "bytes in use for rates", get = self.tree.bytes())]
#[handler(read, name = "memmax", "most bytes for rates", get = self.tree.bytes_max())]
#[handler(write, name = "reset", "forgets all rates", run = self.tree.reset(cx.now()))]
#[handler(
    write, name = "anno_level",
    "ADDRESS LEVEL SECONDS: looks at no more than the first LEVEL + 1 bytes of such \
     addresses for so long; LEVEL is 0 to 3",
    write = self.hold(name, value)
)]
struct IpRateMonitor {
    #[arg(
        required, name = "TYPE", unread, ty = Ty::Choice(&["PACKETS", "BYTES"]), "what is counted"
    )]
    #[new(counts_bytes(args)?)]
    bytes: bool,
    /// probability that a packet is counted: 0 to 1
    #[arg(required)]
    ratio: Probability,
    /// rate above which a prefix is divided, per second
    #[arg(required)]
    thresh: u32,
    #[arg(
        optional, name = "MEMORY", value = u32, or = "0",
        "kilobytes for rates, at least 100; 0: 16,384"
    )]
    #[new(tree(args, memory, thresh, ratio)?)]
    tree: Tree,
    /// whether FWD_RATE is set
    #[arg(optional, or = "true")]
    anno: bool,
    #[arg(like = SEED)]
    #[new(random::of_element(args, seed_of(args)?))]
    random: Random,
    #[new(ratio.value() >= 1.0)]
    all: bool,
}

/// Whether bytes are to be counted; case makes no difference.
fn counts_bytes(args: &Args<'_>) -> Result<bool, ArgError> {
    let text: String = args.get("TYPE")?;
    match text.to_ascii_uppercase().as_str() {
        "PACKETS" => Ok(false),
        "BYTES" => Ok(true),
        _ => Err(args.error("TYPE", format!("'{text}' is neither PACKETS nor BYTES"))),
    }
}

fn tree(args: &Args<'_>, memory: u32, thresh: u32, ratio: Probability) -> Result<Tree, ArgError> {
    let memory = match memory {
        0 => MEMORY,
        given if given > MEMORY_MAX => {
            let message = format!("{given} is too much; at most {MEMORY_MAX} kilobytes");
            return Err(args.error("MEMORY", message));
        }
        given => given.max(MEMORY_MIN),
    };
    Tree::new(memory as usize * 1024, thresh, ratio.value())
        .ok_or_else(|| args.error("MEMORY", format!("there are no {memory} kilobytes")))
}

/// Length of the IPv4 packet and one of its addresses, the source's or the destination's.
#[inline]
fn header(packet: &Packet, direction: usize) -> Option<(u16, [u8; LEVELS])> {
    let header: &[u8; 20] = packet.network().first_chunk()?;
    if header[0] >> 4 != 4 {
        return None;
    }
    let address = header[12 + LEVELS * direction..].first_chunk()?;
    Some((u16::from_be_bytes([header[2], header[3]]), *address))
}

impl IpRateMonitor {
    /// Counts packets by source (0) or destination (1).
    fn measure(&mut self, now: i64, direction: usize, batch: &mut Batch) {
        self.tree.advance(now);
        for packet in batch.iter_mut() {
            let Some((len, address)) = header(packet, direction) else { continue };
            let counted = self.all || self.ratio.hits(&mut self.random);
            let amount = if self.bytes { u32::from(len) } else { 1 };
            let rate = self.tree.see(address, direction, if counted { amount } else { 0 });
            if self.anno {
                packet.set_anno_number(Anno::FWD_RATE, rate as u32);
            }
        }
    }

    fn look(&self, now: i64) -> String {
        let mut text = format!("{}\n", self.tree.elapsed(now) / 10_000_000);
        let mut lines = 0;
        self.tree.visit(&mut |prefix, [forward, reverse]| {
            let indent = "\t".repeat(prefix.len() - 1);
            let bytes: Vec<String> = prefix.iter().map(u8::to_string).collect();
            // A String takes all that is written.
            let _ = writeln!(text, "{indent}{}\t{forward:.1}\t{reverse:.1}", bytes.join("."));
            lines += 1;
            lines < LINES
        });
        text
    }

    fn hold(&mut self, name: &str, value: &str) -> Result<(), HandlerError> {
        let words = split_words(value);
        let [address, level, seconds] = &words[..] else {
            return Err(HandlerError::refused(format!("{name}: expected ADDRESS LEVEL SECONDS")));
        };
        let address: Ipv4Addr = handler_value(name, address)?;
        let (level, seconds): (u32, u32) =
            (handler_value(name, level)?, handler_value(name, seconds)?);
        if level as usize >= LEVELS || seconds == 0 {
            let why = format!("{name}: LEVEL is 0 to 3, and SECONDS at least 1");
            return Err(HandlerError::refused(why));
        }
        if !self.tree.hold(address.octets(), level as usize, seconds) {
            let why = format!("{name}: {address} has no rate at level {level} now; see look");
            return Err(HandlerError::refused(why));
        }
        Ok(())
    }
}

impl IpRateMonitor {
    fn read_look(&mut self, cx: &mut Cx<'_>) -> Result<String, HandlerError> {
        self.tree.advance(cx.now());
        Ok(self.look(cx.now()))
    }
}

impl Element for IpRateMonitor {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.tree.reset(cx.now());
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        self.measure(cx.now(), port, batch);
        if port > 0 {
            cx.emit_all(port, batch);
        }
    }

    fn pull(&mut self, cx: &mut Cx<'_>, port: usize, max: usize, batch: &mut Batch) {
        cx.pull(port, max, batch);
        self.measure(cx.now(), port, batch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_addresses_of_both_directions() {
        let mut bytes: Vec<u8> = (0..40).collect();
        bytes[14] = 0x45;
        let mut packet = Packet::new(&bytes).unwrap();
        assert_eq!(header(&packet, 0), None);
        packet.set_network(14, 20);
        assert_eq!(header(&packet, 0), Some((0x1011, [26, 27, 28, 29])));
        assert_eq!(header(&packet, 1), Some((0x1011, [30, 31, 32, 33])));
        packet.set_network(15, 20);
        assert_eq!(header(&packet, 1), None);
    }
}

//! FloodDetector: destinations that are asked for too many connections, and their packets.

mod watch;

use std::any::Any;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use thruway_element::{
    ArgError, Args, Arguments, Changes, Cx, Element, Entry, Handlers, HotSwap, Nanos, Operation,
    Replicas, Spec, Topic, Verdict,
};
use thruway_packet::Batch;
use thruway_wire::ip_protocol;
use thruway_wire::ipv6_ext::upper_layer;
use thruway_wire::tcp::flags;

use watch::{Destination, Limits, Watch};

/// See the spec.
pub static ENTRY: Entry = Entry::of::<FloodDetector>(Spec {
    name: "FloodDetector",
    topic: Topic::Ip,
    summary: "finds destinations of SYN floods, and sorts their packets out",
    docs: "Expects marked IP headers, of version 4 or 6. Counts requests for TCP connections (SYN \
           without ACK) by destination, in windows of WINDOW. A destination that gets as many in a \
           window as RATE a second make is flooded at once. From then on all packets to it leave \
           by output 1, until it has had at most half of RATE for CALM; others leave by output 0. \
           With one output nothing is sorted.\n\n\
           The handler flooded is for a manager that deploys a function on demand: that function \
           stands behind output 1. At most 64 destinations are flooded at once. Memory is taken \
           once; counters are shared by chance, so that in a flood of many destinations one may \
           be found that has fewer requests than RATE. Packets without a marked IP header, and \
           fragments behind the first, leave by their destination and are not counted. \
           A new configuration knows of floods that go on.",
    example: "InfiniteSource(LIMIT 1, STOP true) -> MarkIPHeader -> d :: FloodDetector(1000) \
              -> Discard; d[1] -> Print(suspect) -> Discard",
    ports: "1/1-2",
    processing: "a/ah",
    straight: true,
    changes: Changes::Nothing,
    cost: &[Operation::HeaderRead.once(), Operation::Sort.once()],
    replicas: Replicas::Apart("each counts the packets of its thread: RATE is per thread"),
    ..Spec::DEFAULT
})
.with_hot_swap::<FloodDetector>();

/// Output for packets to a destination that is flooded.
const SUSPECT: usize = 1;
/// Fewest requests in a window that say anything.
const HIGH_MIN: u64 = 4;
/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;

#[derive(Arguments, Handlers)]
#[handler(
    sum, name = "flooded", "destinations that are flooded now",
    get = self.now(cx.now()).flooded().len()
)]
#[handler(
    sum, name = "floods", "times that a destination was found flooded", get = self.watch.floods
)]
#[handler(
    read, concat, name = "destinations",
    "a line for each that is flooded: address, milliseconds since then, requests since then",
    get = self.destinations(cx.now())
)]
struct FloodDetector {
    #[arg(
        required, name = "RATE", value = u64, "requests a second at which a destination is flooded"
    )]
    #[arg(
        keyword, name = "WINDOW", value = Nanos, or = "50ms",
        "how long requests are counted together, 1ms to 10s"
    )]
    #[arg(
        keyword, name = "CALM", value = Nanos, or = "2s",
        "how long a destination gets at most half of RATE until it is flooded no more"
    )]
    #[new(Watch::new(limits(args, rate, window, calm)?))]
    watch: Watch,
    /// connections asked for
    #[handler(sum)]
    requests: u64,
}

fn limits(
    args: &Args<'_>,
    rate: u64,
    Nanos(window): Nanos,
    Nanos(calm): Nanos,
) -> Result<Limits, ArgError> {
    if !(1_000_000..=10 * SECOND as i64).contains(&window) {
        return Err(args.error("WINDOW", "give 1ms to 10s"));
    }
    if calm <= 0 {
        return Err(args.error("CALM", "must be more than 0"));
    }
    let high = u128::from(rate) * window as u128 / u128::from(SECOND);
    if high < u128::from(HIGH_MIN) {
        let message =
            format!("{rate} a second make fewer than {HIGH_MIN} in a window; raise RATE or WINDOW");
        return Err(args.error("RATE", message));
    }
    let high = u32::try_from(high)
        .map_err(|_| args.error("RATE", "more than can be counted in a window; lower it"))?;
    Ok(Limits { window, high, low: high / 2, calm })
}

/// Destination of a packet, from its IP header, and whether it asks for a TCP connection.
#[inline]
fn read(network: &[u8]) -> Option<(Destination, bool)> {
    let first = *network.first()?;
    let (to, tcp) = match first >> 4 {
        4 => {
            let header: &[u8; 20] = network.first_chunk()?;
            let to = Ipv4Addr::new(header[16], header[17], header[18], header[19]);
            let is_first = u16::from_be_bytes([header[6], header[7]]) & 0x1fff == 0;
            let is_tcp = header[9] == ip_protocol::TCP && is_first;
            let tcp = is_tcp.then(|| network.get(usize::from(first & 15) * 4..)).flatten();
            (to.to_ipv6_mapped().to_bits(), tcp)
        }
        6 => {
            let header: &[u8; 40] = network.first_chunk()?;
            let mut to = [0; 16];
            to.copy_from_slice(&header[24..]);
            let payload = &network[40..];
            let upper = upper_layer(header[6], payload).ok();
            let upper = upper.filter(|upper| upper.protocol == ip_protocol::TCP);
            let tcp = upper.filter(|upper| upper.has_header());
            (Destination::from_be_bytes(to), tcp.and_then(|upper| payload.get(upper.offset..)))
        }
        _ => return None,
    };
    let is_request =
        |tcp: &[u8]| tcp.get(13).is_some_and(|byte| byte & (flags::SYN | flags::ACK) == flags::SYN);
    Some((to, tcp.is_some_and(is_request)))
}

impl FloodDetector {
    /// The state at this time.
    fn now(&mut self, now: i64) -> &Watch {
        self.watch.advance(now);
        &self.watch
    }

    fn destinations(&mut self, now: i64) -> String {
        let mut text = String::new();
        for one in self.now(now).flooded() {
            let address = Ipv6Addr::from_bits(one.to).to_canonical();
            let since = (now - one.since) / 1_000_000;
            // A String takes all that is written.
            let _ = writeln!(text, "{address} {since} {}", one.requests);
        }
        text
    }
}

impl Element for FloodDetector {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.watch.begin(cx.now());
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let (now, sorts) = (cx.now(), cx.outputs() > SUSPECT);
        if self.watch.is_any() {
            self.watch.advance(now);
        }
        let (watch, requests) = (&mut self.watch, &mut self.requests);
        cx.filter(batch, |packet| {
            let Some((to, is_request)) = read(packet.network()) else { return Verdict::Pass };
            if is_request {
                *requests += 1;
                watch.request(now, to);
            }
            match sorts && watch.is_any() && watch.is_flooded(to) {
                true => Verdict::To(SUSPECT),
                false => Verdict::Pass,
            }
        });
    }
}

impl HotSwap for FloodDetector {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        let left = Watch::new(self.watch.limits);
        Some(Box::new((std::mem::replace(&mut self.watch, left), self.requests)))
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        if let Ok(state) = state.downcast::<(Watch, u64)>() {
            let (watch, requests) = *state;
            self.watch.take_over(watch);
            self.requests = requests;
        }
    }
}

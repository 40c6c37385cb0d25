//! Packets that carriers are measured with, written as text that an element makes packets of.

use std::fmt::Write as _;

/// What packets a carrier gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Traffic {
    /// 64 sessions of UDP in frames of 64 bytes.
    Short,
    /// The same in frames of 1,514 bytes, few enough to stay close.
    Long,
    /// 1,024 sessions of UDP in frames of 64 bytes.
    Many,
    /// IPv6 in packets of 48 bytes.
    Ip6,
    /// A TCP connection that opens, sends short segments of 10 bytes and closes.
    Connection,
    /// A TCP connection of requests and answers, each in a segment.
    Requests,
}

/// Packets of a round of most traces: batches of this size are whole.
pub const PACKETS: usize = 256;

/// Lines of 64 bytes that a packet of [`Traffic::Long`] has more than one of [`Traffic::Short`].
pub const MORE_LINES: f64 = (1514.0 - 64.0) / 64.0;

/// What Ethernet, IPv4 and UDP take of a frame.
const HEADERS: usize = 14 + 20 + 8;

/// Puts UDP and TCP into frames and marks their headers, as a port and a check would.
const FRAMES: &str = "EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> CheckIPHeader(14)";

impl Traffic {
    /// The same as elements receive it.
    #[cfg(test)]
    pub fn load(self) -> thruway_element::Load {
        let (packet_bytes, payload_bytes, sessions) = match self {
            Traffic::Short => (64.0, 22.0, 64.0),
            Traffic::Many => (64.0, 22.0, 1024.0),
            Traffic::Long => (1514.0, 1472.0, 32.0),
            Traffic::Ip6 => (48.0, 0.0, 1.0),
            Traffic::Connection => (64.0, 10.0, 1.0),
            Traffic::Requests => (128.0, 64.0, 1.0),
        };
        thruway_element::Load { packet_bytes, payload_bytes, sessions, opening: 0.0 }
    }

    /// The beginning of a configuration: an element `source`, which replays the packets from
    /// memory.
    pub fn source(self, burst: usize) -> String {
        let made = match self {
            Traffic::Short => summary(&udp(64, PACKETS, 64 - HEADERS)),
            Traffic::Long => summary(&udp(32, 32, 1514 - HEADERS)),
            Traffic::Many => summary(&udp(1024, 1024, 64 - HEADERS)),
            Traffic::Connection => summary(&connection(&Pieces::Short)),
            Traffic::Requests => summary(&connection(&Pieces::Heads)),
            Traffic::Ip6 => ip6(),
        };
        format!("{made} -> source :: ReplayUnqueue(STOP 1, BURST {burst});\n")
    }
}

/// An element that makes packets of these lines.
fn summary(lines: &str) -> String {
    let text = lines.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("FromIPSummaryDump(DATA \"{text}\", CHECKSUM true) -> {FRAMES}")
}

fn udp(sessions: usize, packets: usize, payload: usize) -> String {
    let mut text = "!data ip_src sport ip_dst dport ip_proto ip_ttl payload_len\n".to_owned();
    for packet in 0..packets {
        let session = packet % sessions;
        let (high, low) = (session / 256, session % 256);
        let (port, server) = (1024 + session, session % 8);
        // Writing to a String does not fail.
        let _ = writeln!(text, "10.1.{high}.{low} {port} 192.0.2.{server} 443 U 250 {payload}");
    }
    text
}

fn ip6() -> String {
    let one = "20010db8000000000000000000000001";
    let other = "20010db8000000000000000000000002";
    let data = format!("60000000 0008 11 40 {one} {other} 0001 0002 0008 0000");
    format!("InfiniteSource(DATA \\<{data}>, LIMIT {PACKETS}) -> CheckIP6Header")
}

/// What a connection's segments carry.
enum Pieces {
    Short,
    Heads,
}

const REQUEST: &str = "GET /index.html HTTP/1.1\r\nHost: server\r\nAccept: */*\r\n\r\n";
const ANSWER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nServer: example\r\n\r\n";

/// Packets by which acknowledgements are late: more than a batch, since what a connection's middle
/// has not sent yet nobody can have received.
const LATE: usize = 40;

/// Sequence numbers of both sides while the lines of a connection are written.
struct Sides {
    text: String,
    numbers: [u32; 2],
    /// The same before each line; the first three open the connection.
    before: Vec<[u32; 2]>,
}

impl Sides {
    /// A segment of a side; SYN and FIN count as one byte.
    fn segment(&mut self, from: usize, flags: &str, payload: &str) {
        const ENDS: [&str; 2] = ["10.1.0.1 40000 192.0.2.1 80", "192.0.2.1 80 10.1.0.1 40000"];
        let nth = self.before.len();
        self.before.push(self.numbers);
        let seen =
            if nth < 3 { self.numbers } else { self.before[nth.saturating_sub(LATE).max(3)] };
        let own = self.numbers[from];
        let ack = if flags == "S" { 0 } else { seen[1 - from] };
        let quoted = payload.replace('\r', "\\r").replace('\n', "\\n");
        let ends = ENDS[from];
        let _ = writeln!(self.text, "{ends} T 250 {flags} {own} {ack} 65535 \"{quoted}\"");
        let counts = u32::from(flags.contains(['S', 'F']));
        self.numbers[from] = own.wrapping_add(payload.len() as u32 + counts);
    }
}

/// A connection from its first segment to its last, in as many packets as a round has.
fn connection(pieces: &Pieces) -> String {
    let fields = "ip_src sport ip_dst dport ip_proto ip_ttl tcp_flags tcp_seq tcp_ack tcp_window";
    let mut sides = Sides {
        text: format!("!data {fields} payload\n"),
        numbers: [1_000_000, 5_000_000],
        before: Vec::new(),
    };
    for (from, flags) in [(0, "S"), (1, "SA"), (0, "A")] {
        sides.segment(from, flags, "");
    }
    // What is left when both have opened and closed. Answers are as late as acknowledgements.
    let packets = PACKETS - 6;
    for packet in 0..packets {
        let is_answer = packet >= packets - LATE || packet >= LATE && packet % 2 == 0;
        match pieces {
            Pieces::Heads if is_answer => sides.segment(1, "PA", ANSWER),
            Pieces::Heads => sides.segment(0, "PA", REQUEST),
            // Each second one is acknowledged.
            Pieces::Short if packet % 3 == 2 => sides.segment(1, "A", ""),
            Pieces::Short => sides.segment(0, "PA", "0123456789"),
        }
    }
    for (from, flags) in [(0, "FA"), (1, "FA"), (0, "A")] {
        sides.segment(from, flags, "");
    }
    sides.text
}

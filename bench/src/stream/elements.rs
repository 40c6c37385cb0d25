//! The bench's own elements: clients, their servers, and functions that do nothing.

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Handlers, Needs, Next, Run, Spec,
    StreamCursor, StreamFunction, StreamMember, Threading, Topic, Ty, Wants,
};
use thruway_elements_streams::{PerStream, stream_wants};
use thruway_packet::{Batch, Packet};
use thruway_stream::stage::Stage;
use thruway_wire::tcp::flags;

use super::super::flow::elements::{Pass, build};
use super::segment::{self, Payload, SegmentHeader};
use super::words;

/// All of them.
pub const ELEMENTS: &[&Entry] = &[&CLIENTS, &SERVERS, &SESSION, &PASS];

/// Packets of a batch: a number of runs.
const BURST: usize = 128;
/// Segments of a connection that follow each other.
const RUN: u32 = 4;
/// Where clients and servers begin to count.
const CLIENT_SEQ: u32 = 10_000;
const SERVER_SEQ: u32 = 20_000;

static CLIENTS: Entry = Entry::built::<Clients>(
    Spec {
        name: "StreamClients",
        topic: Topic::Streams,
        summary: "segments of TCP connections, from memory",
        ports: "0/1",
        processing: "a/h",
        args: &[
            Arg::required("CONNECTIONS", Ty::UInt, "how many"),
            Arg::required("PAYLOAD", Ty::UInt, "bytes of payload in a segment, an even number"),
            Arg::required("DISORDER", Ty::UInt, "one of so many runs is out of order; 0: none"),
            Arg::required("ALIKE", Ty::Bool, "whether the text is of what the words are of"),
        ],
        threading: Threading::Task,
        ..Spec::DEFAULT
    },
    |args| {
        let (count, len) = (args.get("CONNECTIONS")?, args.get("PAYLOAD")?);
        let text = words::text(args.get("ALIKE")?);
        Ok(Box::new(Clients::new(count, (text, len), args.get("DISORDER")?)))
    },
);

/// How far a connection is.
#[derive(Clone, Copy)]
enum Step {
    Closed,
    Asked,
    /// Open, with so many segments sent.
    Open(u32),
}

#[derive(Handlers)]
#[handler(read, field = count, "segments with payload so far")]
#[handler(write, field = left, "segments until the driver is asked to stop")]
struct Clients {
    steps: Vec<Step>,
    next: usize,
    len: usize,
    text: Vec<u8>,
    sums: Vec<[u8; 2]>,
    disorder: u64,
    runs: u64,
    left: u64,
    count: u64,
    batch: Batch,
}

impl Clients {
    fn new(connections: u32, (text, len): (Vec<u8>, usize), disorder: u64) -> Clients {
        let len = len.clamp(2, text.len());
        Clients {
            steps: vec![Step::Closed; connections.clamp(1, segment::CONNECTIONS_MAX) as usize],
            next: 0,
            len,
            sums: text.chunks_exact(len).map(segment::sum_of).collect(),
            text,
            disorder,
            runs: 0,
            left: 0,
            count: 0,
            batch: Batch::with_room(),
        }
    }

    /// What comes next of a connection that has sent so many segments.
    fn payload(&self, number: usize, sent: u32) -> Payload<'_> {
        let slot = (number * 7 + sent as usize) % self.sums.len();
        Payload { bytes: &self.text[slot * self.len..][..self.len], sum: self.sums[slot] }
    }

    fn data(&self, number: usize, sent: u32) -> Option<Packet> {
        // Sequence numbers wrap.
        let seq = (CLIENT_SEQ + 1).wrapping_add(sent.wrapping_mul(self.len as u32));
        let flags = flags::ACK | flags::PSH;
        let header = SegmentHeader { number: number as u32, seq, ack: SERVER_SEQ + 1, flags };
        segment::segment(header, self.payload(number, sent))
    }

    /// Adds what the next connection has to send; says how many of them have payload.
    fn turn(&mut self) -> u64 {
        let number = self.next;
        self.next = (number + 1) % self.steps.len();
        let (step, packets, sent) = match self.steps[number] {
            Step::Closed => {
                (Step::Asked, [segment::syn(number as u32, CLIENT_SEQ), None, None, None], 0)
            }
            Step::Asked => {
                let (seq, ack) = (CLIENT_SEQ + 1, SERVER_SEQ + 1);
                let header = SegmentHeader { number: number as u32, seq, ack, flags: flags::ACK };
                let none = Payload { bytes: &[], sum: [0; 2] };
                (Step::Open(0), [segment::segment(header, none), None, None, None], 0)
            }
            Step::Open(sent) => {
                self.runs += 1;
                let swaps = self.disorder > 0 && self.runs.is_multiple_of(self.disorder);
                let order = if swaps { [0, 2, 1, 3] } else { [0, 1, 2, 3] };
                let packets = order.map(|at| self.data(number, sent.wrapping_add(at)));
                (Step::Open(sent.wrapping_add(RUN)), packets, u64::from(RUN))
            }
        };
        self.steps[number] = step;
        self.batch.extend(packets.into_iter().flatten());
        sent
    }
}

impl Element for Clients {
    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        if self.left == 0 {
            return Run::Idle;
        }
        while self.batch.len() < BURST && self.left > 0 {
            let sent = self.turn();
            self.count += sent;
            self.left = self.left.saturating_sub(sent.max(1));
        }
        cx.emit_all(0, &mut self.batch);
        if self.left == 0 {
            cx.stop();
        }
        Run::Again
    }
}

static SERVERS: Entry = Entry::built::<Servers>(
    Spec {
        name: "StreamServers",
        topic: Topic::Streams,
        summary: "answers StreamClients: acknowledges every second segment",
        processing: "h/h",
        ..Spec::DEFAULT
    },
    |_| {
        let peers = vec![Peer::default(); segment::CONNECTIONS_MAX as usize];
        Ok(Box::new(Servers {
            peers,
            answers: Batch::with_room(),
            segments: 0,
            bytes: 0,
            early: 0,
            repeated: 0,
        }))
    },
);

/// A connection as its server sees it.
#[derive(Clone, Copy, Default)]
struct Peer {
    expected: u32,
    /// Segments that are not acknowledged.
    open: u32,
}

#[derive(Handlers)]
#[handler(read, field = segments, "segments with payload that came")]
#[handler(read, field = bytes, "bytes of payload that came in order")]
#[handler(read, field = early, "segments that came before one that is missing")]
#[handler(read, field = repeated, "segments that came again")]
struct Servers {
    peers: Vec<Peer>,
    answers: Batch,
    segments: u64,
    bytes: u64,
    early: u64,
    repeated: u64,
}

impl Servers {
    /// Takes a segment; whether it is answered, and with which numbers.
    fn take(&mut self, packet: &Packet) -> Option<(u32, u32)> {
        let read = segment::read(packet)?;
        let peer = &mut self.peers[read.number as usize];
        if read.flags & flags::SYN != 0 {
            *peer = Peer { expected: read.seq.wrapping_add(1), open: 0 };
            return Some((SERVER_SEQ, peer.expected));
        }
        if read.len == 0 {
            return None;
        }
        self.segments += 1;
        // Sequence numbers wrap (RFC 9293 section 3.4).
        let ahead = read.seq.wrapping_sub(peer.expected).cast_signed();
        if ahead == 0 {
            peer.expected = peer.expected.wrapping_add(read.len);
            self.bytes += u64::from(read.len);
        }
        self.early += u64::from(ahead > 0);
        self.repeated += u64::from(ahead < 0);
        peer.open += 1;
        if peer.open < 2 && ahead == 0 {
            return None;
        }
        peer.open = 0;
        Some((SERVER_SEQ + 1, peer.expected))
    }
}

impl Element for Servers {
    fn process(&mut self, _cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        for mut packet in batch.drain() {
            if let Some((seq, ack)) = self.take(&packet) {
                segment::answer(&mut packet, seq, ack);
                self.answers.push(packet);
            }
        }
        batch.append(&mut self.answers);
    }
}

static SESSION: Entry = Entry::new(
    Spec {
        name: "StreamSession",
        topic: Topic::Streams,
        summary: "wants a session and ignores it, in both directions",
        ports: "1-/=",
        flow: "#/#",
        wants: Wants::session::<u64>("connection"),
        changes: Changes::Nothing,
        ..Spec::DEFAULT
    },
    build::<Pass>,
);

static PASS: Entry = Entry::new(
    Spec {
        name: "StreamPass",
        topic: Topic::Streams,
        summary: "has needs and does nothing",
        ports: "1-/=",
        flow: "#/#",
        args: &[Arg::required("NEEDS", Ty::Choice(&["ORDER", "GUARD", "RESIZE"]), "what it needs")],
        wants: stream_wants::<u64>(),
        changes: Changes::Nothing,
        ..Spec::DEFAULT
    },
    pass,
)
.with_stream_member::<StreamPass>();

fn pass(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let needs = [Needs::ORDER, Needs::GUARD, Needs::RESIZE][args.choice("NEEDS")?];
    Ok(Box::new(StreamPass { needs, stage: Stage::default() }))
}

struct StreamPass {
    needs: Needs,
    stage: Stage,
}

/// Looks at nothing.
struct Blind;

impl StreamFunction for Blind {
    type State = u64;
    // What the element says counts.
    const NEEDS: Needs = Needs::NOTHING;

    fn process(&mut self, _state: &mut u64, _data: &mut StreamCursor<'_>) -> Next {
        Next::Continue
    }
}

impl Element for StreamPass {
    fn process(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        cx.per_stream(&mut self.stage, &mut Blind, port, batch);
    }
}

impl StreamMember for StreamPass {
    fn needs(&self) -> Option<Needs> {
        Some(self.needs)
    }
}

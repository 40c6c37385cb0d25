//! PayloadStats: how much payload sessions carry.

use std::any::Any;
use std::fmt::Write as _;

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, HandlerError, Handlers, HotSwap, Needs,
    Next, Operation, Replicas, SessionFunction, Spec, StreamCursor, StreamFunction, StreamMember,
    Topic, Ty,
};
use thruway_flow::Ended;
use thruway_packet::Batch;
use thruway_stream::stage::Stage;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::journal::{JOURNAL_TIMER, Journal, RECORDS_MAX};
use super::parties::{CSV_COLUMNS, Parties};
use super::per_stream::{PerStream, stream_ended, stream_wants};

/// See the spec.
pub static ENTRY: Entry = Entry::built::<PayloadStats>(
    Spec {
        name: "PayloadStats",
        topic: Topic::Streams,
        summary: "counts the payload of sessions, by direction",
        docs: "Counts bytes and packets of payload in the context that it stands in: IP, UDP, TCP \
               or (bodies of) HTTP. Packets without payload are not counted. Handlers with two \
               numbers are of the side that opened sessions, and of the other.\n\n\
               By default nothing is asked for, and packets are counted as they come: what TCP \
               sends again is counted again, unless another function of the chain needs order. \
               With ORDER true the stream is counted: each byte once, in order.\n\n\
               When a session ends, a line of comma-separated values goes to FILE: src, dst, \
               protocol, src_port, dst_port, bytes, packets, reply_bytes, reply_packets. Records \
               wait in a ring of RECORDS_MAX until the file is written, away from the packets; \
               those that find it full are lost and counted.",
        example: "FromDump(examples/captures/lan.pcap, STOP true) -> FlowClassifier \
                  ~> UDPIn -> PayloadStats(-) -> UDPOut -> Discard",
        ports: "1-/=",
        flow: "#/#",
        straight: true,
        args: &[
            Arg::optional("FILE", Ty::OutFile, "where records are written; - for standard output"),
            Arg::keyword("ORDER", Ty::Bool, "whether each byte of a stream counts once")
                .or("false"),
            RECORDS_MAX,
        ],
        wants: stream_wants::<SessionState>(),
        changes: Changes::Nothing,
        cost: &[Operation::SessionState.once()],
        replicas: Replicas::Apart("each counts the sessions of its thread, and handlers add up"),
        ..Spec::DEFAULT
    },
    build,
)
.with_stream_member::<PayloadStats>()
.with_session_function::<PayloadStats>()
.with_hot_swap::<PayloadStats>();

/// The counters of a session; by direction.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct SessionState {
    bytes: [u64; 2],
    packets: [u64; 2],
    parties: Parties,
}

/// The counters over all sessions.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    bytes: [u64; 2],
    packets: [u64; 2],
    sessions: u64,
    open: u64,
}

/// The function.
struct Meter {
    totals: Totals,
    journal: Journal<SessionState>,
}

impl StreamFunction for Meter {
    type State = SessionState;
    const NEEDS: Needs = Needs::NOTHING;

    fn process(&mut self, state: &mut SessionState, data: &mut StreamCursor<'_>) -> Next {
        let direction = data.direction();
        loop {
            let len = data.chunk().len();
            if len == 0 {
                return Next::Continue;
            }
            if state.packets == [0; 2] {
                self.totals.sessions += 1;
                self.totals.open += 1;
                if self.journal.is_wanted() {
                    state.parties = Parties::of(data);
                }
            }
            state.bytes[direction] += len as u64;
            state.packets[direction] += 1;
            self.totals.bytes[direction] += len as u64;
            self.totals.packets[direction] += 1;
            data.advance(len);
        }
    }

    fn ended(&mut self, state: &SessionState) {
        if state.packets != [0; 2] {
            self.totals.open = self.totals.open.saturating_sub(1);
            self.journal.push(*state);
        }
    }
}

/// The line of a record.
fn line(state: &SessionState, out: &mut String) {
    let SessionState { bytes, packets, parties } = state;
    let [sent, replied] =
        [0, 1].map(|direction| format!("{},{}", bytes[direction], packets[direction]));
    let _ = writeln!(out, "{parties},{sent},{replied}"); // a String does not fail
}

#[derive(Handlers)]
#[handler(
    sum, name = "bytes", "bytes of payload, by direction", get = both(self.meter.totals.bytes)
)]
#[handler(
    sum, name = "packets", "packets with payload, by direction",
    get = both(self.meter.totals.packets)
)]
#[handler(sum, name = "sessions", "sessions with payload", get = self.meter.totals.sessions)]
#[handler(
    sum, name = "open", "of these, sessions that have not ended", get = self.meter.totals.open
)]
#[handler(sum, name = "records", "records written", get = self.meter.journal.written)]
#[handler(sum, name = "lost", "records lost", get = self.meter.journal.lost)]
#[handler(write, name = "flush", "writes the records that wait", write = self.write_flush(cx))]
struct PayloadStats {
    needs: Needs,
    stage: Stage,
    meter: Meter,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let needs = if args.get("ORDER")? { Needs::ORDER } else { Needs::NOTHING };
    let journal = Journal::from_args(args, "FILE", line)?;
    let meter = Meter { totals: Totals::default(), journal };
    Ok(Box::new(PayloadStats { needs, stage: Stage::default(), meter }))
}

impl Element for PayloadStats {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let header = format!("{CSV_COLUMNS},bytes,packets,reply_bytes,reply_packets\n");
        self.meter.journal.open(&header)?;
        self.meter.journal.arm(cx);
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        cx.per_stream(&mut self.stage, &mut self.meter, port, batch);
    }

    fn timer(&mut self, cx: &mut Cx<'_>, token: u32) {
        if token == JOURNAL_TIMER {
            self.meter.journal.timer(cx);
        }
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.meter.journal.flush(cx);
        Ok(())
    }
}

fn both([sent, replied]: [u64; 2]) -> String {
    format!("{sent} {replied}")
}

impl PayloadStats {
    fn write_flush(&mut self, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        self.meter.journal.flush(cx);
        Ok(())
    }
}

impl HotSwap for PayloadStats {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        let totals = self.meter.totals;
        Some(Box::new(Meter { totals, journal: self.meter.journal.hand_over() }))
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        let Ok(kept) = state.downcast::<Meter>() else { return };
        self.meter.totals = kept.totals;
        self.meter.journal.take_over(kept.journal);
    }
}

impl SessionFunction for PayloadStats {
    fn closed(&mut self, cx: &mut Cx<'_>, state: &[u8], _why: Ended) {
        stream_ended(&mut self.stage, &mut self.meter, state);
        self.meter.journal.arm(cx);
    }
}

impl StreamMember for PayloadStats {
    fn needs(&self) -> Option<Needs> {
        Some(self.needs)
    }
}

//! PayloadChecksum: a running sum of the payload of sessions.

use std::any::Any;
use std::fmt::Write as _;

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cost, CostModel, Cx, Element, Entry, HandlerError, Handlers,
    HotSwap, Load, Needs, Next, Operation, Replicas, SessionFunction, Spec, StreamCursor,
    StreamFunction, StreamMember, Topic, Ty,
};
use thruway_flow::Ended;
use thruway_packet::Batch;
use thruway_stream::stage::Stage;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::journal::{JOURNAL_TIMER, Journal, RECORDS_MAX};
use super::parties::{CSV_COLUMNS, Parties};
use super::per_stream::{PerStream, stream_ended, stream_wants};

/// See the spec.
pub static ENTRY: Entry = Entry::built::<PayloadChecksum>(
    Spec {
        name: "PayloadChecksum",
        topic: Topic::Streams,
        summary: "sums up the payload of sessions, by direction",
        docs: "Adds the payload of each direction of a session, in order, as numbers of four bytes \
               in network order, modulo 2^32; the end is padded with zeros to four bytes. So the \
               same data has the same sum, whatever packets it came in: what signatures of \
               transfers are made of. It is not cryptographic.\n\n\
               When a session ends, a line of comma-separated values goes to FILE: src, dst, \
               protocol, src_port, dst_port, bytes, sum, reply_bytes, reply_sum; sums are \
               hexadecimal. Records wait in a ring of RECORDS_MAX until the file is written, away \
               from the packets; those that find it full are lost and counted.",
        example: "FromDump(examples/captures/lan.pcap, STOP true) -> FlowClassifier \
                  ~> UDPIn -> PayloadChecksum(-) -> UDPOut -> Discard",
        ports: "1-/=",
        flow: "#/#",
        straight: true,
        args: &[
            Arg::optional("FILE", Ty::OutFile, "where records are written; - for standard output"),
            RECORDS_MAX,
        ],
        wants: stream_wants::<SessionState>(),
        changes: Changes::Nothing,
        cost: &[Operation::SessionState.once(), Operation::ChecksumLine.once()],
        replicas: Replicas::Apart("each sums up the sessions of its thread"),
        ..Spec::DEFAULT
    },
    build,
)
.with_stream_member::<PayloadChecksum>()
.with_session_function::<PayloadChecksum>()
.with_cost_model::<PayloadChecksum>()
.with_hot_swap::<PayloadChecksum>();

/// The state of a session.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct SessionState {
    paths: [DirectionSum; 2],
    parties: Parties,
}

/// One direction.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
struct DirectionSum {
    bytes: u64,
    /// Of all whole words.
    sum: u32,
    /// The last bytes, as many as do not make a word: zeros follow them.
    rest: [u8; 4],
}

impl DirectionSum {
    /// Adds the next bytes of the stream.
    fn add(&mut self, mut bytes: &[u8]) {
        let filled = (self.bytes % 4) as usize;
        self.bytes += bytes.len() as u64;
        if filled > 0 {
            let n = bytes.len().min(4 - filled);
            self.rest[filled..filled + n].copy_from_slice(&bytes[..n]);
            bytes = &bytes[n..];
            if filled + n < 4 {
                return;
            }
            self.sum = self.sum.wrapping_add(u32::from_be_bytes(self.rest));
            self.rest = [0; 4];
        }
        let (words, rest) = bytes.as_chunks::<4>();
        let add = |sum: u32, word: &[u8; 4]| sum.wrapping_add(u32::from_be_bytes(*word));
        self.sum = words.iter().fold(self.sum, add);
        self.rest[..rest.len()].copy_from_slice(rest);
    }

    /// The sum of all.
    fn sum(&self) -> u32 {
        self.sum.wrapping_add(u32::from_be_bytes(self.rest))
    }
}

/// The function.
struct Summer {
    bytes: [u64; 2],
    sums: [u64; 2],
    sessions: u64,
    journal: Journal<SessionState>,
}

impl StreamFunction for Summer {
    type State = SessionState;
    const NEEDS: Needs = Needs::ORDER;

    fn process(&mut self, state: &mut SessionState, data: &mut StreamCursor<'_>) -> Next {
        let direction = data.direction();
        if self.journal.is_wanted() && state.parties.version == 0 {
            state.parties = Parties::of(data);
        }
        loop {
            let chunk = data.chunk();
            let len = chunk.len();
            if len == 0 {
                return Next::Continue;
            }
            state.paths[direction].add(chunk);
            self.bytes[direction] += len as u64;
            data.advance(len);
        }
    }

    fn ended(&mut self, state: &SessionState) {
        if state.paths.iter().all(|sum| sum.bytes == 0) {
            return;
        }
        self.sessions += 1;
        for (sum, direction) in self.sums.iter_mut().zip(&state.paths) {
            *sum = sum.wrapping_add(direction.sum().into());
        }
        self.journal.push(*state);
    }
}

/// The line of a record.
fn line(state: &SessionState, out: &mut String) {
    let [sent, replied] = state.paths.map(|sum| format!("{},{:08x}", sum.bytes, sum.sum()));
    let _ = writeln!(out, "{},{sent},{replied}", state.parties); // a String does not fail
}

#[derive(Handlers)]
#[handler(sum, name = "bytes", "bytes of payload, by direction", get = both(self.summer.bytes))]
#[handler(
    sum, name = "sums", "sum of the sums of ended sessions, by direction",
    get = both(self.summer.sums)
)]
#[handler(sum, name = "sessions", "ended sessions with payload", get = self.summer.sessions)]
#[handler(sum, name = "records", "records written", get = self.summer.journal.written)]
#[handler(sum, name = "lost", "records lost", get = self.summer.journal.lost)]
#[handler(write, name = "flush", "writes the records that wait", write = self.write_flush(cx))]
struct PayloadChecksum {
    stage: Stage,
    summer: Summer,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let journal = Journal::from_args(args, "FILE", line)?;
    let summer = Summer { bytes: [0; 2], sums: [0; 2], sessions: 0, journal };
    Ok(Box::new(PayloadChecksum { stage: Stage::default(), summer }))
}

impl Element for PayloadChecksum {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.summer.journal.open(&format!("{CSV_COLUMNS},bytes,sum,reply_bytes,reply_sum\n"))?;
        self.summer.journal.arm(cx);
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        cx.per_stream(&mut self.stage, &mut self.summer, port, batch);
    }

    fn timer(&mut self, cx: &mut Cx<'_>, token: u32) {
        if token == JOURNAL_TIMER {
            self.summer.journal.timer(cx);
        }
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.summer.journal.flush(cx);
        Ok(())
    }
}

fn both([sent, replied]: [u64; 2]) -> String {
    format!("{sent} {replied}")
}

impl PayloadChecksum {
    fn write_flush(&mut self, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        self.summer.journal.flush(cx);
        Ok(())
    }
}

impl HotSwap for PayloadChecksum {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        let Summer { bytes, sums, sessions, ref mut journal } = self.summer;
        Some(Box::new(Summer { bytes, sums, sessions, journal: journal.hand_over() }))
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        let Ok(kept) = state.downcast::<Summer>() else { return };
        let Summer { bytes, sums, sessions, journal } = *kept;
        self.summer.journal.take_over(journal);
        (self.summer.bytes, self.summer.sums, self.summer.sessions) = (bytes, sums, sessions);
    }
}

impl CostModel for PayloadChecksum {
    fn cost(&self, load: &Load) -> Option<Vec<Cost>> {
        let lines = Load::lines(load.payload_bytes);
        Some(vec![Operation::SessionState.once(), Operation::ChecksumLine.times(lines)])
    }
}

impl SessionFunction for PayloadChecksum {
    fn closed(&mut self, cx: &mut Cx<'_>, state: &[u8], _why: Ended) {
        stream_ended(&mut self.stage, &mut self.summer, state);
        self.summer.journal.arm(cx);
    }
}

impl StreamMember for PayloadChecksum {
    fn needs(&self) -> Option<Needs> {
        Some(Summer::NEEDS)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All bytes at once, filled up with zeros.
    fn plainly(mut bytes: Vec<u8>) -> u32 {
        while !bytes.len().is_multiple_of(4) {
            bytes.push(0);
        }
        let words = bytes
            .chunks(4)
            .map(|word| word.iter().fold(0u64, |number, byte| number * 256 + u64::from(*byte)));
        (words.sum::<u64>() % (1 << 32)) as u32
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9), 0..12),
        ) {
            let mut sum = DirectionSum::default();
            pieces.iter().for_each(|piece| sum.add(piece));
            let all = pieces.concat();
            prop_assert_eq!((sum.bytes, sum.sum()), (all.len() as u64, plainly(all)));
        }
    }
}

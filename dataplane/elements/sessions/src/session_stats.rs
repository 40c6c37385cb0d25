//! SessionStats: a record of every session, written to a file or sent to a collector.

use std::any::Any;
use std::sync::Arc;

use parking_lot::Mutex;
use thruway_element::{
    Alias, Arguments, Changes, Cx, Demand, Element, Entry, HandlerError, Handlers, HotSwap, Nanos,
    Operation, PerSession, Replicas, SessionFunction, ShortCut, Spec, Topic, Ty, Wants,
};
use thruway_elements_support::collector::Collector;
use thruway_flow::{Ended, SessionDef};
use thruway_packet::Batch;
use zerocopy::FromBytes;

use ledger::{Counters, Ledger};
use sink::{Format, Outcome, Sink, Wanted};

mod ipfix;
mod ledger;
mod record;
mod sink;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<SessionStats>(Spec {
    name: "SessionStats",
    aliases: &[Alias { name: "FlowCounter", summary: "FastClick's name" }],
    topic: Topic::Sessions,
    summary: "counts packets and bytes of every session, writes records (CSV, IPFIX)",
    docs: "Counts each session's packets, bytes (IP header included), TCP flags and times of first \
           and last packet, for each direction. When a session ends, a record of it goes to FILE, \
           as CSV or as IPFIX (RFC 7011, files by RFC 5655, both directions in a record by RFC \
           5103), and to COLLECTOR, as IPFIX over UDP. A session that goes on has a record every \
           ACTIVE too, when a packet of it comes: records hold the counts since the last one, so \
           the sum of a session's records is the session. Without FILE and COLLECTOR only the \
           totals are counted.\n\n\
           SESSION selects the unit of counting: connection (the default), flow (one direction of \
           a connection), pair (of addresses), source, destination, or a list of fields; omitted \
           fields are 0 in the records. A source's port is the identifier of ICMP queries. For a \
           connection with directions served by different threads there are two records with the \
           same addresses, each with one direction's packets; so there are where another element \
           in front translates addresses in one direction only.\n\n\
           CSV columns: src, dst, protocol, src_port, dst_port; first, last, packets, bytes, \
           tcp_flags of the direction that began; the same of replies, called reply_...; and end: \
           active (goes on), idle (timed out), closed (by its protocol), evicted, removed (by a \
           handler, or at the end of the run). Times are seconds since 1970, to the \
           millisecond.\n\n\
           Records wait in a ring of RECORDS_MAX until the file is written, away from the packets; \
           those that find it full, and those of messages that could not be sent, are lost and \
           counted. Sessions beyond SESSIONS_MAX (of one thread) have no record. Packets without a \
           session, and ICMP errors about packets of sessions, are counted apart. Nothing is \
           dropped. It is FlowClassifier that finds sessions, so it must be upstream.",
    example: "FromDump(examples/captures/lan.pcap, STOP true) -> FlowClassifier \
              ~> SessionStats(-) -> Discard",
    wants: Wants::session::<Counters>("connection"),
    changes: Changes::Nothing,
    cost: &[Operation::SessionState.once()],
    replicas: Replicas::Sharing(
        "the file of records; a session that comes in by two threads has two records, one for \
         each direction",
    ),
    short_cut: ShortCut::Passes,
    large_packets: true,
    ..Spec::DEFAULT
})
.with_session_function::<SessionStats>()
.with_hot_swap::<SessionStats>();

/// Time between writings, nanoseconds.
const WRITE_EVERY_NS: i64 = 100_000_000;
/// Time to the next where records are left, nanoseconds.
const WRITE_AGAIN_NS: i64 = 1_000_000;
/// Records written at once: a tenth of a millisecond, so that packets do not wait long.
const WRITE_AT_ONCE: usize = 128;
/// Most seconds of ACTIVE: half of what the state counts to.
const ACTIVE_MAX_S: i64 = 32_767;
/// Most of RECORDS_MAX and SESSIONS_MAX.
const ROOM_MAX: usize = 1 << 26;

#[derive(Arguments, Handlers)]
#[handler(sum, name = "open", "open sessions", get = self.ledger.totals().open)]
#[handler(sum, name = "count", "sessions begun", get = self.ledger.totals().begun)]
#[handler(sum, field = written, name = "records", "records written")]
#[handler(sum, name = "lost", "records lost", get = self.ledger.totals().lost)]
#[handler(
    sum, name = "unrecorded", "sessions beyond SESSIONS_MAX", get = self.ledger.totals().unrecorded
)]
#[handler(
    sum, name = "related", "ICMP errors about packets of sessions",
    get = self.ledger.totals().related
)]
#[handler(
    sum, name = "sessionless", "packets without a session", get = self.ledger.totals().sessionless
)]
#[handler(write, name = "flush", "writes the records that wait", write = self.write_flush(cx))]
struct SessionStats {
    #[arg(optional, name = "FILE", value = Option<String>, ty = Ty::OutFile, "where records are written")]
    #[arg(
        keyword, name = "FORMAT", value = Format, as = String, via = format_of,
        ty = Ty::Choice(&["csv", "ipfix"]), or = "csv", "of the file"
    )]
    #[arg(
        keyword, name = "COLLECTOR", unread, ty = Ty::Str,
        "ADDRESS:PORT that IPFIX messages are sent to"
    )]
    /// what is counted together
    #[arg(keyword, or = "connection")]
    session: SessionDef,
    #[arg(
        keyword, name = "ACTIVE", value = u16, as = Nanos, via = active_of, or = "300",
        "between records of a session that goes on; 0: none"
    )]
    #[arg(keyword, name = "DOMAIN", value = u32, or = "0", "IPFIX observation domain")]
    #[new(Wanted { path: file, format, collector: Collector::address(args, "COLLECTOR")?, domain })]
    wanted: Wanted,
    #[arg(
        keyword, name = "RECORDS_MAX", value = usize, range = 1..=ROOM_MAX, or = "65536",
        "most records that wait"
    )]
    #[arg(
        keyword, name = "SESSIONS_MAX", value = usize, range = 1..=ROOM_MAX, or = "1048576",
        "most sessions with a record, in one thread"
    )]
    #[new({
        let exports = wanted.path.is_some() || wanted.collector.is_some();
        let ring = if exports { records_max } else { 0 };
        Ledger::new(session.clone(), active, sessions_max, ring)
    })]
    ledger: Ledger,
    #[new(args.shared("sink", || Mutex::new(Sink::default())))]
    sink: Arc<Mutex<Sink>>,
    written: u64,
    /// A timer is set.
    waiting: bool,
}

/// The state for a successor.
struct Kept {
    ledger: Ledger,
    wanted: Wanted,
    sink: Arc<Mutex<Sink>>,
}

fn format_of(text: String) -> Result<Format, String> {
    match text.as_str() {
        "csv" => Ok(Format::Csv),
        "ipfix" => Ok(Format::Ipfix),
        other => Err(format!("'{other}' is neither csv nor ipfix")),
    }
}

/// In seconds.
fn active_of(Nanos(active): Nanos) -> Result<u16, String> {
    let seconds = active / 1_000_000_000;
    if active < 0 || seconds > ACTIVE_MAX_S || active > 0 && seconds == 0 {
        return Err(format!("must be 0 or from 1 to {ACTIVE_MAX_S} s"));
    }
    Ok(seconds as u16)
}

impl SessionStats {
    /// Sees to it that records that wait are written.
    fn arm(&mut self, cx: &mut Cx<'_>, after: i64) {
        if !self.waiting && self.ledger.waiting() > 0 {
            self.waiting = true;
            cx.set_timer(0, cx.now().saturating_add(after));
        }
    }

    fn account(&mut self, cx: &mut Cx<'_>, outcome: Outcome) {
        self.ledger.lose(outcome.lost);
        if let Some(error) = outcome.error {
            cx.log(&error);
        }
    }

    /// Writes up to `max` records.
    fn write_out(&mut self, cx: &mut Cx<'_>, max: usize) {
        let now = cx.now();
        for _ in 0..max {
            let Some(record) = self.ledger.take() else { break };
            let outcome = self.sink.lock().write(&record, now);
            self.written += 1;
            self.account(cx, outcome);
        }
        if self.ledger.waiting() == 0 {
            let outcome = self.sink.lock().flush(now);
            self.account(cx, outcome);
        }
    }
}

impl Element for SessionStats {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let wanted = self.wanted.clone();
        self.sink.lock().open(&wanted)?;
        self.arm(cx, WRITE_EVERY_NS);
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        self.ledger.stands_for = cx.stands_for();
        cx.per_session(&mut self.ledger, batch);
        self.arm(cx, WRITE_EVERY_NS);
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        self.waiting = false;
        self.write_out(cx, WRITE_AT_ONCE);
        self.arm(cx, WRITE_AGAIN_NS);
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.write_out(cx, usize::MAX);
        Ok(())
    }
}

impl SessionStats {
    fn write_flush(&mut self, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        self.write_out(cx, usize::MAX);
        Ok(())
    }
}

impl HotSwap for SessionStats {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        let (wanted, sink) = (self.wanted.clone(), Arc::clone(&self.sink));
        Some(Box::new(Kept { ledger: self.ledger.hand_over(), wanted, sink }))
    }

    /// The file that goes on is not created again.
    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        let Ok(kept) = state.downcast::<Kept>() else { return };
        self.ledger.take_over(kept.ledger);
        if kept.wanted == self.wanted {
            self.sink = kept.sink;
        }
    }
}

impl SessionFunction for SessionStats {
    fn demand(&self) -> Option<Demand> {
        Some(ENTRY.spec.wants.demand_of(self.session.clone()))
    }

    fn closed(&mut self, cx: &mut Cx<'_>, state: &[u8], why: Ended) {
        self.ledger.set_time(cx.now());
        if let Ok(state) = Counters::read_from_bytes(state) {
            self.ledger.close(&state, why);
        }
        self.arm(cx, WRITE_EVERY_NS);
    }
}

#[cfg(test)]
mod tests;

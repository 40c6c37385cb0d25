//! What an element and the threads of a stream share. Neither waits for the other.

use std::time::{Duration, Instant};

use crossbeam_queue::ArrayQueue;
use thruway_sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::frame::PAYLOAD_MAX;
use crate::term::{Side, Standing, Term};

/// Batches in a queue, at most.
const BATCHES: usize = 256;
/// Longer than a host takes to connect to another that is there.
const RECONNECT: Duration = Duration::from_millis(500);
/// Lines for the user that wait, at most.
const LINES: usize = 16;

/// What is in a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Content {
    /// Records of sessions.
    #[default]
    Records,
    /// Packets, which came to a host that no longer serves them.
    Packets,
}

/// Records or packets that travel together.
#[derive(Debug, Default)]
pub struct Batch {
    /// The stream that they are for: what an earlier one did not send is no use to the next.
    pub stream: u64,
    /// The term in which they were written; of one that was received, the last term that was known
    /// of then.
    pub term: Term,
    /// What they are.
    pub content: Content,
    /// How many.
    pub count: u64,
    /// The records or packets.
    pub bytes: Vec<u8>,
}

/// Batches of one direction, with buffers for them that were allocated in advance.
#[derive(Debug)]
pub struct Channel {
    full: ArrayQueue<Batch>,
    free: ArrayQueue<Vec<u8>>,
}

impl Default for Channel {
    fn default() -> Channel {
        let free = ArrayQueue::new(BATCHES);
        for _ in 0..BATCHES {
            // As many as there is room for.
            let _ = free.push(Vec::with_capacity(PAYLOAD_MAX));
        }
        Channel { full: ArrayQueue::new(BATCHES), free }
    }
}

impl Channel {
    /// An empty buffer for a batch; `None` while all are in use.
    pub fn buffer(&self) -> Option<Vec<u8>> {
        self.free.pop()
    }

    /// How many buffers are not in use.
    pub fn free_buffers(&self) -> usize {
        self.free.len()
    }

    /// Queues a batch; gives it back where there is no room. Whoever has a buffer has room.
    ///
    /// # Errors
    /// The queue is full.
    pub fn put(&self, batch: Batch) -> Result<(), Batch> {
        self.full.push(batch)
    }

    /// The next batch.
    pub fn take(&self) -> Option<Batch> {
        self.full.pop()
    }

    /// Gives a buffer back.
    pub fn recycle(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        // There are never more than there is room for.
        let _ = self.free.push(buffer);
    }
}

/// What a user may want to know.
#[derive(Debug, Default)]
pub struct Counts {
    /// Records sent.
    pub sent: AtomicU64,
    /// Records received.
    pub received: AtomicU64,
    /// Records that the other host acknowledged.
    pub acknowledged: AtomicU64,
    /// Records of the present stream that are not acknowledged yet.
    pub lag: AtomicU64,
    /// Transfers of all sessions.
    pub resyncs: AtomicU64,
    /// Times that records found no room in a queue.
    pub overflows: AtomicU64,
    /// Streams that were refused or ended for what they sent.
    pub refused: AtomicU64,
    /// Sessions that this host could not go on with.
    pub unusable: AtomicU64,
    /// Packets passed on to the other host, which serves their traffic now.
    pub passed_on: AtomicU64,
}

/// See the module.
#[derive(Debug)]
pub struct Link {
    side: Side,
    /// From the element to the other host.
    pub outgoing: Channel,
    /// From the other host to the element.
    pub incoming: Channel,
    lines: ArrayQueue<String>,
    /// Counters.
    pub counts: Counts,
    stream: AtomicU64,
    is_connected: AtomicBool,
    term: AtomicU64,
    has_sessions: AtomicBool,
    /// The other host runs another chain.
    is_foreign: AtomicBool,
    stops: AtomicBool,
    /// The stream is to end, and another to begin.
    renews: AtomicBool,
    done: AtomicU64,
    /// Records of the present stream that the other host acknowledged.
    acknowledged: AtomicU64,
    is_urgent: AtomicBool,
    heard_ms: AtomicU64,
    /// When the last sign of life was sent that the other host says it has had; 0: none yet.
    echoed_ms: AtomicU64,
    /// This host is about to take over: it no longer says that it hears the other one.
    is_echo_stopped: AtomicBool,
    /// The term that the witness is asked for, plus 1; 0: none.
    claimed: AtomicU64,
    /// The term that it granted, plus 1, and until when; 0: none.
    leased: AtomicU64,
    leased_until_ms: AtomicU64,
    since: Instant,
}

impl Link {
    /// Of the host at this end of the connection.
    pub fn new(side: Side) -> Link {
        Link {
            side,
            outgoing: Channel::default(),
            incoming: Channel::default(),
            lines: ArrayQueue::new(LINES),
            counts: Counts::default(),
            stream: AtomicU64::new(0),
            is_connected: AtomicBool::new(false),
            term: AtomicU64::new(Term::default().number()),
            has_sessions: AtomicBool::new(false),
            is_foreign: AtomicBool::new(false),
            stops: AtomicBool::new(false),
            renews: AtomicBool::new(false),
            done: AtomicU64::new(0),
            acknowledged: AtomicU64::new(0),
            is_urgent: AtomicBool::new(false),
            heard_ms: AtomicU64::new(0),
            echoed_ms: AtomicU64::new(0),
            is_echo_stopped: AtomicBool::new(false),
            claimed: AtomicU64::new(0),
            leased: AtomicU64::new(0),
            leased_until_ms: AtomicU64::new(0),
            since: Instant::now(),
        }
    }

    /// Which end of the connection this host is.
    pub fn side(&self) -> Side {
        self.side
    }

    /// Leaves a line for the user; the oldest goes where nobody reads them.
    pub fn log(&self, line: String) {
        self.lines.force_push(line);
    }

    /// A line for the user.
    pub fn line(&self) -> Option<String> {
        self.lines.pop()
    }

    /// The number of the present stream, if there is one.
    pub fn stream(&self) -> Option<u64> {
        self.is_connected.load(Ordering::Acquire).then(|| self.stream.load(Ordering::Acquire))
    }

    /// A stream begins, or ends.
    pub(crate) fn set_connected(&self, is_connected: bool) {
        if is_connected {
            // Before the new number: nothing of the new stream is acknowledged.
            self.acknowledged.store(0, Ordering::Release);
            self.is_foreign.store(false, Ordering::Release);
            self.stream.fetch_add(1, Ordering::AcqRel);
        }
        self.is_connected.store(is_connected, Ordering::Release);
    }

    /// Records of the present stream that the other host has installed or refused.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Acquire)
    }

    pub(crate) fn set_acknowledged(&self, records: u64) {
        self.acknowledged.store(records, Ordering::Release);
    }

    /// Packets wait for the backup: from now on the threads look for work ten times as often.
    pub fn hurry(&self) {
        self.is_urgent.store(true, Ordering::Release);
    }

    pub(crate) fn is_urgent(&self) -> bool {
        self.is_urgent.load(Ordering::Acquire)
    }

    /// The last term that this host knows of.
    pub fn term(&self) -> Term {
        Term::of_number(self.term.load(Ordering::Acquire))
    }

    /// There is this term now, or a later one.
    pub fn advance(&self, term: Term) {
        self.term.fetch_max(term.number(), Ordering::AcqRel);
    }

    /// Whether this host serves, or has had all sessions of the one that does.
    pub fn set_has_sessions(&self, has_sessions: bool) {
        self.has_sessions.store(has_sessions, Ordering::Release);
    }

    /// What this host says of itself.
    pub(crate) fn standing(&self) -> Standing {
        Standing { term: self.term(), has_sessions: self.has_sessions.load(Ordering::Acquire) }
    }

    /// Whether the other host was heard of last with another chain than this one's.
    pub fn is_foreign(&self) -> bool {
        self.is_foreign.load(Ordering::Acquire)
    }

    pub(crate) fn set_foreign(&self) {
        self.is_foreign.store(true, Ordering::Release);
    }

    /// The element has installed or refused so many more records.
    pub fn add_done(&self, records: u64) {
        self.done.fetch_add(records, Ordering::AcqRel);
    }

    pub(crate) fn done(&self) -> u64 {
        self.done.load(Ordering::Acquire)
    }

    /// Has the stream end and another begin, with all sessions.
    pub fn renew(&self) {
        self.renews.store(true, Ordering::Release);
    }

    /// Whether that was asked for since the last call.
    pub(crate) fn takes_renewal(&self) -> bool {
        self.renews.swap(false, Ordering::AcqRel)
    }

    /// Has the threads end.
    pub fn stop(&self) {
        self.stops.store(true, Ordering::Release);
    }

    pub(crate) fn stops(&self) -> bool {
        self.stops.load(Ordering::Acquire)
    }

    /// After its threads have ended: others may begin. The other host's silence counts from when it
    /// has had time to connect.
    pub fn begin_again(&self) {
        let then = self.since.elapsed() + RECONNECT;
        self.heard_ms.store(then.as_millis() as u64, Ordering::Release);
        self.stops.store(false, Ordering::Release);
    }

    /// Milliseconds since it began.
    pub(crate) fn now_ms(&self) -> u64 {
        self.since.elapsed().as_millis() as u64
    }

    /// The other host was heard.
    pub(crate) fn hear(&self) {
        // Before a look at whether this host says so: see `stop_echo`.
        self.heard_ms.store(self.now_ms(), Ordering::SeqCst);
    }

    /// From now on this host does not say that it hears the other one, which may serve as long as
    /// it does; how long that has been silent. Where a thread hears at this moment, one of the two
    /// sees the other: both write before they read.
    pub fn stop_echo(&self) -> Duration {
        self.is_echo_stopped.store(true, Ordering::SeqCst);
        self.silence()
    }

    /// It does not take over after all, or has.
    pub fn resume_echo(&self) {
        self.is_echo_stopped.store(false, Ordering::SeqCst);
    }

    pub(crate) fn is_echo_stopped(&self) -> bool {
        self.is_echo_stopped.load(Ordering::SeqCst)
    }

    /// The other host has had what was sent then.
    pub(crate) fn note_echo(&self, sent_ms: u64) {
        self.echoed_ms.fetch_max(sent_ms, Ordering::AcqRel);
    }

    /// How much is left of the time in which the other host does not take over: it waits for
    /// `after` since it last heard this one.
    pub fn echo_left(&self, after: Duration) -> Duration {
        let echoed = Duration::from_millis(self.echoed_ms.load(Ordering::Acquire));
        if echoed.is_zero() {
            return Duration::ZERO;
        }
        (echoed + after).saturating_sub(self.since.elapsed())
    }

    /// Has the witness asked for a term, or for none.
    pub fn claim(&self, term: Option<Term>) {
        self.claimed.store(term.map_or(0, |term| term.number() + 1), Ordering::Release);
    }

    pub(crate) fn claimed(&self) -> Option<Term> {
        self.claimed.load(Ordering::Acquire).checked_sub(1).map(Term::of_number)
    }

    /// The witness granted a term that was asked for then.
    pub(crate) fn set_lease(&self, term: Term, asked: Instant, lease_ms: u32) {
        let until = asked.saturating_duration_since(self.since).as_millis() as u64;
        // In this order: a reader finds no term with another one's time.
        self.leased_until_ms.store(0, Ordering::Release);
        self.leased.store(term.number() + 1, Ordering::Release);
        self.leased_until_ms.store(until + u64::from(lease_ms), Ordering::Release);
    }

    /// How much is left of the lease of a term.
    pub fn lease_left(&self, term: Term) -> Duration {
        let until = Duration::from_millis(self.leased_until_ms.load(Ordering::Acquire));
        let is_of_term = self.leased.load(Ordering::Acquire) == term.number() + 1;
        if is_of_term { until.saturating_sub(self.since.elapsed()) } else { Duration::ZERO }
    }

    /// How long the other host has been silent.
    pub fn silence(&self) -> Duration {
        let heard = Duration::from_millis(self.heard_ms.load(Ordering::SeqCst));
        self.since.elapsed().saturating_sub(heard)
    }

    /// Waits, unless the threads are to end.
    pub(crate) fn pause(&self, time: Duration) {
        let end = Instant::now() + time;
        while !self.stops() && Instant::now() < end {
            std::thread::sleep(time.min(Duration::from_millis(10)));
        }
    }
}

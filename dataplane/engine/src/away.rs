//! How long a thread was away from its round, and why.
//!
//! A round ends a piece at a time (a task's run, a timer, a command, a sweep); after each piece the
//! thread reads its cycle counter once. The longest piece is reported as the cause of a long round.
//! The scheduler causes the part of it that the thread spent waiting for a processor: the kernel
//! counts that, and is asked after long rounds, and every few milliseconds to have a recent
//! starting point.
//!
//! PERF: one reading of the cycle counter (some 20 cycles) for a task's run, which is mostly for a
//! batch of packets; a question to the kernel (about 1 us) every [`ASK_EVERY`] cycles at most.

use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::Instant;

use thruway_packet::cycles;
use thruway_sync::Counter;

use crate::layout::Layout;

/// Cycles of a round that is worth asking why: less than a millisecond of any processor.
const LONG: u64 = 1 << 20;
/// Cycles between two questions how long the thread has waited for a processor: some milliseconds.
const ASK_EVERY: u64 = 1 << 24;
/// Nanoseconds of a span of "recent".
const SPAN_NS: u64 = 5_000_000_000;

/// Kind of a piece of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece {
    /// The engine itself.
    Round,
    /// Commands of other threads: handler calls, traces.
    Command,
    /// Expired sessions.
    Sessions,
    /// Packets that other threads handed over.
    Handed,
    /// A timer of an element.
    Timer,
    /// A task of an element, and the processing of the packets that it sent.
    Task,
}

const PIECES: [(Piece, &str); 6] = [
    (Piece::Round, "engine"),
    (Piece::Command, "handler"),
    (Piece::Sessions, "sessions"),
    (Piece::Handed, "handoff"),
    (Piece::Timer, "timer"),
    (Piece::Task, "task"),
];

/// No element.
pub(crate) const NO_ELEMENT: u32 = u32::MAX;

/// A stay away from the round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// Nanoseconds that the cause took.
    pub own_ns: u64,
    /// The same with the time in which the thread waited for a processor.
    pub whole_ns: u64,
    piece: Piece,
    node: u32,
}

impl Gap {
    const NONE: Gap = Gap { own_ns: 0, whole_ns: 0, piece: Piece::Round, node: NO_ELEMENT };

    /// `KIND` and the element's name, `-` if there is none, separated by a tab.
    pub(crate) fn cause(&self, layout: &Layout) -> String {
        let name = PIECES.iter().find(|(piece, _)| *piece == self.piece).map_or("", |of| of.1);
        let element = layout.graph.elements.get(self.node as usize);
        format!("{name}\t{}", element.map_or("-", |decl| &decl.name))
    }
}

/// A gap that its thread writes and any thread reads, without a consistent snapshot. Stores the
/// element's number plus one: the initial 0 means no element.
#[derive(Default)]
struct GapWords([Counter; 3]);

impl GapWords {
    fn set(&self, gap: Gap) {
        let cause = (gap.piece as u64) << 32 | u64::from(gap.node.wrapping_add(1));
        let words = [gap.own_ns, gap.whole_ns, cause];
        self.0.iter().zip(words).for_each(|(word, value)| word.set(value));
    }

    fn get(&self) -> Gap {
        let [own_ns, whole_ns, cause] = std::array::from_fn(|at| self.0[at].get());
        let (piece, _) = PIECES.get((cause >> 32) as usize).copied().unwrap_or(PIECES[0]);
        Gap { own_ns, whole_ns, piece, node: (cause as u32).wrapping_sub(1) }
    }
}

/// The worst gaps of a thread, for others.
#[derive(Default)]
pub(crate) struct Gaps {
    worst: GapWords,
    /// Of the present span of time and of the one before it.
    recent: [GapWords; 2],
}

impl fmt::Debug for Gaps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gaps").field("worst", &self.worst()).finish_non_exhaustive()
    }
}

impl Gaps {
    /// Since the thread began.
    pub fn worst(&self) -> Gap {
        self.worst.get()
    }

    /// Of the last five to ten seconds in which the thread was awake.
    pub fn recent(&self) -> Gap {
        let [one, other] = self.recent.each_ref().map(GapWords::get);
        if one.own_ns >= other.own_ns { one } else { other }
    }

    fn note(&self, gap: Gap) {
        for words in [&self.worst, &self.recent[0]] {
            if gap.own_ns > words.get().own_ns {
                words.set(gap);
            }
        }
    }

    fn begin_span(&self) {
        self.recent[1].set(self.recent[0].get());
        self.recent[0].set(Gap::NONE);
    }
}

/// A thread's state of its present round.
pub(crate) struct Away {
    /// Cycle counter at the end of the last piece, and of the last round.
    since: u64,
    round: u64,
    /// The longest piece of this round.
    longest: u64,
    piece: Piece,
    node: u32,
    /// Where counting began: cycles go by these.
    begin: (u64, Instant),
    span_end_ns: u64,
    waits: Waits,
}

/// How long the thread has waited for a processor, as the kernel counts.
struct Waits {
    file: Option<File>,
    asked: u64,
    ns: u64,
}

impl Waits {
    fn ask(&mut self, now: u64) {
        self.asked = now;
        self.ns = self.file.as_ref().and_then(waited_ns).unwrap_or(0);
    }
}

/// The second number of a `schedstat` of the kernel: nanoseconds on a run queue.
fn waited_ns(file: &File) -> Option<u64> {
    let mut text = [0; 80];
    let len = file.read_at(&mut text, 0).ok()?;
    let text = std::str::from_utf8(text.get(..len)?).ok()?;
    text.split_whitespace().nth(1)?.parse().ok()
}

impl Away {
    pub fn new() -> Away {
        let now = cycles();
        Away {
            since: now,
            round: now,
            longest: 0,
            piece: Piece::Round,
            node: NO_ELEMENT,
            begin: (now, Instant::now()),
            span_end_ns: SPAN_NS,
            waits: Waits { file: None, asked: now, ns: 0 },
        }
    }

    /// Called at the begin of its thread: the kernel's numbers are those of the thread that opens
    /// the file.
    pub fn begin(&mut self) {
        // Without the file, waiting counts as the piece's own time.
        self.waits.file = File::open("/proc/thread-self/schedstat").ok();
        let now = cycles();
        (self.since, self.round, self.longest) = (now, now, 0);
        self.begin = (now, Instant::now());
        self.span_end_ns = SPAN_NS;
        self.waits.ask(now);
    }

    /// A piece of the round ends.
    #[inline]
    pub fn did(&mut self, piece: Piece, node: u32) {
        let now = cycles();
        let spent = now.wrapping_sub(self.since);
        self.since = now;
        if spent > self.longest {
            (self.longest, self.piece, self.node) = (spent, piece, node);
        }
    }

    /// The round ends with its last piece.
    #[inline]
    pub fn end_round(&mut self, gaps: &Gaps) {
        let spent = self.since.wrapping_sub(self.round);
        if spent >= LONG {
            self.look(gaps, spent);
        } else if self.since.wrapping_sub(self.waits.asked) >= ASK_EVERY {
            self.waits.ask(self.since);
        }
        (self.round, self.longest) = (self.since, 0);
    }

    /// The thread had nothing to do up to now.
    #[inline]
    pub fn rested(&mut self, now: u64) {
        (self.since, self.round) = (now, now);
        if now.wrapping_sub(self.waits.asked) >= ASK_EVERY {
            self.waits.ask(now);
        }
    }

    #[cold]
    fn look(&mut self, gaps: &Gaps, spent: u64) {
        let before = self.waits.ns;
        self.waits.ask(self.since);
        let (begin, at) = self.begin;
        let now_ns = u64::try_from(at.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let whole = u128::from(spent) * u128::from(now_ns);
        let whole = whole / u128::from(self.since.wrapping_sub(begin).max(1));
        let whole_ns = u64::try_from(whole).unwrap_or(u64::MAX);
        let own_ns = whole_ns.saturating_sub(self.waits.ns.wrapping_sub(before));
        if now_ns >= self.span_end_ns {
            self.span_end_ns = now_ns.saturating_add(SPAN_NS);
            gaps.begin_span();
        }
        gaps.note(Gap { own_ns, whole_ns, piece: self.piece, node: self.node });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_long_piece_is_the_cause_of_a_long_round() {
        let (mut away, gaps) = (Away::new(), Gaps::default());
        away.begin();
        away.did(Piece::Task, 3);
        away.end_round(&gaps);
        assert_eq!(gaps.worst(), Gap::NONE);
        std::thread::sleep(Duration::from_millis(20));
        away.did(Piece::Timer, 5);
        away.did(Piece::Task, 3);
        away.end_round(&gaps);
        let worst = gaps.worst();
        assert_eq!((worst.piece, worst.node, gaps.recent()), (Piece::Timer, 5, worst));
        // A sleep is the piece's own doing; waiting for a processor after it is not.
        let ms = |ns: u64| ns / 1_000_000;
        assert!(ms(worst.own_ns) >= 19 && worst.own_ns <= worst.whole_ns, "{worst:?}");
        // The time of a rest does not count for the next piece.
        std::thread::sleep(Duration::from_millis(100));
        away.rested(cycles());
        away.did(Piece::Task, 3);
        away.end_round(&gaps);
        assert_eq!(gaps.worst(), worst);
    }

    #[test]
    fn waiting_for_a_processor_is_not_the_pieces_own() {
        let file = File::open("/proc/thread-self/schedstat");
        assert!(file.ok().as_ref().and_then(waited_ns).is_some());
        let (mut away, gaps) = (Away::new(), Gaps::default());
        away.begin();
        away.waits.ns = away.waits.ns.wrapping_sub(8_000_000);
        std::thread::sleep(Duration::from_millis(10));
        away.did(Piece::Command, NO_ELEMENT);
        away.end_round(&gaps);
        let worst = gaps.worst();
        assert!(worst.whole_ns >= 10_000_000, "{worst:?}");
        assert!(worst.own_ns + 8_000_000 <= worst.whole_ns, "{worst:?}");
    }
}

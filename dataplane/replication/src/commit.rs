//! Output commit: packets wait until the backup has what is new in their sessions.
//!
//! Changes of sessions have numbers. A packet waits for a number: that of the last change of its
//! session. Each packet that waits gets a *ticket*, a number that counts them: where the last
//! ticket of a session still waits, its next packet has to wait, too. [`Ledger`] knows which
//! changes are at the backup, [`OutputCommit`] keeps the packets that wait, in order. Both are
//! plain data: no clock, no I/O.

use std::collections::VecDeque;

/// Batches of which the last change is noted; more share a note.
const NOTES: usize = 1024;

/// What the backup has.
///
/// Records of a stream are acknowledged in order, so a change is at the backup once as many records
/// are acknowledged as were written when it was. That holds for changes after the stream began;
/// earlier ones are there when the transfer of all sessions is.
#[derive(Debug)]
pub struct Ledger {
    /// Changes up to here were at the backup at some time.
    committed: u64,
    /// Changes from here on (without it) to `reached` are there, too.
    base: u64,
    reached: u64,
    /// Records written to the present stream.
    records: u64,
    /// After so many records, changes up to that are there.
    notes: VecDeque<(u64, u64)>,
    /// After so many records, all sessions are there.
    end: Option<u64>,
    is_complete: bool,
}

impl Default for Ledger {
    fn default() -> Ledger {
        Ledger {
            committed: 0,
            base: 0,
            reached: 0,
            records: 0,
            notes: VecDeque::with_capacity(NOTES),
            end: None,
            is_complete: false,
        }
    }
}

impl Ledger {
    /// A stream begins: nothing is at the backup.
    pub fn begin_stream(&mut self, change: u64) {
        self.records = 0;
        self.begin_transfer(change);
    }

    /// A transfer of all sessions begins; `change` is the number of the last change so far.
    pub fn begin_transfer(&mut self, change: u64) {
        (self.base, self.reached) = (change, change);
        self.notes.clear();
        self.end = None;
        self.is_complete = false;
    }

    /// So many more records were written, and with them all changes up to `change`.
    pub fn wrote(&mut self, records: u64, change: u64) {
        self.records += records;
        let note = (self.records, change);
        let is_full = self.notes.len() >= NOTES;
        match self.notes.back_mut() {
            // Of a full list the last note stands for more, and is later than need be.
            Some(last) if is_full || last.0 == self.records => *last = note,
            _ => self.notes.push_back(note),
        }
    }

    /// The last record written so far ends the transfer of all sessions.
    pub fn end_transfer(&mut self) {
        self.end = Some(self.records);
    }

    /// The backup has so many records of this stream.
    pub fn acknowledge(&mut self, records: u64) {
        while let Some((_, change)) = self.notes.pop_front_if(|note| note.0 <= records) {
            self.reached = self.reached.max(change);
        }
        if self.end.is_some_and(|end| end <= records) {
            self.end = None;
            self.is_complete = true;
        }
        if self.is_complete {
            self.committed = self.committed.max(self.reached);
        }
    }

    /// Whether the backup has the change, or had it.
    pub fn has(&self, change: u64) -> bool {
        change <= self.committed || (change > self.base && change <= self.reached)
    }

    /// Whether the backup has had all sessions since the stream, or a transfer of all, began.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Whether the backup has all sessions, with changes up to this one.
    pub fn has_all(&self, change: u64) -> bool {
        self.is_complete && self.committed >= change
    }
}

/// What becomes of packets that waited as long as they may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenLate {
    /// They leave, and so do all others, until the backup has all sessions again.
    Pass,
    /// They are dropped.
    Drop,
}

/// What becomes of a packet now.
#[derive(Debug, PartialEq, Eq)]
pub enum Offered<P> {
    /// It leaves: the backup has its session.
    Passes(P),
    /// It leaves though the backup does not have its session.
    Uncommitted(P),
    /// It waits, with this ticket, which is its session's last from now on.
    Waits(u64),
    /// Too many wait already.
    Full(P),
}

/// What becomes of a packet that has waited.
#[derive(Debug, PartialEq, Eq)]
pub enum Released<P> {
    /// It leaves: the backup has its session.
    Safe(P),
    /// It leaves though the backup does not have its session.
    Uncommitted(P),
    /// It is dropped.
    Late(P),
}

#[derive(Debug)]
struct Waiting<P> {
    change: u64,
    until: i64,
    packet: P,
}

/// Packets that wait, in the order in which they came.
#[derive(Debug)]
pub struct OutputCommit<P> {
    waiting: VecDeque<Waiting<P>>,
    /// Ticket of the last packet that waits no more.
    served: u64,
    packets_max: usize,
    time_max: i64,
    late: WhenLate,
    is_asynchronous: bool,
    /// The change that the backup must have before packets wait again.
    awaited: Option<u64>,
}

impl<P> OutputCommit<P> {
    /// At most so many packets wait, each for at most `time_max` nanoseconds.
    pub fn new(packets_max: usize, time_max: i64, late: WhenLate) -> OutputCommit<P> {
        OutputCommit {
            waiting: VecDeque::with_capacity(packets_max),
            served: 0,
            packets_max,
            time_max,
            late,
            // There is no backup yet.
            is_asynchronous: late == WhenLate::Pass,
            awaited: None,
        }
    }

    /// Goes on with what waits there, within the own bounds from then on.
    pub fn take_over(&mut self, other: OutputCommit<P>) {
        let OutputCommit { waiting, served, is_asynchronous, awaited, .. } = other;
        (self.waiting, self.served) = (waiting, served);
        (self.is_asynchronous, self.awaited) = (is_asynchronous, awaited);
        if self.late == WhenLate::Drop {
            (self.is_asynchronous, self.awaited) = (false, None);
        }
    }

    /// How many packets wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none does.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether packets wait for nothing at present, as the backup was away or late.
    pub fn is_asynchronous(&self) -> bool {
        self.is_asynchronous
    }

    /// A packet is to leave, of a session with this last change and this last ticket (0: none).
    pub fn offer(
        &mut self,
        ledger: &Ledger,
        (change, ticket): (u64, u64),
        now: i64,
        packet: P,
    ) -> Offered<P> {
        let is_first = ticket <= self.served;
        if is_first && ledger.has(change) {
            return Offered::Passes(packet);
        }
        if self.is_asynchronous && self.waiting.is_empty() {
            return Offered::Uncommitted(packet);
        }
        if self.waiting.len() >= self.packets_max {
            return Offered::Full(packet);
        }
        let until = now.saturating_add(self.time_max);
        self.waiting.push_back(Waiting { change, until, packet });
        Offered::Waits(self.served + self.waiting.len() as u64)
    }

    /// The next packet that need not wait any longer, if there is one.
    pub fn release(&mut self, ledger: &Ledger, now: i64) -> Option<Released<P>> {
        let front = self.waiting.front()?;
        let (is_safe, is_late) = (ledger.has(front.change), now >= front.until);
        if !is_safe && !is_late && !self.is_asynchronous {
            return None;
        }
        let packet = self.waiting.pop_front()?.packet;
        self.served += 1;
        Some(match self.late {
            _ if is_safe => Released::Safe(packet),
            WhenLate::Drop => Released::Late(packet),
            WhenLate::Pass => {
                self.is_asynchronous = true;
                Released::Uncommitted(packet)
            }
        })
    }

    /// Packets wait again if the backup has all sessions, and caught up with what `change`, the
    /// last change, was when this was first asked for; whether that is new.
    pub fn resume(&mut self, ledger: &Ledger, change: u64) -> bool {
        if !self.is_asynchronous {
            return false;
        }
        let awaited = *self.awaited.get_or_insert(change);
        let resumes = self.is_empty() && ledger.has_all(awaited);
        if resumes {
            (self.is_asynchronous, self.awaited) = (false, None);
        }
        resumes
    }

    /// Takes all packets that wait.
    pub fn drain(&mut self) -> impl Iterator<Item = P> + '_ {
        self.served += self.waiting.len() as u64;
        self.waiting.drain(..).map(|waiting| waiting.packet)
    }
}

//! Output commit: packets that enter by the second half of the inputs leave when the backup has
//! what is new in their sessions.

use thruway_element::{ArgErrors, Args, Cx, Nanos};
use thruway_flow::Fcb;
use thruway_packet::{Batch, Packet};
use thruway_replication::{Ledger, Offered, OutputCommit, Released, WhenLate};

use super::idle::Idle;

/// Time between lines about the backup's state at least.
const LOG_NS: i64 = 100_000_000;

/// Packets that wait, each with the output that it leaves by, and counts.
pub(super) struct Commit {
    waiting: OutputCommit<(usize, Packet)>,
    /// Packets that waited and left when the backup had their sessions.
    pub committed: u64,
    /// Packets that left though it had not.
    pub uncommitted: u64,
    /// How often it was away or late, so that packets waited no more.
    pub lapses: u64,
    logged_at: i64,
}

impl Commit {
    /// Of the element's arguments.
    pub(super) fn of(args: &Args<'_>) -> Result<Commit, ArgErrors> {
        let packets: usize = args.get("COMMIT_PACKETS")?;
        if !(1..=1 << 20).contains(&packets) {
            return Err(args.error("COMMIT_PACKETS", "must be from 1 to 1048576").into());
        }
        let time: Nanos = args.get("COMMIT_TIME")?;
        if time.0 <= 0 {
            return Err(args.error("COMMIT_TIME", "must be more than 0").into());
        }
        let late = match args.text("COMMIT_LATE") {
            Some("DROP") => WhenLate::Drop,
            _ => WhenLate::Pass,
        };
        let waiting = OutputCommit::new(packets, time.0, late);
        Ok(Commit { waiting, committed: 0, uncommitted: 0, lapses: 0, logged_at: i64::MIN })
    }

    /// Goes on with the packets that wait there, and with its counts.
    pub(super) fn take_over(&mut self, other: Commit) {
        self.waiting.take_over(other.waiting);
        (self.committed, self.uncommitted) = (other.committed, other.uncommitted);
        (self.lapses, self.logged_at) = (other.lapses, other.logged_at);
    }

    /// How many packets wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether packets wait for the backup at all, at present.
    pub(super) fn is_synchronous(&self) -> bool {
        !self.waiting.is_asynchronous()
    }

    /// Packets are to leave by an output; whether some of them have to wait.
    pub(super) fn offer(
        &mut self,
        cx: &mut Cx<'_>,
        ledger: &Ledger,
        output: usize,
        batch: &mut Batch,
    ) -> bool {
        let (now, before) = (cx.now(), self.len());
        for packet in batch.drain() {
            let session = Fcb(packet.fcb()).session();
            let mark = session.zip(cx.flows());
            let mark = mark.map(|((level, index), flows)| flows.change_mark(level, index));
            let mark = mark.map_or((0, 0), |mark| (mark.change, mark.ticket));
            match self.waiting.offer(ledger, mark, now, (output, packet)) {
                Offered::Passes((output, packet)) => cx.emit(output, packet),
                Offered::Uncommitted((output, packet)) => {
                    self.uncommitted += 1;
                    cx.emit(output, packet);
                }
                Offered::Waits(ticket) => {
                    if let Some(((level, index), flows)) = session.zip(cx.flows()) {
                        flows.set_ticket(level, index, ticket);
                    }
                }
                Offered::Full((_, packet)) => cx.drop(Idle::CommitFull, packet),
            }
        }
        self.len() > before
    }

    /// Lets go what need not wait any longer.
    pub(super) fn release(&mut self, cx: &mut Cx<'_>, ledger: &Ledger) {
        let was_synchronous = self.is_synchronous();
        while let Some(released) = self.waiting.release(ledger, cx.now()) {
            match released {
                Released::Safe((output, packet)) => {
                    self.committed += 1;
                    cx.emit(output, packet);
                }
                Released::Uncommitted((output, packet)) => {
                    self.uncommitted += 1;
                    cx.emit(output, packet);
                }
                Released::Late((_, packet)) => cx.drop(Idle::Uncommitted, packet),
            }
        }
        if was_synchronous && !self.is_synchronous() {
            self.lapses += 1;
            self.log(
                cx,
                "the backup did not acknowledge a session within COMMIT_TIME; packets leave \
                 without waiting until it has all sessions",
            );
        }
        let last = cx.flows().map_or(0, |flows| flows.change_numbers().0);
        if self.waiting.resume(ledger, last) {
            self.log(cx, "the backup has all sessions; packets wait for it from now on");
        }
    }

    /// Logs a change, but no more often than somebody reads.
    fn log(&mut self, cx: &mut Cx<'_>, what: &str) {
        if cx.now().saturating_sub(self.logged_at) > LOG_NS {
            self.logged_at = cx.now();
            cx.log(&format!("Replicate: {what}"));
        }
    }

    /// Lets all go: the backup has everything, and serves from now on.
    pub(super) fn finish(&mut self, cx: &mut Cx<'_>) {
        for (output, packet) in self.waiting.drain() {
            self.committed += 1;
            cx.emit(output, packet);
        }
    }

    /// Drops what waits: this host serves no more traffic.
    pub(super) fn abandon(&mut self, cx: &mut Cx<'_>) {
        for (_, packet) in self.waiting.drain() {
            cx.drop(Idle::Fenced, packet);
        }
    }
}

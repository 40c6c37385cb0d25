//! Output commit against a plain model: packets, changes, acknowledgements and losses of the backup
//! in any order.

use std::collections::HashMap;

use proptest::prelude::*;
use thruway_replication::{Ledger, Offered, OutputCommit, Released, WhenLate};

const SESSIONS: usize = 5;
const PACKETS_MAX: usize = 12;
const TIME_MAX: i64 = 20;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A packet of a session, which may change it.
    Packet(usize, bool),
    /// The sender writes so many changes into a batch.
    Changes(usize),
    /// It writes so many sessions of the transfer of all.
    Walk(usize),
    /// The backup acknowledges so many records.
    Acknowledge(usize),
    /// The stream ends; a new one begins, with a backup that has lost all or nothing.
    Lose(bool),
    /// The log of changes overflows.
    Overflow,
    Time(i64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..SESSIONS, prop::bool::weighted(0.3)).prop_map(|(s, c)| Step::Packet(s, c)),
        3 => (1usize..5).prop_map(Step::Changes),
        3 => (1usize..8).prop_map(Step::Walk),
        4 => (1usize..8).prop_map(Step::Acknowledge),
        1 => any::<bool>().prop_map(Step::Lose),
        1 => Just(Step::Overflow),
        1 => (1i64..12).prop_map(Step::Time),
    ]
}

/// A record on its way: a session and its version, or the end of a transfer.
#[derive(Clone, Copy)]
enum Sent {
    Session(usize, u64),
    End,
}

/// A packet: its session, the version that it saw, its place among the session's packets.
type Packet = (usize, u64, u64);

struct Model {
    ledger: Ledger,
    commit: OutputCommit<Packet>,
    now: i64,
    /// As the flow manager: the last change, each session's last change and ticket, and changes
    /// that were not written yet.
    change: u64,
    stamps: [(u64, u64); SESSIONS],
    log: Vec<(u64, usize)>,
    /// The active host's versions of sessions, those at the backup, and the highest that any
    /// backup acknowledged.
    versions: [u64; SESSIONS],
    backup: HashMap<usize, u64>,
    proven: [u64; SESSIONS],
    /// Where the transfer is.
    walk: usize,
    is_walking: bool,
    flying: Vec<Sent>,
    acknowledged: u64,
    /// Per session: packets offered, and the number of the last that left.
    offered: [u64; SESSIONS],
    left: [u64; SESSIONS],
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    safe: usize,
    uncommitted: usize,
    late: usize,
    full: usize,
}

impl Model {
    fn new(late: WhenLate) -> Model {
        let mut model = Model {
            ledger: Ledger::default(),
            commit: OutputCommit::new(PACKETS_MAX, TIME_MAX, late),
            now: 0,
            change: 0,
            stamps: [(0, 0); SESSIONS],
            log: Vec::new(),
            versions: [0; SESSIONS],
            backup: HashMap::new(),
            proven: [0; SESSIONS],
            walk: 0,
            is_walking: true,
            flying: Vec::new(),
            acknowledged: 0,
            offered: [0; SESSIONS],
            left: [0; SESSIONS],
            counts: Counts::default(),
        };
        model.ledger.begin_stream(0);
        model
    }

    /// A packet leaves; `safe` says that the ledger vouches for it.
    fn leave(&mut self, (session, version, number): Packet, safe: bool) {
        assert!(number > self.left[session], "packets of a session leave in order");
        self.left[session] = number;
        if safe {
            self.counts.safe += 1;
            let proven = self.proven[session];
            assert!(proven >= version, "version {version} left, the backup had {proven}");
        } else {
            self.counts.uncommitted += 1;
        }
    }

    fn release(&mut self) {
        while let Some(released) = self.commit.release(&self.ledger, self.now) {
            match released {
                Released::Safe(packet) => self.leave(packet, true),
                Released::Uncommitted(packet) => self.leave(packet, false),
                Released::Late(_) => self.counts.late += 1,
            }
        }
        self.commit.resume(&self.ledger, self.change);
    }

    fn packet(&mut self, session: usize, changes: bool) {
        if changes {
            self.change += 1;
            self.versions[session] += 1;
            self.stamps[session].0 = self.change;
            self.log.push((self.change, session));
        }
        self.offered[session] += 1;
        let packet = (session, self.versions[session], self.offered[session]);
        match self.commit.offer(&self.ledger, self.stamps[session], self.now, packet) {
            Offered::Passes(packet) => self.leave(packet, true),
            Offered::Uncommitted(packet) => self.leave(packet, false),
            Offered::Waits(ticket) => {
                assert!(ticket > self.stamps[session].1);
                self.stamps[session].1 = ticket;
            }
            Offered::Full(_) => self.counts.full += 1,
        }
    }

    /// Records of sessions are of their present state, as where it is exported.
    fn write_changes(&mut self, count: usize) {
        let count = count.min(self.log.len());
        for (change, session) in self.log.drain(..count) {
            self.flying.push(Sent::Session(session, self.versions[session]));
            self.ledger.wrote(1, change);
        }
    }

    fn walk(&mut self, count: usize) {
        let taken = self.log.first().map_or(self.change, |(change, _)| change - 1);
        for _ in 0..count {
            if !self.is_walking {
                return;
            }
            if self.walk < SESSIONS {
                self.flying.push(Sent::Session(self.walk, self.versions[self.walk]));
                self.walk += 1;
                self.ledger.wrote(1, taken);
            } else {
                self.flying.push(Sent::End);
                self.ledger.wrote(1, taken);
                self.ledger.end_transfer();
                self.is_walking = false;
            }
        }
    }

    fn acknowledge(&mut self, count: usize) {
        let count = count.min(self.flying.len());
        for sent in self.flying.drain(..count) {
            if let Sent::Session(session, version) = sent {
                self.backup.insert(session, version);
                self.proven[session] = self.proven[session].max(version);
            }
        }
        self.acknowledged += count as u64;
        self.ledger.acknowledge(self.acknowledged);
        self.release();
    }

    fn restart_transfer(&mut self) {
        self.log.clear();
        (self.walk, self.is_walking) = (0, true);
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Packet(session, changes) => self.packet(session, changes),
            Step::Changes(count) => self.write_changes(count),
            Step::Walk(count) => self.walk(count),
            Step::Acknowledge(count) => self.acknowledge(count),
            Step::Lose(is_empty) => {
                if is_empty {
                    self.backup.clear();
                }
                self.flying.clear();
                self.acknowledged = 0;
                self.restart_transfer();
                self.ledger.begin_stream(self.change);
            }
            Step::Overflow => {
                self.restart_transfer();
                self.ledger.begin_transfer(self.change);
            }
            Step::Time(time) => {
                self.now += time;
                self.release();
            }
        }
        let Counts { safe, uncommitted, late, full } = self.counts;
        let gone = safe + uncommitted + late + full + self.commit.len();
        assert_eq!(gone as u64, self.offered.iter().sum::<u64>(), "each is counted once");
        assert!(self.commit.len() <= PACKETS_MAX);
    }

    /// All that waits ends well once the backup has everything.
    fn settle(&mut self) {
        for _ in 0..100 {
            self.write_changes(10);
            self.walk(10);
            self.acknowledge(100);
        }
        assert!(self.commit.is_empty());
        assert!(!self.commit.is_asynchronous());
        for session in 0..SESSIONS {
            assert!(self.proven[session] >= self.versions[session]);
            let before = self.counts.safe;
            self.packet(session, false);
            assert_eq!(self.counts.safe, before + 1, "nothing new: it need not wait");
        }
    }
}

proptest! {
    #[test]
    fn no_packet_leaves_before_its_state_is_safe(
        steps in prop::collection::vec(step(), 0..300),
        passes: bool,
    ) {
        let late = if passes { WhenLate::Pass } else { WhenLate::Drop };
        let mut model = Model::new(late);
        steps.into_iter().for_each(|step| model.step(step));
        prop_assert_eq!(if passes { model.counts.late } else { model.counts.uncommitted }, 0);
        model.settle();
    }
}

/// The bounds, one by one.
#[test]
fn bounds_hold() {
    let mut ledger = Ledger::default();
    ledger.begin_stream(0);
    let mut strict = OutputCommit::new(2, 10, WhenLate::Drop);
    assert_eq!(strict.offer(&ledger, (0, 0), 0, 'a'), Offered::Passes('a'));
    assert_eq!(strict.offer(&ledger, (1, 0), 0, 'b'), Offered::Waits(1));
    assert_eq!(strict.offer(&ledger, (0, 0), 1, 'c'), Offered::Passes('c'), "of another session");
    assert_eq!(strict.offer(&ledger, (0, 1), 1, 'd'), Offered::Waits(2));
    assert_eq!(strict.offer(&ledger, (3, 0), 1, 'e'), Offered::Full('e'));
    assert_eq!(strict.release(&ledger, 9), None);
    assert_eq!(strict.release(&ledger, 10), Some(Released::Late('b')));
    ledger.wrote(2, 2);
    ledger.acknowledge(1);
    assert_eq!(strict.release(&ledger, 10), Some(Released::Safe('d')), "it waited for its turn");
    assert_eq!(strict.offer(&ledger, (2, 0), 11, 'f'), Offered::Waits(3));
    ledger.acknowledge(2);
    assert_eq!(strict.release(&ledger, 11), Some(Released::Safe('f')));
    assert!(!ledger.has_all(2), "the transfer has not ended");
}

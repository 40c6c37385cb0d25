//! Sessions that move from one replica to another with what their function keeps of them.
//!
//! A move goes through the sessions of the thread in parts. Of each part: packets that come from
//! now on are held here; the old replica gives back those that it has; each session's record is
//! copied to the new one, and the session is that one's; what was held goes there. All of it
//! happens in the thread that serves the sessions: a session is at exactly one replica at any time.

use std::collections::VecDeque;
use std::fmt::Write;

use thruway_element::{Cx, SessionMover};
use thruway_flow::manager::{At, Manager};
use thruway_flow::plan::LEVELS_MAX;
use thruway_flow::{Direction, Fcb};
use thruway_packet::{Batch, MAX_BATCH, Packet};
use zerocopy::{FromBytes, IntoBytes};

use super::lost::Lost;
use super::spread::{Assigned, Replica, Spread};

/// The timer of moves.
pub(super) const MOVE_TIMER: u32 = 0;
/// Sessions that move together.
const PART_MAX: usize = 1024;
/// Records that are looked through for them at a time.
const RECORDS_MAX: u32 = 4096;
/// Packets that wait at most.
const HELD_MAX: usize = 8192;
/// How often is looked whether the old replica is done, nanoseconds.
const LOOK_NS: i64 = 20_000;

/// What is to move.
#[derive(Clone, Copy, Debug)]
pub(super) struct Move {
    from: Replica,
    /// `None`: whichever the method chooses.
    to: Option<Replica>,
    left: u64,
}

impl Move {
    /// All sessions of a replica.
    pub(super) fn all(from: Replica) -> Move {
        Move { from, to: None, left: u64::MAX }
    }

    pub(super) fn parse(text: &str) -> Result<Move, String> {
        let number = |word: &str| {
            let number = word.parse().map_err(|_| format!("'{word}' is no number of a replica"));
            number.map(Replica)
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            [from] => Ok(Move::all(number(from)?)),
            [from, to] | [from, to, "all"] => {
                Ok(Move { from: number(from)?, to: Some(number(to)?), left: u64::MAX })
            }
            [from, to, count] => {
                let left = count.parse();
                let left = left.map_err(|_| format!("'{count}' is neither a number nor 'all'"))?;
                Ok(Move { from: number(from)?, to: Some(number(to)?), left })
            }
            _ => Err("takes FROM [TO [COUNT | all]]".to_owned()),
        }
    }
}

/// A move under way.
struct Job {
    what: Move,
    /// Where to look next; `None`: all was looked through.
    cursor: Option<(u8, u32)>,
    /// The part whose packets are held: level and record.
    part: Vec<(u8, u32)>,
    /// Packets that the old replica was given before.
    given: u64,
    moved: u64,
    stayed: u64,
}

/// All moves, and the packets that wait.
pub(super) struct Mover {
    jobs: VecDeque<Job>,
    held: VecDeque<(usize, Packet)>,
    passing: Batch,
    record: Vec<u8>,
}

/// Where state of this session is, of the function `node`, if it is in the session's own record.
fn at(flows: &Manager, node: u32, (level, index): (u8, u32)) -> Option<At> {
    let access = flows.access(node);
    let is_own = Manager::is_kept_at(access, level);
    let fcb = Fcb::of_session(level, index, Direction::Forward, false);
    is_own.then(|| flows.locate(access, fcb)).flatten()
}

/// What Balance knows of a session that it has opened.
fn assigned(flows: &mut Manager, at: &At) -> Option<Assigned> {
    let (_, scratch) = flows.enter(at)?;
    Assigned::read_from_bytes(scratch).ok()
}

fn assign(flows: &mut Manager, at: &At, state: Assigned) {
    let _ = state.write_to(flows.scratch_mut(at));
}

/// The length of the records of a replica's function.
fn record_len(cx: &mut Cx<'_>, spread: &Spread, replica: Replica) -> Result<usize, String> {
    let node = spread.function_of(replica);
    let len = node.and_then(|node| cx.session_mover(node, |mover| mover.record_len()));
    len.unwrap_or_else(|| Err("its output leads to no function: connect an Nf".to_owned()))
        .map_err(|why| format!("sessions of replica {replica} cannot move: {why}"))
}

impl Mover {
    pub(super) fn new() -> Mover {
        Mover {
            jobs: VecDeque::new(),
            held: VecDeque::new(),
            passing: Batch::with_room(),
            record: Vec::new(),
        }
    }

    #[inline]
    pub(super) fn is_busy(&self) -> bool {
        !self.jobs.is_empty() || !self.held.is_empty()
    }

    /// Begins what a user asked for.
    ///
    /// # Errors
    /// Why it cannot be done.
    pub(super) fn ask(
        &mut self,
        cx: &mut Cx<'_>,
        spread: &mut Spread,
        what: Move,
    ) -> Result<(), String> {
        spread.pool.named(what.from)?;
        let len = record_len(cx, spread, what.from);
        let Some(to) = what.to else {
            match len {
                Ok(_) => self.begin(cx, what),
                // Sessions without records begin anew, with their next packets.
                Err(_) => spread.pool.let_go(what.from)?,
            }
            return Ok(());
        };
        spread.pool.named(to)?;
        let (len, other) = (len?, record_len(cx, spread, to)?);
        if to == what.from {
            return Err(format!("replica {to} has them already"));
        }
        if len != other {
            return Err(format!(
                "replica {} keeps {len} bytes of a session and replica {to} {other}",
                what.from
            ));
        }
        self.begin(cx, what);
        Ok(())
    }

    /// Has the sessions of a replica that has failed move, or begin anew.
    pub(super) fn begin_or_queue(&mut self, cx: &mut Cx<'_>, spread: &mut Spread, what: Move) {
        if let Err(why) = self.ask(cx, spread, what) {
            cx.log(&why);
        }
    }

    fn begin(&mut self, cx: &mut Cx<'_>, what: Move) {
        let part = Vec::with_capacity(PART_MAX);
        let job = Job { what, cursor: Some((0, 0)), part, given: 0, moved: 0, stayed: 0 };
        self.jobs.push_back(job);
        cx.set_timer(MOVE_TIMER, cx.now());
    }

    /// What is under way.
    pub(super) fn describe(&self) -> String {
        let mut text = String::new();
        for Job { what, moved, stayed, .. } in &self.jobs {
            let to = what.to.map_or_else(|| "others".to_owned(), |to| to.to_string());
            let _ = writeln!(text, "{} {to} {moved} {stayed}", what.from);
        }
        text.truncate(text.trim_end().len());
        text
    }

    /// Holds the packets of a batch whose sessions are about to move.
    pub(super) fn hold(&mut self, cx: &mut Cx<'_>, input: usize, batch: &mut Batch) {
        if self.jobs.front().is_none_or(|job| job.part.is_empty()) {
            return;
        }
        let node = cx.node();
        let mut lost = 0;
        if let Some(flows) = cx.flows() {
            let access = *flows.access(node);
            for packet in batch.drain() {
                let known = flows.locate(&access, Fcb(packet.fcb()));
                let state = known.and_then(|at| assigned(flows, &at));
                if !state.is_some_and(|state| state.is_held()) {
                    self.passing.push(packet);
                } else if self.held.len() < HELD_MAX {
                    self.held.push_back((input, packet));
                } else {
                    lost += 1;
                }
            }
        }
        std::mem::swap(batch, &mut self.passing);
        cx.count_drops(Lost::HeldFull, lost);
    }

    /// Goes on as far as can be without waiting, with one part at most.
    pub(super) fn advance(&mut self, cx: &mut Cx<'_>, spread: &mut Spread) {
        if let Some(mut job) = self.jobs.pop_front() {
            if job.part.is_empty() {
                job.choose(cx, spread);
            }
            let is_done = spread.function_of(job.what.from).is_none_or(|node| {
                cx.session_mover(node, |mover| mover.is_done_with(job.given)).unwrap_or(true)
            });
            if is_done {
                self.hand_over_part(cx, spread, &mut job);
            }
            if job.cursor.is_some() && job.what.left > 0 || !job.part.is_empty() {
                self.jobs.push_front(job);
            }
            if !is_done {
                cx.set_timer(MOVE_TIMER, cx.now() + LOOK_NS);
                return;
            }
        }
        self.release(cx, spread);
        if !self.jobs.is_empty() {
            cx.set_timer(MOVE_TIMER, cx.now());
        }
    }

    /// Hands the sessions of a part over, whose packets are all here.
    fn hand_over_part(&mut self, cx: &mut Cx<'_>, spread: &mut Spread, job: &mut Job) {
        for session in std::mem::take(&mut job.part) {
            match self.hand_over_one(cx, spread, (job.what, session)) {
                Some(true) => job.moved += 1,
                Some(false) => job.stayed += 1,
                // It has ended meanwhile.
                None => {}
            }
        }
    }

    fn hand_over_one(
        &mut self,
        cx: &mut Cx<'_>,
        spread: &mut Spread,
        (what, session): (Move, (u8, u32)),
    ) -> Option<bool> {
        let node = cx.node();
        let flows = cx.flows()?;
        let own = at(flows, node, session)?;
        let mut state = assigned(flows, &own).filter(Assigned::is_held)?;
        state.set_held(false);
        assign(flows, &own, state);
        let to = what.to.or_else(|| spread.other_than(what.from, session.1.into()));
        let Some(to) = to else { return Some(false) };
        if !self.carry(cx, spread, (what.from, to), session) {
            return Some(false);
        }
        let word = spread.reassign(&mut state, to);
        let flows = cx.flows()?;
        assign(flows, &own, state);
        if let Some(word) = word {
            flows.publish(&own, &[word]);
        }
        Some(true)
    }

    /// Carries what the function keeps of a session from one replica to another. False, and nothing
    /// done, when it cannot.
    fn carry(
        &mut self,
        cx: &mut Cx<'_>,
        spread: &Spread,
        (from, to): (Replica, Replica),
        session: (u8, u32),
    ) -> bool {
        let (Some(from), Some(to)) = (spread.function_of(from), spread.function_of(to)) else {
            return false;
        };
        let Some(flows) = cx.flows() else { return false };
        let (Some(old), Some(new)) = (at(flows, from, session), at(flows, to, session)) else {
            // It is kept for more than this session.
            return false;
        };
        let mut before = [0; 8];
        if flows.enter(&old).and_then(|(_, scratch)| scratch.write_to(&mut before).ok()).is_none() {
            // Nothing is known of it there yet.
            return true;
        }
        let Some(Ok(len)) = cx.session_mover(from, |mover| mover.record_len()) else {
            return false;
        };
        self.record.resize(len, 0);
        let record = &mut self.record;
        let copied = cx.session_mover(from, |mover| mover.copy_record(&before, record));
        let Some(is_known) = copied.flatten() else { return false };
        let mut after = [0; 8];
        let take = |mover: &mut dyn SessionMover| mover.take_record(record, is_known, &mut after);
        if cx.session_mover(to, take) != Some(true) {
            return false;
        }
        cx.session_mover(from, |mover| mover.leave(&before));
        if let Some(flows) = cx.flows() {
            flows.clear_opened(&old);
            let _ = after.write_to(flows.scratch_mut(&new));
            flows.set_opened(&new);
        }
        true
    }

    /// Sends what a predecessor held, if no move is under way: nothing that comes later overtakes
    /// it.
    #[inline]
    pub(super) fn release_left(&mut self, cx: &mut Cx<'_>, spread: &mut Spread) {
        if self.jobs.is_empty() {
            self.release(cx, spread);
        }
    }

    /// Sends what was held, in its order.
    fn release(&mut self, cx: &mut Cx<'_>, spread: &mut Spread) {
        let mut batch = Batch::with_room();
        while let Some((input, packet)) = self.held.pop_front() {
            batch.push(packet);
            let is_last = self.held.front().is_none_or(|(next, _)| *next != input);
            if is_last || batch.len() == MAX_BATCH {
                spread.input = input;
                cx.per_session(spread, &mut batch);
                cx.emit_all(0, &mut batch);
            }
        }
    }

    /// Loses what was held; how many packets.
    pub(super) fn forget(&mut self) -> usize {
        self.jobs.clear();
        self.held.drain(..).count()
    }

    /// What a successor goes on with: packets that were held. Moves end here.
    pub(super) fn hand_over(&mut self) -> Mover {
        self.jobs.clear();
        std::mem::replace(self, Mover::new())
    }
}

impl Job {
    /// Chooses sessions for the next part, and has their packets held.
    fn choose(&mut self, cx: &mut Cx<'_>, spread: &mut Spread) {
        let (node, from) = (cx.node(), self.what.from);
        let Some((level, index)) = self.cursor else { return };
        let room = usize::try_from(self.what.left).unwrap_or(usize::MAX).min(PART_MAX);
        let Some(flows) = cx.flows() else { return self.cursor = None };
        let mut found = Vec::new();
        let next = match Manager::is_kept_at(flows.access(node), level) {
            true => flows.open_sessions(level, (index, RECORDS_MAX), |index| found.push(index)),
            false => None,
        };
        let next = next.map(|index| (level, index));
        let deeper = || (usize::from(level) + 1 < LEVELS_MAX).then_some((level + 1, 0));
        self.cursor = next.or_else(deeper);
        for index in found {
            let Some(own) = at(flows, node, (level, index)) else { continue };
            let Some(mut state) = assigned(flows, &own) else { continue };
            if spread.replica_of(&state) != Some(from) {
                continue;
            }
            if self.part.len() == room {
                self.cursor = Some((level, index));
                break;
            }
            state.set_held(true);
            assign(flows, &own, state);
            self.part.push((level, index));
        }
        self.what.left = self.what.left.saturating_sub(self.part.len() as u64);
        let given =
            spread.function_of(from).and_then(|node| cx.session_mover(node, |of| of.given()));
        self.given = given.unwrap_or(0);
    }
}

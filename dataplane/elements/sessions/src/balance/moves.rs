//! Sessions that move from one replica to another with what their function keeps of them.
//!
//! A move goes through the sessions of the thread in parts. Of each part: packets that come from
//! now on are held here; the old replica gives back those that it has; each session's record is
//! copied to the new one, and the session is that one's; what was held goes there. All of it
//! happens in the thread that serves the sessions: a session is at exactly one replica at any time.

use std::collections::VecDeque;
use std::fmt::Write;

use thruway_element::Cx;
use thruway_elements_support::durations::Durations;
use thruway_flow::manager::Manager;
use thruway_flow::plan::LEVELS_MAX;
use thruway_packet::Batch;

use super::assigned::{Assigned, own_state};
use super::carry::{Carrier, record_len};
use super::held::HeldPackets;
use super::spread::{Replica, Spread};

/// The timer of moves.
pub(super) const MOVE_TIMER: u32 = 0;
/// Sessions that move together.
const PART_MAX: usize = 256;
/// Records that are looked through for them at a time.
const RECORDS_MAX: u32 = 1024;
/// How often is looked whether the old replica is done, and the new one takes more, nanoseconds.
const LOOK_NS: i64 = 20_000;

/// The sessions to move.
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

/// A move in progress.
struct Job {
    what: Move,
    /// Where to look next; `None`: all was looked through.
    cursor: Option<(u8, u32)>,
    moved: u64,
    stayed: u64,
}

/// Sessions that move together while their packets wait.
#[derive(Default)]
struct Part {
    /// Level and record of each.
    sessions: Vec<(u8, u32)>,
    /// Packets that the old replica was given before they began to wait; `None` once none of them
    /// is there any more.
    given: Option<u64>,
}

/// All moves, and the packets that wait.
pub(super) struct Mover {
    jobs: VecDeque<Job>,
    part: Part,
    held: HeldPackets,
    carrier: Carrier,
    /// Since when packets of the last part wait, or have waited in this round.
    pausing_since: Option<i64>,
    /// How long packets of parts waited, and the longest of these times, nanoseconds.
    pauses: Durations,
    pause_max: i64,
}

impl Mover {
    pub(super) fn new() -> Mover {
        Mover {
            jobs: VecDeque::new(),
            part: Part::default(),
            held: HeldPackets::new(),
            carrier: Carrier::default(),
            pausing_since: None,
            pauses: Durations::default(),
            pause_max: 0,
        }
    }

    /// Sets the timer for what a predecessor has left.
    pub(super) fn start(&mut self, cx: &mut Cx<'_>) {
        self.held.press(cx);
        self.set_timer(cx, 0);
    }

    #[inline]
    pub(super) fn is_busy(&self) -> bool {
        !self.jobs.is_empty() || !self.part.sessions.is_empty() || self.pausing_since.is_some()
    }

    fn set_timer(&self, cx: &mut Cx<'_>, after: i64) {
        if self.is_busy() {
            cx.set_timer(MOVE_TIMER, cx.now() + after);
        }
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
        if other < len {
            return Err(format!(
                "replica {} keeps {len} bytes of a session and replica {to} only {other}: a new \
                 version of the function may keep more, and not less",
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
        self.held.prepare();
        self.jobs.push_back(Job { what, cursor: Some((0, 0)), moved: 0, stayed: 0 });
        self.set_timer(cx, 0);
    }

    /// The moves in progress.
    pub(super) fn describe(&self) -> String {
        let mut text = String::new();
        for Job { what, moved, stayed, .. } in &self.jobs {
            let to = what.to.map_or_else(|| "others".to_owned(), |to| to.to_string());
            let _ = writeln!(text, "{} {to} {moved} {stayed}", what.from);
        }
        text
    }

    /// Parts by how long their packets waited.
    pub(super) fn pauses(&self) -> String {
        self.pauses.text()
    }

    /// The longest time that packets of a session waited for it to move, nanoseconds.
    pub(super) fn pause_max(&self) -> i64 {
        self.pause_max
    }

    /// Removes the packets of sessions that are about to move from a batch.
    pub(super) fn hold(&mut self, cx: &mut Cx<'_>, input: usize, batch: &mut Batch) {
        if !self.part.sessions.is_empty() {
            self.held.take(cx, input, batch);
        }
    }

    /// Goes on as far as can be without waiting, with one part at most: a round of the thread is
    /// short however many sessions move.
    pub(super) fn advance(&mut self, cx: &mut Cx<'_>, spread: &mut Spread) {
        self.end_pause(cx.now());
        self.choose(cx, spread);
        let is_through = self.carry_part(cx, spread) && self.held.release(cx, spread);
        if is_through {
            self.part.let_go(cx);
            if self.jobs.front().is_some_and(Job::is_through) {
                self.jobs.pop_front();
            }
        }
        self.set_timer(cx, if is_through { 1 } else { LOOK_NS });
    }

    /// Notes how long packets of the last part waited, if all have gone: to this round, as what was
    /// done in the last one took its time.
    fn end_pause(&mut self, now: i64) {
        if self.part.sessions.is_empty()
            && let Some(since) = self.pausing_since.take()
        {
            let pause = now - since;
            self.pauses.count(pause.max(0) as u64);
            self.pause_max = self.pause_max.max(pause);
        }
    }

    /// Chooses a part, if there is none.
    fn choose(&mut self, cx: &mut Cx<'_>, spread: &mut Spread) {
        if let (true, Some(job)) = (self.part.sessions.is_empty(), self.jobs.front_mut()) {
            job.choose(cx, spread, &mut self.part);
            if !self.part.sessions.is_empty() {
                self.pausing_since = Some(cx.now());
            }
        }
    }

    /// Hands the sessions of the part over, once none of their packets is at the old replica. False
    /// before.
    fn carry_part(&mut self, cx: &mut Cx<'_>, spread: &mut Spread) -> bool {
        let Some(given) = self.part.given else { return true };
        let Mover { jobs, part, carrier, .. } = self;
        let Some(job) = jobs.front_mut() else { return true };
        let from = job.what.from;
        let node = spread.function_of(from);
        let is_done =
            node.and_then(|node| cx.session_mover(node, |mover| mover.is_done_with(given)));
        if is_done == Some(false) {
            return false;
        }
        part.given = None;
        // Without a length none can be carried: all stay.
        carrier.prepare(record_len(cx, spread, from).unwrap_or(0));
        for session in &part.sessions {
            match carry_one(cx, spread, carrier, (job.what, *session)) {
                Some(true) => job.moved += 1,
                Some(false) => job.stayed += 1,
                None => {}
            }
        }
        true
    }

    /// Loses what was held; how many packets.
    pub(super) fn forget(&mut self) -> usize {
        self.jobs.clear();
        self.part = Part::default();
        self.held.forget()
    }

    /// The state for a successor: held packets. Moves end here.
    pub(super) fn hand_over(&mut self) -> Mover {
        self.jobs.clear();
        self.part.given = None;
        std::mem::replace(self, Mover::new())
    }
}

/// Hands a session over. Whether it could be; `None` of one that Balance does not know any more.
fn carry_one(
    cx: &mut Cx<'_>,
    spread: &mut Spread,
    carrier: &mut Carrier,
    (what, session): (Move, (u8, u32)),
) -> Option<bool> {
    let node = cx.node();
    let flows = cx.flows()?;
    let own = own_state(flows, node, session)?;
    let mut state = Assigned::read(flows, &own).filter(Assigned::is_held)?;
    let to = what.to.or_else(|| spread.other_than(what.from, session.1.into()));
    let Some(to) = to else { return Some(false) };
    if !carrier.carry(cx, spread, (what.from, to), session) {
        return Some(false);
    }
    let word = spread.reassign(&mut state, to);
    state.set_held(true);
    let flows = cx.flows()?;
    state.write(flows, &own);
    if let Some(word) = word {
        flows.publish(&own, &[word]);
    }
    Some(true)
}

impl Part {
    /// Its packets wait no longer.
    fn let_go(&mut self, cx: &mut Cx<'_>) {
        let node = cx.node();
        let Some(flows) = cx.flows() else { return self.sessions.clear() };
        for (level, index) in self.sessions.drain(..) {
            if let Some(own) = own_state(flows, node, (level, index))
                && let Some(mut state) = Assigned::read(flows, &own)
            {
                state.set_held(false);
                state.write(flows, &own);
            }
            flows.let_go(level, index);
        }
    }
}

impl Job {
    fn is_through(&self) -> bool {
        self.cursor.is_none() || self.what.left == 0
    }

    /// Chooses sessions for the next part, and has their packets held.
    fn choose(&mut self, cx: &mut Cx<'_>, spread: &mut Spread, part: &mut Part) {
        let (node, from) = (cx.node(), self.what.from);
        let Some((level, index)) = self.cursor else { return };
        let most = usize::try_from(self.what.left).unwrap_or(usize::MAX).min(PART_MAX);
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
            let Some(own) = own_state(flows, node, (level, index)) else { continue };
            let Some(mut state) = Assigned::read(flows, &own) else { continue };
            if spread.replica_of(&state) != Some(from) {
                continue;
            }
            if part.sessions.len() == most {
                self.cursor = Some((level, index));
                break;
            }
            state.set_held(true);
            state.write(flows, &own);
            // A packet that waits bears the number of its session's record.
            flows.hold(level, index);
            part.sessions.push((level, index));
        }
        self.what.left = self.what.left.saturating_sub(part.sessions.len() as u64);
        let given =
            spread.function_of(from).and_then(|node| cx.session_mover(node, |of| of.given()));
        part.given = (!part.sessions.is_empty()).then_some(given.unwrap_or(0));
    }
}

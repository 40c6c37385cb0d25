//! Short cuts of sessions from an interface that FromDevice reads: how they are found out, looked
//! after, and ended (docs/adr/0062-short-cuts.md).
//!
//! What the chain does to a direction's packets is found out by a probe: an empty packet of the
//! session that goes through the graph alone. The same probe, sent again while a short cut is in
//! use, sees whether the chain still does the same, brings elements up to date, and has them count
//! what passed in the kernel.

mod frame;

use std::any::Any;
use std::fmt::Write as _;
use std::sync::Arc;

use thruway_element::{Cx, Direction, Egress, Probed};
use thruway_flow::manager::{Candidate, Manager, Numbers, ShortCutTable, ShortCuts};
use thruway_port::short_cut::{self, Flow, Rewriting};

use super::device_in::DeviceIn;
use super::losses::say;
use frame::Probe;

/// Of FromDevice's handler.
pub(super) const HANDLER: &str = "sessions that take short cuts in the kernel: directions now and \
                                  begun, packets and bytes that passed, tries that failed, why \
                                  the last one did";

/// How long the kernel goes on by itself.
const LEASE_NS: u64 = 1_000_000_000;
/// How often short cuts in use are looked after: several times in a lease.
pub(super) const LOOK_NS: i64 = 250_000_000;
/// How many are looked after at once: for each a packet goes through the chain.
const LOOK_MAX: usize = 256;
/// Looks without a packet after which a short cut is given up: its lease is over.
const IDLE_MAX: u32 = 4;
/// How long no other is tried once one could not be made.
const PAUSE_NS: i64 = 10_000_000;

/// The process's table, as the flow manager asks it.
struct Table(Arc<short_cut::ShortCuts>);

fn half(direction: Direction) -> usize {
    direction as usize
}

fn outside(numbers: Numbers) -> short_cut::Numbers {
    let Numbers { end, ack, room, shift, .. } = numbers;
    short_cut::Numbers { end, ack, room, shift }
}

impl ShortCutTable for Table {
    fn stop(&self, slot: u32) {
        self.0.stop(slot);
    }

    fn stop_all(&self) {
        self.0.forget_all();
    }

    fn numbers(&self, slot: u32, direction: Direction) -> Numbers {
        let short_cut::Numbers { end, ack, room, shift } = self.0.numbers((slot, half(direction)));
        Numbers { end, ack, room, shift, window: 0 }
    }

    fn advance(&self, slot: u32, direction: Direction, seen: Numbers) {
        self.0.advance((slot, half(direction)), outside(seen));
    }

    fn as_any(&self) -> &dyn Any {
        &*self.0
    }
}

/// A direction that takes a short cut.
struct Taken {
    candidate: Candidate,
    slot: u32,
    generation: u64,
    flow: Flow,
    rewriting: Rewriting,
    counted: [u64; 2],
    idle: u32,
}

/// What took short cuts so far.
#[derive(Clone, Copy, Default)]
struct Totals {
    begun: u64,
    packets: u64,
    bytes: u64,
    refused: u64,
}

/// Those that begin at one interface, in one thread.
pub(super) struct PortShortCuts {
    table: Arc<short_cut::ShortCuts>,
    /// The interface's number in the table.
    number: u32,
    taken: Vec<Taken>,
    /// Which is looked after next.
    next: usize,
    /// How many were stopped when this was last looked at.
    stopped: u64,
    /// Not before this time another one is tried.
    pause: i64,
    totals: Totals,
    why: String,
}

impl PortShortCuts {
    /// Of an interface that was opened so that sessions may take short cuts; says why they cannot.
    pub(super) fn of(cx: &mut Cx<'_>, live: &DeviceIn, is_telling: bool) -> Option<PortShortCuts> {
        if let Err(error) = live.short_cut()?
            && is_telling
        {
            let name = &live.interface().name;
            say(cx, name, &format!("no short cuts of sessions in the kernel: {error}"));
        }
        PortShortCuts::of_device(live)
    }

    /// The same of an interface of which everything was reported.
    pub(super) fn of_device(live: &DeviceIn) -> Option<PortShortCuts> {
        let (table, number) = live.short_cut()?.ok()?;
        Some(PortShortCuts::new(table, number))
    }

    /// With none yet.
    fn new(table: &Arc<short_cut::ShortCuts>, number: u32) -> PortShortCuts {
        PortShortCuts {
            table: Arc::clone(table),
            number,
            taken: Vec::new(),
            next: 0,
            stopped: 0,
            pause: 0,
            totals: Totals::default(),
            why: String::new(),
        }
    }

    /// To be called while no packet is in flight, before packets are read: tries a session that
    /// could take a short cut. Packets and bytes that took one are to be counted.
    #[inline]
    pub(super) fn attend(&mut self, cx: &mut Cx<'_>, has_udp: bool) -> [u64; 2] {
        let Some(flows) = cx.flows() else { return [0; 2] };
        let number = self.number;
        let Some(own) = flows.short_cuts() else {
            flows.set_short_cuts(ShortCuts::new(Box::new(Table(Arc::clone(&self.table)))));
            return [0; 2];
        };
        own.port = number;
        let (candidate, stopped) = (own.take_candidate(number), own.stopped);
        // No packet is in flight: all packets seen by software have left.
        flows.publish_short_cuts();
        let mut passed = [0; 2];
        if stopped != self.stopped {
            self.stopped = stopped;
            passed = self.finish(cx);
        }
        let wanted = candidate.filter(|candidate| has_udp || candidate.is_tcp());
        if let Some(candidate) = wanted {
            self.try_one(cx, &candidate);
        }
        passed
    }

    /// Whether there is something to look after.
    pub(super) fn is_used(&self) -> bool {
        !self.taken.is_empty()
    }

    fn refuse(&mut self, cx: &mut Cx<'_>, node: Option<u32>, why: &str) {
        self.totals.refused += 1;
        self.pause = cx.now().saturating_add(PAUSE_NS);
        self.why.clear();
        if let Some((name, class)) = node.and_then(|node| cx.describe(node)) {
            let _ = write!(self.why, "'{name}' ({class}) ");
        }
        self.why.push_str(why);
    }

    /// What becomes of a probe of a candidate's direction.
    fn probe(
        &mut self,
        cx: &mut Cx<'_>,
        candidate: &Candidate,
        stands_for: [u64; 2],
    ) -> Option<(Flow, Rewriting)> {
        let place = (candidate.level, candidate.index);
        let numbers = cx.flows().and_then(|flows| {
            flows.sync_short_cut(place.0, place.1);
            match stands_for {
                [0, _] => flows.may_take_short_cut(place, candidate.direction),
                // What passed counts, whatever became of the session since.
                _ => flows.short_cut_numbers(place),
            }
        })?;
        let own = numbers[half(candidate.direction)];
        let probe = Probe::new(&candidate.frame, &own);
        let packet = probe.packet(candidate.kind, cx.now())?;
        let (packet, egress) = match cx.probe(packet, stands_for) {
            Probed::Sent { packet, egress } => (packet, egress),
            Probed::Forbidden(node) => {
                self.refuse(cx, Some(node), "must see every packet");
                return None;
            }
            Probed::Spoiled(node) => {
                self.refuse(cx, Some(node), "decides by more than a session's addresses and ports");
                return None;
            }
            Probed::Lost => {
                self.refuse(cx, None, "the session's packets are not sent by a packet socket");
                return None;
            }
        };
        let Egress { interface, mtu } = egress;
        let mtu = u32::try_from(mtu).unwrap_or(u32::MAX);
        match probe.rewriting(packet.data(), interface, mtu) {
            Ok(rewriting) => Some((probe.flow(self.number), rewriting)),
            Err(what) => {
                self.refuse(cx, None, what);
                None
            }
        }
    }

    #[cold]
    fn try_one(&mut self, cx: &mut Cx<'_>, candidate: &Candidate) {
        let own = cx.flows().and_then(|flows| flows.short_cuts());
        // Several of its packets may have been looked at since.
        let is_taken = own.is_none_or(|own| own.is_taken(candidate));
        if is_taken || cx.now() < self.pause {
            return;
        }
        let generation = self.table.generation();
        let Some((flow, rewriting)) = self.probe(cx, candidate, [0; 2]) else { return };
        let place = (candidate.level, candidate.index);
        let Some(flows) = cx.flows() else { return };
        let known = flows.short_cuts().and_then(|own| own.slot(place.0, place.1));
        let Some(numbers) = flows.may_take_short_cut(place, candidate.direction) else { return };
        let Some(slot) = known.or_else(|| self.table.take(flow.protocol as u8)) else {
            return self.refuse(cx, None, "no room in the table");
        };
        let half = half(candidate.direction);
        let numbers = outside(numbers[half]);
        self.table.hold(slot);
        let made = self.table.install((slot, half), &flow, &rewriting, (numbers, LEASE_NS));
        if made.is_err() || generation != self.table.generation() {
            self.table.stop_half(slot, half);
            self.table.remove(&flow);
            self.table.release(slot);
            return self.refuse(cx, None, "no room in the table");
        }
        flows.note_short_cut(candidate, slot, true);
        self.totals.begun += 1;
        let candidate = *candidate;
        let counted = [0; 2];
        self.taken.push(Taken { candidate, slot, generation, flow, rewriting, counted, idle: 0 });
    }

    /// Looks after some: counts what passed, and lets those go on that are in use and that the
    /// chain still serves identically. Returns when to check again, if any are left: each is
    /// checked at once in [`LOOK_NS`].
    pub(super) fn look(&mut self, cx: &mut Cx<'_>) -> ([u64; 2], Option<i64>) {
        let (mut passed, len) = ([0; 2], self.taken.len());
        // All, where all were stopped: it is the last look, perhaps.
        let is_forgotten = self.taken.iter().any(|t| t.generation != self.table.generation());
        let most = if is_forgotten { len } else { len.min(LOOK_MAX) };
        for step in 0..most {
            let at = (self.next + step) % len;
            let counts = self.account(cx, at);
            let Taken { candidate, slot, generation, idle, .. } = self.taken[at];
            let is_over = generation != self.table.generation() || idle >= IDLE_MAX;
            if is_over && let Some(flows) = flows_that_use(cx, &candidate, slot) {
                self.table.stop_half(slot, half(candidate.direction));
                flows.note_short_cut(&candidate, slot, false);
            }
            passed = add(passed, counts);
        }
        self.next = if len == 0 { 0 } else { (self.next + most) % len };
        passed = add(passed, self.finish(cx));
        let parts = self.taken.len().div_ceil(LOOK_MAX);
        let parts = i64::try_from(parts).unwrap_or(i64::MAX);
        (passed, (parts > 0).then(|| LOOK_NS / parts))
    }

    /// Has elements count what passed since the last time, and sees whether they still do the
    /// same.
    fn account(&mut self, cx: &mut Cx<'_>, at: usize) -> [u64; 2] {
        let Taken { candidate, slot, rewriting, counted, .. } = self.taken[at];
        let half = half(candidate.direction);
        let counts = self.table.counts((slot, half));
        let passed = [counts[0] - counted[0], counts[1] - counted[1]];
        self.taken[at].counted = counts;
        if passed == [0; 2] {
            self.taken[at].idle += 1;
            return passed;
        }
        self.taken[at].idle = 0;
        self.totals.packets += passed[0];
        self.totals.bytes += passed[1];
        let found = self.probe(cx, &candidate, passed);
        if found.is_some_and(|(_, now)| now == rewriting) {
            self.table.renew((slot, half), LEASE_NS);
        } else if let Some(flows) = flows_that_use(cx, &candidate, slot) {
            flows.stop_short_cut(candidate.level, candidate.index);
        }
        passed
    }

    /// Gives back those that are over.
    fn finish(&mut self, cx: &mut Cx<'_>) -> [u64; 2] {
        let mut passed = [0; 2];
        let mut at = 0;
        while at < self.taken.len() {
            let Taken { candidate, slot, idle, .. } = self.taken[at];
            if idle < IDLE_MAX && flows_that_use(cx, &candidate, slot).is_some() {
                at += 1;
                continue;
            }
            self.table.stop_half(slot, half(candidate.direction));
            self.table.remove(&self.taken[at].flow);
            passed = add(passed, self.account(cx, at));
            self.taken.swap_remove(at);
            self.table.release(slot);
        }
        passed
    }

    /// All are over: the interface is left.
    pub(super) fn end(&mut self, cx: &mut Cx<'_>) -> [u64; 2] {
        if let Some(flows) = cx.flows() {
            for taken in &self.taken {
                let candidate = &taken.candidate;
                flows.stop_short_cut(candidate.level, candidate.index);
            }
        }
        self.finish(cx)
    }

    /// For people: what takes short cuts, and why the last session that could not does not.
    pub(super) fn text(&self) -> String {
        let Totals { begun, packets, bytes, refused } = self.totals;
        let now = self.taken.len();
        let mut text = format!(
            "flows {now}\nbegun {begun}\npackets {packets}\nbytes {bytes}\nrefused {refused}\n"
        );
        if !self.why.is_empty() {
            let _ = writeln!(text, "why {}", self.why);
        }
        text
    }
}

impl Drop for PortShortCuts {
    fn drop(&mut self) {
        for taken in &self.taken {
            self.table.stop(taken.slot);
            self.table.remove(&taken.flow);
            self.table.release(taken.slot);
        }
    }
}

/// The thread's sessions, if the candidate's still takes the short cut of this slot.
fn flows_that_use<'a>(
    cx: &'a mut Cx<'_>,
    candidate: &Candidate,
    slot: u32,
) -> Option<&'a mut Manager> {
    let flows = cx.flows()?;
    let own = flows.short_cuts().and_then(|own| own.slot(candidate.level, candidate.index));
    (own == Some(slot)).then_some(flows)
}

fn add(a: [u64; 2], b: [u64; 2]) -> [u64; 2] {
    [a[0] + b[0], a[1] + b[1]]
}

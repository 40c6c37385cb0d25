//! The interface for authors of functions with state per session: the begin of a session, the
//! processing of each of its packets, and its end. The flow manager finds the state.

pub use thruway_flow::manager::NoAnswer;
use thruway_flow::manager::{AccessByLevel, At, Manager};
use thruway_flow::{Direction, Ended, Fcb, Life};
use thruway_packet::{Batch, Packet};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::answers::{Answers, Asked};
use crate::cx::{Cx, Verdict};
use crate::reason::Reason;

/// A function with state per session.
///
/// An element declares `wants: Wants::session::<State>("connection")`, implements this, and calls
/// [`crate::Cx::per_session`] in its `process` (and [`PerSession::close`] in its
/// [`crate::SessionFunction::closed`]).
pub trait PerSession {
    /// State of one session: plain data of constant size; store larger data elsewhere, under a
    /// number.
    type State: FromBytes + IntoBytes + KnownLayout + Immutable + Copy;

    /// Output for packets of refused sessions, if it is connected; `None` drops them.
    const REFUSES_TO: Option<usize> = None;

    /// Called for the first packet of a session that comes to this function; `state` is the
    /// [`Demand::initial`](crate::Demand) state, zeros by default. The packet itself is then passed
    /// to [`PerSession::each`].
    ///
    /// # Errors
    /// The session is not taken: the packet is dropped for this reason, and the session's next
    /// packet asks again.
    fn open(
        &mut self,
        opening: &mut Opening<'_>,
        packet: &mut Packet,
        state: &mut Self::State,
    ) -> Result<(), Reason>;

    /// A packet of an open session.
    fn each(&mut self, packet: &mut Packet, session: &mut Session<'_, Self::State>) -> Verdict;

    /// A packet without a session: not IP, a fragment, cut short, or of a class without sessions.
    fn without(&mut self, packet: &mut Packet) -> Verdict {
        let _ = packet;
        Verdict::Pass
    }

    /// A session has ended that was opened here. Called once for each, never for others.
    fn close(&mut self, state: &Self::State, why: Ended) {
        let _ = (state, why);
    }
}

/// A session, as one of its packets finds it.
pub struct Session<'a, S> {
    /// The function's state.
    pub state: &'a mut S,
    /// In which direction the packet goes.
    pub direction: Direction,
    /// The packet is an ICMP error about a packet of the session in the opposite direction.
    pub related: bool,
    /// The session's state according to its packets so far, this one included.
    pub life: Life,
    /// Present time, nanoseconds as [`crate::Cx::now`].
    pub now: i64,
    /// Set to end the session when the batch is done: nothing more is expected.
    pub end: bool,
}

/// The opening of a session: queries and settings.
pub struct Opening<'a> {
    /// In which direction the packet goes: [`Direction::Reply`] where another thread saw the
    /// session's beginning, or where this function meets only the replies.
    pub direction: Direction,
    /// It is an ICMP error about a packet of the session.
    pub related: bool,
    /// Present time, nanoseconds as [`crate::Cx::now`].
    pub now: i64,
    /// The flow manager's side.
    pub answers: &'a mut dyn Answers,
}

impl Cx<'_> {
    /// Passes each packet of a batch to the function, with its session's state; passed packets
    /// stay.
    pub fn per_session<F: PerSession>(&mut self, function: &mut F, batch: &mut Batch) {
        let now = self.now();
        let done = self.with_flows(|cx, flows| {
            let access = *flows.access(cx.node());
            cx.filter(batch, |packet| one(flows, &access, function, packet, now));
        });
        if done.is_none() {
            self.filter(batch, |packet| function.without(packet));
        }
    }
}

/// A session as the owner of one of its packets finds it.
pub struct Known<'a, S> {
    /// The state: zeros at the session's first packet here.
    pub state: &'a mut S,
    /// In which direction the packet goes.
    pub direction: Direction,
    /// It is an ICMP error about a packet of the session.
    pub related: bool,
}

impl Cx<'_> {
    /// Takes the packets out of a batch one by one, each with its session's state, if it has a
    /// session: for functions that send others in their place.
    pub fn take_sessions<S>(
        &mut self,
        batch: &mut Batch,
        mut take: impl FnMut(Packet, Option<Known<'_, S>>),
    ) where
        S: FromBytes + IntoBytes + KnownLayout + Immutable,
    {
        self.with_flows(|cx, flows| {
            let access = *flows.access(cx.node());
            for packet in batch.drain() {
                let fcb = Fcb(packet.fcb());
                let Some(at) = flows.locate(&access, fcb) else {
                    take(packet, None);
                    continue;
                };
                let scratch = flows.enter_zeroed(&at).map_or(&mut [][..], |(_, scratch)| scratch);
                let known = S::mut_from_bytes(scratch).ok().map(|state| Known {
                    state,
                    direction: at.direction,
                    related: fcb.is_related(),
                });
                take(packet, known);
            }
        });
        batch.drain().for_each(|packet| take(packet, None));
    }
}

/// One packet.
#[inline]
fn one<F: PerSession>(
    flows: &mut Manager,
    access: &AccessByLevel,
    function: &mut F,
    packet: &mut Packet,
    now: i64,
) -> Verdict {
    let Some(at) = flows.locate(access, Fcb(packet.fcb())) else { return function.without(packet) };
    let (verdict, end) = match flows.enter(&at) {
        Some(known) => step(function, packet, (&at, now), known),
        None => match first(flows, at, function, packet, now) {
            Ok(done) => done,
            Err(reason) => {
                return F::REFUSES_TO
                    .map_or(Verdict::Drop(reason), |to| Verdict::Reject(to, reason));
            }
        },
    };
    if end {
        flows.ask_end(&at);
    }
    verdict
}

/// Passes a packet to the function with its session and the function's state; returns whether the
/// session must end.
#[inline]
fn step<F: PerSession>(
    function: &mut F,
    packet: &mut Packet,
    (at, now): (&At, i64),
    (life, scratch): (Life, &mut [u8]),
) -> (Verdict, bool) {
    let Ok(state) = F::State::mut_from_bytes(scratch) else {
        return (function.without(packet), false);
    };
    let (direction, related) = (at.direction, Fcb(packet.fcb()).is_related());
    let mut session = Session { state, direction, related, life, now, end: false };
    let verdict = function.each(packet, &mut session);
    (verdict, session.end)
}

/// The first packet of a session here.
#[cold]
#[inline(never)]
fn first<F: PerSession>(
    flows: &mut Manager,
    at: At,
    function: &mut F,
    packet: &mut Packet,
    now: i64,
) -> Result<(Verdict, bool), Reason> {
    open(flows, at, function, packet, now)?;
    match flows.enter(&at) {
        Some(known) => Ok(step(function, packet, (&at, now), known)),
        None => Ok((function.without(packet), false)),
    }
}

/// Asks the function to open the session.
fn open<F: PerSession>(
    flows: &mut Manager,
    at: At,
    function: &mut F,
    packet: &mut Packet,
    now: i64,
) -> Result<(), Reason> {
    let mut state = F::State::new_zeroed();
    let initial = flows.initial(&at);
    if let Some(begin) = state.as_mut_bytes().get_mut(..initial.len()) {
        begin.copy_from_slice(initial);
    }
    let related = Fcb(packet.fcb()).is_related();
    let direction = at.direction;
    let answers = &mut Asked { flows, at };
    function.open(&mut Opening { direction, related, now, answers }, packet, &mut state)?;
    if let Ok(scratch) = F::State::mut_from_bytes(flows.scratch_mut(&at)) {
        *scratch = state;
        flows.set_opened(&at);
    }
    Ok(())
}

//! What a function can do outside of a batch.

use std::time::Duration;

use thruway_exchange::{Arena, Control, NoRoom, Outgoing, WorkerLink};
use thruway_nf_abi::SlotHead;
use thruway_nf_abi::control::Figure;
use thruway_nf_abi::message::Welcome;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::clock::Clock;
use crate::counters::{Counter, Counters};
use crate::not_sent::NotSent;
use crate::timers::{Timer, Timers, ns};

/// What belongs to the function as a whole, or to one Worker of several.
pub(crate) struct FunctionState {
    pub welcome: Welcome,
    /// The number of the Worker that it is.
    pub worker: u32,
    pub control: Control,
    pub clock: Clock,
    pub timers: Timers,
    pub counters: Counters,
    pub arena: Option<Arena>,
    /// Counts packets for an output that the element does not have; named at the first.
    pub no_output: Option<Counter>,
}

impl FunctionState {
    pub fn after(&mut self, duration: Duration) -> Timer {
        let at = self.clock.now_ns().saturating_add(ns(duration));
        self.timers.set(at, 0)
    }

    pub fn every(&mut self, period: Duration) -> Timer {
        let at = self.clock.now_ns().saturating_add(ns(period));
        self.timers.set(at, ns(period))
    }

    #[inline]
    pub fn has_output(&self, output: u8) -> bool {
        u32::from(output) < self.welcome.outputs
    }

    /// Counts a packet that cannot leave by this output.
    #[cold]
    pub fn miss_output(&mut self) {
        if self.no_output.is_none() {
            // Where no counter is left the packet is lost uncounted; the verdict was a bug.
            self.no_output = self.counters.name("no-such-output").ok();
        }
        if let Some(counter) = &self.no_output {
            counter.add(1);
        }
    }

    /// Counts what a full ring refused.
    #[cold]
    pub fn refused(&self, no_room: NoRoom, ring: Figure) -> NotSent {
        match no_room {
            NoRoom::Full => {
                self.control.add_figure(ring, 1);
                NotSent::Full
            }
            NoRoom::Length => NotSent::Length,
        }
    }

    pub fn scratch<T>(&mut self, session: u32) -> Option<&mut T>
    where
        T: FromBytes + IntoBytes + KnownLayout + Immutable,
    {
        let bytes = self.arena.as_mut()?.session(session)?;
        T::mut_from_prefix(bytes).ok().map(|(scratch, _)| scratch)
    }
}

/// The function's surroundings, when it has no batch in hand.
pub struct Cx<'a> {
    pub(crate) state: &'a mut FunctionState,
    pub(crate) links: &'a mut [WorkerLink],
}

impl Cx<'_> {
    /// Nanoseconds of the system's monotonic clock. Goes on when a function is restarted.
    pub fn now_ns(&mut self) -> u64 {
        self.state.clock.now_ns()
    }

    /// How many Master threads send packets to this Worker: [`Cx::inject_on`] may choose among
    /// them.
    pub fn links(&self) -> usize {
        self.links.len()
    }

    /// Sends a packet of its own out of an output, by the first Master thread.
    ///
    /// # Errors
    /// [`NotSent`].
    pub fn inject(&mut self, output: u8, bytes: &[u8]) -> Result<(), NotSent> {
        self.inject_on(0, output, bytes)
    }

    /// Sends a packet of its own by a Master thread of its choice (modulo their number): packets
    /// of one connection should go by one.
    ///
    /// # Errors
    /// [`NotSent`].
    pub fn inject_on(&mut self, link: usize, output: u8, bytes: &[u8]) -> Result<(), NotSent> {
        if !self.state.has_output(output) {
            return Err(NotSent::Output);
        }
        let to = Outgoing { output, fcb: SlotHead::NO_SESSION };
        let link = link % self.links.len().max(1);
        let link = self.links.get_mut(link).ok_or(NotSent::Full)?;
        link.worker
            .inject(to, [bytes, &[]])
            .map_err(|no_room| self.state.refused(no_room, Figure::InjectionFull))
    }

    /// Sets a timer that goes off once.
    pub fn after(&mut self, duration: Duration) -> Timer {
        self.state.after(duration)
    }

    /// Sets a timer that goes off every so often.
    pub fn every(&mut self, period: Duration) -> Timer {
        self.state.every(period)
    }

    /// Unsets a timer. False when it was not set any more.
    pub fn cancel(&mut self, timer: Timer) -> bool {
        self.state.timers.cancel(timer)
    }

    /// A session's scratch as bytes.
    pub fn scratch_bytes(&mut self, session: u32) -> Option<&mut [u8]> {
        self.state.arena.as_mut()?.session(session)
    }

    /// A session's scratch, by the number that [`Packet::session`](crate::Packet::session) gave.
    pub fn scratch<T>(&mut self, session: u32) -> Option<&mut T>
    where
        T: FromBytes + IntoBytes + KnownLayout + Immutable,
    {
        self.state.scratch(session)
    }
}

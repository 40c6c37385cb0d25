//! One connection's state: what was agreed on, the guest's memory, where its rings are. Answers
//! messages; does no I/O.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use crate::memory::GuestMemory;
use crate::message::{Features, ProtocolFault, Request, RingEvent};
use crate::queue::Queue;
use crate::ring::{Ring, RingSpec};

/// Rings of a device: what the guest receives, and what it sends.
pub const RINGS: usize = 2;

/// The front-end may ask for a word that something was done (VHOST_USER_PROTOCOL_F_REPLY_ACK).
const REPLY_ACK: u64 = 1 << 3;
/// All features of the protocol that are offered.
const PROTOCOL_OFFERED: u64 = REPLY_ACK;

/// The rings as packet threads use them.
pub trait Rings {
    /// Begins to use a ring.
    fn start(&mut self, ring: usize, queue: Queue);
    /// Uses it no more; gives it back if it was used.
    fn stop(&mut self, ring: usize) -> Option<Queue>;
}

/// What is to be answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Nothing, or that it was done if the front-end asked for that.
    Done,
    /// This.
    Body(Vec<u8>),
}

#[derive(Debug, Default)]
struct RingState {
    spec: RingSpec,
    kick: Option<OwnedFd>,
    call: Option<OwnedFd>,
    is_enabled: bool,
}

/// See the module's description.
#[derive(Debug, Default)]
pub struct Session {
    features: Features,
    protocol_features: u64,
    memory: Option<Arc<GuestMemory>>,
    rings: [RingState; RINGS],
}

impl Session {
    /// A connection of which nothing is known.
    pub fn new() -> Session {
        Session::default()
    }

    /// Whether the front-end may ask for a word that something was done.
    pub fn acknowledges(&self) -> bool {
        self.protocol_features & REPLY_ACK != 0
    }

    /// The features that were agreed on.
    pub fn features(&self) -> Features {
        self.features
    }

    /// The descriptor by which the guest says that it made something available.
    pub fn kick(&self, ring: usize) -> Option<BorrowedFd<'_>> {
        self.rings[ring].kick.as_ref().map(AsFd::as_fd)
    }

    /// The descriptor by which the guest is called.
    pub fn call(&self, ring: usize) -> Option<BorrowedFd<'_>> {
        self.rings[ring].call.as_ref().map(AsFd::as_fd)
    }

    /// Does what a front-end asks for.
    ///
    /// # Errors
    /// [`ProtocolFault`]: the connection is to end.
    pub fn handle(
        &mut self,
        (number, request): (u32, Request),
        fds: Vec<OwnedFd>,
        rings: &mut dyn Rings,
    ) -> Result<Reply, ProtocolFault> {
        if fds.len() != wanted_fds(&request) {
            return Err(ProtocolFault::Descriptors { request: number, fds: fds.len() });
        }
        match request {
            Request::GetFeatures => return Ok(word(Features::OFFERED.0)),
            Request::GetProtocolFeatures => return Ok(word(PROTOCOL_OFFERED)),
            Request::GetQueueCount => return Ok(word(1)),
            Request::SetFeatures(asked) => self.set_features(asked, rings)?,
            Request::SetProtocolFeatures(asked) => {
                self.protocol_features = offered(asked, PROTOCOL_OFFERED)?;
            }
            Request::SetOwner | Request::Announce => {}
            Request::ResetOwner => (0..RINGS).for_each(|ring| self.halt(ring, rings)),
            Request::SetMemory(parts) => {
                // The old memory goes when the rings in it are gone.
                self.memory = Some(Arc::new(GuestMemory::map(&parts, fds)?));
                (0..RINGS).try_for_each(|ring| self.renew(ring, rings))?;
            }
            Request::GetRingBase { ring } => {
                let at = known(ring)?;
                self.halt(at, rings);
                let next = u32::from(self.rings[at].spec.next);
                return Ok(Reply::Body([ring.to_le_bytes(), next.to_le_bytes()].concat()));
            }
            other => self.set_ring(other, fds, rings)?,
        }
        Ok(Reply::Done)
    }

    /// A message about one ring.
    fn set_ring(
        &mut self,
        request: Request,
        mut fds: Vec<OwnedFd>,
        rings: &mut dyn Rings,
    ) -> Result<(), ProtocolFault> {
        let at = match request {
            Request::SetRingSize { ring, size } => {
                let at = known(ring)?;
                self.rings[at].spec.size = size;
                at
            }
            Request::SetRingAddress { ring, table, used, avail } => {
                let at = known(ring)?;
                let spec = self.rings[at].spec;
                self.rings[at].spec = RingSpec { table, used, avail, ..spec };
                at
            }
            Request::SetRingBase { ring, next } => {
                let at = known(ring)?;
                rings.stop(at);
                // Of a split ring it is a number of 16 bits.
                self.rings[at].spec.next = next as u16;
                at
            }
            Request::SetRingEnable { ring, enabled } => {
                let at = known(ring)?;
                self.rings[at].is_enabled = enabled;
                at
            }
            Request::SetRingEvent { event, ring, .. } => {
                let at = known(ring)?;
                let fd = fds.pop();
                match event {
                    RingEvent::Kick if fd.is_none() => return Err(ProtocolFault::NoKick),
                    RingEvent::Kick => self.rings[at].kick = fd,
                    // A ring that is used goes on with the new one.
                    RingEvent::Call => self.rings[at].call = fd,
                    RingEvent::Error => {}
                }
                at
            }
            _ => return Ok(()),
        };
        self.renew(at, rings)
    }

    fn set_features(
        &mut self,
        asked: Features,
        rings: &mut dyn Rings,
    ) -> Result<(), ProtocolFault> {
        self.features = Features(offered(asked.0, Features::OFFERED.0)?);
        (0..RINGS).try_for_each(|ring| self.renew(ring, rings))
    }

    /// Stops a ring until it is given a descriptor for kicks again.
    fn halt(&mut self, ring: usize, rings: &mut dyn Rings) {
        self.pause(ring, rings);
        self.rings[ring].kick = None;
    }

    /// Takes a ring from the packet threads, and notes where it is.
    fn pause(&mut self, ring: usize, rings: &mut dyn Rings) {
        if let Some(queue) = rings.stop(ring) {
            self.rings[ring].spec.next = queue.ring().next_avail();
        }
    }

    /// Something about a ring changed: it is used with that from now on, if all is known of it.
    fn renew(&mut self, ring: usize, rings: &mut dyn Rings) -> Result<(), ProtocolFault> {
        self.pause(ring, rings);
        let state = &self.rings[ring];
        let is_enabled = state.is_enabled || !self.features.contains(Features::PROTOCOL);
        let is_known = state.spec.size > 0 && state.spec.table != 0 && state.kick.is_some();
        if let Some(memory) = self.memory.as_ref().filter(|_| is_known && is_enabled) {
            let has_indirect = self.features.contains(Features::INDIRECT);
            let ring_found = Ring::open(Arc::clone(memory), &state.spec, has_indirect)?;
            rings.start(ring, Queue::new(ring_found, self.features));
        }
        Ok(())
    }
}

/// Descriptors that a request comes with.
fn wanted_fds(request: &Request) -> usize {
    match request {
        Request::SetMemory(parts) => parts.len(),
        Request::SetRingEvent { has_fd, .. } => usize::from(*has_fd),
        _ => 0,
    }
}

fn word(value: u64) -> Reply {
    Reply::Body(value.to_le_bytes().to_vec())
}

fn known(ring: u32) -> Result<usize, ProtocolFault> {
    let at = usize::try_from(ring).ok().filter(|at| *at < RINGS);
    at.ok_or(ProtocolFault::Ring { ring })
}

/// What a front-end asked for, if all of it was offered.
fn offered(asked: u64, offered: u64) -> Result<u64, ProtocolFault> {
    if asked & !offered != 0 {
        return Err(ProtocolFault::Features { asked, offered });
    }
    Ok(asked)
}

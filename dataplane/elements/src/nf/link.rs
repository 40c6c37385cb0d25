//! One thread's end of a function: packets parked while it has their slots.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex};

use thruway_element::{Cx, Reason};
use thruway_exchange::{
    GroupRegion, LinkFigures, Mapped, Mark, Master, Origin, PeerFault, Refusal, Span, Storage,
    Token, Tuning,
};
use thruway_packet::{Batch, Packet};

use super::backend::HostEnd;
use super::carried::{pack, unpack};
use super::nf::Lost;

/// Free frames of a trust group's region that one thread hands out to all members that it runs.
#[derive(Debug)]
pub(super) struct Frames {
    pub region: GroupRegion,
    free: Mutex<Vec<u32>>,
}

impl Frames {
    /// The frames from `first` on, so many.
    pub fn new(region: GroupRegion, first: u32, count: u32) -> Frames {
        Frames { region, free: Mutex::new((first..first + count).rev().collect()) }
    }

    /// All users are elements of one thread: the lock is never waited for.
    fn with<T>(&self, f: impl FnOnce(&mut Vec<u32>) -> T) -> T {
        f(&mut self.free.lock().unwrap_or_else(|poison| poison.into_inner()))
    }
}

/// Why a packet does not go to the function now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// All slots are in use: later it may.
    Full,
    /// It never goes.
    Never(Lost),
}

/// One generation's end for one thread.
pub(super) struct Link {
    master: Master<Mapped>,
    end: HostEnd,
    /// Packets whose slots the function has, by slot.
    parked: Box<[Option<Packet>]>,
    /// Of a member of a group: where frames come from, and each slot's frame.
    frames: Option<(Arc<Frames>, Box<[u32]>)>,
}

impl Link {
    pub fn new(end: HostEnd, outputs: u32, tuning: Tuning, frames: Option<Arc<Frames>>) -> Link {
        let slots = end.storage.layout().shape.slots as usize;
        Link {
            master: Master::new(end.storage.clone(), outputs, tuning),
            end,
            parked: (0..slots).map(|_| None).collect(),
            frames: frames.map(|frames| (frames, vec![0; slots].into_boxed_slice())),
        }
    }

    pub fn tune(&mut self, tuning: Tuning) {
        self.master.tuning = tuning;
    }

    pub fn figures(&self) -> LinkFigures {
        self.master.figures()
    }

    /// Slots in use.
    pub fn occupancy(&self) -> u32 {
        self.master.occupancy()
    }

    /// Packets that the function has, as far as is known.
    pub fn outstanding(&self) -> u32 {
        self.master.outstanding()
    }

    /// Whether so much is in use that sources should wait.
    pub fn is_crowded(&self) -> bool {
        self.master.room() < self.parked.len() as u32 / 2
    }

    /// Copies a packet into the next slot and parks it; the function sees it after
    /// [`publish`](Self::publish).
    #[inline]
    pub fn put(
        &mut self,
        input: u8,
        mut packet: Packet,
        outlet: &mut Outlet,
    ) -> Result<(), (Packet, Refused)> {
        let bytes = if outlet.carries {
            pack(&mut packet, &mut outlet.bytes);
            &outlet.bytes[..]
        } else {
            packet.data()
        };
        // A peer's slot always holds some byte: an empty one is a fault of the peer.
        if bytes.is_empty() {
            return Err((packet, Refused::Never(Lost::Empty)));
        }
        let mark = Mark { input, ..Mark::NONE };
        let put = match &mut self.frames {
            None => self.master.put(mark, bytes).map_err(Unput::from),
            Some((frames, of_slot)) => put_framed(&mut self.master, frames, of_slot, mark, bytes),
        };
        match put {
            Ok(slot) => {
                self.parked[slot as usize] = Some(packet);
                Ok(())
            }
            Err(Unput::Refusal(Refusal::Full)) => Err((packet, Refused::Full)),
            Err(Unput::Refusal(Refusal::TooLong)) => Err((packet, Refused::Never(Lost::TooLong))),
            Err(Unput::NoFrame) => Err((packet, Refused::Never(Lost::NoFrame))),
        }
    }

    /// Shows the function what was put.
    #[inline]
    pub fn publish(&mut self, now: i64) {
        self.master.publish(&self.end.bell, now as u64);
    }

    /// Wakes the function if it sleeps although packets wait too long.
    #[inline]
    pub fn check_age(&mut self, now: i64) {
        self.master.check_age(&self.end.bell, now as u64);
    }

    /// Takes back what the function is done with, into `outlet`; says how much that was.
    #[inline]
    pub fn collect(
        &mut self,
        cx: &mut Cx<'_>,
        outlet: &mut Outlet,
        limit: u32,
    ) -> Result<u32, PeerFault> {
        let entered = self.end.storage.layout().shape.headroom;
        let Link { master, parked, frames, .. } = self;
        let now = cx.now();
        let taken = master.poll(now as u64, limit, |token| match token.origin {
            Origin::Slot(slot) => {
                let packet = parked[slot as usize].take();
                if let Some(packet) = packet {
                    outlet.take_back(cx, packet, &token, entered);
                }
                if let Some((frames, of_slot)) = frames {
                    frames.with(|free| free.push(of_slot[slot as usize]));
                }
            }
            Origin::Dropped(slot) => {
                outlet.dropped.extend(parked[slot as usize].take());
                outlet.parent_dropped = true;
                if let Some((frames, of_slot)) = frames {
                    frames.with(|free| free.push(of_slot[slot as usize]));
                }
            }
            Origin::Aux(_) | Origin::Injected => outlet.take_new(cx, &token),
        });
        let injected = match taken {
            Ok(_) => master.poll_injected(limit, |token| outlet.take_new(cx, &token)),
            Err(fault) => Err(fault),
        };
        // What came before a fault was good.
        outlet.flush(cx);
        outlet.clear_dropped(cx);
        Ok(taken? + injected?)
    }

    /// Ends the link: gives each parked packet, in order.
    pub fn reclaim(&mut self, mut lost: impl FnMut(Packet)) {
        let Link { master, parked, frames, .. } = self;
        master.reclaim(|slot| {
            if let Some(packet) = parked[slot as usize].take() {
                lost(packet);
            }
            if let Some((frames, of_slot)) = frames {
                frames.with(|free| free.push(of_slot[slot as usize]));
            }
        });
    }

    /// Declares that this thread may sleep: the function ends that. False: something is there.
    pub fn rest(&mut self) -> bool {
        self.master.rest()
    }

    /// Takes [`rest`](Self::rest) back.
    pub fn wakened(&mut self) {
        self.master.wakened();
    }

    /// What to watch while resting.
    pub fn wake(&self) -> BorrowedFd<'_> {
        self.end.wake.as_fd()
    }

    /// Takes an earlier wake-up off.
    pub fn quiet(&self) {
        let mut count = [0; 8];
        // Not blocking: there may be none.
        let _ = rustix::io::read(&*self.end.wake, &mut count);
    }
}

/// Why [`put_framed`] did not.
enum Unput {
    Refusal(Refusal),
    NoFrame,
}

impl From<Refusal> for Unput {
    fn from(refusal: Refusal) -> Unput {
        Unput::Refusal(refusal)
    }
}

/// Puts a packet by way of a frame of the group's region.
fn put_framed(
    master: &mut Master<Mapped>,
    frames: &Frames,
    of_slot: &mut [u32],
    mark: Mark,
    bytes: &[u8],
) -> Result<u32, Unput> {
    let shape = master.storage().layout().shape;
    if bytes.len() > (shape.frame_len() - shape.headroom) as usize {
        return Err(Refusal::TooLong.into());
    }
    if master.room() == 0 {
        return Err(Refusal::Full.into());
    }
    let frame = frames.with(Vec::pop).ok_or(Unput::NoFrame)?;
    frames.region.copy_in(frame, shape.headroom, bytes);
    let span = Span { start: shape.headroom, len: bytes.len() as u32 };
    let slot = master.put_frame(mark, frame, span)?;
    of_slot[slot as usize] = frame;
    Ok(slot)
}

/// Where packets go that come from the function: in their order, by the batch where several leave
/// by one output.
#[derive(Default)]
pub(super) struct Outlet {
    /// Whether packets go with what is known of them, and where they are put together.
    carries: bool,
    bytes: Vec<u8>,
    batch: Batch,
    port: usize,
    dropped: Batch,
    /// Whether the last slot's packet was dropped: auxiliary packets are its children.
    parent_dropped: bool,
    /// Packets that left.
    pub out: u64,
}

impl Outlet {
    pub fn new(carries: bool) -> Outlet {
        Outlet { carries, ..Outlet::default() }
    }

    /// Copies a token's bytes, what is known of the packet included, and makes that of `packet`.
    fn unpack(&mut self, token: &Token<'_, Mapped>, packet: &mut Packet) -> bool {
        self.bytes.resize(token.len() as usize, 0);
        token.copy_to(&mut self.bytes);
        unpack(&self.bytes, packet)
    }

    #[inline]
    pub fn give(&mut self, cx: &mut Cx<'_>, port: usize, packet: Packet) {
        if port != self.port {
            self.flush(cx);
            self.port = port;
        }
        self.batch.push(packet);
    }

    /// A parked packet with the bytes that the function left in its slot.
    #[inline]
    fn take_back(
        &mut self,
        cx: &mut Cx<'_>,
        mut packet: Packet,
        token: &Token<'_, Mapped>,
        entered: u32,
    ) {
        self.parent_dropped = false;
        if self.carries {
            if self.unpack(token, &mut packet) {
                self.give(cx, token.output as usize, packet);
            } else {
                cx.drop(Lost::Damaged, packet);
            }
        } else if reshape(&mut packet, entered, token.span()) {
            token.copy_to(packet.data_mut());
            self.give(cx, token.output as usize, packet);
        } else {
            cx.drop(Reason::NO_MEMORY, packet);
        }
    }

    /// A packet that the function made; one made in consequence of another has its annotations.
    fn take_new(&mut self, cx: &mut Cx<'_>, token: &Token<'_, Mapped>) {
        let len = if self.carries { 0 } else { token.len() as usize };
        let Some(mut packet) = Packet::zeroed(len) else {
            cx.count_drops(Reason::NO_MEMORY, 1);
            return;
        };
        if self.carries {
            if self.unpack(token, &mut packet) {
                self.give(cx, token.output as usize, packet);
            } else {
                cx.drop(Lost::Damaged, packet);
            }
            return;
        }
        token.copy_to(packet.data_mut());
        let parent = if self.parent_dropped { &self.dropped } else { &self.batch };
        match (token.origin, parent.iter().next_back()) {
            (Origin::Aux(_), Some(parent)) => packet.copy_annotations(parent),
            _ => packet.set_timestamp(cx.now()),
        }
        self.give(cx, token.output as usize, packet);
    }

    /// Sends what waits.
    #[inline]
    pub fn flush(&mut self, cx: &mut Cx<'_>) {
        if !self.batch.is_empty() {
            self.out += self.batch.len() as u64;
            cx.emit_all(self.port, &mut self.batch);
        }
    }

    fn clear_dropped(&mut self, cx: &mut Cx<'_>) {
        self.parent_dropped = false;
        if !self.dropped.is_empty() {
            cx.drop_all(Lost::Dropped, &mut self.dropped);
        }
    }
}

/// Gives a packet, whose bytes entered a frame at `entered`, room for the bytes that lie at `span`
/// now: what was pushed or pulled there is pushed or pulled here, so that marked headers stay
/// where they are. False when packet memory is used up.
#[inline]
fn reshape(packet: &mut Packet, entered: u32, span: Span) -> bool {
    let len = span.len as usize;
    if span.start < entered && !packet.push((entered - span.start) as usize) {
        return false;
    }
    if span.start > entered {
        let n = ((span.start - entered) as usize).min(packet.len());
        // Within the packet: cannot fail.
        let _ = packet.pull(n);
    }
    packet.truncate(len);
    packet.len() == len || packet.put(len - packet.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_follows_its_bytes() {
        let at = |start, len| Span { start, len };
        for (span, room) in [(at(64, 10), 0), (at(60, 14), -4), (at(66, 8), 2), (at(0, 200), -64)] {
            let mut packet = Packet::new(&[7; 10]).unwrap();
            packet.set_mac_offset(0);
            let before = packet.headroom() as i64;
            assert!(reshape(&mut packet, 64, span));
            assert_eq!(packet.len(), span.len as usize);
            assert_eq!(packet.headroom() as i64 - before, room, "{span:?}");
        }
        // Moved behind its end: as good as any place.
        let mut packet = Packet::new(&[7; 10]).unwrap();
        assert!(reshape(&mut packet, 64, at(500, 20)));
        assert_eq!(packet.len(), 20);
    }
}

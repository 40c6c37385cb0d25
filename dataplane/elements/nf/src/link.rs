//! One thread's end of a function: packets parked while it has their slots.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use thruway_exchange::{LinkFigures, Mapped, Master, Put, Refusal, SlotTag, Storage, Tuning};
use thruway_packet::{CARRIED_WORDS, Packet, carried_bytes};

use super::backend::HostEnd;
use super::came::Came;
use super::carried::ROOM_LEN;
use super::framed::{Framed, Frames, Lot, Unput, put_framed};
use super::lost::Lost;
use super::outlet::Outlet;
use super::parked::Parked;
use super::sessions::Entries;

/// Why a packet does not go to the function now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// All slots are in use: later it may.
    Full,
    /// It does not go with a batch, but may by itself.
    Alone,
    /// It never goes.
    Never(Lost),
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Refused {
        match refusal {
            Refusal::Full => Refused::Full,
            Refusal::TooLong => Refused::Never(Lost::TooLong),
        }
    }
}

/// A packet as its bytes.
struct Bytes(Packet);

impl AsRef<[u8]> for Bytes {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self.0.data()
    }
}

/// A packet with what is known of it, and the bytes that stand before it.
struct Known {
    words: [u64; CARRIED_WORDS],
    /// It begins earlier than it does, until it is [`whole`](Self::whole).
    packet: Packet,
}

impl Known {
    /// Gives a packet back before which there are not that many bytes.
    #[inline]
    fn of(mut packet: Packet) -> Result<Known, Packet> {
        let words = packet.carried();
        match packet.unpull(ROOM_LEN) {
            true => Ok(Known { words, packet }),
            false => Err(packet),
        }
    }

    #[inline]
    fn whole(mut self) -> Packet {
        // Just given back.
        let _ = self.packet.pull(ROOM_LEN);
        self.packet
    }
}

impl Put<CARRIED_WORDS> for Known {
    #[inline]
    fn words(&self) -> [u64; CARRIED_WORDS] {
        self.words
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        self.packet.data()
    }
}

/// One generation's end for one thread.
pub(super) struct Link {
    pub(super) master: Master<Mapped>,
    pub(super) end: HostEnd,
    /// Packets whose slots the function has.
    pub(super) parked: Parked,
    /// Of a function of streams: their marks.
    pub(super) marks: Box<[SlotTag]>,
    /// Of a member of a group: its frames.
    pub(super) lot: Option<Lot>,
    pub(super) news: News,
    /// Packets that the function could not add, as counted so far.
    pub(super) aux_lost: u64,
    /// The function has written, or will write, the wake-up line since it was last cleared.
    is_rung: bool,
}

/// What slots tell of sessions.
#[derive(Default)]
pub(super) struct News {
    /// By slot; none where packets have no sessions.
    of_slot: Box<[Notice]>,
    /// Slots that were put without a packet, and which of them came back as what.
    put: u64,
    pub(super) returned: u64,
    pub(super) dropped: u64,
}

/// What a slot tells of a session, by its index in the arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Notice {
    #[default]
    Nothing,
    /// Its packet is the first.
    New(u32),
    /// It has no packet: the session has ended.
    Released(u32),
}

impl News {
    #[inline]
    fn note(&mut self, slot: u32, mark: SlotTag) {
        if let Some(notice) = self.of_slot.get_mut(slot as usize) {
            *notice = if mark.is_new() { Notice::New(mark.fcb) } else { Notice::Nothing };
        }
    }

    #[inline]
    pub(super) fn released(&self, slot: u32) -> Option<u32> {
        match self.of_slot.get(slot as usize) {
            Some(Notice::Released(fcb)) => Some(*fcb),
            _ => None,
        }
    }
}

impl Link {
    /// `has_sessions`: whether packets may have marks of sessions.
    pub fn new(
        end: HostEnd,
        outputs: u32,
        tuning: Tuning,
        frames: Option<Arc<Frames>>,
        has_sessions: bool,
    ) -> Link {
        let slots = end.storage.layout().shape.slots as usize;
        Link {
            master: Master::new(end.storage.clone(), outputs, tuning),
            end,
            parked: Parked::new(slots),
            marks: Box::default(),
            lot: frames.map(|frames| Lot::new(frames, slots)),
            news: News {
                of_slot: vec![Notice::default(); if has_sessions { slots } else { 0 }].into(),
                ..News::default()
            },
            aux_lost: 0,
            // Whoever had the link before may have left one.
            is_rung: true,
        }
    }

    /// The same, of a function of streams.
    pub fn of_streams(self) -> Link {
        Link { marks: vec![SlotTag::NONE; self.parked.len()].into_boxed_slice(), ..self }
    }

    pub fn tune(&mut self, tuning: Tuning) {
        self.master.tuning = tuning;
    }

    /// Of packets only.
    pub fn figures(&self) -> LinkFigures {
        let all = self.master.figures();
        LinkFigures {
            put: all.put - self.news.put,
            returned: all.returned.saturating_sub(self.news.returned),
            dropped: all.dropped.saturating_sub(self.news.dropped),
            ..all
        }
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
    pub fn is_full(&self) -> bool {
        self.master.room() < self.kept_free()
    }

    /// How many more packets can be put until it is full.
    pub fn room(&self) -> usize {
        self.master.room().saturating_sub(self.kept_free()) as usize
    }

    /// Slots that are for what is under way when sources begin to wait.
    fn kept_free(&self) -> u32 {
        self.parked.len() as u32 / 4
    }

    /// Copies a packet into the next slot and parks it; the function sees it after
    /// [`publish`](Self::publish).
    #[inline]
    pub fn put(
        &mut self,
        mark: SlotTag,
        mut packet: Packet,
        outlet: &mut Outlet,
    ) -> Result<(), (Packet, Refused)> {
        if !outlet.carries() {
            return self.put_bytes(mark, packet, None);
        }
        let known = carried_bytes(&packet.carried());
        if !packet.unpull(ROOM_LEN) {
            let packed = outlet.packed(&mut packet);
            return self.put_bytes(mark, packet, packed);
        }
        let put = self.put_parts(mark.keeping(), [&known, packet.data()]);
        // Just given back.
        let _ = packet.pull(ROOM_LEN);
        self.park(mark, packet, put)
    }

    /// Whether a slot stands for a packet and its bytes alone: no session, no stream, no frame of a
    /// group.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.news.of_slot.is_empty() && self.marks.is_empty() && self.lot.is_none()
    }

    /// As [`put`](Self::put) for all of `packets` until one does not go, of a link that
    /// [is plain](Self::is_plain). Gives that one, and why.
    #[inline]
    pub fn put_all(
        &mut self,
        mark: SlotTag,
        packets: &mut impl Iterator<Item = Packet>,
    ) -> Option<(Packet, Refused)> {
        // A peer's slot always holds some byte: an empty one is a fault of the peer.
        let made = |packet: Packet| match packet.is_empty() {
            true => Err((packet, Refused::Never(Lost::Empty))),
            false => Ok(Bytes(packet)),
        };
        self.put_all_as(mark, packets, made, |packet| packet.0)
    }

    /// The same with what is known of each packet.
    #[inline]
    pub fn put_all_known(
        &mut self,
        mark: SlotTag,
        packets: &mut impl Iterator<Item = Packet>,
    ) -> Option<(Packet, Refused)> {
        let made = |packet| Known::of(packet).map_err(|packet| (packet, Refused::Alone));
        self.put_all_as(mark, packets, made, Known::whole)
    }

    /// The same of what `made` makes of each packet, of which `whole` gives the packet back.
    #[inline]
    fn put_all_as<const WORDS: usize, P: Put<WORDS>>(
        &mut self,
        mark: SlotTag,
        packets: &mut impl Iterator<Item = Packet>,
        made: impl Fn(Packet) -> Result<P, (Packet, Refused)>,
        whole: impl Fn(P) -> Packet,
    ) -> Option<(Packet, Refused)> {
        let Link { master, parked, .. } = self;
        let mut unmade = None;
        let mut all = packets.map_while(|packet| match made(packet) {
            Ok(put) => Some(put),
            Err(left) => {
                unmade = Some(left);
                None
            }
        });
        let park = |slot, put| parked.put(slot, whole(put));
        match master.put_all(mark.keeping(), &mut all, park) {
            Some((put, refusal)) => Some((whole(put), Refused::from(refusal))),
            None => unmade,
        }
    }

    /// The same with the bytes that stand for the packet, if they are not its own.
    #[inline]
    pub fn put_bytes(
        &mut self,
        mark: SlotTag,
        packet: Packet,
        packed: Option<&[u8]>,
    ) -> Result<(), (Packet, Refused)> {
        let bytes = packed.unwrap_or(packet.data());
        // A peer's slot always holds some byte: an empty one is a fault of the peer.
        if bytes.is_empty() {
            return Err((packet, Refused::Never(Lost::Empty)));
        }
        // What a stream's function gives back has a head of its own, which is always read.
        let asked = if self.marks.is_empty() { mark.keeping() } else { mark };
        let put = match self.lot {
            None => self.master.put(asked, bytes).map_err(Unput::from),
            Some(_) => self.put_parts(asked, [bytes, &[]]),
        };
        self.park(mark, packet, put)
    }

    #[inline]
    fn put_parts(&mut self, mark: SlotTag, parts: [&[u8]; 2]) -> Result<u32, Unput> {
        match &mut self.lot {
            None => self.master.put_parts(mark, parts).map_err(Unput::from),
            Some(lot) => put_framed(&mut self.master, lot, mark, parts),
        }
    }

    /// Parks a packet whose bytes were put.
    #[inline]
    fn park(
        &mut self,
        mark: SlotTag,
        packet: Packet,
        put: Result<u32, Unput>,
    ) -> Result<(), (Packet, Refused)> {
        match put {
            Ok(slot) => {
                self.news.note(slot, mark);
                if let Some(to) = self.marks.get_mut(slot as usize) {
                    *to = mark;
                }
                self.parked.put(slot, packet);
                Ok(())
            }
            Err(Unput::Refusal(refusal)) => Err((packet, refusal.into())),
            Err(Unput::NoFrame) => Err((packet, Refused::Never(Lost::NoFrame))),
        }
    }

    /// Tells the function that a session has ended, once it is done with what it has. False when
    /// all slots are in use.
    pub fn put_released(&mut self, fcb: u32) -> bool {
        let Ok(slot) = self.master.put_released(fcb) else { return false };
        if let Some(notice) = self.news.of_slot.get_mut(slot as usize) {
            *notice = Notice::Released(fcb);
        }
        self.news.put += 1;
        true
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

    /// Whether the function may sleep although packets wait.
    #[inline]
    pub fn may_sleep_through(&self) -> bool {
        self.master.may_sleep_through()
    }

    /// Since when the oldest packet waits for which the function may have to be woken.
    #[inline]
    pub fn unattended_since(&self) -> Option<i64> {
        self.master.unattended_since().map(|since| i64::try_from(since).unwrap_or(i64::MAX))
    }

    /// Wakes the function if it sleeps although packets wait.
    #[inline]
    pub fn ensure_awake(&mut self) {
        self.master.ensure_awake(&self.end.bell);
    }

    /// Slots that were put in all.
    #[inline]
    pub fn put_count(&self) -> u64 {
        self.master.figures().put
    }

    /// Puts what another function gave into the next slot, without a way over the packet memory:
    /// from slot to slot, or, between members of a group, not at all. Whether its frame went along;
    /// gives the packet back when it cannot come in this way.
    #[inline]
    pub fn put_token(
        &mut self,
        mark: SlotTag,
        packet: Packet,
        came: &Came<'_, '_>,
    ) -> Result<bool, Packet> {
        let (put, framed) = match (&self.lot, came.frames, came.token.frame()) {
            (None, None, _) => (self.master.put_token(mark, came.token), None),
            (Some(own), Some(theirs), Some(frame)) if Arc::ptr_eq(&own.frames, theirs) => {
                let span = came.token.span();
                let framed = Framed { frame, start: span.start };
                let mark = if came.is_kept { mark.keeping() } else { mark };
                (self.master.put_frame(mark, frame, span), Some(framed))
            }
            _ => return Err(packet),
        };
        let Ok(slot) = put else { return Err(packet) };
        if let (Some(lot), Some(framed)) = (&mut self.lot, framed) {
            lot.note(slot, framed);
        }
        self.news.note(slot, mark);
        match came.is_kept {
            true => self.parked.put(slot, packet),
            false => self.parked.put_elsewhere(slot, packet),
        }
        Ok(framed.is_some())
    }

    /// Ends the link: gives each parked packet, in order. What the function was told of sessions
    /// and did not give back is as if it had not been told.
    pub fn reclaim(
        &mut self,
        entries: Option<&mut Entries>,
        mut lost: impl FnMut(SlotTag, Packet),
    ) {
        if let Some(entries) = entries {
            self.recall(entries);
        }
        let Link { master, parked, marks, lot, news, .. } = self;
        master.reclaim(|slot| {
            if news.released(slot).is_some() {
                return;
            }
            if let Some(packet) = parked.take(slot) {
                lost(marks.get(slot as usize).copied().unwrap_or(SlotTag::NONE), packet);
            }
            if let Some(lot) = lot {
                lot.free(slot);
            }
        });
    }

    /// Takes back what the function was told of sessions and has not given back.
    pub fn recall(&self, entries: &mut Entries) {
        for slot in self.master.slots_in_use() {
            match self.news.of_slot.get(slot as usize) {
                Some(Notice::New(fcb)) => entries.forget(*fcb),
                Some(Notice::Released(fcb)) => entries.end_again(*fcb),
                _ => {}
            }
        }
    }

    /// Declares that this thread may sleep: the function ends that. False: something is there.
    pub fn rest(&mut self) -> bool {
        self.master.rest()
    }

    /// Takes [`rest`](Self::rest) back.
    pub fn wakened(&mut self) {
        self.is_rung |= self.master.wakened();
    }

    /// What to watch while resting.
    pub fn wake(&self) -> BorrowedFd<'_> {
        self.end.wake.host_end()
    }

    /// Takes an earlier wake-up off, if there was one.
    pub fn quiet(&mut self) {
        if std::mem::take(&mut self.is_rung) {
            self.end.wake.clear();
        }
    }

    /// Takes off whatever is there: a wake-up may come late.
    pub fn quiet_late(&mut self) {
        self.is_rung = true;
        self.quiet();
    }
}

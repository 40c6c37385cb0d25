//! What comes back by a link: each slot's packet with the bytes that the function left there.

use thruway_element::Cx;
use thruway_exchange::{Mapped, Origin, PeerFault, Storage, Take, Token};

use super::came::Came;
use super::link::Link;
use super::lost::Lost;
use super::outlet::Outlet;
use super::parked::Parked;
use super::sessions::Entries;

impl Link {
    /// Takes back what the function is done with, into `outlet`; says how much that was.
    #[inline]
    pub fn collect(
        &mut self,
        cx: &mut Cx<'_>,
        outlet: &mut Outlet,
        entries: &mut Option<Entries>,
        limit: u32,
    ) -> Result<u32, PeerFault> {
        outlet.open_hops();
        let is_of_streams = !self.marks.is_empty();
        let taken = match self.is_plain() {
            true => self.take_plain(cx, outlet, limit),
            false => self.take_slots(cx, outlet, entries, limit),
        };
        let injected = match taken {
            Ok(_) => self
                .master
                .poll_injected(limit, |token| take_made(cx, outlet, &token, is_of_streams)),
            Err(fault) => Err(fault),
        };
        count_aux_lost(cx, self.master.figures().aux_lost, &mut self.aux_lost);
        // What came before a fault was good.
        outlet.flush(cx);
        outlet.clear_dropped(cx);
        outlet.close_hops(cx);
        Ok(taken? + injected?)
    }

    /// Of a link whose slots stand for packets and their bytes alone.
    #[inline]
    fn take_plain(
        &mut self,
        cx: &mut Cx<'_>,
        outlet: &mut Outlet,
        limit: u32,
    ) -> Result<u32, PeerFault> {
        let entered = self.end.storage.layout().shape.headroom;
        let now = cx.now() as u64;
        let Link { master, parked, .. } = self;
        master.poll_by(now, limit, &mut Plain { cx, outlet, parked, entered })
    }

    /// Of any link.
    fn take_slots(
        &mut self,
        cx: &mut Cx<'_>,
        outlet: &mut Outlet,
        entries: &mut Option<Entries>,
        limit: u32,
    ) -> Result<u32, PeerFault> {
        let headroom = self.end.storage.layout().shape.headroom;
        let Link { master, parked, marks, lot, news, .. } = self;
        master.poll(cx.now() as u64, limit, |token| match token.origin {
            Origin::Slot(slot) | Origin::Dropped(slot) if news.released(slot).is_some() => {
                // However it came back, and whatever it says.
                match token.origin {
                    Origin::Dropped(_) => news.dropped += 1,
                    _ => news.returned += 1,
                }
                if let (Some(fcb), Some(entries)) = (news.released(slot), entries.as_mut()) {
                    entries.release(fcb);
                }
            }
            Origin::Slot(slot) | Origin::Dropped(slot) if !marks.is_empty() => {
                let streams = entries.as_mut().zip(parked.take(slot));
                if let Some((entries, packet)) = streams {
                    let came =
                        Came { token: &token, entered: headroom, frames: None, is_kept: false };
                    outlet.take_back_stream(cx, entries, (marks[slot as usize], packet), &came);
                }
            }
            Origin::Slot(slot) => {
                let entered = lot.as_ref().map_or(headroom, |lot| lot.of(slot).start);
                let is_kept = token.is_kept && parked.holds(slot);
                let stays = parked.take(slot).is_none_or(|packet| {
                    let frames = lot.as_ref().map(|lot| &lot.frames);
                    let came = Came { token: &token, entered, frames, is_kept };
                    outlet.take_back(cx, packet, &came)
                });
                if let Some(lot) = lot.as_mut().filter(|_| stays) {
                    lot.free(slot);
                }
            }
            Origin::Dropped(slot) => {
                outlet.end(parked.take(slot));
                if let Some(lot) = lot {
                    lot.free(slot);
                }
            }
            _ => take_made(cx, outlet, &token, !marks.is_empty()),
        })
    }
}

/// Takes what comes back by a link whose slots stand for packets and their bytes alone.
struct Plain<'a, 'cx> {
    cx: &'a mut Cx<'cx>,
    outlet: &'a mut Outlet,
    parked: &'a mut Parked,
    /// Where in its frame a packet lay when it was put.
    entered: u32,
}

impl Take<Mapped> for Plain<'_, '_> {
    /// PERF: nothing is looked up by slot but the packet, and nothing is read of the slot.
    #[inline]
    fn kept(&mut self, slot: u32, output: u32) -> bool {
        let is_whole = self.parked.holds(slot);
        if is_whole && let Some(packet) = self.parked.take(slot) {
            self.outlet.give(self.cx, output as usize, packet);
        }
        is_whole
    }

    #[inline]
    fn token(&mut self, token: Token<'_, Mapped>) {
        match token.origin {
            Origin::Slot(slot) => {
                let is_kept = token.is_kept && self.parked.holds(slot);
                if let Some(packet) = self.parked.take(slot) {
                    let came = Came { token: &token, entered: self.entered, frames: None, is_kept };
                    self.outlet.take_back(self.cx, packet, &came);
                }
            }
            Origin::Dropped(slot) => self.outlet.end(self.parked.take(slot)),
            Origin::Aux(_) | Origin::Injected => self.outlet.take_new(self.cx, &token),
        }
    }
}

/// A packet that the function made, which one of streams cannot.
#[inline]
fn take_made(cx: &mut Cx<'_>, outlet: &mut Outlet, token: &Token<'_, Mapped>, is_of_streams: bool) {
    match is_of_streams {
        true => cx.count_drops(Lost::Stray, 1),
        false => outlet.take_new(cx, token),
    }
}

/// Counts packets that the function could not add, in all, beyond those counted before.
#[inline]
fn count_aux_lost(cx: &mut Cx<'_>, all: u64, counted: &mut u64) {
    let lost = all - std::mem::replace(counted, all);
    if lost > 0 {
        cx.count_drops(Lost::AuxFull, usize::try_from(lost).unwrap_or(usize::MAX));
    }
}

//! Where packets go that come from a function.

use thruway_element::{Cx, Reason};
use thruway_exchange::{Mapped, Origin, SlotTag, Span, Token};
use thruway_packet::{Batch, CARRIED_WORDS, Packet};

use super::came::{AsTaker, Came};
use super::carried::{PREFIX_LEN, pack, unpack_from};
use super::lost::Lost;
use super::sessions::Entries;

/// Where packets go that come from the function: in their order, by the batch where several leave
/// by one output.
#[derive(Default)]
pub(super) struct Outlet {
    /// Whether packets go with what is known of them, and where they are put together.
    carries: bool,
    /// How what the function gives may go from slot to slot.
    as_taker: Option<AsTaker>,
    bytes: Vec<u8>,
    batch: Batch,
    port: usize,
    /// Packets that the function dropped, and whether the last slot's was: auxiliary packets are
    /// its children.
    dropped: Batch,
    parent_dropped: bool,
    /// What is known of the packet that the last token hopped with.
    hopped: Option<([u64; CARRIED_WORDS], u32)>,
    /// Per output: the function that it leads to, if it does so directly.
    hops: Vec<Option<Hop>>,
    /// Packets that left.
    pub out: u64,
    /// Those of them that went from slot to slot.
    pub hopped_count: u64,
    /// Packets that the function had changed.
    pub changed_count: u64,
}

/// An output that leads to another function on this thread.
#[derive(Debug, Clone, Copy)]
struct Hop {
    node: u32,
    input: u8,
    /// Whether a packet has gone there by way of the packet memory since the last token was taken
    /// back: none may overtake it.
    is_closed: bool,
    is_used: bool,
}

impl Outlet {
    /// `as_taker`: how tokens may go to another element; none where they may not.
    pub fn new(carries: bool, as_taker: Option<AsTaker>) -> Outlet {
        Outlet { carries, as_taker, ..Outlet::default() }
    }

    /// Whether packets go with what is known of them.
    #[inline]
    pub fn carries(&self) -> bool {
        self.carries
    }

    /// The packet with what is known of it, where it goes so.
    #[inline]
    pub fn packed(&mut self, packet: &mut Packet) -> Option<&[u8]> {
        if !self.carries {
            return None;
        }
        pack(packet, &mut self.bytes);
        Some(&self.bytes)
    }

    /// Copies a token's bytes, what is known of the packet included, and makes that of `packet`.
    fn unpack(token: &Token<'_, Mapped>, packet: &mut Packet) -> bool {
        let copy = |skipped: usize, to: &mut [u8]| token.copy_from(skipped as u32, to);
        unpack_from(token.len() as usize, packet, copy)
    }

    #[inline]
    pub fn give(&mut self, cx: &mut Cx<'_>, port: usize, packet: Packet) {
        if port != self.port {
            self.flush(cx);
            self.port = port;
        }
        if let Some(Some(hop)) = self.hops.get_mut(port) {
            hop.is_closed = true;
        }
        self.batch.push(packet);
    }

    /// Finds the outputs that lead to other functions.
    pub fn find_hops(&mut self, cx: &mut Cx<'_>) {
        self.hops.clear();
        let Some(as_taker) = self.as_taker else { return };
        let carries = self.carries;
        self.hops.extend((0..cx.outputs()).map(|port| hop(cx, port, carries, as_taker)));
        if self.hops.iter().all(Option::is_none) {
            self.hops.clear();
        }
    }

    /// Everything that left before has arrived: tokens may hop again.
    #[inline]
    pub fn open_hops(&mut self) {
        self.hops.iter_mut().flatten().for_each(|hop| hop.is_closed = false);
    }

    /// Lets the functions that tokens hopped to know of them.
    #[inline]
    pub fn close_hops(&mut self, cx: &mut Cx<'_>) {
        let Some(as_taker) = self.as_taker else { return };
        for hop in self.hops.iter_mut().flatten() {
            if std::mem::replace(&mut hop.is_used, false) {
                cx.visit(hop.node, |neighbour, cx| {
                    if let Some(taker) = as_taker(neighbour) {
                        taker.end_tokens(cx);
                    }
                });
            }
        }
    }

    /// A parked packet with the bytes that the function left in its slot. Whether its frame, where
    /// it has one of a group, is free again.
    #[inline]
    pub fn take_back(&mut self, cx: &mut Cx<'_>, mut packet: Packet, came: &Came<'_, '_>) -> bool {
        (self.parent_dropped, self.hopped) = (false, None);
        let token = came.token;
        let port = token.output as usize;
        if came.is_kept {
            // In a group the frame goes on as it is; nothing is copied for the next member.
            if came.frames.is_some() {
                packet = match self.pass_on(cx, packet, came) {
                    Ok(went_along) => return !went_along,
                    Err(packet) => packet,
                };
            }
            self.give(cx, port, packet);
            return true;
        }
        self.changed_count += 1;
        if self.carries && token.len() < PREFIX_LEN as u32 {
            cx.drop(Lost::Damaged, packet);
            return true;
        }
        if !self.carries && !reshape(&mut packet, came.entered, token.span()) {
            cx.drop(Reason::NO_MEMORY, packet);
            return true;
        }
        let mut packet = match self.pass_on(cx, packet, came) {
            Ok(went_along) => return !went_along,
            Err(packet) => packet,
        };
        if !self.carries {
            token.copy_to(packet.data_mut());
        } else if !Outlet::unpack(token, &mut packet) {
            cx.drop(Reason::NO_MEMORY, packet);
            return true;
        }
        self.give(cx, port, packet);
        true
    }

    /// The packet of a slot that the function dropped.
    #[inline]
    pub fn end(&mut self, packet: Option<Packet>) {
        self.dropped.extend(packet);
        self.parent_dropped = true;
    }

    /// A packet of which a function of streams has left the content in its slot, or dropped it,
    /// which it cannot.
    pub fn take_back_stream(
        &mut self,
        cx: &mut Cx<'_>,
        entries: &mut Entries,
        (mark, mut packet): (SlotTag, Packet),
        came: &Came<'_, '_>,
    ) {
        let now = cx.now();
        let Some((streams, entry)) = entries.streams_at(mark) else { return };
        let goes_on = match came.token.origin {
            Origin::Slot(_) => {
                let token = (came.token, came.entered);
                streams.take_back((mark, entry), &mut packet, token, now)
            }
            _ if !streams.close(mark, entry, &mut packet, now) => {
                return cx.drop(Lost::Dropped, packet);
            }
            _ => true,
        };
        if goes_on {
            self.give(cx, mark.input.into(), packet);
        }
    }

    /// Hands a token on to the function that its output leads to, if it does. Whether its frame
    /// went along; gives the packet back if it must go as all others.
    #[inline]
    fn pass_on(
        &mut self,
        cx: &mut Cx<'_>,
        packet: Packet,
        came: &Came<'_, '_>,
    ) -> Result<bool, Packet> {
        let hop = self.hops.get_mut(came.token.output as usize);
        let (hop, as_taker) = match (hop, self.as_taker) {
            (Some(Some(hop)), Some(as_taker)) if !hop.is_closed => (hop, as_taker),
            _ => return Err(packet),
        };
        let known = (packet.carried(), packet.fcb());
        let input = hop.input;
        let (mut given, mut went_along) = (Some(packet), false);
        cx.visit(hop.node, |neighbour, cx| {
            let Some(taker) = as_taker(neighbour) else { return };
            if let Some(packet) = given.take() {
                match taker.take_token(cx, input, packet, came) {
                    Ok(along) => went_along = along,
                    Err(packet) => given = Some(packet),
                }
            }
        });
        match given {
            None => {
                hop.is_used = true;
                self.hopped = Some(known);
                self.out += 1;
                self.hopped_count += 1;
                Ok(went_along)
            }
            Some(packet) => Err(packet),
        }
    }

    /// A packet that the function made; one made in consequence of another has its annotations.
    pub fn take_new(&mut self, cx: &mut Cx<'_>, token: &Token<'_, Mapped>) {
        let len = if self.carries { 0 } else { token.len() as usize };
        let Some(mut packet) = Packet::zeroed(len) else {
            cx.count_drops(Reason::NO_MEMORY, 1);
            return;
        };
        if self.carries {
            if Outlet::unpack(token, &mut packet) {
                self.give(cx, token.output as usize, packet);
            } else {
                cx.drop(Lost::Damaged, packet);
            }
            return;
        }
        token.copy_to(packet.data_mut());
        let parent = if self.parent_dropped { &self.dropped } else { &self.batch };
        match (token.origin, self.hopped, parent.iter().next_back()) {
            (Origin::Aux(_), Some((known, fcb)), _) => {
                packet.set_carried(&known);
                packet.set_fcb(fcb);
                // These are other bytes than the parent's.
                packet.clear_network();
            }
            (Origin::Aux(_), None, Some(parent)) => packet.copy_annotations(parent),
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

    pub fn clear_dropped(&mut self, cx: &mut Cx<'_>) {
        (self.parent_dropped, self.hopped) = (false, None);
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
    if span.start == entered && len == packet.len() {
        return true;
    }
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

/// The function that an output leads to, if it takes tokens, with what is known of them or
/// without.
fn hop(cx: &mut Cx<'_>, port: usize, carries: bool, as_taker: AsTaker) -> Option<Hop> {
    let (node, input) = cx.neighbours().leads_to(port)?;
    let mut takes = false;
    cx.visit(node, |neighbour, _| {
        takes = as_taker(neighbour).is_some_and(|taker| taker.takes_tokens(carries));
    });
    let hop = Hop { node, input: input as u8, is_closed: false, is_used: false };
    takes.then_some(hop)
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

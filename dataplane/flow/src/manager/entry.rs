//! The path of a batch through the flow manager.

use std::sync::Arc;

use thruway_packet::{Batch, MAX_BATCH, Packet};

use crate::fcb::{Direction, Fcb};
use crate::key::PacketView;
use crate::life::{Ended, Life};
use crate::manager::endings::EndedSession;
use crate::manager::flow_manager::Manager;
use crate::manager::headers::{self, Kind, ParsedHeaders, USUAL_NETWORK, USUAL_TRANSPORT};
use crate::manager::level::{
    END_ASKED, ENDING, FORWARD_EXCHANGED, LINK_TURNED, REPLY_EXCHANGED, SHORT_CUT,
};
use crate::manager::owners::Served;
use crate::manager::ownership::{HERE, HandoffContext, here};
use crate::manager::reader::Key;
use crate::manager::reply_headers::ReplyHeaders;
use crate::manager::settings::ticks;
use crate::manager::shared_records::Begin;
use crate::manager::tagged::is_read_alike;
use crate::manager::work::{Item, forward_flag};
use crate::plan::{LeafId, LevelId};
use crate::table::{Found, Refused};
use crate::tcp_flags::TCP_SYN;

/// How packets begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Input {
    /// With an Ethernet header.
    #[default]
    Ethernet,
    /// With an IP header.
    Ip,
    /// At a network header that is marked; with an Ethernet header if none is.
    Marked,
}

impl Input {
    /// Whether packets begin with an Ethernet header.
    #[inline]
    fn has_frames(self) -> bool {
        self == Input::Ethernet
    }
}

/// Why a packet goes no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No function downstream needs it.
    Unwanted,
    /// There is no room for its session.
    NoRoom,
    /// It would begin a session, and no more are to begin.
    Draining,
    /// Its tag denotes no class of the trusted ones.
    UnknownTag,
    /// This other thread serves its session, and is to have it.
    Elsewhere(u16),
}

/// Marks of refused packets, in their FCB word while their batch is processed: there are never so
/// many leaves.
const UNWANTED: LeafId = LeafId::MAX;
const NO_ROOM: LeafId = LeafId::MAX - 1;
const DRAINING: LeafId = LeafId::MAX - 2;
const UNKNOWN_TAG: LeafId = LeafId::MAX - 3;

/// The refusal of such a mark.
fn refusal(fcb: Fcb) -> Option<Refusal> {
    match (fcb.thread(), fcb.leaf()) {
        (Some(thread), _) => Some(Refusal::Elsewhere(thread)),
        (None, Some(UNWANTED)) => Some(Refusal::Unwanted),
        (None, Some(NO_ROOM)) => Some(Refusal::NoRoom),
        (None, Some(DRAINING)) => Some(Refusal::Draining),
        (None, Some(UNKNOWN_TAG)) => Some(Refusal::UnknownTag),
        _ => None,
    }
}

impl Manager {
    /// Classifies the packets of a batch that came to the classifier `node` and finds or begins
    /// their sessions; `refuse` gets the refused ones. `now` is in nanoseconds.
    /// Sessions may end by it: [`Manager::next_ended`] is to be called until it gives none.
    pub fn classify(
        &mut self,
        (node, input): (u32, Input),
        batch: &mut Batch,
        now: i64,
        refuse: impl FnMut(Packet, Refusal),
    ) {
        let entry = self.plan.nodes.get(node as usize).and_then(|node| node.entry);
        let Some(entry) = entry else { return };
        (self.now, self.entry, self.is_handing) = (ticks(now), entry, false);
        let packets = batch.iter_mut().into_slice();
        debug_assert!(packets.len() <= MAX_BATCH);
        let mut refused = false;
        for (at, packet) in packets.iter_mut().enumerate() {
            refused |= self.look_up(entry, input, at as u16, packet);
        }
        for level in 0..self.levels.len() {
            if !self.work[level].items.is_empty() {
                refused |= self.resolve(level, packets);
            }
        }
        if refused || self.is_handing {
            batch.extract(|packet| refusal(Fcb(packet.fcb())), refuse);
        }
    }

    /// First pass: a packet's kind, its class, and the key of its session. Returns whether it is
    /// refused.
    #[inline]
    fn look_up(&mut self, entry: u32, input: Input, at: u16, packet: &mut Packet) -> bool {
        let Ok((noted, tagged)) = self.in_front(entry, packet) else {
            packet.set_fcb(Fcb::of_leaf(UNKNOWN_TAG).0);
            return true;
        };
        let (headers, view) = seen(input, packet);
        let tagged = tagged.filter(|_| is_read_alike(input.has_frames(), &headers, &view));
        let leaf = match noted.or(tagged) {
            Some(leaf) => {
                self.tagged += 1;
                leaf
            }
            None => self.plan.classify(entry, &view),
        };
        if self.is_probing {
            self.is_spoiled |= !self.is_common(entry, &view, headers.protocol == 6);
        }
        let reader = &self.readers[usize::from(leaf)][headers.family as usize];
        let plain = Item {
            at,
            leaf,
            protocol: headers.protocol,
            segment: headers.segment,
            exchanged: false,
            related: false,
        };
        let mut unwanted = false;
        match reader {
            Some(reader) if headers.kind != Kind::Error && reader.takes(headers.kind) => {
                self.work[usize::from(reader.level)].add(plain, reader, &headers, &view);
            }
            _ => {
                self.sessionless[headers.kind as usize] += 1;
                unwanted = self.plan.leaves[usize::from(leaf)].early_drop;
                if headers.kind == Kind::Error {
                    self.look_up_quoted(entry, plain, &headers, &view);
                }
            }
        }
        packet.set_fcb(Fcb::of_leaf(if unwanted { UNWANTED } else { leaf }).0);
        unwanted
    }

    /// An ICMP error belongs to the session of the packet that it quotes, and takes the path of the
    /// session's packets in its own direction.
    #[cold]
    fn look_up_quoted(
        &mut self,
        entry: u32,
        plain: Item,
        headers: &ParsedHeaders,
        view: &PacketView<'_>,
    ) {
        let Some(quoted) = headers::quoted(headers, view.transport) else { return };
        let reply = ReplyHeaders::new(&quoted);
        let back = reply.view(view.frame);
        let leaf = self.plan.classify(entry, &back);
        let readers = &self.readers[usize::from(leaf)];
        let Some(reader) = &readers[headers.family as usize] else { return };
        if !reader.takes(Kind::Whole) {
            return;
        }
        let protocol = quoted.headers.protocol;
        let item = Item { leaf, protocol, related: true, ..plain };
        self.work[usize::from(reader.level)].add(item, reader, &quoted.headers, &back);
    }

    /// Second and third pass: the packets of one level. Says whether some are refused.
    fn resolve(&mut self, level: usize, packets: &mut [Packet]) -> bool {
        let mut work = std::mem::take(&mut self.work[level]);
        let state = &mut self.levels[level];
        state.is_changed = false;
        let none = Found::NONE;
        work.found.clear();
        work.found.resize(work.items.len(), none);
        if work.narrow.is_empty() {
            state.pool.find_batch(&work.wide, &mut work.found);
        } else {
            state.pool.find_batch(&work.narrow, &mut work.found);
        }
        let mut refused = false;
        for at in 0..work.items.len() {
            let item = &work.items[at];
            let packet = &mut packets[usize::from(item.at)];
            let mut found = work.found[at];
            if self.levels[level].is_changed {
                // A packet before it may have begun or ended this session.
                found = self.levels[level].find(&work.key(at));
            }
            match self.join_session(level, found, item) {
                Some(fcb) => {
                    packet.set_fcb(fcb.0);
                    if self.short_cuts.is_some() {
                        self.consider(fcb, item, packet);
                    }
                }
                None if self.is_probing => {
                    packet.set_fcb(Fcb::of_leaf(NO_ROOM).0);
                    refused = true;
                }
                None if item.related => {
                    // If no thread knows the session, its own class stays.
                    if let Some(fcb) = self.join_related(level, &work.key(at), item) {
                        packet.set_fcb(fcb.0);
                    }
                }
                None => match self.begin(level as LevelId, &work.key(at), item, packet) {
                    Ok(fcb) => packet.set_fcb(fcb.0),
                    Err(_) => {
                        let why = if self.is_draining { DRAINING } else { NO_ROOM };
                        self.levels[level].counts.refused += u64::from(!self.is_draining);
                        packet.set_fcb(Fcb::of_leaf(why).0);
                        refused = true;
                    }
                },
            }
        }
        work.clear();
        self.work[level] = work;
        refused
    }

    /// Finds the session of a packet's key; `None` if there is none, or it is over.
    ///
    /// PERF: a shorter path for packets that change nothing, with one look at the head instead of
    /// two, gained nothing (30.3 and 30.2 ns, `bench flow --case lookup/10k/uniform`).
    #[inline]
    fn join_session(&mut self, level: usize, found: Found, item: &Item) -> Option<Fcb> {
        let (index, now) = (found.index()?, self.now);
        let state = &mut self.levels[level];
        let head = *state.pool.head(index);
        let shared = state.shared_flows.is_some();
        let (mut life, seen, word, is_retired) =
            if shared { state.snapshot(index) } else { (Life(head.state), head.seen, HERE, false) };
        let turned = if found.is_alias() {
            item.exchanged == (head.flags & REPLY_EXCHANGED != 0)
        } else {
            item.exchanged != (head.flags & FORWARD_EXCHANGED != 0)
        };
        let direction = if turned { Direction::Reply } else { Direction::Forward };
        if turned && !found.is_alias() && state.pool.alias_key(index).is_some() {
            // Its replies come translated: this packet is not of the session, whatever its origin.
            return Some(Fcb::of_leaf(item.leaf));
        }
        if word & here(direction) == 0 {
            match self.seek((level, index), direction, item) {
                // It may have been a remote entry's.
                Served::Here => life = self.levels[level].snapshot(index).0,
                Served::There(fcb) => return Some(fcb),
                Served::Over => return self.over(level, index, Ended::Closed),
            }
        }
        if item.related {
            return Some(Fcb::of_session(level as LevelId, index, direction, true));
        }
        let idle = now.wrapping_sub(seen);
        if idle >= self.limit_min || head.flags & (ENDING | END_ASKED) != 0 {
            let limit = self.limits[usize::from(self.leaf_limits[usize::from(item.leaf)])]
                [usize::from(life.0)];
            // The sweep lags: a packet after the timeout begins a new session, however late the
            // sweep is.
            if idle >= limit && idle < u32::MAX / 2 {
                return self.over(level, index, Ended::TimedOut);
            }
            if head.flags & END_ASKED != 0 {
                return self.over(level, index, Ended::Closed);
            }
        }
        if life.begins_anew(item.segment.flags) || is_retired {
            return self.over(level, index, Ended::Closed);
        }
        self.meet_short_cut(head.flags, level as LevelId, index, item);
        let state = &mut self.levels[level];
        let goes_on = state.touch(index, direction, item, now);
        let after = if state.is_unidirectional {
            life.opened()
        } else {
            let flags = match goes_on {
                true => item.segment.flags,
                false => state.believe(index, direction, &item.segment),
            };
            let is_stray = flags == 0 && item.segment.flags != 0 && state.follows_tcp;
            self.stray += u64::from(is_stray);
            life.after(direction, flags)
        };
        let state = &mut self.levels[level];
        if after.0 != head.state {
            state.advance(index, after);
            self.note_change(level as LevelId, index);
        }
        let state = &mut self.levels[level];
        if shared {
            state.publish_life(index, now, after);
        }
        self.leave_short_cut(head.flags, level as LevelId, index);
        if head.leaf != item.leaf {
            self.count_moved(head.leaf, item.leaf);
        }
        Some(Fcb::of_session(level as LevelId, index, direction, false))
    }

    /// Ends a session.
    #[cold]
    fn over<T>(&mut self, level: usize, index: u32, why: Ended) -> Option<T> {
        self.end(level as LevelId, index, why);
        None
    }

    /// Ends a session; the caller of [`Manager::next_ended`] notifies its functions.
    pub fn end(&mut self, level: LevelId, index: u32, why: Ended) {
        if self.levels[usize::from(level)].pool.head(index).flags & SHORT_CUT != 0 {
            self.stop_short_cut(level, index);
        }
        if self.levels[usize::from(level)].end(index, why) {
            self.note_removal(level, index);
            let state = &mut self.levels[usize::from(level)];
            state.is_changed = true;
            self.note_end(usize::from(level), index, why);
            self.ended.add(EndedSession { level, index, why });
        }
    }

    /// Begins a session and the coarser ones that it depends on.
    #[cold]
    fn begin(
        &mut self,
        level: LevelId,
        key: &Key,
        item: &Item,
        packet: &mut Packet,
    ) -> Result<Fcb, Refused> {
        let now = self.now;
        let limits = &self.limits[usize::from(self.leaf_limits[usize::from(item.leaf)])];
        let state = &self.levels[usize::from(level)];
        let context =
            self.threads.as_ref().map(|threads| HandoffContext { threads, entry: self.entry });
        let beginning = Begin { now, tcp_flags: item.segment.flags, limits, context };
        let mut shared = state.find_or_publish(key, item.exchanged, &beginning);
        if let Some(owner) = shared.as_mut().and_then(|shared| self.server(level, shared))
            && let Some(shared) = shared
        {
            return Ok(self.add_remote((level, key), item, shared, owner));
        }
        if self.is_draining && shared.as_ref().is_none_or(|shared| shared.is_mine) {
            self.levels[usize::from(level)].forget(shared);
            return Err(Refused::Full);
        }
        let direction = shared.as_ref().map_or(Direction::Forward, |shared| shared.direction);
        let state = &self.levels[usize::from(level)];
        let life = state.first_life(shared.as_ref(), direction, item);
        let index = match self.insert(level, key, life) {
            Ok(index) => index,
            Err(refused) => {
                self.levels[usize::from(level)].forget(shared);
                return Err(refused);
            }
        };
        let state = &mut self.levels[usize::from(level)];
        // A manager that shares nothing with other threads serves all.
        state.set_served(index, shared.as_ref().map_or(HERE, |shared| shared.here));
        if let Some(shared) = &shared {
            state.hold(index, shared);
            state.publish_life(index, now, life);
        }
        state.begin_sides(index, direction, &item.segment);
        let head = state.pool.head_mut(index);
        head.seen = now;
        head.leaf = item.leaf;
        head.flags |= forward_flag(item, direction);
        self.count_begun(item.leaf);
        self.note_change(level, index);
        if !self.plan.levels[usize::from(level)].links.is_empty()
            && let Err(refused) = self.link(level, index, item, packet)
        {
            self.end(level, index, Ended::Evicted);
            return Err(refused);
        }
        Ok(Fcb::of_session(level, index, direction, false))
    }

    /// Joins a session of which this thread has seen nothing but an error, if another thread serves
    /// it. The error does not change the session's life. Not if coarser sessions depend on it: the
    /// error does not have their fields.
    #[cold]
    fn join_related(&mut self, level: usize, key: &Key, item: &Item) -> Option<Fcb> {
        if !self.plan.levels[level].links.is_empty() {
            return None;
        }
        let shared = self.levels[level].find_shared(key, item.exchanged)?;
        if let Some(owner) = self.server_of_error(level, &shared) {
            return Some(self.hand_error(level, shared, owner));
        }
        let direction = shared.direction;
        let life = Life::begin(item.protocol, TCP_SYN, Direction::Forward);
        let Ok(index) = self.insert(level as LevelId, key, life) else {
            self.levels[level].forget(Some(shared));
            return None;
        };
        let state = &mut self.levels[level];
        state.hold(index, &shared);
        let head = state.pool.head_mut(index);
        head.seen = self.now;
        head.leaf = item.leaf;
        head.flags |= forward_flag(item, direction);
        self.count_begun(item.leaf);
        Some(Fcb::of_session(level as LevelId, index, direction, true))
    }

    /// A new record, for which an embryonic session may have to go.
    pub(super) fn insert(&mut self, level: LevelId, key: &Key, life: Life) -> Result<u32, Refused> {
        if let Some(victim) = self.levels[usize::from(level)].victim(life)? {
            self.end(level, victim, Ended::Evicted);
        }
        self.levels[usize::from(level)].insert(key, life)
    }

    /// Links a new session to its coarser ones, which are begun if need be.
    fn link(
        &mut self,
        level: LevelId,
        index: u32,
        item: &Item,
        packet: &mut Packet,
    ) -> Result<(), Refused> {
        let now = self.now;
        let headers = headers::parse_marked(packet);
        let view = PacketView {
            frame: packet.mac(),
            network: packet.network(),
            transport: packet.transport(),
        };
        let reader = &self.readers[usize::from(item.leaf)][headers.family as usize];
        let links = reader.as_ref().map_or_else(Arc::default, |reader| Arc::clone(&reader.links));
        for (number, reader) in links.iter().enumerate() {
            let (key, exchanged) = reader.key(&headers, &view);
            let coarse = usize::from(reader.level);
            let parent = match self.levels[coarse].find(&key).index() {
                Some(parent) => parent,
                None => self.begin_coarse(reader.level, &key, exchanged)?,
            };
            let state = &mut self.levels[coarse];
            let turned = exchanged != (state.pool.head(parent).flags & FORWARD_EXCHANGED != 0);
            state.pool.head_mut(parent).seen = now;
            if let Some(children) = state.extra.children {
                *state.pool.extra_mut(parent, children) += 1;
            }
            let state = &mut self.levels[usize::from(level)];
            let at = state.extra.links + number;
            *state.pool.extra_mut(index, at) = (parent + 1) | if turned { LINK_TURNED } else { 0 };
        }
        Ok(())
    }

    /// A session that exists for the sake of finer ones.
    fn begin_coarse(&mut self, level: LevelId, key: &Key, exchanged: bool) -> Result<u32, Refused> {
        let index = self.insert(level, key, Life::begin(0, 0, Direction::Forward).opened())?;
        let head = self.levels[usize::from(level)].pool.head_mut(index);
        head.flags |= if exchanged { FORWARD_EXCHANGED } else { 0 };
        head.leaf = LeafId::MAX;
        Ok(index)
    }
}

/// A packet's kind, with its headers marked, and the view for classification.
#[inline]
fn seen(input: Input, packet: &mut Packet) -> (ParsedHeaders, PacketView<'_>) {
    if let Some(headers) = headers::parse_common(packet.data()).filter(|_| input.has_frames()) {
        packet.set_mac_offset(0);
        packet.set_network(USUAL_NETWORK, USUAL_TRANSPORT - USUAL_NETWORK);
        let frame = packet.data();
        let (network, transport) = (&frame[USUAL_NETWORK..], &frame[USUAL_TRANSPORT..]);
        return (headers, PacketView { frame, network, transport });
    }
    let headers = match input {
        Input::Ethernet => headers::parse_ethernet(packet),
        Input::Ip => headers::parse_ip(packet),
        Input::Marked => headers::parse_marked(packet),
    };
    let (frame, network, transport) = (packet.mac(), packet.network(), packet.transport());
    (headers, PacketView { frame, network, transport })
}

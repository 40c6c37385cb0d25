//! The mappings of one rewriter, or of several that share a capacity: records of the flow manager's
//! table, each found by the flow that it was made for and by that of the replies.
//!
//! A mapping is guaranteed for some seconds from its last packet. After that, another mapping that
//! needs room may evict it, earliest expiry first, or a sweep removes it after its timeout. The
//! store does not update this per packet: see `heap.rs`.

mod ageing;
pub(super) mod sharing;
mod shown;
mod tracking;

use std::sync::Arc;

pub(super) use shown::Shown;

use thruway_flow::Hasher;
use thruway_flow::shared_flows::{RecordId, SharedFlows};
use thruway_flow::table::{Found, Pool, Shape};
use thruway_flow::tcp::{Segment, Side};
use thruway_wire::checksum::Delta;
use thruway_wire::flow::FiveTuple;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::rewriters::context::Outputs;
use crate::rewriters::heap::{Entry, Heap, HeapOwner, is_before};
use crate::rewriters::sequence::Sequences;

/// Nanoseconds of a tick: half of what 32 bits count is 208 days.
const TICK_NS: i64 = 1 << 23;
/// Longest timeout, in seconds: 100 days.
pub(super) const TIMEOUT_MAX_S: u32 = 100 * 86_400;
/// Most mappings that may be asked for.
pub(super) const CAPACITY_MAX: u32 = 1 << 25;
/// Entries of heaps that are looked at for one new mapping.
const STEPS_MAX: usize = 64;

/// Of [`Mapping::heap_index`]: it is among those that are guaranteed.
const GUARANTEED: u32 = 1 << 31;

/// Key of the table: source, destination, ports, protocol and owner.
pub(super) type Key = [u32; 4];

/// Of a key's last word: it is one of a mapping, and no packet that has none.
const KEYED: u32 = 1 << 31;

/// The key of a flow of an owner's.
#[inline]
pub(super) fn key_of(flow: &FiveTuple<u32>, owner: u16) -> Key {
    let ports = u32::from(flow.src_port) << 16 | u32::from(flow.dst_port);
    [flow.src, flow.dst, ports, KEYED | u32::from(owner) << 8 | u32::from(flow.protocol)]
}

/// The flow of a key, or of a second key, which shares the first key's last word.
#[inline]
fn flow_of(words: &[u32], last: u32) -> FiveTuple<u32> {
    let word = |at: usize| words.get(at).copied().unwrap_or(0);
    FiveTuple {
        src: word(0),
        dst: word(1),
        src_port: (word(2) >> 16) as u16,
        dst_port: word(2) as u16,
        protocol: last as u8,
    }
}

/// A time in ticks.
#[inline]
pub(super) fn ticks(now: i64) -> u32 {
    (now / TICK_NS) as u32
}

/// Seconds in ticks.
pub(super) fn ticks_of(seconds: u32) -> u32 {
    (i64::from(seconds) * 1_000_000_000 / TICK_NS) as u32
}

/// A record's contents besides its keys, the time of its last packet (`Head::seen`), its state
/// (`Head::state`) and its input (`Head::leaf`).
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct Mapping {
    /// Place in its heap, and [`GUARANTEED`].
    heap_index: u32,
    /// Changes of sequence numbers and 1, where there are any.
    pub sequences: u32,
    /// Record of the rendezvous and 1, where other threads know it.
    pub shared_flows: u32,
    forward: u16,
    reply: u16,
    /// From the original to the rewritten addresses: for the IP header's checksum.
    pub ip: Delta,
    /// The same, and the ports or the identifier: for the transport header's.
    pub transport: Delta,
    /// For replies.
    pub anno: u8,
    /// Its own replies come under the key that it was made under.
    is_own_reply: u8,
    rest: [u8; 2],
    /// TCP numbers of initiator and responder, unless other threads share the mapping.
    sides: [Side; 2],
}

/// How long an owner's mappings of one protocol are kept, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    pub guarantee: u32,
    /// The guarantee also protects evictable mappings: the configuration asks for it.
    pub is_promised: bool,
    /// States, as bits, in which a mapping is evictable when there is no room for a new one.
    pub yields: u64,
    /// Timeouts by state.
    pub by_state: [u32; 16],
}

/// A rewriter that has mappings here.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    /// For TCP, and for all others.
    pub limits: [Limits; 2],
    /// Mappings now, by input.
    pub counts: Vec<u32>,
}

impl Owner {
    #[inline]
    fn limits(&self, last: u32) -> &Limits {
        &self.limits[usize::from(last as u8 != thruway_wire::ip_protocol::TCP)]
    }
}

/// What a mapping is to be.
pub(super) struct New {
    pub owner: u16,
    pub input: u16,
    pub flow: FiveTuple<u32>,
    pub rewritten: FiveTuple<u32>,
    pub outputs: Outputs,
    pub ip: Delta,
    pub transport: Delta,
    pub anno: u8,
}

/// One direction of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FlowDirection {
    pub index: u32,
    /// It is that of the replies.
    pub is_reply: bool,
}

impl HeapOwner for Pool {
    #[inline]
    fn set_heap_index(&mut self, index: u32, heap_index: u32) {
        let scratch = self.scratch_mut(index);
        if let Ok(mapping) = Mapping::mut_from_bytes(scratch) {
            mapping.heap_index = mapping.heap_index & GUARANTEED | heap_index;
        }
    }
}

/// See the module.
pub(super) struct Store {
    pool: Pool,
    guaranteed: Heap,
    others: Heap,
    pub owners: Vec<Owner>,
    pub sequences: Sequences,
    capacity: u32,
    /// Where other threads' mappings are known.
    shared_flows: Option<Arc<SharedFlows>>,
    /// Whether mappings were made or ended since this was last reset.
    pub is_changed: bool,
}

impl Store {
    /// An empty one, of one owner.
    pub(super) fn new(capacity: u32, owner: Owner, seeds: [u64; 2]) -> Store {
        let shape = Shape {
            key_words: 4,
            alias: true,
            extra_words: 0,
            scratch_len: size_of::<Mapping>(),
            scratch_align: 8,
            initial: Box::default(),
            sessions_max: CAPACITY_MAX + 1,
        };
        Store {
            pool: Pool::new(shape, Hasher::new(seeds)),
            guaranteed: Heap::default(),
            others: Heap::default(),
            owners: vec![owner],
            sequences: Sequences::default(),
            capacity,
            shared_flows: None,
            is_changed: false,
        }
    }

    /// Mappings now, of all owners.
    pub(super) fn len(&self) -> usize {
        self.guaranteed.len() + self.others.len()
    }

    /// Bytes that a mapping takes, in its record and in the index.
    pub(super) fn mapping_bytes(&self) -> (usize, f64) {
        (self.pool.record_bytes(), self.pool.index_bytes())
    }

    pub(super) fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Has another capacity from now on: what is too much goes when others come.
    pub(super) fn adopt(&mut self, capacity: u32) {
        self.capacity = capacity;
    }

    /// Looks many keys up.
    #[inline]
    pub(super) fn find_batch(&self, keys: &[Key], found: &mut [Found]) {
        self.pool.find_batch(keys, found);
    }

    /// Looks one key up.
    #[inline]
    pub(super) fn find(&self, key: &Key) -> Option<FlowDirection> {
        self.direction(self.pool.find(key))
    }

    /// What was found.
    #[inline]
    pub(super) fn direction(&self, found: Found) -> Option<FlowDirection> {
        let index = found.index()?;
        Some(FlowDirection { index, is_reply: found.is_alias() })
    }

    /// Updates a mapping with a packet, and returns its rewriting. `track` computes the state from
    /// the state before, the direction, and the believed flags of a TCP segment; the first packet
    /// is forward, even if its replies have the same flow.
    #[inline(always)]
    pub(super) fn meet(
        &mut self,
        direction: FlowDirection,
        now: u32,
        (segment, is_first): (Option<&Segment>, bool),
        track: impl Fn(u8, bool, u8) -> u8,
    ) -> Option<Rewritten> {
        let (head, words, scratch) = self.pool.whole_mut(direction.index);
        let mapping = Mapping::mut_from_bytes(scratch).ok()?;
        let last = *words.get(3)?;
        let is_reply = (direction.is_reply || mapping.is_own_reply != 0) && !is_first;
        let rewritten = rewritten(words, direction, is_reply, mapping)?;
        head.seen = now;
        let before = head.state;
        let after = match mapping.shared_flows {
            0 => {
                let flags_of =
                    |segment| tracking::believed(&mut mapping.sides, before, is_reply, segment);
                track(before, is_reply, segment.map_or(0, flags_of))
            }
            record => {
                let advance = |state, flags| track(state, is_reply, flags);
                let packet = (segment, is_reply, now);
                tracking::publish(self.shared_flows.as_ref(), record, packet, advance)
            }
        };
        if before != after {
            head.state = after;
            let limits = &self.owners.get(owner_of(last))?.limits(last).by_state;
            let shorter = limits[usize::from(after & 15)] < limits[usize::from(before & 15)];
            if shorter && mapping.heap_index & GUARANTEED == 0 {
                self.hasten(direction.index);
            }
        }
        Some(rewritten)
    }

    /// The same without an update.
    pub(super) fn peek(&mut self, direction: FlowDirection) -> Option<Rewritten> {
        let (_, words, scratch) = self.pool.whole_mut(direction.index);
        let mapping = Mapping::mut_from_bytes(scratch).ok()?;
        rewritten(words, direction, direction.is_reply || mapping.is_own_reply != 0, mapping)
    }

    /// Number of the mapping's changes of sequence numbers, made if there is none.
    pub(super) fn sequences_of(&mut self, direction: FlowDirection) -> Option<u32> {
        let mapping = Mapping::mut_from_bytes(self.pool.scratch_mut(direction.index)).ok()?;
        if mapping.sequences == 0 {
            mapping.sequences = self.sequences.acquire()? + 1;
        }
        Some(mapping.sequences - 1)
    }

    /// What replies get in their annotation.
    pub(super) fn anno_mut(&mut self, direction: FlowDirection) -> Option<&mut u8> {
        Some(&mut Mapping::mut_from_bytes(self.pool.scratch_mut(direction.index)).ok()?.anno)
    }

    /// Makes a mapping, or one that another thread has made and that is `known` as this record. A
    /// mapping that the replies belong to already ends.
    ///
    /// # Errors
    /// No room.
    #[cold]
    pub(super) fn begin(
        &mut self,
        new: &New,
        known: Option<RecordId>,
        now: u32,
    ) -> Result<FlowDirection, NoRoom> {
        let reply = key_of(&new.rewritten.reversed(), new.owner);
        let made = self.make_room(new, &reply, now);
        let shared_flows = match (known, made) {
            (Some(record), _) => record.index() + 1,
            (None, Ok(())) => self.publish_new(new, &reply, now)?,
            (None, Err(no_room)) => return Err(no_room),
        };
        let entered = made.and_then(|()| self.enter(new, &reply, shared_flows, now));
        if entered.is_err() {
            self.leave(shared_flows);
        }
        entered
    }

    /// Ends the mappings that conflict with a new one.
    fn make_room(&mut self, new: &New, reply: &Key, now: u32) -> Result<(), NoRoom> {
        let key = key_of(&new.flow, new.owner);
        for taken in [&key, reply] {
            if let Some(other) = self.pool.find(taken).index() {
                self.end(other);
            }
        }
        let owner = self.owners.get(usize::from(new.owner)).ok_or(NoRoom)?;
        let limits = *owner.limits(key[3]);
        let over = now.wrapping_add(limits.by_state[0]);
        if self.len() >= self.capacity as usize {
            let victim = self.victim(now, STEPS_MAX).or_else(|| self.unanswered());
            let victim = victim.ok_or(NoRoom)?;
            if limits.guarantee == 0 && is_before(over, victim.at) {
                return Err(NoRoom);
            }
            self.end(victim.index);
        }
        Ok(())
    }

    /// Enters a new mapping.
    fn enter(
        &mut self,
        new: &New,
        reply: &Key,
        shared_flows: u32,
        now: u32,
    ) -> Result<FlowDirection, NoRoom> {
        let key = key_of(&new.flow, new.owner);
        let owner = self.owners.get(usize::from(new.owner)).ok_or(NoRoom)?;
        let limits = *owner.limits(key[3]);
        let index = self.pool.insert(&key).map_err(|_| NoRoom)?;
        if *reply != key && self.pool.alias(index, reply).is_err() {
            self.pool.free(index);
            return Err(NoRoom);
        }
        let is_guaranteed = limits.guarantee > 0;
        let (head, _, scratch) = self.pool.whole_mut(index);
        (head.seen, head.leaf) = (now, new.input);
        let mapping = Mapping {
            heap_index: if is_guaranteed { GUARANTEED } else { 0 },
            sequences: 0,
            shared_flows,
            forward: new.outputs.forward,
            reply: new.outputs.reply,
            ip: new.ip,
            transport: new.transport,
            anno: new.anno,
            is_own_reply: u8::from(*reply == key),
            rest: [0; 2],
            sides: [Side::default(); 2],
        };
        scratch.copy_from_slice(mapping.as_bytes());
        if is_guaranteed {
            let at = now.wrapping_add(limits.guarantee);
            self.guaranteed.push(Entry { at, index }, &mut self.pool);
        } else {
            let at = now.wrapping_add(limits.by_state[0]);
            self.others.push(Entry { at, index }, &mut self.pool);
        }
        if let Some(count) = self.count_mut(new.owner.into(), new.input) {
            *count += 1;
        }
        self.is_changed = true;
        Ok(FlowDirection { index, is_reply: false })
    }

    fn count_mut(&mut self, owner: usize, input: u16) -> Option<&mut u32> {
        self.owners.get_mut(owner)?.counts.get_mut(usize::from(input))
    }

    /// Ends a mapping.
    #[cold]
    pub(super) fn end(&mut self, index: u32) {
        if !self.pool.is_live(index) {
            return;
        }
        let (owner, input) = (owner_of(self.pool.key(index)[3]), self.pool.head(index).leaf);
        if let Ok(mapping) = Mapping::read_from_bytes(self.pool.scratch(index)) {
            let heap = match mapping.heap_index & GUARANTEED {
                0 => &mut self.others,
                _ => &mut self.guaranteed,
            };
            heap.remove(mapping.heap_index & !GUARANTEED, &mut self.pool);
            if let Some(sequences) = mapping.sequences.checked_sub(1) {
                self.sequences.release(sequences);
            }
            self.leave(mapping.shared_flows);
        }
        if let Some(count) = self.count_mut(owner, input) {
            *count = count.saturating_sub(1);
        }
        self.pool.free(index);
        self.is_changed = true;
    }

    /// Ends all mappings, or those that one input of an owner has made.
    pub(super) fn clear(&mut self, only: Option<(u16, u16)>) {
        for index in 0..self.pool.extent() {
            let is_meant = |(owner, input): (u16, u16)| {
                owner_of(self.pool.key(index)[3]) == usize::from(owner)
                    && self.pool.head(index).leaf == input
            };
            if self.pool.is_live(index) && only.is_none_or(is_meant) {
                self.end(index);
            }
        }
    }
}

/// There is no room for a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoRoom;

/// What becomes of a packet of a mapping.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rewritten {
    pub to: FiveTuple<u32>,
    pub is_reply: bool,
    pub output: u16,
    pub ip: Delta,
    pub transport: Delta,
    pub anno: u8,
    pub sequences: Option<u32>,
}

#[inline]
fn owner_of(last: u32) -> usize {
    (last >> 8) as usize & 0xffff
}

/// What a direction's flow becomes: that of the other direction, turned round. `words` are those of
/// the record.
#[inline(always)]
fn rewritten(
    words: &[u32],
    direction: FlowDirection,
    is_reply: bool,
    mapping: &Mapping,
) -> Option<Rewritten> {
    let (key, alias) = words.split_at_checked(4)?;
    let other = if direction.is_reply || mapping.is_own_reply != 0 { key } else { alias };
    Some(Rewritten {
        to: flow_of(other, key[3]).reversed(),
        is_reply,
        output: if is_reply { mapping.reply } else { mapping.forward },
        ip: if is_reply { mapping.ip.inverse() } else { mapping.ip },
        transport: if is_reply { mapping.transport.inverse() } else { mapping.transport },
        anno: mapping.anno,
        sequences: mapping.sequences.checked_sub(1),
    })
}

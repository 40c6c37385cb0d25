//! What is remembered of sessions: a little in the session's own state, the last bytes of each
//! direction in slots.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::patterns::SearchState;
use crate::rules::bits::FLOW_BITS_MAX;
use crate::rules::buffer::Side;
use crate::rules::run::App;

/// Rules of one direction that are waited for, at most; where there are more, everything that is
/// remembered of the direction is searched again until they no longer matter.
const PENDING_MAX: usize = if cfg!(test) { 2 } else { 32 };

/// How much is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes kept of each direction: rules with contents within this distance are found.
    pub window: usize,
    /// Bytes of a message head that are remembered while its body flows.
    pub head: usize,
    /// Directions of which bytes are remembered at a time.
    pub slots: usize,
    /// Counters for thresholds.
    pub counters: usize,
}

impl Default for Limits {
    /// 8 KiB of the payload (kept twice) and 16 KiB of a head, for 4,096 directions: 128 MiB when
    /// all are in use.
    fn default() -> Limits {
        Limits { window: 8192, head: 16_384, slots: 4096, counters: 1 << 16 }
    }
}

impl Limits {
    /// The least of each that makes sense.
    #[must_use]
    pub fn sane(self) -> Limits {
        Limits {
            window: self.window.clamp(64, 1 << 20),
            head: self.head.clamp(64, 1 << 20),
            slots: self.slots.clamp(1, 1 << 24),
            counters: self.counters.clamp(8, 1 << 24),
        }
    }
}

/// What a session remembers: plain data, zeros at the beginning.
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Session {
    bits: [u64; FLOW_BITS_MAX / 64],
    pub(super) sides: [SideSearch; 2],
    pub(super) app: u8,
    /// A rule said `pass`.
    pub(super) passed: u8,
    /// Directions of which a packet was seen.
    pub(super) seen: u8,
    pad: [u8; 5],
}

/// Of one direction.
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct SideSearch {
    /// Bytes that came.
    pub stream: u64,
    /// Of them, those before the present message.
    pub message_from: u64,
    /// Of them, those before its body.
    pub body_from: u64,
    /// Patterns in the stream.
    pub payload: SearchState,
    /// Patterns in the body of the present message.
    pub body: SearchState,
    /// The slot, from 1; 0: none.
    pub slot: u32,
    /// There is a current message.
    pub in_message: u8,
    /// Bytes of its body were seen.
    pub in_body: u8,
    pad: [u8; 2],
}

impl Session {
    /// What it speaks, as far as is known.
    pub fn app(&self) -> App {
        App::of(self.app)
    }

    /// Whether something of a direction was looked at before.
    pub(super) fn has_seen(&self, side: Side) -> bool {
        self.seen & (1 << side.index()) != 0
    }

    pub(super) fn bit(&self, number: u16) -> bool {
        let number = usize::from(number);
        self.bits.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    pub(super) fn clear_bits(&mut self) {
        self.bits = Default::default();
    }

    pub(super) fn set_bit(&mut self, number: u16, value: bool) {
        let number = usize::from(number);
        if let Some(word) = self.bits.get_mut(number / 64) {
            *word = *word & !(1 << (number % 64)) | u64::from(value) << (number % 64);
        }
    }
}

/// A rule with a found fast pattern, which may match with the next bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pending {
    pub rule: u32,
    /// Place in the stream behind the pattern; when that is no longer remembered, nothing is waited
    /// for. The end of time for patterns in a head, which is remembered with its message.
    pub at: u64,
}

/// What is remembered of one direction.
#[derive(Debug)]
pub(super) struct Slot {
    pub pending: Vec<Pending>,
    /// Position in the stream behind the last pattern of a rule that is not in `pending`.
    pub lost: u64,
    /// There was one in the head.
    pub lost_head: bool,
    pub head_len: usize,
    window_len: usize,
}

impl Slot {
    /// Waits for a rule.
    pub(super) fn wait(&mut self, rule: u32, at: u64) {
        if let Some(known) = self.pending.iter_mut().find(|known| known.rule == rule) {
            known.at = known.at.max(at);
        } else if self.pending.len() < PENDING_MAX {
            self.pending.push(Pending { rule, at });
        } else if at == u64::MAX {
            self.lost_head = true;
        } else {
            self.lost = self.lost.max(at);
        }
    }
}

/// Slots, made at the start.
#[derive(Debug)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// For each slot a head, then twice a window.
    bytes: Vec<u8>,
    pub limits: Limits,
}

impl Slots {
    pub(super) fn new(limits: Limits) -> Slots {
        let limits = limits.sane();
        let slot = || Slot {
            pending: Vec::with_capacity(PENDING_MAX),
            lost: 0,
            lost_head: false,
            head_len: 0,
            window_len: 0,
        };
        Slots {
            slots: (0..limits.slots).map(|_| slot()).collect(),
            free: (1..=limits.slots as u32).rev().collect(),
            bytes: vec![0; limits.slots * (limits.head + 2 * limits.window)],
            limits,
        }
    }

    /// Slots not in use.
    pub(super) fn free(&self) -> usize {
        self.free.len()
    }

    /// A slot for a session without one; 0 if all are taken.
    pub(super) fn acquire(&mut self, number: &mut u32) {
        if *number == 0
            && let Some(free) = self.free.pop()
        {
            *number = free;
            if let Some(slot) = self.slots.get_mut(free as usize - 1) {
                slot.pending.clear();
                (slot.lost, slot.lost_head) = (0, false);
                (slot.head_len, slot.window_len) = (0, 0);
            }
        }
    }

    /// Gives a slot back.
    pub(super) fn release(&mut self, number: u32) {
        if self.slot(number).is_some() {
            self.free.push(number);
        }
    }

    pub(super) fn slot(&mut self, number: u32) -> Option<&mut Slot> {
        self.slots.get_mut((number as usize).checked_sub(1)?)
    }

    fn offsets(&self, number: u32) -> Option<(usize, usize)> {
        let at = (number as usize).checked_sub(1).filter(|at| *at < self.slots.len())?;
        let head = at * (self.limits.head + 2 * self.limits.window);
        Some((head, head + self.limits.head))
    }

    /// Remembers the head of a message.
    pub(super) fn put_head(&mut self, number: u32, head: &[u8]) {
        let Some((from, _)) = self.offsets(number) else { return };
        let head = &head[..head.len().min(self.limits.head)];
        self.bytes[from..from + head.len()].copy_from_slice(head);
        if let Some(slot) = self.slot(number) {
            slot.head_len = head.len();
        }
    }

    /// The head of the current message.
    pub(super) fn head(&self, number: u32) -> &[u8] {
        let Some((from, _)) = self.offsets(number) else { return &[] };
        &self.bytes[from..from + self.slots[number as usize - 1].head_len]
    }

    /// Adds at most a window's worth of bytes behind those that are remembered, and says how many
    /// bytes before them are: at most a window.
    pub(super) fn append(&mut self, number: u32, bytes: &[u8]) -> usize {
        let Some((_, from)) = self.offsets(number) else { return 0 };
        let window = self.limits.window;
        let len = self.slots[number as usize - 1].window_len;
        let keep = len.min(window);
        let mut end = len;
        if len + bytes.len() > 2 * window {
            self.bytes.copy_within(from + len - keep..from + len, from);
            end = keep;
        }
        let bytes = &bytes[..bytes.len().min(window)];
        self.bytes[from + end..from + end + bytes.len()].copy_from_slice(bytes);
        self.slots[number as usize - 1].window_len = end + bytes.len();
        keep
    }

    /// The last `len` bytes.
    pub(super) fn last(&self, number: u32, len: usize) -> &[u8] {
        let Some((_, from)) = self.offsets(number) else { return &[] };
        let have = self.slots[number as usize - 1].window_len;
        &self.bytes[from + have - len.min(have)..from + have]
    }
}

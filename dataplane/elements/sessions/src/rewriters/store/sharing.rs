//! Mappings that several threads share. The thread that makes one publishes it where the others
//! look before they make their own. Each thread then has its own record, and publishes time and
//! state of its packets here.

use std::sync::Arc;

use thruway_flow::shared_flows::{self, KEY_WORDS, Published, RecordId, SharedFlows};
use thruway_wire::checksum::Delta;
use thruway_wire::flow::FiveTuple;

use super::{Key, New, NoRoom, Store, key_of};
use crate::rewriters::context::Outputs;

/// Words that are reported on a mapping: its flow, what that becomes, ports, and where packets
/// leave.
pub(in crate::rewriters) const WORDS: usize = 4;

fn padded(key: &Key) -> shared_flows::Key {
    let mut padded = [0; KEY_WORDS];
    padded.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
    padded
}

fn two(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

fn ports(tuple: &FiveTuple<u32>) -> u32 {
    u32::from(tuple.src_port) << 16 | u32::from(tuple.dst_port)
}

/// The shared words of a mapping.
fn words_of(new: &New) -> [u64; WORDS] {
    let New { flow, rewritten, outputs, .. } = new;
    let sides = u32::from(outputs.forward) << 16 | u32::from(outputs.reply);
    [
        two(flow.src, flow.dst),
        two(rewritten.src, rewritten.dst),
        two(ports(flow), ports(rewritten)),
        two(sides, u32::from(new.input) << 16 | u32::from(new.anno)),
    ]
}

/// A mapping from what was reported on it; changes of checksums are not in it.
fn heard(words: [u64; WORDS], owner: u16, protocol: u8) -> New {
    let halves = words.map(|word| ((word >> 32) as u32, word as u32));
    let tuple = |(src, dst): (u32, u32), ports: u32| FiveTuple {
        src,
        dst,
        src_port: (ports >> 16) as u16,
        dst_port: ports as u16,
        protocol,
    };
    let (sides, rest) = halves[3];
    New {
        owner,
        input: (rest >> 16) as u16,
        flow: tuple(halves[0], halves[2].0),
        rewritten: tuple(halves[1], halves[2].1),
        outputs: Outputs { forward: (sides >> 16) as u16, reply: sides as u16 },
        ip: Delta::NONE,
        transport: Delta::NONE,
        anno: rest as u8,
    }
}

impl Store {
    /// Lets the stores that have the same meeting know this one's mappings.
    pub(in crate::rewriters) fn share(&mut self, shared_flows: Arc<SharedFlows>) {
        self.shared_flows = Some(shared_flows);
    }

    /// Whether other threads know its mappings.
    pub(in crate::rewriters) fn is_shared(&self) -> bool {
        self.shared_flows.is_some()
    }

    /// Whether a mapping has this key, here or in another thread.
    pub(in crate::rewriters) fn is_taken(&self, key: &Key) -> bool {
        if !self.pool.find(key).is_none() {
            return true;
        }
        let Some(shared_flows) = &self.shared_flows else { return false };
        let found = shared_flows.find(&padded(key));
        if let Some(record) = found {
            shared_flows.leave(record);
        }
        found.is_some()
    }

    /// The mapping that another thread has made for this flow or for its replies, with its record
    /// held for [`Store::begin`].
    pub(in crate::rewriters) fn known_elsewhere(
        &self,
        flow: &FiveTuple<u32>,
        owner: u16,
    ) -> Option<(RecordId, New)> {
        let shared_flows = self.shared_flows.as_ref()?;
        let record = shared_flows.find(&padded(&key_of(flow, owner)))?;
        let words = std::array::from_fn(|at| shared_flows.word(record, at));
        Some((record, heard(words, owner, flow.protocol)))
    }

    /// Informs the others of a new mapping; gives what [`super::Mapping::shared_flows`] is to be.
    pub(super) fn publish_new(&self, new: &New, reply: &Key, now: u32) -> Result<u32, NoRoom> {
        let Some(shared_flows) = &self.shared_flows else { return Ok(0) };
        let key = key_of(&new.flow, new.owner);
        match shared_flows.publish(&padded(&key), &words_of(new), now) {
            Published::Mine(record) => {
                if *reply != key && shared_flows.also(record, &padded(reply)).is_err() {
                    shared_flows.leave(record);
                    return Err(NoRoom);
                }
                Ok(record.index() + 1)
            }
            // At this very moment: the flow's next packet finds it.
            Published::Theirs(record) => {
                shared_flows.leave(record);
                Err(NoRoom)
            }
            Published::Full => Ok(0),
        }
    }

    /// This thread has ended its part of a mapping.
    pub(super) fn leave(&self, shared_flows: u32) {
        if let (Some(shared_flows), Some(record)) =
            (&self.shared_flows, shared_flows.checked_sub(1))
        {
            shared_flows.leave(RecordId::from_index(record));
        }
    }

    /// Time of the last packet of a mapping in any thread, and the joint state.
    pub(super) fn latest(&self, shared_flows: u32, seen: u32, state: u8) -> (u32, u8) {
        let (Some(shared_flows), Some(record)) = (&self.shared_flows, shared_flows.checked_sub(1))
        else {
            return (seen, state);
        };
        let record = RecordId::from_index(record);
        let other = shared_flows.last_seen(record);
        let is_newer = other.wrapping_sub(seen) < u32::MAX / 2;
        (if is_newer { other } else { seen }, shared_flows.state(record) as u8)
    }
}

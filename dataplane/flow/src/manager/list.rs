//! Sessions, listed while packets flow: a bounded number of records at a time.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use thruway_wire::ip_protocol;

use crate::life::{Life, Phase};
use crate::manager::flow_manager::Manager;
use crate::manager::level::{ENDING, FORWARD_EXCHANGED, REPLY_EXCHANGED};
use crate::manager::reader::{TupleWords, is_narrow, tuple_words};
use crate::manager::settings::{TICK_NS, ticks};
use crate::plan::{Family, LeafId, SessionTable};
use crate::session::KeyField;

/// Records that one call looks at.
pub const RECORDS_PER_CALL: u32 = 1024;

/// Where a listing continues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    /// Level.
    pub level: usize,
    /// Record.
    pub index: u32,
}

/// A packet's ends, as far as a key has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// Source address.
    pub src: Option<IpAddr>,
    /// Destination address.
    pub dst: Option<IpAddr>,
    /// Source port.
    pub src_port: Option<u16>,
    /// Destination port.
    pub dst_port: Option<u16>,
    /// Protocol.
    pub protocol: Option<u8>,
}

/// A session, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow<'a> {
    /// Its definition's name.
    pub session: String,
    /// Where it is in its life.
    pub phase: Phase,
    /// As the packet that opened it has them.
    pub forward: Ends,
    /// As replies have them, where addresses are translated.
    pub reply: Option<Ends>,
    /// Seconds since its last packet.
    pub idle_s: u32,
    /// Seconds until it ends.
    pub left_s: u32,
    /// The description of the class of its packets.
    pub class: &'a str,
}

impl Manager {
    /// Passes the sessions of the next records to `each`; returns where to continue, if there are
    /// more.
    pub fn list(&self, from: Cursor, now: i64, mut each: impl FnMut(&Flow<'_>)) -> Option<Cursor> {
        let state = self.levels.get(from.level)?;
        let extent = state.pool.extent();
        let end = from.index.saturating_add(RECORDS_PER_CALL).min(extent);
        for index in from.index..end {
            if let Some(flow) = self.flow(from.level, index, ticks(now)) {
                each(&flow);
            }
        }
        if end < extent {
            return Some(Cursor { index: end, ..from });
        }
        let level = from.level + 1;
        (level < self.levels.len()).then_some(Cursor { level, index: 0 })
    }

    fn flow(&self, level: usize, index: u32, now: u32) -> Option<Flow<'_>> {
        let state = &self.levels[level];
        if !state.pool.is_live(index) || state.pool.head(index).flags & ENDING != 0 {
            return None;
        }
        if state.is_remote(index) {
            return None;
        }
        let head = *state.pool.head(index);
        let (life, seen) = state.both(index);
        let leaf = usize::from(if head.leaf == LeafId::MAX { 0 } else { head.leaf });
        let limit = self.limits[usize::from(self.leaf_limits[leaf])][usize::from(life.0)];
        let idle = now.wrapping_sub(seen).min(u32::MAX / 2);
        let plan = &self.plan.levels[level];
        let narrow = is_narrow(plan);
        let forward =
            tuple_words(narrow, state.pool.key(index), head.flags & FORWARD_EXCHANGED != 0);
        let reply = state.pool.alias_key(index).map(|alias| {
            let mut words = state.pool.key(index).to_vec();
            words[..alias.len()].copy_from_slice(alias);
            let words = tuple_words(narrow, &words, head.flags & REPLY_EXCHANGED != 0);
            // The reply's fields are those of the opposite direction.
            ends(&words, plan, life)
        });
        Some(Flow {
            session: plan.session.to_string(),
            phase: life.phase(),
            forward: ends(&forward, plan, life),
            reply,
            idle_s: seconds(idle),
            left_s: seconds(limit.saturating_sub(idle)),
            class: self.plan.leaves.get(leaf).map_or("", |leaf| leaf.class.as_str()),
        })
    }
}

fn seconds(ticks: u32) -> u32 {
    (i64::from(ticks) * TICK_NS / 1_000_000_000) as u32
}

fn address(words: &[u32; 4], family: Family) -> IpAddr {
    if family != Family::V6 {
        return Ipv4Addr::from_bits(words[0]).into();
    }
    let bits = words.iter().fold(0u128, |bits, word| bits << 32 | u128::from(*word));
    Ipv6Addr::from_bits(bits).into()
}

/// The significant parts of a key: fields that the class fixes are not in it.
fn ends(words: &TupleWords, level: &SessionTable, life: Life) -> Ends {
    let has = |field: KeyField| level.fields.contains(&field);
    let port = |port: u32| port as u16;
    Ends {
        src: has(KeyField::Src).then(|| address(&words.src, level.family)),
        dst: has(KeyField::Dst).then(|| address(&words.dst, level.family)),
        src_port: has(KeyField::SrcPort).then(|| port(words.ports >> 16)),
        dst_port: has(KeyField::DstPort).then(|| port(words.ports)),
        protocol: if has(KeyField::Protocol) {
            Some(words.protocol as u8)
        } else {
            life.protocol(level.family == Family::V6)
        },
    }
}

/// A protocol's name, or its number.
pub(super) fn protocol_name(protocol: u8) -> String {
    ip_protocol::name(protocol).map_or_else(|| protocol.to_string(), str::to_owned)
}

impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        let mut part = |name: &str, value: Option<String>| match value {
            Some(value) => {
                let blank = if std::mem::take(&mut first) { "" } else { " " };
                write!(f, "{blank}{name}={value}")
            }
            None => Ok(()),
        };
        part("src", self.src.map(|address| address.to_string()))?;
        part("dst", self.dst.map(|address| address.to_string()))?;
        part("sport", self.src_port.map(|port| port.to_string()))?;
        part("dport", self.dst_port.map(|port| port.to_string()))
    }
}

/// The words for phases.
pub(super) const PHASES: [(Phase, &str); 4] = [
    (Phase::New, "new"),
    (Phase::Open, "open"),
    (Phase::Closing, "closing"),
    (Phase::Closed, "closed"),
];

impl fmt::Display for Flow<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = self.forward.protocol.map_or_else(|| "-".into(), protocol_name);
        let phase = PHASES.iter().find(|(phase, _)| *phase == self.phase).map_or("-", |p| p.1);
        let Flow { session, left_s, idle_s, forward, class, .. } = self;
        write!(f, "{protocol} {phase} {left_s} {forward}")?;
        if let Some(reply) = &self.reply {
            write!(f, " reply {reply}")?;
        }
        write!(f, " idle={idle_s} session=\"{session}\" class=\"{class}\"")
    }
}

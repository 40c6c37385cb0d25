//! TCP in a middlebox (RFC 9293): tracks connections, puts their payload in order, serves
//! retransmissions from copies, and compensates changes by functions in the numbers of both
//! directions; as much of this as the functions of the chain need ([`Mode`]).
//!
//! ```text
//! arrive: checks, acknowledgements   -> functions ->   depart: numbers, splitting,
//! of the other direction, order                        copies, window
//! ```
//!
//! A packet between [`Tcp::arrive`] and [`Tcp::depart`] has in its [`Content`](crate::content) the
//! number of its sender's bytes that it accounts for (`took`); the payload left at departure
//! replaces them. Packets depart in the order in which they arrived.

mod acks;
mod arrive;
mod checkpoints;
mod depart;
mod drop_reason;
mod ending;
mod endpoint;
mod evict;
mod go_on;
mod handshake;
mod image;
pub mod options;
pub mod overlap;
mod part;
pub mod reorder;
mod replica;
mod resend;
pub mod retransmit;
mod seg;
pub mod seq;
pub mod seq_map;
mod settings;
mod standby;
pub mod template;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use thruway_packet::Packet;

use crate::ages::Ages;

pub use arrive::mark_payload;
pub use drop_reason::DropReason;
pub use replica::Restore;
pub use seq::Seq;
pub use settings::{AtBound, Mode, Settings, Urgent};

use ending::Ending;
use endpoint::{Conn, Phase};
use reorder::{Bounds, Reorder};
use replica::Replica;
use retransmit::RetransmitQueue;
use seq_map::SeqMapSlab;
use template::Template;

/// Changed pieces remembered for each connection that may be there, about; the slab takes memory
/// as it needs it.
const PIECES_MAX: usize = 1 << 22;

/// Forwarded and dropped packets.
#[derive(Default)]
pub struct Out {
    /// Packets in their order, each with the port that it leaves by.
    pub packets: Vec<(usize, Packet)>,
    /// By [`DropReason`].
    pub drops: [u32; DropReason::ALL.len()],
    /// Packets that came into being: copies that were sent, parts, acknowledgements, resets.
    pub made: u32,
}

impl Out {
    #[inline]
    fn pass(&mut self, port: u16, packet: Packet) {
        self.packets.push((usize::from(port), packet));
    }

    /// Drops a packet, and counts it.
    #[inline]
    pub fn drop(&mut self, drop_reason: DropReason, packet: Packet) {
        self.drops[drop_reason as usize] += 1;
        drop(packet);
    }
}

/// Counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections opened.
    pub opened: u64,
    /// Connections that were picked up without their handshake.
    pub picked_up: u64,
    /// Connections that we reset: a function closed them, or something could not be kept.
    pub closed: u64,
    /// Connections of which packets went on unseen, as too much would have had to be kept.
    pub passed: u64,
    /// Segments that came too early and waited.
    pub reordered: u64,
    /// Segments sent again from copies.
    pub resent: u64,
    /// Packets without payload that we made: acknowledgements, probes of a receiver's state,
    /// resets.
    pub acks: u64,
    /// Segments that grew beyond their receiver's maximum, and were split.
    pub split: u64,
    /// Segments that waited for room at their receiver.
    pub queued: u64,
    /// Connections evicted from memory: reset, or passed without inspection.
    pub pruned: u64,
    /// Times that segments which waited for a hole gave their room to others.
    pub pruned_waiting: u64,
    /// Connections reset because their receiver acknowledged nothing for too long.
    pub stalled: u64,
    /// Connections that another host served, reset here as their state was not known.
    pub unreplicated: u64,
    /// Connections that another host served, with which this one went on.
    pub continued: u64,
}

/// The engine of a thread.
pub struct Tcp {
    settings: Settings,
    conns: Vec<Conn>,
    templates: Vec<[Template; 2]>,
    free: Vec<u32>,
    stores: Stores,
    /// Connections that another host served are being reset, or go on.
    ending: Option<Ending>,
    /// By connection: what another host needs of it, or has sent of it.
    replicas: Vec<Option<Box<Replica>>>,
    /// There is a backup that is sent images.
    is_live: bool,
    /// Connections and directions whose senders are to be sent an acknowledgement.
    owed: Vec<(u32, usize)>,
    restores: Vec<Restore>,
    /// Counters.
    pub counts: Counts,
}

/// Memory that all connections share.
struct Stores {
    reorder: Reorder,
    retransmit: RetransmitQueue,
    slab: SeqMapSlab,
    /// Directions with kept data, by the time of their last check; and some without any more.
    holders: Ages,
    /// Copies of which nothing was sent yet.
    unsent: usize,
    /// Bytes of memory that packets will need which functions are being shown, and since when.
    shown: u64,
    shown_at: i64,
    /// Timers: time, connection, endpoint, serial.
    timers: BinaryHeap<Reverse<(i64, u32, u8, u32)>>,
}

/// A connection with all that is needed to work on it.
struct Work<'a> {
    settings: &'a Settings,
    id: u32,
    conn: &'a mut Conn,
    templates: &'a mut [Template; 2],
    replica: &'a mut Option<Box<Replica>>,
    is_live: bool,
    restores: &'a mut Vec<Restore>,
    stores: &'a mut Stores,
    counts: &'a mut Counts,
    out: &'a mut Out,
    now: i64,
    /// The segment that is worked on acknowledges something new.
    is_news: bool,
    /// Packets made now leave by the ports of the exit, not of the entry.
    at_exit: bool,
}

/// Where a packet is in a connection.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    /// From [`Tcp::open`].
    pub conn: u32,
    /// 0: from the side that opened the session.
    pub direction: usize,
    /// The input that it came by.
    pub port: usize,
    /// Nanoseconds.
    pub now: i64,
}

impl Tcp {
    /// Bytes of a connection's state, apart from kept packets.
    pub const CONNECTION_BYTES: usize = size_of::<Conn>();

    /// Without connections.
    pub fn new(settings: Settings) -> Tcp {
        let bounds = Bounds { waiting_bytes: settings.buffer, total_bytes: settings.total };
        Tcp {
            settings,
            conns: Vec::new(),
            templates: Vec::new(),
            free: Vec::new(),
            stores: Stores {
                reorder: Reorder::new(bounds),
                retransmit: RetransmitQueue::default(),
                slab: SeqMapSlab::new(PIECES_MAX),
                holders: Ages::default(),
                unsent: 0,
                shown: 0,
                shown_at: 0,
                timers: BinaryHeap::new(),
            },
            ending: None,
            replicas: Vec::new(),
            is_live: false,
            owed: Vec::new(),
            restores: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// New settings; existing connections keep theirs.
    pub fn set_settings(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// Connections.
    pub fn len(&self) -> usize {
        self.conns.len() - self.free.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Packets in the engine: those that wait for a hole, or for room at their receiver.
    /// (Unacknowledged data consists of copies.)
    pub fn delayed(&self) -> usize {
        self.stores.reorder.packets() + self.stores.unsent
    }

    /// Packets that are kept: waiting, or to be acknowledged.
    pub fn holding(&self) -> usize {
        self.stores.retransmit.packets() + self.stores.reorder.packets()
    }

    /// Bytes of packet memory that they hold.
    pub fn memory_bytes(&self) -> u64 {
        self.stores.retransmit.cost() + self.stores.reorder.memory_bytes()
    }

    /// A new connection: its number, or `None` when there are as many as may be.
    pub fn open(&mut self) -> Option<u32> {
        let fresh = Conn { is_used: true, mode: self.settings.mode, ..Conn::FREE };
        let id = match self.free.pop() {
            Some(id) => id,
            None if self.conns.len() >= self.settings.connections_max => return None,
            None => {
                self.conns.push(Conn::FREE);
                self.replicas.push(None);
                self.templates.push([Template::default(); 2]);
                self.conns.len() as u32 - 1
            }
        };
        let conn = &mut self.conns[id as usize];
        *conn = Conn { serial: conn.serial.wrapping_add(1), ..fresh };
        self.templates[id as usize] = [Template::default(); 2];
        self.replicas[id as usize] = None;
        self.counts.opened += 1;
        Some(id)
    }

    /// The connection's session has ended: all that is kept of it is freed, and counted.
    pub fn close(&mut self, id: u32, out: &mut Out) {
        let Some(conn) = self.conns.get_mut(id as usize).filter(|conn| conn.is_used) else {
            return;
        };
        conn.is_used = false;
        self.replicas[id as usize] = None;
        for endpoint in &mut conn.endpoints {
            self.stores.clear(endpoint, out);
        }
        self.unlist(id);
        self.free.push(id);
    }

    /// Whether both ends have finished a connection, or one has reset it.
    pub fn is_over(&self, id: u32) -> bool {
        let conn = self.conns.get(id as usize);
        conn.is_none_or(|conn| match conn.phase {
            Phase::Reset | Phase::Dead => true,
            Phase::Alive => conn.is_over(),
            // Its packets are not inspected, or are the other host's.
            Phase::Passed | Phase::Standby => false,
        })
    }

    fn work<'a>(&'a mut self, id: u32, now: i64, out: &'a mut Out) -> Option<Work<'a>> {
        let conn = self.conns.get_mut(id as usize).filter(|conn| conn.is_used)?;
        Some(Work {
            settings: &self.settings,
            id,
            conn,
            templates: &mut self.templates[id as usize],
            replica: &mut self.replicas[id as usize],
            is_live: self.is_live,
            restores: &mut self.restores,
            stores: &mut self.stores,
            counts: &mut self.counts,
            out,
            now,
            is_news: false,
            at_exit: false,
        })
    }

    /// Processes an arriving packet; appends packets for the functions, or past them, to `out`.
    pub fn arrive(&mut self, at: Arrival, packet: Packet, out: &mut Out) {
        self.make_room((at.conn, at.direction & 1), at.now, &packet, out);
        match self.work(at.conn, at.now, out) {
            Some(mut work) => work.arrive(at.direction & 1, at.port as u16, packet),
            None => out.drop(DropReason::Foreign, packet),
        }
        self.stores.count_spent(DropReason::Repeated, out);
    }

    /// When [`Tcp::tick`] has something to do.
    pub fn due(&self) -> Option<i64> {
        let again = self.stores.timers.peek().map(|Reverse((at, ..))| *at);
        let stalled = self.stalled_at();
        let ending = self.ending.as_ref().map(|ending| ending.at);
        let owed = (!self.owed.is_empty()).then_some(0);
        again.into_iter().chain(stalled).chain(ending).chain(owed).min()
    }

    /// Retransmits data that only we can retransmit, and gives up after too many attempts.
    pub fn tick(&mut self, now: i64, out: &mut Out) {
        while let Some(Reverse((at, id, endpoint, serial))) = self.stores.timers.peek().copied()
            && at <= now
        {
            self.stores.timers.pop();
            if let Some(mut work) = self.work(id, now, out)
                && work.conn.serial == serial
            {
                work.remind(usize::from(endpoint & 1));
            }
        }
        self.give_up_stalled(now, out);
        self.end_standing(now, out);
        self.acknowledge_owed(now, out);
    }
}

//! Short cuts of sessions in the kernel: packets that arrive at a packet socket's interface and
//! only need other addresses are sent on there, by reference.
//!
//! A filter of the socket (`filter`) finds the session in a hash map, decides, and refuses the
//! packet; a program behind packet sockets (`redirect`) forwards it. The owner of sessions writes
//! the entries, and reads what they counted, in memory shared with both. An entry holds for a
//! short time only, so that a process that hangs forwards nothing for long; all of it goes with the
//! process's descriptors. See ADR 62.

mod filter;
mod layout;
mod maps;
mod memory;
mod redirect;

use crate::bpf::{self, Hook};
use crate::classes::Class;
use crate::error::PortError;
use crate::interface::Interface;
use layout::{
    ACK, ACTIVE, ADDRESSES_OUT, BYTES, CHECKSUM_AT, CHECKSUM_FLAGS, DEADLINE, END, FLOW_IN,
    GENERATION, HOPS, IN_ORDER_UNTIL, INTERFACE, IP_CHANGE, MACS_IN, MACS_OUT, MTU, PACKETS,
    PORT_CHANGE, PORTS_OUT, PSEUDO_CHANGE, ROOM, SHIFT, SLOT_LEN, SLOTS, TRANSLATES, half,
};
use maps::Maps;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Weak};
use thruway_sync::atomic::{AtomicU32, Ordering};

/// Time before a slot is reused: a packet already decided may still be in flight.
const REST_NS: u64 = 100_000_000;
/// How long TCP waits for a moment when none of its segments is in software, so that nothing is
/// overtaken.
const IN_ORDER_NS: u64 = 50_000_000;
/// `BPF_F_MARK_MANGLED_0`: no checksum of UDP stays none.
const NO_CHECKSUM_STAYS: u32 = 0x20;

/// The table of a process's short cuts.
pub struct ShortCuts {
    maps: Maps,
    /// Slots that are free, and since when.
    free: Mutex<VecDeque<(u32, u64)>>,
    /// By slot: how many use it.
    users: Vec<AtomicU32>,
    ports: AtomicU32,
    /// Numbers of the interfaces that have a port: two would decide for each other.
    interfaces: Mutex<Vec<u32>>,
}

/// One direction of a session as it comes: the last parts are the packet's own bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Flow {
    /// The port: `Port::number`.
    pub port: u32,
    /// 6 or 17.
    pub protocol: u32,
    /// Source and destination.
    pub addresses: [[u8; 4]; 2],
    /// Source and destination.
    pub ports: [[u8; 2]; 2],
}

/// What is known of one side of a TCP connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Numbers {
    /// The number behind the last one that it has sent.
    pub end: u32,
    /// Its latest acknowledgement.
    pub ack: u32,
    /// Most bytes that it has had room for.
    pub room: u32,
    /// By how much the windows of its segments are shifted.
    pub shift: u32,
}

/// What becomes of the packets of a direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rewriting {
    /// Destination and source of the frame as it comes.
    pub macs_in: [[u8; 6]; 2],
    /// The same as it leaves.
    pub macs_out: [[u8; 6]; 2],
    /// Addresses and ports as they leave.
    pub addresses: [[u8; 4]; 2],
    /// Source and destination.
    pub ports: [[u8; 2]; 2],
    /// By how much the time to live is less: 0 or 1.
    pub hops: u8,
    /// The kernel's number of the interface that it leaves by.
    pub interface: u32,
    /// The longest packet, in bytes without the link's header.
    pub mtu: u32,
}

static TABLE: Mutex<Weak<ShortCuts>> = Mutex::new(Weak::new());

/// The kernel's monotonic clock, which its programs see, in nanoseconds.
pub fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

impl ShortCuts {
    /// The table of this process.
    ///
    /// # Errors
    /// The kernel refuses the maps: it is too old, or the process lacks CAP_BPF.
    pub fn of_process() -> io::Result<Arc<ShortCuts>> {
        let mut table = TABLE.lock();
        if let Some(known) = table.upgrade() {
            return Ok(known);
        }
        let maps = Maps::new()?;
        let free = (0..SLOTS).map(|slot| (slot, 0)).collect();
        let users = (0..SLOTS).map(|_| AtomicU32::new(0)).collect();
        let (free, ports) = (Mutex::new(free), AtomicU32::new(1));
        let made = Arc::new(ShortCuts { maps, free, users, ports, interfaces: Mutex::default() });
        *table = Arc::downgrade(&made);
        Ok(made)
    }

    /// Has no session take its short cut any more, at once.
    pub fn forget_all(&self) {
        // Release: what changes afterwards changes after it.
        self.maps.generation.word64(0).fetch_add(1, Ordering::SeqCst);
    }

    /// A number that changes with [`ShortCuts::forget_all`].
    pub fn generation(&self) -> u64 {
        self.maps.generation.word64(0).load(Ordering::SeqCst)
    }

    fn word(&self, slot: u32, at: i16) -> &AtomicU32 {
        self.maps.slots.word32(slot as usize * SLOT_LEN as usize + at as usize)
    }

    fn long(&self, slot: u32, at: i16) -> &thruway_sync::atomic::AtomicU64 {
        self.maps.slots.word64(slot as usize * SLOT_LEN as usize + at as usize)
    }

    /// A slot for a session of this protocol, if there is one.
    pub fn take(&self, protocol: u8) -> Option<u32> {
        let mut free = self.free.lock();
        let (slot, since) = *free.front()?;
        if now_ns().saturating_sub(since) < REST_NS {
            return None;
        }
        free.pop_front();
        drop(free);
        self.stop(slot);
        let (at, flags) = if protocol == 6 { (34 + 16, 0) } else { (34 + 6, NO_CHECKSUM_STAYS) };
        self.word(slot, CHECKSUM_AT).store(at, Ordering::Relaxed);
        self.word(slot, CHECKSUM_FLAGS).store(flags, Ordering::Relaxed);
        self.long(slot, GENERATION).store(self.generation(), Ordering::Relaxed);
        Some(slot)
    }

    /// One more uses the slot.
    pub fn hold(&self, slot: u32) {
        self.users[slot as usize].fetch_add(1, Ordering::SeqCst);
    }

    /// One less does; with the last one it is free.
    pub fn release(&self, slot: u32) {
        if self.users[slot as usize].fetch_sub(1, Ordering::SeqCst) == 1 {
            self.stop(slot);
            self.free.lock().push_back((slot, now_ns()));
        }
    }

    /// The session does not take its short cut any more.
    pub fn stop(&self, slot: u32) {
        for direction in [0, 1] {
            self.stop_half(slot, direction);
        }
    }

    /// A direction does not take it any more.
    pub fn stop_half(&self, slot: u32, direction: usize) {
        let own = half(direction);
        self.long(slot, own + DEADLINE).store(0, Ordering::SeqCst);
        self.word(slot, own + ACTIVE).store(0, Ordering::SeqCst);
    }

    /// Has a direction take its short cut for `lease_ns`. TCP does when the other direction does,
    /// too.
    ///
    /// # Errors
    /// The map of flows is full.
    pub fn install(
        &self,
        (slot, direction): (u32, usize),
        flow: &Flow,
        rewriting: &Rewriting,
        (numbers, lease_ns): (Numbers, u64),
    ) -> io::Result<()> {
        let own = half(direction);
        let (now, change) = (now_ns(), Change::of(flow, rewriting));
        let put = |at: i16, bytes: &[u8]| {
            for (nth, four) in bytes.chunks_exact(4).enumerate() {
                let word = u32::from_ne_bytes([four[0], four[1], four[2], four[3]]);
                self.word(slot, own + at + nth as i16 * 4).store(word, Ordering::Relaxed);
            }
        };
        put(MACS_IN, rewriting.macs_in.as_flattened());
        put(MACS_OUT, rewriting.macs_out.as_flattened());
        put(ADDRESSES_OUT, rewriting.addresses.as_flattened());
        put(PORTS_OUT, rewriting.ports.as_flattened());
        put(FLOW_IN, flow.addresses.as_flattened());
        put(FLOW_IN + 8, flow.ports.as_flattened());
        let translates = flow.addresses != rewriting.addresses || flow.ports != rewriting.ports;
        let words = [
            (END, numbers.end),
            (ACK, numbers.ack),
            (ROOM, numbers.room),
            (SHIFT, numbers.shift),
            (INTERFACE, rewriting.interface),
            (MTU, rewriting.mtu),
            (HOPS, rewriting.hops.into()),
            (IP_CHANGE, change.ip),
            (PORT_CHANGE, change.ports),
            (PSEUDO_CHANGE, change.pseudo),
            (TRANSLATES, translates.into()),
        ];
        for (at, value) in words {
            self.word(slot, own + at).store(value, Ordering::Relaxed);
        }
        self.long(slot, own + PACKETS).store(0, Ordering::Relaxed);
        self.long(slot, own + BYTES).store(0, Ordering::Relaxed);
        self.long(slot, own + IN_ORDER_UNTIL).store(now + IN_ORDER_NS, Ordering::Relaxed);
        self.long(slot, own + DEADLINE).store(now + lease_ns, Ordering::Relaxed);
        // Release: the kernel that sees it sees all before (and the map's own lock, besides).
        self.word(slot, own + ACTIVE).store(1, Ordering::Release);
        let place = slot * 2 + direction as u32;
        bpf::put(self.maps.flows.as_fd(), flow, &place).inspect_err(|_| {
            self.stop_half(slot, direction);
        })
    }

    /// Nothing is to be found under a direction's flow any more.
    pub fn remove(&self, flow: &Flow) {
        // What is not there need not be removed.
        let _ = bpf::take_out(self.maps.flows.as_fd(), flow);
    }

    /// Lets a direction go on for `lease_ns`, if it has not been stopped.
    pub fn renew(&self, (slot, direction): (u32, usize), lease_ns: u64) {
        let deadline = self.long(slot, half(direction) + DEADLINE);
        let until = now_ns() + lease_ns;
        let step = |before| (before != 0).then_some(until);
        let _ = deadline.fetch_update(Ordering::SeqCst, Ordering::SeqCst, step);
    }

    /// Packets, as they are on a wire, and bytes that took the short cut since it was installed.
    pub fn counts(&self, (slot, direction): (u32, usize)) -> [u64; 2] {
        let own = half(direction);
        [PACKETS, BYTES].map(|at| self.long(slot, own + at).load(Ordering::Acquire))
    }

    /// The numbers of a side by now.
    pub fn numbers(&self, (slot, direction): (u32, usize)) -> Numbers {
        let own = half(direction);
        let [end, ack, room, shift] =
            [END, ACK, ROOM, SHIFT].map(|at| self.word(slot, own + at).load(Ordering::Acquire));
        Numbers { end, ack, room, shift }
    }

    /// Informs the kernel of numbers that the software has seen, where they are later.
    pub fn advance(&self, (slot, direction): (u32, usize), seen: Numbers) {
        let own = half(direction);
        let later = |a: u32, b: u32| a.wrapping_sub(b) as i32 > 0;
        for (at, number) in [(END, seen.end), (ACK, seen.ack)] {
            let step = |before| later(number, before).then_some(number);
            let word = self.word(slot, own + at);
            let _ = word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, step);
        }
        self.word(slot, own + ROOM).fetch_max(seen.room, Ordering::SeqCst);
    }
}

/// What changes in the sums that headers have, as the kernel's functions take it.
struct Change {
    ip: u32,
    pseudo: u32,
    ports: u32,
}

impl Change {
    fn of(flow: &Flow, rewriting: &Rewriting) -> Change {
        let words = |bytes: &[u8]| -> u32 {
            bytes.chunks_exact(2).map(|two| u32::from(u16::from_ne_bytes([two[0], two[1]]))).sum()
        };
        let inverse = |bytes: &[u8]| -> u32 {
            bytes.chunks_exact(2).map(|two| u32::from(!u16::from_ne_bytes([two[0], two[1]]))).sum()
        };
        let pseudo =
            inverse(flow.addresses.as_flattened()) + words(rewriting.addresses.as_flattened());
        let ports = inverse(flow.ports.as_flattened()) + words(rewriting.ports.as_flattened());
        // The first byte of a word is less by one: that word's inverse and the new one.
        let less = u32::from(u16::from_ne_bytes([1, 0]));
        let hops = if rewriting.hops == 0 { 0 } else { 0xFFFF - less };
        Change { ip: pseudo + hops, pseudo, ports }
    }
}

/// What an interface needs so that sessions can take short cuts from it.
pub(crate) struct Port {
    table: Arc<ShortCuts>,
    number: u32,
    filters: [OwnedFd; 2],
    interface: u32,
    /// Keeps the program that redirects attached.
    _link: OwnedFd,
}

impl Drop for Port {
    fn drop(&mut self) {
        let mut interfaces = self.table.interfaces.lock();
        if let Some(at) = interfaces.iter().position(|own| *own == self.interface) {
            interfaces.swap_remove(at);
        }
    }
}

impl Port {
    /// Attaches what is needed to an interface; its sockets' filters are still to be set.
    pub(crate) fn open(interface: &Interface) -> Result<Port, PortError> {
        let name = &interface.name;
        let error = |step| move |error| PortError::xdp(name, step, error);
        let table = ShortCuts::of_process().map_err(error("making maps of sessions"))?;
        // Relaxed: a number by itself.
        let number = table.ports.fetch_add(1, Ordering::Relaxed);
        let filters = Class::ALL
            .map(|class| bpf::load(Hook::Socket, &filter::program(&table.maps, number, class)));
        let [preferred, other] = filters;
        let load = error("loading a filter of sessions (Linux 5.18)");
        let filters = [preferred.map_err(load)?, other.map_err(load)?];
        let link = bpf::load(Hook::Ingress, &redirect::program(&table.maps))
            .and_then(|program| {
                bpf::link(Hook::Ingress, program.as_fd(), interface.index, bpf::BEFORE)
            })
            .map_err(error("attaching a program behind packet sockets (Linux 6.6)"))?;
        let mut interfaces = table.interfaces.lock();
        if interfaces.contains(&interface.index) {
            return Err(PortError::unfit(name, "another FromDevice reads it"));
        }
        interfaces.push(interface.index);
        drop(interfaces);
        Ok(Port { table, number, filters, interface: interface.index, _link: link })
    }

    /// Has a socket take frames of a class that take no short cut.
    pub(crate) fn accept(
        &self,
        socket: &impl AsFd,
        name: &str,
        class: Class,
    ) -> Result<(), PortError> {
        bpf::filter(socket, self.filters[class as usize].as_fd())
            .map_err(|e| PortError::system(name, "setsockopt(SO_ATTACH_BPF)", e))
    }

    /// The table, and the port's number in it.
    pub(crate) fn table(&self) -> (&Arc<ShortCuts>, u32) {
        (&self.table, self.number)
    }
}

#[cfg(test)]
mod tests;

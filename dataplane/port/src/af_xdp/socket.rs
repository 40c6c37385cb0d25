//! A socket of one queue: its rings, its memory, bound.

use super::XdpOptions;
use super::ring::{Area, Consumer, Descriptor, Producer, offset_of};
use crate::classes::{Class, SHARE};
use crate::error::PortError;
use crate::system;
use rustix::net::sockopt::{
    set_xdp_rx_ring_size, set_xdp_tx_ring_size, set_xdp_umem_completion_ring_size,
    set_xdp_umem_fill_ring_size, set_xdp_umem_reg, xdp_mmap_offsets,
};
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, SocketAddrXdpWithSharedUmem, XDP_PGOFF_RX_RING,
    XDP_PGOFF_TX_RING, XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING, XdpUmemReg,
    XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};
use thruway_packet::{Batch, Lending, Memory, SMALL_FRAME};

/// Least chunk that the kernel takes (`XDP_UMEM_MIN_CHUNK_SIZE`), bytes.
const CHUNK: usize = 2048;
/// A chunk begins so many bytes before the frame that it ends with. The kernel leaves them alone:
/// they are reported as head room.
pub(super) const CHUNK_LEAD: usize = CHUNK - SMALL_FRAME;
/// Room before a received frame that the kernel keeps for programs (`XDP_PACKET_HEADROOM`), bytes.
const XDP_HEADROOM: usize = 256;
/// The longest frame that fits, bytes.
pub(super) const FRAME_MAX: usize = SMALL_FRAME - XDP_HEADROOM;
/// How long a queue may stay bound by a previous owner: the kernel lets go of it some time after
/// the owner's end.
const BUSY_MAX: Duration = Duration::from_secs(2);
const BUSY_PAUSE: Duration = Duration::from_millis(10);

/// The rings of one queue.
pub(super) struct Rings {
    pub(super) received: Consumer<Descriptor>,
    pub(super) fill: Producer<u64>,
    pub(super) transmit: Producer<Descriptor>,
    pub(super) done: Consumer<u64>,
}

/// Where to bind a socket.
#[derive(Clone, Copy)]
pub(super) struct Binding<'a> {
    pub(super) name: &'a str,
    pub(super) interface: u32,
    pub(super) queue: u32,
    /// The socket that registered the memory, if it was not to be this one.
    pub(super) shared: Option<&'a OwnedFd>,
    /// Ask the driver for zero copy, and fail if it has none.
    pub(super) zero_copy: bool,
}

/// Opens and binds a socket; a queue that is still bound is tried again for some time.
pub(super) fn open(
    binding: Binding<'_>,
    options: &XdpOptions,
) -> Result<(OwnedFd, Rings), PortError> {
    let begin = Instant::now();
    loop {
        let (socket, rings) = prepare(binding, options)?;
        let error = match bind_to(&socket, binding) {
            Ok(()) => return Ok((socket, rings)),
            Err(error) => error,
        };
        if error.raw_os_error() != Some(libc::EBUSY) {
            return Err(PortError::xdp(binding.name, "bind of an AF_XDP socket", error));
        }
        if begin.elapsed() > BUSY_MAX {
            let what = format!(
                "queue {} is bound by another AF_XDP socket; stop the program that has it",
                binding.queue
            );
            return Err(PortError::unfit(binding.name, what));
        }
        std::thread::sleep(BUSY_PAUSE);
    }
}

fn bind_to(socket: &OwnedFd, binding: Binding<'_>) -> io::Result<()> {
    if let Some(shared_umem) = binding.shared {
        let flags = SocketAddrXdpFlags::XDP_SHARED_UMEM;
        let addr = SocketAddrXdp::new(flags, binding.interface, binding.queue);
        let shared_umem_fd = shared_umem.as_fd();
        return Ok(bind(socket, &SocketAddrXdpWithSharedUmem { addr, shared_umem_fd })?);
    }
    let copy = match binding.zero_copy {
        true => SocketAddrXdpFlags::XDP_ZEROCOPY,
        false => SocketAddrXdpFlags::XDP_COPY,
    };
    let flags = copy | SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
    Ok(bind(socket, &SocketAddrXdp::new(flags, binding.interface, binding.queue))?)
}

/// Opens a socket beside the first one of its queue (`binding.shared`); it receives frames in
/// a ring of its own.
pub(super) fn open_beside(
    binding: Binding<'_>,
    slots: u32,
    options: &XdpOptions,
) -> Result<(OwnedFd, Consumer<Descriptor>), PortError> {
    let name = binding.name;
    let socket = new(name)?;
    set_xdp_rx_ring_size(&socket, slots).map_err(failed(name, "XDP_RX_RING"))?;
    let at = xdp_mmap_offsets(&socket).map_err(failed(name, "XDP_MMAP_OFFSETS"))?;
    let lens = (slots, size_of::<Descriptor>());
    let area = Area::map(name, &socket, (XDP_PGOFF_RX_RING, at.rx), lens)?;
    if options.busy_poll_us > 0 {
        busy_poll(name, &socket, options.busy_poll_us)?;
    }
    bind_to(&socket, binding)
        .map_err(|error| PortError::xdp(name, "bind of a second AF_XDP socket", error))?;
    Ok((socket, Consumer::new(area)))
}

fn new(name: &str) -> Result<OwnedFd, PortError> {
    socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None)
        .map_err(failed(name, "socket(AF_XDP)"))
}

fn failed(name: &str, step: &'static str) -> impl Fn(rustix::io::Errno) -> PortError {
    move |error| PortError::xdp(name, step, io::Error::from(error))
}

/// Slots of the rings of a queue's first socket; its fill ring has twice as many.
fn slots(options: &XdpOptions) -> u32 {
    options.ring_slots.clamp(64, 1 << 16).next_power_of_two()
}

/// Slots of the ring of others of a queue to which `frames` are lent: a third of these are left for
/// the preferred ring.
pub(super) fn slots_of_others(options: &XdpOptions, frames: usize) -> u32 {
    let most = (frames * 2 / 3).clamp(1, 1 << 16) as u32;
    slots(options).min(1 << most.ilog2())
}

/// A socket with its rings, not bound.
fn prepare(binding: Binding<'_>, options: &XdpOptions) -> Result<(OwnedFd, Rings), PortError> {
    let name = binding.name;
    let failed = |step| failed(name, step);
    let socket = new(name)?;
    if binding.shared.is_none() {
        register_memory(name, &socket)?;
    }
    let slots = slots(options);
    set_xdp_umem_fill_ring_size(&socket, 2 * slots).map_err(failed("XDP_UMEM_FILL_RING"))?;
    set_xdp_umem_completion_ring_size(&socket, slots)
        .map_err(failed("XDP_UMEM_COMPLETION_RING"))?;
    set_xdp_rx_ring_size(&socket, slots).map_err(failed("XDP_RX_RING"))?;
    set_xdp_tx_ring_size(&socket, slots).map_err(failed("XDP_TX_RING"))?;
    let at = xdp_mmap_offsets(&socket).map_err(failed("XDP_MMAP_OFFSETS"))?;
    let (address, descriptor) = (size_of::<u64>(), size_of::<Descriptor>());
    let map = |page, offsets, slot| Area::map(name, &socket, (page, offsets), (slots, slot));
    let fill = (XDP_UMEM_PGOFF_FILL_RING, at.fr);
    let rings = Rings {
        received: Consumer::new(map(XDP_PGOFF_RX_RING, at.rx, descriptor)?),
        fill: Producer::new(Area::map(name, &socket, fill, (2 * slots, address))?),
        transmit: Producer::new(map(XDP_PGOFF_TX_RING, at.tx, descriptor)?),
        done: Consumer::new(map(XDP_UMEM_PGOFF_COMPLETION_RING, at.cr, address)?),
    };
    send_at_once(&socket, slots);
    if options.busy_poll_us > 0 {
        busy_poll(name, &socket, options.busy_poll_us)?;
    }
    Ok((socket, rings))
}

/// Registers the pool of small frames as the socket's memory. The kernel pins its pages.
fn register_memory(name: &str, socket: &OwnedFd) -> Result<(), PortError> {
    let (start, len) = Memory::get().small().memory();
    let memory = XdpUmemReg {
        addr: start.as_ptr().expose_provenance() as u64,
        len: len as u64,
        chunk_size: CHUNK as u32,
        headroom: CHUNK_LEAD as u32,
        flags: XdpUmemRegFlags::XDP_UMEM_UNALIGNED_CHUNK_FLAG,
        tx_metadata_len: 0,
    };
    set_xdp_umem_reg(socket, memory).map_err(|error| match error {
        rustix::io::Errno::NOBUFS | rustix::io::Errno::NOMEM => PortError::unfit(
            name,
            format!(
                "{} MB of packet memory cannot be locked for AF_XDP; run as root, raise the limit \
                 (ulimit -l), or: setcap cap_ipc_lock+ep PROGRAM",
                len >> 20
            ),
        ),
        error => PortError::xdp(name, "XDP_UMEM_REG", error.into()),
    })
}

/// Lets one system call send a whole ring, where the kernel copies (Linux 6.17; before, and without
/// this, some 32 frames).
fn send_at_once(socket: &OwnedFd, slots: u32) {
    /// `XDP_MAX_TX_SKB_BUDGET` of <linux/if_xdp.h>.
    const MAX_TX_SKB_BUDGET: i32 = 9;
    // An older kernel does not know it, and is called more often.
    let _ = system::set_option(socket, libc::SOL_XDP, MAX_TX_SKB_BUDGET, &slots);
}

/// Lets our system calls do the driver's work, as long as we come back in time.
fn busy_poll(name: &str, socket: &OwnedFd, microseconds: u32) -> Result<(), PortError> {
    // <asm-generic/socket.h>
    const SO_PREFER_BUSY_POLL: i32 = 69;
    const SO_BUSY_POLL_BUDGET: i32 = 70;
    /// Frames that a driver gives at once, at most: a whole batch, for one system call.
    const BUDGET: u32 = 256;
    let options = [
        (SO_PREFER_BUSY_POLL, 1),
        (libc::SO_BUSY_POLL, microseconds),
        (SO_BUSY_POLL_BUDGET, BUDGET),
    ];
    for (option, value) in options {
        system::set_option(socket, libc::SOL_SOCKET, option, &value)
            .map_err(|e| PortError::admin(name, "busy polling (SO_BUSY_POLL)", e))?;
    }
    Ok(())
}

/// The receiving end of a queue.
pub(super) struct RxEnd {
    /// In the order of [`Class::ALL`].
    received: [Consumer<Descriptor>; 2],
    fill: Producer<u64>,
    pub(super) lent: Lending,
    /// Frames to keep in the kernel's hands.
    frames: usize,
    /// Frames that were asked for since the ring of others had its share of them.
    asked: usize,
}

impl RxEnd {
    pub(super) fn new(
        received: [Consumer<Descriptor>; 2],
        fill: Producer<u64>,
        frames: usize,
    ) -> RxEnd {
        let frames = frames.min(fill.slots());
        RxEnd { received, fill, lent: Lending::new(), frames, asked: 0 }
    }

    /// Unmaps the rings; what is left are the frames that the kernel has.
    pub(super) fn into_lent(self) -> Lending {
        self.lent
    }

    /// Moves up to `max` received packets to a batch; says how many slots they were.
    ///
    /// Frames bear no time here. Of those that came since the last call others are first, so that
    /// what asks for a connection is before its segments; half of them at most. In a flood the
    /// preferred ring is first.
    #[inline]
    pub(super) fn take(&mut self, max: usize, batch: &mut Batch) -> usize {
        let order = if self.received[Class::Other as usize].is_half_full() {
            self.asked += max;
            let share = (self.asked / SHARE).min(max);
            self.asked %= SHARE;
            [(Class::Preferred, max - share), (Class::Other, max), (Class::Preferred, max)]
        } else {
            [(Class::Other, max.div_ceil(2)), (Class::Preferred, max), (Class::Other, max)]
        };
        let mut count = 0;
        for (class, most) in order {
            count += self.take_class(class, most.min(max - count), batch);
        }
        count
    }

    #[inline]
    fn take_class(&mut self, class: Class, max: usize, batch: &mut Batch) -> usize {
        let lent = &mut self.lent;
        self.received[class as usize].take(max, |slot| {
            let Some(packet) = lent.take_back(offset_of(slot.offset), slot.len) else { return };
            // Another core wrote it, often.
            packet.prefetch_data();
            batch.push(packet);
        })
    }

    /// Gives the kernel frames for those that were received. Says whether it waits for a call.
    #[inline]
    pub(super) fn refill(&mut self) -> bool {
        let missing = self.frames.saturating_sub(self.lent.len());
        let missing = missing.min(self.fill.room(missing));
        if missing > 0 {
            let fill = &mut self.fill;
            self.lent.lend_free(missing, |start| fill.put(start - CHUNK_LEAD as u64));
            self.fill.publish();
        }
        self.fill.needs_wakeup()
    }
}

/// The sending end of a queue.
pub(super) struct TxEnd {
    pub(super) transmit: Producer<Descriptor>,
    pub(super) done: Consumer<u64>,
    pub(super) lent: Lending,
}

impl TxEnd {
    /// Unmaps the rings; what is left are the frames that the kernel has.
    pub(super) fn into_lent(self) -> Lending {
        self.lent
    }
}

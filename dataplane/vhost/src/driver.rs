//! The other side, for tests: a guest's driver that writes what it is asked to, lies included, and
//! a front-end that hands its memory over.

use std::io::{self, IoSlice, Read as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use thruway_region::{Pages, Region, RegionError};
use thruway_sync::atomic::Ordering;

use crate::memory::MemoryPart;
use crate::message::{Features, HEAD_LEN, Head};
use crate::ring::RingSpec;
use crate::session::RINGS;

/// Bytes of a guest's memory.
pub const MEMORY_LEN: usize = 4 << 20;
/// Bytes of each of its buffers.
pub const BUFFER_LEN: u32 = 2048;
/// The descriptor has a next one.
pub const NEXT: u16 = 1;
/// The device writes the buffer.
pub const WRITE: u16 = 2;
/// The buffer is a table of descriptors.
pub const INDIRECT: u16 = 4;

/// Where the memory begins, in the guest and in the front-end.
const GUEST: u64 = 0x10_0000;
const USER: u64 = 0x7f00_0000_0000;
/// Where in the memory each ring is, and in it its parts.
const RING_LEN: usize = 0x1_0000;
const AVAIL: usize = 0x8000;
const USED: usize = 0xA000;
/// Where the buffers are.
const BUFFERS: usize = RINGS * RING_LEN;

/// A descriptor, as a driver writes it.
#[derive(Debug, Clone, Copy)]
pub struct RawDescriptor {
    /// The buffer's address in the guest.
    pub guest: u64,
    /// Its length.
    pub len: u32,
    /// [`NEXT`], [`WRITE`], [`INDIRECT`].
    pub flags: u16,
    /// Number of the next one.
    pub next: u16,
}

impl RawDescriptor {
    fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.guest.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.len.to_le_bytes());
        bytes[12..14].copy_from_slice(&self.flags.to_le_bytes());
        bytes[14..].copy_from_slice(&self.next.to_le_bytes());
        bytes
    }
}

/// A guest's memory with its rings. What does not lie in the memory is not written.
#[derive(Debug)]
pub struct Driver {
    region: Region,
    size: u16,
    used: [u16; RINGS],
}

impl Driver {
    /// A guest with rings of so many entries, all empty.
    ///
    /// # Errors
    /// No memory is left.
    pub fn new(size: u16) -> Result<Driver, RegionError> {
        let region = Region::new(MEMORY_LEN, Pages::Normal)?;
        Ok(Driver { region, size, used: [0; RINGS] })
    }

    /// Its memory, to be handed over.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.region.fd()
    }

    /// Where the memory is.
    pub fn part(&self) -> MemoryPart {
        MemoryPart { guest: GUEST, len: MEMORY_LEN as u64, user: USER, offset: 0 }
    }

    /// Where a ring is.
    pub fn spec(&self, ring: usize) -> RingSpec {
        let at = USER + (ring * RING_LEN) as u64;
        RingSpec {
            size: u32::from(self.size),
            table: at,
            avail: at + AVAIL as u64,
            used: at + USED as u64,
            next: 0,
        }
    }

    /// The address of a buffer of [`BUFFER_LEN`] bytes.
    pub fn buffer(&self, number: usize) -> u64 {
        GUEST + (BUFFERS + number * BUFFER_LEN as usize) as u64
    }

    /// Writes bytes at an address of the guest.
    pub fn put(&self, guest: u64, bytes: &[u8]) {
        // A test that names no address of the guest's wants nothing written.
        let _ = self.region.copy_in(guest.wrapping_sub(GUEST) as usize, bytes);
    }

    /// Reads bytes at an address of the guest; zeros outside of it.
    pub fn get(&self, guest: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        let _ = self.region.copy_out(guest.wrapping_sub(GUEST) as usize, &mut bytes);
        bytes
    }

    /// Writes a descriptor of a ring's table.
    pub fn describe(&self, ring: usize, index: u16, one: RawDescriptor) {
        let at = ring * RING_LEN + 16 * usize::from(index);
        let _ = self.region.copy_in(at, &one.to_bytes());
    }

    /// Writes a table of descriptors to an address of the guest.
    pub fn table(&self, guest: u64, all: &[RawDescriptor]) {
        let bytes: Vec<u8> = all.iter().flat_map(|one| one.to_bytes()).collect();
        self.put(guest, &bytes);
    }

    /// Makes a chain available.
    pub fn offer(&self, ring: usize, head: u16) {
        let index = self.avail_index(ring);
        let entry = usize::from(index % self.size.max(1));
        let _ = self.region.copy_in(ring * RING_LEN + AVAIL + 4 + 2 * entry, &head.to_le_bytes());
        self.set_avail_index(ring, index.wrapping_add(1));
    }

    /// The index of available chains.
    pub fn avail_index(&self, ring: usize) -> u16 {
        let half = self.region.half(ring * RING_LEN + AVAIL + 2);
        half.map_or(0, |half| u16::from_le(half.load(Ordering::Relaxed)))
    }

    /// Sets the index of available chains.
    pub fn set_avail_index(&self, ring: usize, index: u16) {
        if let Ok(half) = self.region.half(ring * RING_LEN + AVAIL + 2) {
            half.store(index.to_le(), Ordering::Release);
        }
    }

    /// The next chain that came back: its head, and the bytes that were written.
    pub fn take_used(&mut self, ring: usize) -> Option<(u32, u32)> {
        let half = self.region.half(ring * RING_LEN + USED + 2).ok()?;
        if u16::from_le(half.load(Ordering::Acquire)) == self.used[ring] {
            return None;
        }
        let entry = usize::from(self.used[ring] % self.size.max(1));
        self.used[ring] = self.used[ring].wrapping_add(1);
        let mut bytes = [0; 8];
        self.region.copy_out(ring * RING_LEN + USED + 4 + 8 * entry, &mut bytes).ok()?;
        let [a, b, c, d, e, f, g, h] = bytes;
        Some((u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])))
    }

    /// Sends a packet in one buffer, with an empty header.
    pub fn send(&self, index: u16, packet: &[u8]) {
        let guest = self.buffer(usize::from(index));
        self.put(guest, &[&[0; 12][..], packet].concat());
        let len = 12 + packet.len() as u32;
        self.describe(1, index, RawDescriptor { guest, len, flags: 0, next: 0 });
        self.offer(1, index);
    }

    /// Offers a buffer to receive into.
    pub fn offer_buffer(&self, index: u16) {
        let guest = self.buffer(usize::from(self.size) + usize::from(index));
        let one = RawDescriptor { guest, len: BUFFER_LEN, flags: WRITE, next: 0 };
        self.describe(0, index, one);
        self.offer(0, index);
    }

    /// The next packet that came into a single buffer of [`offer_buffer`](Self::offer_buffer), and
    /// the buffer's number.
    pub fn receive(&mut self) -> Option<(u16, Vec<u8>)> {
        let (head, len) = self.take_used(0)?;
        let guest = self.buffer(usize::from(self.size) + head as usize);
        Some((head as u16, self.get(guest, len as usize).split_off(12)))
    }
}

/// A front-end that is connected.
#[derive(Debug)]
pub struct FrontEnd {
    socket: UnixStream,
    kicks: [OwnedFd; RINGS],
    calls: [OwnedFd; RINGS],
}

impl FrontEnd {
    /// Connects to a port.
    ///
    /// # Errors
    /// Of the socket.
    pub fn connect(path: &Path) -> io::Result<FrontEnd> {
        let socket = UnixStream::connect(path)?;
        FrontEnd::over(socket)
    }

    /// A front-end at one end of a socket.
    ///
    /// # Errors
    /// Of the socket.
    pub fn over(socket: UnixStream) -> io::Result<FrontEnd> {
        socket.set_read_timeout(Some(Duration::from_secs(10)))?;
        let event = || eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC);
        Ok(FrontEnd { socket, kicks: [event()?, event()?], calls: [event()?, event()?] })
    }

    /// Sends a message.
    ///
    /// # Errors
    /// Of the socket.
    pub fn send(&self, request: u32, body: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let words = [request, 1, body.len() as u32];
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend_from_slice(body);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(fds));
        }
        let parts = [IoSlice::new(&bytes)];
        sendmsg(&self.socket, &parts, &mut ancillary, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// The answer to a message.
    ///
    /// # Errors
    /// Of the socket, also that it was closed.
    pub fn answer(&mut self) -> io::Result<Vec<u8>> {
        let mut head = [0; HEAD_LEN];
        self.socket.read_exact(&mut head)?;
        let head = Head::parse(&head).map_err(io::Error::other)?;
        let mut body = vec![0; head.len];
        self.socket.read_exact(&mut body)?;
        Ok(body)
    }

    /// Hands the memory and both rings of a driver over, and has them used, all features agreed on.
    ///
    /// # Errors
    /// Of the socket.
    pub fn begin(&mut self, driver: &Driver) -> io::Result<()> {
        self.send(1, &[], &[])?;
        self.answer()?;
        self.send(2, &Features::OFFERED.0.to_le_bytes(), &[])?;
        self.share(&[driver.part()], &[driver.fd()])?;
        for ring in 0..RINGS {
            self.set_ring(ring, &driver.spec(ring))?;
        }
        // All was done by the time that this is answered.
        self.send(1, &[], &[])?;
        self.answer().map(drop)
    }

    /// Hands memory over.
    ///
    /// # Errors
    /// Of the socket.
    pub fn share(&self, parts: &[MemoryPart], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let count = (parts.len() as u64).to_le_bytes();
        let words = parts.iter().flat_map(|part| [part.guest, part.len, part.user, part.offset]);
        let body: Vec<u8> = count.into_iter().chain(words.flat_map(u64::to_le_bytes)).collect();
        self.send(5, &body, fds)
    }

    /// Says where a ring is, and has it used.
    ///
    /// # Errors
    /// Of the socket.
    pub fn set_ring(&self, ring: usize, spec: &RingSpec) -> io::Result<()> {
        let number = ring as u32;
        let two = |value: u32| [number.to_le_bytes(), value.to_le_bytes()].concat();
        self.send(8, &two(spec.size), &[])?;
        self.send(10, &two(u32::from(spec.next)), &[])?;
        let addresses = [u64::from(number), spec.table, spec.used, spec.avail, 0];
        let body: Vec<u8> = addresses.into_iter().flat_map(u64::to_le_bytes).collect();
        self.send(9, &body, &[])?;
        let event = u64::from(number).to_le_bytes();
        self.send(12, &event, &[self.kicks[ring].as_fd()])?;
        self.send(13, &event, &[self.calls[ring].as_fd()])?;
        self.send(18, &two(1), &[])
    }

    /// Stops a ring; where it is.
    ///
    /// # Errors
    /// Of the socket.
    pub fn stop_ring(&mut self, ring: usize) -> io::Result<u16> {
        self.send(11, &[ring as u32, 0].map(u32::to_le_bytes).concat(), &[])?;
        let answer = self.answer()?;
        Ok(answer.get(4..6).map_or(0, |bytes| u16::from_le_bytes([bytes[0], bytes[1]])))
    }

    /// Kicks a ring.
    pub fn kick(&self, ring: usize) {
        // One that was kicked often enough.
        let _ = rustix::io::write(&self.kicks[ring], &1_u64.to_ne_bytes());
    }

    /// Whether the guest was called since this was last asked.
    pub fn was_called(&self, ring: usize) -> bool {
        rustix::io::read(&self.calls[ring], &mut [0; 8]).is_ok()
    }
}

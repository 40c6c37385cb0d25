//! The few commands of bpf(2) that are needed here: maps and their entries, a program, a link, a
//! run.

pub(crate) mod area;
pub(crate) mod assembly;
pub(crate) mod program;
pub(crate) mod test_run;

use crate::error::PortError;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use assembly::Assembly;

// Commands and types of <linux/bpf.h>.
const MAP_CREATE: i32 = 0;
const MAP_LOOKUP: i32 = 1;
const MAP_UPDATE: i32 = 2;
const MAP_DELETE: i32 = 3;
const PROGRAM_LOAD: i32 = 5;
const PROGRAM_RUN: i32 = 10;
const LINK_CREATE: i32 = 28;
const LINK_UPDATE: i32 = 29;
const TYPE_HASH: u32 = 1;
const TYPE_ARRAY: u32 = 2;
const TYPE_PERCPU_ARRAY: u32 = 6;
const TYPE_DEVMAP: u32 = 14;
const TYPE_XSKMAP: u32 = 17;
/// `BPF_F_MMAPABLE`
const SHARED: u32 = 1 << 10;
/// `BPF_F_BEFORE`, of links: in front of all other programs.
pub(crate) const BEFORE: u32 = 1 << 3;
/// `BPF_F_TEST_XDP_LIVE_FRAMES`
const LIVE_FRAMES: u32 = 1 << 1;

/// Where in the kernel a program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hook {
    /// For every frame that an interface receives, before anybody else sees it.
    Xdp,
    /// For every packet that an interface receives, after packet sockets and before the stack
    /// (Linux 6.6).
    Ingress,
    /// For every packet that a socket is about to receive: how many bytes of it are taken.
    Socket,
}

impl Hook {
    /// Type of the programs, and of the link, in <linux/bpf.h>.
    fn numbers(self) -> [u32; 2] {
        match self {
            // `BPF_PROG_TYPE_XDP`, `BPF_XDP`.
            Hook::Xdp => [6, 37],
            // `BPF_PROG_TYPE_SCHED_CLS`, `BPF_TCX_INGRESS`.
            Hook::Ingress => [3, 46],
            // `BPF_PROG_TYPE_SOCKET_FILTER`, attached by a socket's option.
            Hook::Socket => [1, 0],
        }
    }
}

/// `union bpf_attr` as far as the commands here read it; each is followed by zeros.
#[repr(C, align(8))]
struct Attributes([u64; 16]);

impl Attributes {
    /// From 32-bit words in order; a pair of them may be a pointer, see [`pointer()`].
    fn new(words: &[u32]) -> Attributes {
        let mut all = Attributes([0; 16]);
        for (to, pair) in all.0.iter_mut().zip(words.chunks(2)) {
            let [low, high] = [pair[0], *pair.get(1).unwrap_or(&0)].map(u32::to_ne_bytes);
            let mut bytes = [0; 8];
            bytes[..4].copy_from_slice(&low);
            bytes[4..].copy_from_slice(&high);
            *to = u64::from_ne_bytes(bytes);
        }
        all
    }
}

/// The two words of an address, which the kernel reads or writes at.
fn pointer<T>(of: *const T) -> [u32; 2] {
    let bytes = (of.expose_provenance() as u64).to_ne_bytes();
    let word =
        |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    [word(0), word(4)]
}

fn call(command: i32, attributes: &Attributes) -> io::Result<i32> {
    let (pointer, len) = (std::ptr::from_ref(attributes), size_of::<Attributes>());
    // JUSTIFICATION: bpf(2) has no safe interface without a library of its own.
    // SAFETY: the attributes are readable for their length, and the addresses in them are of values
    // that outlive the call and are as long as the kernel takes them for (every caller below).
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, pointer, len) };
    crate::system::check(result as i32)
}

fn descriptor(command: i32, attributes: &Attributes) -> io::Result<OwnedFd> {
    let fd = call(command, attributes)?;
    // JUSTIFICATION: the descriptor must be closed by someone.
    // SAFETY: it is fresh (and closed on exec, as all of bpf's are), and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn number(fd: BorrowedFd<'_>) -> u32 {
    fd.as_raw_fd().cast_unsigned()
}

/// A map from places to AF_XDP sockets.
pub(crate) fn socket_map(places: u32) -> io::Result<OwnedFd> {
    descriptor_map(TYPE_XSKMAP, places)
}

/// A map from 0 to an interface, to send frames there.
pub(crate) fn interface_map(interface: u32) -> io::Result<OwnedFd> {
    let map = descriptor_map(TYPE_DEVMAP, 1)?;
    set(map.as_fd(), 0, &interface)?;
    Ok(map)
}

fn descriptor_map(kind: u32, entries: u32) -> io::Result<OwnedFd> {
    let (key_len, value_len) = (4, 4);
    descriptor(MAP_CREATE, &Attributes::new(&[kind, key_len, value_len, entries]))
}

/// Puts a socket into the map.
pub(crate) fn set_socket(
    map: BorrowedFd<'_>,
    place: u32,
    socket: BorrowedFd<'_>,
) -> io::Result<()> {
    set(map, place, &number(socket))
}

/// Sets a value; it is as long as the map's values.
fn set<T: Copy>(map: BorrowedFd<'_>, key: u32, value: &T) -> io::Result<()> {
    put(map, &key, value)
}

/// A map from 0, 1.. to values of so many 64-bit words, zeros at first.
pub(crate) struct Array<const WORDS: usize>(OwnedFd);

impl<const WORDS: usize> Array<WORDS> {
    /// A new one.
    pub(crate) fn new(entries: u32) -> io::Result<Array<WORDS>> {
        let (key_len, value_len) = (4, WORDS as u32 * 8);
        let attributes = Attributes::new(&[TYPE_ARRAY, key_len, value_len, entries]);
        descriptor(MAP_CREATE, &attributes).map(Array)
    }

    /// A value.
    pub(crate) fn get(&self, key: u32) -> io::Result<[u64; WORDS]> {
        let mut value = [0; WORDS];
        let ([k0, k1], [v0, v1]) = (pointer(&raw const key), pointer(&raw mut value));
        call(MAP_LOOKUP, &Attributes::new(&[number(self.0.as_fd()), 0, k0, k1, v0, v1]))?;
        Ok(value)
    }

    /// Sets a value.
    pub(crate) fn set(&self, key: u32, value: &[u64; WORDS]) -> io::Result<()> {
        set(self.0.as_fd(), key, value)
    }
}

impl<const WORDS: usize> AsFd for Array<WORDS> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A hash map from keys to values of so many bytes.
pub(crate) fn hash_map(key_len: u32, value_len: u32, entries: u32) -> io::Result<OwnedFd> {
    descriptor(MAP_CREATE, &Attributes::new(&[TYPE_HASH, key_len, value_len, entries]))
}

/// An array that can be mapped into memory.
pub(crate) fn shared_array(value_len: u32, entries: u32) -> io::Result<OwnedFd> {
    descriptor(MAP_CREATE, &Attributes::new(&[TYPE_ARRAY, 4, value_len, entries, SHARED]))
}

/// An array of one value of so many bytes for each processor.
pub(crate) fn array_by_processor(value_len: u32) -> io::Result<OwnedFd> {
    descriptor(MAP_CREATE, &Attributes::new(&[TYPE_PERCPU_ARRAY, 4, value_len, 1]))
}

/// Sets the value of a key in a hash map; both are as long as the map's.
pub(crate) fn put<K: Copy, V: Copy>(map: BorrowedFd<'_>, key: &K, value: &V) -> io::Result<()> {
    let ([k0, k1], [v0, v1]) = (pointer(key), pointer(value));
    call(MAP_UPDATE, &Attributes::new(&[number(map), 0, k0, k1, v0, v1])).map(drop)
}

/// Takes a key out of a hash map; it is as long as the map's.
pub(crate) fn take_out<K: Copy>(map: BorrowedFd<'_>, key: &K) -> io::Result<()> {
    let [k0, k1] = pointer(key);
    call(MAP_DELETE, &Attributes::new(&[number(map), 0, k0, k1])).map(drop)
}

/// Has a socket take what a program of [`Hook::Socket`] takes.
pub(crate) fn filter(socket: &impl AsFd, program: BorrowedFd<'_>) -> io::Result<()> {
    crate::system::set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_BPF, &program.as_raw_fd())
}

/// Takes a socket out of the map.
pub(crate) fn clear_socket(map: BorrowedFd<'_>, place: u32) -> io::Result<()> {
    take_out(map, &place)
}

/// Loads a program.
pub(crate) fn load(hook: Hook, program: &Assembly) -> io::Result<OwnedFd> {
    let [kind, attach] = hook.numbers();
    let program = program.instructions();
    let license = c"MIT OR Apache-2.0";
    let ([i0, i1], [l0, l1]) = (pointer(program.as_ptr()), pointer(license.as_ptr()));
    let mut words = [0; 18];
    words[..6].copy_from_slice(&[kind, program.len() as u32, i0, i1, l0, l1]);
    // Behind them: no log (three words and one of padding), kernel version, flags.
    words[12..16].copy_from_slice(&[
        u32::from_ne_bytes(*b"thru"),
        u32::from_ne_bytes(*b"way\0"),
        0,
        0,
    ]);
    words[17] = attach;
    descriptor(PROGRAM_LOAD, &Attributes::new(&words))
}

/// Attaches a program to an interface for as long as the link's descriptor is open: also a process
/// that is killed leaves nothing attached.
pub(crate) fn link(
    hook: Hook,
    program: BorrowedFd<'_>,
    interface: u32,
    flags: u32,
) -> io::Result<OwnedFd> {
    let [_, attach] = hook.numbers();
    let words = [number(program), interface, attach, flags];
    descriptor(LINK_CREATE, &Attributes::new(&words))
}

/// Has a link's interface run another program from now on; no frame passes in between.
pub(crate) fn replace(link: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    call(LINK_UPDATE, &Attributes::new(&[number(link), number(program)])).map(drop)
}

/// Keeps the host's stack from what an interface receives, for as long as the link is open: packet
/// sockets (sniffers) see it, and nobody else.
///
/// # Errors
/// The kernel is older than 6.6, or the process may not load programs into it.
pub(crate) fn hide(name: &str, interface: u32) -> Result<OwnedFd, PortError> {
    load(Hook::Ingress, &program::drop_all())
        .and_then(|program| link(Hook::Ingress, program.as_fd(), interface, 0))
        .map_err(|error| {
            let step = "attaching a program between sniffers and stack (Linux 6.6)";
            PortError::xdp(name, step, error)
        })
}

/// Runs an XDP program so many times, each time with a frame that goes where the program says;
/// those of the kernel's pages that are new begin as `frame`.
pub(crate) fn run(program: BorrowedFd<'_>, frame: &[u8], times: u32, batch: u32) -> io::Result<()> {
    let [f0, f1] = pointer(frame.as_ptr());
    let mut words = [0; 19];
    words[0] = number(program);
    words[2] = frame.len() as u32;
    words[4..6].copy_from_slice(&[f0, f1]);
    words[8] = times;
    words[16] = LIVE_FRAMES;
    words[18] = batch;
    call(PROGRAM_RUN, &Attributes::new(&words)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_words_in_order() {
        let all = Attributes::new(&[1, 2, 3]);
        let bytes: Vec<u8> = all.0.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let word = |at: usize| u32::from_ne_bytes(bytes[at * 4..][..4].try_into().expect("four"));
        assert_eq!((word(0), word(1), word(2), word(3)), (1, 2, 3, 0));
    }

    #[test]
    fn a_pointer_is_two_words() {
        let value = 7_u8;
        let [low, high] = pointer(&raw const value).map(u32::to_ne_bytes);
        let bytes: [u8; 8] = [low, high].concat().try_into().expect("eight");
        assert_eq!(u64::from_ne_bytes(bytes), (&raw const value).addr() as u64);
    }
}

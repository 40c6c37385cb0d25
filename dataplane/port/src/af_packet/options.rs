//! How a packet socket is set up.

use crate::error::PortError;
use crate::interface::Interface;
use crate::system::{self, check};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// How to open a [`super::PacketSocket`].
#[derive(Debug, Clone, Copy)]
pub struct PacketOptions {
    /// Receive frames for other hosts as well.
    pub promiscuous: bool,
    /// Do not receive what this host sends through the interface.
    pub ignore_outgoing: bool,
    /// Size of each of the two receive rings, in bytes.
    pub ring_len: usize,
    /// Give TCP frames that their senders, or the kernel's merging (GRO), left to be cut as they
    /// are: of up to 64 kB, with right lengths and checksums. Others are cut here.
    pub whole: bool,
    /// Keep what is received from the host's stack, as long as the socket is there (Linux 6.6).
    pub exclusive: bool,
    /// Let sessions take short cuts in the kernel, where it can (Linux 6.6): see
    /// [`crate::short_cut`].
    pub short_cut: bool,
}

impl Default for PacketOptions {
    fn default() -> Self {
        PacketOptions {
            promiscuous: true,
            ignore_outgoing: true,
            // 4,096 slots for frames of 1,500 bytes: 4 ms at a million frames a second.
            ring_len: 8 << 20,
            whole: false,
            exclusive: false,
            short_cut: false,
        }
    }
}

/// Maximum number of bytes in flight to an interface: some dozen frames of 64 kB.
const SEND_BUFFER_LEN: i32 = 4 << 20;

/// Memory that the kernel may fill with frames that fit no slot: some hundred of 64 kB.
const LARGE_FRAMES_LEN: i32 = 8 << 20;

/// A packet socket that receives nothing yet: it has no protocol.
pub(super) fn receive_socket(name: &str, options: &PacketOptions) -> Result<OwnedFd, PortError> {
    let flags = libc::SOCK_RAW | libc::SOCK_NONBLOCK;
    let socket = system::socket(libc::AF_PACKET, flags, 0)
        .map_err(|e| PortError::system(name, "socket(AF_PACKET)", e))?;
    let set = |option, value: i32, step| {
        system::set_option(&socket, libc::SOL_PACKET, option, &value)
            .map_err(|e| PortError::system(name, step, e))
    };
    use_version_2(name, &socket)?;
    set(libc::PACKET_VNET_HDR, 1, "setsockopt(PACKET_VNET_HDR)")?;
    set(libc::PACKET_COPY_THRESH, 1, "setsockopt(PACKET_COPY_THRESH)")?;
    if options.ignore_outgoing {
        // Before Linux 4.20 the frames come, and are passed over by their type.
        let _ = set(libc::PACKET_IGNORE_OUTGOING, 1, "setsockopt(PACKET_IGNORE_OUTGOING)");
    }
    set_buffer(&socket, [libc::SO_RCVBUFFORCE, libc::SO_RCVBUF], LARGE_FRAMES_LEN);
    Ok(socket)
}

/// Lets a socket's ring be of the version that is used here.
pub(super) fn use_version_2(name: &str, socket: &OwnedFd) -> Result<(), PortError> {
    let version = libc::tpacket_versions::TPACKET_V2 as i32;
    system::set_option(socket, libc::SOL_PACKET, libc::PACKET_VERSION, &version)
        .map_err(|e| PortError::system(name, "setsockopt(PACKET_VERSION)", e))
}

/// A packet socket that only sends, bound to nothing yet. Every frame has a virtio header before
/// it.
pub(super) fn send_socket(name: &str, bypass: bool) -> Result<OwnedFd, PortError> {
    let flags = libc::SOCK_RAW | libc::SOCK_NONBLOCK;
    let socket = system::socket(libc::AF_PACKET, flags, 0)
        .map_err(|e| PortError::system(name, "socket(AF_PACKET)", e))?;
    if bypass {
        system::set_option(&socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1_i32)
            .map_err(|e| PortError::system(name, "setsockopt(PACKET_QDISC_BYPASS)", e))?;
    }
    system::set_option(&socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1_i32)
        .map_err(|e| PortError::system(name, "setsockopt(PACKET_VNET_HDR)", e))?;
    set_buffer(&socket, [libc::SO_SNDBUFFORCE, libc::SO_SNDBUF], SEND_BUFFER_LEN);
    Ok(socket)
}

/// Sets the length of a buffer by the first of these options that is allowed: without CAP_NET_ADMIN
/// as much as the machine's limit allows.
fn set_buffer(socket: &OwnedFd, options: [i32; 2], len: i32) {
    let set = |option| system::set_option(socket, libc::SOL_SOCKET, option, &len);
    let _ = options.into_iter().any(|option| set(option).is_ok());
}

/// Starts reception from `interface`, and from no other.
pub(super) fn attach(socket: &OwnedFd, interface: &Interface) -> Result<(), PortError> {
    bind(socket, interface, libc::ETH_P_ALL as u16)
        .map_err(|e| PortError::system(&interface.name, "bind", e))
}

/// Lets `interface` receive frames for other hosts as long as the socket is open.
pub(super) fn promiscuous(socket: &OwnedFd, interface: &Interface) -> Result<(), PortError> {
    let membership = libc::packet_mreq {
        mr_ifindex: interface.index.cast_signed(),
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    system::set_option(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)
        .map_err(|e| PortError::system(&interface.name, "promiscuous mode", e))
}

/// A socket that receives nothing; while it is open `interface` is in promiscuous mode.
pub(crate) fn promiscuous_guard(interface: &Interface) -> Result<OwnedFd, PortError> {
    let socket = system::socket(libc::AF_PACKET, libc::SOCK_RAW, 0)
        .map_err(|e| PortError::system(&interface.name, "socket(AF_PACKET)", e))?;
    promiscuous(&socket, interface)?;
    Ok(socket)
}

/// Binds a packet socket to an interface; `protocol` zero receives nothing.
pub(super) fn bind(socket: &OwnedFd, interface: &Interface, protocol: u16) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol.to_be(),
        sll_ifindex: interface.index.cast_signed(),
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let len = size_of::<libc::sockaddr_ll>() as u32;
    let address = (&raw const address).cast();
    // JUSTIFICATION: link-layer addresses are not offered elsewhere in this form.
    // SAFETY: the address is readable for its length.
    check(unsafe { libc::bind(socket.as_raw_fd(), address, len) }).map(drop)
}

/// Frames that the kernel dropped since the last call because the ring was full.
pub(super) fn take_drops(socket: &OwnedFd) -> u64 {
    let mut counts = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
    let mut len = size_of::<libc::tpacket_stats>() as libc::socklen_t;
    let (fd, pointer) = (socket.as_raw_fd(), (&raw mut counts).cast());
    // JUSTIFICATION: the statistics of packet sockets are not offered elsewhere.
    // SAFETY: the place is writable for the length given.
    let result = unsafe {
        libc::getsockopt(fd, libc::SOL_PACKET, libc::PACKET_STATISTICS, pointer, &raw mut len)
    };
    if result == 0 { u64::from(counts.tp_drops) } else { 0 }
}

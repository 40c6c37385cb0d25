//! The few system calls that have no safe interface elsewhere: `ifreq` ioctls and socket options.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// The result of a C call that returns -1 on failure.
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A socket, closed on exec.
pub(crate) fn socket(domain: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    // JUSTIFICATION: packet sockets are not offered by the standard library.
    // SAFETY: the call touches no memory of ours.
    let fd = check(unsafe { libc::socket(domain, kind | libc::SOCK_CLOEXEC, protocol) })?;
    // JUSTIFICATION: the descriptor must be closed by someone.
    // SAFETY: the descriptor is fresh, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Waits until what the kernel was doing under RCU when this was called, on any core, is done: it
/// receives frames so. Some milliseconds.
pub(crate) fn wait_for_kernel() {
    /// `MEMBARRIER_CMD_GLOBAL`: `synchronize_rcu` by another name.
    const GLOBAL: libc::c_int = 1;
    // JUSTIFICATION: there is no safe interface for it.
    // SAFETY: the call touches no memory of ours. It fails where it is not built in, or where cores
    // run without ticks.
    let _ = unsafe { libc::syscall(libc::SYS_membarrier, GLOBAL, 0, 0) };
}

/// Sets a socket option to a plain C value.
pub(crate) fn set_option<T: Copy>(
    fd: &impl AsFd,
    level: i32,
    option: i32,
    value: &T,
) -> io::Result<()> {
    let value = std::ptr::from_ref(value).cast();
    let fd = fd.as_fd().as_raw_fd();
    // JUSTIFICATION: the options of packet sockets are not offered elsewhere.
    // SAFETY: the value is readable for its length, and the kernel copies it.
    check(unsafe { libc::setsockopt(fd, level, option, value, size_of::<T>() as u32) }).map(drop)
}

/// The value of a socket option that is a plain number.
pub(crate) fn option(fd: &impl AsFd, level: i32, option: i32) -> io::Result<u32> {
    let mut value = 0_u32;
    let mut len = size_of::<u32>() as libc::socklen_t;
    let fd = fd.as_fd().as_raw_fd();
    let pointer = (&raw mut value).cast();
    // JUSTIFICATION: the options of packet sockets are not offered elsewhere.
    // SAFETY: the place is writable for the length given.
    check(unsafe { libc::getsockopt(fd, level, option, pointer, &raw mut len) })?;
    Ok(value)
}

/// The supplementary groups of the process at the other end of a Unix socket.
pub(crate) fn peer_groups(fd: &impl AsFd) -> io::Result<Vec<u32>> {
    /// Most groups of a process (`NGROUPS_MAX`).
    const GROUPS_MAX: usize = 65_536;
    let fd = fd.as_fd().as_raw_fd();
    let mut groups = vec![0_u32; 64];
    loop {
        let mut len = size_of_val(groups.as_slice()) as libc::socklen_t;
        let (pointer, level) = (groups.as_mut_ptr().cast(), libc::SOL_SOCKET);
        // JUSTIFICATION: this option is not offered elsewhere.
        // SAFETY: the place is writable for the length given.
        let done =
            unsafe { libc::getsockopt(fd, level, libc::SO_PEERGROUPS, pointer, &raw mut len) };
        let count = len as usize / size_of::<u32>();
        match check(done) {
            Ok(_) => {
                groups.truncate(count);
                return Ok(groups);
            }
            // Then the kernel says how much there is.
            Err(error) if error.raw_os_error() == Some(libc::ERANGE) && count <= GROUPS_MAX => {
                groups.resize(count.max(groups.len() + 1), 0);
            }
            Err(error) => return Err(error),
        }
    }
}

/// An ioctl command with an `ifreq` as argument.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IfCommand(libc::Ioctl);

/// C libraries differ in the types of these numbers.
impl IfCommand {
    pub(crate) const GET_FLAGS: IfCommand = IfCommand(libc::SIOCGIFFLAGS as _);
    pub(crate) const SET_FLAGS: IfCommand = IfCommand(libc::SIOCSIFFLAGS as _);
    pub(crate) const GET_MTU: IfCommand = IfCommand(libc::SIOCGIFMTU as _);
    pub(crate) const SET_MTU: IfCommand = IfCommand(libc::SIOCSIFMTU as _);
    pub(crate) const SET_ADDRESS: IfCommand = IfCommand(libc::SIOCSIFADDR as _);
    pub(crate) const SET_NETMASK: IfCommand = IfCommand(libc::SIOCSIFNETMASK as _);
    pub(crate) const SET_TUN: IfCommand = IfCommand(libc::TUNSETIFF as _);
    /// Private: the request then points to more memory, which [`IfRequest::ethtool_words`] sees to.
    const ETHTOOL: IfCommand = IfCommand(libc::SIOCETHTOOL as _);
}

/// Asks the kernel about or changes an interface.
pub(crate) struct IfRequest(libc::ifreq);

impl IfRequest {
    /// A request about `name` (empty: let the kernel choose); `None` if that is no name.
    pub(crate) fn of(name: &str) -> Option<IfRequest> {
        if name.len() >= libc::IFNAMSIZ || name.contains('\0') {
            return None;
        }
        // JUSTIFICATION: a C structure with unions has no constructor.
        // SAFETY: all-zero bytes are a valid `ifreq`: integers, and unions of integers and a
        // pointer.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        Some(IfRequest(request))
    }

    /// Performs `command`.
    pub(crate) fn call(&mut self, fd: &impl AsFd, command: IfCommand) -> io::Result<()> {
        let fd = fd.as_fd().as_raw_fd();
        // JUSTIFICATION: interfaces are configured by ioctls, which no safe interface covers.
        // SAFETY: each `IfCommand` reads and writes one `ifreq`, and for the one that follows its
        // pointer `ethtool_words` sees to the memory that it points to.
        check(unsafe { libc::ioctl(fd, command.0, &raw mut self.0) }).map(drop)
    }

    /// An ethtool command with one value: sets `value` and returns the value after the call.
    pub(crate) fn ethtool(&mut self, fd: &impl AsFd, command: u32, value: u32) -> io::Result<u32> {
        // `struct ethtool_value`.
        let mut argument = [command, value];
        self.ethtool_words(fd, &mut argument)?;
        Ok(argument[1])
    }

    /// An ethtool command; its structure, of 32-bit words, begins with the command's number. The
    /// caller gives all words of that structure.
    pub(crate) fn ethtool_words(&mut self, fd: &impl AsFd, words: &mut [u32]) -> io::Result<()> {
        self.0.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
        let result = self.call(fd, IfCommand::ETHTOOL);
        self.0.ifr_ifru.ifru_data = std::ptr::null_mut();
        result
    }

    pub(crate) fn mtu(&self) -> i32 {
        // JUSTIFICATION: a C union is read.
        // SAFETY: the union was all zero or written by the kernel; any bytes are an integer.
        unsafe { self.0.ifr_ifru.ifru_mtu }
    }

    pub(crate) fn set_mtu(&mut self, mtu: i32) {
        self.0.ifr_ifru.ifru_mtu = mtu;
    }

    pub(crate) fn flags(&self) -> i16 {
        // JUSTIFICATION: a C union is read.
        // SAFETY: the union was all zero or written by the kernel; any bytes are an integer.
        unsafe { self.0.ifr_ifru.ifru_flags }
    }

    pub(crate) fn set_flags(&mut self, flags: i16) {
        self.0.ifr_ifru.ifru_flags = flags;
    }

    pub(crate) fn set_ipv4(&mut self, address: std::net::Ipv4Addr) {
        let inet = libc::sockaddr_in {
            sin_family: libc::AF_INET as libc::sa_family_t,
            sin_port: 0,
            sin_addr: libc::in_addr { s_addr: address.to_bits().to_be() },
            sin_zero: [0; 8],
        };
        // JUSTIFICATION: C code passes addresses of all families under one type.
        // SAFETY: both are plain C structures of 16 bytes; `sockaddr` is the other's general form.
        self.0.ifr_ifru.ifru_addr =
            unsafe { std::mem::transmute::<libc::sockaddr_in, libc::sockaddr>(inet) };
    }

    /// The interface's name, as the kernel completed it.
    pub(crate) fn name(&self) -> String {
        let bytes = self.0.ifr_name.iter().map(|&c| c.cast_unsigned());
        let bytes: Vec<u8> = bytes.take_while(|&b| b != 0).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

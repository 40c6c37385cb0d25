//! TAP and TUN devices: interfaces with this process at the other end.

use crate::bpf;
use crate::error::PortError;
use crate::interface;
use crate::interface_request::{control_socket, request_about};
use crate::system::{IfCommand, IfRequest};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

const DEVICE: &str = "/dev/net/tun";

/// What passes through the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TapKind {
    /// Ethernet frames.
    Ethernet,
    /// IP packets.
    Ip,
}

/// How to make a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TapOptions {
    /// Its name; empty, or with `%d` in it: the kernel chooses.
    pub name: String,
    /// What passes through.
    pub kind: TapKind,
    /// Its IPv4 address and prefix length, if it is to have one.
    pub address: Option<(Ipv4Addr, u8)>,
    /// Its MTU in bytes; the kernel's default if `None`.
    pub mtu: Option<u16>,
}

/// A TAP or TUN device; it goes away when dropped.
#[derive(Debug)]
pub struct Tap {
    device: OwnedFd,
    name: String,
    /// What keeps the host's stack from what comes in, where that is so.
    hidden: Option<OwnedFd>,
}

impl Tap {
    /// Makes the device, configures it and brings it up. Reading and writing never wait.
    ///
    /// # Errors
    /// The process may not make devices, there is no TUN driver, or the kernel refused a step.
    pub fn open(options: &TapOptions) -> Result<Tap, PortError> {
        let wanted = &options.name;
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let device = open(DEVICE, flags, Mode::empty()).map_err(|e| no_driver(wanted, e))?;
        let kind = match options.kind {
            TapKind::Ethernet => libc::IFF_TAP,
            TapKind::Ip => libc::IFF_TUN,
        };
        let mut request = request_about(wanted)?;
        request.set_flags((kind | libc::IFF_NO_PI) as i16);
        request.call(&device, IfCommand::SET_TUN).map_err(|e| refusal(wanted, e))?;
        let tap = Tap { device, name: request.name(), hidden: None };
        tap.configure(options)?;
        Ok(tap)
    }

    fn configure(&self, options: &TapOptions) -> Result<(), PortError> {
        let socket = control_socket(&self.name)?;
        let call = |request: &mut IfRequest, command, step| {
            request.call(&socket, command).map_err(|e| PortError::admin(&self.name, step, e))
        };
        if let Some(mtu) = options.mtu {
            let mut request = request_about(&self.name)?;
            request.set_mtu(i32::from(mtu));
            request.call(&socket, IfCommand::SET_MTU).map_err(|e| match e.raw_os_error() {
                Some(libc::EINVAL) => {
                    let what = format!("an MTU of {mtu} is out of range; give one from 68 on");
                    PortError::unfit(&self.name, what)
                }
                _ => PortError::admin(&self.name, "SIOCSIFMTU", e),
            })?;
        }
        if let Some((address, bits)) = options.address {
            let mut request = request_about(&self.name)?;
            request.set_ipv4(address);
            call(&mut request, IfCommand::SET_ADDRESS, "SIOCSIFADDR")?;
            let mask = u32::MAX.checked_shl(32 - u32::from(bits.min(32))).unwrap_or(0);
            request.set_ipv4(Ipv4Addr::from_bits(mask));
            call(&mut request, IfCommand::SET_NETMASK, "SIOCSIFNETMASK")?;
        }
        let mut request = request_about(&self.name)?;
        call(&mut request, IfCommand::GET_FLAGS, "SIOCGIFFLAGS")?;
        request.set_flags(request.flags() | libc::IFF_UP as i16);
        call(&mut request, IfCommand::SET_FLAGS, "SIOCSIFFLAGS")
    }

    /// Keeps the host's stack from what is written here from now on: packet sockets (sniffers) see
    /// it, and nobody else.
    ///
    /// # Errors
    /// The kernel is older than 6.6, or the process may not load programs into it.
    pub fn hide_from_stack(&mut self) -> Result<(), PortError> {
        let index = interface::index(&self.name).unwrap_or(0);
        self.hidden = Some(bpf::hide(&self.name, index)?);
        Ok(())
    }

    /// The device's name, as the kernel completed it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads one frame that the host sent through the device; `None` if there is none now. A frame
    /// that is longer than `buffer` is cut.
    ///
    /// # Errors
    /// The device went down or away.
    pub fn read<'a>(&self, buffer: &'a mut [u8]) -> Result<Option<&'a [u8]>, PortError> {
        loop {
            match rustix::io::read(&self.device, &mut *buffer) {
                Ok(len) => return Ok(Some(&buffer[..len])),
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => {}
                Err(e) => return Err(self.error("read", e)),
            }
        }
    }

    /// Hands one frame to the host as received through the device. False: not now, try again.
    ///
    /// # Errors
    /// The frame is shorter than its header ([`PortError::System`]), or the device went down or
    /// away.
    pub fn write(&self, frame: &[u8]) -> Result<bool, PortError> {
        loop {
            match rustix::io::write(&self.device, frame) {
                Ok(_) => return Ok(true),
                Err(Errno::AGAIN | Errno::NOBUFS) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(e) => return Err(self.error("write", e)),
            }
        }
    }

    fn error(&self, step: &'static str, errno: Errno) -> PortError {
        match errno {
            // What the driver answers while the interface is down.
            Errno::IO => PortError::Down { name: self.name.clone() },
            // The error after the interface was deleted.
            Errno::BADFD => PortError::Gone { name: self.name.clone() },
            errno => PortError::admin(&self.name, step, io::Error::from(errno)),
        }
    }
}

/// Why there is no device to make interfaces with.
fn no_driver(name: &str, errno: Errno) -> PortError {
    match errno {
        Errno::NOENT | Errno::NODEV | Errno::NXIO => PortError::unfit(
            name,
            "there is no /dev/net/tun to make it with; load the driver: modprobe tun",
        ),
        errno => PortError::admin(named(name), "open /dev/net/tun", errno.into()),
    }
}

/// Why the kernel does not make the interface.
fn refusal(name: &str, error: io::Error) -> PortError {
    match error.raw_os_error() {
        Some(libc::EBUSY) => {
            let what = "another program or element has it; give this one another name (NAME)";
            PortError::unfit(name, what)
        }
        Some(libc::EINVAL) => {
            let what = "there is an interface of that name, or it is no name; give another (NAME)";
            PortError::unfit(name, what)
        }
        _ => PortError::admin(named(name), "TUNSETIFF", error),
    }
}

/// The text for a device with a name chosen by the kernel.
fn named(name: &str) -> &str {
    if name.is_empty() { "tap%d" } else { name }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

impl AsRawFd for Tap {
    fn as_raw_fd(&self) -> RawFd {
        self.device.as_raw_fd()
    }
}

//! Several sockets on one interface, each for a thread: the kernel spreads frames by their flow's
//! hash, which is the same for both directions (PACKET_FANOUT_HASH).

use super::PacketOptions;
use super::options;
use crate::error::PortError;
use crate::interface::Interface;
use crate::system;
use std::os::fd::OwnedFd;

/// `PACKET_FANOUT_FLAG_UNIQUEID` of <linux/if_packet.h>: the kernel finds a number that no group of
/// this network namespace has.
const UNIQUE_ID: u32 = 0x2000;

/// A group that sockets join one after the other.
pub(super) struct Group {
    /// Known when it has a member.
    number: Option<u16>,
}

impl Group {
    pub(super) fn new() -> Group {
        Group { number: None }
    }

    /// Adds a socket that receives nothing until [`open_up`]: between binding and joining it would
    /// get every frame, and with each that joins flows move to other sockets.
    pub(super) fn join(
        &mut self,
        socket: &OwnedFd,
        interface: &Interface,
        options: &PacketOptions,
    ) -> Result<(), PortError> {
        let name = &interface.name;
        refuse_all(socket, name)?;
        options::attach(socket, interface, options)?;
        // Below the mode the group's number.
        let argument = match self.number {
            Some(number) => u32::from(number) | libc::PACKET_FANOUT_HASH << 16,
            None => (libc::PACKET_FANOUT_HASH | UNIQUE_ID) << 16,
        };
        system::set_option(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, &argument)
            .map_err(|e| PortError::system(name, "setsockopt(PACKET_FANOUT)", e))?;
        let id = system::option(socket, libc::SOL_PACKET, libc::PACKET_FANOUT)
            .map_err(|e| PortError::system(name, "getsockopt(PACKET_FANOUT)", e))?;
        self.number = Some(id as u16);
        Ok(())
    }
}

/// Has a socket take no frame, by a filter of one instruction.
fn refuse_all(socket: &OwnedFd, name: &str) -> Result<(), PortError> {
    let mut none = libc::sock_filter { code: libc::BPF_RET as u16, jt: 0, jf: 0, k: 0 };
    let program = libc::sock_fprog { len: 1, filter: &raw mut none };
    system::set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
        .map_err(|e| PortError::system(name, "setsockopt(SO_ATTACH_FILTER)", e))
}

/// Lets a socket of a group receive.
pub(super) fn open_up(socket: &OwnedFd, name: &str) -> Result<(), PortError> {
    system::set_option(socket, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0_i32)
        .map_err(|e| PortError::system(name, "setsockopt(SO_DETACH_FILTER)", e))
}

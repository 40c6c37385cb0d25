//! Several sockets on one interface, each for a thread: the kernel spreads frames by their flow's
//! hash, which is the same for both directions (PACKET_FANOUT_HASH).

use crate::error::PortError;
use crate::system;
use std::os::fd::OwnedFd;

/// `PACKET_FANOUT_FLAG_UNIQUEID` of <linux/if_packet.h>: the kernel finds a number that no group of
/// this network namespace has.
const UNIQUE_ID: u32 = 0x2000;

/// `PACKET_FANOUT_FLAG_IGNORE_OUTGOING` of <linux/if_packet.h>: what this host sends is not copied
/// into the rings. The option of the same name counts only for a socket without a group. Kernels
/// before Linux 6.2 ignore the flag, and frames are passed over by their type.
const IGNORE_OUTGOING: u32 = 0x4000;

/// A group that sockets join one after the other.
pub(super) struct Group {
    /// Known when it has a member.
    number: Option<u16>,
    /// Flags that the kernel wants of each member.
    flags: u32,
}

impl Group {
    pub(super) fn new(ignore_outgoing: bool) -> Group {
        Group { number: None, flags: if ignore_outgoing { IGNORE_OUTGOING } else { 0 } }
    }

    /// Adds a socket that is bound and takes no frame by its filter: with each that joins flows
    /// move to other sockets.
    pub(super) fn join(&mut self, socket: &OwnedFd, name: &str) -> Result<(), PortError> {
        // Below the mode the group's number.
        let mode = libc::PACKET_FANOUT_HASH | self.flags;
        let argument = match self.number {
            Some(number) => u32::from(number) | mode << 16,
            None => (mode | UNIQUE_ID) << 16,
        };
        system::set_option(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, &argument)
            .map_err(|e| PortError::system(name, "setsockopt(PACKET_FANOUT)", e))?;
        let id = system::option(socket, libc::SOL_PACKET, libc::PACKET_FANOUT)
            .map_err(|e| PortError::system(name, "getsockopt(PACKET_FANOUT)", e))?;
        self.number = Some(id as u16);
        Ok(())
    }
}

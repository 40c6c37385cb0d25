//! Several sockets on one interface, each for a thread: the kernel spreads frames by their flow's
//! hash, which is the same for both directions (PACKET_FANOUT_HASH).

use crate::error::PortError;
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

    /// Adds a socket that is bound and takes no frame by its filter: with each that joins flows
    /// move to other sockets.
    pub(super) fn join(&mut self, socket: &OwnedFd, name: &str) -> Result<(), PortError> {
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

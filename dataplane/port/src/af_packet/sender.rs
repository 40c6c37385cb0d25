//! A packet socket that only sends.

use super::OutFrame;
use super::transmit::Transmitter;
use crate::error::PortError;
use crate::interface::{self, Interface};

/// Sends frames through one interface and receives none: it needs no ring.
pub struct PacketSender {
    transmit: Transmitter,
    interface: Interface,
}

impl PacketSender {
    /// Opens `name` for sending. With `qdisc_bypass` frames go past the interface's queueing
    /// discipline: faster, and lost when the driver's queue is full.
    ///
    /// # Errors
    /// There is no such interface, it is down, or the process may not open packet sockets.
    pub fn open(name: &str, qdisc_bypass: bool) -> Result<PacketSender, PortError> {
        let interface = interface::find(name)?;
        if !interface.is_up {
            return Err(PortError::Down { name: name.to_owned() });
        }
        let transmit = Transmitter::open(&interface, qdisc_bypass)?;
        Ok(PacketSender { transmit, interface })
    }

    /// As [`super::PacketSocket::send`].
    ///
    /// # Errors
    /// The interface went down or away. Frames before were sent.
    pub fn send(&mut self, frames: &[OutFrame<'_>]) -> Result<usize, PortError> {
        self.transmit.send(&self.interface, frames)
    }

    /// Frames sent, and frames that the kernel refused: too long or too short for the interface.
    pub fn counts(&self) -> (u64, u64) {
        self.transmit.counts()
    }

    /// The interface, as it was when the socket was opened.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }
}

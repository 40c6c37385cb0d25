//! A packet socket that only sends.

use super::OutFrame;
use super::messages::{Messages, SEND_BATCH};
use super::transmit_ring::TransmitRing;
use crate::error::PortError;
use crate::interface::{self, Interface};
use std::io;

/// Sends frames through one interface, and receives none. They leave by a ring; those that fit none
/// of its slots (long ones that stand for several), or find it full, by messages.
pub struct PacketSender {
    ring: TransmitRing,
    messages: Messages,
    interface: Interface,
    sent: u64,
    refused: u64,
}

impl PacketSender {
    /// Opens `name` for sending. With `qdisc_bypass` frames go past the interface's queueing
    /// discipline; they may be lost when the driver's queue is full.
    ///
    /// # Errors
    /// There is no such interface, it is down, or the process may not open packet sockets.
    pub fn open(name: &str, qdisc_bypass: bool) -> Result<PacketSender, PortError> {
        let interface = interface::find(name)?;
        if !interface.is_up {
            return Err(PortError::Down { name: name.to_owned() });
        }
        let ring = TransmitRing::open(&interface, qdisc_bypass)?;
        let messages = Messages::open(&interface, qdisc_bypass)?;
        Ok(PacketSender { ring, messages, interface, sent: 0, refused: 0 })
    }

    /// Sends `frames` in order; returns how many were taken care of, sent or refused as they are.
    /// Fewer than all: the interface's queue is full, and the rest may be tried again.
    ///
    /// # Errors
    /// The interface went down or away. Frames before were sent.
    pub fn send(&mut self, frames: &[OutFrame<'_>]) -> Result<usize, PortError> {
        let mut done = 0;
        while done < frames.len() {
            match self.send_some(&frames[done..frames.len().min(done + SEND_BATCH)]) {
                Ok(count) => {
                    self.sent += count as u64;
                    done += count;
                }
                Err(e) => match e.raw_os_error() {
                    Some(libc::EINTR) => {}
                    // The queue is full.
                    Some(libc::EAGAIN | libc::ENOBUFS) => break,
                    // Longer than the MTU, or shorter than a header: this one will never go.
                    Some(libc::EMSGSIZE | libc::EINVAL) => {
                        self.refused += 1;
                        done += 1;
                    }
                    _ => return Err(PortError::system(&self.interface.name, "sending", e)),
                },
            }
        }
        Ok(done)
    }

    /// Some frames from the front, at least one: how many were sent, or why the first was not.
    fn send_some(&mut self, frames: &[OutFrame<'_>]) -> io::Result<usize> {
        let unfit = frames.iter().take_while(|frame| !self.ring.fits(frame)).count();
        if unfit > 0 {
            return self.messages.send(&frames[..unfit]);
        }
        match self.ring.send(frames)? {
            // A frame that waits in some queue keeps its slot, and would stop all others.
            0 => self.messages.send(frames),
            sent => Ok(sent),
        }
    }

    /// Frames sent, and frames that the kernel refused: too long or too short for the interface.
    pub fn counts(&self) -> (u64, u64) {
        (self.sent, self.refused)
    }

    /// The interface, as it was when the socket was opened.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }
}

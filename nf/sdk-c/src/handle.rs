//! What a callback has in hand.

use std::ffi::c_void;

use thruway_nf::{Batch, Counter, Cx, NotSent, Session, Start, Welcome};

use crate::packet::CPacket;

/// What is going on.
pub enum Phase<'a, 'b> {
    /// The function is being made.
    Start(&'a mut Start<'b>),
    /// Packets wait.
    Batch(&'a mut Batch<'b>),
    /// A session begins or has ended.
    Session(&'a mut Session<'b>),
    /// A timer, or the end.
    Cx(&'a mut Cx<'b>),
}

/// What is known of the function and does not change.
#[derive(Clone, Copy)]
pub struct About {
    pub welcome: Welcome,
    /// The number of this Worker.
    pub worker: u32,
}

/// `thruway` of the header.
pub struct Thruway<'a, 'b> {
    pub phase: Phase<'a, 'b>,
    pub about: About,
    /// Why it cannot begin.
    pub problem: Option<String>,
    /// What its callbacks are to be given from now on.
    pub user: Option<*mut c_void>,
    packet: CPacket,
    /// `packet` shows the first packet that is left.
    is_open: bool,
    /// Counts packets that were left outside of their frames.
    outside: Option<&'a Counter>,
}

impl<'a, 'b> Thruway<'a, 'b> {
    /// For one callback.
    pub fn new(
        phase: Phase<'a, 'b>,
        about: About,
        outside: Option<&'a Counter>,
    ) -> Thruway<'a, 'b> {
        let packet = CPacket::NONE;
        Thruway { phase, about, problem: None, user: None, packet, is_open: false, outside }
    }

    /// Is done with the packet in hand and takes the next one; null when none is left.
    #[inline]
    pub fn next(&mut self) -> *mut CPacket {
        self.close();
        if let Phase::Batch(batch) = &mut self.phase
            && let Some(mut packet) = batch.open()
        {
            self.packet.show(&mut packet);
            self.is_open = true;
            return &raw mut self.packet;
        }
        std::ptr::null_mut()
    }

    /// Is done with the packet in hand.
    #[inline]
    pub fn close(&mut self) {
        if !std::mem::take(&mut self.is_open) {
            return;
        }
        if let Phase::Batch(batch) = &mut self.phase {
            if let Some(packet) = batch.open()
                && !self.packet.finish(packet)
                && let Some(counter) = self.outside
            {
                counter.add(1);
            }
            batch.close();
        }
    }

    /// Sends a packet in consequence of the one in hand.
    pub fn emit(&mut self, output: u8, parts: [&[u8]; 2]) -> Result<(), NotSent> {
        match &mut self.phase {
            Phase::Batch(batch) if self.is_open => batch.emit(output, parts),
            _ => Err(NotSent::Output),
        }
    }
}

//! The ends of a device: receivers and senders, each of queues of its own.

use super::device::Device;
use super::receiver::Receiver;
use super::sender::Sender;
use crate::error::PortError;
use std::ops::Range;
use std::sync::Arc;

impl Device {
    /// The end that receives by these queues.
    ///
    /// # Errors
    /// The port was not started with them, or one is in use.
    pub fn receiver(self: &Arc<Device>, queues: Range<u16>) -> Result<Receiver, PortError> {
        self.take_rx(&queues)?;
        Ok(Receiver::new(self.clone(), self.mbufs(), queues))
    }

    /// The end that sends by this queue, or by the first that nobody has.
    ///
    /// # Errors
    /// The port was not started with it, or it is in use.
    pub fn sender(self: &Arc<Device>, queue: Option<u16>) -> Result<Sender, PortError> {
        let queue = self.take_tx(queue)?;
        Ok(Sender::new(self.clone(), self.mbufs(), queue))
    }
}

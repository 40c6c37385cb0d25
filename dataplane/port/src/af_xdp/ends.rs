//! The ends of a device: receivers and senders, each of queues of its own.

use super::device::Device;
use super::receiver::Receiver;
use super::sender::Sender;
use super::socket::RxEnd;
use crate::error::PortError;
use std::sync::Arc;

impl Device {
    /// The end that receives from one queue, or from all that no receiver has.
    ///
    /// # Errors
    /// There is no such queue, or it has a receiver; or the steering program cannot be attached.
    pub fn receiver(self: &Arc<Device>, queue: Option<u32>) -> Result<Receiver, PortError> {
        let mut all = self.receivers(queue, 1)?;
        all.pop().flatten().ok_or_else(|| self.taken("receiver", queue))
    }

    /// The ends that receive from one queue, or from all that no receiver has, for `count` threads:
    /// the queues in turn. A thread for which none is left gets nothing.
    ///
    /// # Errors
    /// As [`Device::receiver`].
    pub fn receivers(
        self: &Arc<Device>,
        queue: Option<u32>,
        count: usize,
    ) -> Result<Vec<Option<Receiver>>, PortError> {
        self.check_queue(queue)?;
        let steering = self.steering()?;
        let count = count.max(1);
        let mut parts: Vec<Vec<(u32, RxEnd)>> = (0..count).map(|_| Vec::new()).collect();
        for (nth, end) in self.take_rx(queue).enumerate() {
            parts[nth % count].push(end);
        }
        if parts.iter().all(Vec::is_empty) {
            return Err(self.taken("receiver", queue));
        }
        // Whatever fails, the ends that no receiver has yet are given back.
        let mut receivers = Vec::new();
        let mut failed = None;
        for part in parts {
            if failed.is_some() {
                part.into_iter().for_each(|(number, end)| self.give_rx(number, end));
            } else if part.is_empty() {
                receivers.push(None);
            } else {
                match Receiver::new(self.clone(), Arc::clone(&steering), part) {
                    Ok(receiver) => receivers.push(Some(receiver)),
                    Err(error) => failed = Some(error),
                }
            }
        }
        failed.map_or(Ok(receivers), Err)
    }

    /// The end that sends by one queue, or by the first that no sender has.
    ///
    /// # Errors
    /// There is no such queue, or it has a sender.
    pub fn sender(self: &Arc<Device>, queue: Option<u32>) -> Result<Sender, PortError> {
        self.check_queue(queue)?;
        let (number, end) = self.take_tx(queue).ok_or_else(|| self.taken("sender", queue))?;
        Ok(Sender::new(self.clone(), number, end))
    }

    fn taken(&self, end: &str, queue: Option<u32>) -> PortError {
        let which = queue.map_or("every queue".to_owned(), |queue| format!("queue {queue}"));
        PortError::unfit(&self.interface().name, format!("{which} has a {end} already"))
    }
}

//! Frames in: the receiving ends of some queues of a device.

use super::Device;
use super::repair;
use super::socket::RxEnd;
use super::steering::Steering;
use crate::classes::Class;
use crate::error::PortError;
use crate::interface::Interface;
use crate::notes::Notes;
use crate::system;
use rustix::event::epoll;
use rustix::net::sockopt::{socket_error, xdp_statistics};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use thruway_packet::Batch;

/// What a receiver has done, in frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReceiverStatistics {
    /// Given out.
    pub received: u64,
    /// Dropped by the kernel because they came faster than they were taken.
    pub dropped_ring_full: u64,
    /// Of these, those that a flood should not displace: segments of TCP connections that may be
    /// open, ARP and neighbour discovery.
    pub dropped_preferred: u64,
    /// Dropped by the kernel because they were longer than a frame.
    pub dropped_too_long: u64,
    /// Checksums that were completed here for a local sender.
    pub checksums_completed: u64,
}

/// Receives from some queues of a device. When it is dropped their frames go to the host's stack.
pub struct Receiver {
    device: Arc<Device>,
    /// Taken out by `drop` only.
    steering: Option<Arc<Steering>>,
    ends: Vec<(u32, RxEnd)>,
    /// The queue to look at first: each in turn.
    turn: usize,
    /// Readable when a queue has frames. It does not keep the sockets open, as a duplicate of one
    /// of them would.
    poll: OwnedFd,
    received: u64,
    completed: u64,
    /// Our system calls are to do the driver's work.
    is_driven: bool,
}

impl Receiver {
    pub(super) fn new(
        device: Arc<Device>,
        steering: Arc<Steering>,
        ends: Vec<(u32, RxEnd)>,
    ) -> Result<Receiver, PortError> {
        let name = device.interface().name.clone();
        let failed = |step| {
            let name = name.clone();
            move |e: std::io::Error| PortError::xdp(&name, step, e)
        };
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC);
        let poll = poll.map_err(|e| failed("epoll_create")(e.into()))?;
        let is_driven = device.options().busy_poll_us > 0;
        // From here on `drop` gives everything back.
        let mut receiver = Receiver {
            device,
            steering: Some(steering),
            ends,
            turn: 0,
            poll,
            received: 0,
            completed: 0,
            is_driven,
        };
        for (queue, end) in &mut receiver.ends {
            end.refill();
            let steering = receiver.steering.as_ref().expect("just given");
            for (socket, class) in receiver.device.sockets(*queue).iter().zip(Class::ALL) {
                let data = epoll::EventData::new_u64(u64::from(*queue));
                epoll::add(&receiver.poll, socket, data, epoll::EventFlags::IN)
                    .map_err(|e| failed("epoll_ctl")(e.into()))?;
                steering
                    .set(*queue, class, socket.as_fd())
                    .map_err(failed("bpf(BPF_MAP_UPDATE_ELEM) of the socket map"))?;
            }
        }
        Ok(receiver)
    }

    /// Adds up to `max` received packets to a batch, without waiting; says how many. They have no
    /// timestamp and no kind.
    #[inline]
    pub fn receive(&mut self, max: usize, batch: &mut Batch) -> usize {
        let before = batch.len();
        for _ in 0..self.ends.len() {
            let left = max - (batch.len() - before).min(max);
            if left == 0 {
                break;
            }
            self.turn = (self.turn + 1) % self.ends.len();
            let (queue, end) = &mut self.ends[self.turn];
            let mut count = end.take(left, batch);
            if count == 0 && self.is_driven {
                // The driver looks at its queue now, in our time, and what it finds is there.
                wake(self.device.socket(*queue));
                count = end.take(left, batch);
            }
            if count > 0 && end.refill() {
                wake(self.device.socket(*queue));
            }
        }
        let count = batch.len() - before;
        if self.device.is_virtual() {
            for packet in batch.iter_mut().skip(before) {
                self.completed += u64::from(repair::complete_checksum(packet.data_mut()));
            }
        }
        self.received += count as u64;
        count
    }

    /// What a program in front ([`DropStage`](crate::drop_stage::DropStage)) notes before the
    /// frames that come; to be asked after receiving them.
    #[inline]
    pub fn notes(&self) -> Option<Notes> {
        self.steering.as_ref()?.notes()
    }

    /// Makes up for frames that could not be lent to the kernel because memory was used up. To be
    /// called now and then.
    pub fn refill(&mut self) {
        for (queue, end) in &mut self.ends {
            if end.refill() {
                wake(self.device.socket(*queue));
            }
        }
    }

    /// Whether busy polling that was asked for turns out to have no effect: frames came, and the
    /// kernel still does not know by which of the driver's NAPI instances. Said once; then it is
    /// no longer tried.
    pub fn busy_poll_fails(&mut self) -> bool {
        if !self.is_driven || self.received == 0 {
            return false;
        }
        let is_known = |socket: &OwnedFd| {
            let id = system::option(socket, libc::SOL_SOCKET, libc::SO_INCOMING_NAPI_ID);
            id.is_ok_and(|id| id != 0)
        };
        let is_driven = self.sockets().any(is_known);
        self.is_driven = is_driven;
        !is_driven
    }

    /// What went wrong with the sockets since the last call.
    ///
    /// # Errors
    /// The error that was pending.
    pub fn take_error(&self) -> Result<(), PortError> {
        for socket in self.sockets() {
            if let Ok(Err(e)) | Err(e) = socket_error(socket) {
                return Err(PortError::xdp(&self.interface().name, "receiving", e.into()));
            }
        }
        Ok(())
    }

    /// Counts since opening. Asks the kernel for its drops.
    pub fn statistics(&self) -> ReceiverStatistics {
        let mut statistics = ReceiverStatistics {
            received: self.received,
            checksums_completed: self.completed,
            ..ReceiverStatistics::default()
        };
        for (queue, _) in &self.ends {
            // How often the fill ring, which both share, was empty.
            let (mut empty, mut dropped) = (0, 0);
            for (socket, class) in self.device.sockets(*queue).iter().zip(Class::ALL) {
                let Ok(kernel) = xdp_statistics(socket) else { continue };
                let full = kernel.rx_ring_full.unwrap_or(0);
                statistics.dropped_ring_full += full;
                empty = kernel.rx_fill_ring_empty_descs.unwrap_or(0);
                dropped += kernel.rx_dropped;
                if class == Class::Preferred {
                    statistics.dropped_preferred += full + empty.min(kernel.rx_dropped);
                }
            }
            let no_frame = empty.min(dropped);
            statistics.dropped_ring_full += no_frame;
            statistics.dropped_too_long += dropped - no_frame;
        }
        statistics
    }

    /// Of all its queues.
    fn sockets(&self) -> impl Iterator<Item = &OwnedFd> {
        self.ends.iter().flat_map(|(queue, _)| self.device.sockets(*queue))
    }

    /// The interface, as it was when the device was opened.
    pub fn interface(&self) -> &Interface {
        self.device.interface()
    }

    /// The device.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }
}

/// Lets the kernel look at the fill ring, or a busy-polled driver at its queue.
fn wake(socket: &OwnedFd) {
    let mut nothing = [0_u8; 0];
    // Its result is ignored: the rings show the state.
    let _ = rustix::net::recv(socket, &mut nothing, rustix::net::RecvFlags::DONTWAIT);
}

impl Drop for Receiver {
    fn drop(&mut self) {
        for (queue, end) in self.ends.drain(..) {
            if let Some(steering) = &self.steering {
                steering.clear(queue);
            }
            self.device.give_rx(queue, end);
        }
        if let Some(steering) = self.steering.take() {
            self.device.give_steering(steering);
        }
    }
}

impl AsFd for Receiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poll.as_fd()
    }
}

impl AsRawFd for Receiver {
    /// For `poll`: readable when a frame is there.
    fn as_raw_fd(&self) -> RawFd {
        self.poll.as_raw_fd()
    }
}

//! An open interface, as ToDevice writes it.

use thruway_packet::Batch;
use thruway_port::af_packet::{PacketSender, SEND_BATCH};
use thruway_port::af_xdp::Sender;

use super::way::{Way, Wish};

/// What one go at sending came to; what is not dealt with stays in the batch.
#[derive(Default)]
pub(super) struct Sent {
    pub(super) packets: usize,
    pub(super) bytes: u64,
    pub(super) refused: usize,
    pub(super) failed: usize,
    pub(super) error: Option<String>,
}

enum Socket {
    Packet(PacketSender),
    Xdp(Box<Sender>),
}

/// See the module's description.
pub(super) struct DeviceOut {
    socket: Socket,
    /// What it is, and why.
    way: String,
}

impl DeviceOut {
    /// Opens an interface by the way that is wished or works best. Where all queues have senders
    /// packets go by a packet socket, unless it `must` be AF_XDP.
    pub(super) fn open(name: &str, wish: &Wish, must: bool) -> Result<DeviceOut, String> {
        let mut way = wish.choose(name)?;
        if let Way::Xdp(device) = &way {
            match device.sender(wish.queue) {
                Ok(sender) => {
                    let way = format!("{way}, sends by queue {}", sender.queue());
                    return Ok(DeviceOut { socket: Socket::Xdp(Box::new(sender)), way });
                }
                Err(error) if must => {
                    return Err(error.to_string());
                }
                Err(error) => way = Way::Packet(error.to_string()),
            }
        }
        let sender = PacketSender::open(name, false).map_err(|error| error.to_string())?;
        Ok(DeviceOut { socket: Socket::Packet(sender), way: way.to_string() })
    }

    /// What it is, and why.
    pub(super) fn way(&self) -> &str {
        &self.way
    }

    /// Whether it is an AF_XDP sender: there can be one of a queue only.
    pub(super) fn is_exclusive(&self) -> bool {
        matches!(self.socket, Socket::Xdp(_))
    }

    /// The interface's name.
    pub(super) fn name(&self) -> &str {
        match &self.socket {
            Socket::Packet(sender) => &sender.interface().name,
            Socket::Xdp(sender) => &sender.interface().name,
        }
    }

    /// Sends packets from the front of a batch; those that must wait stay in it, those that failed
    /// are counted last.
    pub(super) fn send(&mut self, batch: &mut Batch) -> Sent {
        match &mut self.socket {
            Socket::Packet(sender) => send_packets(sender, batch),
            Socket::Xdp(sender) => {
                let result = sender.send(batch);
                let failed = if result.error.is_some() { batch.len() } else { 0 };
                Sent {
                    packets: result.packets,
                    bytes: result.bytes,
                    refused: result.refused,
                    failed,
                    error: result.error.map(|error| error.to_string()),
                }
            }
        }
    }
}

fn send_packets(sender: &mut PacketSender, batch: &mut Batch) -> Sent {
    let mut sent = Sent::default();
    let refused_before = sender.counts().1;
    while !batch.is_empty() {
        let mut frames: [&[u8]; SEND_BATCH] = [&[]; SEND_BATCH];
        let count = batch.len().min(SEND_BATCH);
        for (frame, packet) in frames.iter_mut().zip(batch.iter()) {
            *frame = packet.data();
        }
        let done = match sender.send(&frames[..count]) {
            Ok(done) => done,
            Err(error) => {
                sent.error = Some(error.to_string());
                sent.failed = count;
                break;
            }
        };
        sent.packets += done;
        sent.bytes += frames[..done].iter().map(|frame| frame.len() as u64).sum::<u64>();
        batch.drain_front(done).for_each(drop);
        if done < count {
            break;
        }
    }
    sent.refused = (sender.counts().1 - refused_before) as usize;
    sent.packets -= sent.refused.min(sent.packets);
    sent
}

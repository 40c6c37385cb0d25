//! An open interface, as ToDevice writes it.

use std::sync::Arc;

use thruway_element::Egress;
use thruway_packet::{Anno, Batch};
use thruway_port::af_packet::{OutFrame, PacketSender, SEND_BATCH};
use thruway_port::af_xdp::{Device, Sender};
use thruway_port::interface::{self, Interface};

use super::handoff::{Claimed, Handoff, Ring};
use super::mode::{PortMode, PortRequest};

/// What one go at sending came to; what is not dealt with stays in the batch.
#[derive(Default)]
pub(super) struct Sent {
    pub(super) packets: usize,
    pub(super) bytes: u64,
    pub(super) refused: usize,
    pub(super) failed: usize,
    pub(super) error: Option<String>,
    /// Taken, but to be looked after: send again, with an empty batch perhaps.
    pub(super) pending: usize,
    /// The thread that they were handed to.
    pub(super) handed_to: Option<usize>,
    /// The method, if it differs from the reported one.
    pub(super) changed: Option<String>,
}

enum Socket {
    Packet(PacketSender),
    Xdp(Box<Sender>),
    /// AF_XDP by this queue, or any, once there is a packet: where packets are pushed every thread
    /// that might do so has a port, and a queue's sending end serves one.
    Later(Arc<Device>, Option<u32>),
    /// AF_XDP by another thread.
    Other(Box<Ring>, Arc<Device>),
}

/// How to open an interface.
#[derive(Clone, Copy)]
pub(super) struct Claim {
    /// AF_XDP or nothing, also where all queues have senders.
    pub(super) must: bool,
    /// Take a sending end at once, not with the first packet.
    pub(super) at_once: bool,
}

/// See the module's description.
pub(super) struct DeviceOut {
    socket: Socket,
    /// What it is, and why.
    mode: String,
    /// How it was to be used.
    request: PortRequest,
    /// Only because all queues had senders when it was opened.
    is_makeshift: bool,
}

impl DeviceOut {
    /// Opens an interface by the requested or the best working method.
    pub(super) fn open(
        name: &str,
        request: &PortRequest,
        claim: Claim,
    ) -> Result<DeviceOut, String> {
        let mode = request.choose(name)?;
        let text = mode.to_string();
        let PortMode::Xdp(device) = mode else { return DeviceOut::packet(name, text, request) };
        device.check_queue(request.queue).map_err(|error| error.to_string())?;
        if !claim.at_once {
            let socket = Socket::Later(device, request.queue);
            return Ok(DeviceOut::new(socket, text, request));
        }
        match device.sender(request.queue) {
            Ok(sender) => Ok(DeviceOut::xdp(sender, request)),
            Err(error) if claim.must => Err(error.to_string()),
            Err(error) => DeviceOut::makeshift(name, error.to_string(), request),
        }
    }

    fn new(socket: Socket, mode: String, request: &PortRequest) -> DeviceOut {
        DeviceOut { socket, mode, request: request.clone(), is_makeshift: false }
    }

    fn xdp(sender: Sender, request: &PortRequest) -> DeviceOut {
        let mode = format!("{}, sends by queue {}", sender.device().describe(), sender.queue());
        DeviceOut::new(Socket::Xdp(Box::new(sender)), mode, request)
    }

    fn packet(name: &str, mode: String, request: &PortRequest) -> Result<DeviceOut, String> {
        let sender = PacketSender::open(name, false).map_err(|error| error.to_string())?;
        Ok(DeviceOut::new(Socket::Packet(sender), mode, request))
    }

    /// A packet socket where no queue was left.
    fn makeshift(name: &str, why: String, request: &PortRequest) -> Result<DeviceOut, String> {
        let live = DeviceOut::packet(name, PortMode::Packet(why).to_string(), request)?;
        Ok(DeviceOut { is_makeshift: true, ..live })
    }

    /// Takes a sending end for the first packet; if there is none any more, a ring to a thread that
    /// has one, or else a packet socket: then says so.
    #[cold]
    fn claim(&mut self, handoff: &Handoff) -> Result<Option<String>, String> {
        let Socket::Later(device, queue) = &self.socket else { return Ok(None) };
        *self = match handoff.claim(|| device.sender(*queue)) {
            Ok(Claimed::Queue(sender)) => {
                *self = DeviceOut::xdp(sender, &self.request);
                return Ok(None);
            }
            Ok(Claimed::Ring(ring)) => {
                let (how, own, other) = (device.describe(), handoff.thread(), ring.thread());
                let mode =
                    format!("{how}, none left for thread {own}: thread {other} sends for it");
                DeviceOut::new(Socket::Other(ring, Arc::clone(device)), mode, &self.request)
            }
            Err(error) => {
                let name = device.interface().name.clone();
                DeviceOut::makeshift(&name, error.to_string(), &self.request)?
            }
        };
        Ok(Some(self.mode.clone()))
    }

    /// Notes that it has a queue, if it has one: others may hand packets to it.
    pub(super) fn offer(&self, handoff: &Handoff) {
        if self.is_exclusive() {
            let _ = handoff.claim(|| Ok::<(), ()>(()));
        }
    }

    /// Packets that wait for the thread that sends.
    pub(super) fn holding(&self) -> usize {
        match &self.socket {
            Socket::Other(ring, _) => ring.len(),
            _ => 0,
        }
    }

    /// Packets that were handed over and that nobody will send, once nothing runs.
    pub(super) fn lost(&self) -> usize {
        match &self.socket {
            Socket::Other(ring, _) => ring.lost(),
            _ => 0,
        }
    }

    /// The target of short cuts of sessions that leave here: the kernel's own path.
    pub(super) fn egress(&self) -> Option<Egress> {
        let Socket::Packet(sender) = &self.socket else { return None };
        let interface = sender.interface();
        let mtu = interface::mtu(&interface.name).ok()?;
        Some(Egress { interface: interface.index, mtu })
    }

    /// What it is, and why.
    pub(super) fn mode(&self) -> &str {
        &self.mode
    }

    /// Whether it is what opening this interface so would give.
    pub(super) fn fits(&self, interface: &str, request: &PortRequest) -> bool {
        self.name() == interface && self.request == *request
    }

    /// Whether it is an AF_XDP sender: there can be one of a queue only.
    pub(super) fn is_exclusive(&self) -> bool {
        matches!(self.socket, Socket::Xdp(_))
    }

    /// Whether the configuration that replaces this one is to go on with it: of a queue there can
    /// be one sender only, and a packet socket takes tens of milliseconds to close.
    pub(super) fn goes_on(&self) -> bool {
        self.is_exclusive() || matches!(self.socket, Socket::Packet(_)) && !self.is_makeshift
    }

    fn interface(&self) -> &Interface {
        match &self.socket {
            Socket::Packet(sender) => sender.interface(),
            Socket::Xdp(sender) => sender.interface(),
            Socket::Later(device, _) | Socket::Other(_, device) => device.interface(),
        }
    }

    /// The interface's name.
    pub(super) fn name(&self) -> &str {
        &self.interface().name
    }

    /// Looks whether the interface takes longer packets now.
    pub(super) fn refresh(&self) {
        match &self.socket {
            Socket::Xdp(sender) => sender.device().refresh(),
            // The kernel, or the sender, checks each frame itself.
            Socket::Packet(_) | Socket::Later(..) | Socket::Other(..) => {}
        }
    }

    /// Whether the interface went and another one has its name now.
    pub(super) fn has_a_successor(&self) -> bool {
        interface::index(self.name()).is_some_and(|index| index != self.interface().index)
    }

    /// Sends packets from the front of a batch; those that must wait stay in it, those that failed
    /// are counted last.
    pub(super) fn send(&mut self, batch: &mut Batch, handoff: &Handoff) -> Sent {
        if let Socket::Later(..) = self.socket {
            return match self.claim(handoff) {
                Ok(changed) => Sent { changed, ..self.send(batch, handoff) },
                Err(error) => Sent { failed: batch.len(), error: Some(error), ..Sent::default() },
            };
        }
        match &mut self.socket {
            Socket::Later(..) => Sent::default(),
            Socket::Packet(sender) => send_packets(sender, batch),
            Socket::Other(ring, _) => {
                ring.put(batch);
                Sent { handed_to: Some(ring.thread()), ..Sent::default() }
            }
            Socket::Xdp(sender) => {
                let result = sender.send(batch);
                let failed = if result.error.is_some() { batch.len() } else { 0 };
                Sent {
                    packets: result.packets,
                    bytes: result.bytes,
                    refused: result.refused,
                    failed,
                    error: result.error.map(|error| error.to_string()),
                    pending: result.pending,
                    ..Sent::default()
                }
            }
        }
    }
}

fn send_packets(sender: &mut PacketSender, batch: &mut Batch) -> Sent {
    let mut sent = Sent::default();
    let refused_before = sender.counts().1;
    while !batch.is_empty() {
        let mut frames = [OutFrame::NONE; SEND_BATCH];
        let count = batch.len().min(SEND_BATCH);
        for (frame, packet) in frames.iter_mut().zip(batch.iter()) {
            let segments = packet.anno(Anno::SEGMENTS)[0];
            *frame = OutFrame { bytes: packet.data(), segments };
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
        sent.bytes += frames[..done].iter().map(|frame| frame.bytes.len() as u64).sum::<u64>();
        batch.drain_front(done).for_each(drop);
        if done < count {
            break;
        }
    }
    sent.refused = (sender.counts().1 - refused_before) as usize;
    sent.packets -= sent.refused.min(sent.packets);
    sent
}

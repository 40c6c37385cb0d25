//! An open interface, as FromDevice reads it.

mod changing;

use std::sync::Arc;

use thruway_element::{Cx, Reason};
use thruway_packet::{Anno, Batch, Packet, PacketKind};
use thruway_port::PortError;
use thruway_port::af_packet::{
    Bytes, Frame, PacketOptions, PacketSocket, PacketStatistics, PacketType,
};
use thruway_port::af_xdp::{Receiver, ReceiverStatistics};
use thruway_port::drop_stage::Notes;
use thruway_port::interface::{self, Interface, InterfaceState};
use thruway_port::short_cut::ShortCuts;

use super::changeover::Change;
use super::losses::{Lost, complain, say};
use super::mode::{Large, PortMode, PortRequest};
use super::notes;

/// Longest head room and header that must fit a frame.
const HEADROOM_MAX: usize = 128;

/// What is reported when AF_XDP drops for the first time what is longer than its frames.
const TOO_LONG: &str = "packets longer than its MTU come, and AF_XDP drops them: what the kernel \
                        merged (ethtool -K NAME gro off), or a local sender left to be cut (at the \
                        other end: ethtool -K NAME tso off gso off tx-udp-segmentation off); \
                        METHOD LINUX takes them";
/// What is reported when busy polling does nothing.
const BUSY_POLL_FAILS: &str = "BUSY_POLL has no effect, since its driver does not show the kernel \
                               what serves its queues; interrupts are waited for";

/// What the kernel or the port dropped, in packets.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Drops {
    pub(super) ring_full: u64,
    /// Of these, those of the preferred rings.
    pub(super) preferred: u64,
    pub(super) too_long: u64,
    pub(super) offload: u64,
}

enum Socket {
    Packet(Box<PacketSocket>),
    Xdp(Box<Receiver>),
    /// No queue was left for this thread.
    None(Interface),
}

/// See the module's description.
pub(super) struct DeviceIn {
    socket: Socket,
    /// What it is, and why.
    mode: String,
    /// How it was to be used.
    request: PortRequest,
    options: PacketOptions,
    /// Its index among the threads that share the interface, and their number.
    share: (usize, usize),
    /// What was counted as dropped so far.
    reported: Drops,
    /// What was reported on the interface.
    state: InterfaceState,
    /// Packets that AF_XDP has no room for were reported.
    reported_too_long: bool,
    /// What the classifier behind knows of notes in front of frames.
    notes: Option<Notes>,
    /// Runs without a packet.
    idle: u32,
    /// It takes the place of other sockets.
    change: Option<Box<Change<DeviceIn>>>,
}

impl DeviceIn {
    /// Opens an interface by the requested or best working method, for some threads: AF_XDP's
    /// queues in turn, or a packet socket for each; in the place of `former`, if there is one.
    pub(super) fn open(
        name: &str,
        request: &PortRequest,
        options: &PacketOptions,
        (count, former): (usize, Option<&DeviceIn>),
    ) -> Result<Vec<DeviceIn>, String> {
        let mode = request.choose(name)?;
        let mut text = mode.to_string();
        let sockets: Vec<Socket> = if let PortMode::Xdp(device) = mode {
            // A wrong queue is wrong by any method.
            let all = device.receivers(request.queue, count).map_err(|error| error.to_string())?;
            let busy = all.iter().flatten().count();
            if count > 1 {
                text += &match busy == count {
                    true => format!(", for {count} threads"),
                    false => format!(", for {busy} of {count} threads"),
                };
            }
            let none = || Socket::None(device.interface().clone());
            all.into_iter()
                .map(|own| own.map_or_else(none, |own| Socket::Xdp(own.into())))
                .collect()
        } else {
            let options = &PacketOptions {
                whole: request.large == Large::Yes,
                exclusive: request.exclusive,
                ..*options
            };
            if count > 1 {
                text += &format!(", a socket for each of {count} threads");
            }
            let former = former.and_then(|former| match &former.socket {
                Socket::Packet(socket) => Some(&**socket),
                Socket::Xdp(_) | Socket::None(_) => None,
            });
            let all = PacketSocket::open_group(name, options, (count, former));
            let all = all.map_err(|error| error.to_string())?;
            all.into_iter().map(|own| Socket::Packet(own.into())).collect()
        };
        let of = |(rank, socket)| {
            let (mode, request, reported) = (text.clone(), request.clone(), Drops::default());
            let share = (rank, count);
            let (state, reported_too_long) = (InterfaceState::Up, false);
            let options = *options;
            DeviceIn {
                socket,
                mode,
                request,
                options,
                share,
                reported,
                state,
                reported_too_long,
                notes: None,
                idle: 0,
                change: None,
            }
        };
        Ok(sockets.into_iter().enumerate().map(of).collect())
    }

    /// What it is, and why.
    pub(super) fn mode(&self) -> &str {
        &self.mode
    }

    /// What is to be reported on it besides, the first time that it is asked.
    fn warning(&self) -> Option<String> {
        match &self.socket {
            Socket::Packet(_) | Socket::None(_) => None,
            Socket::Xdp(receiver) => receiver.device().warning(),
        }
    }

    /// Whether the host's stack sees none of its packets.
    pub(super) fn is_alone(&self) -> bool {
        self.is_exclusive() || self.request.exclusive
    }

    /// The table of short cuts, and its number in it; why there is none, where it was asked for.
    pub(super) fn short_cut(&self) -> Option<Result<(&Arc<ShortCuts>, u32), &PortError>> {
        match &self.socket {
            Socket::Packet(socket) => socket.short_cut(),
            Socket::Xdp(_) | Socket::None(_) => None,
        }
    }

    /// Whether it is an AF_XDP receiver: there can be one of a queue only.
    pub(super) fn is_exclusive(&self) -> bool {
        matches!(self.socket, Socket::Xdp(_))
    }

    /// Shows the user the method of the interface, and its limits.
    pub(super) fn report(&self, cx: &mut Cx<'_>) {
        let name = &self.interface().name;
        say(cx, name, self.mode());
        if let Some(warning) = self.warning() {
            say(cx, name, &warning);
        }
    }

    /// Whether it is what opening this interface so would give.
    pub(super) fn fits(
        &self,
        name: &str,
        request: &PortRequest,
        options: &PacketOptions,
        share: (usize, usize),
    ) -> bool {
        self.share == share && self.is_of(name, request, options)
    }

    /// The same, whatever the threads that share it.
    pub(super) fn is_of(&self, name: &str, request: &PortRequest, options: &PacketOptions) -> bool {
        let heard = |options: &PacketOptions| (options.promiscuous, options.ignore_outgoing);
        self.interface().name == name
            && self.request == *request
            && heard(&self.options) == heard(options)
    }

    pub(super) fn interface(&self) -> &Interface {
        match &self.socket {
            Socket::Packet(socket) => socket.interface(),
            Socket::Xdp(receiver) => receiver.interface(),
            Socket::None(interface) => interface,
        }
    }

    /// Whether the interface is there and up.
    pub(super) fn is_there(&self) -> bool {
        interface::state(self.interface()) == InterfaceState::Up
    }

    /// Reports what became of the interface, once.
    pub(super) fn watch_state(&mut self, cx: &mut Cx<'_>) {
        let state = interface::state(self.interface());
        let before = std::mem::replace(&mut self.state, state);
        let name = &self.interface().name;
        match (before, state) {
            // One of the threads that share it reports.
            _ if self.share.0 > 0 => {}
            (InterfaceState::Down, InterfaceState::Up) => {
                complain(cx, &format!("interface '{name}' is up again"))
            }
            (InterfaceState::Up | InterfaceState::Gone, InterfaceState::Down) => {
                complain(cx, &PortError::Down { name: name.clone() }.to_string());
            }
            (InterfaceState::Up | InterfaceState::Down, InterfaceState::Gone) => {
                let gone = PortError::Gone { name: name.clone() };
                complain(
                    cx,
                    &format!("{gone}; will reattach when an interface of that name appears"),
                );
            }
            _ => {}
        }
    }

    /// The kernel's number of the interface, if it went and another one came that has its name.
    pub(super) fn successor(&self) -> Option<u32> {
        let before = self.interface();
        interface::index(&before.name).filter(|index| *index != before.index)
    }

    /// Lets the thread's sleep end when packets come.
    pub(super) fn watch(&self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.former_ones().try_for_each(|former| former.watch(cx))?;
        let watched = match &self.socket {
            Socket::Packet(socket) => {
                socket.sockets().into_iter().try_for_each(|socket| cx.watch(socket))
            }
            Socket::Xdp(receiver) => cx.watch(receiver.as_ref()),
            Socket::None(_) => Ok(()),
        };
        watched.map_err(|error| format!("interface '{}': {error}", self.interface().name))
    }

    /// Ends [`DeviceIn::watch`].
    pub(super) fn unwatch(&self, cx: &mut Cx<'_>) {
        self.former_ones().for_each(|former| former.unwatch(cx));
        match &self.socket {
            Socket::Packet(socket) => socket.sockets().into_iter().for_each(|s| cx.unwatch(s)),
            Socket::Xdp(receiver) => cx.unwatch(receiver.as_ref()),
            Socket::None(_) => {}
        }
    }

    /// Takes up to `max` packets.
    #[inline]
    pub(super) fn fill(&mut self, cx: &mut Cx<'_>, max: usize, batch: &mut Batch) {
        if self.change.is_some() {
            return self.fill_changing(cx, max, batch);
        }
        match &mut self.socket {
            Socket::Packet(socket) => _ = fill_packet(socket, cx, (max, batch), |_| true),
            Socket::Xdp(receiver) => {
                receiver.receive(max, batch);
                let (mac, now) = (receiver.interface().mac, cx.now());
                for packet in batch.iter_mut() {
                    packet.set_mac_offset(0);
                    packet.set_timestamp(now);
                    packet.set_kind(kind_of_address(packet, mac));
                }
                let noted = receiver.notes();
                if noted != self.notes {
                    self.notes = noted;
                    notes::trust(cx, noted);
                }
                if let Some(noted) = noted {
                    notes::take(noted, batch);
                }
            }
            Socket::None(_) => return,
        }
        if !batch.is_empty() {
            self.idle = 0;
            return;
        }
        self.idle = self.idle.wrapping_add(1);
        // An error that is not taken would end every sleep at once.
        if self.idle.is_multiple_of(64)
            && let Err(error) = self.take_error()
        {
            match error {
                PortError::Down { .. } | PortError::Gone { .. } => self.watch_state(cx),
                error => complain(cx, &error.to_string()),
            }
        }
    }

    fn take_error(&self) -> Result<(), PortError> {
        match &self.socket {
            Socket::Packet(socket) => socket.take_error(),
            Socket::Xdp(receiver) => receiver.take_error(),
            Socket::None(_) => Ok(()),
        }
    }

    /// What was dropped since opening.
    pub(super) fn drops(&mut self) -> Drops {
        match &mut self.socket {
            Socket::Packet(socket) => {
                let PacketStatistics {
                    dropped_ring_full,
                    dropped_preferred,
                    dropped_too_long,
                    dropped_offload,
                    ..
                } = socket.statistics();
                Drops {
                    ring_full: dropped_ring_full,
                    preferred: dropped_preferred,
                    too_long: dropped_too_long,
                    offload: dropped_offload,
                }
            }
            Socket::Xdp(receiver) => {
                let ReceiverStatistics {
                    dropped_ring_full,
                    dropped_preferred,
                    dropped_too_long,
                    ..
                } = receiver.statistics();
                Drops {
                    ring_full: dropped_ring_full,
                    preferred: dropped_preferred,
                    too_long: dropped_too_long,
                    offload: 0,
                }
            }
            Socket::None(_) => Drops::default(),
        }
    }

    /// Counts what was dropped since the last time. To be called every second or so.
    pub(super) fn count_drops(&mut self, cx: &mut Cx<'_>) {
        let former = self.change.iter_mut().flat_map(|change| &mut change.former);
        former.for_each(|former| former.count_drops(cx));
        if let Socket::Xdp(receiver) = &mut self.socket {
            receiver.refill();
            receiver.device().refresh();
            if receiver.busy_poll_fails() {
                let name = &receiver.interface().name;
                complain(cx, &format!("interface '{name}': {BUSY_POLL_FAILS}"));
            }
        }
        let now = self.drops();
        let before = std::mem::replace(&mut self.reported, now);
        if matches!(self.socket, Socket::Xdp(_)) && now.too_long > 0 && !self.reported_too_long {
            self.reported_too_long = true;
            complain(cx, &format!("interface '{}': {TOO_LONG}", self.interface().name));
        }
        let news = |now: u64, before: u64| now.saturating_sub(before) as usize;
        cx.count_drops(Lost::RingFull, news(now.ring_full, before.ring_full));
        cx.count_drops(Lost::TooLong, news(now.too_long, before.too_long));
        cx.count_drops(Lost::Offload, news(now.offload, before.offload));
    }
}

/// Takes up to so many frames, and makes packets of those that are to be kept; says how many frames
/// there were.
fn fill_packet(
    socket: &mut PacketSocket,
    cx: &mut Cx<'_>,
    (max, batch): (usize, &mut Batch),
    mut is_kept: impl FnMut(&Frame<'_>) -> bool,
) -> usize {
    let (mut no_memory, mut too_long) = (0, 0);
    let count = socket.receive(max, |frame| {
        if !is_kept(&frame) {
            return;
        }
        match packet_of(frame) {
            Ok(packet) => batch.push(packet),
            Err(len) if len > thruway_packet::LARGE_FRAME - HEADROOM_MAX => too_long += 1,
            Err(_) => no_memory += 1,
        }
    });
    cx.count_drops(Reason::NO_MEMORY, no_memory);
    cx.count_drops(Lost::TooLong, too_long);
    count
}

/// A packet of a received frame; its length, if there is no memory for it.
#[inline]
fn packet_of(frame: Frame<'_>) -> Result<Packet, usize> {
    let mut packet = match frame.bytes {
        Bytes::Borrowed(bytes) => Packet::new(bytes).ok_or(bytes.len())?,
        Bytes::Owned(packet) => packet,
    };
    packet.set_mac_offset(0);
    if frame.segments > 1 {
        packet.set_anno_number(Anno::SEGMENTS, u32::from(frame.segments));
    }
    packet.set_kind(kind_of(frame.packet_type));
    packet.set_timestamp(i64::try_from(frame.timestamp_ns).unwrap_or(i64::MAX));
    Ok(packet)
}

/// How a frame reached the interface, in the packet's terms.
fn kind_of(packet_type: PacketType) -> PacketKind {
    match packet_type {
        PacketType::Host => PacketKind::Host,
        PacketType::Broadcast => PacketKind::Broadcast,
        PacketType::Multicast => PacketKind::Multicast,
        PacketType::OtherHost => PacketKind::OtherHost,
        PacketType::Outgoing => PacketKind::Outgoing,
    }
}

/// How a frame reached an interface of this address, by its destination.
#[inline]
fn kind_of_address(packet: &Packet, mac: Option<[u8; 6]>) -> PacketKind {
    let Some(destination) = packet.data().first_chunk::<6>() else { return PacketKind::Host };
    match mac {
        Some(mac) if mac == *destination => PacketKind::Host,
        _ if *destination == [0xFF; 6] => PacketKind::Broadcast,
        _ if destination[0] & 1 == 1 => PacketKind::Multicast,
        _ => PacketKind::OtherHost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_tell_the_kind() {
        let mac = Some([2, 0, 0, 0, 0, 1]);
        let kind = |bytes: &[u8]| kind_of_address(&Packet::new(bytes).expect("memory"), mac);
        assert_eq!(kind(&[2, 0, 0, 0, 0, 1, 9, 9]), PacketKind::Host);
        assert_eq!(kind(&[2, 0, 0, 0, 0, 2, 9, 9]), PacketKind::OtherHost);
        assert_eq!(kind(&[0xFF; 12]), PacketKind::Broadcast);
        assert_eq!(kind(&[0x33, 0x33, 0, 0, 0, 1]), PacketKind::Multicast);
        assert_eq!(kind(&[1, 2]), PacketKind::Host);
    }
}

//! Whole messages: UDP, Unix datagrams, raw IP.

use std::net::Ipv4Addr;

use thruway_element::Cx;
use thruway_packet::{Batch, Packet};
use thruway_port::capture::LinkType;
use thruway_port::socket::{Address, Datagrams, Peer};

use super::guard::Guard;
use super::link::{Link, Lost, Received, Sent};
use super::plan::{Kind, Plan};
use thruway_elements_captures::encap;
use thruway_elements_support::notice::warn;

/// See the module's description.
pub(super) struct DatagramLink {
    plan: Plan,
    guard: Guard,
    /// Whether what comes is of use.
    reads: bool,
    socket: Option<Datagrams>,
    /// The destination: for a server, the last sender.
    peer: Option<Peer>,
}

/// Where a packet goes.
enum Destination {
    To(Peer),
    Nowhere,
    NotIp,
}

impl DatagramLink {
    /// A socket of an element that emits received packets, or does not.
    pub(super) fn new(plan: Plan, guard: Guard, emits: bool) -> DatagramLink {
        // A server learns from what comes whom to answer.
        let reads = emits || !plan.client;
        DatagramLink { plan, guard, reads, socket: None, peer: None }
    }

    fn report(&self, cx: &mut Cx<'_>, what: &str) {
        if self.plan.verbose {
            warn(cx, what);
        }
    }

    fn open_new(&mut self) -> Result<Datagrams, String> {
        let Plan { kind, client, remote, local, options, .. } = &self.plan;
        let opened = match *kind {
            Kind::Raw(protocol, port) => Datagrams::raw(protocol, port),
            _ if *client => Datagrams::open(remote, local.as_ref(), options),
            _ => Datagrams::open(remote, Some(remote), options),
        };
        if *client && !self.sends_to_annotation() {
            self.peer = Some(Peer::of(remote).map_err(|error| format!("{remote}: {error}"))?);
        }
        opened.map_err(|error| error.to_string())
    }

    /// Whether each packet goes to its destination annotation.
    fn sends_to_annotation(&self) -> bool {
        match &self.plan.remote {
            Address::Inet(remote) if self.plan.client && self.plan.kind == Kind::Datagram => {
                remote.ip().is_unspecified()
            }
            _ => false,
        }
    }

    fn destination(&self, packet: &mut Packet) -> Destination {
        match (&self.plan.kind, &self.plan.remote) {
            (Kind::Raw(..), _) => {
                if !encap::mark_ip(packet, LinkType::Raw) {
                    return Destination::NotIp;
                }
                let address = packet.data().get(16..).and_then(|rest| rest.first_chunk::<4>());
                let to = |bytes: &[u8; 4]| Destination::To(Peer::inet(Ipv4Addr::from(*bytes), 0));
                address.map_or(Destination::NotIp, to)
            }
            (_, Address::Inet(remote)) if self.sends_to_annotation() => {
                Destination::To(Peer::inet(Ipv4Addr::from(packet.dst_ip()), remote.port()))
            }
            _ => self.peer.clone().map_or(Destination::Nowhere, Destination::To),
        }
    }
}

impl Link for DatagramLink {
    fn open(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.guard.check(cx)?;
        let socket = match self.socket.take() {
            Some(socket) => socket,
            None => self.open_new()?,
        };
        if self.reads {
            cx.watch(&socket).map_err(|error| error.to_string())?;
        }
        self.socket = Some(socket);
        Ok(())
    }

    fn receive(&mut self, cx: &mut Cx<'_>, buffer: &mut [u8]) -> Received {
        let Some(socket) = self.socket.as_ref().filter(|_| self.reads) else {
            return Received::Nothing;
        };
        let datagram = match socket.receive(buffer) {
            Ok(Some(datagram)) => datagram,
            Ok(None) => return Received::Nothing,
            Err(error) => {
                self.report(cx, &error.to_string());
                return Received::Nothing;
            }
        };
        if !self.plan.client {
            if let Some(Address::Inet(address)) = datagram.peer.as_ref().and_then(Peer::address)
                && !self.guard.allows(cx, *address.ip())
            {
                self.report(cx, &format!("dropped datagram from {address}"));
                return Received::Dropped(Lost::Denied);
            }
            self.peer = datagram.peer;
        }
        Received::Bytes { len: datagram.len, whole_len: datagram.whole_len }
    }

    fn is_connected(&self) -> bool {
        self.socket.is_some()
    }

    fn send(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) -> Sent {
        let mut sent = Sent::default();
        let Some(socket) = &self.socket else { return sent };
        let (mut done, mut error) = (0, None);
        for packet in batch.iter_mut() {
            match self.destination(packet) {
                Destination::Nowhere => sent.not_connected += 1,
                Destination::NotIp => sent.not_ip += 1,
                Destination::To(peer) => match socket.send(packet.data(), &peer) {
                    Ok(true) => sent.packets += 1,
                    Ok(false) => break,
                    Err(why) => {
                        sent.refused += 1;
                        error = Some(why);
                    }
                },
            }
            done += 1;
        }
        batch.drain_front(done).for_each(drop);
        if let Some(error) = error {
            self.report(cx, &error.to_string());
        }
        sent
    }

    fn addresses(&self) -> [Option<String>; 2] {
        let own = self.socket.as_ref().and_then(Datagrams::address);
        let peer = self.peer.as_ref().and_then(Peer::address);
        [own, peer].map(|address| address.map(|address| address.to_string()))
    }

    fn unwatch(&mut self, cx: &mut Cx<'_>) {
        if let Some(socket) = &self.socket {
            cx.unwatch(socket);
        }
    }
}

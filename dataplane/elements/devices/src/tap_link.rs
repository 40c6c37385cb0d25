//! TAP devices, as the elements use them that make or share one.

use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::Arc;

use thruway_element::{ArgErrors, Args, Cx, Ip6Prefix, IpPrefix, Reason, reasons};
use thruway_packet::{Batch, Packet, PacketKind};
use thruway_port::PortError;
use thruway_port::tap::{Tap, TapKind, TapOptions};
use thruway_wire::MacAddr;

use super::losses::complain;

reasons! {
    /// Why a packet does not reach the host.
    pub(super) enum Lost {
        QueueFull = "queue-full": "the host takes no more now",
        Refused = "refused": "shorter than an Ethernet header, or the interface is down",
    }
}

/// Longest frame that is read, bytes.
const FRAME_MAX: usize = 65_536 + 64;

/// How a device is to be set up.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Setup {
    pub options: TapOptions,
    pub gateway: Option<Ipv4Addr>,
    pub ether: Option<MacAddr>,
    /// An IPv6 address of the host's end.
    pub address6: Option<Ip6Prefix>,
    /// Whether only sniffers see what is handed over.
    pub hidden: bool,
}

impl Setup {
    /// A device of this name without addresses.
    pub(super) fn bare(name: String) -> Setup {
        let options = TapOptions { name, kind: TapKind::Ethernet, address: None, mtu: None };
        Setup { options, gateway: None, ether: None, address6: None, hidden: false }
    }

    /// Of the argument `prefix`, of GATEWAY and of ETHER.
    pub(super) fn of(
        args: &Args<'_>,
        prefix_name: &str,
        device: String,
    ) -> Result<Setup, ArgErrors> {
        let prefix: Option<IpPrefix> = args.opt(prefix_name)?;
        let mut setup = Setup::bare(device);
        if let Some(prefix) = prefix {
            let why = "the mask is not contiguous; write ADDRESS/LENGTH";
            let length = prefix.length().ok_or_else(|| args.error(prefix_name, why))?;
            setup.options.address = Some((prefix.addr, length));
        }
        let gateway: Option<Ipv4Addr> = args.opt("GATEWAY")?;
        setup.gateway = gateway.filter(|gateway| !gateway.is_unspecified());
        if setup.gateway.is_some_and(|gateway| !prefix.is_some_and(|net| net.contains(gateway))) {
            let why = format!("must lie within {prefix_name}");
            return Err(args.error("GATEWAY", why).into());
        }
        setup.ether = args.opt("ETHER")?;
        if setup.ether.is_some_and(MacAddr::is_multicast) {
            let why = "a group's address; the first byte must be even";
            return Err(args.error("ETHER", why).into());
        }
        Ok(setup)
    }

    /// Makes the device and brings it up.
    pub(super) fn open(&self) -> Result<Tap, String> {
        let mut tap = Tap::open(&self.options).map_err(|error| error.to_string())?;
        if self.hidden {
            tap.hide_from_stack().map_err(|error| error.to_string())?;
        }
        if let Some(ether) = self.ether {
            run_ip(&["link", "set", "dev", tap.name(), "address", &ether.to_string()])?;
        }
        if let Some(Ip6Prefix { addr, length }) = self.address6 {
            let address = format!("{addr}/{length}");
            run_ip(&["-6", "address", "replace", &address, "dev", tap.name(), "nodad"])?;
        }
        if let Some(gateway) = self.gateway {
            let gateway = gateway.to_string();
            run_ip(&["route", "replace", "default", "via", &gateway, "dev", tap.name()])?;
        }
        Ok(tap)
    }
}

/// Has the system's `ip` command do what it alone does.
fn run_ip(words: &[&str]) -> Result<(), String> {
    let line = || format!("ip {}", words.join(" "));
    let done = Command::new("ip").args(words).output();
    let done = done.map_err(|error| format!("cannot run '{}': {error}", line()))?;
    match done.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&done.stderr);
            Err(format!("'{}' failed: {}", line(), said.trim()))
        }
    }
}

/// A packet of a frame that the host sent.
fn packet_of(frame: &[u8], now: i64) -> Option<Packet> {
    let mut packet = Packet::new(frame)?;
    packet.set_mac_offset(0);
    packet.set_timestamp(now);
    packet.set_kind(match frame {
        [255, 255, 255, 255, 255, 255, ..] => PacketKind::Broadcast,
        [first, ..] if first & 1 == 1 => PacketKind::Multicast,
        _ => PacketKind::Host,
    });
    Some(packet)
}

/// An open device, as one element uses it.
pub(super) struct TapLink {
    tap: Arc<Tap>,
    /// Made when it is first read.
    buffer: Vec<u8>,
    /// An error was reported and nothing was handed over since.
    complained: bool,
    /// The interface was deleted; it does not reappear.
    gone: bool,
}

impl TapLink {
    pub(super) fn new(tap: Arc<Tap>) -> TapLink {
        TapLink { tap, buffer: Vec::new(), complained: false, gone: false }
    }

    /// The interface's name.
    pub(super) fn name(&self) -> &str {
        self.tap.name()
    }

    /// The device itself.
    pub(super) fn tap(&self) -> &Arc<Tap> {
        &self.tap
    }

    /// Lets the thread's sleep end when the host sends.
    pub(super) fn watch(&self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.watch(&*self.tap).map_err(|error| format!("interface '{}': {error}", self.name()))
    }

    /// Ends that.
    pub(super) fn unwatch(&self, cx: &mut Cx<'_>) {
        cx.unwatch(&*self.tap);
    }

    fn complain(&mut self, cx: &mut Cx<'_>, error: &str) {
        if !std::mem::replace(&mut self.complained, true) {
            complain(cx, error);
        }
    }

    /// Hands packets to the host, or drops them; how many it took.
    pub(super) fn hand_over(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) -> u64 {
        let mut sent = 0;
        for packet in batch.drain() {
            match self.tap.write(packet.data()) {
                Ok(true) => {
                    sent += 1;
                    self.complained = false;
                }
                Ok(false) => cx.drop(Lost::QueueFull, packet),
                Err(error) => {
                    cx.drop(Lost::Refused, packet);
                    self.complain(cx, &error.to_string());
                }
            }
        }
        sent
    }

    /// Reads up to `max` packets that the host sent.
    pub(super) fn fill(&mut self, cx: &mut Cx<'_>, max: usize, batch: &mut Batch) {
        if self.gone {
            return;
        }
        self.buffer.resize(FRAME_MAX, 0);
        for _ in 0..max {
            match self.tap.read(&mut self.buffer) {
                Ok(Some(frame)) => match packet_of(frame, cx.now()) {
                    Some(packet) => batch.push(packet),
                    None => cx.count_drops(Reason::NO_MEMORY, 1),
                },
                Ok(None) => break,
                Err(error) => {
                    if let PortError::Gone { .. } = error {
                        // Its descriptor would end every sleep at once.
                        self.unwatch(cx);
                        self.gone = true;
                    }
                    self.complain(cx, &error.to_string());
                    break;
                }
            }
        }
    }
}

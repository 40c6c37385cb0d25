//! ARP announcements: the addresses are at this host from now on (RFC 5227 section 3).

use std::net::Ipv4Addr;

use thruway_element::text::split_words;
use thruway_element::{ArgError, ArgErrors, Args, Cx};
use thruway_wire::arp::{ArpPacket, REQUEST};
use thruway_wire::ethernet::{EthernetHeader, ethertype};
use thruway_wire::{Header, MacAddr};

/// Pauses between announcements, nanoseconds: one may be lost, or a switch may learn late.
const PAUSES_NS: [i64; 3] = [20_000_000, 100_000_000, 500_000_000];

type Frame = [u8; EthernetHeader::LEN + ArpPacket::LEN];

/// The announcements of all networks.
pub(super) struct Announcement {
    /// By network.
    frames: Vec<Frame>,
    /// How many were sent of each.
    sent: usize,
}

impl Announcement {
    /// Of the element's arguments: as many addresses as inputs, twice as many outputs.
    pub(super) fn of(args: &Args<'_>) -> Result<Announcement, ArgErrors> {
        let (inputs, outputs) = (args.env().inputs, args.env().outputs);
        let networks = args.rest().len();
        if networks == 0 || (inputs, outputs) != (networks, networks * 2) {
            let why = format!(
                "{networks} addresses, {inputs} inputs and {outputs} outputs: there must be an \
                 input for each address, and two outputs"
            );
            return Err(ArgErrors::whole(why));
        }
        let frames: Result<Vec<Frame>, ArgError> = args
            .rest()
            .map(|(index, text)| {
                frame(args, text).map_err(|why| args.rest_error(index, format!("'{text}': {why}")))
            })
            .collect();
        Ok(Announcement { frames: frames?, sent: 0 })
    }

    /// Begins anew.
    pub(super) fn begin(&mut self) {
        self.sent = 0;
    }

    /// Announces all addresses once; the pause until the next time, if there is one.
    pub(super) fn send(&mut self, cx: &mut Cx<'_>) -> Option<i64> {
        for (network, frame) in self.frames.iter().enumerate() {
            let Some(mut packet) = cx.packet(frame) else { continue };
            packet.set_timestamp(cx.now());
            packet.set_mac_offset(0);
            packet.set_network(EthernetHeader::LEN, 0);
            cx.emit(self.frames.len() + network, packet);
        }
        cx.count_made(self.frames.len());
        self.sent += 1;
        PAUSES_NS.get(self.sent - 1).copied()
    }
}

/// The announcement of an address, of `IP ETH`.
fn frame(args: &Args<'_>, text: &str) -> Result<Frame, String> {
    let words = split_words(text);
    let [ip, mac] = &words[..] else { return Err("expected IP ETH".into()) };
    let (ip, mac): (Ipv4Addr, MacAddr) = (args.parse(ip)?, args.parse(mac)?);
    let mut frame = [0; EthernetHeader::LEN + ArpPacket::LEN];
    let header = EthernetHeader::new(MacAddr::BROADCAST, mac, ethertype::ARP);
    // The array has room for both.
    if let Ok(rest) = header.emit(&mut frame) {
        let _ = ArpPacket::new(REQUEST, (mac, ip), (MacAddr::ZERO, ip)).emit(rest);
    }
    Ok(frame)
}

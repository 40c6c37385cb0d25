//! The gateway's own packets for subscribers: answers to pings, and ICMP errors.

use thruway_packet::Packet;
use thruway_wire::Header;
use thruway_wire::ethernet::EthernetHeader;
use thruway_wire::icmp::{self, icmp_type};

use super::drop_reason::BngDrop;
use super::inner::inner;
use super::settings::{FRONT, Settings};
use super::tables::Location;
use crate::icmp_error::Template;
use crate::icmp_ping_responder;

/// Longest error: what every host takes (RFC 1812 section 4.3.2.3).
const ERROR_LEN_MAX: usize = 576;

/// The gateway's voice.
pub(super) struct Voice {
    template: Template,
    /// Identification of the next error.
    id: u16,
}

impl Voice {
    /// That of the gateway with this address, where no longer packet than `mtu` goes further.
    pub(super) fn new(gateway: u32, mtu: usize) -> Voice {
        let template = Template {
            src: gateway.into(),
            icmp_type: icmp_type::TIME_EXCEEDED,
            code: icmp::time_exceeded::TRANSIT,
            bad_addresses: Vec::new(),
            mtu: ERROR_LEN_MAX,
            pmtu: mtu as u16,
        };
        Voice { template, id: 1 }
    }

    /// Turns a subscriber's ping into the answer; false, and nothing changed, if it is none.
    pub(super) fn reply(
        &self,
        settings: &Settings,
        packet: &mut Packet,
        location: &Location,
    ) -> bool {
        let Ok(inner) = inner(packet.data().get(FRONT..).unwrap_or(&[])) else { return false };
        packet.set_network(FRONT, inner.header_len);
        if icmp_ping_responder::reply(packet).is_err() {
            return false;
        }
        let ether = EthernetHeader::new(location.mac, settings.access_mac, settings.outer_type);
        // It came with one of these.
        let _ = ether.emit(packet.data_mut());
        true
    }

    /// Puts in the place of a subscriber's packet what the subscriber learns of it; false, and
    /// nothing changed, if that is nothing.
    pub(super) fn announce(
        &mut self,
        settings: &Settings,
        packet: &mut Packet,
        location: &Location,
        bad: BngDrop,
    ) -> bool {
        let Ok(inner) = inner(packet.data().get(FRONT..).unwrap_or(&[])) else { return false };
        (self.template.icmp_type, self.template.code) = match bad {
            BngDrop::Expired => (icmp_type::TIME_EXCEEDED, icmp::time_exceeded::TRANSIT),
            BngDrop::NoRoute => (icmp_type::UNREACHABLE, icmp::unreachable::NET),
            // A sender that permits fragmentation asks for no such answer.
            BngDrop::TooLong if inner.dont_fragment => {
                (icmp_type::UNREACHABLE, icmp::unreachable::NEED_FRAGMENT)
            }
            _ => return false,
        };
        packet.set_network(FRONT, inner.header_len);
        if self.template.check(packet).is_err() {
            return false;
        }
        let Some(mut answer) = self.template.answer(packet, self.id) else { return false };
        if !settings.put_front(&mut answer, location) {
            return false;
        }
        self.id = self.id.wrapping_add(1);
        answer.set_timestamp(packet.timestamp());
        *packet = answer;
        true
    }
}

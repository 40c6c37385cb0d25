//! IPFIX messages (RFC 7011), with both directions of a session in one record (RFC 5103).
//!
//! Libraries for IPFIX read it; this is the part that writes, for the records here and nothing
//! more: one template for IPv4, one for IPv6.

use std::net::IpAddr;

use thruway_flow::Ended;

use super::record::{DirectionCounts, Record};

/// Largest message: with UDP and IPv6 headers it fits the usual MTU of 1,500 bytes (RFC 7011
/// section 10.3.3: a message that is fragmented may be lost whole).
pub(super) const MESSAGE_MAX: usize = 1_400;
/// How often templates are repeated to a collector, nanoseconds: those who lost one read nothing
/// until the next (RFC 7011 section 8.4).
const TEMPLATES_EVERY_NS: i64 = 60_000_000_000;

/// RFC 7011 section 3.1.
const VERSION: u16 = 10;
/// Set of templates (RFC 7011 section 3.3.2).
const TEMPLATE_SET: u16 = 2;
/// Ids from 256 on are templates' own (RFC 7011 section 3.4.1).
const TEMPLATE_V4: u16 = 256;
const TEMPLATE_V6: u16 = 257;
const HEADER_LEN: usize = 16;
const SET_HEADER_LEN: usize = 4;
/// "This information element is of an enterprise" (RFC 7011 section 3.2).
const ENTERPRISE: u16 = 0x8000;
/// Enterprise number of reverse information elements (RFC 5103 section 6.1).
const REVERSE_PEN: u32 = 29_305;

/// Information elements (IANA registry "IPFIX Information Elements"): number and length.
const OF_BOTH: [(u16, u16); 4] = [
    (4, 1),   // protocolIdentifier
    (7, 2),   // sourceTransportPort
    (11, 2),  // destinationTransportPort
    (136, 1), // flowEndReason
];
const ADDRESSES_V4: [(u16, u16); 2] = [(8, 4), (12, 4)]; // sourceIPv4Address, destination...
const ADDRESSES_V6: [(u16, u16); 2] = [(27, 16), (28, 16)];
/// Of each direction.
const OF_DIRECTION: [(u16, u16); 5] = [
    (152, 8), // flowStartMilliseconds
    (153, 8), // flowEndMilliseconds
    (2, 8),   // packetDeltaCount
    (1, 8),   // octetDeltaCount
    (6, 1),   // tcpControlBits, in reduced size (RFC 7011 section 6.2)
];

fn record_len(addresses: &[(u16, u16); 2]) -> usize {
    let fields = addresses.iter().chain(&OF_BOTH).chain(&OF_DIRECTION).chain(&OF_DIRECTION);
    fields.map(|(_, len)| usize::from(*len)).sum()
}

/// Takes a message with so many records.
pub(super) type Send<'a> = dyn FnMut(&[u8], u32) + 'a;

/// Makes messages of records.
pub(super) struct Exporter {
    domain: u32,
    /// Data records in earlier messages, modulo 2^32 (RFC 7011 section 3.1).
    sequence: u32,
    /// Data records in this one.
    count: u32,
    message: Vec<u8>,
    /// Where the open set begins, and its template.
    set: Option<(usize, u16)>,
    /// When templates were last in a message.
    sent_templates: Option<i64>,
}

impl Exporter {
    /// For an observation domain (RFC 7011 section 2).
    pub(super) fn new(domain: u32) -> Exporter {
        let message = Vec::with_capacity(MESSAGE_MAX);
        Exporter { domain, sequence: 0, count: 0, message, set: None, sent_templates: None }
    }

    /// Adds a record; hands finished messages, and how many records they have, to `send`.
    pub(super) fn add(&mut self, record: &Record, now: i64, send: &mut Send<'_>) {
        let (template, addresses) = match record.endpoints.src {
            IpAddr::V4(_) => (TEMPLATE_V4, &ADDRESSES_V4),
            IpAddr::V6(_) => (TEMPLATE_V6, &ADDRESSES_V6),
        };
        let needed = record_len(addresses) + SET_HEADER_LEN;
        if self.message.len() + needed > MESSAGE_MAX {
            self.finish(now, send);
        }
        if self.message.is_empty() {
            self.begin(now);
        }
        if self.set.is_none_or(|(_, open)| open != template) {
            self.close_set();
            self.open_set(template);
        }
        self.put(record);
        self.count += 1;
    }

    /// Hands out the message that is being made, if there is one.
    pub(super) fn finish(&mut self, now: i64, send: &mut Send<'_>) {
        if self.message.is_empty() {
            return;
        }
        self.close_set();
        let seconds = u32::try_from(now.max(0) / 1_000_000_000).unwrap_or(u32::MAX);
        let len = self.message.len() as u16; // at most MESSAGE_MAX
        let header = &mut self.message[..HEADER_LEN];
        header[2..4].copy_from_slice(&len.to_be_bytes());
        header[4..8].copy_from_slice(&seconds.to_be_bytes());
        send(&self.message, self.count);
        self.sequence = self.sequence.wrapping_add(self.count);
        self.count = 0;
        self.message.clear();
    }

    fn put_u16(&mut self, value: u16) {
        self.message.extend(value.to_be_bytes());
    }

    /// Message header (RFC 7011 section 3.1), and templates when they are due.
    fn begin(&mut self, now: i64) {
        self.put_u16(VERSION);
        self.message.extend([0; 6]); // length and time, when it is finished
        self.message.extend(self.sequence.to_be_bytes());
        self.message.extend(self.domain.to_be_bytes());
        let due = self.sent_templates.is_none_or(|at| now - at >= TEMPLATES_EVERY_NS || now < at);
        if due {
            self.sent_templates = Some(now);
            self.open_set(TEMPLATE_SET);
            self.put_template(TEMPLATE_V4, &ADDRESSES_V4);
            self.put_template(TEMPLATE_V6, &ADDRESSES_V6);
            self.close_set();
        }
    }

    fn open_set(&mut self, id: u16) {
        self.set = Some((self.message.len(), id));
        self.put_u16(id);
        self.put_u16(0); // length, when it is closed
    }

    fn close_set(&mut self) {
        let Some((at, _)) = self.set.take() else { return };
        let len = (self.message.len() - at) as u16; // at most MESSAGE_MAX
        self.message[at + 2..at + 4].copy_from_slice(&len.to_be_bytes());
    }

    /// Template record (RFC 7011 section 3.4.1).
    fn put_template(&mut self, id: u16, addresses: &[(u16, u16); 2]) {
        self.put_u16(id);
        self.put_u16((addresses.len() + OF_BOTH.len() + 2 * OF_DIRECTION.len()) as u16);
        for (element, len) in addresses.iter().chain(&OF_BOTH).chain(&OF_DIRECTION) {
            self.put_u16(*element);
            self.put_u16(*len);
        }
        for (element, len) in &OF_DIRECTION {
            self.put_u16(*element | ENTERPRISE);
            self.put_u16(*len);
            self.message.extend(REVERSE_PEN.to_be_bytes());
        }
    }

    /// Data record, in the template's order.
    fn put(&mut self, record: &Record) {
        let endpoints = &record.endpoints;
        for addr in [endpoints.src, endpoints.dst] {
            match addr {
                IpAddr::V4(addr) => self.message.extend(addr.octets()),
                IpAddr::V6(addr) => self.message.extend(addr.octets()),
            }
        }
        self.message.push(endpoints.protocol);
        self.put_u16(endpoints.src_port);
        self.put_u16(endpoints.dst_port);
        self.message.push(end_reason(record.ended));
        record.paths.iter().for_each(|direction| self.put_direction(direction));
    }

    fn put_direction(&mut self, direction: &DirectionCounts) {
        let ms = |ns: i64| (ns.max(0) / 1_000_000) as u64;
        for value in [ms(direction.first), ms(direction.last), direction.packets, direction.bytes] {
            self.message.extend(value.to_be_bytes());
        }
        self.message.push(direction.flags);
    }
}

/// flowEndReason (RFC 5102 section 5.11.3).
fn end_reason(ended: Option<Ended>) -> u8 {
    match ended {
        Some(Ended::TimedOut) => 1,
        None => 2,
        Some(Ended::Closed) => 3,
        Some(Ended::Removed) => 4,
        Some(Ended::Evicted) => 5,
    }
}

#[cfg(test)]
mod tests;

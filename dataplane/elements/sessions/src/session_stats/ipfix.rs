//! IPFIX messages (RFC 7011), with both directions of a session in one record (RFC 5103).
//!
//! Libraries for IPFIX read it; this is the part that writes, for the records here and nothing
//! more. A session of which only one direction had packets has a record without the fields of the
//! other: collectors take a reverse time of 0 for the time of the session (nfdump 1.7 does).

use std::net::IpAddr;

use thruway_flow::Ended;

use super::record::{DirectionCounts, Endpoints, Record};

/// Largest message: with UDP and IPv6 headers it fits the usual MTU of 1,500 bytes (RFC 7011
/// section 10.3.3: a message that is fragmented may be lost whole).
pub(super) const MESSAGE_MAX: usize = 1_400;
/// Interval, in nanoseconds, at which a collector gets the templates again: one that lost a
/// template can decode nothing until the next (RFC 7011 section 8.4).
const TEMPLATES_EVERY_NS: i64 = 60_000_000_000;

/// RFC 7011 section 3.1.
const VERSION: u16 = 10;
/// Set of templates (RFC 7011 section 3.3.2).
const TEMPLATE_SET: u16 = 2;
/// Ids from 256 on are templates' own (RFC 7011 section 3.4.1).
const TEMPLATES: [Template; 4] = [
    Template { id: 256, is_ipv6: false, has_reply: true },
    Template { id: 257, is_ipv6: true, has_reply: true },
    Template { id: 258, is_ipv6: false, has_reply: false },
    Template { id: 259, is_ipv6: true, has_reply: false },
];
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

/// Which fields a record has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Template {
    id: u16,
    is_ipv6: bool,
    has_reply: bool,
}

impl Template {
    /// That of a record with these addresses, with or without the fields of replies.
    fn of(endpoints: &Endpoints, has_reply: bool) -> Template {
        let is_ipv6 = endpoints.src.is_ipv6();
        TEMPLATES[usize::from(is_ipv6) + 2 * usize::from(!has_reply)]
    }

    /// Fields without an enterprise number: element and length.
    fn fields(self) -> impl Iterator<Item = (u16, u16)> {
        let addresses = if self.is_ipv6 { ADDRESSES_V6 } else { ADDRESSES_V4 };
        addresses.into_iter().chain(OF_BOTH).chain(OF_DIRECTION)
    }

    /// Reverse fields (RFC 5103).
    fn reverse_fields(self) -> impl Iterator<Item = (u16, u16)> {
        OF_DIRECTION.into_iter().filter(move |_| self.has_reply)
    }

    fn record_len(self) -> usize {
        self.fields().chain(self.reverse_fields()).map(|(_, len)| usize::from(len)).sum()
    }
}

/// The endpoints and directions of a record as they are sent: a direction without packets is left
/// out, and a record of replies alone is one from their source (RFC 5103 section 4).
fn sent(record: &Record) -> (Endpoints, DirectionCounts, Option<DirectionCounts>) {
    let Record { endpoints, paths: [forward, reply], .. } = *record;
    match (forward.packets, reply.packets) {
        (0, 1..) => (endpoints.reversed(), reply, None),
        (_, 0) => (endpoints, forward, None),
        _ => (endpoints, forward, Some(reply)),
    }
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
    /// Where the open set begins, and its id.
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
        let (endpoints, forward, reply) = sent(record);
        let template = Template::of(&endpoints, reply.is_some());
        let needed = template.record_len() + SET_HEADER_LEN;
        if self.message.len() + needed > MESSAGE_MAX {
            self.finish(now, send);
        }
        if self.message.is_empty() {
            self.begin(now);
        }
        if self.set.is_none_or(|(_, open)| open != template.id) {
            self.close_set();
            self.open_set(template.id);
        }
        self.put(&endpoints, record.ended);
        [Some(forward), reply].iter().flatten().for_each(|counts| self.put_direction(counts));
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
            TEMPLATES.iter().for_each(|template| self.put_template(*template));
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
    fn put_template(&mut self, template: Template) {
        self.put_u16(template.id);
        self.put_u16((template.fields().count() + template.reverse_fields().count()) as u16);
        for (element, len) in template.fields() {
            self.put_u16(element);
            self.put_u16(len);
        }
        for (element, len) in template.reverse_fields() {
            self.put_u16(element | ENTERPRISE);
            self.put_u16(len);
            self.message.extend(REVERSE_PEN.to_be_bytes());
        }
    }

    /// The part of a data record before the counts of its directions, in the template's order.
    fn put(&mut self, endpoints: &Endpoints, ended: Option<Ended>) {
        for addr in [endpoints.src, endpoints.dst] {
            match addr {
                IpAddr::V4(addr) => self.message.extend(addr.octets()),
                IpAddr::V6(addr) => self.message.extend(addr.octets()),
            }
        }
        self.message.push(endpoints.protocol);
        self.put_u16(endpoints.src_port);
        self.put_u16(endpoints.dst_port);
        self.message.push(end_reason(ended));
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

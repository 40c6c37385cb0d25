//! tcpdump's output, line by line: the packets in it.

mod flows;
mod services;
mod tcp;
mod words;

use thruway_element::Names;
use thruway_wire::{ip_protocol, ipv4};

use self::flows::{Ends, Flows};
use self::services::Services;
use self::words::{Endpoint, number, time};
use super::summary::{Defaults, FlowId, Record, make_packet};
use super::text_dump::{Dialect, Line};

/// Time to live where a line does not say.
const TTL: u8 = 100;

/// A dump while it is being read.
pub(super) struct Tcpdump {
    services: Services,
    flows: Flows,
    defaults: Defaults,
    /// The IP header from the first of two lines (`tcpdump -v` since version 4).
    head: Option<Record>,
}

impl Tcpdump {
    /// With these names for ports, besides the host's; packets are whole, with checksums, or not.
    pub(super) fn new(names: Names, checksum: bool) -> Tcpdump {
        let (flow, protocol) = (FlowId::default(), ip_protocol::TCP);
        Tcpdump {
            services: Services::new(names),
            flows: Flows::default(),
            defaults: Defaults { flow, protocol, aggregate: None, checksum },
            head: None,
        }
    }

    /// The packet of a line; `Ok(None)` if more follows on the next one.
    fn record(&mut self, line: &str) -> Result<Option<Record>, &'static str> {
        let continued = self.head.take().filter(|_| line.starts_with([' ', '\t']));
        let (mut record, rest) = match continued {
            Some(head) => (head, line.trim_start()),
            None => {
                let (time, rest) =
                    time(line).ok_or("no line of tcpdump: it begins with no time")?;
                (Record { time: Some(time), has_ip: true, ..Record::default() }, rest)
            }
        };
        let mut rest = rest.strip_prefix("IP ").unwrap_or(rest);
        if rest.starts_with('(') {
            let (head, behind) = words::group(rest).ok_or("a bracket is not closed")?;
            attributes(&mut record, head);
            // This length is the packet's; that behind the ports is the payload's.
            if behind.is_empty() {
                self.head = Some(record);
                return Ok(None);
            }
            rest = behind;
        }
        let (from, behind) = rest.split_once(" > ").ok_or("no addresses that can be read")?;
        let (to, body) = behind.split_once(": ").unwrap_or((behind.trim_end_matches(':'), ""));
        // In front of the source may stand an interface and a direction.
        let source = from.rsplit(' ').next().unwrap_or("");
        let ends = [source, to].map(Endpoint::parse);
        let [Some(source), Some(destination)] = ends else {
            return Err("no addresses that can be read; tcpdump -n prints numbers");
        };
        self.finish(&mut record, source, destination, body.trim())?;
        Ok(Some(record))
    }

    /// Takes what stands behind the addresses.
    fn finish(
        &mut self,
        record: &mut Record,
        source: Endpoint<'_>,
        destination: Endpoint<'_>,
        body: &str,
    ) -> Result<(), &'static str> {
        record.src = Some(source.address);
        record.dst = Some(destination.address);
        let old_style = record.protocol.is_none() && !body.starts_with("Flags [");
        let protocol = protocol_of(body, source.port.is_some() && destination.port.is_some());
        let protocol = record.protocol.or(protocol).ok_or("neither TCP, UDP nor ICMP")?;
        record.protocol = Some(protocol);
        record.ttl = record.ttl.or(Some(TTL));
        if old_style {
            for group in words::groups(body) {
                attributes(record, group);
            }
        }
        let port = |end: Endpoint<'_>| end.port.map(|port| self.services.port(port, protocol));
        let ports = [source, destination].map(port);
        if ports.contains(&Some(None)) {
            return Err("a port's name that is not known; tcpdump -nn prints numbers");
        }
        let [sport, dport] = ports.map(Option::flatten);
        (record.sport, record.dport) = (sport, dport);
        match protocol {
            ip_protocol::TCP => {
                let segment = tcp::parse(body);
                let ends = Ends {
                    from: (source.address, sport.unwrap_or(0)),
                    to: (destination.address, dport.unwrap_or(0)),
                };
                self.flows.fill(&ends, &segment, record);
                record.payload_len = Some(segment.payload_len);
            }
            ip_protocol::ICMP => {
                words::icmp(record, body);
                record.payload_len = words::payload_len(body).map(|len| len.saturating_sub(8));
            }
            _ => record.payload_len = words::payload_len(body),
        }
        Ok(())
    }
}

/// The protocol that the text behind the addresses shows.
fn protocol_of(body: &str, has_ports: bool) -> Option<u8> {
    let first = body.split([' ', ',']).next().unwrap_or("");
    if body.starts_with("ICMP ") || body.starts_with("icmp:") {
        return Some(ip_protocol::ICMP);
    }
    if !has_ports {
        return None;
    }
    let flags = !first.is_empty() && first.chars().all(|c| "SFRPWEU.".contains(c));
    match first {
        "Flags" | "tcp" => Some(ip_protocol::TCP),
        _ if flags => Some(ip_protocol::TCP),
        // Ports without TCP: UDP, or a protocol over it.
        _ => Some(ip_protocol::UDP),
    }
}

/// Takes what a bracket says of the IP header: `ttl 64, id 1, DF, len 40`.
fn attributes(record: &mut Record, group: &str) {
    for attribute in group.split(", ") {
        let (name, value) = attribute.split_once(' ').unwrap_or((attribute, ""));
        let value = value.trim();
        match name {
            "tos" => record.tos = number(value).unwrap_or(0) as u8,
            "ttl" => record.ttl = number(value).map(|ttl| ttl as u8).or(record.ttl),
            "id" => record.id = number(value).unwrap_or(0) as u16,
            "len" | "length" => record.len = number(value).or(record.len),
            "DF" => *record.frag_off.get_or_insert(0) |= ipv4::DONT_FRAGMENT,
            "offset" => {
                let offset = number(value).unwrap_or(0) / 8;
                *record.frag_off.get_or_insert(0) |= offset as u16 & ipv4::OFFSET_MASK;
            }
            "flags" => {
                let flags = record.frag_off.get_or_insert(0);
                *flags |= if value.contains("DF") { ipv4::DONT_FRAGMENT } else { 0 };
                *flags |= if value.contains('+') { ipv4::MORE_FRAGMENTS } else { 0 };
            }
            "frag" => fragment(record, value),
            "proto" => {
                let (_, number) = value.rsplit_once('(').unwrap_or(("", value));
                record.protocol = number.trim_end_matches(')').parse().ok();
            }
            _ => {}
        }
    }
}

/// Takes `ID:LENGTH@OFFSET+`.
fn fragment(record: &mut Record, text: &str) {
    let Some((id, rest)) = text.split_once(':') else { return };
    let Some((_, offset)) = rest.split_once('@') else { return };
    record.id = number(id).unwrap_or(0) as u16;
    let units = number(offset.trim_end_matches('+')).unwrap_or(0) / 8;
    let more = if offset.ends_with('+') { ipv4::MORE_FRAGMENTS } else { 0 };
    *record.frag_off.get_or_insert(0) |= units as u16 & ipv4::OFFSET_MASK | more;
}

impl Dialect for Tcpdump {
    fn begin(&mut self) {
        self.services.load();
    }

    fn read(&mut self, line: &str) -> Line {
        if line.is_empty() {
            return Line::Nothing;
        }
        // Behind a packet of two lines may stand its bytes, in hexadecimal.
        if self.head.is_none() && line.starts_with([' ', '\t']) {
            return Line::Nothing;
        }
        match self.record(line) {
            Ok(Some(record)) => Line::Packet(make_packet(&record, &self.defaults), 0),
            Ok(None) => Line::Nothing,
            Err(why) => Line::Malformed(why),
        }
    }
}

#[cfg(test)]
mod tests;

//! ARPPrint: shows ARP packets.

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use thruway_element::{
    Arguments, Changes, Cx, Element, Entry, Handlers, Operation, Replicas, Spec, Topic,
};
use thruway_packet::{Batch, Packet};
use thruway_wire::MacAddr;
use thruway_wire::ethernet::ethertype;

use super::lines::{self, Lines, write_ether};
use thruway_elements_support::text::timestamp;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<ArpPrint>(Spec {
    name: "ARPPrint",
    topic: Topic::Counters,
    summary: "prints ARP packets in the manner of tcpdump",
    docs: "Expects ARP packets whose network header is marked (MarkIPHeader does that); others \
           pass silently. Writes a line to standard error, or to OUTFILE, for each packet: LABEL \
           and the request or reply. With ETHER, the addresses of the Ethernet header too.",
    example: "InfiniteSource(LIMIT 1, STOP true) -> MarkIPHeader -> ARPPrint(ok) -> Discard",
    changes: Changes::Nothing,
    cost: &[Operation::Format.once()],
    replicas: Replicas::Alike,
    ..Spec::DEFAULT
});

/// Bytes before the addresses (RFC 826).
const HEAD: usize = 8;
/// Ethernet's hardware type (IANA "ARP Parameters").
const ETHERNET: u16 = 1;
/// Ethernet type of trailer encapsulation (RFC 893).
const TRAILER: u16 = 0x1000;

#[derive(Arguments, Handlers)]
struct ArpPrint {
    /// text before each line
    #[arg(optional)]
    label: String,
    /// whether the time is shown
    #[arg(keyword, or = "true")]
    timestamp: bool,
    /// whether Ethernet addresses are shown
    #[arg(keyword, or = "false")]
    ether: bool,
    #[arg(like = lines::OUTFILE)]
    #[new(Lines::from_args(args)?)]
    lines: Lines,
    /// whether anything is printed
    #[arg(keyword, or = "true")]
    #[handler(both)]
    active: bool,
}

/// The text of an ARP packet. Writing to a String does not fail.
fn write_arp(line: &mut String, data: &[u8]) {
    let Some((head, addresses)) = data.split_first_chunk::<HEAD>() else {
        let _ = write!(line, "truncated-arp ({})", data.len());
        return;
    };
    let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let (hardware, protocol, operation) = (word(0), word(2), word(6));
    let (hardware_len, protocol_len) = (head[4], head[5]);
    if !matches!(protocol, ethertype::IPV4 | TRAILER) || protocol_len != 4 || hardware_len != 6 {
        let _ = write!(
            line,
            "arp-#{operation} for proto #{protocol} ({protocol_len}) hardware #{hardware} \
             ({hardware_len})"
        );
        return;
    }
    let Some(addresses) = addresses.first_chunk::<20>() else {
        let _ = write!(line, "truncated-arp ({})", data.len());
        return;
    };
    let mac = |at: usize| {
        let mac = MacAddr(std::array::from_fn(|i| addresses[at + i]));
        format!("{:#}", mac.dashed())
    };
    let ip = |at: usize| {
        let octets: [u8; 4] = std::array::from_fn(|i| addresses[at + i]);
        Ipv4Addr::from(octets)
    };
    let (sender_mac, sender, target_mac, target) = (mac(0), ip(6), mac(10), ip(16));
    if protocol == TRAILER {
        line.push_str("trailer-");
    }
    let _ = match operation {
        1 if addresses[10..16] == [0; 6] => write!(line, "arp who-has {target} tell {sender}"),
        1 => write!(line, "arp who-has {target} ({target_mac}) tell {sender}"),
        2 => write!(line, "arp reply {sender} is-at {sender_mac}"),
        // RFC 903.
        3 => write!(line, "rarp who-is {target_mac} tell {sender_mac}"),
        4 => write!(line, "rarp reply {target_mac} at {target}"),
        // RFC 2390.
        8 => write!(line, "invarp who-is {target_mac} tell {sender_mac}"),
        9 => write!(line, "invarp reply {target_mac} at {target}"),
        _ => write!(line, "arp-#{operation}"),
    };
    if hardware != ETHERNET {
        let _ = write!(line, "hardware #{hardware}");
    }
}

impl ArpPrint {
    fn line(&self, packet: &Packet) -> String {
        let mut line = String::new();
        if !self.label.is_empty() {
            let _ = write!(line, "{}: ", self.label);
        }
        if self.timestamp {
            let _ = write!(line, "{}: ", timestamp(packet.timestamp()));
        }
        if self.ether {
            write_ether(&mut line, packet);
        }
        write_arp(&mut line, packet.network());
        line
    }
}

impl Element for ArpPrint {
    fn initialize(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        self.lines.open()
    }

    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        if !self.active {
            return;
        }
        for packet in batch.iter().filter(|packet| packet.network_offset().is_some()) {
            let line = self.line(packet);
            self.lines.show(cx, &line);
        }
    }

    fn finish(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        self.lines.close()
    }
}

#[cfg(test)]
mod tests {
    use super::write_arp;
    use proptest::prelude::*;

    fn text(data: &[u8]) -> String {
        let mut line = String::new();
        write_arp(&mut line, data);
        line
    }

    #[test]
    fn what_ends_early() {
        assert_eq!(text(&[0, 1, 8]), "truncated-arp (3)");
        assert_eq!(text(&[0, 1, 8, 0, 6, 4, 0, 1, 0]), "truncated-arp (9)");
        let mut reverse = vec![0, 1, 8, 0, 6, 4, 0, 3];
        reverse.extend(0..20);
        assert_eq!(text(&reverse), "rarp who-is 0A-0B-0C-0D-0E-0F tell 00-01-02-03-04-05");
    }

    proptest! {
        #[test]
        fn any_bytes_make_a_line(data in prop::collection::vec(any::<u8>(), 0..40)) {
            let line = text(&data);
            prop_assert!(!line.is_empty() && !line.contains('\n'));
        }
    }
}

//! Which packets are chosen.

use thruway_flow::{IpProgram, NO_MATCH, NoNames, PacketView, Rule, RuleError, parse_class};
use thruway_packet::Packet;
use thruway_wire::Layers;

/// A traffic class as `FlowDispatcher` takes it (`tcp dst port 80`, `arp`, `12/0800`, `-`),
/// compiled.
#[derive(Debug, Clone)]
pub struct Filter(IpProgram);

impl Filter {
    /// Reads a class.
    ///
    /// # Errors
    /// The errors in it, on several lines, the last of which point at the text.
    pub fn parse(text: &str) -> Result<Filter, String> {
        let expr = parse_class(text, &NoNames).map_err(|error| pointing(text, &error))?;
        let rules = [Rule::new(expr, 0)];
        IpProgram::compile(&rules).map(Filter).map_err(|error| format!("the filter: {error}"))
    }

    /// Whether it holds for a packet, which need not have its headers marked.
    pub fn holds(&self, packet: &Packet) -> bool {
        let data = packet.data();
        let layers = Layers::find(data, packet.network_offset());
        let from = |at: Option<usize>| at.and_then(|at| data.get(at..)).unwrap_or(&[]);
        let view = PacketView {
            frame: frame(packet, layers.is_frame || layers.network.is_none()),
            network: from(layers.network),
            transport: from(layers.transport),
        };
        self.0.classify(&view) != NO_MATCH
    }
}

/// A packet from its Ethernet header on, even if that was pulled off. A packet that is known to be
/// neither Ethernet nor IP counts as a frame.
fn frame(packet: &Packet, is_frame: bool) -> &[u8] {
    let whole = match packet.mac_offset() {
        Some(at) if at <= 0 => packet.mac_bytes(packet.len() + at.unsigned_abs()),
        Some(at) => packet.data().get(at.unsigned_abs()..),
        None if is_frame => Some(packet.data()),
        None => None,
    };
    whole.unwrap_or(&[])
}

/// An error with the text and a line that points at the place.
fn pointing(text: &str, error: &RuleError) -> String {
    let hint =
        error.suggestion.as_ref().map_or(String::new(), |s| format!("; did you mean '{s}'?"));
    // The text is the user's: one line, whatever its content.
    let plain = |part: &str| -> String {
        part.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
    };
    let (start, end) = (error.span.start.min(text.len()), error.span.end.min(text.len()));
    let before = text.get(..start).map_or(0, |part| part.chars().count());
    let marked = text.get(start..end).map_or(0, |part| part.chars().count()).max(1);
    let (blanks, arrows) = (" ".repeat(before), "^".repeat(marked));
    format!("the filter: {}{hint}\n  {}\n  {blanks}{arrows}", error.message, plain(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An Ethernet frame with a UDP packet to port 53.
    fn probe() -> Packet {
        let mut bytes = vec![2; 12];
        bytes.extend([8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0]);
        bytes.extend([10, 0, 0, 1, 10, 0, 0, 2, 0x9c, 0x40, 0, 53, 0, 8, 0, 0]);
        Packet::new(&bytes).expect("memory")
    }

    #[test]
    fn packets_are_looked_at_with_and_without_their_frame() {
        let holds = |filter: &str, packet: &Packet| Filter::parse(filter).unwrap().holds(packet);
        let mut packet = probe();
        for filter in ["udp", "udp dst port 53", "-", "ip", "12/0800", "src host 10.0.0.1"] {
            assert!(holds(filter, &packet), "{filter}");
        }
        for filter in ["tcp", "udp src port 53", "arp", "ip6", "dst host 10.0.0.1"] {
            assert!(!holds(filter, &packet), "{filter}");
        }
        assert!(packet.pull(14));
        assert!(holds("udp dst port 53", &packet) && !holds("12/0800", &packet));
        let mut marked = probe();
        marked.set_mac_offset(0);
        assert!(marked.pull(14));
        assert!(holds("12/0800", &marked) && holds("udp dst port 53", &marked));
    }

    #[test]
    fn a_mistake_is_pointed_at() {
        let said = Filter::parse("udp dst prt 53").unwrap_err();
        let lines: Vec<&str> = said.lines().collect();
        assert!(lines[0].starts_with("the filter: "), "{said}");
        assert_eq!(lines[1], "  udp dst prt 53");
        assert!(lines[2].trim_start().starts_with('^'), "{said}");
        let at = lines[2].find('^').unwrap();
        assert_eq!(&lines[1][at..at + 3], "prt", "{said}");
        let odd = Filter::parse("\u{e9}\n\t(").unwrap_err();
        assert_eq!(odd.lines().count(), 3, "{odd}");
    }
}

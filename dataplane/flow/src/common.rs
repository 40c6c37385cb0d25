//! Whether a decision about a packet is one about all packets of its direction of an established
//! session: whether it looks at nothing in which they may differ.

use crate::ast::{Base, Word};
use crate::key::{Key, PacketView};

/// Start of the IP header in the frames of such packets: IPv4 without options.
const NETWORK: usize = 14;
const TRANSPORT: usize = 34;

/// Bits of the byte at a place of a frame (counted from the Ethernet header) that all whole packets
/// of a direction have in common: addresses and type of the frame, version and header length,
/// protocol, addresses, ports; that it is no fragment; and of TCP's flags FIN, SYN, RST, ACK and
/// URG, as only segments with ACK alone are meant.
fn common_bits(at: usize, is_tcp: bool) -> u8 {
    match at {
        0..=14 | 21 | 23 | 26..=37 => 0xFF,
        20 => 0x3F,
        47 if is_tcp => 0x37,
        _ => 0,
    }
}

/// The frames that a test is asked about.
#[derive(Clone, Copy, Debug)]
pub struct Common {
    /// Start of the view's frame in the frame: not 0 if the Ethernet header was removed.
    pub frame_at: usize,
    /// TCP, or UDP.
    pub is_tcp: bool,
}

impl Common {
    /// Whether a test looks at nothing else.
    pub(crate) fn has(&self, word: &Word) -> bool {
        let base = match word.base {
            Base::Frame => self.frame_at,
            Base::Network => NETWORK,
            Base::Transport => TRANSPORT,
        };
        let bytes = word.mask.to_be_bytes();
        bytes.into_iter().enumerate().all(|(nth, mask)| {
            mask & !common_bits(base + usize::from(word.at) + nth, self.is_tcp) == 0
        })
    }
}

/// Whether a packet is whole IPv4 without options, as [`Common`] takes it to be.
pub(crate) fn is_plain(key: &Key, view: &PacketView<'_>) -> bool {
    key.whole && key.fragment == 0 && view.network.first() == Some(&0x45)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::NoNames;
    use crate::program::IpProgram;
    use crate::rules::parse_classifier_rules;
    use crate::{PatternProgram, parse_filter_rules};

    fn frame() -> Vec<u8> {
        let mut frame = vec![2; 12];
        frame.extend([8, 0, 0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0]);
        frame.extend([10, 0, 0, 1, 10, 0, 0, 2, 0, 99, 0, 80]);
        frame.extend([0; 8]);
        frame.extend([0x50, 0x10, 0, 0, 0, 0, 0, 0]);
        frame
    }

    #[test]
    fn patterns_that_a_session_fixes() {
        let frame = frame();
        let is_common = |patterns: &[&str], frame_at: usize| {
            let rules = PatternProgram::parse(patterns).expect("patterns");
            let program = PatternProgram::compile(&rules).expect("few");
            let view = PacketView::from_frame(&frame[frame_at..]);
            program.is_common(&view, Common { frame_at, is_tcp: true })
        };
        assert!(is_common(&["12/0806 20/0001", "12/0806 20/0002", "12/0800", "-"], 0));
        // Behind Strip(14); the type decides, not the payload.
        assert!(is_common(&["0/40%f0", "-"], 14));
        assert!(is_common(&["12/86dd 54/87", "-"], 0));
        assert!(is_common(&["33/02%02", "-"], 14), "SYN");
        // The type of service, the time to live, PSH, the payload.
        assert!(!is_common(&["1/00", "-"], 14));
        assert!(!is_common(&["22/40", "-"], 0));
        assert!(!is_common(&["33/08%08", "-"], 14));
        assert!(!is_common(&["54/474554", "-"], 0));
    }

    #[test]
    fn rules_that_a_session_fixes() {
        let frame = frame();
        let view = PacketView { frame: &frame, network: &frame[14..], transport: &frame[34..] };
        let common = Common { frame_at: 0, is_tcp: true };
        let classifier = |patterns: &[&str]| {
            let rules = parse_classifier_rules(patterns, &NoNames).expect("rules");
            IpProgram::compile(&rules).expect("few").is_common(&view, common)
        };
        assert!(classifier(&["src host 10.0.0.1 && tcp dst port 80", "-"]));
        assert!(classifier(&["udp && ip ttl > 3", "tcp", "-"]), "of UDP only");
        assert!(!classifier(&["ip ttl > 3", "-"]));
        assert!(!classifier(&["ip tos 0", "-"]));
        let texts =
            ["deny tcp opt syn && tcp opt fin", "1 tcp opt syn && !(tcp opt ack)", "allow all"];
        let rules = parse_filter_rules(&texts, 2, &NoNames).expect("rules");
        assert!(IpProgram::compile(&rules).expect("few").is_common(&view, common));
        let rules = parse_filter_rules(&["deny tcp opt psh", "allow all"], 1, &NoNames);
        assert!(!IpProgram::compile(&rules.expect("rules")).expect("few").is_common(&view, common));
    }
}

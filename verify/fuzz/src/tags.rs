//! Frames whose tags may be those of a switch, or of anyone.

use thruway_flow::tags::TagSource;
use thruway_packet::Packet;

/// EtherTypes of an 802.1ad tag, IPv4 and IPv6.
const TYPES: [[u8; 2]; 3] = [[0x88, 0xa8], [0x08, 0x00], [0x86, 0xdd]];
/// Bytes of a tag or label.
const TAG_LEN: usize = 4;

/// A frame: what is taken off it is one tag behind the addresses, or nothing.
pub(crate) fn run(bytes: &[u8]) {
    let [tag, ipv4, ipv6] = TYPES;
    for source in [TagSource::Vlan, TagSource::Mpls] {
        let Some(mut packet) = Packet::new(bytes) else { return };
        let number = source.take(&mut packet);
        let left = packet.data();
        if left == bytes {
            assert_eq!(number, None, "the tag stays");
            continue;
        }
        assert_eq!(left.len() + TAG_LEN, bytes.len());
        assert_eq!(left[..12], bytes[..12], "addresses");
        assert_eq!(left[14..], bytes[18..], "what is behind");
        if bytes[12..14] == tag {
            assert_eq!(left[12..14], bytes[16..18], "the type behind the tag");
        } else {
            assert_eq!(source, TagSource::Mpls);
            assert!(left[12..14] == ipv4 || left[12..14] == ipv6);
        }
    }
}

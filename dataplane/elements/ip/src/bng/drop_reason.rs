//! Why packets are not forwarded.

use thruway_element::reasons;

reasons! {
    /// Why a packet is not forwarded.
    pub(crate) enum BngDrop {
        OtherHost = "other-host": "its Ethernet or tunnel destination is not this gateway",
        NotTagged = "not-tagged": "it came from a subscriber and does not have two VLAN tags",
        UnknownLine = "unknown-line": "no subscriber has its VLANs",
        NotIp = "not-ip": "it is neither IPv4 nor an ARP query that is answered here",
        Header = "bad-header": "an IP header is wrong or cut",
        Checksum = "bad-checksum": "the checksum of an IP or GRE header is wrong",
        Spoofed = "spoofed-source": "its source is not an address of the subscriber on its line",
        NotUnicast = "not-unicast": "it is a broadcast or multicast",
        ForGateway = "for-gateway": "it is for GATEWAY itself",
        Expired = "expired": "its time-to-live was 1 or 0",
        NoRoute = "no-route": "no prefix of the routes holds its destination",
        TooLong = "too-long": "it is longer than MTU",
        NotTunnel = "not-tunnel": "it came from the core and is not GRE over IP with a key",
        UnknownPeer = "unknown-peer": "no tunnel ends where it comes from",
        Fragment = "fragment": "it is part of a tunnel packet that was fragmented",
        UnknownPlace = "unknown-place": "no subscriber of its key was seen at its destination",
    }
}

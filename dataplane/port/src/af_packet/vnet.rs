//! The virtio header before a frame.

/// `struct virtio_net_hdr`.
pub(super) const VNET_LEN: usize = 10;

/// `struct virtio_net_hdr`, in the machine's byte order.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct VnetHeader {
    pub(super) needs_checksum: bool,
    pub(super) gso_type: u8,
    pub(super) gso_len: usize,
    pub(super) checksum_start: usize,
    pub(super) checksum_offset: usize,
}

impl VnetHeader {
    pub(super) fn parse(bytes: [u8; VNET_LEN]) -> VnetHeader {
        let u16_at = |at: usize| usize::from(u16::from_ne_bytes([bytes[at], bytes[at + 1]]));
        VnetHeader {
            needs_checksum: bytes[0] & 1 != 0,
            // The top bit says that the ECN rule for the CWR flag applies: it always does here.
            gso_type: bytes[1] & 0x7F,
            gso_len: u16_at(4),
            checksum_start: u16_at(6),
            checksum_offset: u16_at(8),
        }
    }
}

// Values of `gso_type`.
pub(super) const GSO_NONE: u8 = 0;
pub(super) const GSO_TCP_IPV4: u8 = 1;
pub(super) const GSO_TCP_IPV6: u8 = 4;
pub(super) const GSO_UDP: u8 = 5;

//! The IP packet inside.

use thruway_wire::Header;
use thruway_wire::ipv4::Ipv4Header;

use super::drop_reason::BngDrop;

/// An IP packet's header, as far as forwarding needs it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inner {
    pub(super) src: u32,
    pub(super) dst: u32,
    /// Length of the header and of the packet.
    pub(super) header_len: usize,
    pub(super) total_len: usize,
    pub(super) tos: u8,
    pub(super) ttl: u8,
    pub(super) dont_fragment: bool,
}

/// Checks the IP header that `bytes` begin with.
#[inline]
pub(super) fn inner(bytes: &[u8]) -> Result<Inner, BngDrop> {
    let parsed = Ipv4Header::parse_with_options(bytes);
    let (header, options, _) = parsed.map_err(|_| BngDrop::Header)?;
    if !header.checksum_ok(options) {
        return Err(BngDrop::Checksum);
    }
    Ok(Inner {
        src: header.src(),
        dst: header.dst(),
        header_len: header.header_len(),
        total_len: header.total_len().into(),
        tos: header.tos(),
        ttl: header.ttl(),
        dont_fragment: header.dont_fragment(),
    })
}

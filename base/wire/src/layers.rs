//! Finds the headers of an unparsed packet.

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;
/// EtherTypes (IEEE 802 numbers).
const IPV4: u16 = 0x0800;
const ARP: u16 = 0x0806;
const IPV6: u16 = 0x86dd;
const VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];
/// Most VLAN tags that are looked behind.
const TAGS_MAX: usize = 2;

/// Where headers begin, in bytes from the packet's first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Layers {
    /// Whether the packet begins with an Ethernet header.
    pub is_frame: bool,
    /// The IP header.
    pub network: Option<usize>,
    /// Start of the transport header, if this is the first fragment or a whole packet.
    pub transport: Option<usize>,
}

impl Layers {
    /// Finds them: the IP header where it is marked, else behind an Ethernet header of a type that
    /// fits, else at the beginning.
    pub fn find(data: &[u8], marked: Option<usize>) -> Layers {
        if let Some(at) = marked {
            let behind_ethernet = behind_ethernet(data).is_some_and(|(behind, _)| behind == at);
            return Layers { is_frame: behind_ethernet, ..Layers::of_ip(data, at) };
        }
        match behind_ethernet(data) {
            Some((at, IPV4 | IPV6)) => Layers { is_frame: true, ..Layers::of_ip(data, at) },
            Some(_) => Layers { is_frame: true, ..Layers::default() },
            None => Layers::of_ip(data, 0),
        }
    }

    fn of_ip(data: &[u8], at: usize) -> Layers {
        let header = data.get(at..).unwrap_or(&[]);
        let Some(transport) = header_len(header) else { return Layers::default() };
        let transport = transport.map(|len| at + len).filter(|at| *at <= data.len());
        Layers { is_frame: false, network: Some(at), transport }
    }
}

/// The length of the header of an IP packet, `None` in it for a later fragment; `None` for other
/// packets. Extension headers of IPv6 are not followed.
fn header_len(header: &[u8]) -> Option<Option<usize>> {
    let word = |at: usize| Some(u16::from_be_bytes([*header.get(at)?, *header.get(at + 1)?]));
    match header.first()? >> 4 {
        4 => {
            let len = usize::from(header[0] & 0x0f) * 4;
            let total = usize::from(word(2)?);
            let is_right = len >= 20 && header.len() >= len && total >= len;
            let is_first = word(6)? & 0x1fff == 0;
            is_right.then_some(is_first.then_some(len))
        }
        6 => (header.len() >= 40).then_some(Some(40)),
        _ => None,
    }
}

/// Position and type of the known payload behind an Ethernet header and VLAN tags.
fn behind_ethernet(data: &[u8]) -> Option<(usize, u16)> {
    let word = |at: usize| Some(u16::from_be_bytes([*data.get(at)?, *data.get(at + 1)?]));
    let (mut at, mut ethertype) = (ETHERNET, word(12)?);
    for _ in 0..TAGS_MAX {
        if !VLAN.contains(&ethertype) {
            break;
        }
        (at, ethertype) = (at + 4, word(at + 2)?);
    }
    let version = data.get(at).map(|byte| byte >> 4);
    let fits = match ethertype {
        IPV4 => version == Some(4),
        IPV6 => version == Some(6),
        ARP => true,
        _ => at > ETHERNET,
    };
    fits.then_some((at, ethertype))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 header of 20 bytes.
    fn ip4() -> Vec<u8> {
        let mut header = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0];
        header.extend([10, 0, 0, 1, 10, 0, 0, 2, 0, 7, 0, 53, 0, 8, 0, 0]);
        header
    }

    fn frame(ethertype: u16, rest: &[u8]) -> Vec<u8> {
        [&[2; 12], &ethertype.to_be_bytes()[..], rest].concat()
    }

    #[test]
    fn headers_are_found() {
        let of = |data: &[u8]| {
            let found = Layers::find(data, None);
            (found.is_frame, found.network, found.transport)
        };
        assert_eq!(of(&ip4()), (false, Some(0), Some(20)));
        assert_eq!(of(&frame(IPV4, &ip4())), (true, Some(14), Some(34)));
        let tagged = [&[0, 7, 8, 0][..], &ip4()].concat();
        assert_eq!(of(&frame(0x8100, &tagged)), (true, Some(18), Some(38)));
        assert_eq!(of(&frame(ARP, &[0; 28])), (true, None, None));
        let ip6 = [&[0x60][..], &[0; 47]].concat();
        assert_eq!(of(&frame(IPV6, &ip6)), (true, Some(14), Some(54)));
        // A later fragment.
        let mut fragment = ip4();
        fragment[7] = 9;
        assert_eq!(of(&fragment), (false, Some(0), None));
        // Where the header is marked, wherever that is.
        let odd = [&[9; 5][..], &ip4()].concat();
        let marked = Layers::find(&odd, Some(5));
        assert_eq!((marked.network, marked.transport), (Some(5), Some(25)));
    }

    #[test]
    fn whatever_the_bytes_headers_lie_within() {
        for len in 0..60 {
            for byte in [0u8, 0x45, 0x4f, 0x60, 0x81, 0xff] {
                for marked in [None, Some(0), Some(14), Some(100)] {
                    let data = vec![byte; len];
                    let found = Layers::find(&data, marked);
                    assert!(found.network.is_none_or(|at| at <= len), "{found:?}");
                    assert!(found.transport.is_none_or(|at| at <= len), "{found:?}");
                }
            }
        }
    }
}

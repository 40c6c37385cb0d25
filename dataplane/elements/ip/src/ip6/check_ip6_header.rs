//! CheckIP6Header: only sound IPv6 headers go on (RFC 8200 section 3).

use std::net::Ipv6Addr;

use thruway_element::text::split_words;
use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Handlers, Operation, Reason, Replicas, Spec,
    Topic, Ty, Verdict, reasons,
};
use thruway_packet::{Batch, Packet};

/// See the spec.
pub static ENTRY: Entry = Entry::built::<CheckIp6Header>(
    Spec {
        name: "CheckIP6Header",
        topic: Topic::Ip6,
        summary: "checks IPv6 headers, marks them and sets the destination annotation",
        docs: "Expects the IPv6 header OFFSET bytes into the packet. The version must be 6, the \
               payload length must be there, and the source must neither be a multicast address \
               (RFC 4291 section 2.7) nor one of BADADDRS. Good packets leave by output 0: their \
               network header is marked, what lies behind the payload is cut off, and the IPv6 \
               destination annotation is set. Bad ones leave by output 1, or are dropped where \
               there is none; the first one is reported to the user.",
        example: "InfiniteSource(\\<6000000000003b4020010db8000000000000000000000001 \
                  20010db8000000000000000000000002>, LIMIT 1, STOP true) -> CheckIP6Header \
                  -> Print(ok) -> Discard",
        ports: "1/1-2",
        processing: "a/ah",
        straight: true,
        args: &[
            Arg::optional("BADADDRS", Ty::Any, "bad source addresses, with blanks between"),
            Arg::optional("OFFSET", Ty::UInt, "where the IPv6 header begins").or("0"),
        ],
        drops: CheckIp6HeaderDrop::DROPS,
        changes: Changes::Nothing,
        cost: &[Operation::HeaderRead.once()],
        replicas: Replicas::Alike,
        large_packets: true,
        ..Spec::DEFAULT
    },
    build,
);

reasons! {
    /// Defects of a header.
    enum CheckIp6HeaderDrop {
        Tiny = "too-short": "fewer than 40 bytes",
        Version = "bad-version": "the version is not 6",
        Length = "bad-length": "the payload length is more than there is",
        Source = "bad-source": "the source is a multicast address or on the list of bad ones",
    }
}

struct Check {
    offset: usize,
    bad_src: Vec<[u8; 16]>,
}

#[derive(Handlers)]
struct CheckIp6Header {
    check: Check,
    /// good packets
    #[handler(sum)]
    count: u64,
    /// bad packets
    #[handler(sum)]
    drops: u64,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let mut bad_src = Vec::new();
    for word in split_words(args.text("BADADDRS").unwrap_or_default()) {
        let bad: Ipv6Addr = args.parse(word).map_err(|why| args.error("BADADDRS", why))?;
        bad_src.push(bad.octets());
    }
    let check = Check { offset: args.get("OFFSET")?, bad_src };
    Ok(Box::new(CheckIp6Header { check, count: 0, drops: 0 }))
}

impl Check {
    /// Checks and marks one packet.
    #[inline]
    fn check(&self, packet: &mut Packet) -> Result<(), CheckIp6HeaderDrop> {
        let bytes = packet.data().get(self.offset..).unwrap_or(&[]);
        let Some(header) = bytes.first_chunk::<40>() else { return Err(CheckIp6HeaderDrop::Tiny) };
        if header[0] >> 4 != 6 {
            return Err(CheckIp6HeaderDrop::Version);
        }
        let end = 40 + usize::from(u16::from_be_bytes([header[4], header[5]]));
        if end > bytes.len() {
            return Err(CheckIp6HeaderDrop::Length);
        }
        let (mut src, mut dst) = ([0; 16], [0; 16]);
        src.copy_from_slice(&header[8..24]);
        dst.copy_from_slice(&header[24..40]);
        if src[0] == 0xff || self.bad_src.contains(&src) {
            return Err(CheckIp6HeaderDrop::Source);
        }
        packet.set_network(self.offset, 40);
        packet.truncate(self.offset + end);
        packet.set_dst_ip6(dst);
        Ok(())
    }
}

impl Element for CheckIp6Header {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let before = batch.len();
        cx.filter(batch, |packet| match self.check.check(packet) {
            Ok(()) => Verdict::Pass,
            Err(bad) => Verdict::Reject(1, Reason::from(bad)),
        });
        let bad = (before - batch.len()) as u64;
        if bad > 0 && self.drops == 0 {
            cx.log("IP6 header check failed");
        }
        self.drops += bad;
        self.count += batch.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use thruway_wire::ipv6::Ipv6Header;
    use thruway_wire::{Defect, Header};

    proptest! {
        /// It says what the header view says, and cuts what lies behind.
        #[test]
        fn agrees_with_the_header_view(
            mut bytes in prop::collection::vec(any::<u8>(), 0..90),
            first in prop_oneof![4 => Just(0x60u8), 1 => any::<u8>()],
            payload_len in 0u16..60,
        ) {
            if bytes.len() >= 40 {
                bytes[0] = first;
                bytes[4..6].copy_from_slice(&payload_len.to_be_bytes());
            }
            let wanted = match Ipv6Header::parse(&bytes) {
                Ok((header, payload)) if header.src()[0] != 0xff => Ok(40 + payload.len()),
                Ok(_) => Err(CheckIp6HeaderDrop::Source),
                Err(error) => Err(match error.defect {
                    Defect::TooShort { .. } => CheckIp6HeaderDrop::Tiny,
                    Defect::BadVersion { .. } => CheckIp6HeaderDrop::Version,
                    _ => CheckIp6HeaderDrop::Length,
                }),
            };
            let mut packet = Packet::new(&bytes).unwrap();
            let check = Check { offset: 0, bad_src: vec![] };
            let found = check.check(&mut packet).map(|()| packet.len());
            prop_assert_eq!(found, wanted);
            if found.is_ok() {
                prop_assert_eq!(&packet.dst_ip6()[..], &bytes[24..40]);
                let bad_src = vec![bytes[8..24].try_into().unwrap()];
                let check = Check { offset: 0, bad_src };
                prop_assert_eq!(check.check(&mut packet), Err(CheckIp6HeaderDrop::Source));
            }
        }
    }
}

//! SetIPDSCP and SetIPECN: a field of the type of service.

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, HandlerError, Handlers, Operation, Replicas,
    Spec, Topic, Ty, Verdict, handler_value, reasons,
};
use thruway_packet::{Batch, Packet};
use thruway_wire::Header;
use thruway_wire::ipv4::Ipv4Header;

/// See the spec.
pub static ENTRY: Entry = Entry::built::<SetIpDscp>(
    Spec {
        name: "SetIPDSCP",
        topic: Topic::Ip,
        summary: "sets the differentiated services code point of IP packets",
        docs: "Sets the upper six bits of the type of service (RFC 2474) to DSCP and updates the \
               header checksum. Packets whose IP header is not marked are dropped.",
        example: "InfiniteSource(\\<4500001400000000401177d70100000102000002>, LIMIT 1, STOP true) \
                  -> MarkIPHeader -> SetIPDSCP(46) -> CheckIPHeader -> Print(ok) -> Discard",
        straight: true,
        args: &[Arg::required("DSCP", Ty::UInt, "code point, 0 to 63")],
        drops: NoHeader::DROPS,
        cost: &[Operation::HeaderWrite.once()],
        changes: Changes::Headers,
        replicas: Replicas::Alike,
        ..Spec::DEFAULT
    },
    build,
);

reasons! {
    /// Why there is nothing to set.
    pub(super) enum NoHeader {
        NoHeader = "no-ip-header": "no IP header is marked",
    }
}

/// Sets the bits of the type of service that are not in `keep`, and updates the checksum.
#[inline]
pub(super) fn set_tos(packet: &mut Packet, keep: u8, bits: u8) -> Verdict {
    let Ok((ip, _)) = Ipv4Header::view_mut(packet.network_mut()) else {
        return Verdict::drop(NoHeader::NoHeader);
    };
    let tos = ip.tos() & keep | bits;
    ip.update_tos(tos);
    Verdict::Pass
}

#[derive(Handlers)]
struct SetIpDscp {
    /// the code point
    #[handler(both, write = self.write_dscp(value))]
    dscp: u8,
}

/// Largest code point.
const MAX_DSCP: u8 = 63;

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let dscp = args.get("DSCP")?;
    if dscp > MAX_DSCP {
        return Err(args.error("DSCP", "out of range; it must be from 0 to 63").into());
    }
    Ok(Box::new(SetIpDscp { dscp }))
}

impl SetIpDscp {
    fn write_dscp(&mut self, value: &str) -> Result<(), HandlerError> {
        match handler_value("dscp", value)? {
            dscp @ 0..=MAX_DSCP => self.dscp = dscp,
            _ => return Err(HandlerError::refused("dscp: must be from 0 to 63")),
        }
        Ok(())
    }
}

impl Element for SetIpDscp {
    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        cx.filter(batch, |packet| set_tos(packet, 3, self.dscp << 2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn checksum_stays_right(tos: u8, keep in prop_oneof![Just(3u8), Just(0xfc)], bits: u8) {
            let mut ip = Ipv4Header::new(17, [1; 4].into(), [2; 4].into(), 0).unwrap();
            ip.update_tos(tos);
            let mut bytes = [0; 20];
            ip.emit(&mut bytes).unwrap();
            let mut packet = Packet::new(&bytes).unwrap();
            prop_assert_eq!(set_tos(&mut packet, keep, 0), Verdict::drop(NoHeader::NoHeader));
            packet.set_network(0, 20);
            prop_assert_eq!(set_tos(&mut packet, keep, bits & !keep), Verdict::Pass);
            let (ip, _) = Ipv4Header::view(packet.data()).unwrap();
            prop_assert!(ip.checksum_ok(&[]));
            prop_assert_eq!(ip.tos(), tos & keep | bits & !keep);
        }
    }
}

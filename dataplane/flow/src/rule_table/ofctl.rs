//! Rules as `ovs-ofctl` reads them (ovs-ofctl(8), ovs-fields(7), ovs-actions(7)).

use std::fmt::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::rule_table::fields::Field;
use crate::rule_table::matches::Match;
use crate::rule_table::words::{ICMP6, SCTP, UDP};

/// A match in `ovs-ofctl`'s notation, nothing for every packet.
impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A field stands behind those that say that a packet has it.
        let prerequisites = [Field::EthType, Field::IpProtocol];
        let others = Field::ALL.into_iter().filter(|field| !prerequisites.contains(field));
        let mut separator = "";
        for field in prerequisites.into_iter().chain(others).filter(|field| self.looks_at(*field)) {
            f.write_str(separator)?;
            write_field(f, field, self)?;
            separator = ",";
        }
        Ok(())
    }
}

fn write_field(f: &mut fmt::Formatter<'_>, field: Field, matches: &Match) -> fmt::Result {
    let (value, mask) = matches.get(field);
    write!(f, "{}=", name(field, matches.exact(Field::IpProtocol)))?;
    match field {
        Field::EthType => write!(f, "{value:#06x}"),
        Field::IpFragment if mask == 1 => f.write_str(if value == 1 { "yes" } else { "no" }),
        _ if mask == field.all() && !matches!(field, Field::Vlan | Field::TcpFlags) => {
            write_value(f, field, value)
        }
        _ => {
            write_value(f, field, value)?;
            f.write_char('/')?;
            write_value(f, field, mask)
        }
    }
}

fn write_value(f: &mut fmt::Formatter<'_>, field: Field, value: u128) -> fmt::Result {
    match field {
        Field::EthDst | Field::EthSrc => {
            let [.., a, b, c, d, e, last] = value.to_be_bytes();
            write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{last:02x}")
        }
        Field::Ipv4Src | Field::Ipv4Dst => write!(f, "{}", Ipv4Addr::from(value as u32)),
        Field::Ipv6Src | Field::Ipv6Dst => write!(f, "{}", Ipv6Addr::from(value)),
        Field::Vlan | Field::TcpFlags | Field::PortSrc | Field::PortDst => write!(f, "{value:#x}"),
        _ => write!(f, "{value}"),
    }
}

/// The name of a field in packets of this protocol.
fn name(field: Field, protocol: Option<u128>) -> &'static str {
    match (field, protocol) {
        (Field::EthDst, _) => "eth_dst",
        (Field::EthSrc, _) => "eth_src",
        (Field::Vlan, _) => "vlan_vid",
        (Field::EthType, _) => "eth_type",
        (Field::IpDscp, _) => "ip_dscp",
        (Field::IpEcn, _) => "ip_ecn",
        (Field::IpProtocol, _) => "ip_proto",
        (Field::Ipv4Src, _) => "ip_src",
        (Field::Ipv4Dst, _) => "ip_dst",
        (Field::Ipv6Src, _) => "ipv6_src",
        (Field::Ipv6Dst, _) => "ipv6_dst",
        (Field::PortSrc, Some(UDP)) => "udp_src",
        (Field::PortSrc, Some(SCTP)) => "sctp_src",
        (Field::PortSrc, _) => "tcp_src",
        (Field::PortDst, Some(UDP)) => "udp_dst",
        (Field::PortDst, Some(SCTP)) => "sctp_dst",
        (Field::PortDst, _) => "tcp_dst",
        (Field::IcmpType, Some(ICMP6)) => "icmpv6_type",
        (Field::IcmpType, _) => "icmp_type",
        (Field::IcmpCode, Some(ICMP6)) => "icmpv6_code",
        (Field::IcmpCode, _) => "icmp_code",
        (Field::TcpFlags, _) => "tcp_flags",
        (Field::IpTtl, _) => "nw_ttl",
        (Field::IpFragment, _) => "ip_frag",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule_table::words::{IPV4, IPV6, TCP};

    #[test]
    fn matches_are_written_as_ovs_reads_them() {
        let ip = Match::of(Field::EthType, IPV4);
        let tcp = ip.and(Field::IpProtocol, TCP, 0xff).unwrap();
        let web = tcp.and(Field::PortDst, 80, 0xffff).unwrap();
        let web = web.and(Field::Ipv4Src, 0x0a00_0000, 0xff00_0000).unwrap();
        for (matches, text) in [
            (Match::ANY, ""),
            (web, "eth_type=0x0800,ip_proto=6,ip_src=10.0.0.0/255.0.0.0,tcp_dst=0x50"),
            (
                tcp.and(Field::TcpFlags, 2, 0x12).unwrap(),
                "eth_type=0x0800,ip_proto=6,tcp_flags=0x2/0x12",
            ),
            (ip.and(Field::IpFragment, 1, 1).unwrap(), "eth_type=0x0800,ip_frag=yes"),
            (Match::ANY.and(Field::Vlan, 0x1000, 0x1000).unwrap(), "vlan_vid=0x1000/0x1000"),
            (Match::of(Field::EthDst, 0x0200_0000_00ff), "eth_dst=02:00:00:00:00:ff"),
            (
                Match::of(Field::EthType, IPV6).and(Field::Ipv6Dst, 1 << 127, 1 << 127).unwrap(),
                "eth_type=0x86dd,ipv6_dst=8000::/8000::",
            ),
        ] {
            assert_eq!(matches.to_string(), text);
        }
    }
}

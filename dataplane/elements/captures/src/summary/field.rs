//! The fields that a summary line may have, by their names.

use thruway_element::text::{split_words, unquote_text};
use thruway_wire::icmp_names;

macro_rules! fields {
    ($($variant:ident = $name:literal $(| $synonym:literal)*),+ $(,)?) => {
        /// A field of a summary line.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Field { $($variant),+ }

        /// Every name, with its field; of a field, the name that headers show comes first.
        const NAMES: &[(&str, Field)] =
            &[$(($name, Field::$variant), $(($synonym, Field::$variant),)*)+];
    };
}

fields! {
    None = "none",
    Timestamp = "timestamp" | "ts" | "utimestamp",
    NanoTimestamp = "ntimestamp",
    Seconds = "ts_sec" | "sec",
    Microseconds = "ts_usec" | "usec",
    AllMicroseconds = "ts_usec1" | "usec1",
    IpSrc = "ip_src",
    IpDst = "ip_dst",
    IpLen = "ip_len" | "length",
    IpProto = "ip_proto" | "ip_p",
    IpHl = "ip_hl",
    IpId = "ip_id",
    IpTos = "ip_tos",
    IpDscp = "ip_dscp",
    IpEcn = "ip_ecn",
    IpTtl = "ip_ttl",
    IpSum = "ip_sum",
    IpFrag = "ip_frag",
    IpFragOff = "ip_fragoff",
    IpOpt = "ip_opt",
    IpCaptureLen = "ip_capture_len",
    Sport = "sport",
    Dport = "dport",
    TcpSeq = "tcp_seq" | "tcp_seqno",
    TcpAck = "tcp_ack" | "tcp_ackno",
    TcpOff = "tcp_off",
    TcpFlags = "tcp_flags",
    TcpOpt = "tcp_opt",
    TcpNtOpt = "tcp_ntopt",
    TcpSack = "tcp_sack",
    TcpWindow = "tcp_window" | "tcp_win",
    TcpUrp = "tcp_urp",
    UdpLen = "udp_len",
    IcmpType = "icmp_type",
    IcmpCode = "icmp_code",
    IcmpTypeName = "icmp_type_name",
    IcmpCodeName = "icmp_code_name",
    IcmpFlowId = "icmp_flowid",
    IcmpSeq = "icmp_seq" | "icmp_seqno",
    IcmpNextMtu = "icmp_nextmtu",
    Payload = "payload",
    PayloadLen = "payload_len" | "payload_length",
    PayloadMd5 = "payload_md5",
    PayloadMd5Hex = "payload_md5_hex",
    Count = "count" | "pkt_count" | "packet_count",
    Direction = "direction",
    Link = "link" | "paint",
    Aggregate = "aggregate" | "agg",
    EthSrc = "eth_src",
    EthDst = "eth_dst",
    WireLen = "wire_len",
    Thread = "thread",
}

impl Field {
    /// The field called `word`, where blanks may stand for underscores and `ip_` may be left out.
    pub(crate) fn find(word: &str) -> Option<Field> {
        let word = word.replace(' ', "_");
        let named = |word: &str| NAMES.iter().find(|row| row.0 == word).map(|row| row.1);
        named(&word).or_else(|| named(&format!("ip_{word}")))
    }

    /// The name that headers show.
    pub(crate) fn name(self) -> &'static str {
        NAMES.iter().find(|row| row.1 == self).map_or("none", |row| row.0)
    }

    /// The fields of a list of names; for a name that is none, `unknown` is reported.
    pub(crate) fn list(text: &str, mut unknown: impl FnMut(String)) -> Vec<Field> {
        let word = |word: &str| {
            let word = unquote_text(word);
            Field::find(&word).unwrap_or_else(|| {
                unknown(word);
                Field::None
            })
        };
        split_words(text).into_iter().map(word).collect()
    }

    /// The error for an unknown name.
    pub(crate) fn unknown(word: &str) -> String {
        let mut names: Vec<&str> = NAMES.iter().map(|row| row.0).collect();
        names.sort_unstable();
        format!("unknown field '{word}'; there are {}", names.join(", "))
    }
}

/// The name of an ICMP type, or its number.
pub(super) fn icmp_type_name(kind: u8) -> String {
    named(icmp_names::TYPES, kind)
}

/// The ICMP type of a name or number.
pub(super) fn icmp_type(text: &str) -> Option<u8> {
    icmp_names::number(icmp_names::TYPES, text).or_else(|| text.parse().ok())
}

/// The name of an ICMP code of a type, or its number.
pub(super) fn icmp_code_name(kind: u8, code: u8) -> String {
    named(icmp_names::codes(kind), code)
}

/// The ICMP code of a name (of the given type) or number.
pub(super) fn icmp_code(kind: u8, text: &str) -> Option<u8> {
    icmp_names::number(icmp_names::codes(kind), text).or_else(|| text.parse().ok())
}

fn named(names: &[icmp_names::Name], number: u8) -> String {
    let name = icmp_names::name(names, number);
    name.map_or_else(|| number.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_any_of_their_names() {
        for (name, field) in NAMES {
            assert_eq!(Field::find(name), Some(*field));
            assert_eq!(Field::find(field.name()), Some(*field));
        }
        assert_eq!(Field::find("tcp seq"), Some(Field::TcpSeq));
        assert_eq!(Field::find("src"), Some(Field::IpSrc));
        let mut unknown = Vec::new();
        let fields = Field::list("ip_src 'tcp seq' bogus", |word| unknown.push(word));
        assert_eq!(fields, [Field::IpSrc, Field::TcpSeq, Field::None]);
        assert_eq!(unknown, ["bogus"]);
    }

    #[test]
    fn icmp_names_and_numbers_convert_in_both_directions() {
        for kind in 0..=255 {
            assert_eq!(icmp_type(&icmp_type_name(kind)), Some(kind));
            for code in 0..20 {
                assert_eq!(icmp_code(kind, &icmp_code_name(kind, code)), Some(code));
            }
        }
    }
}

//! What is reported on a rule that matched: lines of JSON, as Suricata's `eve.json` has them.

mod json;
mod time;

use std::net::IpAddr;

use crate::rules::{About, App, Buffer, Compiled, Facts, HeadParts, Side};
use json::Object;
pub use time::rfc3339;

/// Longest value of a header that is reported, bytes; the rest is left out.
pub const VALUE_BYTES_MAX: usize = 1024;

/// A rule that matched.
#[derive(Debug, Clone, Copy)]
pub struct Alert<'a> {
    /// When, nanoseconds since the Unix epoch.
    pub now: i64,
    /// The session's number; the same for both directions.
    pub flow_id: u64,
    /// Of the packet that made it match.
    pub facts: &'a Facts,
    /// What the session speaks.
    pub app: App,
    /// The rule.
    pub rule: &'a Compiled,
    /// What its class is called; empty where it has none.
    pub category: &'a str,
    /// The packet or session does not go on.
    pub is_blocked: bool,
    /// The current message.
    pub http: Option<&'a HeadParts>,
}

impl Alert<'_> {
    /// Appends the event as one line. Every byte of what was sent is escaped such that the line is
    /// JSON in ASCII (and harmless on a terminal), whatever was sent: what is not UTF-8 becomes
    /// U+FFFD.
    pub fn write(&self, out: &mut String) {
        let facts = self.facts;
        let mut event = Object::begin(out);
        event.text("timestamp", &rfc3339(self.now));
        event.number("flow_id", self.flow_id);
        event.text("event_type", "alert");
        event.text("src_ip", &facts.source.to_string());
        event.text("dest_ip", &facts.destination.to_string());
        if facts.source_port != 0 || facts.destination_port != 0 {
            event.number("src_port", facts.source_port.into());
            event.number("dest_port", facts.destination_port.into());
        }
        event.text("proto", &protocol(facts.protocol));
        if let Some(icmp) = &facts.icmp {
            event.number("icmp_type", icmp.icmp_type().into());
            event.number("icmp_code", icmp.code().into());
        }
        if self.app != App::Unknown {
            event.text("app_proto", self.app.name());
        }
        event.text(
            "direction",
            match facts.side {
                Side::ToServer => "to_server",
                Side::ToClient => "to_client",
            },
        );
        self.alert(&mut event);
        if let Some(head) = self.http {
            http(head, &mut event);
        }
        event.end();
        out.push('\n');
    }

    fn alert(&self, event: &mut Object<'_>) {
        let About { sid, gid, rev, msg, .. } = &self.rule.about;
        let mut alert = event.object("alert");
        alert.text("action", if self.is_blocked { "blocked" } else { "allowed" });
        alert.number("gid", (*gid).into());
        alert.number("signature_id", (*sid).into());
        alert.number("rev", (*rev).into());
        alert.text("signature", msg);
        alert.text("category", self.category);
        alert.number("severity", self.rule.priority.into());
        alert.end();
    }
}

/// As Suricata calls them; others by number.
fn protocol(number: u8) -> String {
    match number {
        1 => "ICMP".to_owned(),
        6 => "TCP".to_owned(),
        17 => "UDP".to_owned(),
        47 => "GRE".to_owned(),
        58 => "IPv6-ICMP".to_owned(),
        132 => "SCTP".to_owned(),
        number => number.to_string(),
    }
}

/// What is reported on a message.
const HTTP: [(&str, Buffer); 8] = [
    ("hostname", Buffer::HttpHost),
    ("url", Buffer::HttpRawUri),
    ("http_user_agent", Buffer::HttpUserAgent),
    ("http_content_type", Buffer::HttpContentType),
    ("http_refer", Buffer::HttpReferer),
    ("http_method", Buffer::HttpMethod),
    ("protocol", Buffer::HttpProtocol),
    ("redirect", Buffer::HttpLocation),
];

fn http(head: &HeadParts, event: &mut Object<'_>) {
    let mut http = event.object("http");
    for (name, buffer) in HTTP {
        if let Some(value) = head.get(buffer) {
            http.bytes(name, &value[..value.len().min(VALUE_BYTES_MAX)]);
        }
    }
    let status = head.get(Buffer::HttpStatCode).and_then(|code| std::str::from_utf8(code).ok());
    if let Some(status) = status.and_then(|code| code.parse::<u16>().ok()) {
        http.number("status", status.into());
    }
    http.end();
}

/// A number for a session that is the same for both directions: of its ends and protocol.
pub fn flow_id(facts: &Facts) -> u64 {
    let end = |address: IpAddr, port: u16| {
        let bits = match address {
            IpAddr::V4(address) => u128::from(address.to_bits()),
            IpAddr::V6(address) => address.to_bits(),
        };
        (bits, port)
    };
    let mut ends =
        [end(facts.source, facts.source_port), end(facts.destination, facts.destination_port)];
    ends.sort_unstable();
    // FNV-1a (its offset and prime for 64 bits), of which 53 bits are kept: readers of JSON may
    // take numbers for doubles (RFC 8259, 6).
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let mut mix = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    for (bits, port) in ends {
        bits.to_be_bytes().into_iter().chain(port.to_be_bytes()).for_each(&mut mix);
    }
    mix(facts.protocol);
    hash >> 11
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::rules::{Found, Inspector, Kind, Limits, Piece, RuleSet, Session, Variables};

    #[test]
    fn an_alert_is_a_line() {
        let rule = "alert http any any -> any any (msg:\"a \\\"b\\\" \u{202e}\"; \
                    content:\"/x\"; http_uri; classtype:t; priority:2; sid:7; rev:3;)";
        let set = RuleSet::load(rule.as_bytes(), &Variables::usual()).unwrap();
        let mut packet = vec![0u8; 40];
        (packet[0], packet[9], packet[32]) = (0x45, 6, 0x50);
        packet[12..24].copy_from_slice(&[10, 0, 0, 1, 192, 0, 2, 1, 4, 0, 0, 80]);
        let facts = Facts::of(&packet).unwrap();
        let limits = Limits { slots: 1, ..Limits::default() };
        let mut inspector = Inspector::new(Arc::new(set), limits);
        let (mut session, mut found) = (Session::default(), Found::default());
        let bytes = b"GET /x\xff\x1b HTTP/1.1\r\nHost: A\"B\r\n\r\n";
        let piece =
            Piece { facts: &facts, bytes, kind: Kind::Head, now: 1_790_000_000_123_456_789 };
        inspector.stream(&mut session, piece, &mut found);
        assert_eq!(found.alerts, [0]);
        let mut out = String::new();
        let alert = Alert {
            now: piece.now,
            flow_id: flow_id(&facts),
            facts: &facts,
            app: session.app(),
            rule: &inspector.set().rules()[0],
            category: "Trojan",
            is_blocked: false,
            http: inspector.message(),
        };
        alert.write(&mut out);
        let wanted = concat!(
            r#"{"timestamp":"2026-09-21T14:13:20.123456Z","flow_id":FLOW,"event_type":"alert","#,
            r#""src_ip":"10.0.0.1","dest_ip":"192.0.2.1","src_port":1024,"dest_port":80,"#,
            r#""proto":"TCP","app_proto":"http","direction":"to_server","alert":{"#,
            r#""action":"allowed","gid":1,"signature_id":7,"rev":3,"signature":"a \"b\" \u202e","#,
            r#""category":"Trojan","severity":2},"http":{"hostname":"a\"b","#,
            r#""url":"/x\ufffd\u001b","http_method":"GET","protocol":"HTTP/1.1"}}"#,
            "\n"
        );
        assert_eq!(out, wanted.replace("FLOW", &flow_id(&facts).to_string()));
        let mut back = facts;
        (back.source, back.destination) = (facts.destination, facts.source);
        (back.source_port, back.destination_port) = (facts.destination_port, facts.source_port);
        assert_eq!(flow_id(&facts), flow_id(&back));
        back.source_port += 1;
        assert_ne!(flow_id(&facts), flow_id(&back));
    }
}

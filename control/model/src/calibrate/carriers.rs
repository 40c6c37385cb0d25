//! For each elementary operation a *carrier*: a small configuration that does it so many times more
//! often per packet than its base does.
//!
//! Bases have other elements (`Null`, which does nothing) in the places of those that are measured,
//! so what is left is without dispatch. What an operation costs includes the loop over the batch in
//! which it is done.

use thruway_element::cost::Operation as Op;

use super::traffic::{MORE_LINES, Traffic};

/// How an operation is measured.
#[derive(Debug, Clone, Copy)]
pub struct Carrier {
    /// Which.
    pub operation: Op,
    /// What does it, between a source and a sink.
    with: &'static str,
    /// The same without; empty where the difference is to nothing at all.
    base: &'static str,
    /// What stands once in front of both.
    front: &'static str,
    /// Times that `with` and `base` stand one after the other.
    copies: usize,
    /// How much more often one `with` does it than one `base`.
    times: f64,
    /// What else one `with` does more than one `base`; carriers of these come before.
    pub also: &'static [(Op, f64)],
    traffic: Traffic,
    base_traffic: Traffic,
}

impl Carrier {
    const fn of(operation: Op, with: &'static str) -> Carrier {
        Carrier {
            operation,
            with,
            base: "Null",
            front: "",
            copies: 8,
            times: 1.0,
            also: &[],
            traffic: Traffic::Short,
            base_traffic: Traffic::Short,
        }
    }

    const fn behind(self, front: &'static str) -> Carrier {
        Carrier { front, ..self }
    }

    const fn also(self, also: &'static [(Op, f64)]) -> Carrier {
        Carrier { also, ..self }
    }

    const fn times(self, times: f64) -> Carrier {
        Carrier { times, ..self }
    }

    const fn copied(self, copies: usize) -> Carrier {
        Carrier { copies, ..self }
    }

    const fn over(self, base: &'static str) -> Carrier {
        Carrier { base, ..self }
    }

    const fn with(self, traffic: Traffic) -> Carrier {
        Carrier { traffic, base_traffic: traffic, ..self }
    }

    /// How often a packet has it done more than in the base.
    pub fn more_often(&self) -> f64 {
        self.times * self.copies as f64
    }

    /// What else a packet has done more often.
    pub fn beside(&self) -> impl Iterator<Item = (Op, f64)> {
        self.also.iter().map(|(operation, times)| (*operation, times * self.copies as f64))
    }

    /// The configuration that does it.
    pub fn text(&self, burst: usize) -> String {
        text(self.traffic, &[self.front, &self.chain(self.with)], burst)
    }

    /// The configuration that does not; none where the difference is to nothing.
    pub fn base_text(&self, burst: usize) -> Option<String> {
        let is_nothing = self.base == NOTHING;
        let text = || text(self.base_traffic, &[self.front, &self.chain(self.base)], burst);
        (!is_nothing).then(text)
    }

    fn chain(&self, one: &str) -> String {
        if one.is_empty() { String::new() } else { vec![one; self.copies].join(" -> ") }
    }
}

fn text(traffic: Traffic, chain: &[&str], burst: usize) -> String {
    let source = traffic.source(burst);
    let chain: Vec<&str> = ["source"]
        .iter()
        .chain(chain)
        .chain(&["out"])
        .copied()
        .filter(|it| !it.is_empty())
        .collect();
    format!("{source}out :: Discard;\n{};\n", chain.join(" -> "))
}

/// A base that costs nothing: not even packets are made.
const NOTHING: &str = "nothing";

/// A switch that knows its stations.
const SWITCH_FIXED: &str = "{ s :: EtherSwitch(TIMEOUT 0); Script(write s.add 2:0:0:0:0:2 1); \
    input -> s; Idle -> [1] s; s[1] -> output; s[0] -> Discard }";
/// The same, which learns where frames come from.
const SWITCH: &str = "{ s :: EtherSwitch; Script(write s.add 2:0:0:0:0:2 1); \
    input -> s; Idle -> [1] s; s[1] -> output; s[0] -> Discard }";

/// Five clauses that all packets fulfil, none of them in words that others look at.
const PATTERN_LONG: &str = "{ input -> c :: Classifier(12/0800 14/45 16/0032 22/fa11 36/01bb, -) \
    -> output; c[1] -> output }";
const PATTERN_SHORT: &str = "{ input -> c :: Classifier(12/0800, -) -> output; c[1] -> output }";

/// The same of fields.
const FIELDS_LONG: &str = "{ input -> c :: IPClassifier(udp and dst net 192.0.2.0/24 \
    and dst port 443 and ip ttl > 10 and src net 10.0.0.0/8, -) -> output; c[1] -> output }";
const FIELDS_SHORT: &str = "{ input -> c :: IPClassifier(udp, -) -> output; c[1] -> output }";

const CLASSES: &str = "FlowClassifier -> { input -> d :: FlowDispatcher(tcp, udp dst port 443, -) \
    -> output; d[1] -> output; d[2] -> output }";

/// Sessions are found, and opened by the first round of a trace alone.
const SESSIONS: &str = "FlowClassifier(SESSIONS_MAX 2048, EMBRYONIC_MAX 2048)";
const SESSIONS_KEPT: &str = "FlowClassifier(SESSIONS_MAX 2048, EMBRYONIC_MAX 2048) -> SessionStats";
/// There is room for few of the sessions, so each packet opens one and ends another.
const SESSIONS_OPENED: &str = "FlowClassifier(SESSIONS_MAX 128, EMBRYONIC_MAX 128) -> SessionStats";

const TRANSLATED: &str = "{ n :: NAT(SNAT 10.0.0.0/8 -> 203.0.113.0-203.0.113.63); \
    input -> n -> output; Idle -> [1] n; n[1] -> Discard }";

const STREAM: &str = "FlowClassifier -> SessionStats";
/// Looks at lengths and counts.
const LOOKED_AT: &str = "TCPIn -> PayloadStats -> TCPOut";

/// Numbers are mapped in both, since messages in TCP want it.
const HEADS: &str = "TCPIn -> WordMatcher(attack, MODE REMOVE) -> HTTPIn -> HTTPOut -> TCPOut";
const NO_HEADS: &str =
    "TCPIn -> WordMatcher(attack, MODE REMOVE) -> PayloadStats -> PayloadStats -> TCPOut";

/// Every operation that is measured, in an order such that what is subtracted was measured before.
#[rustfmt::skip]
pub const CARRIERS: &[Carrier] = &[
    Carrier::of(Op::Dispatch, "Null").over(""),
    Carrier::of(Op::Visit, "Truncate(65535)"),
    Carrier { base_traffic: Traffic::Short,
        ..Carrier::of(Op::CopyLine, "Null").copied(1).with(Traffic::Long).times(MORE_LINES) },
    // Of the source and of the sink.
    Carrier::of(Op::Make, "").copied(1).over(NOTHING)
        .also(&[(Op::Dispatch, 2.0), (Op::CopyLine, 1.0)]),
    Carrier::of(Op::Clone, "{ input -> t :: Tee -> output; t[1] -> Discard }")
        .also(&[(Op::Dispatch, 1.0), (Op::CopyLine, 1.0)]),
    Carrier::of(Op::Sort, "{ input -> s :: RoundRobinSwitch -> output; s[1] -> output }"),
    Carrier::of(Op::Store, "Queue(512) -> Unqueue(-1)").over("Null -> Null").copied(2),
    Carrier::of(Op::Annotate, "Paint(1)"),
    Carrier::of(Op::Count, "Counter"),
    Carrier::of(Op::Clock, "SetTimestamp"),
    // All but one of a thousand million pass.
    Carrier::of(Op::Random, "RandomSample(0.999999999)"),
    // Half of the packets leave by another output than the one before.
    Carrier::of(Op::Surprise, "{ input -> s :: RandomSwitch -> output; s[1] -> output }")
        .over("{ input -> s :: RoundRobinSwitch -> output; s[1] -> output }")
        .times(0.5).also(&[(Op::Random, 1.0)]),
    Carrier::of(Op::Format, "IPPrint").copied(1),
    Carrier::of(Op::HeaderMove, "Strip(4) -> Unstrip(4)").over("Null -> Null").times(2.0),
    Carrier::of(Op::HeaderRead, "HostEtherFilter(2:0:0:0:0:2)"),
    Carrier::of(Op::HeaderWrite, "EtherRewrite(2:0:0:0:0:3, 2:0:0:0:0:4)"),
    Carrier::of(Op::HeaderCheck, "CheckIPHeader2(14)"),
    Carrier::of(Op::ChecksumIp, "CheckIPHeader(14)").over("CheckIPHeader2(14)"),
    Carrier::of(Op::ChecksumLine, "SetUDPChecksum").copied(4).with(Traffic::Long)
        .times(LINES_SUMMED)
        .also(&[(Op::HeaderCheck, 1.0), (Op::HeaderRead, 1.0), (Op::ChecksumIp, 1.0), (Op::HeaderWrite, 1.0)]),
    Carrier::of(Op::TtlDecrement, "DecIPTTL"),
    Carrier::of(Op::ClassifyPattern, PATTERN_LONG).over(PATTERN_SHORT).times(4.0),
    // Protocol and ports are looked at again, and whether there are any.
    Carrier::of(Op::ClassifyIp, FIELDS_LONG).over(FIELDS_SHORT).times(7.0),
    Carrier::of(Op::ArrayLookup, "{ input -> s :: PaintSwitch -> output; s[1] -> output }"),
    Carrier::of(Op::HashLookup, SWITCH_FIXED).copied(4).also(&[(Op::HeaderRead, 1.0)]),
    Carrier::of(Op::HashLearn, SWITCH).over(SWITCH_FIXED).copied(4),
    Carrier::of(Op::RouteLookup, "StaticIPLookup(0.0.0.0/0 0, 10.0.0.0/8 0, 192.0.2.0/24 0)"),
    Carrier::of(Op::RouteLookup6, "LookupIP6Route(::/0 0, 2001:db8::/32 0, 2001:db8:1::/48 0)")
        .with(Traffic::Ip6),
    Carrier::of(Op::HeaderParse, "FlowClassifier").copied(1),
    Carrier::of(Op::Classify, CLASSES).over("FlowClassifier -> Null").copied(1)
        .also(&[(Op::Sort, 1.0)]),
    Carrier::of(Op::SessionState, "SessionStats").copied(4).behind(SESSIONS_KEPT),
    Carrier::of(Op::SessionLookup, "SessionStats").copied(1).behind(SESSIONS)
        .also(&[(Op::SessionState, 1.0)]),
    Carrier::of(Op::SessionOpen, SESSIONS_OPENED).over(SESSIONS_KEPT).copied(1)
        .with(Traffic::Many),
    Carrier::of(Op::RewriteIp, TRANSLATED).copied(1).behind(SESSIONS_KEPT)
        .also(&[(Op::SessionState, 1.0)]),
    Carrier::of(Op::StreamFollow, "TCPIn -> TCPOut").over("Null -> Null").copied(1).behind(STREAM)
        .with(Traffic::Connection).also(&[(Op::SessionState, 2.0)]),
    Carrier::of(Op::StreamOrder, "TCPIn -> PayloadStats(ORDER true) -> TCPOut").over(LOOKED_AT)
        .copied(1).behind(STREAM).with(Traffic::Connection),
    Carrier::of(Op::StreamMap, "TCPIn -> WordMatcher(attack, MODE REMOVE) -> TCPOut")
        .over("TCPIn -> WordMatcher(attack, MODE ALERT) -> TCPOut")
        .copied(1).behind(STREAM).with(Traffic::Connection),
    Carrier::of(Op::HttpHead, HEADS).over(NO_HEADS)
        .copied(1).behind(STREAM).with(Traffic::Requests),
    Carrier::of(Op::MatchLine, "UDPIn -> WordMatcher(attack, virus, MODE ALERT) -> UDPOut")
        .over("UDPIn -> PayloadStats -> UDPOut")
        .copied(1).behind(SESSIONS_KEPT).with(Traffic::Long).times(LINES_SUMMED),
];

/// Lines of the payload of a long packet.
const LINES_SUMMED: f64 = 1472.0 / 64.0;

/// Operations that no carrier can measure, and why.
pub const UNCALIBRATED: &[(Op, &str)] = &[
    (Op::PortReceive, "it is the kernel's and the interface's: measure it on the interface"),
    (Op::PortSend, "it is the kernel's and the interface's: measure it on the interface"),
];

#[cfg(test)]
mod tests {
    use super::super::workload::{Counts, Workload};
    use super::*;
    use thruway_element::Load;

    #[test]
    fn every_operation_has_one_carrier_or_a_reason_to_have_none() {
        for operation in Op::ALL {
            // Those have chains of their own; see `isolation`.
            if operation.is_of_isolation() {
                continue;
            }
            let carriers = CARRIERS.iter().filter(|it| it.operation == *operation).count();
            let reasons = UNCALIBRATED.iter().filter(|(it, _)| it == operation).count();
            assert_eq!(
                carriers + reasons,
                1,
                "{}: give it a carrier in CARRIERS, or a reason in UNCALIBRATED",
                operation.name()
            );
        }
    }

    #[test]
    fn what_is_subtracted_was_measured_before() {
        for (nth, carrier) in CARRIERS.iter().enumerate() {
            for (also, _) in carrier.also {
                let before = CARRIERS[..nth].iter().any(|it| it.operation == *also);
                assert!(before, "{}: {} comes later", carrier.operation.name(), also.name());
            }
        }
    }

    /// Otherwise an estimate counts twice what was measured once, or misses it.
    #[test]
    fn what_elements_say_is_what_is_measured() {
        let mut wrong = String::new();
        for carrier in CARRIERS {
            let says = |text: String, traffic: Traffic, opening: f64| {
                let mut workload = Workload::new(carrier.operation.name(), &text).unwrap();
                let load = Load { opening, ..traffic.load() };
                workload.declared(&load).unwrap()
            };
            let opening = f64::from(u8::from(carrier.operation == Op::SessionOpen));
            let with = says(carrier.text(32), carrier.traffic, opening);
            let base = carrier.base_text(32).map(|text| says(text, carrier.base_traffic, 0.0));
            let base = base.unwrap_or_default();
            let mut measured = Counts::from([(carrier.operation, carrier.more_often())]);
            carrier.beside().for_each(|(op, times)| *measured.entry(op).or_default() += times);
            for operation in Op::ALL {
                let of = |counts: &Counts| counts.get(operation).copied().unwrap_or(0.0);
                let (said, is) = (of(&with) - of(&base), of(&measured));
                // Queues and connections are never quite empty.
                if (said - is).abs() > 0.1 * is.max(1.0) {
                    let names = (carrier.operation.name(), operation.name());
                    wrong += &format!("{names:?}: said {said:.2} times, measured {is:.2}\n");
                }
            }
        }
        assert!(wrong.is_empty(), "{wrong}");
    }

    #[test]
    fn all_packets_come_through_every_carrier() {
        for carrier in CARRIERS {
            for text in [Some(carrier.text(32)), carrier.base_text(32)].into_iter().flatten() {
                let name = carrier.operation.name();
                let mut workload = Workload::new(name, &text).unwrap_or_else(|why| panic!("{why}"));
                // More packets than queues can hold, all of which have to arrive.
                for _ in 0..6 {
                    workload.run(0.0).unwrap_or_else(|why| panic!("{why}"));
                }
            }
        }
    }
}

//! The firewall against rules that are walked one by one and a plain map of sessions.

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;
use thruway_element::{PerSession, Reason, Verdict};
use thruway_wire::flow::FiveTuple;
use thruway_wire::tcp::flags::{ACK, RST, SYN};

use super::guard::NO_RULE;
use super::*;
use crate::alone::{Table, Tuple, marked};
use crate::plain::{Plain, error_about};
use thruway_elements_rig::Rig;

const LAN: u32 = 0x0a00_0000;
const WAN: u32 = 0xc000_0200;

/// A rule with a meaning that the test knows by itself.
#[derive(Clone, Copy, Debug)]
struct Known {
    from_outside: bool,
    allow: bool,
    /// Last byte of the source's address and the destination's port.
    source: Option<u8>,
    port: Option<u16>,
}

impl Known {
    fn text(&self) -> String {
        let side = if self.from_outside { "IN " } else { "" };
        let action = if self.allow { "allow" } else { "deny" };
        let net = if self.from_outside { WAN } else { LAN };
        let mut tests = Vec::new();
        tests.extend(self.source.map(|last| {
            let addr = std::net::Ipv4Addr::from(net + u32::from(last));
            format!("src host {addr}")
        }));
        tests.extend(self.port.map(|port| format!("dst port {port}")));
        let pattern = if tests.is_empty() { "all".to_owned() } else { tests.join(" and ") };
        format!("{side}{action} {pattern}")
    }

    fn matches(&self, tuple: &Tuple, from_outside: bool) -> bool {
        self.from_outside == from_outside
            && self.source.is_none_or(|last| tuple.src & 0xff == u32::from(last))
            && self.port.is_none_or(|port| tuple.dst_port == port)
    }
}

/// The first rule that matches, and whether it allows.
fn walk(rules: &[Known], tuple: &Tuple, outside: bool) -> Option<(usize, bool)> {
    let place = rules.iter().position(|rule| rule.matches(tuple, outside))?;
    Some((place, rules[place].allow))
}

fn policy(rules: &[Known]) -> Arc<Policy> {
    let texts = rules.iter().map(Known::text).collect();
    Arc::new(
        Policy::compile(texts, "fw", &Names::default())
            .unwrap_or_else(|mistakes| panic!("{mistakes:?}")),
    )
}

const SETTINGS: Settings =
    Settings { pickup: false, stateless: false, recheck: false, ip6: [false; 2] };

/// An event for the firewall.
#[derive(Clone, Debug)]
enum Event {
    /// A packet between an inside and an outside host.
    Packet { from_outside: bool, inside: u8, outside: u8, ports: (u16, u16), flags: u8 },
    /// An ICMP error about the same.
    Error { from_outside: bool, inside: u8, outside: u8, ports: (u16, u16) },
    /// Its session times out.
    End { inside: u8, outside: u8, ports: (u16, u16) },
    /// Other rules.
    Replace(Vec<Known>),
}

fn known() -> impl Strategy<Value = Known> {
    let source = proptest::option::of(0u8..3);
    let port = proptest::option::of(0u16..3);
    (any::<bool>(), any::<bool>(), source, port)
        .prop_map(|(from_outside, allow, source, port)| Known { from_outside, allow, source, port })
}

fn rules() -> impl Strategy<Value = Vec<Known>> {
    proptest::collection::vec(known(), 0..6)
}

fn event() -> impl Strategy<Value = Event> {
    let ends = (0u8..3, 0u8..3, (0u16..3, 0u16..3));
    let flags = prop_oneof![3 => Just(SYN), 2 => Just(ACK), 1 => Just(SYN | ACK), 1 => Just(RST)];
    prop_oneof![
        12 => (ends.clone(), any::<bool>(), flags).prop_map(
            |((inside, outside, ports), from_outside, flags)|
            Event::Packet { from_outside, inside, outside, ports, flags }),
        2 => (ends.clone(), any::<bool>()).prop_map(|((inside, outside, ports), from_outside)|
            Event::Error { from_outside, inside, outside, ports }),
        2 => ends.prop_map(|(inside, outside, ports)| Event::End { inside, outside, ports }),
        1 => rules().prop_map(Event::Replace),
    ]
}

/// The five-tuple from inside to outside.
fn outward(inside: u8, outside: u8, ports: (u16, u16)) -> Tuple {
    let (src, dst) = (LAN + u32::from(inside), WAN + u32::from(outside));
    FiveTuple { src, dst, src_port: ports.0, dst_port: ports.1, protocol: 6 }
}

/// A session that the oracle knows: whether it began outside, and which rules allowed it.
#[derive(Clone, Copy, Debug)]
struct Allowed {
    from_outside: bool,
    generation: usize,
    rule: usize,
}

/// The oracle.
#[derive(Default)]
struct Oracle {
    rules: Vec<Known>,
    generation: usize,
    pickup: bool,
    recheck: bool,
    /// By outward tuple.
    allowed: HashMap<Tuple, Allowed>,
}

impl Oracle {
    fn packet(&mut self, key: Tuple, from_outside: bool, flags: u8) -> Verdict {
        if let Some(session) = self.allowed.get(&key).copied() {
            if !self.recheck || session.generation == self.generation {
                return Verdict::Pass;
            }
            let forward = if session.from_outside { key.reversed() } else { key };
            return self.ask(key, &forward, session.from_outside);
        }
        let tuple = if from_outside { key.reversed() } else { key };
        if !self.pickup && flags != SYN {
            return Verdict::reject(2, Refused::NotSyn);
        }
        self.ask(key, &tuple, from_outside)
    }

    fn ask(&mut self, key: Tuple, tuple: &Tuple, from_outside: bool) -> Verdict {
        self.allowed.remove(&key);
        match walk(&self.rules, tuple, from_outside) {
            None => Verdict::reject(2, Refused::NoMatch),
            Some((_, false)) => Verdict::reject(2, Refused::Denied),
            Some((rule, true)) => {
                let generation = self.generation;
                self.allowed.insert(key, Allowed { from_outside, generation, rule });
                Verdict::Pass
            }
        }
    }

    /// Open sessions by rule, and those of earlier rules.
    fn counts(&self) -> (Vec<u64>, u64) {
        let mut by_rule = vec![0; self.rules.len()];
        let mut older = 0;
        for session in self.allowed.values() {
            match session.generation == self.generation {
                true => by_rule[session.rule] += 1,
                false => older += 1,
            }
        }
        (by_rule, older)
    }
}

/// Refusals of an opening and of a packet are one to the oracle.
fn plainly(verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Drop(reason) => Verdict::Reject(2, reason),
        other => other,
    }
}

proptest! {
    #[test]
    fn decisions_are_those_of_the_rules_and_are_kept(
        first in rules(), pickup in any::<bool>(), recheck in any::<bool>(),
        events in proptest::collection::vec(event(), 1..80),
    ) {
        let settings = Settings { pickup, recheck, ..SETTINGS };
        let mut table = Table::new(Guard::new(policy(&first), settings));
        let mut oracle = Oracle { rules: first, pickup, recheck, ..Oracle::default() };
        for event in events {
            match event {
                Event::Packet { from_outside, inside, outside, ports, flags } => {
                    let key = outward(inside, outside, ports);
                    let tuple = if from_outside { key.reversed() } else { key };
                    table.function.enter(usize::from(from_outside));
                    let (verdict, _) = table.push(&Plain::of(tuple, flags).written());
                    prop_assert_eq!(plainly(verdict), oracle.packet(key, from_outside, flags));
                }
                Event::Error { from_outside, inside, outside, ports } => {
                    let key = outward(inside, outside, ports);
                    let about = if from_outside { key } else { key.reversed() };
                    let quoted = Plain::of(about, ACK).written();
                    table.function.enter(usize::from(from_outside));
                    let (verdict, _) = table.push(&error_about(1, about.src, &quoted, 28));
                    prop_assert_eq!(verdict == Verdict::Pass, oracle.allowed.contains_key(&key));
                }
                Event::End { inside, outside, ports } => {
                    let key = outward(inside, outside, ports);
                    table.end_of(key);
                    oracle.allowed.remove(&key);
                }
                Event::Replace(rules) => {
                    table.function.replace(policy(&rules));
                    (oracle.rules, oracle.generation) = (rules, oracle.generation + 1);
                }
            }
            let counts = table.function.counts();
            let by_rule: Vec<u64> = counts.rules.iter().map(|rule| rule.sessions).collect();
            prop_assert_eq!((by_rule, counts.older), oracle.counts());
        }
        table.end_all();
        prop_assert_eq!(table.function.counts().open(), 0);
    }

    #[test]
    fn any_text_is_a_policy_or_a_mistake(texts in proptest::collection::vec(".{0,30}", 0..4)) {
            let count = texts.len();
        match Policy::compile(texts, "fw", &Names::default()) {
            Ok(policy) => prop_assert_eq!(policy.texts().len(), count),
            Err(mistakes) => {
                prop_assert!(mistakes.iter().all(|(rule, _)| rule.is_none_or(|at| at < count)));
            }
        }
    }
}

/// IPv6 with a SYN, or with another TCP packet.
fn ip6(flags: u8) -> Vec<u8> {
    let mut bytes = vec![0; 60];
    (bytes[0], bytes[5], bytes[6], bytes[40 + 13]) = (0x60, 20, 6, flags);
    bytes
}

#[test]
fn packets_without_a_session_are_refused_or_judged() {
    let rules = [Known { from_outside: false, allow: true, source: Some(1), port: None }];
    let mut guard = Guard::new(policy(&rules), SETTINGS);
    let tuple = outward(1, 1, (1, 1));
    let mut bytes = Plain::of(tuple, ACK).written();
    bytes[6] = 0x20; // more fragments
    let refused = |reason| Verdict::reject(2, reason);
    assert_eq!(guard.without(&mut marked(&bytes)), refused(Refused::NoSession));
    guard = Guard::new(policy(&rules), Settings { stateless: true, ..SETTINGS });
    assert_eq!(guard.without(&mut marked(&bytes)), Verdict::Pass);
    assert_eq!(guard.counts().rules[0].hits, 1);
    bytes[15] = 2;
    assert_eq!(guard.without(&mut marked(&bytes)), refused(Refused::NoMatch));
    assert_eq!(guard.without(&mut marked(&ip6(SYN))), refused(Refused::Ip6));
    // Bytes of an IPv6 header mean nothing to rules about IPv4, nor do those without a header.
    let mut unmarked = thruway_packet::Packet::new(&bytes).unwrap();
    assert_eq!(guard.without(&mut unmarked), refused(Refused::NoMatch));
}

/// The other direction's thread.
struct Other([u64; 4]);

impl thruway_element::Answers for Other {
    fn answer(&mut self, _: &Tuple) -> Result<(), thruway_element::NoAnswer> {
        Ok(())
    }
    fn answer6(&mut self, _: &FiveTuple<[u8; 16]>) -> Result<(), thruway_element::NoAnswer> {
        Ok(())
    }
    fn published(&self) -> Option<[u64; 4]> {
        Some(self.0)
    }
    fn publish(&mut self, _: &[u64]) {}
    fn session(&self) -> u32 {
        0
    }
    fn evict(&mut self, _: u32, _: &mut dyn FnMut(&mut [u8]) -> bool) -> bool {
        false
    }
}

fn open(guard: &mut Guard, bytes: &[u8], words: [u64; 4]) -> Result<Decision, Reason> {
    let mut state = Decision::default();
    let mut other = Other(words);
    let mut opening = thruway_element::Opening {
        direction: thruway_element::Direction::Reply,
        related: false,
        now: 0,
        answers: &mut other,
    };
    PerSession::open(guard, &mut opening, &mut marked(bytes), &mut state)?;
    Ok(state)
}

#[test]
fn another_threads_decision_holds_and_is_counted_there() {
    let rules = [Known { from_outside: false, allow: true, source: None, port: None }];
    let mut table = Table::new(Guard::new(policy(&rules), SETTINGS));
    let tuple = outward(1, 1, (1, 1));
    assert_eq!(table.push(&Plain::first(tuple).written()).0, Verdict::Pass);
    let words = table.published[&tuple];
    let mut replica = Guard::new(policy(&rules), SETTINGS);
    replica.enter(1);
    let reply = Plain::of(tuple.reversed(), SYN | ACK).written();
    let state = open(&mut replica, &reply, words).unwrap();
    assert_eq!(replica.counts().open(), 0);
    PerSession::close(&mut replica, &state, Ended::TimedOut);
    assert_eq!((replica.counts().open(), table.function.counts().open()), (0, 1));
}

#[test]
fn ip6_sessions_go_by_their_own_switch() {
    let rules = [Known { from_outside: false, allow: true, source: None, port: None }];
    for (ip6_allowed, inside, outside) in
        [([false; 2], false, false), ([true, false], true, false), ([true; 2], true, true)]
    {
        let settings = Settings { ip6: ip6_allowed, ..SETTINGS };
        let mut guard = Guard::new(policy(&rules), settings);
        for (port, allowed) in [(0, inside), (1, outside)] {
            guard.enter(port);
            let admitted = guard.admit(&marked(&ip6(SYN)), guard.side);
            assert_eq!(admitted, if allowed { Ok(NO_RULE) } else { Err(Refused::Ip6) });
            assert_eq!(guard.admit(&marked(&ip6(ACK)), guard.side), Err(Refused::NotSyn));
        }
    }
}

#[test]
fn arguments_and_handlers() {
    let built = |texts: &[&str]| Rig::new(&ENTRY, texts, 1).err().map(|errors| errors.to_string());
    assert_eq!(built(&["allow tcp", "IN allow tcp dst port 22", "PICKUP true", "IP6 out"]), None);
    let error = built(&["alow tcp", "IN allow src prot 80"]).unwrap();
    assert!(error.contains("'alow' is no action") && error.contains("did you mean 'port'"));
    assert!(built(&["allow all", "IP6 maybe"]).unwrap().contains("none of deny, out and any"));
    let mut rig = Rig::new(&ENTRY, &["allow tcp", "IN deny all"], 1).unwrap();
    assert_eq!(rig.read("rules", "").unwrap(), "allow tcp, IN deny all");
    rig.write("rules", "IN allow udp, OUT allow src net 10.0.0.0/8").unwrap();
    assert_eq!(rig.read("hits", "").unwrap(), "0\n0");
    assert!(rig.read("program", "").unwrap().contains("Sessions from input 1"));
    assert!(rig.write("rules", "allow tcp, IN nothing").is_err());
    assert_eq!(rig.read("rules", "").unwrap(), "IN allow udp, OUT allow src net 10.0.0.0/8");
}

#[test]
fn a_new_configuration_keeps_sessions_and_their_counts() {
    let [old, new] = [None, Some(7)]
        .map(|port| [Known { from_outside: false, allow: true, source: None, port }]);
    let (first, second) = (outward(1, 1, (1, 1)), outward(1, 1, (2, 1)));
    for (rules, same) in [(old, true), (new, false)] {
        let mut table = Table::new(Guard::new(policy(&old), SETTINGS));
        table.push(&Plain::first(first).written());
        let mut next = Guard::new(policy(&rules), SETTINGS);
        next.take_over(table.function.hand_over());
        // Later calls to the old one change nothing.
        PerSession::close(&mut table.function, &Decision::default(), Ended::Removed);
        assert_eq!(table.function.counts().open(), 0);
        table.function = next;
        assert_eq!(table.function.counts().older, u64::from(!same));
        assert_eq!(table.push(&Plain::of(first, ACK).written()).0, Verdict::Pass);
        let passes = table.push(&Plain::first(second).written()).0 == Verdict::Pass;
        assert_eq!((passes, table.function.counts().open()), (same, 1 + u64::from(same)));
        table.end_all();
        assert_eq!(table.function.counts().open(), 0);
    }
}

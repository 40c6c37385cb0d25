//! The firewall proper: which hosts may open a session, and the verdict on its packets.

use std::sync::Arc;

use thruway_element::{Answers, Direction, Opening, PerSession, Reason, Session, Verdict};
use thruway_flow::{Ended, PacketView};
use thruway_packet::Packet;
use thruway_wire::ip_protocol::TCP;
use thruway_wire::ipv6::Ipv6Header;
use thruway_wire::{ipv6_ext, tcp};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::policy::{Judgement, Policy, Side};
use super::refused::Refused;
use thruway_elements_ip::ip_filter::view;

/// Output for what is refused.
const REFUSED: usize = 2;

/// State of a session that was allowed.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub(super) struct Decision {
    /// Place of the rule that allowed it, or [`NO_RULE`], and the flags below.
    rule: u32,
    /// Which rules they were: how often they had been replaced.
    generation: u32,
}

/// The session began outside.
const OUTSIDE: u32 = 1 << 31;
/// Another thread's replica asked the rules, and counts the session.
const ELSEWHERE: u32 = 1 << 30;
/// It was opened by what the flow manager takes for a reply: packets in front had been refused.
const TURNED: u32 = 1 << 29;
/// IPv6: no rule was asked.
pub(super) const NO_RULE: u32 = (1 << 29) - 1;

/// In the place of the sum of a rule's text: it is no longer among the rules. No sum is even.
const EARLIER: u32 = 0;

impl Decision {
    fn side(self) -> Side {
        if self.rule & OUTSIDE == 0 { Side::Inside } else { Side::Outside }
    }

    /// The direction of the packet that opened it.
    fn direction(self) -> Direction {
        if self.rule & TURNED == 0 { Direction::Forward } else { Direction::Reply }
    }

    fn number(self) -> u32 {
        self.rule & NO_RULE
    }

    fn published(self) -> u64 {
        u64::from(self.rule) << 32 | u64::from(self.generation)
    }

    fn from_published(word: u64) -> Decision {
        Decision { rule: (word >> 32) as u32 | ELSEWHERE, generation: word as u32 }
    }
}

/// The user's choices.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// TCP sessions may begin without a SYN.
    pub(super) pickup: bool,
    /// Rules judge packets without a session.
    pub(super) stateless: bool,
    /// New rules are for open sessions too.
    pub(super) recheck: bool,
    /// Whether IPv6 sessions may begin, by side.
    pub(super) ip6: [bool; 2],
}

/// Counters of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RuleCounts {
    /// How often it decided.
    pub(super) hits: u64,
    /// Open sessions that it allowed.
    pub(super) sessions: u64,
}

/// Counters of all rules.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    /// By place, of the present rules.
    pub(super) rules: Vec<RuleCounts>,
    /// Open sessions that no rule was asked about.
    pub(super) unruled: u64,
    /// Open sessions of earlier rules.
    pub(super) older: u64,
}

impl Counts {
    /// Open sessions.
    pub(super) fn open(&self) -> u64 {
        self.rules.iter().map(|rule| rule.sessions).sum::<u64>() + self.unruled + self.older
    }
}

impl Counts {
    fn add(&mut self, other: &Counts) {
        for (own, other) in self.rules.iter_mut().zip(&other.rules) {
            own.hits += other.hits;
            own.sessions += other.sessions;
        }
        self.unruled += other.unruled;
        self.older += other.older;
    }
}

/// The state for a successor.
#[derive(Clone)]
pub(super) struct Kept {
    policy: Arc<Policy>,
    generation: u32,
    counts: Counts,
}

/// The firewall.
pub(super) struct Guard {
    policy: Arc<Policy>,
    generation: u32,
    settings: Settings,
    pub(super) side: Side,
    counts: Counts,
    /// What joined, and the counts before, for the case that this configuration does not begin.
    joined: Vec<Kept>,
    alone: Option<Counts>,
}

impl Guard {
    pub(super) fn new(policy: Arc<Policy>, settings: Settings) -> Guard {
        let rules = vec![RuleCounts::default(); policy.texts().len()];
        let counts = Counts { rules, ..Counts::default() };
        Guard {
            policy,
            generation: 0,
            settings,
            side: Side::Inside,
            counts,
            joined: Vec::new(),
            alone: None,
        }
    }

    /// The rules in force.
    pub(super) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The counters.
    pub(super) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Says at which input the packets to come are.
    pub(super) fn enter(&mut self, port: usize) {
        self.side = if port == 0 { Side::Inside } else { Side::Outside };
    }

    /// Gives up what is known of open sessions, for another guard to take.
    pub(super) fn hand_over(&mut self) -> Kept {
        let fresh = Guard::new(Arc::clone(&self.policy), self.settings);
        let Guard { policy, generation, counts, .. } = std::mem::replace(self, fresh);
        Kept { policy, generation, counts }
    }

    /// Takes over open sessions. Where the rules are others, they were allowed by earlier ones.
    pub(super) fn take_over(&mut self, kept: Kept) {
        let policy = std::mem::replace(&mut self.policy, kept.policy);
        (self.generation, self.counts) = (kept.generation, kept.counts);
        if policy.texts() != self.policy.texts() {
            self.replace(policy);
        }
    }

    /// Takes over open sessions of a further guard, which had the same rules as the first.
    pub(super) fn join(&mut self, kept: Kept) {
        self.alone.get_or_insert_with(|| self.counts.clone());
        let is_same = kept.policy.texts() == self.policy.texts();
        if is_same && kept.generation == self.generation {
            self.counts.add(&kept.counts);
        } else {
            self.counts.older += kept.counts.open();
        }
        self.joined.push(kept);
    }

    /// Gives up what joined, before it is handed over itself.
    pub(super) fn separate(&mut self) -> Vec<Kept> {
        if let Some(alone) = self.alone.take() {
            self.counts = alone;
        }
        std::mem::take(&mut self.joined)
    }

    /// What a guard beside this one begins with: the same rules, and no session.
    pub(super) fn beside(&self) -> Kept {
        let rules = vec![RuleCounts::default(); self.policy.texts().len()];
        let counts = Counts { rules, ..Counts::default() };
        Kept { policy: Arc::clone(&self.policy), generation: self.generation, counts }
    }

    /// Appends which rule allowed a session, and a sum of its text; none of an earlier rule's.
    pub(super) fn export(&self, state: Decision, out: &mut Vec<u8>) -> bool {
        let is_current = state.generation == self.generation;
        out.extend_from_slice(&(state.rule & !ELSEWHERE).to_be_bytes());
        let sum = if is_current { self.rule_sum(state) } else { EARLIER };
        out.extend_from_slice(&sum.to_be_bytes());
        true
    }

    /// Goes on with a session that a firewall of another host allowed. Where that was by another
    /// rule than there is here, it counts as one that an earlier rule allowed.
    pub(super) fn import(
        &mut self,
        bytes: &[u8],
        answers: &mut dyn Answers,
    ) -> Result<Decision, &'static str> {
        let bytes: &[u8; 8] = bytes.try_into().map_err(|_| "a firewall's state of another size")?;
        let word = u64::from_be_bytes(*bytes);
        let (rule, sum) = ((word >> 32) as u32 & !ELSEWHERE, word as u32);
        let current = Decision { rule, generation: self.generation };
        if sum != EARLIER && sum == self.rule_sum(current) {
            self.count_in(current);
            answers.publish(&[current.published()]);
            return Ok(current);
        }
        self.counts.older += 1;
        let older = Decision { generation: self.generation.wrapping_sub(1), ..current };
        answers.publish(&[older.published()]);
        Ok(older)
    }

    /// A sum of a rule's text (FNV-1a): that of the same rule on another host is the same.
    fn rule_sum(&self, decision: Decision) -> u32 {
        let text = match decision.number() {
            NO_RULE => "",
            number => match self.policy.texts().get(number as usize) {
                Some(text) => text,
                None => return EARLIER,
            },
        };
        let fold = |sum: u32, byte: u8| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        text.bytes().fold(0x811c_9dc5, fold) | 1
    }

    /// Puts other rules in force.
    pub(super) fn replace(&mut self, policy: Arc<Policy>) {
        let sessions = self.counts.rules.iter().map(|rule| rule.sessions).sum::<u64>();
        self.counts.older += sessions + self.counts.unruled;
        self.counts.unruled = 0;
        self.counts.rules = vec![RuleCounts::default(); policy.texts().len()];
        self.generation = self.generation.wrapping_add(1);
        self.policy = policy;
    }

    /// The verdict of a side's rules on a packet, and the rule.
    fn judge(&mut self, side: Side, view: &PacketView<'_>) -> Result<u32, Refused> {
        let (rule, refused) = match self.policy.judge(side, view) {
            Judgement::Allowed(rule) => (rule, None),
            Judgement::Denied(rule) => (rule, Some(Refused::Denied)),
            Judgement::NoMatch => return Err(Refused::NoMatch),
        };
        self.counts.rules[rule as usize].hits += 1;
        refused.map_or(Ok(rule), Err)
    }

    /// The rule that lets a packet begin a session.
    pub(super) fn admit(&mut self, packet: &Packet, side: Side) -> Result<u32, Refused> {
        let ip6 = version(packet) == 6;
        if !self.settings.pickup && is_tcp(packet, ip6) && !is_first_segment(packet) {
            return Err(Refused::NotSyn);
        }
        if ip6 {
            let allowed = self.settings.ip6[side as usize];
            return if allowed { Ok(NO_RULE) } else { Err(Refused::Ip6) };
        }
        self.judge(side, &view(packet))
    }

    fn count_in(&mut self, decision: Decision) {
        match self.counts.rules.get_mut(decision.number() as usize) {
            Some(rule) => rule.sessions += 1,
            None => self.counts.unruled += 1,
        }
    }

    fn count_out(&mut self, decision: Decision) {
        let count = if decision.generation != self.generation {
            &mut self.counts.older
        } else {
            match self.counts.rules.get_mut(decision.number() as usize) {
                Some(rule) => &mut rule.sessions,
                None => &mut self.counts.unruled,
            }
        };
        *count = count.saturating_sub(1);
    }

    /// Asks the rules in force about a session that others let begin.
    #[cold]
    fn ask_again(&mut self, packet: &Packet, session: &mut Session<'_, Decision>) -> Verdict {
        let old = *session.state;
        let asked = if old.number() == NO_RULE {
            Ok(NO_RULE)
        } else if session.direction == old.direction() {
            self.judge(old.side(), &view(packet))
        } else {
            let mirrored = mirrored(packet);
            self.judge(old.side(), &PacketView::from_ip(&mirrored))
        };
        match asked {
            Ok(rule) => {
                let flags = old.rule & !NO_RULE;
                let new = Decision { rule: rule | flags, generation: self.generation };
                if flags & ELSEWHERE == 0 {
                    self.count_out(old);
                    self.count_in(new);
                }
                *session.state = new;
                Verdict::Pass
            }
            Err(refused) => {
                session.end = true;
                Verdict::reject(REFUSED, refused)
            }
        }
    }
}

impl PerSession for Guard {
    type State = Decision;
    const REFUSES_TO: Option<usize> = Some(REFUSED);

    fn open(
        &mut self,
        opening: &mut Opening<'_>,
        packet: &mut Packet,
        state: &mut Decision,
    ) -> Result<(), Reason> {
        if let Some([word, ..]) = opening.answers.published() {
            *state = Decision::from_published(word);
            return Ok(());
        }
        if opening.related {
            return Err(Refused::Related.into());
        }
        let rule = self.admit(packet, self.side)?;
        let outside = if self.side == Side::Outside { OUTSIDE } else { 0 };
        let turned = if opening.direction == Direction::Reply { TURNED } else { 0 };
        *state = Decision { rule: rule | outside | turned, generation: self.generation };
        opening.answers.publish(&[state.published()]);
        self.count_in(*state);
        Ok(())
    }

    #[inline]
    fn each(&mut self, packet: &mut Packet, session: &mut Session<'_, Decision>) -> Verdict {
        let stale = self.settings.recheck && session.state.generation != self.generation;
        if stale && !session.related {
            return self.ask_again(packet, session);
        }
        Verdict::Pass
    }

    fn without(&mut self, packet: &mut Packet) -> Verdict {
        let judged = match version(packet) {
            _ if !self.settings.stateless => Err(Refused::NoSession),
            4 => self.judge(self.side, &view(packet)).map(|_| ()),
            6 if self.settings.ip6[self.side as usize] => Ok(()),
            6 => Err(Refused::Ip6),
            // Only rules without a pattern can match.
            _ => self.judge(self.side, &PacketView::default()).map(|_| ()),
        };
        judged.map_or_else(|refused| Verdict::reject(REFUSED, refused), |()| Verdict::Pass)
    }

    fn close(&mut self, state: &Decision, _why: Ended) {
        if state.rule & ELSEWHERE == 0 {
            self.count_out(*state);
        }
    }
}

/// IP version, 0 where no network header is marked.
fn version(packet: &Packet) -> u8 {
    packet.network().first().map_or(0, |byte| byte >> 4)
}

fn is_tcp(packet: &Packet, ip6: bool) -> bool {
    if !ip6 {
        return packet.network().get(9) == Some(&TCP);
    }
    let Ok((header, payload)) = Ipv6Header::parse_cut(packet.network()) else { return false };
    ipv6_ext::upper_layer(header.next_header(), payload).is_ok_and(|upper| upper.protocol == TCP)
}

/// A SYN alone (RFC 9293 section 3.5).
fn is_first_segment(packet: &Packet) -> bool {
    use tcp::flags::{ACK, FIN, RST, SYN};
    let flags = packet.transport().get(13).copied().unwrap_or(0);
    flags & (SYN | ACK | RST | FIN) == SYN
}

/// The headers of a reply with source and destination exchanged, addresses and ports: as its
/// session's forward packets have them. All other fields are the reply's.
fn mirrored(packet: &Packet) -> [u8; 40] {
    let mut bytes = [0; 40];
    for (to, from) in bytes.iter_mut().zip(packet.network()) {
        *to = *from;
    }
    // Options have nothing to say here: the transport header follows the fixed part.
    bytes[0] = 0x45;
    for (to, from) in bytes[20..].iter_mut().zip(packet.transport()) {
        *to = *from;
    }
    let [_, _, _, _, _, _, _, _, _, protocol, _, _, ends @ ..] = &mut bytes;
    let (addresses, transport) = ends.split_at_mut(8);
    addresses.rotate_left(4);
    if thruway_wire::ip_protocol::has_ports(*protocol) {
        transport[..4].rotate_left(2);
    }
    bytes
}

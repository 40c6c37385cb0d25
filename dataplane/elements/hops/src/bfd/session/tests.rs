//! A session against the RFC's table, and two of them over a link that loses packets.

use super::*;
use proptest::prelude::*;

const MS: i64 = 1_000_000;
const SECOND: i64 = 1_000 * MS;

fn config(tx_ms: u32, rx_ms: u32, multiplier: u8) -> Config {
    Config { desired_min_tx_us: tx_ms * 1000, required_min_rx_us: rx_ms * 1000, multiplier }
}

/// A packet of the other side.
fn heard(state: BfdState, yours: u32) -> BfdHeader {
    let mut header = BfdHeader::new(state, 0, 3);
    header.set_my_discriminator(99);
    header.set_your_discriminator(yours);
    header.set_desired_min_tx_us(20_000);
    header.set_required_min_rx_us(20_000);
    header
}

const STATES: [BfdState; 4] = [BfdState::AdminDown, BfdState::Down, BfdState::Init, BfdState::Up];

/// The drawing of RFC 5880 section 6.2, arrow by arrow: this side, the other side, then.
const ARROWS: [(BfdState, BfdState, BfdState); 12] = {
    use BfdState::{AdminDown, Down, Init, Up};
    [
        (Down, AdminDown, Down),
        (Down, Down, Init),
        (Down, Init, Up),
        (Down, Up, Down),
        (Init, AdminDown, Down),
        (Init, Down, Init),
        (Init, Init, Up),
        (Init, Up, Up),
        (Up, AdminDown, Down),
        (Up, Down, Down),
        (Up, Init, Up),
        (Up, Up, Up),
    ]
};

#[test]
fn the_drawing_of_the_rfc() {
    for (from, remote, to) in ARROWS {
        let mut session = Session::new(config(20, 20, 3), 7, 0);
        session.state = from;
        let (change, _) = session.receive(&heard(remote, 7), 5).unwrap();
        assert_eq!(session.state, to, "{from:?} {remote:?}");
        let wanted = match (from == BfdState::Up, to == BfdState::Up) {
            (false, true) => Change::Up,
            (true, false) => Change::Down,
            _ => Change::None,
        };
        assert_eq!(change, wanted, "{from:?} {remote:?}");
    }
}

#[test]
fn times() {
    let mut session = Session::new(config(20, 30, 3), 7, 0);
    let (_, first) = session.act(0, 0);
    // Slow before it is up, whatever the operator wants.
    assert_eq!(first.unwrap().desired_min_tx_us(), 1_000_000);
    assert_eq!((session.act(0, 0).1, session.due_at()), (None, 750 * MS));
    session.receive(&heard(BfdState::Init, 7), 10).unwrap();
    let (_, packet) = session.act(10, 250);
    let packet = packet.expect("the other side learns of it at once");
    assert!(packet.has(flag::POLL) && packet.desired_min_tx_us() == 20_000, "{packet:?}");
    assert_eq!(session.due_at(), 10 + 20 * MS);
    // The larger of what this side takes and the other sends, three times.
    assert_eq!(session.detection_ns(), 90 * MS);
    // A poll is answered at once; a final answer ends one's own.
    let mut poll = heard(BfdState::Up, 7);
    poll.set_flags(flag::POLL | flag::FINAL);
    let (_, answer) = session.receive(&poll, 11).unwrap();
    assert!(answer.unwrap().has(flag::FINAL));
    let (_, packet) = session.act(10 + 20 * MS, 0);
    assert!(!packet.unwrap().has(flag::POLL));
    assert_eq!(session.act(11 + 90 * MS - 1, 0).0, Change::None);
    assert_eq!(session.act(11 + 90 * MS, 0).0, Change::Down);
    assert_eq!(session.diagnostic, diagnostic::TIME_EXPIRED);
    // An endpoint that wants no packets gets none.
    let mut mute = heard(BfdState::Down, 0);
    mute.set_required_min_rx_us(0);
    session.receive(&mute, 200 * MS).unwrap();
    assert_eq!(session.act(900 * SECOND, 0).1, None);
}

#[test]
fn the_operator_holds_it_down() {
    let mut session = Session::new(config(20, 20, 3), 7, 0);
    session.receive(&heard(BfdState::Init, 7), 0).unwrap();
    assert_eq!(session.set_enabled(false, 1), Change::Down);
    let (_, packet) = session.act(1, 0);
    assert_eq!(packet.unwrap().state(), BfdState::AdminDown);
    assert_eq!(session.receive(&heard(BfdState::Down, 7), 2), Err(Ignored::AdminDown));
    session.set_enabled(true, 3);
    assert_eq!(session.state, BfdState::Down);
}

/// Two sessions, and the packets in flight between them with times of arrival.
struct Link {
    ends: [Session; 2],
    in_flight: Vec<(i64, usize, BfdHeader)>,
    now: i64,
    random: u64,
}

impl Link {
    fn new(ends: [Config; 2]) -> Link {
        let [a, b] = ends;
        let ends = [Session::new(a, 1, 0), Session::new(b, 2, 0)];
        Link { ends, in_flight: Vec::new(), now: 0, random: 1 }
    }

    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.random >> 33
    }

    fn send(&mut self, from: usize, packet: Option<BfdHeader>, loss: u64) {
        let delay = MS + (self.next_random() % 1000) as i64 * 1000;
        if let Some(packet) = packet
            && self.next_random() % 100 >= loss
        {
            self.in_flight.push((self.now + delay, 1 - from, packet));
        }
    }

    /// Lets time pass; of 100 packets so many are lost. What changed, and when.
    fn run(&mut self, until: i64, loss: u64) -> Vec<(i64, usize, Change)> {
        let mut changes = Vec::new();
        loop {
            let due = |end: usize| (self.ends[end].due_at(), None, end);
            let came = self.in_flight.iter().enumerate().map(|(at, it)| (it.0, Some(at), it.1));
            let next = came.chain([due(0), due(1)]).min_by_key(|(at, ..)| *at);
            let Some((at, packet, end)) = next.filter(|(at, ..)| *at <= until) else { break };
            self.now = self.now.max(at);
            if let Some(packet) = packet {
                let (.., header) = self.in_flight.swap_remove(packet);
                let (change, answer) = self.ends[end].receive(&header, self.now).unwrap();
                changes.push((self.now, end, change));
                self.send(end, answer, loss);
            }
            let jitter = self.next_random();
            let (change, packet) = self.ends[end].act(self.now, jitter);
            changes.push((self.now, end, change));
            self.send(end, packet, loss);
        }
        self.now = until;
        changes.retain(|(.., change)| *change != Change::None);
        changes
    }

    fn states(&self) -> [BfdState; 2] {
        [self.ends[0].state, self.ends[1].state]
    }
}

proptest! {
    /// It comes up, goes down within the detection time when nothing arrives, and comes up again.
    #[test]
    fn up_down_up(
        tx in [5u32..100, 5..100], rx in [5u32..100, 5..100], multiplier in [2u8..6, 2..6],
        seed: u64,
    ) {
        let of = |end: usize| config(tx[end], rx[end], multiplier[end]);
        let mut link = Link::new([of(0), of(1)]);
        link.random = seed | 1;
        let mut at = 10 * SECOND;
        link.run(at, 0);
        prop_assert_eq!(link.states(), [BfdState::Up; 2]);
        prop_assert!(link.run(at + 20 * SECOND, 0).is_empty(), "up, and nothing lost");
        at += 20 * SECOND;
        let gone = link.run(at + 5 * SECOND, 100);
        // Detection time of each end, by hand; a packet arrived before the cut, or was in flight.
        for (end, own_rx) in rx.iter().enumerate() {
            let other = 1 - end;
            let interval = i64::from(tx[other].max(*own_rx)) * MS;
            let limit = at + i64::from(multiplier[other]) * interval + 2 * MS;
            let went = gone.iter().find(|(_, of, change)| *of == end && *change == Change::Down);
            prop_assert!(went.is_some_and(|(at, ..)| *at <= limit), "{end} {limit} {gone:?}");
        }
        prop_assert_eq!(link.states(), [BfdState::Down; 2]);
        link.run(at + 20 * SECOND, 0);
        prop_assert_eq!(link.states(), [BfdState::Up; 2]);
    }

    /// Packets that are lost now and then do not end a session for good.
    #[test]
    fn losses(loss in 0u64..30, seed: u64) {
        let mut link = Link::new([config(20, 20, 3), config(20, 20, 3)]);
        link.random = seed | 1;
        link.run(30 * SECOND, loss);
        link.run(60 * SECOND, 0);
        prop_assert_eq!(link.states(), [BfdState::Up; 2]);
        let [a, b] = &link.ends;
        prop_assert_eq!((a.ups, b.ups), (a.downs + 1, b.downs + 1));
    }

    /// An attacker that does not know the session's number changes nothing.
    #[test]
    fn forged(yours: u32, mine: u32, multiplier: u8, state in 0usize..4, flags in 0u8..0x40) {
        prop_assume!(yours != 7);
        let mut session = Session::new(config(20, 20, 3), 7, 0);
        session.receive(&heard(BfdState::Init, 7), 0).unwrap();
        let before = session.clone();
        let mut header = BfdHeader::new(STATES[state], 0, multiplier);
        header.set_my_discriminator(mine);
        header.set_your_discriminator(yours);
        header.set_flags(flags);
        // Zero is of a host that begins anew: it has no number of the session yet.
        let begins_anew = yours == 0 && state < 2;
        if !begins_anew {
            prop_assert!(session.receive(&header, 1).is_err());
            prop_assert_eq!(&session, &before);
        }
    }

    #[test]
    fn jitter_is_within_bounds(interval in 1_000_000i64..1_000_000_000, multiplier in 1u8..5, random: u64) {
        let most = if multiplier == 1 { 90 } else { 100 };
        let time = jittered(interval, multiplier, random);
        prop_assert!(time * 100 >= interval / 1000 * 1000 * 75 && time * 100 <= interval * most);
    }
}

//! The oracle notices: middles that are wrong in one respect each.

use thruway_packet::Packet;
use thruway_wire::tcp::flags;

use crate::app::Close;
use crate::frame::{Segment, Side, Wire};
use crate::host::Fault;
use crate::link::LinkConfig;
use crate::middle::Middle;
use crate::pair::PairPlan;
use crate::plan;
use crate::world::{Failure, World};
use thruway_random::Random;

/// Seeds among which a wrong middle must be noticed.
const SEEDS: u64 = 20;

/// What becomes of a segment: nothing, itself, or several, each going on or (`true`) back to where
/// it came from.
type Mutation = dyn FnMut(Side, Segment) -> Vec<(Segment, bool)>;

/// A middle that takes segments apart and makes others of them.
struct Mutant {
    wire: Wire,
    mutation: Box<Mutation>,
}

impl Middle for Mutant {
    fn packet(&mut self, _now: i64, from: Side, packet: Packet, out: &mut Vec<(Side, Packet)>) {
        let segment = Segment::parse(&self.wire, from.other(), packet.data()).expect("correct");
        for (segment, is_back) in (self.mutation)(from, segment) {
            let to = if is_back { from } else { from.other() };
            out.push((to, segment.emit(&self.wire, to.other())));
        }
    }
}

/// A middle that spoils frames.
struct Spoiler(fn(&mut Packet));

impl Middle for Spoiler {
    fn packet(&mut self, _now: i64, from: Side, mut packet: Packet, out: &mut Vec<(Side, Packet)>) {
        (self.0)(&mut packet);
        out.push((from.other(), packet));
    }
}

/// A connection over good links in which both sides write, with all options or none.
fn connection(random: &mut Random) -> PairPlan {
    loop {
        let mut plan = plan::pairs(random).remove(0);
        if plan.apps.iter().any(|app| app.data.len() < 3000 || matches!(app.close, Close::Abort(_)))
        {
            continue;
        }
        let link = LinkConfig {
            delay: 1_000_000..=1_000_000,
            lost: 0,
            doubled: 0,
            overtaken: 0,
            spoilt: 0,
            later: 0..=0,
        };
        plan.before = [link.clone(), link.clone()];
        plan.behind = [link.clone(), link];
        plan.calls = [Some(0), None];
        for host in &mut plan.hosts {
            host.is_strict = true;
            host.offer.stamps = true;
            host.offer.sack = true;
        }
        return plan;
    }
}

fn run(seed: u64, middle: impl FnOnce(&PairPlan) -> Box<dyn Middle>) -> Result<(), Failure> {
    let mut random = Random::from_seed(seed);
    let plan = connection(&mut random);
    let mut middle = middle(&plan);
    let mut world = World::new(vec![plan], middle.as_mut(), random);
    world.run(|_, _, data| data.to_vec())?;
    world.be_forgotten()
}

/// The mutation is noticed, for the right reason, and nothing else is noticed of it.
fn is_noticed<M>(mutation: impl Fn() -> M, is_right: impl Fn(&Failure) -> bool)
where
    M: FnMut(Side, Segment) -> Vec<(Segment, bool)> + 'static,
{
    let mut noticed = 0;
    for seed in 0..SEEDS {
        let result =
            run(seed, |plan| Box::new(Mutant { wire: plan.wire, mutation: Box::new(mutation()) }));
        match result {
            Ok(()) => {}
            Err(failure) if is_right(&failure) => noticed += 1,
            Err(failure) => panic!("seed {seed}: noticed for another reason: {failure}"),
        }
    }
    assert!(noticed >= SEEDS / 4, "noticed {noticed} times of {SEEDS}");
}

fn is_fault(fault: Fault) -> impl Fn(&Failure) -> bool {
    move |failure| matches!(failure, Failure::Violation(found, _) if *found == fault)
}

fn pass(segment: Segment) -> Vec<(Segment, bool)> {
    vec![(segment, false)]
}

/// Changes each segment in its place.
fn each(mut change: impl FnMut(&mut Segment)) -> impl FnMut(Side, Segment) -> Vec<(Segment, bool)> {
    move |_, mut segment| {
        change(&mut segment);
        pass(segment)
    }
}

/// Whether a segment belongs to the connection's middle part.
fn is_plain(segment: &Segment) -> bool {
    segment.flags & (flags::SYN | flags::FIN | flags::RST) == 0
}

#[test]
fn taking_segments_apart_changes_nothing() {
    for seed in 0..SEEDS {
        run(seed, |plan| Box::new(Mutant { wire: plan.wire, mutation: Box::new(each(|_| {})) }))
            .unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
}

#[test]
fn a_changed_byte_is_noticed() {
    let mutation = || {
        let mut count = 0;
        each(move |segment| {
            count += usize::from(!segment.payload.is_empty());
            if count == 3 && !segment.payload.is_empty() {
                segment.payload[0] ^= 1;
            }
        })
    };
    is_noticed(mutation, |failure| matches!(failure, Failure::Stream(_)));
}

#[test]
fn spoilt_frames_are_noticed() {
    let spoilers: [fn(&mut Packet); 3] = [
        |packet| *packet.data_mut().last_mut().expect("not empty") ^= 1,
        |packet| packet.truncate(packet.len() - 1),
        |packet| assert!(packet.put(1)),
    ];
    for spoiler in spoilers {
        let failure = run(0, |_| Box::new(Spoiler(spoiler))).expect_err("not noticed");
        assert!(is_fault(Fault::Frame)(&failure), "{failure}");
    }
}

#[test]
fn swallowed_acknowledgements_are_noticed() {
    let mutation = || {
        let mut count = 0;
        move |side, segment: Segment| {
            count += usize::from(side == Side::B);
            let is_bare = segment.payload.is_empty() && is_plain(&segment);
            if side == Side::B && count > 4 && is_bare { Vec::new() } else { pass(segment) }
        }
    };
    is_noticed(mutation, |failure| matches!(failure, Failure::Stuck(_)));
}

#[test]
fn swallowed_data_is_noticed() {
    // Acknowledged by the middle, and never sent on.
    let mutation = || {
        let mut gone = None;
        move |side, mut segment: Segment| {
            let is_data = side == Side::A && !segment.payload.is_empty() && is_plain(&segment);
            if is_data && gone.is_none_or(|seq| seq == segment.seq) {
                gone = Some(segment.seq);
                return Vec::new();
            }
            let is_ack_of_less = gone.is_some_and(|seq| segment.ack == seq) && side == Side::B;
            if is_ack_of_less && is_plain(&segment) {
                segment.ack = segment.ack.wrapping_add(1);
                segment.blocks = Default::default();
            }
            pass(segment)
        }
    };
    // The window that goes with the acknowledgement is a byte too large then.
    let is_right = |failure: &Failure| {
        matches!(failure, Failure::Stuck(_)) || is_fault(Fault::Overrun)(failure)
    };
    is_noticed(mutation, is_right);
}

#[test]
fn a_raised_acknowledgement_is_noticed() {
    let mutation = || {
        each(|segment| {
            if is_plain(segment) {
                segment.ack = segment.ack.wrapping_add(100_000);
            }
        })
    };
    is_noticed(mutation, is_fault(Fault::AckBeyond));
}

#[test]
fn an_overrun_window_is_noticed() {
    let mutation = || {
        each(|segment| {
            if !segment.has(flags::SYN) {
                segment.window = 0xffff;
            }
        })
    };
    is_noticed(mutation, is_fault(Fault::Overrun));
}

#[test]
fn a_window_that_shrinks_is_noticed() {
    let mutation = || {
        let mut count = 0;
        each(move |segment| {
            count += 1;
            if count > 10 && is_plain(segment) {
                segment.window /= 2;
            }
        })
    };
    is_noticed(mutation, is_fault(Fault::WindowShrunk));
}

#[test]
fn wrong_blocks_are_noticed() {
    for (left, right) in [(10u32, 200_000u32), (200_000, 200_010), (20, 10)] {
        let mutation = move || {
            each(move |segment| {
                if is_plain(segment) && segment.payload.is_empty() {
                    segment.blocks = Default::default();
                    let at = |by: u32| segment.ack.wrapping_add(by);
                    let block = (at(left), at(right));
                    segment.blocks.push(block);
                }
            })
        };
        is_noticed(mutation, is_fault(Fault::Blocks));
    }
}

#[test]
fn other_bytes_sent_again_are_noticed() {
    let mutation = || {
        move |_, segment: Segment| {
            let mut again = segment.clone();
            again.payload.iter_mut().for_each(|byte| *byte ^= 1);
            if is_plain(&segment) && !segment.payload.is_empty() {
                vec![(segment, false), (again, false)]
            } else {
                pass(segment)
            }
        }
    };
    is_noticed(mutation, is_fault(Fault::Content));
}

#[test]
fn segments_that_are_too_long_are_noticed() {
    let mutation = || {
        let mut kept: [Option<Segment>; 2] = [None, None];
        move |side: Side, segment: Segment| {
            if !is_plain(&segment) || segment.payload.len() < 40 {
                return pass(segment);
            }
            // Two that follow each other become one.
            let Some(mut first) = kept[side.index()].take() else {
                kept[side.index()] = Some(segment.clone());
                return pass(segment);
            };
            if first.seq.wrapping_add(first.payload.len() as u32) == segment.seq {
                first.payload.extend(&segment.payload);
                return pass(first);
            }
            pass(segment)
        }
    };
    is_noticed(mutation, is_fault(Fault::TooLong));
}

#[test]
fn old_and_false_timestamps_are_noticed() {
    let old = || {
        let mut count = 0;
        each(move |segment| {
            count += 1;
            if let Some((value, _)) = &mut segment.stamps
                && count > 20
            {
                *value = value.wrapping_sub(1_000_000);
            }
        })
    };
    is_noticed(old, is_fault(Fault::Stale));
    let of_the_future = || {
        each(|segment| {
            let is_plain = is_plain(segment);
            if let Some((_, echo)) = &mut segment.stamps
                && is_plain
            {
                *echo = echo.wrapping_add(1_000_000);
            }
        })
    };
    is_noticed(of_the_future, is_fault(Fault::Echo));
    let none = || {
        each(|segment| {
            if is_plain(segment) {
                segment.stamps = None;
            }
        })
    };
    is_noticed(none, is_fault(Fault::Options));
}

#[test]
fn data_behind_the_end_is_noticed() {
    let mutation = || {
        move |_, segment: Segment| {
            let mut more = segment.clone();
            more.seq = more.seq.wrapping_add(segment.span());
            more.flags = flags::ACK;
            more.payload = b"more".to_vec();
            let is_end = segment.has(flags::FIN);
            if is_end { vec![(segment, false), (more, false)] } else { pass(segment) }
        }
    };
    is_noticed(mutation, is_fault(Fault::AfterFin));
}

#[test]
fn a_reset_that_no_host_sent_is_noticed() {
    let mutation = || {
        let mut count = 0;
        move |_, segment: Segment| {
            count += 1;
            if count != 20 || !is_plain(&segment) || !segment.payload.is_empty() {
                return pass(segment);
            }
            let mut reset = segment.clone();
            reset.flags = flags::RST;
            vec![(segment, false), (reset, false)]
        }
    };
    is_noticed(mutation, |failure| matches!(failure, Failure::Reset(_)));
}

/// A middle that never forgets.
struct Miser(usize);

impl Middle for Miser {
    fn packet(&mut self, _now: i64, from: Side, packet: Packet, out: &mut Vec<(Side, Packet)>) {
        self.0 = 1;
        out.push((from.other(), packet));
    }

    fn connections(&self) -> usize {
        self.0
    }
}

#[test]
fn connections_that_are_kept_for_ever_are_noticed() {
    let failure = run(0, |_| Box::new(Miser(0))).expect_err("not noticed");
    assert!(matches!(failure, Failure::Remembered(_)), "{failure}");
}

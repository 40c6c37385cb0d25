//! Functions on trial: what they do to packets is what comes out at the host.

use std::time::Duration;

use proptest::prelude::*;
use thruway_exchange::SlotTag;
use thruway_nf::trial::{Arrival, Given, Setup, Trial, TrialError};
use thruway_nf::{Batch, Config, Counter, Cx, Function, NotSent, Session, Timer, Verdict};
use thruway_nf_abi::LinkShape;
use thruway_nf_abi::control::Figure;
use thruway_nf_abi::message::WaitMode;

const TWO: Setup = Setup { outputs: 2, ..Setup::DEFAULT };

fn returned(output: u32, bytes: &[u8]) -> Given {
    Given { arrival: Arrival::Returned, output, bytes: bytes.to_vec() }
}

fn dropped() -> Given {
    Given { arrival: Arrival::Dropped, output: 0, bytes: Vec::new() }
}

fn emitted(output: u32, bytes: &[u8]) -> Given {
    Given { arrival: Arrival::Emitted, output, bytes: bytes.to_vec() }
}

#[test]
fn verdicts_in_every_wait_mode() {
    for wait in [WaitMode::Block, WaitMode::Poll, WaitMode::Hybrid] {
        let mut trial = Setup { wait, ..TWO }
            .thread(Config { outputs: 2, ..Config::DEFAULT }, |_| {
                Ok(|batch: &mut Batch<'_>| {
                    batch.each(|packet| match packet.bytes()[0] {
                        255 => Verdict::Drop,
                        output => Verdict::Next(output),
                    });
                })
            })
            .unwrap();
        for _ in 0..3 {
            let given = trial.exchange(&[&[0; 60], &[1; 61], &[255; 62], &[7; 63], &[1; 64]]);
            let told = [returned(0, &[0; 60]), returned(1, &[1; 61]), dropped(), dropped()];
            assert_eq!(given.unwrap()[..4], told);
        }
        assert_eq!(trial.counter("no-such-output"), Some(3), "{wait:?}");
        assert_eq!(trial.finish().unwrap(), []);
    }
}

#[test]
fn what_is_not_looked_at_goes_on_unchanged() {
    let mut trial = Setup::DEFAULT.thread(Config::DEFAULT, |_| Ok(|_: &mut Batch<'_>| {})).unwrap();
    let packets: Vec<Vec<u8>> = (0..3000_u32).map(|n| n.to_le_bytes().to_vec()).collect();
    let packets: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
    let given = trial.exchange(&packets).unwrap();
    assert!(given.iter().map(|g| g.bytes.as_slice()).eq(packets));
    assert_eq!(trial.kept(), 3000);
    trial.finish().unwrap();
}

/// A host takes back only what was changed: each way to change a packet must show it.
#[test]
fn whoever_may_have_changed_a_packet_says_so() {
    let config = Config { outputs: 2, scratch_len: 8, ..Config::DEFAULT };
    let setup = Setup { sessions: 4, ..TWO };
    let mut trial = setup
        .thread(config, |_| {
            Ok(|batch: &mut Batch<'_>| {
                batch.each(|packet| {
                    let number = packet.bytes()[0];
                    match number {
                        0 => assert!(packet.scratch::<u64>().is_some() && packet.len() == 60),
                        1 => packet.bytes_mut()[1] = 101,
                        2 => packet.push(1).unwrap()[0] = 2,
                        3 => assert!(packet.pull(1)),
                        4 => packet.extend(1).unwrap()[0] = 4,
                        5 => assert!(packet.truncate(59)),
                        6 => packet.bytes_and_scratch::<u64>().0[1] = 106,
                        7 => {
                            let start = packet.start();
                            packet.frame_mut()[start + 1] = 107;
                        }
                        8 => {
                            let start = packet.start();
                            assert!(packet.set_span(start + 1, 8));
                        }
                        _ => packet.emit_copy(1).unwrap(),
                    }
                    Verdict::Next(u8::from(number == 0))
                });
            })
        })
        .unwrap();
    let packets: Vec<[u8; 60]> = (0..10).map(|number| [number; 60]).collect();
    let marked: Vec<_> = packets.iter().map(|packet| (SlotTag::of(0, 0, 1), &packet[..])).collect();
    let given = trial.exchange_marked(&marked).unwrap();
    let changed = |number: u8| {
        let mut bytes = vec![number; 60];
        match number {
            1 | 6 | 7 => bytes[1] = 100 + number,
            2 | 4 => bytes.push(number),
            3 | 5 => bytes.truncate(59),
            8 => bytes.truncate(8),
            _ => {}
        }
        returned(u32::from(number == 0), &bytes)
    };
    let mut expected: Vec<Given> = (0..10).map(changed).collect();
    expected.push(emitted(1, &[9; 60]));
    assert_eq!(given, expected);
    // The first, and the one of which a copy was sent.
    assert_eq!(trial.kept(), 2);
    trial.finish().unwrap();
}

/// Everything at once, for the tests below.
struct Kitchen {
    seen: Counter,
    level: u64,
    often: Timer,
}

impl Function for Kitchen {
    fn batch(&mut self, batch: &mut Batch<'_>) {
        self.seen.add(batch.len() as u64);
        let now = batch.now_ns();
        batch.each(|packet| {
            assert_eq!(packet.now_ns(), now);
            Verdict::Next(0)
        });
    }

    fn timer(&mut self, cx: &mut Cx<'_>, timer: Timer) {
        let text = if timer == self.often { "often" } else { "once" };
        assert_eq!(cx.inject(1, text.as_bytes()), Ok(()));
        assert_eq!(cx.inject(2, text.as_bytes()), Err(NotSent::Output));
        assert_eq!(cx.inject(0, &[]), Err(NotSent::Length));
    }

    fn read(&mut self, handler: &str, parameter: &str) -> Result<String, String> {
        match handler {
            "level" => Ok(format!("{}{parameter}", self.level)),
            _ => Err(format!("no '{handler}'")),
        }
    }

    fn write(&mut self, _handler: &str, value: &str) -> Result<(), String> {
        self.level = value.parse().map_err(|_| format!("'{value}' is no number"))?;
        Ok(())
    }

    fn drain(&mut self, cx: &mut Cx<'_>) {
        assert_eq!(cx.inject_on(9, 0, b"last"), Ok(()));
    }
}

fn kitchen(wait: WaitMode) -> Trial {
    Setup { wait, ..TWO }
        .thread(Config::DEFAULT, |start| {
            start.after(Duration::from_millis(2));
            let often = start.every(Duration::from_millis(5));
            Ok(Kitchen { seen: start.counter("seen"), level: 5, often })
        })
        .unwrap()
}

#[test]
fn timers_inject_also_while_asleep() {
    for wait in [WaitMode::Block, WaitMode::Poll, WaitMode::Hybrid] {
        let begin = std::time::Instant::now();
        let mut trial = kitchen(wait);
        let given = trial.injected(4).unwrap();
        assert!(begin.elapsed() >= Duration::from_millis(15), "{wait:?} {:?}", begin.elapsed());
        assert_eq!(given.iter().filter(|g| g.bytes == b"once").count(), 1);
        assert!(given.iter().all(|g| g.output == 1));
        trial.exchange(&[[1; 100].as_slice(); 700]).unwrap();
        assert_eq!(trial.counter("seen"), Some(700));
        let last = trial.finish().unwrap();
        assert_eq!(last.last().unwrap().bytes, b"last");
    }
}

#[test]
fn handlers_are_answered_between_batches() {
    for wait in [WaitMode::Block, WaitMode::Poll, WaitMode::Hybrid] {
        let mut trial = kitchen(wait);
        assert_eq!(trial.read("level").unwrap(), "5");
        trial.write("level", "77").unwrap();
        assert_eq!(trial.read("level /7").unwrap(), "77/7");
        let error = trial.write("level", "x").unwrap_err();
        assert_eq!(error.to_string(), "the function answers: 'x' is no number");
        assert!(matches!(trial.read("other"), Err(TrialError::Answer(_))));
        trial.finish().unwrap();
    }
    let mut plain = Setup::DEFAULT.thread(Config::DEFAULT, |_| Ok(|_: &mut Batch<'_>| {})).unwrap();
    let error = plain.read("a").unwrap_err().to_string();
    assert_eq!(error, "the function answers: this function has no handler 'a' to read");
}

#[test]
fn scratch_is_of_a_session_and_outlives_its_packets() {
    let config = Config { scratch_len: 16, ..Config::DEFAULT };
    let mut trial = Setup { sessions: 4, ..Setup::DEFAULT }
        .thread(config, |_| {
            Ok(|batch: &mut Batch<'_>| {
                batch.each(|packet| {
                    let direction = packet.direction();
                    assert_eq!(packet.scratch::<[u64; 3]>(), None);
                    let (bytes, scratch) = packet.bytes_and_scratch::<[u64; 2]>();
                    let Some(counts) = scratch else { return Verdict::Drop };
                    counts[usize::from(direction)] += 1;
                    bytes[0] = counts[usize::from(direction)] as u8;
                    Verdict::Next(0)
                });
            })
        })
        .unwrap();
    let mark = |fcb, direction| SlotTag::of(0, direction, fcb);
    let none: &[u8] = &[0; 60];
    let marked = [
        (mark(0, 0), none),
        (mark(3, 1), none),
        (mark(3, 1), none),
        (mark(4, 0), none),
        (SlotTag::NONE, none),
        (mark(0, 0), none),
        (mark(3, 0), none),
    ];
    let given = trial.exchange_marked(&marked).unwrap();
    let counts: Vec<Option<u8>> = given.iter().map(|g| g.bytes.first().copied()).collect();
    assert_eq!(counts, [Some(1), Some(1), Some(2), None, None, Some(2), Some(1)]);
    let scratch = trial.arena().unwrap().session(3).unwrap();
    assert_eq!(scratch, [1_u64, 2].map(u64::to_le_bytes).as_flattened());
    trial.finish().unwrap();
}

/// Notes what it is told, in order, in the packets that follow.
struct Events {
    text: Vec<u8>,
}

impl Function for Events {
    fn batch(&mut self, batch: &mut Batch<'_>) {
        batch.each(|packet| {
            let count = packet.scratch::<u64>().map_or(0, |count| {
                *count += 1;
                *count
            });
            self.text.extend([b'p', b'0' + count as u8]);
            let text = std::mem::take(&mut self.text);
            assert!(packet.truncate(1));
            if let Some(room) = packet.extend(text.len()) {
                room.copy_from_slice(&text);
            }
            Verdict::Next(0)
        });
    }

    fn new_session(&mut self, session: &mut Session<'_>) {
        assert_eq!(session.scratch::<u64>().copied(), Some(0));
        self.text.extend([b'n', b'0' + session.number() as u8]);
    }

    fn released_session(&mut self, session: &mut Session<'_>) {
        let count = session.scratch::<u64>().copied().unwrap_or(77);
        self.text.extend([b'r', b'0' + session.number() as u8, b'0' + count as u8]);
    }
}

#[test]
fn sessions_begin_and_end_in_order_with_their_packets() {
    let config = Config { scratch_len: 8, batch_len_max: 5, ..Config::DEFAULT };
    let mut trial = Setup { sessions: 4, ..Setup::DEFAULT }
        .thread(config, |_| Ok(Events { text: Vec::new() }))
        .unwrap();
    let session = |fcb| SlotTag::of(0, 0, fcb);
    let one: &[u8] = &[0; 60];
    for _ in 0..2 {
        trial.put(session(1).new_session(), one).unwrap();
        trial.put(session(1), one).unwrap();
        trial.put(session(2).new_session(), one).unwrap();
        trial.put_released(1).unwrap();
        trial.put_released(2).unwrap();
        trial.put(SlotTag::NONE, one).unwrap();
        trial.put(session(3), one).unwrap();
        // The host would use the numbers again only now, with scratch of zeros.
        let given = trial.exchange(&[]).unwrap();
        let texts = given.iter().filter(|g| g.arrival == Arrival::Returned);
        let texts: Vec<&[u8]> = texts.map(|given| &given.bytes[1..]).collect();
        assert_eq!(texts[..4], [&b"n1p1"[..], b"p2", b"n2p1", b"r12r21p0"]);
        assert_eq!(given.iter().filter(|g| g.arrival == Arrival::Dropped).count(), 2);
        for session in [1, 2] {
            trial.arena().unwrap().clear(session);
        }
    }
    let scratch = trial.arena().unwrap().session(3).unwrap();
    assert_eq!(scratch, 2_u64.to_le_bytes());
    trial.finish().unwrap();
}

#[test]
fn full_side_rings_refuse_and_are_counted() {
    let shape = LinkShape { aux_slots: 4, injection_slots: 2, ..LinkShape::DEFAULT };
    let mut trial = Setup { shape, worker_threshold: 1000, ..Setup::DEFAULT }
        .thread(Config::DEFAULT, |_| {
            Ok(|batch: &mut Batch<'_>| {
                batch.each(|packet| {
                    assert_eq!(packet.emit_part(0, &[0; 1500], 0..60), Err(NotSent::Length));
                    for n in 0..6_u8 {
                        let sent = packet.emit(0, &[n; 60]);
                        assert_eq!(sent.is_ok(), n < 4, "{sent:?}");
                        let sent = packet.inject(0, &[n; 61]);
                        assert_eq!(sent.is_ok(), n < 2, "{sent:?}");
                    }
                    assert_eq!(packet.emit(1, &[1]), Err(NotSent::Output));
                    assert_eq!(packet.emit_part(0, &[], 50..70), Err(NotSent::Length));
                    Verdict::Drop
                });
            })
        })
        .unwrap();
    let mut given = trial.exchange(&[&[9; 60]]).unwrap();
    given.extend(trial.poll().unwrap());
    let mut all = vec![dropped()];
    all.extend((0..4).map(|n| emitted(0, &[n; 60])));
    assert_eq!(given[..5], all);
    assert_eq!(given[5..].iter().filter(|g| g.arrival == Arrival::Injected).count(), 2);
    assert_eq!(trial.control().figure(Figure::AuxFull), 2);
    assert_eq!(trial.control().figure(Figure::InjectionFull), 4);
    trial.finish().unwrap();
}

#[test]
fn a_configuration_is_read_or_left() {
    for reads in [true, false] {
        let mut trial = Setup { configuration: "text of CONFIG", ..Setup::DEFAULT }
            .thread(Config::DEFAULT, move |start| {
                let text = if reads { start.configuration()? } else { String::from("text") };
                Ok(move |batch: &mut Batch<'_>| {
                    batch.each(|packet| {
                        packet.bytes_mut()[..4].copy_from_slice(&text.as_bytes()[..4]);
                        Verdict::Next(0)
                    });
                })
            })
            .unwrap();
        assert_eq!(trial.exchange(&[b"....."]).unwrap(), [returned(0, b"text.")]);
        assert!(trial.read("a").is_err());
        trial.finish().unwrap();
    }
}

#[test]
fn a_function_that_cannot_begin_says_why() {
    let failed = |name: &'static str| {
        let trial = Setup::DEFAULT.thread(Config::DEFAULT, move |start| {
            start.counter(name);
            Err::<fn(&mut Batch<'_>), _>("no rules".into())
        });
        trial.err().unwrap().to_string()
    };
    assert_eq!(failed("good"), "the function ended: the function cannot begin: no rules");
    let many = Setup::DEFAULT.thread(Config::DEFAULT, |start| {
        for n in 0..129 {
            start.counter(&format!("c{n}"));
        }
        Ok(|_: &mut Batch<'_>| {})
    });
    assert!(many.err().unwrap().to_string().contains("128 counters"));
    let outputs = Setup::DEFAULT
        .thread(Config { outputs: 3, ..Config::DEFAULT }, |_| Ok(|_: &mut Batch<'_>| {}));
    let error = outputs.err().unwrap().to_string();
    assert!(error.contains("the host refuses this function: it uses 3 outputs of 1"), "{error}");
}

/// What a packet's first byte tells the function to do, and the same to a vector.
#[derive(Debug, Clone)]
enum Step {
    Push(usize),
    Pull(usize),
    Truncate(usize),
    Extend(usize),
    Emit(usize, usize),
    EmitCopy,
    Drop,
    Output(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..80_usize).prop_map(Step::Push),
        (0..200_usize).prop_map(Step::Pull),
        (0..300_usize).prop_map(Step::Truncate),
        (0..200_usize).prop_map(Step::Extend),
        (0..300_usize, 0..300_usize).prop_map(|(a, b)| Step::Emit(a, b)),
        Just(Step::EmitCopy),
        Just(Step::Drop),
        (0..3_u8).prop_map(Step::Output),
    ]
}

/// The oracle: a packet is a vector with room at its ends.
fn oracle(shape: &LinkShape, packet: &[u8], steps: &[Step]) -> Vec<Given> {
    let (mut head, mut bytes) = (shape.headroom as usize, packet.to_vec());
    let (mut verdict, mut after) = (Some(0), Vec::new());
    for step in steps {
        match *step {
            Step::Push(n) if n <= head => {
                head -= n;
                bytes.splice(0..0, vec![0xaa; n]);
            }
            Step::Pull(n) if n < bytes.len() => {
                head += n;
                bytes.drain(..n);
            }
            Step::Truncate(n) if n > 0 => bytes.truncate(n),
            Step::Extend(n) if head + bytes.len() + n <= shape.frame_len() as usize => {
                bytes.resize(bytes.len() + n, 0xbb);
            }
            Step::Emit(a, b) if a <= b && b <= bytes.len() => {
                let all = [&[0xcc; 8], &bytes[a..b]].concat();
                if all.len() <= (shape.frame_len() - shape.headroom) as usize {
                    after.push(emitted(1, &all));
                }
            }
            Step::EmitCopy if bytes.len() <= (shape.frame_len() - shape.headroom) as usize => {
                after.push(emitted(0, &bytes));
            }
            Step::Drop => verdict = None,
            Step::Output(output) => verdict = Some(output),
            _ => {}
        }
    }
    let first = match verdict {
        Some(output) if output < 2 => returned(u32::from(output), &bytes),
        _ => dropped(),
    };
    let mut all = vec![first];
    all.extend(after);
    all
}

fn carry_out(packet: &mut thruway_nf::Packet<'_>, steps: &[Step]) -> Verdict {
    let mut verdict = Verdict::Next(0);
    for step in steps {
        match *step {
            Step::Push(n) => {
                if let Some(new) = packet.push(n) {
                    new.fill(0xaa);
                }
            }
            Step::Pull(n) => drop(packet.pull(n)),
            Step::Truncate(n) => drop(packet.truncate(n)),
            Step::Extend(n) => {
                if let Some(new) = packet.extend(n) {
                    new.fill(0xbb);
                }
            }
            #[allow(clippy::reversed_empty_ranges, reason = "an empty range is an answer too")]
            Step::Emit(a, b) => drop(packet.emit_part(1, &[0xcc; 8], a..b)),
            Step::EmitCopy => drop(packet.emit_copy(0)),
            Step::Drop => verdict = Verdict::Drop,
            Step::Output(output) => verdict = Verdict::Next(output),
        }
    }
    verdict
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn as_vectors(
        packets in proptest::collection::vec(
            (1..210_usize, proptest::collection::vec(step(), 0..8)), 1..40,
        ),
        worker_threshold in 1..40_u32,
    ) {
        let shape = LinkShape { packet_len_max: 210, slots: 16, ..LinkShape::DEFAULT };
        let setup = Setup { shape, worker_threshold, ..TWO };
        let steps: Vec<Vec<Step>> = packets.iter().map(|(_, steps)| steps.clone()).collect();
        let config = Config { batch_len_max: 5, prefetch: 2, ..Config::DEFAULT };
        let mut trial = setup.thread(config, move |_| {
            let mut all = steps.into_iter();
            Ok(move |batch: &mut Batch<'_>| {
                batch.each(|packet| carry_out(packet, &all.next().unwrap()));
            })
        }).unwrap();
        let bytes: Vec<Vec<u8>> =
            (1_u8..).zip(&packets).map(|(n, (len, _))| vec![n; *len]).collect();
        let slices: Vec<&[u8]> = bytes.iter().map(Vec::as_slice).collect();
        let given = trial.exchange(&slices).unwrap();
        let expected: Vec<Given> = slices.iter().zip(&packets)
            .flat_map(|(bytes, (_, steps))| oracle(&shape, bytes, steps)).collect();
        prop_assert_eq!(given, expected);
        trial.finish().unwrap();
    }
}

//! Connections through the engine: what each end receives is the whole stream, replaced as a whole.

use thruway_stream::stage::Hold;
use thruway_stream::tcp::overlap::Overlap;
use thruway_stream::tcp::{AtBound, Mode, Settings};

use crate::app::Close;
use crate::engine::{Engine, EngineConfig};
use crate::frame::{Side, Wire};
use crate::functions::Function;
use crate::host::MILLISECOND;
use crate::pair::PairPlan;
use crate::plan;
use crate::run_seeds;
use crate::world::{BEGINNING, Failure, World};
use thruway_random::Random;

/// All that is decided for a run.
struct Trial {
    plans: Vec<PairPlan>,
    engine: EngineConfig,
    /// The same ports are used once more, at once.
    is_again: bool,
    /// The middle may reset connections.
    may_break: bool,
    /// Segments come joined in long packets.
    is_offloaded: bool,
}

impl Trial {
    /// Everything as it is by default.
    fn new(random: &mut Random, functions: Vec<Function>) -> Trial {
        let plans = plan::pairs(random);
        let settings = Settings {
            mode: Mode::Guard,
            overlap: *random.one_of(&[Overlap::First, Overlap::Last]),
            ..Settings::default()
        };
        let engine = EngineConfig {
            functions,
            settings,
            hold: Hold::default(),
            one_by_one: random.chance(500),
            deaf_until: 0,
        };
        Trial { plans, engine, is_again: random.chance(200), may_break: false, is_offloaded: false }
    }

    /// Runs it. Each end must get what becomes of what the other wrote, or, if `is_seen` says so,
    /// of what functions were shown.
    fn run(self, random: Random, is_seen: bool) -> Result<(), Failure> {
        let functions = self.engine.functions.clone();
        let mut middle = Engine::new(self.engine);
        let seen = middle.seen.clone();
        let expected = |wire: &Wire, from: Side, data: &[u8]| {
            let key = (if wire.v6 { 6 } else { 4 }, wire.ports);
            let shown = seen.borrow_mut().remove(&key);
            let Some(shown) = shown.filter(|_| is_seen) else {
                return Engine::whole(&functions, data);
            };
            let wanted = Engine::whole(&functions, &shown[from.index()]);
            seen.borrow_mut().insert(key, shown);
            wanted
        };
        let mut world = World::new(self.plans, &mut middle, random);
        world.may_break = self.may_break;
        world.is_offloaded = self.is_offloaded;
        world.run(expected)?;
        if self.is_again {
            seen.borrow_mut().clear();
            world.again();
            world.run(expected)?;
        }
        world.be_forgotten()
    }
}

/// Runs the seeds of a test, and those that once failed: a trial with functions, adapted.
fn run(
    choose: impl Fn(&mut Random) -> Vec<Function>,
    adapt: impl Fn(&mut Trial, &mut Random),
    is_seen: bool,
    known: &[u64],
) {
    run_seeds(known, |seed| {
        let mut random = Random::from_seed(seed);
        let functions = choose(&mut random);
        let mut trial = Trial::new(&mut random, functions);
        adapt(&mut trial, &mut random);
        trial.run(random, is_seen)
    });
}

fn as_it_is(_: &mut Trial, _: &mut Random) {}

/// Functions that do not change the stream, in one of the engine's modes.
fn unchanging(random: &mut Random) -> Vec<Function> {
    match random.size(0..=2) {
        0 => vec![Function::Look],
        1 => vec![Function::Look, Function::Hold(2)],
        _ => vec![Function::Hold(1), Function::Look, Function::Hold(3)],
    }
}

#[test]
fn what_is_only_seen_is_not_changed() {
    run(|_| vec![Function::Look], as_it_is, false, &[11723, 16510]);
}

#[test]
fn changes_in_place_are_those_of_the_whole_stream() {
    run(|_| vec![Function::Upper], as_it_is, false, &[11723, 16510]);
}

#[test]
fn changes_are_those_of_the_whole_stream() {
    run(Function::chain, as_it_is, false, &[8212]);
}

/// Where nothing is guarded, packets go on as they come, and functions see the stream all the same.
#[test]
fn order_and_no_more() {
    let only_order = |trial: &mut Trial, random: &mut Random| {
        trial.engine.settings.mode = *random.one_of(&[Mode::Follow, Mode::Order]);
    };
    run(|_| vec![Function::Look], only_order, true, &[9995, 60561]);
}

/// What a sender sends again differs from what it sent first: the receiver gets what functions saw.
#[test]
fn liars_do_not_get_past_functions() {
    let lies = |trial: &mut Trial, _: &mut Random| {
        for plan in &mut trial.plans {
            plan.hosts.iter_mut().for_each(|host| host.sender.lies = true);
        }
    };
    let choose = |random: &mut Random| {
        let mut functions = vec![Function::Look];
        if random.chance(500) {
            functions.extend(Function::chain(random));
        }
        functions
    };
    run(choose, lies, true, &[2880, 5744, 6777, 12276, 14550]);
}

/// The middlebox does not repair bytes that were corrupted before it.
#[test]
fn spoilt_packets_do_not_get_through() {
    let spoil = |trial: &mut Trial, random: &mut Random| {
        for plan in &mut trial.plans {
            plan.before.iter_mut().for_each(|link| link.spoilt = random.size(1..=50) as u32);
        }
    };
    run(Function::chain, spoil, false, &[11320]);
}

/// A slow writer, with each word cut at each place and pauses longer than any timer, gets past no
/// function: by default nothing goes on before its rest has come.
#[test]
fn slow_senders_do_not_get_past_functions() {
    let slow = |trial: &mut Trial, random: &mut Random| {
        let chunk = random.size(1..=7);
        for app in trial.plans.iter_mut().flat_map(|plan| &mut plan.apps) {
            app.data = b"an attack, attattack: a word, attaattackk".to_vec();
            app.write_chunk = chunk..=chunk;
            app.write_pause = PAUSE..=PAUSE;
            app.close = Close::WhenWritten;
        }
    };
    let choose = |_: &mut Random| vec![Function::Replace(b"attack", b""), Function::Look];
    run(choose, slow, false, &[]);
}

/// Longer than any timer of the middle.
const PAUSE: i64 = 100_000 * MILLISECOND;

/// Segments that come as one packet, which is to leave as one where large frames are left.
#[test]
fn long_packets_are_as_their_segments() {
    let long = |trial: &mut Trial, random: &mut Random| {
        trial.is_offloaded = true;
        trial.engine.settings.large_max = *random.one_of(&[0, 4, 128]) + 2;
        for app in trial.plans.iter_mut().flat_map(|plan| &mut plan.apps) {
            app.write_chunk = 20_000..=60_000;
        }
    };
    run(Function::chain, long, false, &[]);
    run(unchanging, long, false, &[]);
    run(|_| vec![Function::Upper], long, false, &[]);
}

/// Bytes held back are let go when nothing comes for a time.
#[test]
fn late_bytes_are_let_go() {
    let hurry = |trial: &mut Trial, random: &mut Random| {
        trial.engine.hold.time = random.within(1..=300) * MILLISECOND;
    };
    let choose = |random: &mut Random| {
        let mut functions = unchanging(random);
        functions.push(Function::Hold(random.size(1..=4) as u64));
        functions.push(Function::Stretch(random.size(1..=2)));
        functions
    };
    run(choose, hurry, false, &[]);
}

/// With little memory connections become slow, not wrong.
#[test]
fn little_memory_is_enough() {
    let scarce = |trial: &mut Trial, random: &mut Random| {
        let settings = &mut trial.engine.settings;
        settings.buffer = random.size(10_000..=200_000) as u32;
        settings.total = random.size(20_000..=400_000) as u64;
        settings.at_bound = AtBound::Drop;
        // A stalled connection is evicted while another needs the room.
        trial.may_break = trial.plans.len() > 1;
    };
    run(Function::chain, scarce, false, &[481, 1242, 1444, 2170, 3027, 11320]);
}

/// A function that ends connections lets nothing more through, and both ends learn of it.
#[test]
fn closed_connections_end() {
    let may_break = |trial: &mut Trial, _: &mut Random| trial.may_break = true;
    let choose = |random: &mut Random| {
        let mut functions = unchanging(random);
        functions.push(Function::Close(random.magnitude(20_000) as u64));
        functions
    };
    run(choose, may_break, false, &[3379, 6777]);
}

/// Connections that were not seen to begin go on as they are.
#[test]
fn established_connections_are_picked_up() {
    let late = |trial: &mut Trial, random: &mut Random| {
        trial.engine.deaf_until = BEGINNING + random.magnitude(2000) as i64 * MILLISECOND;
        // Neither the MSS is known then nor what windows are reported in.
        for host in trial.plans.iter_mut().flat_map(|plan| &mut plan.hosts) {
            host.offer.mss = host.offer.mss.map(|mss| mss.max(600));
            host.is_strict = false;
        }
    };
    let known = [
        390, 809, 1562, 1836, 2132, 2673, 3108, 3373, 5166, 5612, 6235, 7204, 8919, 9050, 9891,
        11079, 15608, 16569, 16855, 40928, 17515, 18152, 18269, 18506, 19100, 65978,
    ];
    run(|_| vec![Function::Look], late, false, &known);
}

/// An end that has forgotten its connection gets a new one between the same ports.
#[test]
fn ends_that_forget_begin_anew() {
    let restart = |trial: &mut Trial, random: &mut Random| {
        trial.is_again = false;
        for plan in &mut trial.plans {
            plan.restart = Some(random.magnitude(3000) as i64 * MILLISECOND);
            plan.calls = [Some(0), None];
            // What is late may be of the former connection.
            let links = plan.before.iter_mut().chain(&mut plan.behind);
            links.for_each(|link| (link.doubled, link.overtaken) = (0, 0));
            for app in plan.apps.iter_mut().filter(|app| matches!(app.close, Close::Abort(_))) {
                app.close = Close::WhenWritten;
            }
        }
    };
    run(Function::chain, restart, false, &[467]);
    run(|_| vec![Function::Look], restart, false, &[]);
}

//! A clock over counters and system's clocks that do what real ones may.

mod sim;

use std::sync::Arc;

use proptest::prelude::*;
use sim::{MILLISECOND, SECOND, Sim};
use thruway_clock::{Clock, Phase, Reference, Settings, Why};

fn clock() -> Clock {
    Clock::new(Settings::default(), Arc::new(Reference::default()))
}

/// Reads every so often for so long; by how much the time was off at most, and whether it ever went
/// back.
fn drive(clock: &mut Clock, sim: &mut Sim, seconds: f64, every: i64) -> (i64, bool) {
    let end = sim.elapsed() + (seconds * SECOND as f64) as i64;
    let (mut worst, mut went_back, mut last) = (0, false, i64::MIN);
    while sim.elapsed() < end {
        sim.pass(every);
        // A reading may be interrupted: right is what the system's clock showed meanwhile.
        let before = sim.system_now();
        let now = clock.now(sim);
        let early = before.saturating_sub(now);
        worst = worst.max(early).max(now.saturating_sub(sim.system_now()));
        went_back |= now < last;
        last = now;
    }
    (worst, went_back)
}

fn running(sim: &mut Sim) -> Clock {
    let mut clock = clock();
    drive(&mut clock, sim, 2.0, MILLISECOND);
    assert_eq!(clock.phase(), Phase::Running, "{:?}", clock.stats());
    clock
}

#[test]
fn the_three_phases() {
    let mut sim = Sim::new(1);
    let mut clock = clock();
    let mut phases = vec![clock.phase()];
    for _ in 0..1000 {
        sim.pass(MILLISECOND);
        clock.now(&mut sim);
        if phases.last() != Some(&clock.phase()) {
            phases.push(clock.phase());
        }
    }
    assert_eq!(phases, [Phase::Stabilising, Phase::Synchronising, Phase::Running]);
    assert!(clock.is_cheap() && !clock.is_settling());
}

#[test]
fn one_reading_a_second_when_it_runs() {
    let mut sim = Sim::new(2);
    let mut clock = running(&mut sim);
    drive(&mut clock, &mut sim, 3.0, MILLISECOND);
    let (readings, looks) = (sim.system_readings, clock.stats().looks);
    drive(&mut clock, &mut sim, 100.0, MILLISECOND);
    assert_eq!(clock.stats().looks - looks, 100);
    assert!(sim.system_readings - readings <= 2500, "some readings for each look, no more");
}

#[test]
fn the_rate_of_another_thread_is_taken_on_trial() {
    let reference = Arc::new(Reference::default());
    let mut first = Clock::new(Settings::default(), Arc::clone(&reference));
    let mut sim = Sim::new(3);
    drive(&mut first, &mut sim, 1.0, MILLISECOND);
    let mut second = Clock::new(Settings::default(), Arc::clone(&reference));
    second.now(&mut sim);
    assert_eq!(second.phase(), Phase::Synchronising);
    drive(&mut second, &mut sim, 0.15, MILLISECOND);
    assert_eq!(second.phase(), Phase::Running);
    // Another core's counter runs at another rate: what the first one found does not do here.
    let mut other = Sim::new(3);
    other.hertz *= 1.01;
    let mut third = Clock::new(Settings::default(), reference);
    drive(&mut third, &mut other, 5.0, MILLISECOND);
    assert_eq!((third.phase(), third.stats().failures), (Phase::Running, 1));
    assert!((third.stats().hertz as f64 / other.hertz - 1.0).abs() < 1e-5);
}

#[test]
fn a_rate_that_changes_all_the_time_never_passes() {
    let mut sim = Sim::new(4);
    sim.wobble = 0.01;
    let mut clock = clock();
    let (worst, back) = drive(&mut clock, &mut sim, 60.0, MILLISECOND);
    assert!(!clock.is_cheap() && clock.stats().looks == 0 && clock.stats().failures > 3);
    assert!(worst < 1_000 && !back, "it returned the system's time: {worst}");
    // It tries less and less often.
    assert!(clock.stats().failures < 14, "{}", clock.stats().failures);
}

#[test]
fn no_counter_at_all() {
    let mut sim = Sim::new(5);
    sim.hertz = 0.0;
    let mut clock = clock();
    let (_, back) = drive(&mut clock, &mut sim, 10.0, MILLISECOND);
    assert!(!clock.is_cheap() && !back);
}

#[test]
fn a_counter_that_goes_back_again_and_again_is_given_up() {
    let mut sim = Sim::new(6);
    let mut clock = running(&mut sim);
    sim.counter_by(-3_000_000_000);
    let (_, back) = drive(&mut clock, &mut sim, 0.001, MILLISECOND);
    assert!(!clock.is_cheap() && !back, "at once");
    for _ in 0..10 {
        let (_, back) = drive(&mut clock, &mut sim, 1.0, MILLISECOND);
        assert!(!back);
        sim.counter_by(-1_000_000_000);
    }
    drive(&mut clock, &mut sim, 1.0, MILLISECOND);
    assert_eq!(clock.phase(), Phase::System(Why::WentBack));
    let (worst, back) = drive(&mut clock, &mut sim, 10.0, MILLISECOND);
    assert!(worst < 1_000 && !back);
}

#[test]
fn a_counter_just_a_little_behind_is_found_out() {
    // Between two readings the thread moves to a core with a counter that is 10 us behind.
    let mut sim = Sim::new(7);
    let mut clock = running(&mut sim);
    drive(&mut clock, &mut sim, 0.5, 1_000);
    sim.counter_by(-30_000);
    let (_, back) = drive(&mut clock, &mut sim, 0.000_01, 1_000);
    assert!(!back && !clock.is_cheap());
}

#[test]
fn a_clock_not_read_for_two_seconds_synchronises_again() {
    let mut sim = Sim::new(8);
    let mut clock = running(&mut sim);
    sim.pass(5 * SECOND);
    let now = clock.now(&mut sim);
    assert!((now - sim.system_now()).abs() < 50_000);
    assert_eq!((clock.phase(), clock.stats().late), (Phase::Synchronising, 1));
    drive(&mut clock, &mut sim, 0.3, MILLISECOND);
    assert_eq!(clock.phase(), Phase::Running);
}

#[test]
fn far_behind_it_jumps() {
    let mut sim = Sim::new(9);
    let mut clock = running(&mut sim);
    sim.system_by(3600 * SECOND);
    drive(&mut clock, &mut sim, 1.1, MILLISECOND);
    let (worst, _) = drive(&mut clock, &mut sim, 5.0, MILLISECOND);
    assert_eq!((clock.stats().jumps, clock.phase()), (1, Phase::Running));
    assert!(worst < 1_000, "{worst}");
}

#[test]
fn a_little_behind_or_ahead_it_catches_up_by_an_eighth() {
    for step in [SECOND / 2, -SECOND / 2, -20 * SECOND] {
        let mut sim = Sim::new(10);
        let mut clock = running(&mut sim);
        sim.system_by(step);
        let begin = clock.now(&mut sim);
        let (_, back) = drive(&mut clock, &mut sim, 2.0, MILLISECOND);
        let went = clock.now(&mut sim) - begin;
        assert!((1_740_000_000..2_260_000_000).contains(&went) && !back, "{went}");
        let (_, back) = drive(&mut clock, &mut sim, step.abs() as f64 * 8.5e-9, MILLISECOND);
        let (worst, _) = drive(&mut clock, &mut sim, 5.0, MILLISECOND);
        assert!(worst < 1_000 && !back && clock.stats().jumps == 0, "{step}: {worst}");
        assert_eq!(clock.phase(), Phase::Running);
    }
}

/// In whatever phase, and by whichever clock: where the system's clock is set back, time goes on at
/// seven eighths, and where it is set forward by little at nine.
#[test]
fn time_goes_on_whatever_the_system_clock_is_set_to() {
    for settled in [0.0, 0.05, 0.15, 3.0] {
        let kinds: [fn() -> Clock; 3] =
            [clock, || Clock::system(Why::Chosen), || Clock::system(Why::NotConstant)];
        for new in kinds {
            for step in [-30 * SECOND, -3600 * SECOND, SECOND / 2] {
                let mut sim = Sim::new(13);
                let mut clock = new();
                clock.now(&mut sim);
                drive(&mut clock, &mut sim, settled, MILLISECOND);
                sim.system_by(step);
                let mut last = clock.now(&mut sim);
                for _ in 0..400 {
                    let begin = sim.elapsed();
                    drive(&mut clock, &mut sim, 0.01, 100_000);
                    let (now, passed) = (clock.now(&mut sim), sim.elapsed() - begin);
                    let most = passed + passed / 8 + 50_000;
                    let went = now - last;
                    assert!(
                        (passed * 7 / 8 - 50_000..=most).contains(&went),
                        "{settled} {step}: {went} of {passed}, {}",
                        clock.phase()
                    );
                    last = now;
                }
            }
        }
    }
}

/// After a stop of the process in which the clock was set back, too.
#[test]
fn time_goes_on_after_a_stop() {
    let mut sim = Sim::new(14);
    let mut clock = running(&mut sim);
    let before = clock.now(&mut sim);
    sim.system_by(-30 * SECOND);
    sim.pass(5 * SECOND);
    let went = clock.now(&mut sim) - before;
    assert!((4 * SECOND..6 * SECOND).contains(&went), "{went}");
    let begin = clock.now(&mut sim);
    drive(&mut clock, &mut sim, 2.0, MILLISECOND);
    assert!((1_740_000_000..2_010_000_000).contains(&(clock.now(&mut sim) - begin)));
    assert_eq!(clock.phase(), Phase::Running);
}

#[test]
fn a_counter_with_another_rate_is_found_out() {
    // A virtual machine moved to another host.
    let mut sim = Sim::new(11);
    let mut clock = running(&mut sim);
    sim.counter_to(2_000_000_000.0);
    let (_, back) = drive(&mut clock, &mut sim, 20.0, MILLISECOND);
    assert!(!back);
    let (worst, _) = drive(&mut clock, &mut sim, 5.0, MILLISECOND);
    assert!(clock.phase() == Phase::Running && worst < 1_000, "{worst} {:?}", clock.stats());
    assert!((clock.stats().hertz as f64 / 2e9 - 1.0).abs() < 1e-6);
}

#[test]
fn it_follows_a_system_clock_that_ntp_moves() {
    let mut sim = Sim::new(12);
    let mut clock = running(&mut sim);
    drive(&mut clock, &mut sim, 10.0, MILLISECOND);
    for ppm in [100.0, -100.0] {
        sim.drift = ppm * 1e-6;
        // Off by what a second of the change makes; then it has learnt.
        let (worst, _) = drive(&mut clock, &mut sim, 10.0, MILLISECOND);
        assert!((50_000..400_000).contains(&worst), "{worst}");
        let (worst, _) = drive(&mut clock, &mut sim, 20.0, MILLISECOND);
        assert!(worst < 1_000, "{worst}");
    }
}

/// What may happen to the clocks of a machine.
#[derive(Debug, Clone)]
enum Event {
    Quiet,
    SystemBy(i64),
    CounterBy(i64),
    CounterTo(f64),
    Drift(f64),
    Stall(i64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => Just(Event::Quiet),
        2 => (-5 * SECOND..5 * SECOND).prop_map(Event::SystemBy),
        1 => any::<i64>().prop_map(Event::SystemBy),
        2 => (-20_000_000_000i64..20_000_000_000).prop_map(Event::CounterBy),
        1 => any::<i64>().prop_map(Event::CounterBy),
        1 => (1e5f64..1e10).prop_map(Event::CounterTo),
        2 => (-5e-4f64..5e-4).prop_map(Event::Drift),
        1 => (0..10 * SECOND).prop_map(Event::Stall),
    ]
}

proptest! {
    /// Whatever happens: no panic, never back.
    #[test]
    fn time_never_goes_back(
        seed: u64, hertz in 1e6f64..6e9, events in prop::collection::vec(event(), 1..12),
    ) {
        let mut sim = Sim::new(seed);
        sim.hertz = hertz;
        let mut clock = clock();
        for event in events {
            match event {
                Event::Quiet => {}
                Event::SystemBy(ns) => sim.system_by(ns),
                Event::CounterBy(cycles) => sim.counter_by(cycles),
                Event::CounterTo(hertz) => sim.counter_to(hertz),
                Event::Drift(drift) => sim.drift = drift,
                Event::Stall(ns) => sim.pass(ns),
            }
            let before = clock.now(&mut sim);
            let (_, back) = drive(&mut clock, &mut sim, 1.5, 2 * MILLISECOND);
            prop_assert!(!back && clock.now(&mut sim) >= before);
        }
    }

    /// On a sound machine it gets to run, and returns the system's time.
    #[test]
    fn it_is_accurate(seed: u64, hertz in 5e8f64..6e9, ppm in -200.0f64..200.0) {
        let mut sim = Sim::new(seed);
        (sim.hertz, sim.drift) = (hertz, ppm * 1e-6);
        let mut clock = clock();
        drive(&mut clock, &mut sim, 5.0, MILLISECOND);
        prop_assert_eq!(clock.phase(), Phase::Running);
        drive(&mut clock, &mut sim, 10.0, MILLISECOND);
        let (worst, back) = drive(&mut clock, &mut sim, 10.0, MILLISECOND);
        prop_assert!(worst <= 100 && !back, "{worst} ns");
        prop_assert!(clock.stats().error_ns.abs() <= 200, "{}", clock.stats().error_ns);
    }
}

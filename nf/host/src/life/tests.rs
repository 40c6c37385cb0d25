use super::*;
use proptest::prelude::*;

const PATIENCE: Patience = Patience {
    attach: Duration::from_secs(5),
    hang: Some(Duration::from_secs(1)),
    drain: Duration::from_secs(2),
};
const BACKOFF: Backoff = Backoff {
    first: Duration::from_millis(10),
    max: Duration::from_millis(500),
    stable_after: Duration::from_secs(3),
    burst: 3,
    every: Duration::from_secs(1),
    failures_max: None,
};

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn running() -> Life {
    let (mut life, start) = Life::new(PATIENCE, BACKOFF, s(0));
    assert_eq!(start, Action::Start(1));
    assert_eq!(life.on(s(0), Event::Attached), [Action::Publish]);
    life
}

#[test]
fn a_function_that_never_attached_is_given_up() {
    let (mut life, _) = Life::new(PATIENCE, BACKOFF, s(0));
    assert_eq!(life.on(s(4), Event::Time), []);
    assert_eq!(life.on(s(5), Event::Time), [Action::Kill]);
    assert_eq!(life.overdue(), Some(Overdue::Attach));
    assert_eq!(life.on(s(5), Event::Ended), []);
    assert_eq!(life.state(), State::Failed);
}

#[test]
fn one_that_hangs_is_quarantined_and_restarted() {
    let mut life = running();
    // How long it had a packet is what Masters measure: time alone ends no running function.
    assert_eq!((life.deadline(), life.on(s(5), Event::Time)), (None, vec![]));
    assert_eq!(life.on(s(6), Event::Hangs), [Action::Kill, Action::Withdraw]);
    assert_eq!(life.on(s(6), Event::Hangs), []);
    assert_eq!((life.state(), life.overdue()), (State::Quarantined, Some(Overdue::Progress)));
    assert_eq!(life.on(s(6), Event::Ended), []);
    assert_eq!(life.on(s(6), Event::Time), [Action::Start(2)]);
}

#[test]
fn one_that_drains_has_the_deadline_of_draining_only() {
    let mut life = running();
    life.on(s(1), Event::Drain);
    assert_eq!(life.on(s(2), Event::Hangs), []);
    assert_eq!(life.state(), State::Draining);
}

#[test]
fn delays_between_failed_starts_double_up_to_the_longest_and_begin_anew_when_one_works() {
    let mut life = running();
    let mut now = Duration::ZERO;
    life.on(now, Event::Ended);
    life.on(now, Event::Time);
    for wanted_ms in [10, 20, 40, 80, 160, 320, 500, 500] {
        assert_eq!(life.on(now, Event::Ended), []);
        let due = life.deadline().unwrap();
        assert_eq!(due - now, Duration::from_millis(wanted_ms));
        now = due;
        assert_eq!(life.on(now, Event::Time).len(), 1);
    }
    life.on(now, Event::Attached);
    life.on(now, Event::Ended);
    assert_eq!(life.deadline(), Some(now));
    life.on(now, Event::Time);
    life.on(now, Event::Ended);
    assert_eq!(life.deadline().unwrap() - now, Duration::from_millis(10));
}

#[test]
fn functions_that_ran_are_started_at_once_but_not_for_ever() {
    let mut life = running();
    let mut ends = |now: Duration| {
        assert_eq!(life.on(now, Event::Ended), [Action::Withdraw]);
        let due = life.deadline().unwrap();
        life.on(due, Event::Time);
        life.on(due, Event::Attached);
        due
    };
    let ms = Duration::from_millis;
    for _ in 0..3 {
        assert_eq!(ends(s(10)), s(10));
    }
    // Then once a second.
    assert_eq!(ends(ms(10_100)), s(11));
    assert_eq!(ends(s(11)), s(12));
    // What was not used for a while is there again.
    for _ in 0..3 {
        assert_eq!(ends(s(16)), s(16));
    }
    assert_eq!(ends(s(16)), s(17));
}

#[test]
fn failures_in_a_row_have_an_end() {
    let backoff = Backoff { failures_max: Some(2), ..BACKOFF };
    let (mut life, _) = Life::new(PATIENCE, backoff, s(0));
    life.on(s(0), Event::Attached);
    life.on(s(0), Event::Ended);
    assert_eq!(life.state(), State::Restarting);
    life.on(s(1), Event::Time);
    life.on(s(1), Event::Ended);
    assert_eq!(life.state(), State::Failed);
}

#[test]
fn draining_ends_by_itself_or_by_force() {
    let mut life = running();
    assert_eq!(life.on(s(1), Event::Drain), [Action::AskToDrain]);
    assert_eq!(life.on(s(2), Event::Ended), [Action::Withdraw]);
    assert_eq!(life.state(), State::Stopped);
    let mut life = running();
    life.on(s(1), Event::Drain);
    assert_eq!(life.on(s(3), Event::Time), [Action::Kill, Action::Withdraw]);
    assert_eq!(life.on(s(3), Event::Ended), []);
    assert_eq!(life.state(), State::Stopped);
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => Just(Event::Attached),
        4 => Just(Event::Ended),
        2 => Just(Event::Broke),
        3 => Just(Event::Hangs),
        6 => Just(Event::Time),
        1 => Just(Event::Drain),
        1 => Just(Event::Stop),
    ]
}

/// The world that the actions change, and what must hold in it.
#[derive(Default)]
struct World {
    alive: bool,
    published: bool,
    killed: bool,
    generation: u32,
}

impl World {
    fn does(&mut self, action: Action) {
        match action {
            Action::Start(generation) => {
                assert!(!self.alive, "two processes");
                assert!(generation > self.generation, "a generation twice");
                *self = World { alive: true, generation, ..World::default() };
            }
            Action::Publish => {
                assert!(self.alive && !self.published && !self.killed);
                self.published = true;
            }
            Action::Withdraw => {
                assert!(self.published);
                assert!(self.killed || !self.alive, "taken back from a living function");
                self.published = false;
            }
            Action::Kill => {
                assert!(self.alive && !self.killed);
                self.killed = true;
            }
            Action::AskToDrain => assert!(self.alive && self.published),
        }
    }
}

proptest! {
    /// Whatever happens in whatever order: one process at a time, links of living functions
    /// only, every process that must go is killed, and an end is an end.
    #[test]
    fn the_table_holds(events in prop::collection::vec((event(), 0_u64..3000), 1..200)) {
        let (mut life, start) = Life::new(PATIENCE, BACKOFF, s(0));
        let mut world = World::default();
        world.does(start);
        let mut now = s(0);
        for (event, pause_ms) in events {
            now += Duration::from_millis(pause_ms);
            // A process that is not there cannot end.
            if event == Event::Ended {
                if !world.alive {
                    continue;
                }
                world.alive = false;
            }
            let was_final = life.state().is_final();
            let state = life.state();
            for action in life.on(now, event) {
                prop_assert!(!was_final, "{action:?} after the end");
                world.does(action);
            }
            prop_assert!(!was_final || life.state() == state);
            prop_assert_eq!(life.state().has_process(), world.alive);
            prop_assert_eq!(life.state().is_published(), world.published);
            let dying = matches!(life.state(), State::Quarantined | State::Ending);
            prop_assert_eq!(dying, world.alive && world.killed);
            prop_assert_eq!(life.generation(), world.generation);
        }
    }

    /// The delay is the smallest power of two times the first, as a loop would compute it.
    #[test]
    fn delays_are_as_computed_by_doubling(failures in 1_u32..100) {
        let mut delay = BACKOFF.first;
        for _ in 1..failures {
            delay = (delay * 2).min(BACKOFF.max);
        }
        prop_assert_eq!(BACKOFF.delay(failures), delay);
    }
}

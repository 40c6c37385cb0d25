//! Functions that are several Workers, in Rust and C, in their sandbox.

#[path = "../../../nf/sdk-c/tests/compile/mod.rs"]
mod compile;

use std::path::Path;
use std::time::{Duration, Instant};

use compile::{C, compile};
use thruway_exchange::{Control, Mapped, Master, SlotTag, Tuning};
use thruway_nf_host::{Function, FunctionSpec, HostLink, Program, State};

/// Longest time that anything here may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A Master of one link of a function in its sandbox.
struct Hand {
    link: HostLink,
    master: Master<Mapped>,
}

impl Hand {
    fn take(function: &Function, thread: usize) -> Hand {
        let link = function.take_link(thread).expect("a link");
        Hand { master: Master::new(link.link.clone(), 1, Tuning::DEFAULT), link }
    }

    /// Sends the first packet of a session and more of it, and waits until all are back.
    fn send(&mut self, session: u32, count: u32) {
        let mark = SlotTag::of(0, 0, session);
        for nth in 0..count {
            let mark = if nth == 0 { mark.new_session() } else { mark };
            self.master.put(mark, &[7; 60]).expect("room");
        }
        self.master.publish(&self.link.doorbell, 0);
        let (begin, mut back) = (Instant::now(), 0);
        while back < count {
            back += self.master.poll(0, 64, |_| ()).expect("an honest function");
            assert!(begin.elapsed() < PATIENCE, "{back} of {count} are back");
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}

/// Three links and two Workers: each counts the sessions of its links, in a control region of its
/// own.
fn count_flows(program: &Path) {
    let spec = |workers| FunctionSpec {
        links: 3,
        workers,
        sessions: 6,
        ..FunctionSpec::new(Program::new(program))
    };
    let function = Function::start(spec(2)).unwrap_or_else(|error| panic!("{error}"));
    for (thread, packets) in [(0, 3), (1, 5), (2, 7)] {
        // The second session of the link.
        Hand::take(&function, thread).send(2 * thread as u32 + 1, packets);
    }
    let counters: Vec<_> = function.controls().iter().map(Control::counters).collect();
    let value = |worker: usize, name: &str| {
        let found = counters[worker].iter().find(|(known, _)| known == name);
        found.unwrap_or_else(|| panic!("no {name} in {counters:?}")).1
    };
    assert_eq!([value(0, "begun"), value(1, "begun")], [2, 1]);
    assert_eq!([value(0, "packets-max-0"), value(1, "packets-max-1")], [5, 7]);
    assert_eq!([value(0, "without"), value(1, "without")], [0, 0]);
    function.drain();
    let state = function.wait_for(|state| state == State::Stopped, PATIENCE);
    let status = function.status();
    assert!(state == State::Stopped && status.restarts == 0, "{status:?}");
    assert_eq!(
        status.last_end.as_deref().map(|end| end.contains("status 0")),
        Some(true),
        "{status:?}"
    );
    for workers in [0, 4] {
        let error = Function::start(spec(workers)).unwrap_err().to_string();
        assert!(error.contains("1 to 3"), "{error}");
    }
    let uneven = Function::start(FunctionSpec { sessions: 7, ..spec(2) }).unwrap_err();
    assert!(uneven.to_string().contains("shared out evenly"), "{uneven}");
}

#[test]
fn workers_in_c_have_sessions_and_counters_of_their_own() {
    let (_folder, program) = compile(C, "examples/functions/c/flowcount.c");
    count_flows(&program);
}

#[test]
fn workers_in_rust_have_sessions_and_counters_of_their_own() {
    count_flows(Path::new(env!("CARGO_BIN_EXE_flowcount")));
}

//! Functions that attach, work, break and are restarted; each is a real process in its sandbox.

mod peer;

use peer::spec;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thruway_exchange::{Mapped, Master, PeerFault, SlotTag, Tuning};
use thruway_nf_abi::features::Features;
use thruway_nf_abi::message::Kind;
use thruway_nf_abi::{OLDEST_VERSION, VERSION};
use thruway_nf_host::{CallError, Exit, Function, FunctionSpec, HostError, HostLink, State};
use thruway_sync::atomic::{AtomicBool, Ordering};

const SOON: Duration = Duration::from_secs(10);

/// Not a test: the isolated function itself, see `peer`.
#[test]
fn role() {
    peer::play();
}

#[track_caller]
fn start(spec: FunctionSpec) -> Arc<Function> {
    Function::start(spec).unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
fn error_of(role: &str) -> HostError {
    let mut spec = spec(role);
    spec.patience.attach = Duration::from_millis(500);
    Function::start(spec).map(drop).expect_err("it does not start")
}

/// A Master thread's work, by hand.
struct Hand {
    master: Master<Mapped>,
    host: HostLink,
}

impl Hand {
    #[track_caller]
    fn take(function: &Function) -> Hand {
        let host = function.take_link(0).expect("a link");
        assert!(function.take_link(0).is_none(), "a link is taken once");
        assert_eq!(host.generation, function.generation());
        Hand { master: Master::new(host.link.clone(), 1, Tuning::DEFAULT), host }
    }

    fn put(&mut self, packet: &[u8]) {
        self.master.put(SlotTag::NONE, packet).unwrap();
        self.master.publish(&self.host.doorbell, 0);
    }

    /// Waits for a packet to come back.
    #[track_caller]
    fn get(&mut self) -> Vec<u8> {
        let end = Instant::now() + SOON;
        let mut packet = Vec::new();
        while self.master.poll(0, 1, |token| {
            packet.resize(token.len() as usize, 0);
            token.copy_to(&mut packet);
        }) == Ok(0)
        {
            assert!(Instant::now() < end, "nothing comes back");
            self.master.check_age(&self.host.doorbell, 1);
            std::thread::yield_now();
        }
        packet
    }
}

/// Waits for the next generation to run.
#[track_caller]
fn next_generation(function: &Function, after: u32) {
    let end = Instant::now() + SOON;
    while function.generation() <= after {
        assert!(Instant::now() < end, "{:?}", function.status());
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_packet_goes_there_and_back_within_50_ms_of_the_start() {
    let mut best = Duration::MAX;
    for _ in 0..5 {
        let begin = Instant::now();
        let function = start(spec("honest"));
        let mut hand = Hand::take(&function);
        hand.put(b"packet");
        assert_eq!(hand.get(), b"Packet");
        best = best.min(begin.elapsed());
    }
    println!("from the start to the first packet back: {best:?}");
    assert!(best < Duration::from_millis(50), "{best:?}");
}

#[test]
fn a_function_that_dies_is_restarted_with_fresh_regions() {
    let function = start(spec("honest"));
    let mut first = Hand::take(&function);
    first.put(b"xit");
    next_generation(&function, 1);
    let mut second = Hand::take(&function);
    assert_eq!(second.host.generation, 2);
    second.put(b"again");
    assert_eq!(second.get(), b"Again");
    let mut lost = 0;
    assert_eq!(first.master.reclaim(|_| lost += 1), 1);
    let status = function.status();
    assert_eq!((status.state, status.restarts, lost), (State::Running, 1, 1));
    assert!(status.last_end.unwrap().contains("exited with status 5"));
    assert!(status.cpu_time > Duration::ZERO && status.name == "honest");
}

#[test]
fn a_function_that_hangs_is_killed_and_restarted() {
    let mut spec = spec("hangs");
    spec.patience.hang = Some(Duration::from_millis(100));
    let function = start(spec);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(function.generation(), 1, "an idle function does not hang");
    let mut hand = Hand::take(&function);
    assert_eq!(hand.master.held_since(), None);
    hand.put(b"!");
    assert_eq!(hand.master.held_since(), Some(0));
    // What a Master measures is what counts, of the present generation.
    function.report_hang(7);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(function.generation(), 1);
    function.report_hang(1);
    next_generation(&function, 1);
    let status = function.status();
    assert_eq!(status.hangs, 1);
    assert!(status.last_end.unwrap().contains("hung"));
}

/// Has the kernel's tool do something to a process.
fn tool(name: &str, words: &[&str]) {
    let done = std::process::Command::new(name).args(words).output().expect(name);
    assert!(done.status.success(), "{name}: {}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn a_function_that_gets_no_processor_is_not_killed_for_it() {
    const HANG: Duration = Duration::from_millis(200);
    let mut spec = spec("slow");
    spec.patience.hang = Some(HANG);
    let function = start(spec);
    let pid = function.status().pid.expect("it runs").to_string();
    let allowed = rustix::thread::sched_getaffinity(None).expect("the kernel reports it");
    let core = (0..).find(|core| allowed.is_set(*core)).expect("a core");
    tool("taskset", &["-a", "-p", "-c", &core.to_string(), &pid]);
    // What others leave of that core is next to nothing, whether the kernel shares it out by
    // session (where there is such a file) or by process.
    let session = format!("/proc/{pid}/autogroup");
    let _ = std::fs::write(&session, "19");
    tool("chrt", &["-a", "-i", "-p", "0", &pid]);
    let is_over = AtomicBool::new(false);
    let mut hand = Hand::take(&function);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut own = rustix::thread::CpuSet::new();
                own.set(core);
                rustix::thread::sched_setaffinity(None, &own).expect("a core that is allowed");
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        hand.put(b"late");
        hand.master.ensure_awake(&hand.host.doorbell);
        for _ in 0..3 {
            function.watch();
            std::thread::sleep(HANG + HANG / 4);
            function.report_hang(1);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let status = function.status();
    assert_eq!((function.generation(), status.hangs), (1, 0), "{status:?}");
    tool("chrt", &["-a", "-o", "-p", "0", &pid]);
    let _ = std::fs::write(&session, "0");
    assert_eq!(hand.get(), b"Late");
}

#[test]
fn a_fault_that_a_master_saw_ends_that_generation_only() {
    let function = start(spec("honest"));
    function.report_fault(7, PeerFault::Chain);
    function.report_fault(1, PeerFault::Flags(9));
    function.report_fault(1, PeerFault::Flags(9));
    next_generation(&function, 1);
    let status = function.status();
    assert_eq!((status.faults, status.restarts), (1, 1));
    assert!(status.last_end.unwrap().contains("flags 0x09"));
}

#[test]
fn draining_finishes_what_waits() {
    let function = start(spec("honest"));
    let mut hand = Hand::take(&function);
    for _ in 0..100 {
        hand.put(b"some");
    }
    function.drain();
    assert_eq!(function.wait_for(State::is_final, SOON), State::Stopped);
    for _ in 0..100 {
        assert_eq!(hand.get(), b"Some");
    }
    assert_eq!(function.generation(), 0);
    let end = function.status().last_end.unwrap();
    assert!(end.contains("exited with status 0"), "{end}");
}

#[test]
fn stopping_is_final() {
    let function = start(spec("honest"));
    let pid = function.status().pid.unwrap();
    function.stop();
    assert_eq!(function.wait_for(State::is_final, SOON), State::Stopped);
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    assert!(function.take_link(0).is_none());
    assert_eq!(function.call(Kind::Read, "x"), Err(CallError::NotRunning));
}

#[test]
fn failures_in_a_row_end_it() {
    let mut spec = spec("honest");
    spec.backoff.failures_max = Some(1);
    let function = start(spec);
    Hand::take(&function).put(b"x");
    assert_eq!(function.wait_for(State::is_final, SOON), State::Failed);
}

#[test]
fn handlers_of_the_function_answer() {
    let function = start(spec("honest"));
    assert_eq!(function.call(Kind::Read, "count 5"), Ok("count 5".into()));
    let error = Err(CallError::Answer("read-only".into()));
    assert_eq!(function.call(Kind::Write, "count 5"), error);
    assert_eq!(function.call(Kind::Hello, ""), Err(CallError::Refused));
}

#[test]
fn a_function_that_does_not_answer_or_answers_what_was_not_asked() {
    let function = start(spec("silent"));
    assert_eq!(function.call(Kind::Read, "x"), Err(CallError::NoAnswer));
    assert_eq!(function.generation(), 1);
    let function = start(spec("babbles"));
    assert_eq!(function.call(Kind::Read, "x"), Err(CallError::NotRunning));
    next_generation(&function, 1);
    assert_eq!(function.status().faults, 1);
}

#[test]
fn an_arena_outlives_its_function() {
    let mut spec = spec("scratch");
    spec.sessions = 10;
    let function = start(spec);
    assert_eq!(function.arena().unwrap().sessions(), 10);
    Hand::take(&function).put(b"x");
    next_generation(&function, 1);
    assert_eq!(function.call(Kind::Read, "starts"), Ok("2".into()));
}

#[test]
fn many_are_started_at_once() {
    let begun: Vec<_> = (0..8).map(|_| Function::begin(spec("honest")).unwrap()).collect();
    let functions: Vec<_> = begun.into_iter().map(|one| one.attached().unwrap()).collect();
    for function in &functions {
        let mut hand = Hand::take(function);
        hand.put(b"y");
        assert_eq!(hand.get(), b"Y");
    }
}

#[test]
fn one_that_exits_at_once_is_told_with_status_and_words() {
    let error = error_of("exits");
    let HostError::Exited { exit: Exit::Status(7), silent: true, ref output } = error else {
        panic!("{error}")
    };
    assert!(output.contains("no such table"), "{error}");
}

#[test]
fn one_that_never_attaches_is_told() {
    let error = error_of("mute");
    assert!(matches!(error, HostError::NeverAttached { .. }), "{error}");
    assert!(error.to_string().contains("ATTACH_TIMEOUT"), "{error}");
}

#[test]
fn one_of_another_version_is_told() {
    for (role, version, than) in
        [("version", VERSION + 1, "later"), ("version-before", OLDEST_VERSION - 1, "earlier")]
    {
        let error = error_of(role);
        assert!(matches!(error, HostError::Interface { .. }), "{error:?}");
        let error = error.to_string();
        let [theirs, own] = [version, VERSION].map(|version| format!("version {version}"));
        assert!(error.contains(&theirs) && error.contains(&own), "{error}");
        assert!(error.contains(than) && error.contains("rebuild the function"), "{error}");
    }
    let error = error_of("magic").to_string();
    assert!(error.contains("does not begin as one of Thruway"), "{error}");
}

/// A function of an earlier library knows fewer features, one of a later library more: both run.
#[test]
fn one_that_knows_other_features_runs_with_those_that_both_know() {
    for (role, in_force) in
        [("featureless", Features::NONE), ("honest", Features::ALL), ("later", Features::ALL)]
    {
        let function = Function::start(spec(role)).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(function.status().features, in_force, "{role}");
        let mut hand = Hand::take(&function);
        hand.put(b"y");
        assert_eq!(hand.get(), b"Y", "{role}");
        assert_eq!(function.status().faults, 0, "{role}");
    }
}

#[test]
fn one_that_needs_other_features_is_refused_and_the_host_says_which() {
    for (role, words) in [
        ("needs-later", "(number 15): run it with the Thruway that its library is from or a later"),
        ("needs-unknown", "does not know itself (number 15): build it with an unchanged library"),
    ] {
        let error = error_of(role);
        assert!(matches!(error, HostError::Interface { .. }), "{error:?}");
        assert!(error.to_string().contains(words), "{error}");
    }
}

/// Up to version 3 HELLO went by sendmsg, which no function may call any more.
#[test]
fn one_of_a_version_that_cannot_say_hello_is_told() {
    let error = error_of("sendmsg").to_string();
    assert!(error.contains("Operation not permitted"), "{error}");
    assert!(error.contains("must be rebuilt"), "{error}");
    assert!(error.contains(&format!("version {VERSION}")), "{error}");
}

#[test]
fn one_that_attaches_twice_is_told() {
    let error = error_of("twice").to_string();
    assert!(error.contains("attached twice"), "{error}");
}

#[test]
fn one_that_does_not_fit_is_told() {
    let error = error_of("outputs").to_string();
    assert!(error.contains("uses 9 outputs") && error.contains("OUTPUTS 9"), "{error}");
    let error = error_of("stream").to_string();
    assert!(error.contains("STREAM order, guard, change or resize"), "{error}");
    let mut tight = spec("scratch");
    tight.sessions = 10;
    tight.scratch_len_max = 8;
    let error = Function::start(tight).map(drop).unwrap_err().to_string();
    assert!(error.contains("raise SCRATCH"), "{error}");
}

#[test]
fn one_that_cannot_begin_says_why() {
    let error = error_of("unable").to_string();
    assert!(error.contains("cannot begin: no rules"), "{error}");
}

#[test]
fn sizes_that_make_no_link_are_told() {
    let mut bad = spec("honest");
    bad.shape.slots = 3;
    let error = Function::start(bad).map(drop).unwrap_err().to_string();
    assert!(error.contains("a power of two"), "{error}");
    let mut bad = spec("honest");
    bad.links = 0;
    assert!(matches!(Function::start(bad), Err(HostError::Argument { what: "links", .. })));
}

#[test]
fn a_missing_program_is_told() {
    let spec = FunctionSpec::new(thruway_nf_host::Program::new("/nonexistent/program"));
    let error = Function::start(spec).map(drop).unwrap_err();
    assert!(matches!(error, HostError::NoProgram { .. }), "{error}");
}

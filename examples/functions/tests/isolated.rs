//! Each example in the sandbox that a configuration gives it.

use std::time::{Duration, Instant};

use thruway_exchange::{Master, SlotTag, Tuning};
use thruway_nf_abi::message::Kind;
use thruway_nf_abi::stream_need;
use thruway_nf_host::{CallError, Function, FunctionSpec, Program, State};

const PATIENCE: Duration = Duration::from_secs(10);

/// Starts it in strict isolation, lets a packet through it, asks it something, and ends it.
fn goes_through(program: &str, args: &[&str]) {
    stream_goes_through(program, args, 0);
}

/// The same of a function of streams, for which the packet is nothing to look at.
fn stream_goes_through(program: &str, args: &[&str], stream: u32) {
    let args = args.iter().map(|arg| (*arg).to_owned()).collect();
    let outputs = 2;
    let program = Program { args, ..Program::new(program) };
    let spec = FunctionSpec { outputs, stream, ..FunctionSpec::new(program) };
    let function = Function::start(spec).unwrap_or_else(|error| panic!("{error}"));
    let end = function.take_link(0).expect("a link");
    let mut master = Master::new(end.link, outputs, Tuning::DEFAULT);
    master.put(SlotTag::NONE, &[9; 100]).expect("room");
    master.publish(&end.doorbell, 0);
    let begin = Instant::now();
    let mut bytes = [0; 100];
    while master.poll(0, 1, |token| token.copy_to(&mut bytes)) == Ok(0) {
        assert!(begin.elapsed() < PATIENCE, "nothing comes back: {:?}", function.status());
        std::thread::sleep(Duration::from_micros(100));
    }
    assert_eq!(bytes, [9; 100]);
    let begin = Instant::now();
    let answer = function.call(Kind::Read, "nonsense");
    assert!(matches!(answer, Err(CallError::Answer(_))), "{answer:?}");
    // It is woken for a request, and does not find it by chance when it looks after its host.
    assert!(begin.elapsed() < Duration::from_millis(900), "{:?}", begin.elapsed());
    function.drain();
    let state = function.wait_for(|state| state == State::Stopped, PATIENCE);
    let status = function.status();
    assert!(state == State::Stopped && status.faults == 0 && status.restarts == 0, "{status:?}");
}

macro_rules! isolated {
    ($($name:ident($($arg:literal),*);)*) => {$(
        #[test]
        fn $name() {
            goes_through(env!(concat!("CARGO_BIN_EXE_", stringify!($name))), &[$($arg),*]);
        }
    )*};
}

isolated! {
    dummy();
    signature();
    firewall("23");
    arp_responder("10.0.0.1", "02:00:00:00:00:01");
    bridge();
    scrubber();
    fragmenter("576");
    keep_alive("1000");
    matcher("20000", "attack");
}

#[test]
fn functions_of_streams() {
    let all = stream_need::STREAM | stream_need::ALL;
    let replacer = env!("CARGO_BIN_EXE_word_replacer");
    stream_goes_through(replacer, &["attack", "greeting"], all);
    stream_goes_through(env!("CARGO_BIN_EXE_payload_counter"), &[], stream_need::STREAM | 1);
}

//! A function written with the library of function authors, in its sandbox, in each way of
//! waiting.

use std::time::{Duration, Instant};
use thruway_exchange::{Master, SlotTag, Tuning};
use thruway_nf::{Batch, Config, Verdict};
use thruway_nf_abi::message::WaitMode;
use thruway_nf_host::{Function, FunctionSpec, Program, State};

const ROLE: &str = "THRUWAY_TEST_LIBRARY";
const PACKETS: u32 = 10_000;

/// Not a test: the isolated function itself, where the environment says so. It drops every packet
/// whose first byte is odd.
#[test]
fn role() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let config = Config { name: "even-only", scratch_len: 16, ..Config::DEFAULT };
    let code = thruway_nf::run(&config, |start| {
        let odd = start.counter("odd");
        Ok(move |batch: &mut Batch<'_>| {
            batch.each(|packet| {
                if packet.bytes()[0] % 2 == 0 {
                    return Verdict::Next(0);
                }
                odd.add(1);
                Verdict::Drop
            });
        })
    });
    std::process::exit(i32::from(code != std::process::ExitCode::SUCCESS));
}

fn run(wait: WaitMode) {
    let mut program = Program::new(std::env::current_exe().unwrap());
    program.args = ["role", "--exact", "--nocapture", "--test-threads=1"].map(Into::into).into();
    program.env = vec![(ROLE.into(), "yes".into())];
    let mut spec = FunctionSpec::new(program);
    spec.wait = wait;
    spec.sessions = 4;
    let function = Function::start(spec).unwrap_or_else(|error| panic!("{error}"));
    let host = function.take_link(0).unwrap();
    let mut master = Master::new(host.link, 1, Tuning::DEFAULT);
    let (mut put, mut back) = (0, 0);
    let end = Instant::now() + Duration::from_secs(20);
    while back < PACKETS {
        assert!(Instant::now() < end, "{put} put, {back} back; {:?}", function.status());
        while put < PACKETS && master.put(SlotTag::NONE, &[put as u8; 60]).is_ok() {
            put += 1;
        }
        master.publish(&host.doorbell, 0);
        let taken = master.poll(0, u32::MAX, |_| {}).unwrap();
        back += taken;
        if taken == 0 {
            master.check_age(&host.doorbell, 1);
            std::thread::yield_now();
        }
    }
    let figures = master.figures();
    assert_eq!((figures.returned, figures.dropped), (5_000, 5_000), "{wait:?}");
    let counters = function.controls()[0].counters();
    assert_eq!(counters, [("odd".to_owned(), 5_000)]);
    function.drain();
    let state = function.wait_for(State::is_final, Duration::from_secs(10));
    let status = function.status();
    assert_eq!(state, State::Stopped, "{status:?}");
    assert!(status.last_end.unwrap().starts_with("the function exited with status 0"));
}

#[test]
fn it_runs_blocking_polling_and_both() {
    for wait in [WaitMode::Block, WaitMode::Poll, WaitMode::Hybrid] {
        run(wait);
    }
}

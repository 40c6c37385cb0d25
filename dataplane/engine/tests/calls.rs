//! Handler calls across threads.

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use support::router::router;
use thruway_engine::Options;

fn two_threads() -> Options {
    Options { threads: 2, ..Options::default() }
}

#[test]
fn an_element_that_waits_for_an_answer_answers_afterwards() {
    // `there` is asked from the other thread while it asks that thread.
    let mut router = router(
        "here :: Ask(there.count, 2000, STOP true); there :: Ask(third.count, 1000000);
         third :: Ask(x); StaticThreadSched(here 0, third 0, there 1)",
        &two_threads(),
    );
    router.run();
    assert_eq!(router.read("here.count").unwrap(), "0");
    // The stop may have come while it waited.
    assert!(["0", "1"].contains(&router.read("there.count").unwrap().as_str()));
}

#[test]
fn a_call_that_waits_for_itself_is_an_error() {
    let mut router = router(
        "here :: Ask(there.ask); there :: Ask(here.count); StaticThreadSched(here 0, there 1)",
        &two_threads(),
    );
    let control = Arc::clone(router.control());
    let asker = std::thread::spawn(move || {
        // It does not run yet.
        let patience = Instant::now() + Duration::from_secs(20);
        loop {
            let answer = control.read("here.ask").map_err(|error| error.to_string());
            let is_early = answer.as_ref().is_err_and(|error| error.contains("not running"));
            if !is_early || Instant::now() > patience {
                control.halt();
                return answer;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    router.run();
    let error = asker.join().unwrap().unwrap_err();
    assert!(error.contains("calling itself"), "{error}");
}

//! What starting functions leaves behind in the host: nothing. Alone in its program, since other
//! tests open descriptors meanwhile.

use std::fs;
use thruway_nf_host::{Order, Process, Program};

#[test]
fn the_host_stays_as_it_was() {
    let order = |path| Order::new(Program::new(path));
    let once = || {
        drop(Process::spawn(&order("/bin/true")).unwrap_or_else(|error| panic!("{error}")));
        Process::spawn(&order("/nonexistent")).map(drop).unwrap_err();
        let mut wrong = order("/bin/true");
        wrong.limits.cpus = vec![1000];
        Process::spawn(&wrong).map(drop).unwrap_err();
    };
    once();
    let count = |path| fs::read_dir(path).unwrap().count();
    let state = || {
        let children = rustix::process::waitpid(None, rustix::process::WaitOptions::NOHANG);
        assert_eq!(children.unwrap_err(), rustix::io::Errno::CHILD, "a process is left");
        let dumpable = rustix::process::dumpable_behavior().unwrap();
        (count("/proc/self/fd"), count("/proc/self/task"), dumpable)
    };
    let before = state();
    (0..20).for_each(|_| once());
    assert_eq!(state(), before);
}

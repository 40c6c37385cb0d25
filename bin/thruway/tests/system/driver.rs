//! `thruway click`: the command line of Click's userlevel driver.

use rustix::process::Signal;

use crate::process::{Done, LIMIT, Running, click, run, wait_for};

const COUNT: &str = "InfiniteSource(LIMIT 3, STOP true) -> c :: Counter -> Queue -> Unqueue -> d :: Counter -> Discard";

fn go(args: &[&str]) -> Done {
    run(&mut click(args))
}

/// Runs [`COUNT`] with these arguments.
fn count(args: &[&str]) -> Done {
    go(&[&["-e", COUNT], args].concat())
}

#[test]
fn handlers_are_printed_after_the_run() {
    assert_eq!(count(&["-h", "c.count"]).expect(0).stdout, "3\n");
    let two = "c.count:\n3\n\nc.byte_count:\n207\n\n";
    assert_eq!(count(&["-h", "c.count", "-h", "c.byte_count"]).expect(0).stdout, two);
    for pattern in ["[cd].rate", "?.rate", "Counter.rate"] {
        let both = "c.rate:\n0\n\nd.rate:\n0\n\n";
        assert_eq!(count(&["-q", "-h", pattern]).expect(0).stdout, both, "{pattern}");
    }
    // Those that have no such handler are not meant by a pattern.
    let all = count(&["-h", "*.capacity"]).expect(0).stdout;
    assert_eq!(all, "Queue@3.capacity:\n1000\n\n");
    assert!(count(&["-h", "list"]).expect(0).stdout.starts_with("6\nInfiniteSource@1\nc\n"));
    count(&["-h", "nosuch.count"]).expect(1).says(&["no element", "nosuch"]);
    count(&["-h", "c.nosuch"]).expect(1).says(&["no read handler", "nosuch"]);
    count(&["-h", "zz*.count"]).expect(1).says(&["no element matching 'zz*'"]);
}

#[test]
fn the_exit_handler_is_the_exit_code() {
    assert_eq!(count(&["-x", "c.count"]).code(), 3);
    assert_eq!(count(&["--exit-handler=Queue@3.length"]).code(), 0);
    let told = |value: &str| format!("s :: Script(TYPE PASSIVE, return {value}); Script(stop)");
    for (value, code) in [("true", 0), ("false", 1), ("77", 77), ("word", 255)] {
        assert_eq!(go(&["-e", &told(value), "-x", "s.run"]).code(), code, "{value}");
    }
    assert_eq!(count(&["-x", "c.nosuch"]).expect(255).stdout, "");
}

#[test]
fn configurations_come_from_anywhere() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("count.click");
    std::fs::write(&file, COUNT).expect("room for a file");
    let file = file.to_str().expect("plain text");
    for args in [&[file][..], &["-f", file], &["--file", file], &["-e", COUNT]] {
        assert_eq!(go(&[args, &["-h", "c.count"]].concat()).expect(0).stdout, "3\n", "{args:?}");
    }
    let input = std::fs::File::open(file).expect("just written");
    let mut from_stdin = click(&["-h", "c.count"]);
    let done = Running::start(from_stdin.stdin(input));
    assert_eq!(done.wait(LIMIT).expect(0).stdout, "3\n");
    let text = "define($N 3) InfiniteSource(LIMIT $N, STOP true) -> c :: Counter -> Discard";
    assert_eq!(go(&["-e", text, "N=5", "-h", "c.count"]).expect(0).stdout, "5\n");
    assert_eq!(go(&["N=6", "-h", "c.count", "-e", text]).expect(0).stdout, "6\n");
}

#[test]
fn the_flat_configuration_is_written_and_can_be_run() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("flat.click");
    let file = file.to_str().expect("plain text");
    let text = "elementclass Twice { input -> Counter -> Counter -> output }
        InfiniteSource(LIMIT 4, STOP true) -> t :: Twice -> Discard";
    let flat = go(&["-e", text, "-q", "-o", "-"]).expect(0).stdout;
    assert!(flat.contains("t/Counter@1 :: Counter"), "{flat}");
    go(&["-e", text, "-q", "-o", file]).expect(0);
    assert_eq!(std::fs::read_to_string(file).expect("written"), flat);
    let again = go(&[file, "-h", "t/Counter@2.count"]).expect(0).stdout;
    assert_eq!(again, "4\n");
    go(&["-e", text, "-q", "-o", "/nodir/flat"]).expect(1).says(&["/nodir/flat", "No such file"]);
}

#[test]
fn quit_runs_nothing() {
    assert_eq!(count(&["-q", "-h", "c.count"]).expect(0).stdout, "0\n");
}

#[test]
fn warnings_can_be_silenced() {
    let empty = go(&["-e", ""]).expect(0);
    assert!(empty.stderr.contains("configuration has no elements"), "{empty:#?}");
    assert_eq!(go(&["-w", "-e", ""]).expect(0).stderr, "");
}

#[test]
fn simulated_time_takes_no_time() {
    let text = "Script(print $(now), wait 1000s, print $(now), stop)";
    let done = go(&["--simtime", "-e", text]).expect(0);
    assert_eq!(done.stdout, "1000000000.000000\n1000001000.000000\n");
    assert!(done.elapsed.as_secs() < 10, "{:?}", done.elapsed);
    let done = go(&["--simtime=5", "-e", "Script(print $(now), stop)"]).expect(0);
    assert_eq!(done.stdout, "5.000000\n");
}

#[test]
fn versions_and_help() {
    for option in ["-V", "-v", "--version"] {
        let done = go(&[option]).expect(0);
        assert!(done.stdout.starts_with("click (Thruway) "), "{done:#?}");
    }
    let help = go(&["--help"]).expect(0).stdout;
    for option in ["--expression", "--port", "--unix-socket", "--allow-reconfigure", "--simtime"] {
        assert!(help.contains(option), "{option} is not in the help");
    }
}

#[test]
fn wrong_command_lines_are_refused() {
    for (args, why) in [
        (&["--nosuch"][..], "unrecognized option '--nosuch'"),
        (&["-h"], "requires an argument"),
        (&["-j", "0", "-e", COUNT], "'0' is not a number of threads"),
        (&["-j", "x", "-e", COUNT], "'x' is not a number of threads"),
        (&["-p", "70000", "-e", COUNT], "'70000' is not a TCP port"),
        (&["--simtime=soon", "-e", COUNT], "'soon' is not a time"),
        (&["a.click", "b.click"], "specified twice"),
        (&["-e", COUNT, "-x", "a.b", "-x", "a.b"], "specified twice"),
    ] {
        go(args).expect(1).says(&[why, "--help"]);
    }
    go(&["nosuch.click"]).expect(1).says(&["nosuch.click", "No such file"]);
    for (text, why) in [
        ("Idle -> Nosuch -> Discard", "Nosuch"),
        ("Idle -> -> Discard", "syntax error"),
        ("Idle -> Counter(5) -> Discard", "Router could not be initialized!"),
    ] {
        go(&["-e", text]).expect(1).says(&["config:1:", why]);
    }
}

#[test]
fn threads_share_the_work() {
    let text =
        "InfiniteSource(LIMIT 5000, STOP false) -> q :: ThreadSafeQueue(10000) -> u :: Unqueue
        -> c :: Counter(COUNT_CALL 5000 stop) -> Discard; StaticThreadSched(u 1)";
    assert_eq!(go(&["-j", "2", "-e", text, "-h", "c.count"]).expect(0).stdout, "5000\n");
}

#[test]
fn signals_stop_the_driver() {
    for signal in [Signal::INT, Signal::TERM] {
        let script = "Script(wait 0.2s, print \"up\")";
        let text = format!("RatedSource(RATE 100) -> c :: Counter -> Discard; {script}");
        let driver = Running::start(&mut click(&["-e", &text, "-h", "c.count"]));
        wait_for("the start", || driver.stdout().contains("up").then_some(()));
        driver.signal(signal);
        let done = driver.wait(LIMIT).expect(0);
        let count = done.stdout.trim_start_matches("up\n").trim().parse::<u64>();
        assert!(count.is_ok_and(|count| count > 0), "handlers are printed all the same: {done:#?}");
    }
}

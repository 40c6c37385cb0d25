//! A signal ends the program whenever it comes: while it starts, while one configuration takes over
//! from another, while a function starts, while it runs or ends; and in bounded time also where an
//! element waits for something that does not come.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::control::Client;
use crate::functions::parts::exec;
use crate::process::{Done, LIMIT, Running, need, thruway, wait_for};

/// The program gives itself this long to end after a signal (`GRACE` of its `signals`).
const GRACE: Duration = Duration::from_secs(10);

/// A configuration that moves packets and can be asked.
fn asked(socket: &str, more: &str) -> String {
    format!("ControlSocket(UNIX, {socket}); RatedSource(RATE 1000) -> Discard; {more}")
}

/// Starts `thruway` with these words and a configuration.
fn start(words: &[&str], text: &str) -> Running {
    Running::start(thruway().args(words).args(["-e", text]).stdin(Stdio::null()))
}

/// A driver that replaces its configuration by this one, and is ended so long after it said that
/// it will.
fn ended_beside_a_swap(words: &[&str], next: &str, signal: Signal, after: Duration) -> Done {
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("control");
    let name = socket.to_str().expect("plain text");
    let driver = start(words, &asked(name, ""));
    let mut client = Client::unix(&socket);
    let (code, said) = client.write_data("hotconfig", &asked(name, next));
    assert_eq!(code, 200, "{said}");
    std::thread::sleep(after);
    driver.signal(signal);
    driver.wait(LIMIT).expect(0)
}

#[test]
fn a_signal_beside_a_swap_ends_the_program() {
    // Many elements: a swap takes some milliseconds.
    let many = "Idle -> Queue -> Discard; ".repeat(40);
    let refused = format!("{many} Idle -> ToDump(/no/such/dir/file)");
    for turn in 0..40u64 {
        let next = if turn % 2 == 0 { &many } else { &refused };
        let signal = if turn % 3 == 0 { Signal::TERM } else { Signal::INT };
        let after = Duration::from_micros(turn * turn * 20);
        let done = ended_beside_a_swap(&["run", "-R"], next, signal, after);
        done.prints(&["Ports", "Elements", "Drops", "packets/s"]);
        ended_beside_a_swap(&["click", "-R"], next, signal, after);
    }
}

#[test]
fn an_elements_signal_beside_a_swap_comes_to_its_successor() {
    let takes = "Script(TYPE SIGNAL INT, write stop)";
    for turn in 0..30u64 {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("control");
        let name = socket.to_str().expect("plain text");
        let text = asked(name, takes);
        let driver = start(&["run", "-R"], &text);
        assert_eq!(Client::unix(&socket).write_data("hotconfig", &text).0, 200);
        std::thread::sleep(Duration::from_micros(turn * turn * 20));
        driver.interrupt().expect(0).prints(&["Elements"]);
    }
}

#[test]
fn a_stop_is_worth_more_than_a_swap() {
    for words in [&["run", "-R"], &["click", "-R"]] {
        // One script has the configuration replaced, and stops in the same round.
        let text = "Script(TYPE ACTIVE, write hotconfig Idle -> Discard, write stop)";
        let done = start(words, text).wait(LIMIT).expect(0);
        done.says(&["hotconfig: not used: the router was stopped"]);
    }
}

/// A process that a signal ended while it started, or that ended well.
#[track_caller]
fn is_clean(done: &Done, signal: Signal) {
    assert!(!done.stderr.contains("panicked"), "{done:#?}");
    if done.status.signal() != Some(signal.as_raw()) {
        assert_eq!(done.code(), 0, "{done:#?}");
        assert!(done.stdout.contains("Elements"), "{done:#?}");
    }
}

#[test]
fn a_signal_while_it_starts_ends_the_program() {
    // Not SIGINT: a shell has what runs in its background ignore it until a handler is there.
    let signal = Signal::TERM;
    for turn in 0..40u64 {
        let driver = start(&["run"], &asked_nobody());
        std::thread::sleep(Duration::from_millis(turn));
        driver.signal(signal);
        is_clean(&driver.wait(LIMIT), signal);
    }
}

/// Signals that a process has handlers for: bit 0 for the first.
fn caught(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    line.map_or(0, |line| u64::from_str_radix(line.trim(), 16).expect("a hexadecimal number"))
}

/// The moment in which a handler is there, and who is to be told is not noted yet: made long.
#[test]
fn a_signal_while_handlers_are_set_up_ends_the_program() {
    need("strace", "strace");
    let signal = Signal::TERM;
    // If it is not ended, it ends: the tracer that dies leaves it alone.
    let text = "RatedSource(RATE 1000, LIMIT 60000, STOP true) -> Discard";
    for _ in 0..3 {
        let mut command = Command::new("strace");
        command.args(["-f", "-o", "/dev/null", "-e", "trace=rt_sigaction"]);
        command.args(["-e", "inject=rt_sigaction:delay_exit=20000", env!("CARGO_BIN_EXE_thruway")]);
        command.args(["run", "--control", "none", "-e", text]);
        let tracer = Running::start(command.stdin(Stdio::null()));
        // It tries out first what the kernel can do, in processes of its own.
        let is_it = |pid: &u32| {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
            name.is_ok_and(|name| name.trim() == "thruway")
        };
        let program = wait_for("the program", || children(tracer.pid()).into_iter().find(is_it));
        let begin = Instant::now();
        while caught(program) & 1 << (signal.as_raw() - 1) == 0 {
            assert!(begin.elapsed() < LIMIT, "no handler comes");
        }
        let pid = i32::try_from(program).ok().and_then(Pid::from_raw).expect("a process id");
        kill_process(pid, signal).expect("it runs");
        is_clean(&tracer.wait(LIMIT), signal);
    }
}

fn asked_nobody() -> String {
    "InfiniteSource -> Queue -> Discard; ".repeat(100)
}

/// Processes that a process has started.
fn children(of: u32) -> Vec<u32> {
    let list = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children"));
    list.unwrap_or_default().split_whitespace().filter_map(|it| it.parse().ok()).collect()
}

#[test]
fn a_signal_while_a_function_starts_ends_both() {
    let (passes, mute) = (exec("passes"), exec("mute"));
    for turn in 0..24u64 {
        // On a busy machine others take longer.
        let (nf, limit) = if turn % 3 == 0 { (&mute, "400ms") } else { (&passes, "10s") };
        let text = format!("RatedSource(RATE 1000) -> Nf({nf}, ATTACH_TIMEOUT {limit}) -> Discard");
        let driver = start(&["run"], &text);
        let begin = Instant::now();
        let wait = Duration::from_millis(turn * 6);
        let mut functions = Vec::new();
        while begin.elapsed() < wait {
            functions.extend(children(driver.pid()));
            std::thread::sleep(Duration::from_millis(1));
        }
        driver.signal(Signal::TERM);
        let done = driver.wait(LIMIT);
        // The mute one never attaches: that was said, or the signal came first.
        if done.code() != 1 || nf == &passes {
            is_clean(&done, Signal::TERM);
        }
        wait_for("the end of the functions", || {
            functions.iter().all(|pid| !is_there(*pid)).then_some(())
        });
    }
}

fn is_there(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // What has ended and waits for its parent to look is no process any more.
    !stat.is_empty() && !stat.contains(") Z ")
}

/// What Ctrl-C in a terminal does: all processes of the group get the signal.
#[test]
fn a_signal_to_the_whole_group_ends_it_cleanly() {
    use std::os::unix::process::CommandExt as _;
    let text = format!(
        "RatedSource(RATE 1000) -> nf :: Nf({}) -> c :: Counter -> Discard",
        exec("passes")
    );
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("control");
    let mut command: Command = thruway();
    let text = format!("ControlSocket(UNIX, {}); {text}", socket.display());
    let driver = Running::start(command.args(["run", "-e", &text]).process_group(0));
    let mut client = Client::unix(&socket);
    wait_for("packets", || (client.number("c.count") > 10).then_some(()));
    let group = Pid::from_raw(driver.pid() as i32).expect("a process id");
    rustix::process::kill_process_group(group, Signal::INT).expect("it runs");
    let done = driver.wait(LIMIT).expect(0).prints(&["Elements", "Drops"]);
    assert!(!done.stderr.contains("nf"), "the function did not die first: {done:#?}");
}

/// A pipe with a name, which nobody has open.
fn fifo(dir: &Path, name: &str) -> String {
    let path = dir.join(name);
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)
        .expect("a pipe");
    path.display().to_string()
}

#[test]
fn what_does_not_come_is_waited_for_in_bounded_time() {
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("control");
    let name = socket.to_str().expect("plain text");
    // It initialises; its successor initialises; it runs.
    let starting = start(&["run"], &format!("FromDump({}) -> Discard", fifo(dir.path(), "a")));
    let swapping = start(&["run", "-R"], &asked(name, ""));
    let next = format!("FromDump({}) -> Discard", fifo(dir.path(), "b"));
    assert_eq!(Client::unix(&socket).write_data("hotconfig", &next).0, 200);
    let pipe = fifo(dir.path(), "c");
    let reader = std::fs::File::options().read(true).write(true).open(&pipe).expect("a pipe");
    let text = format!("InfiniteSource(LENGTH 1000) -> ToDump({pipe})");
    let running = start(&["run"], &text);
    let all = [starting, swapping, running];
    for process in &all {
        wait_for("a thread that waits", || waits_for_a_pipe(process.pid()).then_some(()));
    }
    let begin = Instant::now();
    all.iter().for_each(|process| process.signal(Signal::INT));
    for process in all {
        let done = process.wait(LIMIT);
        assert_eq!(done.code(), 130, "{done:#?}");
        done.says(&["not ended 10 s after the signal", "a file, a pipe or a device"]);
    }
    assert!(begin.elapsed() >= GRACE);
    drop(reader);
}

/// Whether the first thread sleeps in the kernel's pipes: opening one, or writing to a full one.
fn waits_for_a_pipe(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let sleeps = stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('S'));
    let call = std::fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
    let number = call.split_whitespace().next().and_then(|number| number.parse().ok());
    // openat and write of x86-64.
    sleeps && [Some(257), Some(1)].contains(&number)
}

#[test]
fn the_second_signal_ends_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let text = format!("FromDump({}) -> Discard", fifo(dir.path(), "a"));
    let process = start(&["run"], &text);
    wait_for("a thread that waits", || waits_for_a_pipe(process.pid()).then_some(()));
    process.signal(Signal::INT);
    let begin = Instant::now();
    let pid = Pid::from_raw(process.pid() as i32).expect("a process id");
    // Two of the same that come at once are one.
    wait_for("its end", || {
        let _ = kill_process(pid, Signal::TERM);
        std::fs::read_to_string(format!("/proc/{}/stat", process.pid()))
            .is_ok_and(|stat| stat.contains(") Z "))
            .then_some(())
    });
    assert!(begin.elapsed() < GRACE);
    assert_eq!(process.wait(LIMIT).code(), 143);
}

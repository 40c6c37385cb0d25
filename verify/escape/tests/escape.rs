//! Each attempt to get out of the sandbox fails, and nothing outside has changed.

mod filtered;

use std::collections::{BTreeMap, BTreeSet};
use std::mem::MaybeUninit;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{MemfdFlags, OFlags, SealFlags};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use thruway_nf_host::{Exit, Isolation, Measure, Order, Process, Program, allowed_calls};
use thruway_region::{Pages, Region};

use filtered::ONLY_FILTERED;

const SOON: Duration = Duration::from_secs(20);

fn order(args: &[&str]) -> Order {
    let mut program = Program::new(env!("CARGO_BIN_EXE_escape"));
    program.args = args.iter().map(|arg| (*arg).to_owned()).collect();
    Order::new(program)
}

#[track_caller]
fn spawn(order: &Order) -> Process {
    Process::spawn(order).unwrap_or_else(|error| panic!("{error}"))
}

/// A region with a read-only descriptor.
fn read_only() -> OwnedFd {
    let fd = rustix::fs::memfd_create(c"read-only", MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&fd, 4096).unwrap();
    rustix::fs::fcntl_add_seals(&fd, SealFlags::GROW | SealFlags::SHRINK).unwrap();
    let number = rustix::fd::AsRawFd::as_raw_fd(&fd);
    let mode = rustix::fs::Mode::empty();
    rustix::fs::open(format!("/proc/self/fd/{number}"), OFlags::RDONLY, mode).unwrap()
}

/// Hands the hostile function its first message.
fn hand_over(process: &Process, neighbour: &Process, region: &Region, read_only: &OwnedFd) {
    let text = format!("{} {} {}", std::process::id(), neighbour.pid(), process.pid());
    let fds = [region.fd(), read_only.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
    let parts = [std::io::IoSlice::new(text.as_bytes())];
    rustix::net::sendmsg(process.control(), &parts, &mut control, SendFlags::empty()).unwrap();
}

/// All rows that it reports, until it ends.
fn rows(process: &mut Process) -> Vec<String> {
    let end = Instant::now() + SOON;
    let mut rows = Vec::new();
    loop {
        let mut bytes = [0; 512];
        match rustix::net::recv(process.control(), &mut bytes[..], RecvFlags::DONTWAIT) {
            Ok((_, 0)) => break,
            Ok((_, len)) => rows.push(String::from_utf8_lossy(&bytes[..len]).into_owned()),
            Err(rustix::io::Errno::AGAIN) => {
                process.take_output();
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) => panic!("{error}"),
        }
        assert!(Instant::now() < end, "it takes too long; {}", process.output_kept());
    }
    rows
}

/// Runs all attempts in this sandbox: each group, name and outcome.
fn attempts(order: &Order) -> Vec<[String; 3]> {
    let neighbour = spawn(order);
    let neighbours_region = Region::new(4096, Pages::Normal).unwrap();
    neighbours_region.copy_in(0, b"secret").unwrap();
    let region = Region::new(8192, Pages::Normal).unwrap();
    let read_only = read_only();
    let mut process = spawn(order);
    hand_over(&process, &neighbour, &region, &read_only);
    let rows = rows(&mut process);
    let exit = process.wait(SOON).unwrap();
    assert_eq!(exit, Some(Exit::Status(0)), "{}", process.output_kept());
    assert!(rows.len() >= 200, "{} attempts: {rows:#?}", rows.len());
    // Nothing outside has changed.
    assert_eq!(rustix::fs::fstat(region.fd()).unwrap().st_size, 8192);
    let mut secret = [0; 6];
    neighbours_region.copy_out(0, &mut secret).unwrap();
    assert_eq!(&secret, b"secret");
    assert!(Path::new(&format!("/proc/{}", neighbour.pid())).exists());
    for made in ["/made", "/tmp/thruway-escape", "/dev/shm/thruway-escape"] {
        assert!(!Path::new(made).exists(), "{made}");
    }
    let parts = |row: &String| -> [String; 3] {
        let mut parts = row.split('|').map(str::to_owned);
        std::array::from_fn(|_| parts.next().unwrap_or_default())
    };
    // Without the filter it sends its host what is no row.
    rows.iter().filter(|row| row.contains('|')).map(parts).collect()
}

/// Prints the table; gives what escaped.
fn escaped(rows: &[[String; 3]]) -> Vec<&str> {
    for [group, name, outcome] in rows {
        println!("{group:<10} {name:<40} {outcome}");
    }
    rows.iter().filter(|[.., outcome]| outcome == "ESCAPED").map(|[_, name, _]| &name[..]).collect()
}

#[test]
fn every_attempt_fails() {
    let rows = attempts(&order(&[]));
    assert_eq!(escaped(&rows), [""; 0]);
    // What is allowed is tried, too: each call's attempts bear its name.
    let tried: BTreeSet<&str> = rows.iter().map(|[group, ..]| &group[..]).collect();
    let untried: Vec<&str> = allowed_calls()
        .map(|(name, _)| name)
        .filter(|name| !tried.contains(name) && !ENDS.contains(name))
        .collect();
    assert_eq!(untried, [""; 0]);
}

/// Calls that do not come back.
const ENDS: [&str; 3] = ["exit", "exit_group", "rt_sigreturn"];

/// They end the function and nobody else.
#[test]
fn ends_are_its_own() {
    let neighbour = spawn(&order(&["pause"]));
    for (name, wanted) in ENDS.into_iter().zip([Some(7), Some(7), None]) {
        let mut process = spawn(&order(&[name]));
        let exit = process.wait(SOON).unwrap().expect("it ends");
        match wanted {
            Some(status) => assert_eq!(exit, Exit::Status(status), "{name}"),
            None => assert!(matches!(exit, Exit::Signal(_)), "{name}: {exit:?}"),
        }
        assert!(!process.output_kept().contains("ESCAPED"), "{}", process.output_kept());
    }
    let mut neighbour = neighbour;
    assert_eq!(neighbour.try_wait().unwrap(), None, "its neighbour goes on");
}

#[test]
fn without_the_filter_nothing_outside_is_reached() {
    let mut order = order(&["without", "be traced", "strict mode", "write everything back"]);
    order.isolation = Isolation::Relaxed;
    order.omit = vec![Measure::Seccomp];
    let rows = attempts(&order);
    let mut escaped = escaped(&rows);
    escaped.retain(|name| !ONLY_FILTERED.contains(name));
    assert_eq!(escaped, [""; 0]);
}

/// The private root holds without Landlock, and Landlock without the private root.
#[test]
fn one_of_two_is_enough_for_files() {
    // Without Landlock its own root may be listed: it holds what it was given. Without a private
    // root there is /proc, where Landlock does not stand between a process and its own memory
    // files: regions that must stay read-only need F_SEAL_FUTURE_WRITE there.
    // Nor does Landlock hide which files there are.
    let there = [
        "reopen it by /proc",
        "what /etc/passwd is",
        "where its program is",
        "a directory outside",
    ];
    let weaker = [(Measure::Landlock, &["list /"][..]), (Measure::PrivateRoot, &there[..])];
    for (omitted, known) in weaker {
        // The C library is also a program, which prints its version.
        let mut order = order(&["without", "a library"]);
        order.isolation = Isolation::Relaxed;
        order.omit = vec![omitted];
        let rows = attempts(&order);
        let mut escaped = escaped(&rows);
        escaped.retain(|name| !known.contains(name));
        assert_eq!(escaped, [""; 0], "without {omitted}");
    }
}

#[test]
fn what_is_left_out_is_told() {
    let mut order = order(&["none"]);
    order.omit = vec![Measure::Seccomp];
    let error = Process::spawn(&order).unwrap_err().to_string();
    assert!(error.contains("left out by the order"), "{error}");
    order.isolation = Isolation::Relaxed;
    let process = spawn(&order);
    let missing: Vec<_> = process.report().missing().map(|(measure, _)| measure).collect();
    assert!(missing.contains(&Measure::Seccomp), "{missing:?}");
    order.omit = vec![Measure::PidNamespace];
    assert!(Process::spawn(&order).unwrap_err().to_string().contains("cannot be left out"));
}

/// The attempts that do no harm succeed without a sandbox: they are real.
#[test]
fn attempts_are_real() {
    let done = std::process::Command::new(env!("CARGO_BIN_EXE_escape")).arg("harmless").output();
    let said = String::from_utf8(done.unwrap().stdout).unwrap();
    let outcomes: BTreeMap<&str, &str> =
        said.lines().filter_map(|row| row.split_once('|')?.1.split_once('|')).collect();
    println!("{outcomes:#?}");
    assert!(outcomes.len() > 15);
    for (name, outcome) in outcomes {
        assert_eq!(outcome, "ESCAPED", "{name}");
    }
}

#[test]
fn the_32_bit_way_into_the_kernel_is_death() {
    let mut process = spawn(&order(&["32-bit"]));
    let exit = process.wait(SOON).unwrap();
    assert!(!process.output_kept().contains("ESCAPED"));
    // Signal 31, SIGSYS; or 11 if the kernel has no 32-bit entry.
    assert!(matches!(exit, Some(Exit::Signal(31 | 11))), "{exit:?}");
}

#[test]
fn the_loader_loads_nothing_else() {
    let mut process = spawn(&order(&["loader"]));
    let exit = process.wait(SOON).unwrap();
    assert_ne!(exit, Some(Exit::Status(0)), "{}", process.output_kept());
    assert!(!process.output_kept().contains("ESCAPED"), "{}", process.output_kept());
}

#[test]
fn memory_has_an_end() {
    let mut process = spawn(&order(&["memory"]));
    let exit = process.wait(SOON).unwrap();
    assert!(!process.output_kept().contains("ESCAPED"), "{}", process.output_kept());
    assert_ne!(exit, Some(Exit::Status(0)));
}

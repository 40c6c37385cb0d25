//! Real programs in the sandbox: started, watched, ended.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};
use thruway_nf_host::{Exit, HostError, Isolation, Limits, Measure, Order, Process, Program};

const SOON: Duration = Duration::from_secs(10);

/// `sh -c SCRIPT`.
fn shell(script: &str) -> Order {
    let mut program = Program::new("/bin/sh");
    program.args = vec!["-c".into(), script.into()];
    Order::new(program)
}

#[track_caller]
fn spawn(order: &Order) -> Process {
    Process::spawn(order).unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
fn ends(order: &Order) -> (Exit, String) {
    let mut process = spawn(order);
    let exit = process.wait(SOON).unwrap().expect("it ends");
    (exit, process.output_kept())
}

#[test]
fn a_program_runs_in_a_full_sandbox_and_its_status_is_told() {
    let mut process = spawn(&shell("echo here; exit 3"));
    assert_eq!(process.wait(SOON).unwrap(), Some(Exit::Status(3)));
    assert_eq!(process.output_kept(), "here\n");
    let report = process.report();
    println!("{report}");
    for (measure, why) in report.missing() {
        assert!(!measure.is_required(), "{measure}: {why}");
    }
}

#[test]
fn a_process_is_started_and_ended_in_milliseconds() {
    let mut best = Duration::MAX;
    for _ in 0..10 {
        let begin = Instant::now();
        let (exit, _) = ends(&Order::new(Program::new("/bin/true")));
        assert_eq!(exit, Exit::Status(0));
        best = best.min(begin.elapsed());
    }
    println!("/bin/true from start to end: {best:?}");
    assert!(best < Duration::from_millis(50), "{best:?}");
}

/// The best of some starts.
fn start_time() -> Duration {
    let once = || {
        let begin = Instant::now();
        drop(spawn(&Order::new(Program::new("/bin/true"))));
        begin.elapsed()
    };
    (0..10).map(|_| once()).min().unwrap()
}

/// A host's tables are not copied for a new process: that would take 60 ms for these.
#[test]
fn a_big_host_starts_functions_as_fast_as_a_small_one() {
    let small = start_time();
    let tables = vec![1_u8; 256 << 20];
    let big = start_time();
    println!("start: {small:?}, with {} MB of tables {big:?}", tables.len() >> 20);
    assert!(big < small * 3 + Duration::from_millis(5), "{small:?} {big:?}");
}

#[test]
fn the_shell_sees_only_itself() {
    // Shell built-ins only: it cannot start anything.
    let there = "for f in /bin/sh /lib64 /etc /home /tmp /proc /dev /usr/bin/ls; do \
                 [ -e $f ] && echo $f; done; echo $$ $PPID; echo /*";
    let (_, said) = ends(&shell(there));
    let canonical = fs::canonicalize("/bin/sh").unwrap();
    assert!(canonical.starts_with("/usr/bin"), "/bin is merged on this system");
    // Landlock lets no directory be listed.
    assert_eq!(said, "/lib64\n1 0\n/*\n", "{said}");
}

#[test]
fn it_cannot_start_programs_or_processes() {
    let (exit, said) = ends(&shell("exec /bin/ls"));
    assert_ne!(exit, Exit::Status(0), "{said}");
    let (exit, said) = ends(&shell("(echo child)"));
    assert_ne!(exit, Exit::Status(0), "{said}");
    assert!(!said.contains("child"), "{said}");
}

#[test]
fn its_environment_is_what_was_given() {
    let mut order = shell("echo $GIVEN; echo ${HOME:-no home}");
    order.program.env = vec![("GIVEN".into(), "yes".into())];
    assert_eq!(ends(&order).1, "yes\nno home\n");
}

#[test]
fn files_that_are_granted_can_be_read() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let file = dir.path().join("data");
    fs::write(&file, "granted").unwrap();
    let read = format!("read line < {0}; echo $line; echo more >> {0}", file.display());
    let mut order = shell(&read);
    let (_, said) = ends(&order);
    assert!(!said.contains("granted"), "{said}");
    for readable in [file.clone(), dir.path().into()] {
        order.program.readable = vec![readable];
        let (exit, said) = ends(&order);
        assert!(said.starts_with("granted\n"), "{said}");
        assert_ne!(exit, Exit::Status(0), "it wrote");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "granted");
}

#[test]
fn killing_takes_effect_and_is_told() {
    let mut order = Order::new(Program::new("/bin/sleep"));
    order.program.args = vec!["1000".into()];
    let mut process = spawn(&order);
    assert_eq!(process.wait(Duration::from_millis(20)).unwrap(), None);
    assert!(Path::new(&format!("/proc/{}", process.pid())).exists());
    assert_eq!(process.kill().unwrap(), Exit::Signal(libc::SIGKILL));
    assert_eq!(process.kill().unwrap(), Exit::Signal(libc::SIGKILL));
    assert!(!Path::new(&format!("/proc/{}", process.pid())).exists());
}

#[test]
fn a_dropped_process_is_gone() {
    let process = spawn(&shell("while :; do :; done"));
    let place = format!("/proc/{}", process.pid());
    assert!(Path::new(&place).exists());
    drop(process);
    assert!(!Path::new(&place).exists());
}

#[test]
fn a_process_dies_with_the_thread_that_started_it() {
    let process = std::thread::spawn(|| spawn(&shell("while :; do :; done"))).join().unwrap();
    let mut process = process;
    assert_eq!(process.wait(SOON).unwrap(), Some(Exit::Signal(libc::SIGKILL)));
}

#[test]
fn cpu_time_is_counted_while_it_runs_and_kept() {
    let mut process = spawn(&shell("while :; do :; done"));
    std::thread::sleep(Duration::from_millis(100));
    let running = process.cpu_time();
    assert!(running > Duration::from_millis(5), "{running:?}");
    process.kill().unwrap();
    assert!(process.cpu_time() >= running);
}

#[test]
fn endless_output_neither_fills_memory_nor_holds_the_host_up() {
    let mut process = spawn(&shell("while :; do echo 0123456789; done"));
    for _ in 0..100 {
        process.take_output();
    }
    assert!(process.output_kept().len() <= 4096);
}

#[test]
fn memory_is_limited() {
    let grow = "x=0123456789abcdef; while :; do x=$x$x; done";
    let mut order = shell(grow);
    order.limits = Limits { memory_bytes: 32 << 20, ..Limits::default() };
    let (exit, said) = ends(&order);
    assert_ne!(exit, Exit::Status(0), "{said}");
}

#[test]
fn cpus_are_kept_to() {
    let allowed = |process: &Process| {
        let status = fs::read_to_string(format!("/proc/{}/status", process.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with("Cpus_allowed_list:")).unwrap();
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    let mut order = shell("while :; do :; done");
    order.limits.cpus = vec![0];
    let process = spawn(&order);
    assert_eq!(allowed(&process), "0");
    assert!(process.report().has(Measure::CpuAffinity));
    order.limits.cpus = vec![1000];
    let error = Process::spawn(&order).unwrap_err();
    assert!(error.to_string().contains("give CPUs that this machine has"), "{error}");
    order.limits.cpus = vec![1 << 20];
    assert!(matches!(Process::spawn(&order), Err(HostError::Argument { what: "CPUS", .. })));
}

#[test]
fn rights_and_user_are_gone() {
    let process = spawn(&shell("while :; do :; done"));
    let status = fs::read_to_string(format!("/proc/{}/status", process.pid())).unwrap();
    let value = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).expect(name);
        line[name.len()..].trim().to_owned()
    };
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
        assert_eq!(value(set), "0000000000000000", "{set}");
    }
    assert_eq!(value("NoNewPrivs:"), "1");
    assert_eq!(value("Seccomp:"), "2");
    assert!(!value("Uid:").split_whitespace().any(|uid| uid == "0"), "{}", value("Uid:"));
    if rustix::process::getuid().is_root() {
        assert_eq!(value("Uid:").split_whitespace().next(), Some("65534"));
        assert_eq!(value("Groups:"), "");
    }
}

#[test]
fn an_argument_with_a_zero_byte_is_refused() {
    let error = Process::spawn(&shell("a\0b")).unwrap_err();
    assert!(matches!(error, HostError::Argument { .. }), "{error}");
}

#[test]
fn a_program_that_its_user_may_not_run_is_told_with_the_remedy() {
    if !rustix::process::getuid().is_root() {
        return; // An ordinary user's functions run with its rights to files.
    }
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("true");
    fs::copy("/bin/true", &program).unwrap();
    fs::set_permissions(&program, PermissionsExt::from_mode(0o700)).unwrap();
    let error = Process::spawn(&Order::new(Program::new(&program))).unwrap_err();
    assert!(error.to_string().contains("chmod a+rx"), "{error}");
    fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    // The directory is its owner's alone: what is mounted is the file.
    assert_eq!(ends(&Order::new(Program::new(&program))).0, Exit::Status(0));
}

#[test]
fn relaxed_isolation_still_applies_what_it_can() {
    let mut order = shell("exit 0");
    order.isolation = Isolation::Relaxed;
    let mut process = spawn(&order);
    assert!(process.report().has(Measure::Seccomp));
    assert_eq!(process.wait(SOON).unwrap(), Some(Exit::Status(0)));
}

/// Set in the copy of a test that runs where no namespaces can be made.
const INSIDE: &str = "THRUWAY_TEST_INSIDE";

/// A host that may not make namespaces: the test runs itself again, in a user namespace in which
/// the limit to further ones is 0.
#[test]
fn without_namespaces_strict_isolation_is_an_error_and_relaxed_runs() {
    if std::env::var_os(INSIDE).is_some() {
        strict_without_namespaces();
        relaxed_without_namespaces();
        return;
    }
    let inner = "echo 0 > /proc/sys/user/max_user_namespaces && \
                 exec \"$0\" --nocapture without_namespaces";
    let done = std::process::Command::new("unshare")
        .args(["--user", "--map-root-user", "sh", "-c", inner])
        .arg(std::env::current_exe().unwrap())
        .env(INSIDE, "yes")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    println!("{said}{}", String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success() && said.contains("1 passed"));
}

fn strict_without_namespaces() {
    let error = Process::spawn(&shell("exit 0")).unwrap_err().to_string();
    println!("{error}");
    for remedy in ["kernel.unprivileged_userns_clone", "user.max_user_namespaces", "relaxed"] {
        assert!(error.contains(remedy), "{error}");
    }
}

fn relaxed_without_namespaces() {
    let mut order = shell("read line < /etc/passwd; echo $line; exit 4");
    order.isolation = Isolation::Relaxed;
    let mut process = spawn(&order);
    assert_eq!(process.wait(SOON).unwrap(), Some(Exit::Status(4)));
    println!("{}", process.report());
    assert!(!process.output_kept().contains("root:"), "{}", process.output_kept());
    let missing: Vec<Measure> = process.report().missing().map(|(measure, _)| measure).collect();
    for there in [Measure::Landlock, Measure::Seccomp, Measure::NoNewPrivileges] {
        assert!(process.report().has(there), "{there}");
    }
    for lost in [Measure::PidNamespace, Measure::PrivateRoot, Measure::ThreadLimit] {
        assert!(missing.contains(&lost), "{lost}");
    }
}

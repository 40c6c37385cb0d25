//! Real programs in the sandbox: started, watched, ended.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use thruway_nf_host::{
    Exit, HostError, Isolation, Limits, Measure, Order, Process, Program, own_user,
};

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

/// A field of `/proc/PID/FILE`, or the whole of it.
fn about(pid: i32, file: &str, field: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(field)).unwrap_or("");
    line.trim().to_owned()
}

/// A function may signal what has its user, and the kernel counts by user what is locked or
/// queued: none has another's.
#[test]
fn each_function_has_a_user_of_its_own() {
    // Strictly, where that can be.
    for isolation in [Isolation::Relaxed, Isolation::Strict] {
        let mut order = Order::new(Program::new("/bin/sleep"));
        order.program.args = vec!["1000".into()];
        order.isolation = isolation;
        if isolation == Isolation::Strict && Process::spawn(&order).is_err() {
            break;
        }
        let processes = [spawn(&order), spawn(&order), spawn(&order)];
        let mut users = Vec::new();
        for process in &processes {
            if !process.report().has(Measure::OwnUser) {
                eprintln!("SKIPPED: a user of its own: it takes root\n{}", process.report());
                return;
            }
            let wanted = own_user(process.pid()).expect("a process's number").to_string();
            for field in ["Uid:", "Gid:"] {
                let told = about(process.pid(), "status", field);
                assert_eq!(told, [&wanted[..]; 4].join("\t"), "{field}");
            }
            let named = format!(":{wanted}:");
            let passwd = fs::read_to_string("/etc/passwd").unwrap();
            assert!(!passwd.contains(&named), "{named} is a user of this system");
            users.push(wanted);
        }
        users.dedup();
        assert_eq!(users.len(), processes.len());
    }
}

/// Where there are no namespaces, not even of users: in one whose sysctls allow no others.
#[test]
fn users_of_their_own_need_no_namespaces() {
    const THIS: &str = "each_function_has_a_user_of_its_own";
    if !rustix::process::getuid().is_root() {
        eprintln!("SKIPPED: a user of its own without namespaces: it takes root");
        return;
    }
    let inner = "for file in /proc/sys/user/max_*_namespaces; do echo 0 > $file; done; \
                 exec $0 --exact $1 --nocapture";
    let mut child = Command::new("unshare")
        .args(["-U", "sh", "-c", "read go; exec sh -c \"$0\" \"$@\"", inner])
        .arg(std::env::current_exe().unwrap())
        .args([THIS])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("unshare");
    let own = fs::read_link("/proc/self/ns/user").unwrap();
    let end = Instant::now() + SOON;
    while fs::read_link(format!("/proc/{}/ns/user", child.id())).is_ok_and(|ns| ns == own) {
        assert!(Instant::now() < end, "it makes no namespace");
        std::thread::sleep(Duration::from_millis(1));
    }
    for map in ["uid_map", "gid_map"] {
        fs::write(format!("/proc/{}/{map}", child.id()), "0 0 4294967295").expect(map);
    }
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let done = child.wait_with_output().unwrap();
    let last_output = String::from_utf8_lossy(&done.stdout).into_owned();
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{last_output}{told}");
    assert!(last_output.contains("1 passed") && !told.contains("SKIPPED"), "{last_output}{told}");
}

/// Where memory ends, the kernel takes functions first, and their dumps go to nobody.
#[test]
fn functions_end_before_their_host_does() {
    let own = || about(std::process::id().cast_signed(), "oom_score_adj", "");
    let before = own();
    let mut order = Order::new(Program::new("/bin/sleep"));
    order.program.args = vec!["1000".into()];
    let process = spawn(&order);
    assert!(process.report().has(Measure::OomScore), "{}", process.report());
    assert_eq!(about(process.pid(), "oom_score_adj", ""), "1000");
    assert_eq!(own(), before, "the host's own, whose memory the new process had");
    let core = about(process.pid(), "limits", "Max core file size");
    assert!(core.split_whitespace().take(2).all(|limit| limit == "1" || limit == "0"), "{core}");
}

#[test]
fn the_shell_sees_only_itself() {
    // Shell built-ins only: it cannot start anything.
    let there = "for f in /bin/sh /lib64 /etc /home /tmp /proc /dev /usr/bin/ls; do \
                 [ -e $f ] && echo $f; done; echo $$ $PPID; echo /*";
    let (_, last_output) = ends(&shell(there));
    let canonical = fs::canonicalize("/bin/sh").unwrap();
    assert!(canonical.starts_with("/usr/bin"), "/bin is merged on this system");
    // Landlock lets no directory be listed.
    assert_eq!(last_output, "/lib64\n1 0\n/*\n", "{last_output}");
}

#[test]
fn it_cannot_start_programs_or_processes() {
    let (exit, last_output) = ends(&shell("exec /bin/ls"));
    assert_ne!(exit, Exit::Status(0), "{last_output}");
    let (exit, last_output) = ends(&shell("(echo child)"));
    assert_ne!(exit, Exit::Status(0), "{last_output}");
    assert!(!last_output.contains("child"), "{last_output}");
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
    let (_, last_output) = ends(&order);
    assert!(!last_output.contains("granted"), "{last_output}");
    for readable in [file.clone(), dir.path().into()] {
        order.program.readable = vec![readable];
        let (exit, last_output) = ends(&order);
        assert!(last_output.starts_with("granted\n"), "{last_output}");
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
    let (exit, last_output) = ends(&order);
    assert_ne!(exit, Exit::Status(0), "{last_output}");
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
        let own = own_user(process.pid()).map(|uid| uid.to_string());
        assert_eq!(value("Uid:").split_whitespace().next(), own.as_deref());
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
    let last_output = String::from_utf8_lossy(&done.stdout);
    println!("{last_output}{}", String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success() && last_output.contains("1 passed"));
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

//! Supervisors of real processes: scripts that stand for the data plane.

mod functions;

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::mpsc::{Receiver, channel};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::*;
use crate::{ChainSpec, ConditionKind, FunctionSpec, Run};

/// Longest time that anything here may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs until it is ended, and keeps its arguments in sight.
const LIVES: &str = "echo up; while :; do sleep 1; done";
/// The same, and does not mind to be asked to end.
const STUBBORN: &str = "trap '' TERM; echo up; while :; do sleep 1; done";
/// Fails at once.
const FAILS: &str = "echo 'a bad day' >&2; exit 3";

/// A supervisor with its state and a script for the program.
struct Lab {
    dir: TempDir,
    supervisor: Option<Supervisor>,
    events: Receiver<Event>,
    seen: Vec<Event>,
}

impl Lab {
    fn new(script: &str) -> Lab {
        let dir = tempfile::tempdir().expect("a directory");
        let (_, events) = channel();
        let mut lab = Lab { dir, supervisor: None, events, seen: Vec::new() };
        lab.script(script);
        lab.start();
        lab
    }

    fn script(&self, text: &str) {
        let (fresh, path) = (self.dir.path().join("fresh"), self.program());
        std::fs::write(&fresh, format!("#!/bin/sh\n{text}\n")).expect("room");
        std::fs::set_permissions(&fresh, std::fs::Permissions::from_mode(0o700)).expect("ours");
        std::fs::rename(fresh, path).expect("room");
    }

    fn program(&self) -> PathBuf {
        self.dir.path().join("program")
    }

    fn path(&self, chain: &str) -> PathBuf {
        self.dir.path().join("state/chains").join(chain)
    }

    fn config(&self) -> SupervisorConfig {
        let config = SupervisorConfig::new(self.dir.path().join("state"), self.program());
        SupervisorConfig { stop_limit: Duration::from_millis(300), ..config }
    }

    /// Starts a supervisor; the one before has gone.
    fn start(&mut self) {
        self.supervisor = None;
        let (sender, events) = channel();
        self.supervisor = Some(Supervisor::start(self.config(), sender).expect("a free state"));
        (self.events, self.seen) = (events, Vec::new());
    }

    fn supervisor(&self) -> &Supervisor {
        self.supervisor.as_ref().expect("it was started")
    }

    /// Asks for chains, each `NAME=CONFIGURATION`.
    fn ask(&self, chains: &[&str]) {
        let asked = chains.iter().map(|one| {
            let (name, text) = one.split_once('=').expect("a name and a text");
            let spec = ChainSpec { configuration: text.to_owned(), ..ChainSpec::default() };
            Asked { name: name.to_owned(), generation: 1, run: spec.into() }
        });
        self.supervisor().converge(asked.collect());
    }

    fn pid(&self, chain: &str) -> Option<u32> {
        self.supervisor().status(chain)?.pid
    }

    #[track_caller]
    fn runs(&self, chain: &str) -> u32 {
        wait_for("a process", || self.pid(chain))
    }

    fn reason(&self, chain: &str, kind: ConditionKind) -> String {
        let status = self.supervisor().status(chain).unwrap_or_default();
        let found = status.conditions.into_iter().find(|one| one.kind == kind);
        found.map_or(String::new(), |one| one.reason)
    }

    /// Waits for an event.
    #[track_caller]
    fn hears(&mut self, reason: &str) -> Event {
        wait_for(reason, || {
            self.seen.extend(self.events.try_iter());
            self.seen.iter().find(|event| event.reason == reason).cloned()
        })
    }
}

impl Drop for Lab {
    /// No process stays.
    fn drop(&mut self) {
        if let Some(supervisor) = &self.supervisor {
            supervisor.converge(Vec::new());
            for one in supervisor.unknown() {
                kill(one.pid, Signal::KILL);
            }
            let chains: BTreeMap<String, u32> = supervisor
                .chains
                .lock()
                .iter()
                .filter_map(|(name, entry)| Some((name.clone(), entry.board.status().pid?)))
                .collect();
            chains.into_values().for_each(|pid| kill(pid, Signal::KILL));
        }
    }
}

fn kill(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process id");
    // It may have ended.
    let _ = kill_process(pid, signal);
}

/// Whether a process runs: neither gone nor a zombie.
fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

#[track_caller]
fn wait_for<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = ready() {
            return found;
        }
        assert!(begin.elapsed() < LIMIT, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_chain_is_started_in_a_session_that_outlives_the_manager_and_is_adopted() {
    let mut lab = Lab::new(LIVES);
    lab.ask(&["web=Idle -> Discard"]);
    let pid = lab.runs("web");
    lab.ask(&["web=Idle -> Discard"]);
    lab.start();
    assert_eq!(lab.pid("web"), Some(pid), "adopted before anybody asks");
    lab.hears("Adopted");
    assert_eq!(lab.supervisor().unknown().len(), 1, "nobody asked for it yet");
    lab.ask(&["web=Idle -> Discard"]);
    assert!(lab.supervisor().unknown().is_empty());
    wait_for("the condition", || {
        (lab.reason("web", ConditionKind::UpToDate) == "Running").then_some(())
    });
    assert_eq!(lab.pid("web"), Some(pid));
    assert_eq!(
        std::fs::read(lab.path("web").join("chain.click")).expect("ours"),
        b"Idle -> Discard"
    );
    for (name, mode) in
        [("", 0o700), ("record.json", 0o600), ("log", 0o600), ("chain.click", 0o600)]
    {
        let found = lab.path("web").join(name).metadata().expect("made");
        assert_eq!(found.permissions().mode() & 0o777, mode, "{name}");
    }
    // Nobody asks for it any more.
    lab.ask(&[]);
    wait_for("its end", || (!lives(pid)).then_some(()));
    wait_for("its directory", || (!lab.path("web").exists()).then_some(()));
    assert_eq!(lab.supervisor().status("web"), None);
}

#[test]
fn one_that_does_not_mind_sigterm_is_killed() {
    let lab = Lab::new(STUBBORN);
    lab.ask(&["web=x"]);
    let pid = lab.runs("web");
    // It has set its trap.
    wait_for("its begin", || {
        std::fs::read_to_string(lab.path("web").join("log")).ok().filter(|log| log.contains("up"))
    });
    let spec = ChainSpec { configuration: "x".into(), stopped: true, ..ChainSpec::default() };
    lab.supervisor().converge(vec![Asked { name: "web".into(), generation: 2, run: spec.into() }]);
    wait_for("its end", || (!lives(pid)).then_some(()));
    wait_for("the condition", || {
        (lab.reason("web", ConditionKind::Ready) == "Stopped").then_some(())
    });
    assert!(lab.path("web").exists(), "it is declared");
    lab.ask(&["web=x"]);
    assert_ne!(lab.runs("web"), pid);
}

#[test]
fn one_that_dies_is_started_again_and_a_crash_loop_backs_off() {
    let mut lab = Lab::new(LIVES);
    lab.ask(&["web=x", "other=x"]);
    let (pid, other) = (lab.runs("web"), lab.runs("other"));
    kill(pid, Signal::KILL);
    let again = wait_for("another process", || lab.pid("web").filter(|now| *now != pid));
    assert_eq!(lab.supervisor().status("web").map(|status| status.restarts), Some(1));
    assert!(lab.hears("Exited").message.contains("signal 9"));

    lab.script(FAILS);
    kill(again, Signal::KILL);
    wait_for("the loop", || (lab.reason("web", ConditionKind::Ready) == "CrashLoop").then_some(()));
    let status = wait_for("the script's words", || {
        let status = lab.supervisor().status("web")?;
        let ready = status.conditions.iter().find(|one| one.kind == ConditionKind::Ready)?;
        let words = ready.message.contains("exit code 3") && ready.message.contains("a bad day");
        (words && ready.reason == "CrashLoop").then_some(status)
    });
    // 100, 200, 400, 800, 1600 ms: five starts take 3 s and more.
    let (begin, first) = (Instant::now(), status.restarts);
    wait_for("five starts", || {
        lab.supervisor().status("web").filter(|status| status.restarts >= first + 4)
    });
    assert!(begin.elapsed() > Duration::from_millis(1400), "{:?}", begin.elapsed());
    assert_eq!(lab.pid("other"), Some(other), "the neighbour runs on");

    // Another specification is tried at once.
    lab.script(LIVES);
    lab.ask(&["web=y", "other=x"]);
    lab.runs("web");
}

#[test]
fn a_number_that_another_process_has_now_is_not_adopted_and_not_killed() {
    let mut lab = Lab::new(LIVES);
    lab.ask(&["web=x"]);
    let pid = lab.runs("web");
    lab.supervisor = None;
    kill(pid, Signal::KILL);
    wait_for("its end", || (!lives(pid)).then_some(()));
    let mut stranger = std::process::Command::new("sleep").arg("1000").spawn().expect("sleep");
    let path = lab.path("web").join("record.json");
    let record = std::fs::read_to_string(&path).expect("a record");
    let forged = record.replace(&format!("\"pid\":{pid}"), &format!("\"pid\":{}", stranger.id()));
    assert_ne!(record, forged);
    files::replace(&path, forged.as_bytes()).expect("room");
    lab.start();
    lab.hears("Gone");
    assert_eq!(lab.pid("web"), None);
    lab.ask(&["web=x"]);
    assert_ne!(lab.runs("web"), stranger.id());
    lab.ask(&[]);
    wait_for("its directory", || (!lab.path("web").exists()).then_some(()));
    assert!(stranger.try_wait().expect("a child").is_none(), "the stranger lives");
    stranger.kill().expect("a child");
    stranger.wait().expect("a child");
}

#[test]
fn what_nobody_asked_for_is_reported_and_lives_on_with_or_without_a_record() {
    let mut lab = Lab::new(LIVES);
    lab.ask(&["lost=x", "bare=x", "web=x"]);
    let pids = ["lost", "bare", "web"].map(|name| lab.runs(name));
    lab.supervisor = None;
    // The manager was killed before it wrote the process down.
    std::fs::remove_file(lab.path("bare").join("record.json")).expect("there");
    std::fs::write(lab.path("web").join("record.json"), "{\"pid\":").expect("room");
    lab.start();
    lab.hears("RecordRefused");
    lab.ask(&["web=x"]);
    let event = lab.hears("Unknown");
    assert!(event.message.contains("runs on"), "{event:?}");
    let mut unknown: Vec<u32> = lab.supervisor().unknown().into_iter().map(|one| one.pid).collect();
    unknown.sort_unstable();
    let mut lost = vec![pids[0], pids[1]];
    lost.sort_unstable();
    assert_eq!(unknown, lost);
    assert_eq!(["lost", "bare", "web"].map(|name| lab.pid(name)), pids.map(Some));
    // Converging again and again ends nothing.
    lab.ask(&["web=x"]);
    lab.start();
    lab.ask(&["web=x", "bare=x"]);
    assert_eq!(lab.runs("bare"), pids[1], "taken in again");
    assert!(!lab.supervisor().end("bare"), "it is known now");
    assert!(pids.iter().all(|pid| lives(*pid)));
    assert!(lab.supervisor().end("lost"));
    wait_for("its end", || (!lives(pids[0])).then_some(()));
    wait_for("its directory", || (!lab.path("lost").exists()).then_some(()));
}

#[test]
fn a_deletion_goes_on_after_the_manager_and_leaves_strange_files() {
    let mut lab = Lab::new(STUBBORN);
    lab.ask(&["web=x"]);
    let pid = lab.runs("web");
    wait_for("its begin", || {
        std::fs::read_to_string(lab.path("web").join("log")).ok().filter(|log| log.contains("up"))
    });
    std::fs::write(lab.path("web").join("capture.pcap"), "precious").expect("room");
    lab.ask(&[]);
    assert!(lab.path("web").join("deleted").exists(), "marked when converge() returned");
    lab.start();
    wait_for("its end", || (!lives(pid)).then_some(()));
    lab.hears("DirectoryLeft");
    lab.hears("Deleted");
    let left: Vec<_> = std::fs::read_dir(lab.path("web")).expect("there").flatten().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn a_record_that_cannot_be_written_costs_no_data_plane() {
    let mut lab = Lab::new(LIVES);
    lab.ask(&["web=x"]);
    let pid = lab.runs("web");
    wait_for("the record", || {
        let record = std::fs::read_to_string(lab.path("web").join("record.json")).ok()?;
        record.contains(&format!("\"pid\":{pid},")).then_some(())
    });
    // As on a full disk, no record is written from now on.
    std::fs::create_dir(lab.path("web").join("record.new")).expect("room");
    kill(pid, Signal::KILL);
    let again = wait_for("another process", || lab.pid("web").filter(|now| *now != pid));
    lab.hears("RecordNotWritten");
    lab.start();
    assert_eq!(lab.pid("web"), Some(again), "found without a record");
    lab.ask(&["web=x"]);
    assert_eq!(lab.runs("web"), again);
    std::fs::remove_dir(lab.path("web").join("record.new")).expect("ours");
}

#[test]
fn the_output_of_a_data_plane_has_a_bound() {
    let mut lab = Lab::new("while :; do i=$((i + 1)); echo line $i; sleep 0.001; done");
    lab.ask(&["web=x"]);
    lab.runs("web");
    // The small bound is the next manager's.
    let bound = 8 << 10;
    lab.supervisor = None;
    let config = SupervisorConfig { log_bytes_max: bound, ..lab.config() };
    lab.supervisor = Some(Supervisor::start(config, channel().0).expect("a free state"));
    lab.ask(&["web=x"]);
    let (log, older) = (lab.path("web").join("log"), lab.path("web").join("log.1"));
    wait_for("the log to be cut", || older.exists().then_some(()));
    let len = |path: &Path| path.metadata().map_or(0, |found| found.len());
    assert!(len(&older) <= bound / 2);
    let cut = std::fs::read(&older).expect("ours");
    wait_for("the log to be cut again", || {
        (std::fs::read(&older).is_ok_and(|now| now != cut) && len(&log) < bound).then_some(())
    });
}

#[test]
fn the_output_is_read_across_starts_and_goes_with_the_chain() {
    let mut lab = Lab::new("echo up; echo why >&2; while :; do sleep 1; done");
    let text = |lab: &Lab| {
        let part = lab.supervisor().log("web", 0, 1000).expect("read");
        String::from_utf8(part.text).expect("text")
    };
    assert_eq!(text(&lab), "", "it never ran");
    lab.ask(&["web=x"]);
    lab.runs("web");
    wait_for("its output", || (text(&lab) == "up\nwhy\n").then_some(()));
    lab.start();
    lab.ask(&["web=x"]);
    assert_eq!(text(&lab), "up\nwhy\n", "the next manager finds it");
    let end = lab.supervisor().log("web", 0, 1000).expect("read").next;
    let last = LogPart { text: b"why\n".to_vec(), next: end, is_cut: false };
    assert_eq!(lab.supervisor().log("web", end - 4, 1000).expect("read"), last);
    lab.ask(&[]);
    wait_for("its end", || (text(&lab).is_empty()).then_some(()));
}

#[test]
fn state_that_others_can_write_or_that_another_manager_has_is_refused() {
    let lab = Lab::new(LIVES);
    let refused = Supervisor::start(lab.config(), channel().0).err().expect("it is taken");
    assert!(refused.to_string().contains("another manager"), "{refused}");
    std::fs::create_dir(lab.path("web")).expect("room");
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(lab.path("web"), open.clone()).expect("ours");
    lab.ask(&["web=x", "Bad_Name=x", "../up=x"]);
    wait_for("the refusal", || {
        let status = lab.supervisor().status("web")?;
        let ready = status.conditions.into_iter().find(|one| one.kind == ConditionKind::Ready)?;
        (ready.reason == "StartFailed" && ready.message.contains("chmod 700")).then_some(())
    });
    assert!(lab.supervisor().status("Bad_Name").is_none());
    assert!(!lab.dir.path().join("state/up").exists());
    let state = lab.dir.path().join("open");
    std::fs::create_dir(&state).expect("room");
    std::fs::set_permissions(&state, open).expect("ours");
    let config = SupervisorConfig::new(&state, lab.program());
    let refused = Supervisor::start(config, channel().0).err().expect("it is open");
    assert!(refused.to_string().contains("chmod 700"), "{refused}");
}

#[test]
fn whoever_follows_the_output_gets_that_of_a_chain_that_is_declared_again_at_once() {
    let lab = Lab::new("echo first; echo and more; while :; do sleep 1; done");
    let read = |from| lab.supervisor().log("web", from, 1000).expect("read");
    lab.ask(&["web=x"]);
    let part = wait_for("its output", || Some(read(0)).filter(|part| part.text.len() == 15));
    lab.script("echo second; while :; do sleep 1; done");
    // Before anybody looks again.
    lab.ask(&[]);
    wait_for("its end", || lab.supervisor().status("web").is_none().then_some(()));
    lab.ask(&["web=x"]);
    wait_for("its output", || (read(0).text == b"second\n").then_some(()));
    let next = read(part.next);
    assert_eq!((&next.text[..], next.is_cut), (&b"second\n"[..], true));
    assert_eq!(read(next.next), LogPart { next: next.next, ..LogPart::default() });
}

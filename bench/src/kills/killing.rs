//! The configuration, and the thread that kills.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use thruway_engine::Control;
use thruway_sync::atomic::Ordering;

use super::elements::{Change, Ledger};
use super::options::Options;
use super::results::{Kill, Results};
use super::waits::Waits;
use crate::child::beside;
use crate::disturbed::{at_rest, router, run_beside, soon};

/// What does not come within this time does not come.
const SOON: Duration = Duration::from_secs(20);
/// Packets in flight have returned if none came for this time.
const QUIET: Duration = Duration::from_millis(100);

/// Kills as often as the options say.
pub fn measure(options: &Options) -> anyhow::Result<Results> {
    let ledger = Arc::new(Ledger::default());
    let mut router = router(&text(options)?, &ledger)?;
    let killed = run_beside(&mut router, |control| kill_all(options, control, &ledger))?;
    Ok(Results {
        made: ledger.made.get(),
        back: ledger.back.get(),
        astray: ledger.astray.get(),
        forgotten: ledger.forgotten.get(),
        drops: router.read("nf.drops")?.trim().replace('\n', ", "),
        ..killed
    })
}

/// The configuration. While the function is not there packets wait: what is lost is what it had.
fn text(options: &Options) -> anyhow::Result<String> {
    let Options { rate, sessions, slots, nf, .. } = options;
    let program = beside("thruway-bench-kills-function")?;
    let more = nf.as_ref().map_or(String::new(), |more| format!(", {more}"));
    Ok(format!(
        "source :: KillsSource({sessions}, {rate})
            -> fc :: FlowClassifier(SESSIONS_MAX {}, EMBRYONIC_MAX {}, UDP_NEW 10d, UDP 10d)
            -> nf :: Nf(EXEC \"{}\", SESSION connection, SESSIONS {sessions},
                        SLOTS {slots}, ON_FAILURE restart{more})
            -> KillsSink;",
        sessions.max(&1024),
        sessions.max(&1024),
        program.display()
    ))
}

fn kill_all(options: &Options, control: &Control, ledger: &Ledger) -> anyhow::Result<Results> {
    let number =
        |handler: &str| -> anyhow::Result<u64> { Ok(control.read(handler)?.trim().parse()?) };
    let all = u64::from(options.sessions);
    soon(SOON, "the sessions", || (ledger.back.get() > 2 * all).then_some(()))?;
    let mut results = Results { sessions: [number("fc.sessions")?, 0], ..Results::default() };
    for nth in 0..options.kills as usize {
        std::thread::sleep(Duration::from_millis(u64::from(options.pause)));
        let pid = soon(SOON, "a process", || {
            let pid = control.read("nf.pid").ok()?.trim().parse().ok()?;
            Pid::from_raw(pid).filter(|_| number("nf.generation").is_ok_and(|now| now > 0))
        })?;
        let before = Waits::now(pid.as_raw_nonzero().get());
        let at = Instant::now();
        kill_process(pid, Signal::KILL).context("cannot kill the function")?;
        let Change { at: back, lost } =
            soon(SOON, "the next process", || ledger.changes().get(nth).copied())?;
        let waited = Waits::now(pid.as_raw_nonzero().get()).since(&before);
        results.kills.push(Kill { back: back.duration_since(at), waited, lost });
    }
    // Each session once more, by the last process.
    let seen = ledger.back.get();
    soon(SOON, "the sessions", || (ledger.back.get() > seen + 2 * all).then_some(()))?;
    results.sessions[1] = number("fc.sessions")?;
    results.slots = u64::from(options.slots);
    let cpu: f64 = control.read("nf.cpu_time")?.trim().parse()?;
    results.start_cpu = Duration::from_secs_f64(cpu / f64::from(options.kills + 1));
    ledger.is_over.store(true, Ordering::Relaxed);
    at_rest(SOON, QUIET, || ledger.back.get())?;
    Ok(results)
}

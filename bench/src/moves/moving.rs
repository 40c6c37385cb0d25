//! The configuration, and the thread that moves sessions.

use std::sync::Arc;
use std::time::{Duration, Instant};

use thruway_engine::{Control, Router};
use thruway_sync::atomic::Ordering;

use super::elements::Ledger;
use super::options::Options;
use super::outcome::{Move, Results};
use crate::child::beside;
use crate::disturbed::{at_rest, router, run_beside, soon};

/// What does not come within this time does not come.
const SOON: Duration = Duration::from_secs(120);
/// Packets in flight have returned if none came for this time.
const QUIET: Duration = Duration::from_millis(200);

/// Moves all sessions as often as the options say.
pub fn measure(options: &Options) -> anyhow::Result<Results> {
    let ledger = Arc::new(Ledger::default());
    let mut router = router(&text(options)?, &ledger)?;
    // All sessions begin at the first replica.
    router.write("b.drain", "1")?;
    let moved = run_beside(&mut router, |control| move_all(options, control, &ledger))?;
    let drops = ["fc", "b", "r0", "r1"].map(|of| drops(&mut router, of));
    Ok(Results {
        made: ledger.made.get(),
        back: ledger.back.get(),
        backwards: ledger.backwards.get(),
        drops: drops.concat(),
        ..moved
    })
}

/// What an element dropped.
fn drops(router: &mut Router, of: &str) -> String {
    let text = router.read(&format!("{of}.drops")).unwrap_or_default();
    let counted = text.lines().filter(|line| !line.starts_with("0 "));
    counted.map(|line| format!("{of}: {line}; ")).collect()
}

fn text(options: &Options) -> anyhow::Result<String> {
    let Options { rate, sessions, .. } = options;
    let program = beside("thruway-bench-kills-function")?;
    let room = sessions.max(&1024);
    let replica = |n: u32| {
        format!(
            "b[{n}] -> r{n} :: Nf(EXEC \"{}\", SESSION connection, SESSIONS {sessions},
                                  ON_FAILURE restart) -> end;",
            program.display()
        )
    };
    Ok(format!(
        "source :: MovesSource({sessions}, {rate})
            -> fc :: FlowClassifier(SESSIONS_MAX {room}, EMBRYONIC_MAX {room}, UDP_NEW 10d, UDP 10d)
            -> b :: Balance;
         end :: MovesSink; {} {}",
        replica(0),
        replica(1)
    ))
}

fn move_all(options: &Options, control: &Control, ledger: &Ledger) -> anyhow::Result<Results> {
    let number =
        |handler: &str| -> anyhow::Result<u64> { Ok(control.read(handler)?.trim().parse()?) };
    let all = u64::from(options.sessions);
    soon(SOON, "the sessions", || (ledger.back.get() > all).then_some(()))?;
    control.write("b.resume", "1")?;
    ledger.take_age_max();
    std::thread::sleep(Duration::from_secs(1));
    let latency_before = Duration::from_nanos(ledger.take_age_max());
    let mut results = Results { latency_before, ..Results::default() };
    for nth in 0..options.moves {
        ledger.take_age_max();
        let begin = Instant::now();
        control.write("b.move", &format!("{} {} all", nth % 2, (nth + 1) % 2))?;
        soon(SOON, "the end of a move", || {
            control.read("b.moving").is_ok_and(|text| text.is_empty()).then_some(())
        })?;
        let took = begin.elapsed();
        std::thread::sleep(QUIET);
        let latency = Duration::from_nanos(ledger.take_age_max());
        results.moves.push(Move { took, latency });
    }
    results.moved = [number("b.moved")?, all * u64::from(options.moves)];
    results.pauses = pauses(&control.read("b.pauses")?);
    results.pause_max = Duration::from_nanos(number("b.pause_max")?);
    ledger.is_over.store(true, Ordering::Relaxed);
    at_rest(SOON, QUIET, || ledger.back.get())?;
    Ok(results)
}

/// Counts by limits: lines `<LIMITns COUNT`, and `>= COUNT` for what is above all.
fn pauses(text: &str) -> Vec<(u64, u64)> {
    let pause = |line: &str| {
        let (limit, count) = line.split_once(' ')?;
        let limit = limit.trim_start_matches('<').trim_end_matches("ns");
        Some((limit.parse().unwrap_or(u64::MAX), count.parse().ok()?))
    };
    text.lines().filter_map(pause).collect()
}

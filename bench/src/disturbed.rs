//! Runs a router under a disturbance, and measures the effect.

use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::bail;
use thruway_engine::{Control, Options as EngineOptions, Router};

use super::ledger::Ledger;
use super::registry;

/// Between two looks whether something has come.
const LOOK: Duration = Duration::from_micros(200);

/// The router of a configuration with elements that count in `ledger`.
///
/// # Errors
/// The configuration is wrong.
pub fn router<L: Ledger>(text: &str, ledger: &Arc<L>) -> anyhow::Result<Router> {
    let provided = Arc::clone(ledger);
    let options = EngineOptions {
        drain: true,
        provide: Some(Arc::new(move |shared| Arc::clone(&provided).provide(shared))),
        ..EngineOptions::default()
    };
    registry::router(L::BENCH, text.to_owned(), &options)
}

/// Runs a router in this thread until `disturb`, which runs in another one, is done.
///
/// # Errors
/// Those of `disturb`.
pub fn run_beside<T: Send>(
    router: &mut Router,
    disturb: impl FnOnce(&Control) -> anyhow::Result<T> + Send,
) -> anyhow::Result<T> {
    let control = Arc::clone(router.control());
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let done = disturb(&control);
            control.end();
            done
        });
        router.run_threads();
        other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Looks for something until it has come.
///
/// # Errors
/// It did not come within `limit`.
pub fn soon<T>(
    limit: Duration,
    what: &str,
    mut look: impl FnMut() -> Option<T>,
) -> anyhow::Result<T> {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return Ok(found);
        }
        if begin.elapsed() > limit {
            bail!("{what} did not come within {limit:?}");
        }
        sleep(LOOK);
    }
}

/// Waits until a count stays as it is for a while.
///
/// # Errors
/// It goes on for longer than `limit`.
pub fn at_rest(limit: Duration, quiet: Duration, count: impl Fn() -> u64) -> anyhow::Result<()> {
    let mut before = None;
    soon(limit, "the last packets", || {
        sleep(quiet);
        let now = Some(count());
        (std::mem::replace(&mut before, now) == now).then_some(())
    })
}

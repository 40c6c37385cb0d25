//! Following packets in a configuration that is run for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use thruway_engine::{Control, Options};
use thruway_lang::Diagnostics;
use thruway_sync::atomic::{AtomicBool, Ordering};

use super::args::{TraceArgs, Wanted, name};
use super::collect::Collected;
use crate::config_args::{ConfigArgs, libraries, report};
use crate::load;
use crate::signals::Receiver;

/// How often is looked what was seen.
const LOOK: Duration = Duration::from_millis(10);

/// Runs until all was seen or the configuration stops. `None`: it does not run, which was reported;
/// else why it ended badly, if it did.
pub fn run(
    args: &TraceArgs,
    variables: &[String],
    wanted: &Wanted<'_>,
    collected: &mut Collected,
) -> anyhow::Result<Option<Option<String>>> {
    let config = ConfigArgs {
        file: args.run.clone(),
        expression: args.expression.clone(),
        variables: variables.to_vec(),
    };
    let (source, variables) = config.read()?;
    let options = Options {
        threads: usize::from(args.threads),
        spread: true,
        burst: usize::from(args.burst),
        drain: true,
        ..Options::default()
    };
    let mut router = match load::build(source, &variables, &libraries(), &options) {
        Ok((router, warnings)) => {
            report(&warnings);
            router
        }
        Err(failure) => {
            report(&failure.pretty);
            return Ok(None);
        }
    };
    let name = name();
    router.write("trace", &wanted.start(&name)).map_err(anyhow::Error::new)?;
    let signals = Receiver::new()?;
    if let Err(failure) = load::initialize(&mut router) {
        report(&failure.pretty);
        return Ok(None);
    }
    signals.follow(router.control())?;
    let ask = format!("trace {name}");
    collected.take(&router.read(&ask)?)?;
    let watch = Watch {
        control: Arc::clone(router.control()),
        ask: ask.clone(),
        collected: Mutex::new(std::mem::take(collected)),
        over: AtomicBool::new(false),
    };
    let outcome = std::thread::scope(|scope| {
        let watching = std::thread::Builder::new().name("trace".into());
        watching.spawn_scoped(scope, || watch.look(wanted.limit))?;
        let outcome = router.run();
        watch.over.store(true, Ordering::Release);
        std::io::Result::Ok(outcome)
    })?;
    let seen = watch.collected.into_inner();
    *collected = seen;
    collected.take(&router.read(&ask)?)?;
    while !collected.knows_time() {
        std::thread::sleep(LOOK);
        collected.take(&router.read(&ask)?)?;
    }
    let graph = &router.layout().graph;
    report(&load::explain(graph, &outcome.errors, Diagnostics::about(&graph.sources)).pretty);
    let failed = !outcome.errors.is_empty();
    Ok(Some(failed.then(|| "the configuration could not finish".to_owned())))
}

/// Empties what threads wrote down, while they run.
struct Watch {
    control: Arc<Control>,
    ask: String,
    collected: Mutex<Collected>,
    over: AtomicBool,
}

impl Watch {
    fn look(&self, limit: Option<Duration>) {
        let begin = Instant::now();
        while !self.over.load(Ordering::Acquire) {
            std::thread::sleep(LOOK);
            // Before it runs and when it has stopped it does not answer; what is left is read then.
            let Ok(answer) = self.control.read(&self.ask) else { continue };
            let mut collected = self.collected.lock();
            let done = collected.take(&answer).is_err() || collected.is_done();
            if done || limit.is_some_and(|limit| begin.elapsed() >= limit) {
                self.control.end();
            }
        }
    }
}

//! Hot swap (`-R`): another configuration takes over while the process stays.

use std::sync::Arc;

use parking_lot::Mutex;
use thruway_engine::{BuildError, Control, HotSwaps, Options, Outcome, Router, named_cores};
use thruway_lang::Diagnostics;

use crate::load;

/// Makes a router of a text, or says what is wrong with it. Its threads run on these cores; on
/// chosen ones, where none is named.
pub type Build = Arc<dyn Fn(&str, &[usize]) -> Result<Router, String> + Send + Sync>;

/// The same of the configuration file as it is now.
pub type Reload = Arc<dyn Fn(&[usize]) -> Result<Router, String> + Send + Sync>;

/// A configuration that waits to take over.
struct Next {
    /// Which one it is, in the order in which they were asked for.
    number: u64,
    router: Router,
    /// Cores that its threads were given.
    cores: Vec<usize>,
}

/// The configuration that waits to take over.
pub struct Swap {
    /// Where the command line allows it.
    build: Option<Build>,
    /// Makes a router of the configuration file as it is now.
    reload: Option<Reload>,
    next: Arc<Mutex<Option<Next>>>,
    /// How many threads there are, and the cores that those of the running configuration have.
    threads: usize,
    cores: Arc<Mutex<Vec<usize>>>,
    counts: Arc<HotSwaps>,
}

impl Swap {
    /// None waits. The first configuration runs as these options say.
    pub fn new(build: Option<Build>, reload: Option<Reload>, options: &Options) -> Swap {
        let cores = Arc::new(Mutex::new(options.cores.clone()));
        let threads = options.threads;
        Swap { build, reload, next: Arc::default(), threads, cores, counts: Arc::default() }
    }

    /// Gives a router the `hotconfig` handler, where the command line allows it: the text is
    /// checked and its elements are built at once, so that the writer learns what is wrong; then
    /// the running configuration stops. The same for `reload`, where the configuration is a file;
    /// its value may name other cores. To be called before the router is initialised.
    pub fn offer(&self, control: &Arc<Control>) {
        control.share_hot_swaps(Arc::clone(&self.counts));
        if let Some(build) = self.build.clone() {
            let (take, cores) = (self.taker(control), self.cores());
            control.allow_reconfigure(Box::new(move |text| {
                let cores = cores();
                build(text, &cores).map(|router| take(router, cores))
            }));
        }
        if let Some(reload) = self.reload.clone() {
            let (take, cores, threads) = (self.taker(control), self.cores(), self.threads);
            control.allow_reload(Box::new(move |how| {
                let cores = named(how, threads)?.unwrap_or_else(&cores);
                reload(&cores).map(|router| take(router, cores))
            }));
        }
    }

    /// The cores of the configuration that waits to take over, else of the one that runs.
    fn cores(&self) -> impl Fn() -> Vec<usize> + Send + Sync + use<> {
        let (next, running) = (Arc::clone(&self.next), Arc::clone(&self.cores));
        move || {
            let waiting = next.lock().as_ref().map(|next| next.cores.clone());
            waiting.unwrap_or_else(|| running.lock().clone())
        }
    }

    /// Has a router wait for the end of the running one, and ends that.
    fn taker(&self, control: &Arc<Control>) -> impl Fn(Router, Vec<usize>) + Send + Sync + use<> {
        let (next, counts) = (Arc::clone(&self.next), Arc::clone(&self.counts));
        let running = Arc::downgrade(control);
        move |router, cores| {
            let mut next = next.lock();
            // Under the lock, so that a later number is a later configuration.
            let number = counts.count_asked();
            if next.replace(Next { number, router, cores }).is_some() {
                counts.count_superseded();
            }
            drop(next);
            if let Some(control) = running.upgrade() {
                control.pause();
            }
        }
    }

    /// After a run of `router`: whether there is another one, by the configuration that waits or,
    /// if that cannot be initialised, by the same. A stop has priority over a swap: regardless
    /// of its source and time, no other configuration begins.
    pub fn goes_on(&self, router: &mut Router, outcome: &Outcome) -> bool {
        let next = self.next.lock().take();
        let Some(next) = next else { return false };
        if !outcome.paused || router.control().is_stopping() {
            errln!("hotconfig: not used: the router was stopped");
            self.counts.count_refused(next.number, "the router was stopped");
            // Packets in flight still reach their end.
            return outcome.paused;
        }
        self.replace(router, next);
        true
    }

    /// Lets `next` take over from `router`; if it cannot be initialised, the old configuration gets
    /// its state back.
    fn replace(&self, router: &mut Router, next: Next) {
        let Next { number, router: mut next, cores } = next;
        next.take_over(router);
        // Before its elements are initialised: a control socket asks it for handlers from then on.
        self.offer(next.control());
        match load::initialize(&mut next) {
            Ok(()) => {
                finish(router);
                *router = next;
                *self.cores.lock() = cores;
                self.counts.count_taken(number);
                tracing::info!("another configuration took over");
            }
            Err(failure) => {
                let reason = sentence(&failure);
                tracing::error!(reason, "configuration not initialized; the former one goes on");
                router.take_back(&mut next);
                self.counts.count_refused(number, &reason);
                // One that came meanwhile paused the router that never ran.
                if self.next.lock().is_some() {
                    router.control().pause();
                }
            }
        }
    }
}

/// Closes everything; false when something could not be finished.
pub fn finish(router: &mut Router) -> bool {
    let errors = router.finish();
    report(router, &errors);
    errors.is_empty()
}

/// Reports what went wrong while it ran.
pub fn report(router: &Router, errors: &[BuildError]) {
    let graph = &router.layout().graph;
    let failure = load::explain(graph, errors, Diagnostics::about(&graph.sources));
    err!("{}", failure.click.click());
}

/// Why a configuration does not run, in Click's words.
pub fn reason(failure: &load::Failure) -> String {
    let last = if failure.parsed { "Router could not be initialized!" } else { "" };
    format!("{}{last}", failure.click.click()).trim_end().to_owned()
}

/// The same in one line, for the log.
pub fn sentence(failure: &load::Failure) -> String {
    let text = failure.click.click();
    text.lines().map(str::trim).collect::<Vec<_>>().join("; ")
}

/// The cores that the value of `reload` names: none of an empty value; `CORES` alone means those
/// that are chosen.
fn named(how: &str, threads: usize) -> Result<Option<Vec<usize>>, String> {
    let Some(list) = how.trim().strip_prefix("CORES") else {
        return match how.trim() {
            "" => Ok(None),
            other => Err(format!("'{other}' is neither empty nor CORES and a list of cores")),
        };
    };
    if list.trim().is_empty() {
        return Ok(Some(Vec::new()));
    }
    let cores = named_cores(list.trim()).map_err(|why| format!("CORES: {why}"))?;
    if cores.len() < threads {
        let count = cores.len();
        return Err(format!(
            "CORES names {count} for {threads} threads, whose number stays: name more"
        ));
    }
    Ok(Some(cores))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_of_a_reload_are_those_of_as_many_threads() {
        let own = (0..256).find(|core| named_cores(&core.to_string()).is_ok()).expect("a core");
        assert_eq!(named(" ", 1), Ok(None));
        assert_eq!(named("CORES", 1), Ok(Some(Vec::new())));
        assert_eq!(named(&format!("CORES {own}"), 1), Ok(Some(vec![own])));
        let refused = |how: &str, threads| named(how, threads).expect_err("refused");
        assert!(refused(&format!("CORES {own}"), 2).contains("names 1 for 2 threads"));
        assert!(refused("CORES 1-", 1).starts_with("CORES: "));
        assert!(refused("cores 1", 1).contains("neither"));
    }
}

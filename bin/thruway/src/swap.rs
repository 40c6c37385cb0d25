//! Hot swap (`-R`): another configuration takes over while the process stays.

use std::sync::Arc;

use parking_lot::Mutex;
use thruway_engine::{BuildError, Control, HotSwaps, Options, Outcome, Router, named_cores};
use thruway_lang::Diagnostics;

use crate::load;
use crate::run_args::THREADS_MAX;

/// The threads of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadConfig {
    /// How many.
    pub count: usize,
    /// Their cores; chosen ones, where none is named.
    pub cores: Vec<usize>,
}

impl ThreadConfig {
    /// These options, with these threads.
    pub fn applied(&self, options: &Options) -> Options {
        Options { threads: self.count, cores: self.cores.clone(), ..options.clone() }
    }
}

/// Makes a router of a text, or says what is wrong with it.
pub type Build = Arc<dyn Fn(&str, &ThreadConfig) -> Result<Router, String> + Send + Sync>;

/// The same of the configuration file as it is now.
pub type Reload = Arc<dyn Fn(&ThreadConfig) -> Result<Router, String> + Send + Sync>;

/// A configuration that waits to take over.
struct Next {
    /// Which one it is, in the order in which they were asked for.
    number: u64,
    router: Router,
    threads: ThreadConfig,
}

/// The configuration that waits to take over.
pub struct Swap {
    /// Where the command line allows it.
    build: Option<Build>,
    /// Makes a router of the configuration file as it is now.
    reload: Option<Reload>,
    next: Arc<Mutex<Option<Next>>>,
    /// The threads of the running configuration.
    running: Arc<Mutex<ThreadConfig>>,
    counts: Arc<HotSwaps>,
}

impl Swap {
    /// None waits. The first configuration runs as these options say.
    pub fn new(build: Option<Build>, reload: Option<Reload>, options: &Options) -> Swap {
        let threads = ThreadConfig { count: options.threads, cores: options.cores.clone() };
        let running = Arc::new(Mutex::new(threads));
        Swap { build, reload, next: Arc::default(), running, counts: Arc::default() }
    }

    /// Gives a router the `hotconfig` handler, where the command line allows it: the text is
    /// checked and its elements are built at once, so that the writer learns what is wrong; then
    /// the running configuration stops. The same for `reload`, where the configuration is a file;
    /// its value may ask for other threads. To be called before the router is initialised.
    pub fn offer(&self, control: &Arc<Control>) {
        control.share_hot_swaps(Arc::clone(&self.counts));
        if let Some(build) = self.build.clone() {
            let (take, threads) = (self.taker(control), self.threads());
            control.allow_reconfigure(Box::new(move |text| {
                let threads = threads();
                build(text, &threads).and_then(|router| take(router, threads))
            }));
        }
        if let Some(reload) = self.reload.clone() {
            let (take, threads) = (self.taker(control), self.threads());
            control.allow_reload(Box::new(move |how| {
                let threads = wanted(how, &threads())?;
                reload(&threads).and_then(|router| take(router, threads))
            }));
        }
    }

    /// The threads of the configuration that waits to take over, else of the one that runs.
    fn threads(&self) -> impl Fn() -> ThreadConfig + Send + Sync + use<> {
        let (next, running) = (Arc::clone(&self.next), Arc::clone(&self.running));
        move || {
            let waiting = next.lock().as_ref().map(|next| next.threads.clone());
            waiting.unwrap_or_else(|| running.lock().clone())
        }
    }

    /// Has a router wait for the end of the running one, and ends that; or says why the router
    /// cannot follow it.
    fn taker(
        &self,
        control: &Arc<Control>,
    ) -> impl Fn(Router, ThreadConfig) -> Result<(), String> + Send + Sync + use<> {
        let (next, counts) = (Arc::clone(&self.next), Arc::clone(&self.counts));
        let running = Arc::downgrade(control);
        move |router, threads| {
            let running = running.upgrade();
            if let Some(control) = &running {
                router.can_follow(control)?;
            }
            let mut next = next.lock();
            // Under the lock, so that a later number is a later configuration.
            let number = counts.count_asked();
            if next.replace(Next { number, router, threads }).is_some() {
                counts.count_superseded();
            }
            drop(next);
            if let Some(control) = running {
                control.pause();
            }
            Ok(())
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
        let Next { number, router: mut next, threads } = next;
        next.take_over(router);
        // Before its elements are initialised: a control socket asks it for handlers from then on.
        self.offer(next.control());
        match load::initialize(&mut next) {
            Ok(()) => {
                finish(router);
                *router = next;
                *self.running.lock() = threads;
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

/// The threads that the value of `reload` asks for instead of these: the same, if it is empty.
/// `CORES` alone means cores that are chosen. `THREADS` alone keeps the named ones, if they are
/// enough.
fn wanted(how: &str, now: &ThreadConfig) -> Result<ThreadConfig, String> {
    let how = how.trim();
    let (count, rest) = match how.strip_prefix("THREADS") {
        None => (now.count, how),
        Some(rest) => {
            let rest = rest.trim_start();
            let (number, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            (thread_count(number)?, rest.trim_start())
        }
    };
    let cores = match rest.strip_prefix("CORES").map(str::trim) {
        None if !rest.is_empty() => {
            let what = "neither empty nor THREADS and a number nor CORES and a list of cores";
            return Err(format!("'{how}' is {what}"));
        }
        None => now.cores.clone(),
        Some("") => Vec::new(),
        Some(list) => named_cores(list).map_err(|why| format!("CORES: {why}"))?,
    };
    if !cores.is_empty() && cores.len() < count {
        let named = cores.len();
        return Err(format!("CORES names {named} for {count} threads: name more"));
    }
    Ok(ThreadConfig { count, cores })
}

fn thread_count(number: &str) -> Result<usize, String> {
    let count = number.parse().ok().filter(|count| (1..=usize::from(THREADS_MAX)).contains(count));
    count.ok_or_else(|| format!("THREADS '{number}' is no number from 1 to {THREADS_MAX}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reload_asks_for_threads_and_their_cores() {
        let own = (0..256).find(|core| named_cores(&core.to_string()).is_ok()).expect("a core");
        let of = |count, cores: &[usize]| ThreadConfig { count, cores: cores.to_vec() };
        let now = of(1, &[own]);
        assert_eq!(wanted(" ", &now), Ok(now.clone()));
        assert_eq!(wanted("CORES", &now), Ok(of(1, &[])));
        assert_eq!(wanted(&format!("CORES {own}"), &of(1, &[])), Ok(now.clone()));
        assert_eq!(wanted("THREADS 2", &of(1, &[])), Ok(of(2, &[])));
        assert_eq!(wanted("THREADS 2 CORES", &now), Ok(of(2, &[])));
        assert_eq!(wanted(&format!("THREADS 1 CORES {own}"), &of(2, &[])), Ok(now.clone()));
        assert_eq!(wanted("THREADS 1", &of(2, &[own, own])), Ok(of(1, &[own, own])));
        let refused = |how: &str, now: &ThreadConfig| wanted(how, now).expect_err("refused");
        let few = "names 1 for 2 threads: name more";
        assert!(refused(&format!("CORES {own}"), &of(2, &[])).contains(few));
        assert!(refused("THREADS 2", &now).contains(few));
        assert!(refused("CORES 1-", &now).starts_with("CORES: "));
        for wrong in ["cores 1", "THREADS 2 cores"] {
            assert!(refused(wrong, &now).contains("neither"), "{wrong}");
        }
        for wrong in ["THREADS", "THREADS 0", "THREADS 257", "THREADS x CORES"] {
            assert!(refused(wrong, &now).contains("no number from 1 to 256"), "{wrong}");
        }
    }
}

//! Hot swap (`-R`): another configuration takes over while the process stays.

use std::sync::Arc;

use parking_lot::Mutex;
use thruway_engine::{BuildError, Control, HotSwaps, Outcome, Router};
use thruway_lang::Diagnostics;

use crate::load;

/// Makes a router of a text, or says what is wrong with it.
pub type Build = Arc<dyn Fn(&str) -> Result<Router, String> + Send + Sync>;

/// Makes a router of the configuration file as it is now, or says what is wrong with it.
pub type Reload = Arc<dyn Fn() -> Result<Router, String> + Send + Sync>;

/// The configuration that waits to take over.
pub struct Swap {
    /// Where the command line allows it.
    build: Option<Build>,
    /// Makes a router of the configuration file as it is now.
    reload: Option<Reload>,
    /// With its number.
    next: Arc<Mutex<Option<(u64, Router)>>>,
    counts: Arc<HotSwaps>,
}

impl Swap {
    /// None waits.
    pub fn new(build: Option<Build>, reload: Option<Reload>) -> Swap {
        Swap { build, reload, next: Arc::default(), counts: Arc::default() }
    }

    /// Gives a router the `hotconfig` handler, where the command line allows it: the text is
    /// checked and its elements are built at once, so that the writer learns what is wrong; then
    /// the running configuration stops. The same for `reload`, where the configuration is a file.
    /// To be called before the router is initialised.
    pub fn offer(&self, control: &Arc<Control>) {
        control.share_hot_swaps(Arc::clone(&self.counts));
        if let Some(build) = self.build.clone() {
            let take = self.taker(control);
            control.allow_reconfigure(Box::new(move |text| build(text).map(&take)));
        }
        if let Some(reload) = self.reload.clone() {
            let take = self.taker(control);
            control.allow_reload(Box::new(move || reload().map(&take)));
        }
    }

    /// Has a router wait for the end of the running one, and ends that.
    fn taker(&self, control: &Arc<Control>) -> impl Fn(Router) + Send + Sync + use<> {
        let (next, counts) = (Arc::clone(&self.next), Arc::clone(&self.counts));
        let running = Arc::downgrade(control);
        move |router| {
            let mut next = next.lock();
            // Under the lock, so that a later number is a later configuration.
            if next.replace((counts.count_asked(), router)).is_some() {
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
        let Some((number, next)) = next else { return false };
        if !outcome.paused || router.control().is_stopping() {
            errln!("hotconfig: not used: the router was stopped");
            self.counts.count_refused(number, "the router was stopped");
            // Packets in flight still reach their end.
            return outcome.paused;
        }
        self.replace(router, (number, next));
        true
    }

    /// Lets `next`, of this number, take over from `router`; if it cannot be initialised, the old
    /// configuration gets its state back.
    fn replace(&self, router: &mut Router, (number, mut next): (u64, Router)) {
        next.take_over(router);
        // Before its elements are initialised: a control socket asks it for handlers from then on.
        self.offer(next.control());
        match load::initialize(&mut next) {
            Ok(()) => {
                finish(router);
                *router = next;
                self.counts.count_taken(number);
                tracing::info!("another configuration took over");
            }
            Err(failure) => {
                let reason = sentence(&failure);
                tracing::error!(reason, "configuration not initialized; the former one goes on");
                router.take_over(&mut next);
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

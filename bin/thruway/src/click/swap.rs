//! Hot swap (`-R`): another configuration takes over while the process stays.

use std::sync::{Arc, Mutex};

use thruway_engine::{Control, Router};
use thruway_lang::Source;

use super::options::Settings;
use crate::load::{self, Libraries};

/// The configuration that waits to take over.
pub struct Swap {
    settings: Arc<Settings>,
    next: Arc<Mutex<Option<Router>>>,
}

impl Swap {
    /// None waits.
    pub fn new(settings: &Arc<Settings>) -> Swap {
        Swap { settings: Arc::clone(settings), next: Arc::default() }
    }

    /// Gives a router the `hotconfig` handler, where the command line allows it: the text is
    /// checked and its elements are built at once, so that the writer learns what is wrong; then
    /// the running configuration stops.
    pub fn offer(&self, control: &Arc<Control>) {
        if !self.settings.reconfigure {
            return;
        }
        let (settings, next) = (Arc::clone(&self.settings), Arc::clone(&self.next));
        let running = Arc::downgrade(control);
        control.allow_reconfigure(Box::new(move |text| {
            let source = super::with_sockets(Source::new("hotconfig", text), &settings);
            let libraries = Libraries::new(&settings.path);
            let built = load::build(source, &settings.variables, &libraries, &settings.engine);
            let (router, _) = built.map_err(|failure| super::reason(&failure))?;
            *next.lock().unwrap_or_else(|poison| poison.into_inner()) = Some(router);
            if let Some(control) = running.upgrade() {
                control.halt();
            }
            Ok(())
        }));
    }

    /// The configuration that waits.
    pub fn take(&self) -> Option<Router> {
        self.next.lock().unwrap_or_else(|poison| poison.into_inner()).take()
    }

    /// Lets `next` take over from `router`; if it cannot be initialised, the old configuration gets
    /// its state back and goes on.
    pub fn replace(&self, router: &mut Router, mut next: Router) {
        next.take_over(router);
        match load::initialize(&mut next) {
            Ok(()) => {
                super::finish(router);
                *router = next;
            }
            Err(failure) => {
                eprint!("{}", failure.click.click());
                eprintln!("hotconfig: the new configuration could not be initialized");
                router.take_over(&mut next);
                router.resume();
            }
        }
        self.offer(router.control());
    }
}

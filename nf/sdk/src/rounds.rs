//! The loop: a round over all links, then whatever else there is to do, then a rest.

use std::process::ExitCode;
use std::time::Duration;

use thruway_exchange::socket::{Socket, SocketError};
use thruway_exchange::{
    Arena, AttachError, Attached, FutexWaiter, Rest, WorkerLink, WorkerPart, attach, attach_by,
    rest,
};
use thruway_nf_abi::control::{DRAIN, Figure};
use thruway_nf_abi::features::Offer;
use thruway_nf_abi::message::WaitMode;

use crate::batch::Batch;
use crate::clock::Clock;
use crate::config::Config;
use crate::counters::Counters;
use crate::cx::{Cx, FunctionState};
use crate::function::{Function, Start};
use crate::host::Host;
use crate::responder::Responder;
use crate::sessions::{self, Front};
use crate::timers::Timers;

/// Longest sleep: then a function looks whether its host is still there.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// Rounds without packets after which a function that does not sleep looks whether its host is
/// still there.
const IDLE_ROUNDS: u32 = 1 << 22;

/// Rounds without packets between two looks at the clock.
const SPINS: u32 = 16;

/// Why a function ended otherwise than asked to.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It has no host, or they did not come to terms.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// It could not begin; the host knows.
    #[error("the function cannot begin: {0}")]
    Begin(String),
    /// The control socket fails.
    #[error(transparent)]
    Socket(#[from] SocketError),
}

/// Runs a function until its host ends it: the `main` of its program. `make` makes the function;
/// what it gives as an error is what the host shows its user.
pub fn run<F: Function>(
    config: &Config,
    make: impl FnOnce(&mut Start<'_>) -> Result<F, String>,
) -> ExitCode {
    let result = attach(&config.hello(Offer::ONE_WORKER)).map_err(RunError::from);
    report(config, result.and_then(|attached| serve(config, attached, make)))
}

/// What a function's program ends with, and says if it is an error.
pub(crate) fn report(config: &Config, result: Result<(), RunError>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", config.name);
            ExitCode::FAILURE
        }
    }
}

/// Runs a function on a given control socket: in a thread of its host.
///
/// # Errors
/// [`RunError`].
pub fn run_on<F: Function>(
    socket: Socket,
    config: &Config,
    make: impl FnOnce(&mut Start<'_>) -> Result<F, String>,
) -> Result<(), RunError> {
    serve(config, attach_by(socket, &config.hello(Offer::ONE_WORKER))?, make)
}

fn serve<F: Function>(
    config: &Config,
    attached: Attached,
    make: impl FnOnce(&mut Start<'_>) -> Result<F, String>,
) -> Result<(), RunError> {
    let (host, part, _) = Host::of(attached);
    match begin(&host, part, make) {
        Ok(made) => {
            host.socket.send_ready()?;
            Ok(Rounds::new(config, made, Responder::First(&host, &[])).run()?)
        }
        Err(why) => {
            host.socket.send_failed(&why)?;
            Err(RunError::Begin(why))
        }
    }
}

/// A Worker that could begin.
pub(crate) struct Made<F> {
    function: F,
    state: FunctionState,
    links: Vec<WorkerLink>,
    arena: Option<Arena>,
}

/// Makes the function of a Worker, or says why there is none.
pub(crate) fn begin<F: Function>(
    host: &Host,
    part: WorkerPart,
    make: impl FnOnce(&mut Start<'_>) -> Result<F, String>,
) -> Result<Made<F>, String> {
    let WorkerPart { number, control, links, arena } = part;
    let mut state = FunctionState {
        welcome: host.welcome,
        worker: number,
        control: control.clone(),
        clock: Clock::default(),
        timers: Timers::default(),
        counters: Counters::new(control),
        arena: None,
        no_output: None,
    };
    let mut start = Start { state: &mut state, host, problem: None };
    let made = make(&mut start);
    match (made, start.problem) {
        (Ok(function), None) => Ok(Made { function, state, links, arena }),
        (Err(why), _) | (_, Some(why)) => Err(why),
    }
}

/// How long nothing has come.
#[derive(Default)]
struct Idle {
    rounds: u32,
    since_ns: u64,
}

/// The work of one Worker.
pub(crate) struct Rounds<'a, F> {
    batch_len_max: u32,
    prefetch: u32,
    links: Vec<WorkerLink>,
    state: FunctionState,
    function: F,
    responder: Responder<'a>,
    waiter: FutexWaiter,
    /// Requests that were answered, as the host counts them.
    requests: u32,
    idle: Idle,
}

impl<'a, F: Function> Rounds<'a, F> {
    /// Of a Worker that could begin. Its sessions have scratch from now on.
    pub fn new(config: &Config, made: Made<F>, responder: Responder<'a>) -> Rounds<'a, F> {
        let Made { function, state, links, arena } = made;
        let waiter = FutexWaiter(state.control.clone());
        Rounds {
            batch_len_max: config.batch_len_max.max(1),
            prefetch: config.prefetch,
            links,
            state: FunctionState { arena, ..state },
            function,
            responder,
            waiter,
            requests: 0,
            idle: Idle::default(),
        }
    }

    /// Until the host ends it, or is gone.
    pub fn run(mut self) -> Result<(), SocketError> {
        loop {
            let has_worked = self.packets();
            if !self.state.timers.is_empty()
                && (has_worked || self.idle.rounds.is_multiple_of(SPINS))
            {
                self.timers();
            }
            let requests = self.state.control.requests();
            if requests != self.requests {
                self.requests = requests;
                if let Some(threshold) = self.state.control.worker_threshold() {
                    self.links.iter_mut().for_each(|link| link.worker.set_threshold(threshold));
                }
                if !self.requests()? {
                    return Ok(());
                }
            }
            if has_worked {
                self.idle.rounds = 0;
                continue;
            }
            if self.state.control.command() == DRAIN {
                self.drain();
                return Ok(());
            }
            if !self.wait()? {
                return Ok(());
            }
        }
    }

    /// A batch of each link. Whether there was any packet.
    #[inline]
    fn packets(&mut self) -> bool {
        let mut has_worked = false;
        for link in &mut self.links {
            let mut left = link.worker.waiting().min(self.batch_len_max);
            if left == 0 {
                continue;
            }
            if !has_worked {
                self.state.clock.forget();
                has_worked = true;
            }
            while left > 0 {
                let Front { news, packets } = match self.state.arena {
                    Some(_) => {
                        let (worker, state) = (&mut link.worker, &mut self.state);
                        sessions::announce(&mut self.function, worker, state, left)
                    }
                    None => Front { news: 0, packets: left },
                };
                left -= news + packets;
                if packets > 0 {
                    let mut batch =
                        Batch::new(link.split(), &mut self.state, packets, self.prefetch);
                    self.function.batch(&mut batch);
                    batch.finish();
                }
            }
            // Before the packets: who has them back finds them counted.
            self.state.counters.announce();
            link.hand_back();
        }
        if has_worked {
            self.state.control.beat();
        }
        has_worked
    }

    fn timers(&mut self) {
        let now = self.state.clock.read();
        let mut has_gone_off = false;
        while let Some(timer) = self.state.timers.expire(now) {
            let mut cx = Cx { state: &mut self.state, links: &mut self.links };
            self.function.timer(&mut cx, timer);
            has_gone_off = true;
        }
        if has_gone_off {
            self.publish();
        }
    }

    /// Shows what was done outside of batches.
    fn publish(&mut self) {
        self.state.counters.announce();
        for link in &mut self.links {
            link.flush();
        }
        self.state.control.beat();
    }

    #[cold]
    fn requests(&mut self) -> Result<bool, SocketError> {
        self.state.clock.forget();
        let goes_on = self.responder.answer(&mut self.function)?;
        self.state.counters.announce();
        self.state.control.beat();
        Ok(goes_on)
    }

    #[cold]
    fn drain(&mut self) {
        self.state.clock.forget();
        self.function.drain(&mut Cx { state: &mut self.state, links: &mut self.links });
        self.publish();
    }

    /// Does nothing for a while. False when the host is gone.
    fn wait(&mut self) -> Result<bool, SocketError> {
        self.idle.rounds = self.idle.rounds.wrapping_add(1);
        match self.state.welcome.wait {
            WaitMode::Block => return self.sleep(),
            WaitMode::Poll => {
                if self.idle.rounds.is_multiple_of(IDLE_ROUNDS) {
                    return self.requests();
                }
            }
            WaitMode::Hybrid => {
                if self.idle.rounds % SPINS == 1 {
                    let now = self.state.clock.read();
                    if self.idle.rounds == 1 {
                        self.idle.since_ns = now;
                    }
                    let spin_ns = u64::from(self.state.welcome.spin_ns);
                    if now.saturating_sub(self.idle.since_ns) >= spin_ns {
                        return self.sleep();
                    }
                }
            }
        }
        std::hint::spin_loop();
        Ok(true)
    }

    fn sleep(&mut self) -> Result<bool, SocketError> {
        let mut at_most = SLEEP_MAX;
        if let Some(due) = self.state.timers.next_due_ns() {
            let now = self.state.clock.read();
            at_most = at_most.min(Duration::from_nanos(due.saturating_sub(now)));
            if at_most.is_zero() {
                return Ok(true);
            }
        }
        let (links, control, requests) = (&mut self.links, &self.state.control, self.requests);
        let ended = rest(&self.waiter, Some(at_most), || {
            control.requests() != requests
                || control.command() == DRAIN
                || links.iter_mut().any(|link| link.worker.has_work())
        });
        self.state.clock.forget();
        // The next round looks at the timers.
        self.idle.rounds = 0;
        match ended {
            Rest::None => return Ok(true),
            Rest::Woken => self.state.control.add_figure(Figure::WakeUps, 1),
            Rest::TimedOut => {}
        }
        self.state.control.add_figure(Figure::Sleeps, 1);
        if ended == Rest::TimedOut && at_most == SLEEP_MAX { self.requests() } else { Ok(true) }
    }
}

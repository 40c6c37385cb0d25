//! A function as its element sees it.

use crate::call::{CallError, Reply};
use crate::error::HostError;
use crate::keeper;
use crate::life::State;
use crate::shared::{Command, Shared};
use crate::spec::FunctionSpec;
use crate::status::Status;
use crate::wiring::{self, HostLink};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;
use thruway_exchange::socket::FDS_MAX;
use thruway_exchange::{Arena, Control, PeerFault};
use thruway_nf_abi::message::{Kind, LEN_MAX, LINKS_MAX};

/// A supervised function. Dropping it kills its process and waits for the end, some milliseconds.
#[derive(Debug)]
pub struct Function {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// A function that is being started.
#[derive(Debug)]
pub struct Begun {
    function: Function,
    attached: Receiver<Result<(), HostError>>,
}

impl Begun {
    /// Waits until the function has attached.
    ///
    /// # Errors
    /// Why it did not.
    pub fn attached(self) -> Result<Arc<Function>, HostError> {
        match self.attached.recv() {
            Ok(Ok(())) => Ok(Arc::new(self.function)),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(HostError::Stopped),
        }
    }
}

impl Function {
    /// Starts a function and waits until it has attached.
    ///
    /// # Errors
    /// All of [`HostError`]: a function that does not attach the first time is not tried again.
    pub fn start(spec: FunctionSpec) -> Result<Arc<Function>, HostError> {
        Function::begin(spec)?.attached()
    }

    /// Starts a function without waiting, so that many can be started at once.
    ///
    /// # Errors
    /// What is wrong with the spec itself.
    pub fn begin(mut spec: FunctionSpec) -> Result<Begun, HostError> {
        if spec.links == 0 || spec.links > LINKS_MAX {
            let why = format!("{} Master threads; a function serves 1 to {LINKS_MAX}", spec.links);
            return Err(HostError::Argument { what: "links", why });
        }
        check_workers(&spec)?;
        spec.order.limits.regions_bytes = wiring::regions_bytes(&spec)?;
        // Each link is two descriptors, besides those of a control region and the start.
        let more_workers = u64::from(spec.workers - 1);
        spec.order.limits.open_files += 2 * u64::from(spec.links) + more_workers;
        spec.order.limits.threads += more_workers;
        let shared = Arc::new(Shared::new()?);
        let (tell, attached) = sync_channel(1);
        let thread = keeper::spawn(spec, shared.clone(), tell)?;
        Ok(Begun { function: Function { shared, thread: Some(thread) }, attached })
    }

    /// The present generation: changes when links change; 0 means that no function runs.
    #[inline]
    pub fn generation(&self) -> u32 {
        self.shared.generation()
    }

    /// The present generation's link of a Master thread, once. Takes a lock: to be called when
    /// [`Function::generation`] has changed.
    pub fn take_link(&self, thread: usize) -> Option<HostLink> {
        self.shared.take_link(thread)
    }

    /// A Master saw that the function broke the protocol: it is killed and restarted. A report on
    /// a generation that is gone is ignored.
    pub fn report_fault(&self, generation: u32, fault: PeerFault) {
        // Refused only when as much is waiting already, which is not less of a reason to kill it.
        let _ = self.shared.command(Command::Fault(generation, fault));
    }

    /// Packets begin to wait for the function: should it be said to hang, it counts from about now
    /// whether it had a processor.
    pub fn watch(&self) {
        // Refused only when there is more to do than that.
        let _ = self.shared.command(Command::Watch);
    }

    /// A Master saw that the function has had a packet for longer than
    /// [`Patience::hang`](crate::Patience::hang): it is killed and restarted. A report on a
    /// generation that is gone is ignored.
    pub fn report_hang(&self, generation: u32) {
        // Refused only when as much is waiting already: the next look reports it again.
        let _ = self.shared.command(Command::Hang(generation));
    }

    /// What is known of it.
    pub fn status(&self) -> Status {
        self.shared.status()
    }

    /// The control regions of the present generation, one for each Worker: figures and counters.
    pub fn controls(&self) -> Vec<Control> {
        self.shared.controls()
    }

    /// The scratch of its sessions, if it asked for any.
    pub fn arena(&self) -> Option<Arc<Arena>> {
        self.shared.arena()
    }

    /// Calls a handler within the function: [`Kind::Read`] or [`Kind::Write`]. Waits for the
    /// answer, so not to be called by a thread that moves packets: those [`ask`](Self::ask).
    ///
    /// # Errors
    /// [`CallError`].
    pub fn call(&self, kind: Kind, text: &str) -> Result<String, CallError> {
        let (reply, answer) = sync_channel(1);
        // One answer for room for one: it is never refused.
        self.ask(kind, text, move |answer| drop(reply.try_send(answer)));
        answer.recv().unwrap_or(Err(CallError::NotRunning))
    }

    /// The same without waiting: `reply` is called with the answer within two seconds, by
    /// the supervisor's thread or, where nothing can be asked, at once. It must not wait.
    pub fn ask(
        &self,
        kind: Kind,
        text: &str,
        reply: impl FnOnce(Result<String, CallError>) + Send + 'static,
    ) {
        let is_question = matches!(kind, Kind::Read | Kind::Write);
        if !is_question || text.len() > LEN_MAX / 2 {
            return reply(Err(CallError::Refused));
        }
        if self.generation() == 0 {
            return reply(Err(CallError::NotRunning));
        }
        let reply = Reply(Box::new(reply));
        let call = Command::Call { kind, text: text.into(), reply };
        if let Err(Command::Call { reply, .. }) = self.shared.command(call) {
            reply.give(Err(CallError::Refused));
        }
    }

    /// Asks it to finish what waits and to end; it is killed when that takes too long. Masters
    /// keep their links until it has ended.
    pub fn drain(&self) {
        if self.shared.command(Command::Drain).is_err() {
            self.stop();
        }
    }

    /// Kills it, for good.
    pub fn stop(&self) {
        // Never refused.
        let _ = self.shared.command(Command::Stop);
    }

    /// Waits until its state is one of these, for some time; gives the state.
    pub fn wait_for(&self, wanted: impl Fn(State) -> bool, at_most: Duration) -> State {
        self.shared.wait_for(wanted, at_most)
    }
}

/// Descriptors of a WELCOME besides those of links and Workers, at most: a wake-up line, a group's
/// region, an arena.
const OTHER_FDS: u32 = 3;

fn check_workers(spec: &FunctionSpec) -> Result<(), HostError> {
    let FunctionSpec { workers, links, sessions, .. } = *spec;
    let wrong = |why| Err(HostError::Argument { what: "WORKERS", why });
    if workers == 0 || workers > links {
        let why = format!("{workers} Workers; {links} threads reach the function: 1 to {links}");
        return wrong(why);
    }
    if workers == 1 {
        return Ok(());
    }
    if spec.order.machine.is_some() {
        return wrong("a virtual machine runs one Worker: leave WORKERS or VM out".into());
    }
    if workers + 2 * links + OTHER_FDS > FDS_MAX as u32 {
        let most = FDS_MAX as u32 - 2 * links - OTHER_FDS;
        return wrong(format!("{workers} Workers; with {links} threads there can be {most}"));
    }
    if !sessions.is_multiple_of(links) {
        let why = format!("{sessions} sessions cannot be shared out evenly to {links} threads");
        return wrong(why);
    }
    Ok(())
}

impl Drop for Function {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            // A panic there was told by the panic itself; the process died with the thread.
            let _ = thread.join();
        }
    }
}

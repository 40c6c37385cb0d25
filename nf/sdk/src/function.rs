//! What an author writes.

use std::time::Duration;

use thruway_nf_abi::features::Features;
use thruway_nf_abi::message::Welcome;

use crate::batch::Batch;
use crate::counters::Counter;
use crate::cx::{Cx, FunctionState};
use crate::host::Host;
use crate::session::Session;
use crate::timers::Timer;

/// A network function. A closure that takes a batch is one.
pub trait Function {
    /// Treats packets. What it does not look at goes on unchanged, by output 0.
    fn batch(&mut self, batch: &mut Batch<'_>);

    /// A session begins for this function, whose first packet comes next; its scratch is zeros.
    /// Called where [`Config::scratch_len`](crate::Config::scratch_len) is not 0 and the element
    /// has SESSION. After a restart it is not called for sessions that went on, whose scratch is
    /// as it was; it is called again for one whose first packets were lost with the process.
    fn new_session(&mut self, session: &mut Session<'_>) {
        let _ = session;
    }

    /// A session has ended, and all of its packets were here; its scratch can be read for the last
    /// time. Told again after a restart, if the process ended before the host knew that it was.
    fn released_session(&mut self, session: &mut Session<'_>) {
        let _ = session;
    }

    /// A timer went off.
    fn timer(&mut self, cx: &mut Cx<'_>, timer: Timer) {
        let _ = (cx, timer);
    }

    /// Someone reads a handler of this function. Called between two batches.
    ///
    /// # Errors
    /// A text for whoever asked.
    fn read(&mut self, handler: &str, parameter: &str) -> Result<String, String> {
        let _ = parameter;
        Err(format!("this function has no handler '{handler}' to read"))
    }

    /// Someone writes a handler of this function. Called between two batches.
    ///
    /// # Errors
    /// A text for whoever asked.
    fn write(&mut self, handler: &str, value: &str) -> Result<(), String> {
        let _ = value;
        Err(format!("this function has no handler '{handler}' to write"))
    }

    /// It is to end: all packets are treated. It may inject last ones.
    fn drain(&mut self, cx: &mut Cx<'_>) {
        let _ = cx;
    }
}

impl<F: FnMut(&mut Batch<'_>)> Function for F {
    #[inline]
    fn batch(&mut self, batch: &mut Batch<'_>) {
        self(batch);
    }
}

/// What a function can ask for while it is made.
pub struct Start<'a> {
    pub(crate) state: &'a mut FunctionState,
    pub(crate) host: &'a Host,
    pub(crate) problem: Option<String>,
}

impl Start<'_> {
    /// A counter that the host shows under this name: letters, digits, `_`, `-` and `.`, at most
    /// 40 bytes. With a wrong name, or more than 128 counters, the function does not start.
    pub fn counter(&mut self, name: &str) -> Counter {
        self.state.counters.name(name).unwrap_or_else(|problem| {
            self.problem.get_or_insert(problem);
            Counter::default()
        })
    }

    /// The output that leads to a role, such as `scrubber`: [`Verdict::Next`](crate::Verdict) of it
    /// sends a packet there. ROLES of the element names the roles; which instance has one is for
    /// the configuration to say, and may change while packets flow. Where the element does not have
    /// the role, the function does not start.
    pub fn role(&mut self, name: &str) -> u8 {
        self.find_role(name).unwrap_or_else(|| {
            if !self.welcome().features.contains(Features::ROLES) && self.roles().next().is_none() {
                self.problem.get_or_insert(format!(
                    "it sends to the role '{name}', and the Thruway that runs it knows no roles: \
                     run it with the Thruway that its library is from or a later one"
                ));
                return 0;
            }
            let known: Vec<&str> = self.roles().map(|(role, _)| role).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            self.problem.get_or_insert(format!(
                "it sends to the role '{name}', which its element does not have (it has: {known}); \
                 name the roles of its outputs there, in order: ROLES \"- {name}\""
            ));
            0
        })
    }

    /// The output that leads to a role, if the element has it.
    pub fn find_role(&self, name: &str) -> Option<u8> {
        self.roles().find(|(role, _)| *role == name).map(|(_, output)| output)
    }

    /// The roles of the element's outputs, each with its output.
    pub fn roles(&self) -> impl Iterator<Item = (&str, u8)> {
        self.host.roles.split('\n').zip(0..).filter(|(role, _)| !role.is_empty())
    }

    /// Sets a timer that goes off once.
    pub fn after(&mut self, duration: Duration) -> Timer {
        self.state.after(duration)
    }

    /// Unsets a timer. False when it was not set any more.
    pub fn cancel(&mut self, timer: Timer) -> bool {
        self.state.timers.cancel(timer)
    }

    /// Sets a timer that goes off every so often.
    pub fn every(&mut self, period: Duration) -> Timer {
        self.state.every(period)
    }

    /// What the host said of the element: inputs, outputs, sessions, and whether this is a new
    /// beginning after a failure (scratch then holds what it held).
    pub fn welcome(&self) -> &Welcome {
        &self.state.welcome
    }

    /// The text that the element's CONFIG gives. Waits for it: only for a function that cannot do
    /// without, because without CONFIG it never comes.
    ///
    /// # Errors
    /// When the host closes the control socket instead.
    pub fn configuration(&mut self) -> Result<String, String> {
        self.host.configuration()
    }

    /// The number of this Worker: 0 up to one less than [`workers`](Self::workers). 0 of a function
    /// that is one.
    pub fn worker(&self) -> u32 {
        self.state.worker
    }

    /// How many Workers the function is: WORKERS of its element, with
    /// [`run_workers`](crate::run_workers).
    pub fn workers(&self) -> u32 {
        self.welcome().workers
    }

    /// Nanoseconds of the system's monotonic clock.
    pub fn now_ns(&mut self) -> u64 {
        self.state.clock.now_ns()
    }
}

//! How a process waits to take the function's place, and takes it.

use std::time::Duration;

use thruway_nf_abi::message::Hello;

use super::Keeper;
use super::standby::{Remains, Standby};
use crate::error::HostError;
use crate::life::State;
use crate::line::{Handshake, Meaning};
use crate::process::Process;
use crate::wiring::Wiring;

/// From the end of a process that waited to the start of another one.
const AGAIN: Duration = Duration::from_secs(1);

impl Keeper {
    /// The one that waits, if it still does, with what was made for it; else one that is started
    /// now.
    pub(super) fn next_process(&mut self) -> Result<(Process, Option<(Hello, Wiring)>), HostError> {
        if let Some(mut standby) = self.standby.take()
            && matches!(standby.process.try_wait(), Ok(None))
        {
            return Ok((standby.process, standby.attached));
        }
        Ok((self.spawner.start()?, None))
    }

    /// Starts the one that is to wait, once the present one has begun its work.
    pub(super) fn keep_standby(&mut self) {
        let is_due = self.standby_at.is_some_and(|at| at <= self.now());
        if is_due && self.life.state() == State::Running {
            self.standby_at = None;
            self.spawner.begin();
        }
        if let Some(started) = self.spawner.started() {
            // Without one, the next process is started when it is needed.
            self.standby = started.ok().map(|process| Standby { process, attached: None });
        }
    }

    /// Takes in what the process that waits says: HELLO, and nothing else.
    pub(super) fn meet_standby(&mut self) {
        let Some(standby) = &mut self.standby else { return };
        let hello = match standby.process.socket().try_receive() {
            _ if standby.attached.is_some() => None,
            Ok(Some(message)) if message.fds.is_empty() => {
                match Handshake::default().on(message.head, &message.body) {
                    Ok(Meaning::Hello(hello)) => Some(hello),
                    _ => None,
                }
            }
            Ok(None) if matches!(standby.process.try_wait(), Ok(None)) => return,
            _ => None,
        };
        let wiring = hello.map(|hello| (hello, Wiring::new(&self.spec, &hello)));
        match wiring {
            Some((hello, Ok(wiring))) => standby.attached = Some((hello, wiring)),
            // It ended, is no partner, or there is no memory for two.
            _ => {
                self.standby = None;
                self.standby_at = Some(self.now() + AGAIN);
            }
        }
    }

    /// Where what is left of the last process waits to be let go of.
    pub(super) fn remains(&mut self) -> &mut Remains {
        self.remains.get_or_insert_default()
    }
}

//! What the function says at its control socket, and what it is answered.

use std::sync::Arc;
use std::time::Duration;

use thruway_exchange::socket::{Message, SocketError, head};
use thruway_nf_abi::features::Features;
use thruway_nf_abi::message::{Hello, Kind, Malformed};

use super::Keeper;
use crate::error::HostError;
use crate::life::Event;
use crate::line::{self, Handshake, Meaning};
use crate::wiring::{self, Wiring};

/// Longest time from the end of a process's socket to its own: on a busy host the kernel takes tens
/// of milliseconds to end one. The wait is over with the process.
const ENDS: Duration = Duration::from_millis(200);

/// Messages taken in a round.
const MESSAGES_A_ROUND: usize = 64;

impl Keeper {
    pub(super) fn messages(&mut self) {
        for _ in 0..MESSAGES_A_ROUND {
            let Some(process) = &self.process else { return };
            match process.socket().try_receive() {
                Ok(None) => return,
                Ok(Some(message)) => self.message(&message),
                Err(SocketError::Malformed(why @ Malformed::Version(_)))
                    if self.handshake == Handshake::AwaitsHello =>
                {
                    self.reject(HostError::Interface { why: why.to_string() });
                    self.process_events();
                }
                Err(SocketError::Malformed(why)) => {
                    self.refuse(&why.to_string());
                    self.broke(why.to_string());
                }
                Err(_) => return self.closed(),
            }
        }
    }

    /// The function closed its control socket. That of a process that ends is no fault; its
    /// descriptor tells.
    fn closed(&mut self) {
        let Some(process) = &mut self.process else { return };
        if matches!(process.wait(ENDS), Ok(None)) {
            self.broke("it closed its control socket".into());
        } else {
            self.bury();
            self.on(Event::Ended);
        }
    }

    fn message(&mut self, message: &Message) {
        if !message.fds.is_empty() {
            return self.broke("it sent descriptors, for which nobody asked".into());
        }
        match self.handshake.on(message.head, &message.body) {
            Ok(Meaning::Hello(hello)) => self.greet(&hello, None),
            Ok(Meaning::Ready) => self.on(Event::Attached),
            Ok(Meaning::Failed(why)) => {
                self.blame(HostError::CannotBegin { why });
                self.on(Event::Broke);
            }
            Ok(Meaning::Reply { id, answer }) => self.answered(id, answer),
            Err(why) => {
                self.refuse(&why);
                self.broke(why);
            }
        }
    }

    /// Answers a HELLO, with the regions that were made for it if there are any.
    pub(super) fn greet(&mut self, hello: &Hello, wiring: Option<Wiring>) {
        if let Err(error) = self.welcome(hello, wiring) {
            self.reject(error);
        }
    }

    /// A function that is honest, and cannot run here.
    fn reject(&mut self, error: HostError) {
        self.refuse(&error.to_string());
        self.blame(error);
        // Once the start is over that this may be part of.
        self.events.push_back(Event::Broke);
    }

    fn welcome(&mut self, hello: &Hello, wiring: Option<Wiring>) -> Result<(), HostError> {
        let name = line::plain(hello.name().as_bytes());
        if hello.outputs > self.spec.outputs {
            let (uses, has) = (hello.outputs, self.spec.outputs);
            let why = format!("it uses {uses} outputs, its element has {has}: OUTPUTS {uses}");
            return Err(HostError::Misfit { name, why });
        }
        let features = hello.offer.agree(Features::ALL);
        let features = features.map_err(|why| HostError::Interface { why: why.to_string() })?;
        if let Some(why) = line::misfit(self.spec.stream, hello.stream) {
            return Err(HostError::Misfit { name, why: why.into() });
        }
        if let Some(why) = line::too_many_workers(self.spec.workers, hello, features) {
            return Err(HostError::Misfit { name, why });
        }
        let Some(process) = &self.process else { return Ok(()) };
        let before = self.scratch.take();
        self.scratch = wiring::scratch(&self.spec, hello, before.clone())?;
        // It finds what it had only in the same arena.
        let same = match (&before, &self.scratch) {
            (Some((before, _)), Some((now, _))) => Arc::ptr_eq(before, now),
            (before, _) => before.is_none(),
        };
        let restarted = (self.life.generation() > 1 || before.is_some()) && same;
        let wiring = match wiring {
            Some(wiring) => wiring,
            None => Wiring::new(&self.spec, hello)?,
        };
        let arena = self.scratch.as_ref().map(|(arena, _)| &**arena);
        wiring.welcome(process.socket(), &self.spec, arena, (features, restarted))?;
        if let Some(text) = &self.spec.configuration {
            process.socket().try_send(head(Kind::Configure), text.as_bytes())?;
        }
        self.wiring = Some(wiring);
        self.shared.change(|status| {
            status.name = name;
            status.features = features;
        });
        Ok(())
    }

    /// Shows the function why it is not taken; it may not listen.
    fn refuse(&self, why: &str) {
        if let Some(process) = &self.process {
            let _ = process.socket().try_send(head(Kind::Refused), why.as_bytes());
        }
    }
}

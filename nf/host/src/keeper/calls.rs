//! Questions to the function, and their answers.

use thruway_nf_abi::message::{Head, Kind};

use super::{Asked, Keeper};
use crate::call::{CALL_TIMEOUT, CallError, Reply};
use crate::line::Handshake;

/// Questions that a function may have to answer at once.
const CALLS_MAX: usize = 64;

impl Keeper {
    /// Tells those whose question the function has not answered in time.
    pub(super) fn give_up_calls(&mut self) {
        let now = self.now();
        let late = self.calls.iter_mut().take_while(|asked| asked.until <= now);
        for reply in late.filter_map(|asked| asked.reply.take()) {
            reply.give(Err(CallError::NoAnswer));
        }
    }

    /// The function has answered.
    pub(super) fn answered(&mut self, id: u32, answer: Result<String, String>) {
        let at = self.calls.iter().position(|asked| asked.id == id);
        match at.and_then(|at| self.calls.remove(at)) {
            Some(Asked { reply: Some(reply), .. }) => {
                reply.give(answer.map_err(CallError::Answer));
            }
            // Too late.
            Some(_) => {}
            None => self.broke("it answered what was not asked".into()),
        }
    }

    /// The process is gone.
    pub(super) fn end_calls(&mut self) {
        for reply in self.calls.drain(..).filter_map(|asked| asked.reply) {
            reply.give(Err(CallError::NotRunning));
        }
    }

    pub(super) fn call(&mut self, kind: Kind, text: &str, reply: Reply) {
        let runs = self.handshake == Handshake::Done;
        let Some(process) = self.process.as_ref().filter(|_| runs) else {
            return reply.give(Err(CallError::NotRunning));
        };
        let id = self.next_call;
        let sent = self.calls.len() < CALLS_MAX
            && process.socket().try_send(Head::new(kind, id), text.as_bytes()).is_ok();
        if sent {
            if let Some(wiring) = &self.wiring {
                wiring.announce_request();
            }
            self.next_call = self.next_call.wrapping_add(1);
            let until = self.now() + CALL_TIMEOUT;
            self.calls.push_back(Asked { id, until, reply: Some(reply) });
        } else {
            reply.give(Err(CallError::Refused));
        }
    }
}

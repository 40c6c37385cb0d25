//! What is observed of a chain, and what happened to it, as others see it.

use std::sync::mpsc::Sender;
use std::time::SystemTime;

use parking_lot::Mutex;

use crate::{ChainStatus, Condition, ConditionKind, Event};

/// Longest message of a condition or event, bytes.
const MESSAGE_MAX: usize = 4096;

/// The status of one chain and the way to report its events.
#[derive(Debug)]
pub(super) struct Board {
    chain: String,
    status: Mutex<ChainStatus>,
    events: Sender<Event>,
}

impl Board {
    /// Of a chain of which nothing is known.
    pub(super) fn new(chain: &str, events: Sender<Event>) -> Board {
        Board { chain: chain.to_owned(), status: Mutex::default(), events }
    }

    /// The status now.
    pub(super) fn status(&self) -> ChainStatus {
        self.status.lock().clone()
    }

    /// Changes the status.
    pub(super) fn change(&self, change: impl FnOnce(&mut ChainStatus)) {
        change(&mut self.status.lock());
    }

    /// States a condition.
    pub(super) fn state(&self, kind: ConditionKind, holds: bool, reason: &str, message: &str) {
        let mut status = self.status.lock();
        let before = status.conditions.iter().position(|one| one.kind == kind);
        let since = before.map(|at| &status.conditions[at]).filter(|one| one.holds == holds);
        let since = since.map_or_else(SystemTime::now, |one| one.since);
        let (reason, message) = (reason.to_owned(), bounded(message));
        let condition = Condition { kind, holds, reason, message, since };
        match before {
            Some(at) => status.conditions[at] = condition,
            None => status.conditions.push(condition),
        }
    }

    /// States a condition, and reports it by an event where that is news: whoever follows events
    /// looks again then.
    pub(super) fn turn(&self, kind: ConditionKind, holds: bool, reason: &str, message: &str) {
        let same = |one: &Condition| one.kind == kind && one.holds == holds && one.reason == reason;
        let is_news = !self.status().conditions.iter().any(same);
        self.state(kind, holds, reason, message);
        if is_news {
            self.report(reason, message);
        }
    }

    /// Reports an event.
    pub(super) fn report(&self, reason: &str, message: &str) {
        let (chain, reason) = (self.chain.clone(), reason.to_owned());
        let event = Event { time: SystemTime::now(), chain, reason, message: bounded(message) };
        // Nobody may want to know any more.
        let _ = self.events.send(event);
    }
}

/// The end of a message that is too long: there stands what happened last.
fn bounded(message: &str) -> String {
    let mut start = message.len().saturating_sub(MESSAGE_MAX);
    while !message.is_char_boundary(start) {
        start += 1;
    }
    message[start..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_is_when_it_began_to_hold() {
        let board = Board::new("web", std::sync::mpsc::channel().0);
        let state = |holds, reason| {
            board.state(ConditionKind::Ready, holds, reason, &"\u{e9}".repeat(4096));
            board.status().conditions[0].clone()
        };
        let first = state(false, "Starting");
        let second = state(false, "CrashLoop");
        assert_eq!((second.since, &*second.reason), (first.since, "CrashLoop"));
        let third = state(true, "Started");
        assert!(third.since > first.since && third.message.len() <= MESSAGE_MAX);
        assert_eq!(board.status().conditions.len(), 1);
    }

    #[test]
    fn a_condition_that_turns_is_reported_once() {
        let (sender, events) = std::sync::mpsc::channel();
        let board = Board::new("web", sender);
        board.state(ConditionKind::Ready, false, "Starting", "");
        for (holds, reason) in [(true, "Answers"), (true, "Answers"), (false, "NoAnswer")] {
            board.turn(ConditionKind::Ready, holds, reason, "");
            // Who hears of it finds the condition stated.
            assert_eq!(board.status().conditions[0].reason, reason);
        }
        let reasons: Vec<String> = events.try_iter().map(|event| event.reason).collect();
        assert_eq!(reasons, ["Answers", "NoAnswer"]);
    }
}

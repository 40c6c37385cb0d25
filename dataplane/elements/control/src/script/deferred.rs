//! Answers of handlers that come later: the instruction that asks waits for them, the thread does
//! not.
//!
//! An instruction without all of its answers has no effect; it is done again, from its beginning,
//! when the answer is there, and finds it here instead of asking once more.

use thruway_element::{Answer, Cx, HandlerError, Later};

/// Token of the timer that looks for an answer.
pub(super) const ANSWER: u32 = 7;
/// Time between two looks, nanoseconds: about what a function takes to answer.
const LOOK_NS: i64 = 200_000;

/// Answers that the present instruction has requested but does not have yet.
#[derive(Default)]
pub(super) struct Deferred {
    asked: Vec<Asked>,
    /// The present pass over the instruction lacked an answer. This holds to the end of the pass,
    /// even if the answer comes earlier: the call that lacked it has had no effect.
    lacks: bool,
    /// Steps that came while it waited.
    steps: i64,
}

struct Asked {
    is_write: bool,
    call: String,
    later: Later,
    /// By the present pass over the instruction.
    is_used: bool,
}

impl Deferred {
    /// The instruction is done, or done again.
    pub fn begin(&mut self) {
        self.asked.iter_mut().for_each(|asked| asked.is_used = false);
        self.lacks = false;
    }

    /// Whether nothing was asked that the present instruction still needs.
    pub fn is_empty(&self) -> bool {
        self.asked.is_empty()
    }

    /// Whether an answer was missing in the present pass.
    pub fn awaits(&self) -> bool {
        self.lacks
    }

    /// The instruction has had its effect.
    pub fn clear(&mut self) {
        self.asked.clear();
    }

    /// Looks again soon; steps that are left are for then.
    pub fn rest(&mut self, cx: &mut Cx<'_>, steps: i64) {
        self.steps = self.steps.saturating_add(steps.max(0));
        cx.clear_timer(ANSWER);
        cx.set_timer(ANSWER, cx.now().saturating_add(LOOK_NS));
    }

    /// Steps that were left.
    pub fn take_steps(&mut self) -> i64 {
        std::mem::take(&mut self.steps)
    }

    /// Reads a handler.
    pub fn read(&mut self, cx: &mut Cx<'_>, call: &str) -> Answer {
        self.found(false, call).unwrap_or_else(|| {
            let answer = cx.read_handler(call);
            self.note(false, call, answer)
        })
    }

    /// Writes a handler.
    pub fn write(&mut self, cx: &mut Cx<'_>, path: &str, value: &str) -> Result<(), HandlerError> {
        let call = format!("{path} {value}");
        let done = self.found(true, &call).unwrap_or_else(|| {
            let done = cx.write_handler(path, value);
            self.note(true, &call, done.map(|()| String::new()))
        });
        done.map(drop)
    }

    /// The answer to what was asked before.
    fn found(&mut self, is_write: bool, call: &str) -> Option<Answer> {
        let same =
            |asked: &&mut Asked| !asked.is_used && asked.is_write == is_write && asked.call == call;
        let asked = self.asked.iter_mut().find(same)?;
        asked.is_used = true;
        let answer = asked.later.clone().or_later();
        self.lacks |= matches!(answer, Err(HandlerError::Later(_)));
        Some(answer)
    }

    fn note(&mut self, is_write: bool, call: &str, answer: Answer) -> Answer {
        if let Err(HandlerError::Later(later)) = &answer {
            let (call, later) = (call.to_owned(), later.clone());
            self.asked.push(Asked { is_write, call, later, is_used: true });
            self.lacks = true;
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use thruway_element::Promise;

    use super::*;

    #[test]
    fn an_answer_within_the_pass_that_lacked_it_is_for_the_next_pass() {
        let (promise, later) = Promise::new();
        let mut deferred = Deferred::default();
        deferred.begin();
        let answer = deferred.note(false, "f.count", Err(HandlerError::Later(later)));
        assert!(matches!(answer, Err(HandlerError::Later(_))));
        promise.keep(Ok("7".to_owned()));
        assert!(deferred.awaits(), "the instruction went without it");
        deferred.begin();
        assert_eq!(deferred.found(false, "f.count").expect("asked").expect("answered"), "7");
        assert!(!deferred.awaits());
    }
}

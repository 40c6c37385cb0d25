//! Answers of handlers that come later: from another process, say. No thread that moves packets
//! waits for them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Why a handler call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HandlerError {
    /// No element of that name.
    #[error("no element named '{0}'")]
    NoElement(String),
    /// The element has no such handler of that access.
    #[error("no {access} handler named '{name}'")]
    NoHandler {
        /// Handler name.
        name: String,
        /// `read` or `write`.
        access: &'static str,
    },
    /// The parameter or value was refused.
    #[error("{0}")]
    Refused(String),
    /// Its answer is not here yet: it comes from another process or thread. A thread that moves
    /// packets must not wait for it; others may ([`Later::wait`]).
    #[error("its answer is not here yet: ask again")]
    Later(Later),
}

impl HandlerError {
    /// There is no such read handler.
    pub fn no_read(name: &str) -> HandlerError {
        HandlerError::NoHandler { name: name.into(), access: "read" }
    }

    /// There is no such write handler.
    pub fn no_write(name: &str) -> HandlerError {
        HandlerError::NoHandler { name: name.into(), access: "write" }
    }

    /// The value was refused, with the reason.
    pub fn refused(why: impl Into<String>) -> HandlerError {
        HandlerError::Refused(why.into())
    }
}

/// What a handler answers.
pub type Answer = Result<String, HandlerError>;

/// What is done with an answer in the thread that has it.
type Then = Box<dyn FnOnce(&Answer) + Send>;

/// An answer that comes later. Clones are the same answer.
#[derive(Clone)]
pub struct Later(Arc<Slot>);

/// The obligation to give an answer. Dropped without one, it answers that there is none.
pub struct Promise(Arc<Slot>);

#[derive(Default)]
struct Slot {
    state: Mutex<CallState>,
    came: Condvar,
}

#[derive(Default)]
struct CallState {
    answer: Option<Answer>,
    then: Vec<Then>,
}

impl Slot {
    /// The first answer counts.
    fn answer(&self, answer: Answer) {
        let mut state = self.state.lock();
        if state.answer.is_some() {
            return;
        }
        state.answer = Some(answer.clone());
        let then = std::mem::take(&mut state.then);
        drop(state);
        self.came.notify_all();
        then.into_iter().for_each(|then| then(&answer));
    }
}

impl Promise {
    /// A promise, and the answer that it is about.
    pub fn new() -> (Promise, Later) {
        let slot = Arc::<Slot>::default();
        (Promise(Arc::clone(&slot)), Later(slot))
    }

    /// Gives the answer.
    pub fn keep(self, answer: Answer) {
        self.0.answer(answer);
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        if self.0.state.lock().answer.is_none() {
            self.0.answer(Err(HandlerError::refused("the one that was asked ended unanswered")));
        }
    }
}

impl Later {
    /// The answer, if it has come. Never waits.
    pub fn get(&self) -> Option<Answer> {
        self.0.state.lock().answer.clone()
    }

    /// The answer if it has come, else the error that carries it.
    ///
    /// # Errors
    /// The answer's, or [`HandlerError::Later`].
    pub fn or_later(self) -> Answer {
        self.get().unwrap_or(Err(HandlerError::Later(self)))
    }

    /// Waits for the answer, so not for a thread that moves packets. `None` when it did not come
    /// in this time.
    pub fn wait(&self, at_most: Duration) -> Option<Answer> {
        let mut state = self.0.state.lock();
        self.0.came.wait_while_for(&mut state, |state| state.answer.is_none(), at_most);
        state.answer.clone()
    }

    /// Has `then` called with the answer: at once if it is there, else by the thread that gives
    /// it.
    pub fn then(&self, then: impl FnOnce(&Answer) + Send + 'static) {
        let mut state = self.0.state.lock();
        match &state.answer {
            None => state.then.push(Box::new(then)),
            Some(answer) => {
                let answer = answer.clone();
                drop(state);
                then(&answer);
            }
        }
    }
}

impl fmt::Debug for Later {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Later").field(&self.get()).finish()
    }
}

/// The same answer, not one that reads the same.
impl PartialEq for Later {
    fn eq(&self, other: &Later) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Later {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn an_answer_is_given_once_and_reaches_all() {
        let (promise, later) = Promise::new();
        assert_eq!(later.wait(Duration::from_millis(1)), None);
        assert_eq!(later.clone().or_later(), Err(HandlerError::Later(later.clone())));
        let (sender, heard) = channel();
        let second = sender.clone();
        later.then(move |answer| sender.send(answer.clone()).unwrap());
        let waiter = later.clone();
        let waits = std::thread::spawn(move || waiter.wait(Duration::from_secs(60)));
        promise.keep(Ok("7".into()));
        later.then(move |answer| second.send(answer.clone()).unwrap());
        assert_eq!(waits.join().unwrap(), Some(Ok("7".into())));
        assert_eq!(heard.iter().collect::<Vec<_>>(), [Ok("7".into()), Ok("7".into())]);
        assert_eq!(later.or_later(), Ok("7".into()));
    }

    #[test]
    fn a_promise_that_is_given_up_is_an_error() {
        let (promise, later) = Promise::new();
        drop(promise);
        assert!(matches!(later.get(), Some(Err(HandlerError::Refused(_)))));
    }
}

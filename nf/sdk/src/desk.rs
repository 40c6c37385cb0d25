//! Who answers requests of the host on the control socket: the first Worker. Of a function that is
//! several it asks the others, too, and the last that answers sends what all of them said.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use thruway_exchange::socket::SocketError;
use thruway_exchange::{Control, Doorbell, ring};
use thruway_nf_abi::control::DRAIN;
use thruway_nf_abi::message::Kind;

use crate::function::Function;
use crate::host::Host;
use crate::requests;

/// An answer of a Worker: a text in either case.
pub(crate) type Answer = Result<String, String>;

/// A request to all Workers.
#[derive(Debug)]
pub(crate) struct Question {
    pub kind: Kind,
    pub id: u32,
    pub text: String,
    /// By Worker.
    answers: Mutex<Vec<Option<Answer>>>,
}

impl Question {
    pub fn new(kind: Kind, id: u32, text: String, workers: usize) -> Question {
        Question { kind, id, text, answers: Mutex::new(vec![None; workers]) }
    }

    /// Takes a Worker's answer in; what all of them say, if it is the last one.
    pub fn put(&self, worker: usize, answer: Answer) -> Option<Answer> {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        *answers.get_mut(worker)? = Some(answer);
        let all: Option<Vec<Answer>> = answers.iter().cloned().collect();
        Some(together(all?))
    }
}

/// One answer of those of all Workers: the one that all give, or each line with its Worker. If any
/// gives an error, the errors alone.
fn together(all: Vec<Answer>) -> Answer {
    if let Some((first, rest)) = all.split_first()
        && rest.iter().all(|other| other == first)
    {
        return first.clone();
    }
    let lines = |of: fn(&Answer) -> Option<&String>| {
        let texts = all.iter().enumerate().filter_map(|(worker, one)| Some((worker, of(one)?)));
        texts.fold(String::new(), |mut lines, (worker, text)| {
            for line in text.lines() {
                let _ = writeln!(lines, "worker {worker}: {line}");
            }
            lines
        })
    };
    match all.iter().any(Result::is_err) {
        true => Err(lines(|one| one.as_ref().err())),
        false => Ok(lines(|one| one.as_ref().ok())),
    }
}

/// Where a Worker beyond the first one finds requests.
pub(crate) struct Inbox {
    number: usize,
    control: Control,
    bell: Doorbell,
    waiting: Mutex<VecDeque<Arc<Question>>>,
}

impl Inbox {
    pub fn new(number: u32, control: Control) -> Inbox {
        let bell = Doorbell::new(control.clone(), None);
        Inbox { number: number as usize, control, bell, waiting: Mutex::default() }
    }

    fn ask(&self, question: Arc<Question>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push_back(question);
        // Under the lock: a Worker that sees the number finds the question.
        self.control.count_request();
        drop(waiting);
        ring(&self.bell);
    }

    fn next(&self) -> Option<Arc<Question>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Has its Worker finish what waits and end, as the host would.
    pub fn end(&self) {
        self.control.set_command(DRAIN);
        ring(&self.bell);
    }
}

/// What a Worker answers.
pub(crate) enum Desk<'a> {
    /// The host, together with the other Workers.
    First(&'a Host, &'a [Inbox]),
    /// The first Worker.
    Other(&'a Host, &'a Inbox),
}

impl Desk<'_> {
    /// Answers all requests that wait. False when the host has closed the socket.
    pub fn answer<F: Function>(&self, function: &mut F) -> Result<bool, SocketError> {
        match *self {
            Desk::First(host, []) => requests::each(&host.socket, |question| {
                Some(requests::of_function(function, question))
            }),
            Desk::First(host, others) => requests::each(&host.socket, |question| {
                let text = std::mem::take(&mut question.text);
                let all = Question::new(question.kind, question.id, text, others.len() + 1);
                let all = Arc::new(all);
                others.iter().for_each(|other| other.ask(Arc::clone(&all)));
                all.put(0, requests::of_function(function, &all))
            }),
            Desk::Other(host, inbox) => {
                while let Some(question) = inbox.next() {
                    let answer = requests::of_function(function, &question);
                    if let Some(all) = question.put(inbox.number, answer)
                        && !requests::reply(&host.socket, question.id, &all)?
                    {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(answers: &[Result<&str, &str>]) -> Answer {
        let own = |one: &Result<&str, &str>| (*one).map(str::to_owned).map_err(str::to_owned);
        let question = Question::new(Kind::Read, 1, String::new(), answers.len());
        let put = answers.iter().enumerate().map(|(nth, one)| question.put(nth, own(one)));
        let mut all: Vec<_> = put.collect();
        let last = all.pop().flatten();
        assert!(all.iter().all(Option::is_none), "not before the last one");
        last.expect("the last one completes it")
    }

    #[test]
    fn one_answer_stands_for_all_that_are_equal() {
        assert_eq!(said(&[Ok("5"), Ok("5"), Ok("5")]), Ok("5".into()));
        assert_eq!(said(&[Err("no"), Err("no")]), Err("no".into()));
        assert_eq!(said(&[Ok("")]), Ok(String::new()));
    }

    #[test]
    fn different_answers_name_their_workers() {
        let both = said(&[Ok("1\n2"), Ok("3")]);
        assert_eq!(both, Ok("worker 0: 1\nworker 0: 2\nworker 1: 3\n".into()));
        assert_eq!(said(&[Ok("1"), Err("no")]), Err("worker 1: no\n".into()));
    }

    #[test]
    fn a_question_is_found_by_who_sees_its_number() {
        let control = Control::create().unwrap();
        let inbox = Inbox::new(1, control.clone());
        assert!(inbox.next().is_none());
        inbox.ask(Arc::new(Question::new(Kind::Write, 7, "a b".into(), 2)));
        assert_eq!(control.requests(), 1);
        assert_eq!(inbox.next().map(|question| question.id), Some(7));
        assert!(inbox.next().is_none());
        inbox.end();
        assert_eq!(control.command(), DRAIN);
    }
}

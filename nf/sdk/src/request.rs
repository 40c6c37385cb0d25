//! A request of the host, and the answers of all Workers to it.

use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use thruway_nf_abi::message::Kind;

/// An answer of a Worker: a text in either case.
pub(crate) type Answer = Result<String, String>;

/// A request to all Workers.
#[derive(Debug)]
pub(crate) struct Request {
    pub kind: Kind,
    pub id: u32,
    pub text: String,
    /// By Worker.
    answers: Mutex<Vec<Option<Answer>>>,
}

impl Request {
    pub fn new(kind: Kind, id: u32, text: String, workers: usize) -> Request {
        Request { kind, id, text, answers: Mutex::new(vec![None; workers]) }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn together_of(answers: &[Result<&str, &str>]) -> Answer {
        let own = |one: &Result<&str, &str>| (*one).map(str::to_owned).map_err(str::to_owned);
        let request = Request::new(Kind::Read, 1, String::new(), answers.len());
        let put = answers.iter().enumerate().map(|(nth, one)| request.put(nth, own(one)));
        let mut all: Vec<_> = put.collect();
        let last = all.pop().flatten();
        assert!(all.iter().all(Option::is_none), "not before the last one");
        last.expect("the last one completes it")
    }

    #[test]
    fn one_answer_stands_for_all_that_are_equal() {
        assert_eq!(together_of(&[Ok("5"), Ok("5"), Ok("5")]), Ok("5".into()));
        assert_eq!(together_of(&[Err("no"), Err("no")]), Err("no".into()));
        assert_eq!(together_of(&[Ok("")]), Ok(String::new()));
    }

    #[test]
    fn different_answers_name_their_workers() {
        let both = together_of(&[Ok("1\n2"), Ok("3")]);
        assert_eq!(both, Ok("worker 0: 1\nworker 0: 2\nworker 1: 3\n".into()));
        assert_eq!(together_of(&[Ok("1"), Err("no")]), Err("worker 1: no\n".into()));
    }
}

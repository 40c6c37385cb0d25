//! Who answers requests of the host on the control socket: the first Worker. Of a function that is
//! several it asks the others, too, and the last that answers sends what all of them said.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use thruway_exchange::socket::SocketError;
use thruway_exchange::{Control, Doorbell, ring};
use thruway_nf_abi::control::DRAIN;

use crate::function::Function;
use crate::host::Host;
use crate::request::Request;
use crate::requests;

/// Where a Worker beyond the first one finds requests.
pub(crate) struct Inbox {
    number: usize,
    control: Control,
    bell: Doorbell,
    waiting: Mutex<VecDeque<Arc<Request>>>,
}

impl Inbox {
    pub fn new(number: u32, control: Control) -> Inbox {
        let bell = Doorbell::new(control.clone(), None);
        Inbox { number: number as usize, control, bell, waiting: Mutex::default() }
    }

    fn ask(&self, request: Arc<Request>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push_back(request);
        // Under the lock: a Worker that sees the number finds the request.
        self.control.count_request();
        drop(waiting);
        ring(&self.bell);
    }

    fn next(&self) -> Option<Arc<Request>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Has its Worker finish what waits and end, as the host would.
    pub fn end(&self) {
        self.control.set_command(DRAIN);
        ring(&self.bell);
    }
}

/// What a Worker answers.
pub(crate) enum Responder<'a> {
    /// The host, together with the other Workers.
    First(&'a Host, &'a [Inbox]),
    /// The first Worker.
    Other(&'a Host, &'a Inbox),
}

impl Responder<'_> {
    /// Answers all requests that wait. False when the host has closed the socket.
    pub fn answer<F: Function>(&self, function: &mut F) -> Result<bool, SocketError> {
        match *self {
            Responder::First(host, []) => requests::each(&host.socket, |request| {
                Some(requests::of_function(function, request))
            }),
            Responder::First(host, others) => requests::each(&host.socket, |request| {
                let text = std::mem::take(&mut request.text);
                let all = Request::new(request.kind, request.id, text, others.len() + 1);
                let all = Arc::new(all);
                others.iter().for_each(|other| other.ask(Arc::clone(&all)));
                all.put(0, requests::of_function(function, &all))
            }),
            Responder::Other(host, inbox) => {
                while let Some(request) = inbox.next() {
                    let answer = requests::of_function(function, &request);
                    if let Some(all) = request.put(inbox.number, answer)
                        && !requests::reply(&host.socket, request.id, &all)?
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
    use thruway_nf_abi::message::Kind;

    use super::*;

    #[test]
    fn a_request_is_found_by_who_sees_its_number() {
        let control = Control::create().unwrap();
        let inbox = Inbox::new(1, control.clone());
        assert!(inbox.next().is_none());
        inbox.ask(Arc::new(Request::new(Kind::Write, 7, "a b".into(), 2)));
        assert_eq!(control.requests(), 1);
        assert_eq!(inbox.next().map(|request| request.id), Some(7));
        assert!(inbox.next().is_none());
        inbox.end();
        assert_eq!(control.command(), DRAIN);
    }
}

//! Requests of the host on the control socket.

use rustix::io::Errno;
use thruway_exchange::socket::{Socket, SocketError};
use thruway_nf_abi::message::{Head, Kind, LEN_MAX};

use crate::function::Function;
use crate::request::{Answer, Request};

/// Takes all requests that wait, and sends the answers that `answer` gives at once. False when the
/// host has closed the socket.
pub(crate) fn each(
    socket: &Socket,
    mut answer: impl FnMut(&mut Request) -> Option<Answer>,
) -> Result<bool, SocketError> {
    loop {
        let message = match socket.try_receive() {
            Ok(Some(message)) => message,
            Ok(None) => return Ok(true),
            Err(SocketError::Closed) => return Ok(false),
            Err(error) => return Err(error),
        };
        let Head { kind: kind @ (Kind::Read | Kind::Write), id, .. } = message.head else {
            // Nothing else concerns a function that runs.
            continue;
        };
        let answer = answer(&mut Request::new(kind, id, message.text(), 1));
        if let Some(answer) = answer
            && !reply(socket, id, &answer)?
        {
            return Ok(false);
        }
    }
}

/// What a function says.
pub(crate) fn of_function<F: Function>(function: &mut F, request: &Request) -> Answer {
    let (handler, parameter) = split(&request.text);
    match request.kind {
        Kind::Write => function.write(handler, parameter).map(|()| String::new()),
        _ => function.read(handler, parameter),
    }
}

/// Handler and parameter.
fn split(text: &str) -> (&str, &str) {
    text.split_once(' ').unwrap_or((text, ""))
}

/// Sends an answer. False when the host has closed the socket.
pub(crate) fn reply(socket: &Socket, id: u32, answer: &Answer) -> Result<bool, SocketError> {
    let (kind, text) = match answer {
        Ok(text) => (Kind::Reply, text),
        Err(text) => (Kind::Error, text),
    };
    let mut len = text.len().min(LEN_MAX - Head::LEN);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    match socket.try_send(Head::new(kind, id), &text.as_bytes()[..len]) {
        // A host that does not read answers does not get them.
        Ok(()) | Err(SocketError::System(Errno::AGAIN)) => Ok(true),
        Err(SocketError::Closed) => Ok(false),
        Err(error) => Err(error),
    }
}

//! Requests of the host on the control socket.

use rustix::io::Errno;
use thruway_exchange::socket::{Socket, SocketError};
use thruway_nf_abi::message::{Head, Kind, LEN_MAX};

use crate::function::Function;

/// Answers all requests that wait. False when the host has closed the socket.
pub(crate) fn answer<F: Function>(socket: &Socket, function: &mut F) -> Result<bool, SocketError> {
    loop {
        let message = match socket.try_receive() {
            Ok(Some(message)) => message,
            Ok(None) => return Ok(true),
            Err(SocketError::Closed) => return Ok(false),
            Err(error) => return Err(error),
        };
        let answer = match message.head.kind {
            Kind::Read => {
                let text = message.text();
                let (handler, parameter) = split(&text);
                function.read(handler, parameter)
            }
            Kind::Write => {
                let text = message.text();
                let (handler, value) = split(&text);
                function.write(handler, value).map(|()| String::new())
            }
            // Nothing else concerns a function that runs.
            _ => continue,
        };
        match reply(socket, message.head.id, &answer) {
            // A host that does not read answers does not get them.
            Ok(()) | Err(SocketError::System(Errno::AGAIN)) => {}
            Err(SocketError::Closed) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}

/// Handler and parameter.
fn split(text: &str) -> (&str, &str) {
    text.split_once(' ').unwrap_or((text, ""))
}

fn reply(socket: &Socket, id: u32, answer: &Result<String, String>) -> Result<(), SocketError> {
    let (kind, text) = match answer {
        Ok(text) => (Kind::Reply, text),
        Err(text) => (Kind::Error, text),
    };
    let mut len = text.len().min(LEN_MAX - Head::LEN);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    socket.try_send(Head::new(kind, id), &text.as_bytes()[..len])
}

//! What all Workers of a function have of its host.

use std::sync::{Mutex, PoisonError};

use thruway_exchange::socket::Socket;
use thruway_exchange::{Attached, WorkerPart, receive_configuration};
use thruway_nf_abi::message::Welcome;

/// See the module.
pub(crate) struct Host {
    pub welcome: Welcome,
    /// By output, a line each.
    pub roles: String,
    pub socket: Socket,
    /// Once it has come.
    configuration: Mutex<Option<String>>,
}

impl Host {
    /// Of a function that has attached, with what is the first Worker's, and what each of the
    /// others has.
    pub fn of(attached: Attached) -> (Host, WorkerPart, Vec<WorkerPart>) {
        let Attached { welcome, roles, control, links, arena, others, socket, .. } = attached;
        let configuration = Mutex::new(attached.configuration);
        let first = WorkerPart { number: 0, control, links, arena };
        (Host { welcome, roles, socket, configuration }, first, others)
    }

    /// The text that the element's CONFIG gives; the first Worker that asks waits for it.
    pub fn configuration(&self) -> Result<String, String> {
        let mut known = self.configuration.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(text) = &*known {
            return Ok(text.clone());
        }
        let text = receive_configuration(&self.socket).map_err(|error| error.to_string())?;
        *known = Some(text.clone());
        Ok(text)
    }
}

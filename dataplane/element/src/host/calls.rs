//! Handler calls by elements.

use std::sync::Arc;

use crate::later::HandlerError;
use crate::outbox::Outbox;
use crate::outside::{Origin, Remote};

/// Calls of the router's handlers. By default, there are none.
pub trait Calls {
    /// Reads `[element.]handler [param]`, with names relative to `node`'s compound element; a bare
    /// handler name is one of the router's own.
    ///
    /// # Errors
    /// As [`HandlerError`].
    fn read(&mut self, out: &mut Outbox, node: u32, call: &str) -> Result<String, HandlerError> {
        let _ = (out, node);
        Err(HandlerError::no_read(call))
    }

    /// Writes `[element.]handler` likewise.
    ///
    /// # Errors
    /// As [`HandlerError`].
    fn write(
        &mut self,
        out: &mut Outbox,
        node: u32,
        call: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        let _ = (out, node, value);
        Err(HandlerError::no_write(call))
    }

    /// Writes a handler once the running element has returned, so that it may be this element's
    /// own or lead back to it.
    fn write_later(&mut self, node: u32, call: String, value: String) {
        let _ = (node, call, value);
    }

    /// Shows the user that the call which `call` describes failed, where that is known later only
    /// ([`HandlerError::Later`]) when it is.
    fn report(&mut self, call: String, error: HandlerError) {
        let _ = (call, error);
    }

    /// Origin of the handler call that is running; `None` outside of calls and for calls by the
    /// configuration itself.
    fn origin(&self) -> Origin {
        None
    }

    /// Sets the origin of the handler calls that follow; returns the previous one.
    fn set_origin(&mut self, origin: Origin) -> Origin {
        let _ = origin;
        None
    }

    /// The router's handlers for a thread that runs no elements, with names as seen from `node`.
    fn remote(&self, node: u32) -> Option<Arc<dyn Remote>> {
        let _ = node;
        None
    }
}

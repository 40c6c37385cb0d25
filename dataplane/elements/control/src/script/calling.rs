//! Handler calls that a script makes: their permissions, and the handler that a name refers to.

use thruway_element::{Cx, Handler, HandlerError};

use super::machine::{FAILED, Machine};
use super::parse::Quotes;
use thruway_elements_support::call::own_handler;

impl Machine {
    /// Makes a handler call: one that the script's own text spells out with the configuration's
    /// rights; one with variables in it with those of the caller from outside, where one gave the
    /// script values.
    pub(super) fn on_behalf<T>(
        &mut self,
        cx: &mut Cx<'_>,
        derived: bool,
        call: impl FnOnce(&mut Machine, &mut Cx<'_>) -> T,
    ) -> T {
        let origin = self.remote_entry.clone().filter(|_| derived);
        let before = cx.calls().set_origin(origin);
        let answer = call(self, cx);
        cx.calls().set_origin(before);
        answer
    }

    /// `write`: does what its text says, and notes how it went.
    pub(super) fn write(&mut self, cx: &mut Cx<'_>, text: &str, quotes: Quotes) {
        let (path, value) = self.call(cx, text, quotes);
        if self.deferred.awaits() {
            return;
        }
        let result =
            self.on_behalf(cx, text.contains('$'), |machine, cx| match own_handler(cx, &path) {
                Some(name) => machine.write_own(cx, name, &value),
                None => machine.deferred.write(cx, &path, &value),
            });
        match &result {
            Ok(()) => self.status = 0,
            Err(HandlerError::Refused(_)) => self.status = FAILED,
            // Nothing was called, so nothing has a status.
            Err(_) => {}
        }
        self.report(&path, "write", result);
    }

    /// Reads the handler that an instruction's text came to.
    pub(super) fn read_for(
        &mut self,
        cx: &mut Cx<'_>,
        text: &str,
        (path, param): (&str, &str),
    ) -> Result<String, HandlerError> {
        self.on_behalf(cx, text.contains('$'), |machine, cx| machine.read_path(cx, path, param))
    }

    /// Reads a handler, which may be this element's own.
    pub(super) fn read_path(
        &mut self,
        cx: &mut Cx<'_>,
        path: &str,
        param: &str,
    ) -> Result<String, HandlerError> {
        if self.deferred.awaits() {
            return Ok(String::new());
        }
        let bare = !path.contains('.');
        if bare && self.program.exports.iter().any(|export| export == path) {
            return self.read_own(cx, path, param);
        }
        match own_handler(cx, path) {
            Some(name) if Handler::OF_ALL.iter().all(|handler| handler.name != name) => {
                self.read_own(cx, name, param)
            }
            None if bare && Handler::OF_ALL.iter().any(|handler| handler.name == path) => {
                let path = format!("{}.{path}", cx.name());
                cx.read_handler(&path)
            }
            _ if param.is_empty() => self.deferred.read(cx, path),
            _ => self.deferred.read(cx, &format!("{path} {param}")),
        }
    }
}

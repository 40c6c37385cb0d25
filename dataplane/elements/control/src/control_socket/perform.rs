//! Execution of commands: the handler, the permission, and the answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use thruway_element::{Access, Handler, HandlerError, Outside, Pending, Progress, RemoteCall};

use super::protocol::{
    HANDLER_ERROR, NO_ELEMENT, NO_HANDLER, OK, PERMISSION, UNIMPLEMENTED, UNSPECIFIED, Verb,
    answer, data,
};
use crate::desk::Desk;

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often it is asked for where nothing says that it is there: the router may have ended.
const LOOK: Duration = Duration::from_millis(20);

/// The settings for the commands of all connections.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    pub outside: Arc<Outside>,
    /// Element that handler names without an element refer to.
    pub proxy: Option<String>,
}

/// A handler call in progress.
pub(super) struct Calling {
    verb: Verb,
    /// The handler as the client named it.
    name: String,
    call: RemoteCall,
    answer: Box<dyn Pending>,
    begun: Instant,
}

/// LLRPCs are not there.
pub(super) fn refuse_llrpc(out: &mut Vec<u8>, name: &str) {
    answer(out, UNIMPLEMENTED, &[&format!("Cannot call LLRPC '{name}' remotely")]);
}

impl Rules {
    /// Begins what a command asks for; `None` where the answer is there at once.
    pub(super) fn begin(
        &self,
        desk: &Desk,
        out: &mut Vec<u8>,
        verb: Verb,
        (name, text): (&str, String),
    ) -> Option<Calling> {
        let target = match Target::find(desk, self.proxy.as_deref(), name) {
            Ok(target) => target,
            Err((code, message)) => {
                answer(out, code, &[&message]);
                return None;
            }
        };
        if let Some((code, message)) = self.objection(verb, name, &target) {
            answer(out, code, &[&message]);
            return None;
        }
        let path = match (verb, target.spec) {
            (Verb::CheckRead | Verb::CheckWrite, Some(_)) => {
                allowed(out, verb, name);
                return None;
            }
            // The list that its owner gives.
            (Verb::CheckRead | Verb::CheckWrite, None) => match target.path.rsplit_once('.') {
                Some((owner, _)) => format!("{owner}.handlers"),
                None => "handlers".to_owned(),
            },
            _ => target.path,
        };
        let (write, outside) = (verb == Verb::Write, Arc::clone(&self.outside));
        let call = RemoteCall { path, text, write, outside };
        let answer = desk.remote.begin(&call, &desk.ready);
        let (name, begun) = (name.to_owned(), desk.now);
        let mut calling = Calling { verb, name, call, answer, begun };
        (!calling.go_on(desk, out)).then_some(calling)
    }

    /// Why a command is refused before anything is called.
    fn objection(&self, verb: Verb, name: &str, target: &Target) -> Option<(u16, String)> {
        let spec = target.spec;
        let readable = spec.is_none_or(|handler| handler.access.readable());
        let writable = spec.is_none_or(|handler| handler.access.writable());
        let effect = spec.is_some_and(|handler| handler.effect);
        let denied = || format!("Permission denied for '{name}'");
        match verb {
            Verb::Read if !readable => Some((PERMISSION, format!("Handler '{name}' write-only"))),
            Verb::Write if !writable => Some((PERMISSION, format!("Handler '{name}' read-only"))),
            Verb::CheckRead if !readable => {
                Some((NO_HANDLER, format!("Handler '{name}' not readable")))
            }
            Verb::CheckWrite if !writable => {
                Some((NO_HANDLER, format!("Handler '{name}' not writable")))
            }
            Verb::Write | Verb::CheckWrite if self.outside.read_only => {
                Some((PERMISSION, denied()))
            }
            Verb::Read | Verb::CheckRead if self.outside.read_only && effect => {
                Some((PERMISSION, denied()))
            }
            _ => None,
        }
    }
}

/// The answer to a check that finds no fault.
fn allowed(out: &mut Vec<u8>, verb: Verb, name: &str) {
    let how = if verb == Verb::CheckWrite { "Write" } else { "Read" };
    answer(out, OK, &[&format!("{how} handler '{name}' OK")]);
}

impl Calling {
    /// Looks how far it is; true once its answer is in `out`.
    pub(super) fn go_on(&mut self, desk: &Desk, out: &mut Vec<u8>) -> bool {
        match self.answer.poll() {
            Progress::Done(result) => {
                self.finish(out, result);
                true
            }
            _ if desk.now.saturating_duration_since(self.begun) >= PATIENCE => {
                let why = format!(
                    "no answer in {} s: a thread is busy, or the router is stopping",
                    PATIENCE.as_secs()
                );
                self.finish(out, Err(HandlerError::Refused(why)));
                true
            }
            Progress::Waiting => false,
            Progress::Gone => {
                // A hot swap: the next configuration answers.
                self.answer = desk.remote.begin(&self.call, &desk.ready);
                false
            }
        }
    }

    /// When to look again.
    pub(super) fn next_look(&self, now: Instant) -> Instant {
        now + LOOK
    }

    fn finish(&self, out: &mut Vec<u8>, result: Result<String, HandlerError>) {
        let name = &self.name;
        match (self.verb, result) {
            (Verb::CheckRead | Verb::CheckWrite, list) => self.check(out, list),
            (Verb::Read, Ok(text)) => {
                answer(out, OK, &[&format!("Read handler '{name}' OK")]);
                data(out, &text);
            }
            (_, Ok(_)) => answer(out, OK, &[&format!("Write handler '{name}' OK")]),
            (Verb::Read, Err(HandlerError::Refused(why))) => {
                answer(out, UNSPECIFIED, &[&format!("Read handler '{name}' error:"), &why]);
            }
            (_, Err(HandlerError::Refused(why))) => {
                answer(out, HANDLER_ERROR, &[&format!("Write handler '{name}' error:"), &why]);
            }
            (_, Err(HandlerError::NoElement(element))) => {
                answer(out, NO_ELEMENT, &[&format!("No element named '{element}'")]);
            }
            (_, Err(_)) => answer(out, NO_HANDLER, &[&format!("No handler named '{name}'")]),
        }
    }

    /// Answers a check by the list of the handler's owner.
    fn check(&self, out: &mut Vec<u8>, list: Result<String, HandlerError>) {
        let name = &self.name;
        let own = name.rsplit_once('.').map_or(name.as_str(), |(_, own)| own);
        let access = list.ok().and_then(|list| listed(&list, own));
        let write = self.verb == Verb::CheckWrite;
        match access {
            None => answer(out, NO_HANDLER, &[&format!("No handler named '{name}'")]),
            Some(access) if !(if write { access.writable() } else { access.readable() }) => {
                let how = if write { "writable" } else { "readable" };
                answer(out, NO_HANDLER, &[&format!("Handler '{name}' not {how}")]);
            }
            Some(_) => allowed(out, self.verb, name),
        }
    }
}

/// The access of a handler of a list.
fn listed(list: &str, name: &str) -> Option<Access> {
    let mut lines = list.lines().map(|line| line.split('\t'));
    let mut line = lines.find_map(|mut line| (line.next() == Some(name)).then_some(line))?;
    match line.next()? {
        "r" => Some(Access::Read),
        "w" => Some(Access::Write),
        _ => Some(Access::ReadWrite),
    }
}

/// The meaning of a handler name.
struct Target {
    /// For the engine.
    path: String,
    /// The declaration, where there is one.
    spec: Option<&'static Handler>,
}

impl Target {
    fn find(desk: &Desk, proxy: Option<&str>, name: &str) -> Result<Target, (u16, String)> {
        // `.x` and `0.x` are the router's own.
        let canonical = name.strip_prefix("0.").or(name.strip_prefix('.')).unwrap_or(name);
        let proxied = proxy.filter(|_| !canonical.contains('.'));
        let path = proxied.map_or(canonical.to_owned(), |proxy| format!("{proxy}.{canonical}"));
        let Some((element, handler)) = path.rsplit_once('.') else {
            return Ok(Target { path, spec: None });
        };
        let by_number = || element.parse::<u32>().ok()?.checked_sub(1);
        let found = desk.remote.find(element).or_else(by_number);
        let described = found.and_then(|found| Some((found, desk.remote.describe(found)?.0)));
        let Some((found, element)) = described else {
            return Err((NO_ELEMENT, format!("No element named '{element}'")));
        };
        let spec = desk.remote.spec(found).and_then(|spec| spec.handler(handler));
        if spec.is_some_and(|handler| handler.private) {
            return Err((NO_HANDLER, format!("No handler named '{name}'")));
        }
        Ok(Target { path: format!("{element}.{handler}"), spec })
    }
}

//! One connection, and what its commands do.

use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd};

use thruway_element::{Access, Answer, Catalog, Cx, Handler, HandlerError, Later};
use thruway_port::socket::Connection;

use super::protocol::{
    Command, GREETING, HANDLER_ERROR, HELP, Input, NO_ELEMENT, NO_HANDLER, OK, PERMISSION,
    UNIMPLEMENTED, UNSPECIFIED, Verb, answer, data,
};

/// Bytes read from a client at once.
const CHUNK: usize = 16 << 10;

/// What the commands of all connections obey.
pub(super) struct Rules {
    /// Nothing may be written.
    pub read_only: bool,
    /// Element whose handlers all names without an element mean.
    pub proxy: Option<String>,
    /// The handler `port` of the ControlSocket itself.
    pub port: String,
}

/// A client.
pub(super) struct Client {
    pub connection: Connection,
    input: Input,
    out: Vec<u8>,
    sent: usize,
    /// The client reads no more.
    gone: bool,
    /// What it sends ends a sleep of the thread.
    pub watched: bool,
    /// A command whose answer comes later: it waits, the thread does not.
    asked: Option<Asked>,
}

/// See [`Client`].
struct Asked {
    name: String,
    is_write: bool,
    later: Later,
}

/// What a connection wants next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// To be served again at once.
    Again,
    /// To be served when it can be read.
    Read,
    /// To be served a little later: its answers do not go out.
    Later,
    /// To be closed.
    Close,
}

impl Client {
    pub(super) fn new(connection: Connection) -> Client {
        let out = GREETING.as_bytes().to_vec();
        Client {
            connection,
            input: Input::new(),
            out,
            sent: 0,
            gone: false,
            watched: false,
            asked: None,
        }
    }

    /// The number that messages about it bear.
    pub(super) fn number(&self) -> i32 {
        self.connection.as_fd().as_raw_fd()
    }

    /// Lets what the client sends end a sleep of the thread, or not: who does not read answers is
    /// not to keep it awake. False when there is no descriptor for that.
    pub(super) fn watch(&mut self, cx: &mut Cx<'_>, on: bool) -> bool {
        if on && !self.watched {
            self.watched = cx.watch(&self.connection).is_ok();
        } else if !on && self.watched {
            cx.unwatch(&self.connection);
            self.watched = false;
        }
        self.watched == on
    }

    /// Sends answers, reads a little, does at most one command.
    pub(super) fn serve(&mut self, cx: &mut Cx<'_>, rules: &Rules) -> Next {
        self.flush();
        if let Some(asked) = self.asked.take() {
            match asked.later.get() {
                None => {
                    self.asked = Some(asked);
                    return if self.gone { Next::Close } else { Next::Later };
                }
                Some(answer) if asked.is_write => self.written(&asked.name, answer.map(drop)),
                Some(answer) => self.answered(&asked.name, answer),
            }
            self.flush();
        }
        if !self.gone && self.sent == self.out.len() {
            let mut command = self.input.next();
            if command.is_none() && self.receive() {
                command = self.input.next();
                if command.is_none() && !self.input.closed {
                    return Next::Again;
                }
            }
            if let Some(command) = command {
                self.perform(cx, rules, command);
                self.flush();
                return self.next(Next::Again);
            }
        }
        self.next(Next::Read)
    }

    fn next(&self, otherwise: Next) -> Next {
        if self.gone {
            Next::Close
        } else if self.asked.is_some() || self.sent < self.out.len() {
            Next::Later
        } else if self.input.closed && self.input.is_empty() {
            Next::Close
        } else {
            otherwise
        }
    }

    /// Sends what can be sent.
    pub(super) fn flush(&mut self) {
        while self.sent < self.out.len() && !self.gone {
            match self.connection.send(&[IoSlice::new(&self.out[self.sent..])]) {
                Ok(None) => return,
                Ok(Some(count)) if count > 0 => self.sent += count,
                Ok(Some(_)) | Err(_) => self.gone = true,
            }
        }
        self.out.clear();
        self.sent = 0;
    }

    /// Whether anything came, the end included.
    fn receive(&mut self) -> bool {
        if self.input.closed {
            return false;
        }
        let mut buffer = [0; CHUNK];
        match self.connection.receive(&mut buffer) {
            Ok(None) => return false,
            Ok(Some(count)) if count > 0 => self.input.push(&buffer[..count]),
            Ok(Some(_)) | Err(_) => self.input.closed = true,
        }
        true
    }

    fn perform(&mut self, cx: &mut Cx<'_>, rules: &Rules, command: Command) {
        match command {
            Command::Handler(Verb::Read, name, param) => self.read(cx, rules, &name, &param),
            Command::Handler(Verb::Write, name, value) => self.write(cx, rules, &name, &value),
            Command::Handler(Verb::CheckRead, name, _) => self.check(cx, rules, &name, false),
            Command::Handler(Verb::CheckWrite, name, _) => self.check(cx, rules, &name, true),
            Command::Handler(Verb::Llrpc, name, _) => {
                self.say(UNIMPLEMENTED, &format!("Cannot call LLRPC '{name}' remotely"));
            }
            Command::Help => answer(&mut self.out, OK, HELP),
            Command::Quit => {
                self.say(OK, "Goodbye!");
                self.input.close();
            }
            Command::Bad(code, message) => self.say(code, &message),
            Command::Fatal(code, message) => {
                self.say(code, message);
                self.input.close();
            }
        }
    }

    fn say(&mut self, code: u16, message: &str) {
        answer(&mut self.out, code, &[message]);
    }

    fn read(&mut self, cx: &mut Cx<'_>, rules: &Rules, name: &str, param: &str) {
        let target = match Target::find(cx, rules, name) {
            Ok(target) => target,
            Err((code, message)) => return self.say(code, &message),
        };
        if target.spec.is_some_and(|handler| !handler.access.readable()) {
            return self.say(PERMISSION, &format!("Handler '{name}' write-only"));
        }
        let result = match target.own {
            // The only own handler.
            true if target.path.ends_with(".port") => Ok(rules.port.clone()),
            _ if param.is_empty() => cx.read_handler(&target.path),
            _ => cx.read_handler(&format!("{} {param}", target.path)),
        };
        self.answered(name, result);
    }

    fn answered(&mut self, name: &str, result: Answer) {
        match result {
            Err(HandlerError::Later(later)) => {
                self.asked = Some(Asked { name: name.to_owned(), is_write: false, later });
            }
            Ok(text) => {
                self.say(OK, &format!("Read handler '{name}' OK"));
                data(&mut self.out, &text);
            }
            Err(HandlerError::Refused(why)) => {
                let message = format!("Read handler '{name}' error:");
                answer(&mut self.out, UNSPECIFIED, &[&message, &why]);
            }
            Err(error) => self.missing(name, &error),
        }
    }

    fn write(&mut self, cx: &mut Cx<'_>, rules: &Rules, name: &str, value: &str) {
        let target = match Target::find(cx, rules, name) {
            Ok(target) => target,
            Err((code, message)) => return self.say(code, &message),
        };
        if target.spec.is_some_and(|handler| !handler.access.writable()) {
            return self.say(PERMISSION, &format!("Handler '{name}' read-only"));
        }
        if rules.read_only {
            return self.say(PERMISSION, &format!("Permission denied for '{name}'"));
        }
        let done = cx.write_handler(&target.path, value);
        self.written(name, done);
    }

    fn written(&mut self, name: &str, done: Result<(), HandlerError>) {
        match done {
            Err(HandlerError::Later(later)) => {
                self.asked = Some(Asked { name: name.to_owned(), is_write: true, later });
            }
            Ok(()) => self.say(OK, &format!("Write handler '{name}' OK")),
            Err(HandlerError::Refused(why)) => {
                let message = format!("Write handler '{name}' error:");
                answer(&mut self.out, HANDLER_ERROR, &[&message, &why]);
            }
            Err(error) => self.missing(name, &error),
        }
    }

    fn missing(&mut self, name: &str, error: &HandlerError) {
        match error {
            HandlerError::NoElement(element) => {
                self.say(NO_ELEMENT, &format!("No element named '{element}'"));
            }
            _ => self.say(NO_HANDLER, &format!("No handler named '{name}'")),
        }
    }

    fn check(&mut self, cx: &mut Cx<'_>, rules: &Rules, name: &str, write: bool) {
        let target = match Target::find(cx, rules, name) {
            Ok(target) => target,
            Err((code, message)) => return self.say(code, &message),
        };
        let access = match target.spec {
            Some(handler) => Some(handler.access),
            None => listed(cx, &target.path),
        };
        let allowed = |access: Access| if write { access.writable() } else { access.readable() };
        match access {
            None => self.say(NO_HANDLER, &format!("No handler named '{name}'")),
            Some(access) if !allowed(access) => {
                let how = if write { "writable" } else { "readable" };
                self.say(NO_HANDLER, &format!("Handler '{name}' not {how}"));
            }
            Some(_) if write && rules.read_only => {
                self.say(PERMISSION, &format!("Permission denied for '{name}'"));
            }
            Some(_) => {
                let how = if write { "Write" } else { "Read" };
                self.say(OK, &format!("{how} handler '{name}' OK"));
            }
        }
    }
}

/// What a handler name means.
struct Target {
    /// For the engine.
    path: String,
    /// The declaration, where there is one.
    spec: Option<&'static Handler>,
    /// It is of the ControlSocket itself.
    own: bool,
}

impl Target {
    fn find(cx: &mut Cx<'_>, rules: &Rules, name: &str) -> Result<Target, (u16, String)> {
        // `.x` and `0.x` are the router's own.
        let canonical = name.strip_prefix("0.").or(name.strip_prefix('.')).unwrap_or(name);
        let proxied = rules.proxy.as_ref().filter(|_| !canonical.contains('.'));
        let path = proxied.map_or(canonical.to_owned(), |proxy| format!("{proxy}.{canonical}"));
        let Some((element, handler)) = path.rsplit_once('.') else {
            return Ok(Target { path, spec: None, own: false });
        };
        let node = cx.node();
        let by_number = || element.parse::<u32>().ok()?.checked_sub(1);
        let found = cx.host().find(node, element).or_else(by_number);
        let described = found.and_then(|found| Some((found, cx.host().describe(found)?)));
        let Some((found, (element, class))) = described else {
            return Err((NO_ELEMENT, format!("No element named '{element}'")));
        };
        let spec = crate::CATALOG.spec(class).and_then(|spec| spec.handler(handler));
        if spec.is_some_and(|handler| handler.private) {
            return Err((NO_HANDLER, format!("No handler named '{name}'")));
        }
        Ok(Target { path: format!("{element}.{handler}"), spec, own: found == node })
    }
}

/// The access of a handler that no spec declares, from the list that its owner gives.
fn listed(cx: &mut Cx<'_>, path: &str) -> Option<Access> {
    let (owner, name) = path.rsplit_once('.').unwrap_or(("", path));
    let list = if owner.is_empty() { "handlers".to_owned() } else { format!("{owner}.handlers") };
    let text = cx.read_handler(&list).ok()?;
    let line = text.lines().find(|line| line.split('\t').next() == Some(name))?;
    match line.split('\t').nth(1)? {
        "r" => Some(Access::Read),
        "w" => Some(Access::Write),
        _ => Some(Access::ReadWrite),
    }
}

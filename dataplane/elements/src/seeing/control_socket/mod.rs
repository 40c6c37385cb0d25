//! ControlSocket: lets other programs use handlers, over TCP or a Unix socket.

mod net;
mod protocol;
mod serve;

use std::any::Any;
use std::path::PathBuf;

use thruway_element::{
    Arg, ArgError, ArgErrors, Args, Cx, Element, Entry, Handler, HandlerError, Run, Spec, Topic, Ty,
};

use self::net::{Listener, Place};
use self::serve::{Connection, Next, Rules};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "ControlSocket",
        topic: Topic::Seeing,
        summary: "lets other programs read and write handlers",
        docs: "Listens on a TCP port (`PORT+`: that one or one of the next ten) or a Unix socket and \
               speaks Click's ControlSocket protocol, version 1.3: READ, READDATA, READUNTIL, WRITE, \
               WRITEDATA, WRITEUNTIL, CHECKREAD, CHECKWRITE, HELP, QUIT. LLRPC is refused: there are \
               none. Whoever can connect can use every handler, so TCP is open to this host alone \
               unless LOCALHOST is false (Click's default); READONLY forbids writing. Lines may have \
               64 KiB and data 4 MiB; there are at most 64 connections; a client that does not read \
               its answers is not served until it does. One command of each connection is done at a \
               time, and packets move in between.",
        example: "ControlSocket(TCP, 7777); Idle -> c :: Counter -> Discard",
        ports: "0/0",
        processing: "a/a",
        args: &[
            Arg::required("TYPE", Ty::Choice(&["TCP", "UNIX"]), "kind of socket"),
            Arg::required("PORT", Ty::Any, "TCP port or file name"),
            Arg::keyword("FILENAME", Ty::File, "the same, for a Unix socket"),
            Arg::keyword("READONLY", Ty::Bool, "whether write handlers are refused").or("false"),
            Arg::keyword("PROXY", Ty::Element, "element that bare handler names belong to"),
            Arg::keyword("VERBOSE", Ty::Bool, "whether connections are told of").or("false"),
            Arg::keyword("LOCALHOST", Ty::Bool, "whether only this host may connect").or("true"),
            Arg::keyword("RETRIES", Ty::Int, "how often to try again to listen, every second")
                .or("0"),
            Arg::keyword("RETRY_WARNINGS", Ty::Bool, "whether that is told").or("true"),
        ],
        handlers: &[Handler::read("port", "the TCP port, or the file name")],
        task: true,
        ..Spec::DEFAULT
    },
    build,
);

/// Connections at a time.
const CONNECTIONS_MAX: usize = 64;
/// Timer: try again to listen.
const RETRY: u32 = 0;
/// Nanoseconds between tries to listen.
const RETRY_PAUSE: i64 = 1_000_000_000;
/// Nanoseconds until answers that did not go out are tried again.
const SEND_PAUSE: i64 = 5_000_000;
/// Nanoseconds, or else runs of the task, between looks at sockets on which nothing happens.
const LOOK_PAUSE: i64 = 1_000_000;
const LOOK_RUNS: u32 = 1_024;
/// Longest name of a Unix socket that the kernel takes, bytes.
const PATH_MAX: usize = 107;

struct ControlSocket {
    place: Place,
    rules: Rules,
    verbose: bool,
    retries: i32,
    retry_warnings: bool,
    listener: Option<Listener>,
    connections: Vec<Connection>,
    /// When the sockets are looked at again, and runs since they were.
    next_look: i64,
    skipped: u32,
}

/// What survives a hot swap.
struct Sockets {
    place: Place,
    listener: Option<Listener>,
    connections: Vec<Connection>,
}

fn place(args: &Args<'_>) -> Result<Place, ArgError> {
    let kind: String = args.get("TYPE")?;
    match kind.to_ascii_uppercase().as_str() {
        "TCP" => {
            let text: String = args.get("PORT")?;
            let (port, next) = text.strip_suffix('+').map_or((&*text, false), |port| (port, true));
            let port = args.parse(port).map_err(|why| args.error("PORT", why))?;
            Ok(Place::Tcp { port, next, local: args.get("LOCALHOST")? })
        }
        "UNIX" => {
            let name: String = args.get("PORT")?;
            if name.len() > PATH_MAX {
                return Err(args.error("PORT", format!("a file name of at most {PATH_MAX} bytes")));
            }
            Ok(Place::Unix(PathBuf::from(name)))
        }
        _ => {
            Err(args.error("TYPE", format!("'{kind}' is not a kind of socket; write TCP or UNIX")))
        }
    }
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    Ok(Box::new(ControlSocket {
        place: place(args)?,
        rules: Rules {
            read_only: args.get("READONLY")?,
            proxy: args.opt("PROXY")?,
            port: String::new(),
        },
        verbose: args.get("VERBOSE")?,
        retries: args.get("RETRIES")?,
        retry_warnings: args.get("RETRY_WARNINGS")?,
        listener: None,
        connections: Vec::new(),
        next_look: 0,
        skipped: 0,
    }))
}

impl ControlSocket {
    fn listen(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let listener = match self.listener.take() {
            // Handed over by a predecessor.
            Some(listener) => listener,
            None => Listener::bind(&self.place)?,
        };
        cx.watch(&listener).map_err(|error| error.to_string())?;
        self.rules.port = match (listener.port(), &self.place) {
            (Some(port), _) => port.to_string(),
            (None, Place::Unix(path)) => path.display().to_string(),
            (None, Place::Tcp { port, .. }) => port.to_string(),
        };
        self.listener = Some(listener);
        Ok(())
    }

    /// Listens, or says when that is tried again.
    fn try_listen(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let Err(error) = self.listen(cx) else { return Ok(()) };
        if self.retries <= 0 {
            return Err(error);
        }
        if self.retry_warnings {
            let tries = if self.retries == 1 { "try" } else { "tries" };
            let line = format!("{}: {error} ({} {tries} left)", declaration(cx), self.retries);
            cx.chatter(&line);
        }
        self.retries -= 1;
        cx.set_timer(RETRY, cx.now().saturating_add(RETRY_PAUSE));
        Ok(())
    }

    /// Whether it is time to look at the sockets: each look costs system calls, and this task runs
    /// between packets. Simulated time may stand still, so runs count too.
    fn looks(&mut self, now: i64) -> bool {
        self.skipped += 1;
        let looks = now >= self.next_look || self.skipped >= LOOK_RUNS;
        if looks {
            (self.next_look, self.skipped) = (now.saturating_add(LOOK_PAUSE), 0);
        }
        looks
    }

    /// Takes one waiting connection.
    fn accept(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some(listener) = &self.listener else { return false };
        let (stream, peer) = match listener.accept() {
            Ok(Some(accepted)) => accepted,
            Ok(None) => return false,
            Err(error) => {
                let line = format!("{}: accept: {error}", declaration(cx));
                cx.chatter(&line);
                return false;
            }
        };
        // Closed at once where there are too many, or no descriptors.
        let mut connection = Connection::new(stream);
        if self.connections.len() < CONNECTIONS_MAX && connection.watch(cx, true) {
            if self.verbose {
                let number = connection.number();
                let line = format!("{}: opened connection {number}{peer}", declaration(cx));
                cx.chatter(&line);
            }
            self.connections.push(connection);
        }
        true
    }

    fn close(&mut self, cx: &mut Cx<'_>, at: usize) {
        let connection = self.connections.swap_remove(at);
        cx.unwatch(&connection.stream);
        if self.verbose {
            let line = format!("{}: closed connection {}", declaration(cx), connection.number());
            cx.chatter(&line);
        }
    }
}

fn declaration(cx: &mut Cx<'_>) -> String {
    let node = cx.node();
    cx.host().describe(node).map_or(String::new(), |(name, class)| format!("{name} :: {class}"))
}

impl Element for ControlSocket {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if let Some(proxy) = &self.rules.proxy {
            let node = cx.node();
            if cx.host().find(node, proxy).is_none() {
                return Err(format!("PROXY: no element named '{proxy}'"));
            }
        }
        for connection in &mut self.connections {
            // Handed over: the predecessor's engine watched it.
            connection.watched = false;
            connection.watch(cx, true);
        }
        self.try_listen(cx)
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        if self.listener.is_none()
            && let Err(error) = self.try_listen(cx)
        {
            let line = format!("{}: {error}", declaration(cx));
            cx.chatter(&line);
            cx.stop();
        }
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        if !self.looks(cx.now()) {
            return Run::Idle;
        }
        let mut again = self.accept(cx);
        let mut later = false;
        let mut at = 0;
        while let Some(connection) = self.connections.get_mut(at) {
            let next = connection.serve(cx, &self.rules);
            if next == Next::Close || !connection.watch(cx, next != Next::Later) {
                self.close(cx, at);
                continue;
            }
            again |= next == Next::Again;
            later |= next == Next::Later;
            at += 1;
        }
        match (again, later) {
            (true, _) => {
                self.next_look = cx.now();
                Run::Again
            }
            (false, true) => Run::At(cx.now().saturating_add(SEND_PAUSE)),
            (false, false) => Run::Idle,
        }
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, HandlerError> {
        match name {
            "port" => Ok(self.rules.port.clone()),
            _ => Err(HandlerError::no_read(name)),
        }
    }

    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new(Sockets {
            place: self.place.clone(),
            listener: self.listener.take(),
            connections: std::mem::take(&mut self.connections),
        }))
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        let Ok(sockets) = state.downcast::<Sockets>() else { return };
        if sockets.place == self.place {
            (self.listener, self.connections) = (sockets.listener, sockets.connections);
        }
    }

    fn finish(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        for connection in &mut self.connections {
            connection.flush();
        }
        self.connections.clear();
        match (self.listener.take(), &self.place) {
            (Some(Listener::Unix(_)), Place::Unix(path)) => std::fs::remove_file(path)
                .map_err(|error| format!("{}: cannot remove: {error}", path.display())),
            _ => Ok(()),
        }
    }
}

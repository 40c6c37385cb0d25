//! ControlSocket: lets other programs use handlers, over TCP or a Unix socket.

mod protocol;
mod serve;

use std::any::Any;

use thruway_element::{
    Arg, ArgErrors, Args, Cx, Element, Entry, Handler, HandlerError, NOTHING_MORE, Replicas, Run,
    Spec, Topic, Ty,
};

use self::serve::{Client, Next, Rules};
use super::door::{self, Door, Left, SEND_PAUSE};
use crate::telling::say;

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
            door::TYPE,
            door::PORT,
            door::FILENAME,
            Arg::keyword("READONLY", Ty::Bool, "whether write handlers are refused").or("false"),
            Arg::keyword("PROXY", Ty::Element, "element that bare handler names belong to"),
            Arg::keyword("VERBOSE", Ty::Bool, "whether connections are told of").or("false"),
            door::LOCALHOST,
            door::RETRIES,
            door::RETRY_WARNINGS,
        ],
        handlers: &[Handler::read("port", "the TCP port, or the file name")],
        task: true,
        cost: NOTHING_MORE,
        replicas: Replicas::Single,
        ..Spec::DEFAULT
    },
    build,
);

struct ControlSocket {
    door: Door,
    rules: Rules,
    verbose: bool,
    clients: Vec<Client>,
}

/// What survives a hot swap.
struct Handed {
    door: Left,
    clients: Vec<Client>,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    Ok(Box::new(ControlSocket {
        door: Door::of(args)?,
        rules: Rules {
            read_only: args.get("READONLY")?,
            proxy: args.opt("PROXY")?,
            port: String::new(),
        },
        verbose: args.get("VERBOSE")?,
        clients: Vec::new(),
    }))
}

impl ControlSocket {
    /// Takes one waiting connection; says whether there was one.
    fn accept(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some((connection, from)) = self.door.accept(cx) else { return false };
        let mut client = Client::new(connection);
        // Closed at once where there are too many, or no descriptors.
        if self.clients.len() < door::CONNECTIONS_MAX && client.watch(cx, true) {
            if self.verbose {
                say(cx, &format!("opened connection {}{from}", client.number()));
            }
            self.clients.push(client);
        }
        true
    }

    fn close(&mut self, cx: &mut Cx<'_>, at: usize) {
        let client = self.clients.swap_remove(at);
        cx.unwatch(&client.connection);
        if self.verbose {
            say(cx, &format!("closed connection {}", client.number()));
        }
    }
}

impl Element for ControlSocket {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if let Some(proxy) = &self.rules.proxy {
            let node = cx.node();
            if cx.host().find(node, proxy).is_none() {
                return Err(format!("PROXY: no element named '{proxy}'"));
            }
        }
        for client in &mut self.clients {
            // Handed over: the predecessor's engine watched it.
            client.watched = false;
            client.watch(cx, true);
        }
        self.door.open(cx)?;
        self.rules.port = self.door.name();
        Ok(())
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        self.door.retry(cx);
        self.rules.port = self.door.name();
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        if !self.door.looks(cx.now()) {
            return Run::Idle;
        }
        let mut again = self.accept(cx);
        let mut later = false;
        let mut at = 0;
        while let Some(client) = self.clients.get_mut(at) {
            let next = client.serve(cx, &self.rules);
            if next == Next::Close || !client.watch(cx, next != Next::Later) {
                self.close(cx, at);
                continue;
            }
            again |= next == Next::Again;
            later |= next == Next::Later;
            at += 1;
        }
        match (again, later) {
            (true, _) => {
                self.door.look_again();
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
        let clients = std::mem::take(&mut self.clients);
        Some(Box::new(Handed { door: self.door.leave(), clients }))
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        let Ok(handed) = state.downcast::<Handed>() else { return };
        if self.door.take(handed.door) {
            self.clients = handed.clients;
        }
    }

    fn finish(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        for client in &mut self.clients {
            client.flush();
        }
        self.clients.clear();
        self.door.close()
    }
}

//! ChatterSocket: sends what the configuration says to whoever connects.

mod log;

use std::any::Any;
use std::io::IoSlice;
use std::sync::Arc;

use thruway_element::{
    Arg, ArgErrors, Args, Cx, Element, Entry, Handler, HandlerError, NOTHING_MORE, Replicas, Run,
    Spec, Topic, Ty,
};
use thruway_port::socket::Connection;

use self::log::{BACKLOG_MAX, Log};
use super::door::{self, Door, Left, SEND_PAUSE};

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "ChatterSocket",
        topic: Topic::Seeing,
        summary: "sends the lines that elements write for the user to whoever connects",
        docs: "Listens on a TCP port (`PORT+`: that one or one of the next ten) or a Unix socket. \
               Who connects gets the line Click::ChatterSocket/1.0 (unless GREETING is false) and \
               then a copy of every line that elements write to standard error: of Print and its \
               like, and warnings. What clients send is not read.\n\
               A client that is 500,000 bytes behind is closed; there are at most 64. TCP is open \
               to this host alone unless LOCALHOST is false (Click's default). All lines belong to \
               the default channel: with another CHANNEL clients get the greeting only. \
               QUIET_CHANNEL is accepted. When a configuration replaces another while packets flow, \
               clients stay, if the element's name and its socket are the same.",
        example: "ChatterSocket(UNIX, /tmp/clicksocket); \
                  InfiniteSource(LIMIT 3) -> Print(seen) -> Discard",
        ports: "0/0",
        processing: "a/a",
        args: &[
            door::TYPE,
            door::PORT,
            door::FILENAME,
            Arg::keyword("CHANNEL", Ty::Str, "channel of the lines").or("default"),
            Arg::keyword("QUIET_CHANNEL", Ty::Bool, "accepted").or("true"),
            Arg::keyword("GREETING", Ty::Bool, "whether clients are greeted").or("true"),
            door::LOCALHOST,
            door::RETRIES,
            door::RETRY_WARNINGS,
        ],
        handlers: &[
            Handler::read("port", "the TCP port, or the file name"),
            Handler::read("clients", "clients that are connected"),
        ],
        task: true,
        cost: NOTHING_MORE,
        replicas: Replicas::Single,
        ..Spec::DEFAULT
    },
    build,
);

const GREETING: &[u8] = b"Click::ChatterSocket/1.0\r\n";
/// Bytes given to a client at once.
const CHUNK: usize = 16 << 10;

struct Client {
    connection: Connection,
    greeting: &'static [u8],
    /// Where in the log it is.
    position: u64,
}

/// How a client stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It has all there is.
    Served,
    /// It takes no more now.
    Behind,
    /// It is gone, or too far behind.
    Lost,
}

impl Client {
    /// Sends it what it takes, of the greeting and the log.
    fn serve(&mut self, log: &Log, chunk: &mut Vec<u8>) -> State {
        // Once through the longest backlog: a client that keeps pace is no reason to stay.
        for _ in 0..=BACKLOG_MAX / CHUNK {
            let bytes = match self.greeting {
                [] => {
                    if !log.copy(self.position, CHUNK, chunk) {
                        return State::Lost;
                    }
                    &*chunk
                }
                greeting => greeting,
            };
            if bytes.is_empty() {
                return State::Served;
            }
            match self.connection.send(&[IoSlice::new(bytes)]) {
                Ok(Some(0)) | Err(_) => return State::Lost,
                Ok(None) => return State::Behind,
                Ok(Some(count)) if self.greeting.is_empty() => self.position += count as u64,
                Ok(Some(count)) => self.greeting = self.greeting.get(count..).unwrap_or(&[]),
            }
        }
        State::Behind
    }

    /// Whether it has closed its end.
    fn is_gone(&self, chunk: &mut Vec<u8>) -> bool {
        chunk.resize(CHUNK, 0);
        matches!(self.connection.receive(chunk), Ok(Some(0)) | Err(_))
    }
}

struct ChatterSocket {
    door: Door,
    greets: bool,
    /// Whether the channel is the one that lines are written to.
    hears: bool,
    log: Arc<Log>,
    clients: Vec<Client>,
    chunk: Vec<u8>,
}

/// What survives a hot swap.
struct Handed {
    door: Left,
    log: Arc<Log>,
    clients: Vec<Client>,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let channel: String = args.get("CHANNEL")?;
    let log = Log::new().map_err(|error| ArgErrors::whole(format!("no event counter: {error}")))?;
    Ok(Box::new(ChatterSocket {
        door: Door::of(args)?,
        greets: args.get("GREETING")?,
        hears: matches!(channel.as_str(), "" | "default"),
        log: Arc::new(log),
        clients: Vec::new(),
        chunk: Vec::with_capacity(CHUNK),
    }))
}

impl ChatterSocket {
    /// Takes one waiting client; says whether there was one.
    fn accept(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some((connection, _)) = self.door.accept(cx) else { return false };
        // Nothing else tells of clients that left while nothing was said.
        self.clients.retain(|client| !client.is_gone(&mut self.chunk));
        // Closed at once where there are too many.
        if self.clients.len() < door::CONNECTIONS_MAX {
            let greeting = if self.greets { GREETING } else { &[] };
            self.clients.push(Client { connection, greeting, position: self.log.end() });
        }
        self.log.set_wanted(!self.clients.is_empty());
        true
    }

    /// Serves all clients; says whether some are behind.
    fn serve(&mut self) -> bool {
        self.log.clear_news();
        let mut behind = false;
        self.clients.retain_mut(|client| {
            let state = client.serve(&self.log, &mut self.chunk);
            behind |= state == State::Behind;
            state != State::Lost
        });
        self.log.set_wanted(!self.clients.is_empty());
        behind
    }
}

impl Element for ChatterSocket {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.watch(self.log.waker()).map_err(|error| error.to_string())?;
        if self.hears {
            let log = Arc::clone(&self.log);
            cx.host().hear(Arc::new(move |line| log.add(line)));
        }
        self.door.open(cx)
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        self.door.retry(cx);
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Run {
        if !self.door.looks(cx.now()) && !self.log.has_news() {
            return Run::Idle;
        }
        let accepted = self.accept(cx);
        let behind = self.serve();
        if accepted {
            self.door.look_again();
            return Run::Again;
        }
        if behind { Run::At(cx.now().saturating_add(SEND_PAUSE)) } else { Run::Idle }
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, HandlerError> {
        match name {
            "port" => Ok(self.door.name()),
            "clients" => Ok(self.clients.len().to_string()),
            _ => Err(HandlerError::no_read(name)),
        }
    }

    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        // What this configuration says until its end is heard by the clients all the same.
        let log = std::mem::replace(&mut self.log, Arc::new(Log::new().ok()?));
        let clients = std::mem::take(&mut self.clients);
        Some(Box::new(Handed { door: self.door.leave(), log, clients }))
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        let Ok(handed) = state.downcast::<Handed>() else { return };
        if self.door.take(handed.door) {
            (self.log, self.clients) = (handed.log, handed.clients);
        }
    }

    fn finish(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        self.serve();
        self.clients.clear();
        self.log.set_wanted(false);
        self.door.close()
    }
}

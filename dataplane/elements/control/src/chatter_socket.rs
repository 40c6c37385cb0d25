//! ChatterSocket: sends the configuration's log lines to connected clients.

mod log;

mod serve;

use std::any::Any;
use std::sync::Arc;

use parking_lot::Mutex;
use thruway_element::{
    Arg, ArgErrors, Args, Cx, Element, Entry, Handlers, HotSwap, NOTHING_MORE, Replicas, Spec,
    Topic, Ty,
};
use thruway_sync::atomic::{AtomicUsize, Ordering};

use self::log::Log;
use self::serve::Server;
use super::acceptor::{self, Acceptor};
use super::management::Post;

/// See the spec.
pub static ENTRY: Entry = Entry::built::<ChatterSocket>(
    Spec {
        name: "ChatterSocket",
        topic: Topic::Control,
        summary: "sends the lines that elements write for the user to connected clients",
        docs: "Listens on a Unix socket or a TCP port (`PORT+`: that one or one of the next ten). \
               A client gets the line Click::ChatterSocket/1.0 (unless GREETING is false) and then \
               a copy of every line that elements write to standard error: those of Print and its \
               like, and warnings. The element ignores what clients send.\n\
               Access is as for ControlSocket: a Unix socket is for this user and root, unless \
               MODE and GROUP admit others; a TCP port is for clients on this host (unless \
               LOCALHOST is false) that first send the port's token, as a line AUTH TOKEN. AUTH \
               none admits all.\n\
               A client that is 500,000 bytes behind is closed; there are at most 64, and 32 of \
               one user or of one host, then the oldest makes room. They are served by a thread of \
               their own. All lines belong to the default channel: with another CHANNEL clients \
               get the greeting only. QUIET_CHANNEL is accepted. When a configuration replaces \
               another while packets flow, clients stay, if the element's name and its socket are \
               the same.",
        example: "ChatterSocket(UNIX, /tmp/clicksocket); \
                  InfiniteSource(LIMIT 3) -> Print(seen) -> Discard",
        ports: "0/0",
        processing: "a/a",
        args: &[
            acceptor::TYPE,
            acceptor::PORT,
            acceptor::FILENAME,
            Arg::keyword("CHANNEL", Ty::Str, "channel of the lines").or("default"),
            Arg::keyword("QUIET_CHANNEL", Ty::Bool, "accepted").or("true"),
            Arg::keyword("GREETING", Ty::Bool, "whether clients are greeted").or("true"),
            acceptor::AUTH,
            acceptor::TOKEN,
            acceptor::TOKEN_FILE,
            acceptor::MODE,
            acceptor::GROUP,
            acceptor::LOCALHOST,
            acceptor::RETRIES,
            acceptor::RETRY_WARNINGS,
        ],
        cost: NOTHING_MORE,
        replicas: Replicas::Single,
        ..Spec::DEFAULT
    },
    build,
)
.with_hot_swap::<ChatterSocket>();

#[derive(Handlers)]
#[handler(read, name = "port", "the TCP port, or the file name", get = self.name.lock())]
#[handler(
    read, name = "clients", "clients that are connected", get = self.clients.load(Ordering::Acquire)
)]
struct ChatterSocket {
    post: Post<Server>,
    /// Whether the channel is the one that lines are written to.
    hears: bool,
    log: Arc<Log>,
    name: Arc<Mutex<String>>,
    clients: Arc<AtomicUsize>,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let channel: String = args.get("CHANNEL")?;
    let log = Log::new().map_err(|error| ArgErrors::whole(format!("no event counter: {error}")))?;
    let log = Arc::new(log);
    let acceptor = Acceptor::of(args)?;
    let (name, greets) = (acceptor.name(), args.get("GREETING")?);
    let server = Server::new(acceptor, Arc::clone(&log), greets);
    Ok(Box::new(ChatterSocket {
        hears: matches!(channel.as_str(), "" | "default"),
        clients: server.count(),
        post: Post::new(server),
        log,
        name,
    }))
}

impl Element for ChatterSocket {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let Some(server) = self.post.stop() else { return Ok(()) };
        if self.hears {
            let log = Arc::clone(&self.log);
            cx.driver().add_log_sink(Arc::new(move |line| log.add(line)));
        }
        self.post.begin(cx, server)
    }

    fn finish(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        self.post.stop().map_or(Ok(()), |server| server.end())
    }
}

impl HotSwap for ChatterSocket {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        // Clients still get the lines that this configuration logs until its end.
        self.post.stop().map(|server| server as Box<dyn Any + Send>)
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        let log = &mut self.log;
        self.post.take_over(state, |left| *log = left.log());
    }
}

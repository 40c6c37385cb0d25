//! ControlSocket: lets other programs use handlers, over TCP or a Unix socket.

mod client;
mod instance;
mod perform;
mod protocol;
#[cfg(test)]
mod protocol_tests;
mod serve;

use std::any::Any;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use thruway_element::{
    Arg, ArgErrors, Args, Cx, Element, Entry, Handlers, HotSwap, NOTHING_MORE, Outside, Replicas,
    Spec, Topic, Ty,
};

pub use self::instance::Instance;
use self::perform::Rules;
use self::serve::Server;
use super::acceptor::{self, Acceptor};
use super::management::Post;

/// See the spec.
pub static ENTRY: Entry = Entry::built::<ControlSocket>(
    Spec {
        name: "ControlSocket",
        topic: Topic::Control,
        summary: "lets other programs read and write handlers",
        docs: "Listens on a Unix socket or a TCP port (`PORT+`: that one or one of the next ten) \
               and speaks Click's ControlSocket protocol, version 1.3: READ, READDATA, READUNTIL, \
               WRITE, WRITEDATA, WRITEUNTIL, CHECKREAD, CHECKWRITE, HELP, QUIT, and AUTH. LLRPC is \
               refused: there are none.\n\
               Clients can use every handler. A Unix socket is for this user and root, unless MODE \
               and GROUP admit others. A TCP port is open to this host alone unless LOCALHOST is \
               false, and a client first shows the port's token (AUTH TOKEN): TOKEN, what stands \
               in TOKEN_FILE, or one that is made and kept in the run directory, where `thruway \
               ctl`, `top` and `trace` find it. Click's own tools know no tokens; AUTH none lets \
               them in, and every user of this host. READONLY refuses writes, and reads that \
               change something. Files that a value names (as of AggregateCounter's write_file) \
               are in the directory FILES, or refused where there is none.\n\
               Lines may have 64 KiB and data 4 MiB. A connection ends at the first line that is \
               no command, and where a command takes 30 s to come. There are at most 64, and 32 of \
               one user or of one host; then the one that was idle longest makes room. Clients are \
               served by a thread of their own; the handler calls themselves are done by the \
               threads of their elements, one of each connection at a time, while packets move. \
               When a configuration replaces another while packets flow, clients stay, if the \
               element's name and its socket are the same.",
        example: "ControlSocket(UNIX, /tmp/thruway.sock); Idle -> c :: Counter -> Discard",
        ports: "0/0",
        processing: "a/a",
        args: &[
            acceptor::TYPE,
            acceptor::PORT,
            acceptor::FILENAME,
            Arg::keyword("READONLY", Ty::Bool, "whether write handlers are refused").or("false"),
            Arg::keyword("PROXY", Ty::Element, "element that bare handler names belong to"),
            Arg::keyword("VERBOSE", Ty::Bool, "whether connections are reported").or("false"),
            Arg::keyword("FILES", Ty::Str, "directory of the files that values may name"),
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
.with_hot_swap::<ControlSocket>();

#[derive(Handlers)]
#[handler(read, name = "port", "the TCP port, or the file name", get = self.name.lock())]
struct ControlSocket {
    post: Post<Server>,
    /// The port or file name, as the socket has it.
    name: Arc<Mutex<String>>,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let files: Option<String> = args.opt("FILES")?;
    let outside = Outside { read_only: args.get("READONLY")?, files: files.map(PathBuf::from) };
    let rules = Rules { outside: Arc::new(outside), proxy: args.opt("PROXY")? };
    let acceptor = Acceptor::of(args)?;
    let name = acceptor.name();
    let server = Server { acceptor, rules, verbose: args.get("VERBOSE")?, clients: Vec::new() };
    Ok(Box::new(ControlSocket { post: Post::new(server), name }))
}

impl Element for ControlSocket {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let Some(server) = self.post.stop() else { return Ok(()) };
        if let Some(proxy) = &server.rules.proxy {
            let node = cx.node();
            if cx.find(node, proxy).is_none() {
                return Err(format!("PROXY: no element named '{proxy}'"));
            }
        }
        self.post.begin(cx, server)
    }

    fn finish(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        self.post.end().map_or(Ok(()), |(server, desk)| server.end(&desk))
    }
}

impl HotSwap for ControlSocket {
    fn hand_over(&mut self) -> Option<Box<dyn Any + Send>> {
        self.post.stop().map(|server| server as Box<dyn Any + Send>)
    }

    fn take_over(&mut self, state: Box<dyn Any + Send>) {
        self.post.take_over(state, |_| ());
    }
}

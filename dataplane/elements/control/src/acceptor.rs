//! The socket by which other programs come in: what ControlSocket and ChatterSocket have in common.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::event::PollFlags;
use thruway_element::{Arg, ArgError, ArgErrors, Args, Cx, Ty};
use thruway_port::socket::{Address, Connection, Listener, SocketError, UNIX_NAME_MAX};

use super::client_limits::Peer;
use super::desk::Desk;
use super::gate::{Gate, Token};

pub(super) const TYPE: Arg = Arg::required("TYPE", Ty::Choice(&["TCP", "UNIX"]), "socket type");
pub(super) const PORT: Arg = Arg::optional("PORT", Ty::Any, "TCP port or file name");
pub(super) const FILENAME: Arg = Arg::keyword("FILENAME", Ty::File, "the same, for a Unix socket");
pub(super) const LOCALHOST: Arg =
    Arg::keyword("LOCALHOST", Ty::Bool, "whether only this host may connect").or("true");
pub(super) const RETRIES: Arg =
    Arg::keyword("RETRIES", Ty::Int, "how often to try again to listen, every second").or("0");
pub(super) const RETRY_WARNINGS: Arg =
    Arg::keyword("RETRY_WARNINGS", Ty::Bool, "whether that is reported").or("true");
pub(super) const AUTH: Arg = Arg::keyword(
    "AUTH",
    Ty::Choice(&["token", "none"]),
    "authentication of TCP clients: none admits every user of this host",
)
.or("token");
pub(super) const TOKEN: Arg = Arg::keyword("TOKEN", Ty::Str, "the token; else one is made");
pub(super) const TOKEN_FILE: Arg = Arg::keyword("TOKEN_FILE", Ty::File, "file with the token");
pub(super) const MODE: Arg =
    Arg::keyword("MODE", Ty::Str, "rights of a Unix socket's file, octal: 0660").or("0600");
pub(super) const GROUP: Arg =
    Arg::keyword("GROUP", Ty::Str, "its group, by name or number; else the process's");

/// How long a client may take for its token.
pub(super) const TOKEN_TIME: Duration = Duration::from_secs(10);
/// Ports tried where "or the next ones" is meant.
const PORTS_TRIED: u16 = 11;
/// Time between tries to listen.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Where to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ListenAddress {
    address: Address,
    /// The last port to try.
    last: u16,
}

impl ListenAddress {
    fn of(args: &Args<'_>) -> Result<ListenAddress, ArgError> {
        let kind: String = args.get("TYPE")?;
        let missing = |what| args.error("PORT", format!("missing; give {what}"));
        match kind.to_ascii_uppercase().as_str() {
            "TCP" => {
                let text: Option<String> = args.opt("PORT")?;
                let text = text.ok_or_else(|| missing("a TCP port"))?;
                let (port, next) = text.strip_suffix('+').map_or((&*text, false), |p| (p, true));
                let port: u16 = args.parse(port).map_err(|why| args.error("PORT", why))?;
                let local: bool = args.get("LOCALHOST")?;
                let ip = if local { Ipv4Addr::LOCALHOST } else { Ipv4Addr::UNSPECIFIED };
                let last = if next { port.saturating_add(PORTS_TRIED - 1) } else { port };
                Ok(ListenAddress { address: Address::Inet(SocketAddrV4::new(ip, port)), last })
            }
            "UNIX" => {
                let named = if args.given("FILENAME") { "FILENAME" } else { "PORT" };
                let name: Option<Vec<u8>> = args.opt(named)?;
                let name = name.ok_or_else(|| missing("a file name"))?;
                if name.len() > UNIX_NAME_MAX {
                    let why = format!("a file name of at most {UNIX_NAME_MAX} bytes");
                    return Err(args.error(named, why));
                }
                Ok(ListenAddress { address: Address::Unix(name), last: 0 })
            }
            _ => {
                let why = format!("'{kind}' is not a socket type; write TCP or UNIX");
                Err(args.error("TYPE", why))
            }
        }
    }

    fn listen(&self, gate: &Gate) -> Result<Listener, SocketError> {
        let options = gate.options();
        let Address::Inet(first) = self.address else {
            return Listener::bind(&self.address, &options);
        };
        let at = |port| Address::Inet(SocketAddrV4::new(*first.ip(), port));
        let mut bound = Listener::bind(&self.address, &options);
        let mut next = first.port();
        while bound.is_err() && next < self.last {
            next += 1;
            bound = Listener::bind(&at(next), &options);
        }
        bound
    }

    fn is_for_all(&self) -> bool {
        matches!(self.address, Address::Inet(address) if address.ip().is_unspecified())
    }
}

/// A client that came in.
pub(super) struct Visitor {
    pub connection: Connection,
    /// Where from, as messages say it.
    pub from: String,
    /// The peer that it belongs to.
    pub peer: Peer,
    /// Whether it need not show the token.
    pub trusted: bool,
}

/// See the module's description.
pub(super) struct Acceptor {
    listen_address: ListenAddress,
    gate: Gate,
    listener: Option<Listener>,
    token: Option<Token>,
    retries: i32,
    retry_warnings: bool,
    next_try: Option<Instant>,
    /// Until when no connection is accepted, for lack of descriptors.
    closed_until: Option<Instant>,
    /// The TCP port, or the file name: the element's handler shows it.
    name: Arc<Mutex<String>>,
    /// The element, as messages name it.
    label: String,
}

impl Acceptor {
    /// Of the arguments.
    pub(super) fn of(args: &Args<'_>) -> Result<Acceptor, ArgErrors> {
        Ok(Acceptor {
            retries: args.get("RETRIES")?,
            retry_warnings: args.get("RETRY_WARNINGS")?,
            ..Acceptor::at(ListenAddress::of(args)?, Gate::of(args)?)
        })
    }

    /// A Unix socket for this user alone.
    pub(super) fn own(path: Vec<u8>) -> Acceptor {
        let listen_address = ListenAddress { address: Address::Unix(path), last: 0 };
        Acceptor::at(listen_address, Gate::own())
    }

    fn at(listen_address: ListenAddress, gate: Gate) -> Acceptor {
        Acceptor {
            name: Arc::new(Mutex::new(name_of(&listen_address.address))),
            listen_address,
            gate,
            listener: None,
            token: None,
            retries: 0,
            retry_warnings: false,
            next_try: None,
            closed_until: None,
            label: String::new(),
        }
    }

    /// Learns which element it belongs to.
    pub(super) fn belongs_to(&mut self, cx: &mut Cx<'_>) {
        let node = cx.node();
        if let Some((name, class)) = cx.describe(node) {
            self.label = format!("{name} :: {class}: ");
        }
    }

    /// The prefix of messages.
    pub(super) fn label(&self) -> &str {
        &self.label
    }

    /// Listens, by a predecessor's socket where there is one; or says, in the line that comes back,
    /// when that is tried again.
    ///
    /// # Errors
    /// It cannot, and that was the last try.
    pub(super) fn open(&mut self, now: Instant) -> Result<Option<String>, String> {
        self.next_try = None;
        if self.listener.is_some() {
            return Ok(None);
        }
        let error = match self.listen() {
            Ok(warning) => return Ok(warning),
            Err(error) => error,
        };
        if self.retries <= 0 {
            return Err(error);
        }
        let tries = if self.retries == 1 { "try" } else { "tries" };
        let warning = format!("{}{error} ({} {tries} left)", self.label, self.retries);
        self.retries -= 1;
        self.next_try = Some(now + RETRY_PAUSE);
        Ok(self.retry_warnings.then_some(warning))
    }

    fn listen(&mut self) -> Result<Option<String>, String> {
        let listener = self.listen_address.listen(&self.gate).map_err(|error| error.to_string())?;
        if let Address::Inet(address) = listener.address() {
            self.token = self.gate.token(address.port())?;
        }
        *self.name.lock() = name_of(listener.address());
        self.listener = Some(listener);
        let open = if self.gate.is_open() { ", and needs no token" } else { "" };
        let warning = || {
            format!(
                "{}warning: LOCALHOST false: the socket takes connections of other hosts, \
                 unencrypted{open}",
                self.label
            )
        };
        Ok(self.listen_address.is_for_all().then(warning))
    }

    /// Tries again to listen, when it is time; after the last try the driver is to stop.
    pub(super) fn retry(&mut self, desk: &Desk) {
        if self.next_try.is_some_and(|at| at <= desk.now) {
            match self.open(desk.now) {
                Ok(warning) => warning.iter().for_each(|line| desk.remote.log(line)),
                Err(error) => {
                    desk.remote.log(&format!("{}{error}", self.label));
                    desk.remote.stop();
                }
            }
        }
    }

    /// When it wants to be looked after, whatever happens.
    pub(super) fn next_look(&self) -> Option<Instant> {
        self.next_try.into_iter().chain(self.closed_until).min()
    }

    /// The TCP port, or the file name, for others to read.
    pub(super) fn name(&self) -> Arc<Mutex<String>> {
        Arc::clone(&self.name)
    }

    /// The descriptors to wait for.
    pub(super) fn watch<'a>(&'a self, desk: &Desk, fds: &mut Vec<(BorrowedFd<'a>, PollFlags)>) {
        let is_open = desk.is_open && self.closed_until.is_none();
        let listener = self.listener.iter().filter(|_| is_open);
        fds.extend(listener.map(|listener| (listener.as_fd(), PollFlags::IN)));
    }

    /// Takes one waiting connection of a user that may connect; `Err` where there was another.
    pub(super) fn accept(&mut self, desk: &Desk) -> Option<Result<Visitor, Connection>> {
        if !desk.is_open || self.closed_until.is_some_and(|until| desk.now < until) {
            return None;
        }
        self.closed_until = None;
        match self.listener.as_ref()?.accept() {
            Ok(accepted) => accepted.map(|(connection, peer)| {
                let from = match &peer {
                    Some(Address::Inet(peer)) => format!(" from {}.{}", peer.ip(), peer.port()),
                    _ => String::new(),
                };
                let peer = Peer::of(&connection, peer.as_ref());
                let trusted = match (&self.listen_address.address, &self.token) {
                    (Address::Unix(_), _) if self.gate.admits(&connection) == Some(true) => true,
                    (Address::Unix(_), _) => return Err(connection),
                    (Address::Inet(_), token) => token.is_none(),
                };
                Ok(Visitor { connection, from, peer, trusted })
            }),
            Err(error) => {
                desk.remote.log(&format!("{}accept: {error}", self.label));
                self.closed_until = Some(desk.now + RETRY_PAUSE);
                None
            }
        }
    }

    /// Whether this is the token.
    pub(super) fn lets_in(&self, token: &str) -> bool {
        self.token.as_ref().is_some_and(|own| own.is(token))
    }

    /// Whether a successor in a hot swap listens at the same place for the same clients.
    pub(super) fn is_like(&self, other: &Acceptor) -> bool {
        self.listen_address == other.listen_address && self.gate == other.gate
    }

    /// Takes over a predecessor's socket.
    pub(super) fn take(&mut self, mut left: Acceptor) {
        (self.listener, self.token) = (left.listener.take(), left.token.take());
        if let Some(listener) = &self.listener {
            *self.name.lock() = name_of(listener.address());
        }
    }

    /// Closes it.
    ///
    /// # Errors
    /// The file of a Unix socket cannot be removed.
    pub(super) fn close(&mut self) -> Result<(), String> {
        self.token = None;
        let closed = self.listener.take().map_or(Ok(()), Listener::close);
        closed.map_err(|error| format!("{}: cannot remove: {error}", self.name.lock()))
    }
}

/// The TCP port, or the file name.
fn name_of(address: &Address) -> String {
    match address {
        Address::Inet(address) => address.port().to_string(),
        unix => unix.to_string(),
    }
}

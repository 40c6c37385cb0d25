//! The socket by which other programs come in: what ControlSocket and ChatterSocket have in common.

use std::net::{Ipv4Addr, SocketAddrV4};

use crate::telling::say;
use thruway_element::{Arg, ArgError, ArgErrors, Args, Cx, Ty};
use thruway_port::socket::{
    Address, Connection, Listener, SocketError, SocketOptions, UNIX_NAME_MAX,
};

pub(super) const TYPE: Arg = Arg::required("TYPE", Ty::Choice(&["TCP", "UNIX"]), "kind of socket");
pub(super) const PORT: Arg = Arg::optional("PORT", Ty::Any, "TCP port or file name");
pub(super) const FILENAME: Arg = Arg::keyword("FILENAME", Ty::File, "the same, for a Unix socket");
pub(super) const LOCALHOST: Arg =
    Arg::keyword("LOCALHOST", Ty::Bool, "whether only this host may connect").or("true");
pub(super) const RETRIES: Arg =
    Arg::keyword("RETRIES", Ty::Int, "how often to try again to listen, every second").or("0");
pub(super) const RETRY_WARNINGS: Arg =
    Arg::keyword("RETRY_WARNINGS", Ty::Bool, "whether that is told").or("true");

/// Connections at a time.
pub(super) const CONNECTIONS_MAX: usize = 64;
/// Nanoseconds until bytes that did not go out are tried again.
pub(super) const SEND_PAUSE: i64 = 5_000_000;
/// Ports tried where "or the next ones" is meant.
const PORTS_TRIED: u16 = 11;
/// Timer: try again to listen.
const RETRY: u32 = 0;
/// Nanoseconds between tries to listen.
const RETRY_PAUSE: i64 = 1_000_000_000;
/// Nanoseconds, or else runs of the task, between looks at sockets on which nothing happens.
const LOOK_PAUSE: i64 = 1_000_000;
const LOOK_RUNS: u32 = 1_024;

/// Where to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    address: Address,
    /// The last port to try.
    last: u16,
}

impl Place {
    fn of(args: &Args<'_>) -> Result<Place, ArgError> {
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
                Ok(Place { address: Address::Inet(SocketAddrV4::new(ip, port)), last })
            }
            "UNIX" => {
                let named = if args.given("FILENAME") { "FILENAME" } else { "PORT" };
                let name: Option<Vec<u8>> = args.opt(named)?;
                let name = name.ok_or_else(|| missing("a file name"))?;
                if name.len() > UNIX_NAME_MAX {
                    let why = format!("a file name of at most {UNIX_NAME_MAX} bytes");
                    return Err(args.error(named, why));
                }
                Ok(Place { address: Address::Unix(name), last: 0 })
            }
            _ => {
                let why = format!("'{kind}' is not a kind of socket; write TCP or UNIX");
                Err(args.error("TYPE", why))
            }
        }
    }

    fn listen(&self) -> Result<Listener, SocketError> {
        let options = SocketOptions::default();
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
}

/// What a door leaves to its successor in a hot swap.
pub(super) struct Left {
    place: Place,
    listener: Option<Listener>,
}

/// See the module's description.
pub(super) struct Door {
    place: Place,
    listener: Option<Listener>,
    retries: i32,
    retry_warnings: bool,
    /// When the sockets are looked at again, and runs since they were.
    next_look: i64,
    skipped: u32,
}

impl Door {
    /// Of the arguments.
    pub(super) fn of(args: &Args<'_>) -> Result<Door, ArgErrors> {
        Ok(Door {
            place: Place::of(args)?,
            listener: None,
            retries: args.get("RETRIES")?,
            retry_warnings: args.get("RETRY_WARNINGS")?,
            next_look: 0,
            skipped: 0,
        })
    }

    /// Listens, by a predecessor's socket where there is one, or says when that is tried again.
    ///
    /// # Errors
    /// It cannot, and that was the last try.
    pub(super) fn open(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let listener = match self.listener.take() {
            Some(listener) => Ok(listener),
            None => self.place.listen().map_err(|error| error.to_string()),
        };
        let error = match listener {
            Ok(listener) => {
                cx.watch(&listener).map_err(|error| error.to_string())?;
                self.listener = Some(listener);
                return Ok(());
            }
            Err(error) => error,
        };
        if self.retries <= 0 {
            return Err(error);
        }
        if self.retry_warnings {
            let tries = if self.retries == 1 { "try" } else { "tries" };
            say(cx, &format!("{error} ({} {tries} left)", self.retries));
        }
        self.retries -= 1;
        cx.set_timer(RETRY, cx.now().saturating_add(RETRY_PAUSE));
        Ok(())
    }

    /// Tries again to listen, if it does not; after the last try the driver is to stop.
    pub(super) fn retry(&mut self, cx: &mut Cx<'_>) {
        if self.listener.is_none()
            && let Err(error) = self.open(cx)
        {
            say(cx, &error);
            cx.stop();
        }
    }

    /// The TCP port, or the file name.
    pub(super) fn name(&self) -> String {
        match self.listener.as_ref().map_or(&self.place.address, Listener::address) {
            Address::Inet(address) => address.port().to_string(),
            unix => unix.to_string(),
        }
    }

    /// Whether it is time to look at the sockets: each look costs system calls, and the task runs
    /// between packets. Simulated time may stand still, so runs count too.
    pub(super) fn looks(&mut self, now: i64) -> bool {
        self.skipped += 1;
        let looks = now >= self.next_look || self.skipped >= LOOK_RUNS;
        if looks {
            (self.next_look, self.skipped) = (now.saturating_add(LOOK_PAUSE), 0);
        }
        looks
    }

    /// Has the next run look, whenever it comes.
    pub(super) fn look_again(&mut self) {
        self.next_look = i64::MIN;
    }

    /// Takes one waiting connection; where from, as messages say it.
    pub(super) fn accept(&self, cx: &mut Cx<'_>) -> Option<(Connection, String)> {
        match self.listener.as_ref()?.accept() {
            Ok(accepted) => accepted.map(|(connection, peer)| match peer {
                Some(Address::Inet(peer)) => {
                    (connection, format!(" from {}.{}", peer.ip(), peer.port()))
                }
                _ => (connection, String::new()),
            }),
            Err(error) => {
                say(cx, &format!("accept: {error}"));
                None
            }
        }
    }

    /// Leaves the socket to a successor.
    pub(super) fn leave(&mut self) -> Left {
        Left { place: self.place.clone(), listener: self.listener.take() }
    }

    /// Takes what a predecessor left; false, and that is closed, where it listened elsewhere.
    pub(super) fn take(&mut self, left: Left) -> bool {
        let same = left.place == self.place;
        if same {
            self.listener = left.listener;
        }
        same
    }

    /// Closes it.
    ///
    /// # Errors
    /// The file of a Unix socket cannot be removed.
    pub(super) fn close(&mut self) -> Result<(), String> {
        let name = self.name();
        let closed = self.listener.take().map_or(Ok(()), Listener::close);
        closed.map_err(|error| format!("{name}: cannot remove: {error}"))
    }
}

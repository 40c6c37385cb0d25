//! The table of routes behind the elements that route by address: how routes are written, changed
//! by handlers and shown, for IPv4 and IPv6 alike.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::sync::OnceLock;

use parking_lot::Mutex;
use thruway_element::{Addresses, ArgErrors, Args, Env, HandlerError, Shared};
use thruway_lpm::{Fib4, Fib6, Key, LpmError, Prefix, Route};

mod address;
mod written;

pub(crate) use address::Address;

use written::{Change, Shown, Written, parse};

/// Longest file of routes, in bytes: some ten million routes.
const FILE_BYTES_MAX: u64 = 1 << 28;

/// A prefix and its route.
type Entry<K> = (Prefix<K>, Route<K>);

/// A forwarding table, as far as its changes go.
pub(crate) trait Fib: Send + Sync + Sized + 'static {
    type Key: Address;

    fn new() -> Result<Self, LpmError>;
    fn get(&self, prefix: Prefix<Self::Key>) -> Option<Route<Self::Key>>;
    fn replace(&self, prefix: Prefix<Self::Key>, route: Route<Self::Key>) -> Result<(), LpmError>;
    fn insert_all(&self, routes: &[Entry<Self::Key>]) -> Result<usize, (usize, LpmError)>;
    fn remove(&self, prefix: Prefix<Self::Key>) -> Result<(), LpmError>;
    fn routes(&self) -> Vec<Entry<Self::Key>>;
    fn clear(&self);
    /// The route for an address, as of all changes so far.
    fn look_up(&self, addr: Self::Key) -> Option<Route<Self::Key>>;
    /// Shows changes to readers, where that does not happen by itself.
    fn publish(&self) {}
}

macro_rules! changes {
    ($table:ident) => {
        fn get(&self, prefix: Prefix<Self::Key>) -> Option<Route<Self::Key>> {
            $table::get(self, prefix)
        }

        fn replace(
            &self,
            prefix: Prefix<Self::Key>,
            route: Route<Self::Key>,
        ) -> Result<(), LpmError> {
            $table::replace(self, prefix, route).map(|_| ())
        }

        fn insert_all(&self, routes: &[Entry<Self::Key>]) -> Result<usize, (usize, LpmError)> {
            $table::insert_all(self, routes)
        }

        fn remove(&self, prefix: Prefix<Self::Key>) -> Result<(), LpmError> {
            $table::remove(self, prefix).map(|_| ())
        }

        fn routes(&self) -> Vec<Entry<Self::Key>> {
            $table::routes(self)
        }

        fn clear(&self) {
            $table::clear(self);
        }
    };
}

impl Fib for Fib4 {
    type Key = u32;
    changes!(Fib4);

    fn new() -> Result<Self, LpmError> {
        Fib4::new()
    }

    fn look_up(&self, addr: u32) -> Option<Route<u32>> {
        self.lookup_route(addr)
    }
}

/// IPv6's table behind the handle from which its readers come.
pub(crate) type SharedFib6 = std::sync::Arc<Fib6>;

impl Fib for SharedFib6 {
    type Key = u128;
    changes!(Fib6);

    fn new() -> Result<Self, LpmError> {
        Ok(SharedFib6::default())
    }

    fn look_up(&self, addr: u128) -> Option<Route<u128>> {
        self.reader().lookup(addr)
    }

    fn publish(&self) {
        Fib6::publish(self);
    }
}

/// A prefix's routes before a change.
type Before<K> = (Prefix<K>, Option<Route<K>>);

/// The routes of one element, shared by its replicas.
pub(crate) struct RouteTable<F> {
    fib: F,
    /// Outputs of the element: ports are below this.
    outputs: u32,
    element: String,
    addresses: Addresses,
    /// Arguments that named a prefix which an earlier one had.
    doubles: usize,
    /// Whether the user was informed of them.
    reported: OnceLock<()>,
    /// How reading FILE went, once it was read.
    file: OnceLock<Result<(), String>>,
    /// Held while a handler changes routes: a transaction is not mixed with another.
    changing: Mutex<()>,
}

impl<F: Fib> RouteTable<F> {
    /// The table with the routes of an element's further arguments.
    ///
    /// # Errors
    /// All arguments that are no routes.
    pub(crate) fn build(args: &Args<'_>) -> Result<RouteTable<F>, ArgErrors> {
        let env = args.env();
        let mut table = RouteTable {
            fib: F::new().map_err(|error| ArgErrors::whole(error.to_string()))?,
            outputs: u32::try_from(env.outputs).unwrap_or(u32::MAX),
            element: env.name.to_owned(),
            addresses: env.addresses.clone(),
            doubles: 0,
            reported: OnceLock::new(),
            file: OnceLock::new(),
            changing: Mutex::new(()),
        };
        let mut errors = Vec::new();
        let (mut routes, mut places) = (Vec::new(), Vec::new());
        for (index, text) in args.rest() {
            match table.entry(env, text) {
                Ok(entry) => {
                    routes.push(entry);
                    places.push(index);
                }
                Err(message) => errors.push(args.rest_error(index, message)),
            }
        }
        match table.fib.insert_all(&routes) {
            Ok(doubles) => table.doubles = doubles,
            Err((at, error)) => errors.push(args.rest_error(places[at], error.to_string())),
        }
        table.fib.publish();
        if errors.is_empty() { Ok(table) } else { Err(ArgErrors(errors)) }
    }

    /// The forwarding table.
    pub(crate) fn fib(&self) -> &F {
        &self.fib
    }

    /// What to show the user about the arguments, the first time this is asked.
    pub(crate) fn warning(&self) -> Option<String> {
        self.reported.set(()).ok()?;
        let routes = match self.doubles {
            0 => return None,
            1 => "1 duplicate route".to_owned(),
            n => format!("{n} duplicate routes"),
        };
        let name = &self.element;
        Some(format!("{name}: warning: {routes} ignored"))
    }

    /// A route of the configuration. (Of several for one prefix the first stays, as in Click.)
    fn entry(&self, env: &Env<'_>, text: &str) -> Result<Entry<F::Key>, String> {
        let written: Written<F::Key> = parse(env, text, Change::Add)?;
        Ok((written.prefix, self.route(&written)?))
    }

    fn route(&self, written: &Written<F::Key>) -> Result<Route<F::Key>, String> {
        let port = written.port.filter(|port| *port < self.outputs);
        let port = port.ok_or_else(|| format!("bad OUTPUT; there are {} outputs", self.outputs))?;
        Ok(Route { gateway: written.gateway, port })
    }

    /// Enters the routes of a file, a line each; the first replica that asks reads it.
    ///
    /// # Errors
    /// The errors in the file, with the line's number.
    pub(crate) fn load(&self, file: &str) -> Result<(), String> {
        let read = || {
            let text = read_file(file).map_err(|error| format!("FILE {file}: {error}"))?;
            self.with_env(|env| self.load_lines(env, &text))
                .map_err(|error| format!("FILE {file}, {error}"))
        };
        self.file.get_or_init(read).clone()
    }

    fn load_lines(&self, env: &Env<'_>, text: &str) -> Result<(), String> {
        let (mut routes, mut places) = (Vec::new(), Vec::new());
        for (at, line) in text.lines().enumerate() {
            let line = bare(line, "#");
            if !line.is_empty() {
                let entry = self.entry(env, line);
                routes.push(entry.map_err(|error| format!("line {}: {error}", at + 1))?);
                places.push(at + 1);
            }
        }
        let entered = self.fib.insert_all(&routes);
        entered.map_err(|(at, error)| format!("line {}: {error}", places[at]))?;
        self.fib.publish();
        Ok(())
    }

    /// Calls `f` with what names of addresses need.
    fn with_env<T>(&self, f: impl FnOnce(&Env<'_>) -> T) -> T {
        let shared = Shared::default();
        let env = Env::alone(&self.element, "", &self.addresses, &shared);
        f(&Env { outputs: self.outputs as usize, ..env })
    }

    /// The write handlers.
    ///
    /// # Errors
    /// Why the table is as it was.
    pub(crate) fn write(&self, name: &str, value: &str) -> Result<(), HandlerError> {
        match (name, Change::named(name)) {
            (_, Some(change)) => self.change(change, value),
            ("ctrl", _) => self.control(value),
            ("flush", _) => {
                self.flush();
                Ok(())
            }
            _ => Err(HandlerError::no_write(name)),
        }
    }

    fn change(&self, change: Change, text: &str) -> Result<(), HandlerError> {
        let _alone = self.changing.lock();
        let done = self.with_env(|env| self.apply(env, change, text));
        self.fib.publish();
        done.map(|_| ()).map_err(HandlerError::refused)
    }

    /// Handler `ctrl`: a command a line, all or none.
    fn control(&self, text: &str) -> Result<(), HandlerError> {
        let _alone = self.changing.lock();
        if let Some(routes) = self.with_env(|env| self.additions(env, text)) {
            let done = self.fib.insert_all(&routes);
            if let Err((at, _)) = done {
                self.undo(routes[..at].iter().map(|(prefix, _)| (*prefix, None)).collect());
            }
            self.fib.publish();
            let refused = |(at, error): (usize, LpmError)| {
                let (prefix, route) = routes[at];
                format!("no room for route '{}': {error}", Written::of(prefix, route))
            };
            return done.map(|_| ()).map_err(|why| HandlerError::refused(refused(why)));
        }
        let mut before = Vec::new();
        let done = self.with_env(|env| self.run_lines(env, text, &mut before));
        if done.is_err() {
            self.undo(before);
        }
        self.fib.publish();
        done.map_err(HandlerError::refused)
    }

    /// The routes of lines that only add some, for different prefixes that have none: these can be
    /// entered at once. `None` where something is otherwise, or wrong.
    fn additions(&self, env: &Env<'_>, text: &str) -> Option<Vec<Entry<F::Key>>> {
        let mut seen = HashSet::new();
        let mut routes = Vec::new();
        for line in text.lines().map(|line| bare(line, "//")).filter(|line| !line.is_empty()) {
            let (_, rest) =
                line.split_once(char::is_whitespace).filter(|(word, _)| *word == "add")?;
            let entry = self.entry(env, rest).ok()?;
            let is_new = self.fib.get(entry.0).is_none() && seen.insert(entry.0);
            routes.push(is_new.then_some(entry)?);
        }
        Some(routes)
    }

    fn run_lines(
        &self,
        env: &Env<'_>,
        text: &str,
        before: &mut Vec<Before<F::Key>>,
    ) -> Result<(), String> {
        for line in text.lines().map(|line| bare(line, "//")).filter(|line| !line.is_empty()) {
            let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            let change = Change::named(word).ok_or_else(|| {
                format!("bad command '{word}'; write add, set or remove and a route")
            })?;
            before.push(self.apply(env, change, rest)?);
        }
        Ok(())
    }

    /// Takes changes back, the last one first. What was there before had room, so it has again.
    fn undo(&self, before: Vec<Before<F::Key>>) {
        for (prefix, route) in before.into_iter().rev() {
            let undone = match route {
                Some(route) => self.fib.replace(prefix, route),
                None => self.fib.remove(prefix),
            };
            debug_assert_eq!(undone, Ok(()));
        }
    }

    /// Makes one change and says what was there before.
    fn apply(&self, env: &Env<'_>, change: Change, text: &str) -> Result<Before<F::Key>, String> {
        let written: Written<F::Key> = parse(env, text, change)?;
        let prefix = written.prefix;
        let before = self.fib.get(prefix);
        let done = match (change, before) {
            (Change::Remove, Some(route)) if written.means(route) => self.fib.remove(prefix),
            (Change::Remove, _) => return Err(format!("route '{written}' not found")),
            (Change::Add, Some(route)) => {
                let there = Written::of(prefix, route);
                return Err(format!("conflict with existing route '{there}'"));
            }
            (Change::Add | Change::Set, _) => self.fib.replace(prefix, self.route(&written)?),
        };
        done.map_err(|error| format!("no room for route '{written}': {error}"))?;
        Ok((prefix, before))
    }

    fn flush(&self) {
        let _alone = self.changing.lock();
        self.fib.clear();
        self.fib.publish();
    }

    /// Handler `table`: a line per route, in order, in columns.
    pub(crate) fn dump(&self) -> String {
        let mut text = String::new();
        for (prefix, route) in self.fib.routes() {
            column(&mut text, &prefix.to_string(), 16);
            column(&mut text, &Shown(route.gateway).to_string(), 8);
            text.push_str(&format!("{}\n", route.port));
        }
        text
    }

    /// Handler `lookup`: output and gateway for an address, `-1` without a route.
    ///
    /// # Errors
    /// When `text` is no address.
    pub(crate) fn look_up(&self, text: &str) -> Result<String, HandlerError> {
        let addr = self.with_env(|env| F::Key::parse(text.trim(), env)).ok_or_else(|| {
            HandlerError::refused(format!("expected IP address, not '{}'", text.trim()))
        })?;
        Ok(match self.fib.look_up(addr) {
            None => "-1".to_owned(),
            Some(route) if is_direct(route) => route.port.to_string(),
            Some(route) => format!("{} {}", route.port, Shown(route.gateway)),
        })
    }
}

/// Whether the destination itself is on the link.
fn is_direct<K: Key>(route: Route<K>) -> bool {
    route.gateway == K::zero()
}

/// A line without its comment and outer blanks.
pub(super) fn bare<'a>(line: &'a str, comment: &str) -> &'a str {
    line.split(comment).next().unwrap_or("").trim()
}

/// A word and the tabs after it: two when it ends before the second tab stop.
fn column(text: &mut String, word: &str, wide: usize) {
    text.push_str(word);
    text.push_str(if word.len() < wide { "\t\t" } else { "\t" });
}

/// The text of a file of entries, if it is not too long.
pub(super) fn read_file(file: &str) -> std::io::Result<String> {
    let mut text = String::new();
    let read = File::open(file)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if read as u64 > FILE_BYTES_MAX {
        return Err(std::io::Error::other(format!("longer than {FILE_BYTES_MAX} bytes")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests;

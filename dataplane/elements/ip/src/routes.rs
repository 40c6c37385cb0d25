//! The common part of elements that route by address: their table, its loading, and its handlers.

use std::sync::Arc;

use thruway_element::{Arg, ArgErrors, Args, Cx, HandlerError, Handlers, Ty};

use super::route_table::{Fib, RouteTable};

/// See [`Routes`].
pub(crate) const FILE: Arg = Arg::keyword("FILE", Ty::File, "file with a route on each line");

/// The table of an element, which its replicas share.
#[derive(Handlers)]
#[handler(
    read, shared, name = "table", "the routes: prefix, gateway, output",
    get = self.known()?.dump()
)]
#[handler(
    read, shared, name = "lookup", "output and gateway for the address given, -1 for none",
    read = self.known()?.look_up(param)
)]
#[handler(
    write, shared, name = "add", "adds a route; fails if the prefix has one",
    write = self.write(name, value)
)]
#[handler(
    write, shared, name = "set", "adds a route or changes it", write = self.write(name, value)
)]
#[handler(
    write, shared, name = "remove", "removes the route of a prefix",
    write = self.write(name, value)
)]
#[handler(
    write, shared, name = "ctrl", "lines of add, set or remove and a route: all or none",
    write = self.write(name, value)
)]
#[handler(write, shared, name = "flush", "removes all routes", write = self.write(name, value))]
pub(crate) struct Routes<F: Fib> {
    /// Errors are those of the replica that made it.
    table: Arc<Result<RouteTable<F>, ArgErrors>>,
    file: Option<String>,
    /// Whether handlers may change routes.
    changeable: bool,
}

impl<F: Fib> Routes<F> {
    /// The routes of an element's further arguments; those of FILE come in
    /// [`initialize`](Routes::initialize).
    ///
    /// # Errors
    /// All arguments that are no routes.
    pub(crate) fn of(args: &Args<'_>) -> Result<Routes<F>, ArgErrors> {
        let table: Arc<Result<_, _>> = args.shared("routes", || RouteTable::build(args));
        table.as_ref().as_ref().map_err(ArgErrors::clone)?;
        Ok(Routes { table, file: args.opt("FILE")?, changeable: true })
    }

    /// The same; handlers change nothing.
    pub(crate) fn fixed(self) -> Routes<F> {
        Routes { changeable: false, ..self }
    }

    /// The table; an element with errors in its table is never built.
    #[inline]
    pub(crate) fn table(&self) -> Option<&RouteTable<F>> {
        self.table.as_ref().as_ref().ok()
    }

    /// Warns of arguments that make no difference, and reads FILE.
    ///
    /// # Errors
    /// The errors in the file.
    pub(crate) fn initialize(&self, cx: &mut Cx<'_>) -> Result<(), String> {
        let Some(table) = self.table() else { return Ok(()) };
        if let Some(warning) = table.warning() {
            cx.log(&warning);
        }
        self.file.as_deref().map_or(Ok(()), |file| table.load(file))
    }

    fn known(&self) -> Result<&RouteTable<F>, HandlerError> {
        let table = self.table.as_ref().as_ref();
        table.map_err(|errors| HandlerError::refused(errors.to_string()))
    }

    fn write(&self, name: &str, value: &str) -> Result<(), HandlerError> {
        if !self.changeable {
            return Err(HandlerError::no_write(name));
        }
        self.known()?.write(name, value)
    }
}

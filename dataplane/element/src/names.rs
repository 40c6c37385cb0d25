//! Names of addresses for values that are parsed after an element was built.

use crate::addresses::{Addresses, Declared};
use crate::env::{Env, Shared};
use crate::values::FromArg;

/// The names of addresses that an element may use, kept for what its handlers are given later.
#[derive(Debug, Clone, Default)]
pub struct Names {
    element: String,
    addresses: Addresses,
}

impl thruway_flow::Names for Names {
    fn address(&self, name: &str) -> Option<u32> {
        self.addresses.look_up(&self.element, name, |named| named.ip).map(u32::from)
    }

    fn prefix(&self, name: &str) -> Option<(u32, u32)> {
        let prefix = self.addresses.look_up(&self.element, name, |named| named.prefix)?;
        Some((u32::from(prefix.addr), u32::from(prefix.mask)))
    }

    fn ether(&self, name: &str) -> Option<[u8; 6]> {
        self.addresses.look_up(&self.element, name, |named| named.ether).map(|mac| mac.0)
    }

    fn port(&self, name: &str) -> Option<u16> {
        self.addresses.look_up(&self.element, name, |named| named.tcp.or(named.udp))
    }
}

impl Names {
    /// Those that the element called `element` may use.
    pub fn of(element: &str, addresses: &Addresses) -> Names {
        Names { element: element.to_owned(), addresses: addresses.clone() }
    }

    /// The pattern of rewriters that is declared under a name.
    pub fn pattern(&self, name: &str) -> Option<Declared> {
        self.addresses.look_up(&self.element, name, |named| named.pattern.clone())
    }

    /// The mapper of rewriters of this name.
    pub fn mapper(&self, name: &str) -> Option<Declared> {
        self.addresses.look_up(&self.element, name, |named| named.mapper.clone())
    }

    /// Parses a text as a value.
    ///
    /// # Errors
    /// A message when the text is not of the type.
    pub fn parse<T: FromArg>(&self, text: &str) -> Result<T, String> {
        let shared = Shared::default();
        T::from_arg(text.trim(), &Env::alone(&self.element, "", &self.addresses, &shared))
    }

    /// Parses the value written to a handler.
    ///
    /// # Errors
    /// A refusal that names the handler and what was expected.
    pub fn handler_value<T: FromArg>(
        &self,
        handler: &str,
        value: &str,
    ) -> Result<T, crate::later::HandlerError> {
        let refused = |why| crate::later::HandlerError::refused(format!("{handler}: {why}"));
        self.parse(value).map_err(refused)
    }
}

/// Parses the value written to a handler, which knows no names of addresses.
///
/// # Errors
/// A refusal that names the handler and what was expected.
pub fn handler_value<T: FromArg>(
    handler: &str,
    value: &str,
) -> Result<T, crate::later::HandlerError> {
    Names::default().handler_value(handler, value)
}

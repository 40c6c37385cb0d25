//! Derive macros for elements: each argument and each handler is declared once, on the struct.
//!
//! `#[derive(Arguments)]` makes the list of arguments for the spec and the function that reads
//! them; `#[derive(Handlers)]` makes the list of handlers and the functions that answer them. Both
//! are described where their traits are, in `thruway_element`, which exports them.
//!
//! *Absent here:* any knowledge of elements. The code that is made calls `thruway_element` only.
#![forbid(unsafe_code)]

mod arguments;
mod attributes;
mod fields;
mod handlers;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Implements `thruway_element::Arguments`: see there.
#[proc_macro_derive(Arguments, attributes(arg, new, part))]
pub fn arguments(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    arguments::derive(&input).unwrap_or_else(|error| error.into_compile_error()).into()
}

/// Implements `thruway_element::Handlers`: see there.
#[proc_macro_derive(Handlers, attributes(handler, arg, part))]
pub fn handlers(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    handlers::derive(&input).unwrap_or_else(|error| error.into_compile_error()).into()
}

//! The manual of every element, from its spec.

mod json;
mod specs;
mod text;

use std::process::ExitCode;

use thruway_element::{Catalog as _, nearest};
use thruway_elements::CATALOG;

/// Runs `thruway elements`.
///
/// # Errors
/// There is no such element.
pub fn main(name: Option<&str>, as_json: bool) -> anyhow::Result<ExitCode> {
    let Some(name) = name else {
        match as_json {
            true => outln!("{:#}", json::list()),
            false => out!("{}", text::list()),
        }
        return Ok(ExitCode::SUCCESS);
    };
    let Some(entry) = CATALOG.entry(name) else {
        let meant = nearest(name, CATALOG.names());
        let meant = meant.map_or(String::new(), |meant| format!("; did you mean {meant}?"));
        anyhow::bail!("no element class '{name}'{meant}");
    };
    match as_json {
        true => outln!("{:#}", json::page(&entry.spec)),
        false => out!("{}", text::page(&entry.spec)),
    }
    Ok(ExitCode::SUCCESS)
}

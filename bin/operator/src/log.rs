//! Messages for people.

use std::io::Write as _;
use std::sync::Arc;

use thruway_operator::Log;

/// Writes a line for people.
pub fn line(text: &str) {
    // Where nobody reads there is nobody to report it to.
    let _ = writeln!(std::io::stderr(), "thruway-operator: {text}");
}

/// The same, for the library.
pub fn logger() -> Log {
    Arc::new(line)
}

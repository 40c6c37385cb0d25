//! Formats for programs.

use serde::Serialize;
use thruway::outln;

/// What is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// JSON, as the API gives it
    Json,
    /// The same as YAML
    Yaml,
    /// A table with more columns, where there is a table
    Wide,
}

/// Prints a value; wide is for tables, so such a value is YAML.
pub fn print(value: &impl Serialize, format: Format) -> anyhow::Result<()> {
    let text = match format {
        Format::Json => serde_json::to_string_pretty(value)?,
        Format::Yaml | Format::Wide => serde_saphyr::to_string(value)?,
    };
    outln!("{}", text.trim_end());
    Ok(())
}

//! What commands print: text for people, or data for programs.

use clap::Args;
use serde::Serialize;
use thruway::outln;
use thruway_client::shown_json;

/// Output formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// JSON, as the API returns it
    Json,
    /// The same as YAML
    Yaml,
    /// Text with more columns or lines
    Wide,
}

/// The format of an output.
#[derive(Debug, Clone, Copy, Args)]
pub struct OutputArgs {
    /// Output format [default: text]
    #[arg(short, long, value_enum)]
    output: Option<Format>,
}

impl OutputArgs {
    /// The format for programs, if one is selected.
    pub fn data(&self) -> Option<Data> {
        match self.output {
            Some(Format::Json) => Some(Data::Json),
            Some(Format::Yaml) => Some(Data::Yaml),
            Some(Format::Wide) | None => None,
        }
    }

    /// Whether wide output is selected.
    pub fn is_wide(&self) -> bool {
        self.output == Some(Format::Wide)
    }
}

/// A format for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Data {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

impl Data {
    /// Prints a value.
    pub fn print(self, value: &impl Serialize) -> anyhow::Result<()> {
        outln!("{}", self.text(value)?);
        Ok(())
    }

    /// The text of a value.
    pub fn text(self, value: &impl Serialize) -> anyhow::Result<String> {
        Ok(match self {
            Data::Json => shown_json(&serde_json::to_string_pretty(value)?),
            Data::Yaml => serde_saphyr::to_string(value)?.trim_end().to_owned(),
        })
    }

    /// Prints one of many values that come one by one: a line of JSON, or a document of YAML.
    pub fn print_next(self, value: &impl Serialize) -> anyhow::Result<()> {
        match self {
            Data::Json => outln!("{}", shown_json(&serde_json::to_string(value)?)),
            Data::Yaml => outln!("---\n{}", self.text(value)?),
        }
        Ok(())
    }
}

/// A text as one line.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

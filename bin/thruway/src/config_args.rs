//! Arguments of every command that takes a configuration.

use clap::Args;
use thruway_lang::{Diagnostics, Source, Variables};

use crate::load::{Libraries, Origin, click_path};
use crate::log;

/// A configuration and its variables.
#[derive(Args)]
pub struct ConfigArgs {
    /// Configuration file, `-` for standard input
    #[arg(value_name = "FILE")]
    pub file: Option<String>,
    /// Configuration text instead of a file
    #[arg(short = 'e', long, value_name = "TEXT")]
    pub expression: Option<String>,
    /// Variables of the configuration: NAME=VALUE
    #[arg(value_name = "NAME=VALUE")]
    pub variables: Vec<String>,
}

impl ConfigArgs {
    /// The configuration file, where there is one that can be read again.
    pub fn named_file(&self) -> Option<&str> {
        let file = self.file.as_deref().filter(|file| *file != "-");
        file.filter(|_| self.expression.is_none())
    }

    /// The text and the variables.
    pub fn read(&self) -> anyhow::Result<(Source, Variables)> {
        let mut words: Vec<&String> = self.variables.iter().collect();
        let origin = match (&self.expression, &self.file) {
            (Some(text), file) => {
                words.extend(file);
                Origin::Expression(text.clone())
            }
            (None, Some(file)) => Origin::File(file.clone()),
            (None, None) => anyhow::bail!("no configuration; name a file, or give -e TEXT"),
        };
        let mut variables = Variables::new();
        for word in words {
            if !variables.assign(word) {
                anyhow::bail!("'{word}' is not of the form NAME=VALUE");
            }
        }
        Ok((origin.read()?, variables.known_only()))
    }
}

/// Prints errors and warnings for people.
pub fn report(diagnostics: &Diagnostics) {
    err!("{}", diagnostics.render(log::colour()));
}

/// The libraries that `require` finds.
pub fn libraries() -> Libraries {
    Libraries::new(&click_path())
}

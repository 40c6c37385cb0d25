//! `click-xform`: replaces patterns of elements in a configuration, until none is left.

use thruway_elements::CATALOG;
use thruway_lang::patterns::{self, Pattern};
use thruway_lang::{Variables, unparse};

use super::config::{graph, write};
use super::options::{Args, set_output};
use crate::load::{Libraries, Origin, click_path};

/// A command line.
struct Command {
    origin: Option<Origin>,
    output: Option<String>,
    /// Files of patterns, in their order.
    patterns: Vec<String>,
    path: String,
    variables: Variables,
    is_reverse: bool,
    verbose: bool,
}

/// Runs the tool.
///
/// # Errors
/// What is wrong with the command line, a file, or the patterns.
pub fn run(args: &[String]) -> Result<(), String> {
    let command = parse(args)?;
    let origin = command.origin.unwrap_or(Origin::File("-".into()));
    let source = origin.read().map_err(|error| error.to_string())?;
    let graph = graph(source, &command.path, &command.variables)
        .ok_or("the configuration has errors; nothing was changed")?;
    let mut patterns = Vec::new();
    for file in &command.patterns {
        patterns.push(read(file, &command.path, command.is_reverse)?);
    }
    if command.patterns.is_empty() {
        errln!("click-xform: warning: no pattern files: write click-xform ROUTERFILE PATTERNFILE");
    }
    if command.is_reverse {
        // Those of one file are in this order already.
        patterns.reverse();
    }
    let patterns: Vec<Pattern> = patterns.into_iter().flatten().collect();
    let changed = patterns::transform(graph, &patterns, |pattern, names| {
        if command.verbose {
            errln!("replacing '{}': {}", pattern.name(), names.join(", "));
        }
    });
    let changed = changed.map_err(|error| error.to_string())?;
    write(command.output.as_deref(), &unparse(&changed))
}

fn parse(args: &[String]) -> Result<Command, String> {
    let mut command = Command {
        origin: None,
        output: None,
        patterns: Vec::new(),
        path: click_path(),
        variables: Variables::new().known_only(),
        is_reverse: false,
        verbose: false,
    };
    let mut args = Args::new(args);
    while let Some((option, arg)) = args.next() {
        match option {
            "-f" | "--file" => command.set_origin(Origin::File(args.value()?))?,
            "-e" | "--expression" => command.set_origin(Origin::Expression(args.value()?))?,
            "-p" | "--patterns" => command.patterns.push(args.value()?),
            "-o" | "--output" => set_output(&mut command.output, args.value()?)?,
            "-C" | "--clickpath" => command.path = args.value()?,
            "-r" | "--reverse" => command.is_reverse = true,
            "+r" | "--no-reverse" => command.is_reverse = false,
            "-V" | "--verbose" => command.verbose = true,
            _ if option.starts_with('-') && option != "-" => {
                return Err(format!("unrecognized option '{option}'; try --help"));
            }
            _ if command.variables.assign(arg) => {}
            _ if command.origin.is_none() => command.set_origin(Origin::File(arg.to_owned()))?,
            _ => command.patterns.push(arg.to_owned()),
        }
    }
    Ok(command)
}

impl Command {
    fn set_origin(&mut self, origin: Origin) -> Result<(), String> {
        match self.origin.replace(origin) {
            Some(_) => Err("router configuration specified twice".into()),
            None => Ok(()),
        }
    }
}

/// The patterns of a file; one without any is a warning.
fn read(file: &str, path: &str, is_reverse: bool) -> Result<Vec<Pattern>, String> {
    let source = Origin::File(file.to_owned()).read().map_err(|error| error.to_string())?;
    let (patterns, found) = patterns::read(source, &CATALOG, &Libraries::new(path), is_reverse);
    err!("{}", found.click());
    if found.has_errors() {
        return Err(format!("the patterns in {file} have errors; nothing was changed"));
    }
    if patterns.is_empty() {
        errln!(
            "click-xform: warning: {file} has no patterns: a pattern is 'elementclass X {{ ... }}' \
             with 'elementclass X_Replacement {{ ... }}'"
        );
    }
    Ok(patterns)
}

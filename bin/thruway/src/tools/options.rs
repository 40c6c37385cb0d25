//! The command lines of tools that read one configuration.

use thruway_lang::Variables;

use super::tool::Work;
use crate::load::{Origin, click_path};

/// What is to be printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Print {
    /// The configuration.
    Configuration,
    /// The classes in use.
    Classes,
    /// The names of elements.
    Names,
    /// `NAME :: CLASS` of elements.
    Declarations,
}

/// A command line.
pub struct Options {
    pub origin: Option<Origin>,
    pub output: Option<String>,
    pub path: String,
    pub variables: Variables,
    pub print: Print,
    /// Report changes of the configuration.
    pub verbose: bool,
}

/// The next argument: an option with its value (`--file=NAME`), or a word.
pub struct Args<'a> {
    rest: std::slice::Iter<'a, String>,
    option: &'a str,
    attached: Option<&'a str>,
}

impl<'a> Args<'a> {
    pub fn new(args: &'a [String]) -> Args<'a> {
        Args { rest: args.iter(), option: "", attached: None }
    }

    /// The value of the option that was read last.
    pub fn value(&mut self) -> Result<String, String> {
        let value = self.attached.take().or_else(|| self.rest.next().map(String::as_str));
        let missing = || format!("option '{}' requires an argument", self.option);
        value.map(str::to_owned).ok_or_else(missing)
    }
}

impl<'a> Iterator for Args<'a> {
    /// The option without its value, and all of the argument.
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        let arg = self.rest.next()?;
        (self.option, self.attached) = match arg.split_once('=') {
            Some((option, value)) if option.starts_with("--") => (option, Some(value)),
            _ => (arg.as_str(), None),
        };
        Some((self.option, arg))
    }
}

/// Reads the command line of a tool.
///
/// # Errors
/// What is wrong with it.
pub fn parse(work: Work, args: &[String]) -> Result<Options, String> {
    let mut options = Options {
        origin: None,
        output: None,
        path: click_path(),
        variables: Variables::new().known_only(),
        print: Print::Configuration,
        verbose: false,
    };
    let mut args = Args::new(args);
    while let Some((option, arg)) = args.next() {
        match option {
            "-f" | "--file" => options.set_origin(Origin::File(args.value()?))?,
            "-e" | "--expression" => options.set_origin(Origin::Expression(args.value()?))?,
            "-o" | "--output" => set_output(&mut options.output, args.value()?)?,
            "-C" | "--clickpath" => options.path = args.value()?,
            // Configurations are never archives here, and variables are always expanded.
            "--config" | "--expand-vars" => {}
            "-" => options.set_origin(Origin::File("-".into()))?,
            _ if special(work, option, &mut options) => {}
            _ if option.starts_with('-') => return Err(format!("unrecognized option '{option}'")),
            _ if options.variables.assign(arg) => {}
            _ => options.set_origin(Origin::File(arg.to_owned()))?,
        }
    }
    Ok(options)
}

/// Options of one tool that have no value.
fn special(work: Work, option: &str, options: &mut Options) -> bool {
    match (work, option) {
        (Work::Undead, "-V" | "--verbose") => options.verbose = true,
        // There is one driver.
        (Work::Undead, "-c" | "-k" | "--kernel" | "-u" | "--user") => {}
        (Work::Undead, _) => return false,
        (_, "-c" | "--classes") => options.print = Print::Classes,
        (_, "-n" | "--names" | "--elements") => options.print = Print::Names,
        (_, "-d" | "--decls" | "--declarations") => options.print = Print::Declarations,
        _ => return false,
    }
    true
}

/// Where to write, which can be said once.
pub fn set_output(output: &mut Option<String>, file: String) -> Result<(), String> {
    match output.replace(file) {
        Some(_) => Err("--output file specified twice".into()),
        None => Ok(()),
    }
}

impl Options {
    fn set_origin(&mut self, origin: Origin) -> Result<(), String> {
        if self.origin.is_some() {
            return Err("router configuration specified twice".into());
        }
        self.origin = Some(origin);
        Ok(())
    }
}

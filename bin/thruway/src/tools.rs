//! The tools of Click's users, by the names and options that their scripts know: `thruway flatten`
//! is also `click-flatten`, where the program is called by that name.

use std::collections::BTreeSet;
use std::process::ExitCode;

use thruway_element::Catalog as _;
use thruway_elements::CATALOG;
use thruway_lang::{Graph, resolve, unparse};

use crate::load::Origin;

mod combine;
mod config;
mod help;
mod link;
mod options;
mod tool;
mod uncombine;
mod undead;
mod xform;

use config::{graph, write};
use options::Print;
use tool::{Tool, Work, fail, find};

/// Features of Click's drivers besides elements that Thruway provides, too.
const FEATURES: &[&str] = &["ip6", "umultithread", "userlevel"];

/// The tool that a program of this name is, and whether it is Click's `click-buildtool`.
pub fn called(program: &str) -> Option<&str> {
    let name = program.strip_prefix("click-")?;
    (name == "buildtool" || find(name).is_some()).then_some(name)
}

/// Whether `thruway NAME` is one of them.
pub fn is_tool(name: &str) -> bool {
    find(name).is_some()
}

/// Runs a tool with its arguments.
pub fn main(name: &str, args: &[String]) -> ExitCode {
    // `click-buildtool provides` is the one of its commands that is of use without building.
    let (name, args) = match (name, args.split_first()) {
        ("buildtool", Some((command, rest))) if command == "provides" => ("provides", rest),
        _ => (name, args),
    };
    let Some(tool) = find(name) else {
        return fail(name, "only 'click-buildtool provides' is known: there is nothing to build");
    };
    if let Work::None(why) = tool.work {
        return fail(name, &format!("there is no such tool: {why}"));
    }
    let asks = |options: &[&str]| args.iter().any(|arg| options.contains(&arg.as_str()));
    if asks(&["--help"]) {
        help::print(tool);
        return ExitCode::SUCCESS;
    }
    if asks(&["-v", "--version"]) {
        outln!("click-{name} (Thruway) {}", env!("CARGO_PKG_VERSION"));
        return ExitCode::SUCCESS;
    }
    match tool.work {
        Work::Provides => provides(args),
        Work::Combine => ended(name, combine::run(args)),
        Work::Uncombine => ended(name, uncombine::run(args)),
        Work::Transform => ended(name, xform::run(args)),
        _ => configure(tool, args),
    }
}

/// The exit status of a tool; an error is reported.
fn ended(name: &str, result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => fail(name, &why),
    }
}

/// Exit status 0 if all of them are existing elements or features.
fn provides(args: &[String]) -> ExitCode {
    let verbose = args.iter().any(|arg| ["-V", "--verbose"].contains(&arg.as_str()));
    let mut missing = 0;
    for wanted in args.iter().filter(|arg| !arg.starts_with('-')) {
        // `A|B` is one or the other.
        let is_there = |name: &str| CATALOG.spec(name).is_some() || FEATURES.contains(&name);
        if !wanted.split('|').any(is_there) {
            missing += 1;
            if verbose {
                errln!("click-provides: '{wanted}' is not provided");
            }
        }
    }
    if missing == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs a tool on one configuration.
fn configure(tool: &Tool, args: &[String]) -> ExitCode {
    let name = tool.name;
    let options = match options::parse(tool.work, args) {
        Ok(options) => options,
        Err(why) => {
            errln!("click-{name}: {why}");
            errln!("Usage: click-{name} [OPTION]... [ROUTERFILE]");
            return fail(name, "try --help for more");
        }
    };
    let origin = options.origin.unwrap_or(Origin::File("-".into()));
    let source = match origin.read() {
        Ok(source) => source,
        Err(error) => return fail(name, &error.to_string()),
    };
    let text = source.text.clone();
    let Some(graph) = graph(source, &options.path, &options.variables) else {
        return ExitCode::FAILURE;
    };
    let out = match tool.work {
        Work::Keep(why) => Ok(format!("// click-{name}: {why}.\n{text}")),
        Work::Undead => undead_text(&graph, options.verbose),
        _ => Ok(listed(&graph, options.print)),
    };
    ended(name, out.and_then(|text| write(options.output.as_deref(), &text)))
}

/// The configuration without dead elements; its ports must be valid.
fn undead_text(graph: &Graph, verbose: bool) -> Result<String, String> {
    let (_, found) = resolve(graph);
    if found.has_errors() {
        err!("{}", found.click());
        return Err("the configuration has errors; 'thruway check' shows more of them".into());
    }
    let alive = undead::undead(graph, |doing, decl| {
        if verbose {
            errln!("{}: {doing} '{} :: {}'", decl.landmark, decl.name, decl.class);
        }
    })?;
    Ok(unparse(&alive))
}

/// The requested text; lists are sorted, with a line for each item.
fn listed(graph: &Graph, print: Print) -> String {
    let elements = graph.elements.iter();
    let lines: BTreeSet<String> = match print {
        Print::Configuration => return unparse(graph),
        Print::Classes => elements.map(|element| element.class.clone()).collect(),
        Print::Names => elements.map(|element| element.name.clone()).collect(),
        Print::Declarations => {
            elements.map(|element| format!("{} :: {}", element.name, element.class)).collect()
        }
    };
    lines.into_iter().map(|line| line + "\n").collect()
}

//! The program `thruway` as a library, for its binary and for the benches (`bench/`).
//!
//! [`program`] is the program: run, check, graph, elements, fmt, ctl, reload, offload, top, trace,
//! doctor, bench, estimate, calibrate, plan, completions, man; and, under the name `click`,
//! Click's userlevel driver; under `click-flatten` and others, its tools. The public modules are
//! what the benches share with it.
#![forbid(unsafe_code)]
// `output` has the macros that do not panic.
#![deny(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
pub mod output;

mod bench;
mod calibrate;
mod calibrate_function;
mod check;
mod cli;
mod click;
mod config_args;
mod ctl;
mod distress;
mod doctor;
pub mod draw;
mod estimate;
mod flow_line;
mod instance;
mod isolate;
pub mod load;
mod log;
mod manager;
mod manual;
mod nf_new;
mod offload;
mod plan;
mod reach;
mod reload;
pub mod replay;
mod run;
mod run_args;
pub mod shell;
mod signals;
mod summary;
mod swap;
pub mod table;
mod tools;
mod top;
mod trace;
pub mod traffic;
mod worker;

use std::process::ExitCode;

pub use click::glob;
pub use reach::reach;
pub use signals::with_signals_held;
pub use thruway_client::Client;

/// Runs the program with the arguments of this process; returns its exit code.
pub fn program() -> ExitCode {
    guarded(command)
}

/// Runs a program; prints panics as one line, and ends it if its output cannot be written;
/// returns its exit code.
pub fn guarded(program: impl FnOnce() -> ExitCode) -> ExitCode {
    distress::prepare();
    output::guarded(program)
}

/// The description of a host: of this one, as `thruway calibrate` wrote it, or that in `file`.
///
/// # Errors
/// This host is not calibrated, or the file cannot be read.
pub fn hardware(file: Option<&std::path::Path>) -> anyhow::Result<thruway_model::Hardware> {
    estimate::hardware(file)
}

/// What the description of a host lacks of what isolated functions cost, and what to do; none if an
/// estimate has all of it.
pub fn lacks_isolation(
    estimate: &thruway_model::estimate::Estimate,
    hardware: &thruway_model::Hardware,
) -> Option<String> {
    estimate::lacks_isolation(estimate, hardware)
}

fn command() -> ExitCode {
    let args: Vec<String> =
        std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let program = args.first().map(String::as_str).unwrap_or_default();
    let name = std::path::Path::new(program).file_name().and_then(|name| name.to_str());
    if name == Some("click") {
        return click::main(args.into_iter().skip(1).collect());
    }
    if let Some(tool) = name.and_then(tools::called) {
        return tools::main(tool, &args[1..]);
    }
    match args.get(1).map(String::as_str) {
        Some("click") => return click::main(args.into_iter().skip(2).collect()),
        Some(tool) if tools::is_tool(tool) => return tools::main(tool, &args[2..]),
        Some(command) if manager::is_command(command) => {
            // Names of files as they came: they need not be text.
            return manager::main(&std::env::args_os().skip(1).collect::<Vec<_>>());
        }
        // clap knows their names, not their arguments.
        Some("help") if args.get(2).is_some_and(|name| tools::is_tool(name)) => {
            return tools::main(&args[2], &["--help".to_owned()]);
        }
        Some("help") if args.get(2).is_some_and(|name| manager::is_command(name)) => {
            return manager::main(&[args[2].as_str(), "--help"].map(Into::into));
        }
        _ => {}
    }
    cli::main(args)
}

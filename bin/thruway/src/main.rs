//! One binary: run, check, graph, elements, fmt, ctl, reload, top, trace, doctor, bench, estimate, calibrate, plan; and,
//! under the name `click`, Click's userlevel driver.
#![forbid(unsafe_code)]
// `output` has the macros that do not panic.
#![deny(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
mod output;

mod bench;
mod calibrate;
mod check;
mod cli;
mod click;
mod client;
mod ctl;
mod distress;
mod doctor;
mod draw;
mod estimate;
mod instance;
mod isolate;
mod load;
mod log;
mod manual;
mod nf_new;
mod plan;
mod reach;
mod reload;
mod run;
mod signals;
mod summary;
mod swap;
mod table;
mod top;
mod trace;
mod worker;

use std::process::ExitCode;

fn main() -> ExitCode {
    distress::prepare();
    output::guarded(command)
}

fn command() -> ExitCode {
    let args: Vec<String> =
        std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let program = args.first().map(String::as_str).unwrap_or_default();
    let name = std::path::Path::new(program).file_name().and_then(|name| name.to_str());
    if name == Some("click") {
        return click::main(args.into_iter().skip(1).collect());
    }
    if args.get(1).is_some_and(|arg| arg == "click") {
        return click::main(args.into_iter().skip(2).collect());
    }
    cli::main(args)
}

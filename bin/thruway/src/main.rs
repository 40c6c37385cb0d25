//! One binary: run, check, graph, elements, fmt, ctl, top, trace, doctor, bench, estimate, calibrate, plan; and,
//! under the name `click`, Click's userlevel driver.
#![forbid(unsafe_code)]

mod bench;
mod calibrate;
mod check;
mod cli;
mod click;
mod client;
mod ctl;
mod doctor;
mod draw;
mod estimate;
mod instance;
mod isolate;
mod load;
mod manual;
mod nf_new;
mod plan;
mod reach;
mod run;
mod signals;
mod swap;
mod table;
mod top;
mod trace;
mod worker;

use std::process::ExitCode;

fn main() -> ExitCode {
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

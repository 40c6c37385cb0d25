//! One binary: `thruway click` and, under the name `click`, Click's userlevel driver.
#![forbid(unsafe_code)]

mod bench;
mod click;
mod load;
mod signals;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args();
    let program = args.next().unwrap_or_default();
    let name = std::path::Path::new(&program).file_name().and_then(|name| name.to_str());
    if name == Some("click") {
        return click::main(args.collect());
    }
    let mut args: Vec<String> = args.collect();
    if args.first().is_some_and(|arg| arg == "click") {
        return click::main(args.split_off(1));
    }
    if args.first().is_some_and(|arg| arg == "bench") {
        return bench::main(args.split_off(1));
    }
    ExitCode::FAILURE
}

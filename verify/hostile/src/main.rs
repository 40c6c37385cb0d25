//! `thruway-hostile storm [STEPS]`: a hostile process beside an honest one, for so many Master
//! steps (100 million unless set otherwise). The roles `hostile` and `neighbour` are those two
//! processes, which it starts itself.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use thruway_hostile::{storm, worker};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let result = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["hostile"] => worker::hostile(),
        ["neighbour"] => worker::neighbour(),
        ["storm"] => run("100000000"),
        ["storm", steps] => run(steps),
        _ => Err("usage: thruway-hostile storm [STEPS]".into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(steps: &str) -> Result<(), Box<dyn std::error::Error>> {
    let steps = steps.parse().map_err(|_| format!("STEPS is a number, not '{steps}'"))?;
    print!("{}", storm::storm(&std::env::current_exe()?, steps)?);
    Ok(())
}

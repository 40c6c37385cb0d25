//! The program of the agent: `init` of the image starts it, and ends the machine after it.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    match thruway_guest::serve() {
        Ok(how) => {
            println!("the function ended: {how}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("thruway-guest: {error}");
            ExitCode::FAILURE
        }
    }
}

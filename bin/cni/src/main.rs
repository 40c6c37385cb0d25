//! The program `thruway-cni`; see the library.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser as _;
use thruway_cni::{Cli, answer, print};

fn main() -> ExitCode {
    if std::env::var_os("CNI_COMMAND").is_none() {
        return match Cli::parse().run() {
            Ok(line) => {
                print(&line);
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("thruway-cni: {error}");
                ExitCode::FAILURE
            }
        };
    }
    match answer(|name| std::env::var(name).ok(), std::io::stdin().lock()) {
        Ok(result) => {
            if let Some(result) = result {
                print(&result.to_string());
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            print(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

//! What people call: a port before the first pod, and the plugin at its place.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand};

use crate::config::check_port_name;
use crate::error::CniError;
use crate::plug::host_socket;
use crate::port;

/// Name of the program, by which configurations name it as their `type`.
const PROGRAM: &str = "thruway-cni";

/// Attaches pods to ports of chains.
///
/// A container runtime calls this program with CNI_COMMAND in its environment, as a plugin by the
/// CNI specification. The commands are for people.
#[derive(Debug, Parser)]
#[command(name = PROGRAM, version)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make or remove a port that pods share
    Port {
        #[command(subcommand)]
        command: PortCommand,
    },
    /// Copy this program into a directory of CNI plugins, e.g. /opt/cni/bin
    Install {
        /// The directory
        directory: PathBuf,
    },
}

#[derive(Debug, Subcommand)]
enum PortCommand {
    /// Make a port, so that a chain can start before the first pod
    Add {
        /// The interface that the chain names
        name: String,
        /// Longest packet of the port and of its pods, in bytes
        #[arg(long, value_parser = clap::value_parser!(u32).range(68..=65535))]
        mtu: Option<u32>,
    },
    /// Remove a port; pods that have it lose their interface
    Delete {
        /// The interface that the chain names
        name: String,
    },
}

impl Cli {
    /// Carries a command out; the line to be printed.
    ///
    /// # Errors
    /// A name is wrong or taken; the system refused something.
    pub fn run(self) -> Result<String, CniError> {
        match self.command {
            Command::Port { command: PortCommand::Add { name, mtu } } => {
                check(&name)?;
                let port = port::ensure(&mut host_socket()?, &name, mtu)?;
                Ok(format!("port {name}, MTU {}", port.outer.mtu))
            }
            Command::Port { command: PortCommand::Delete { name } } => {
                check(&name)?;
                match port::delete(&mut host_socket()?, &name)? {
                    true => Ok(format!("port {name} removed")),
                    false => Ok(format!("there is no port {name}")),
                }
            }
            Command::Install { directory } => install(&directory),
        }
    }
}

fn check(name: &str) -> Result<(), CniError> {
    check_port_name(name, false).map_err(|why| CniError::config(format!("port '{name}': {why}")))
}

/// Copies this program under its name. A runtime may call it meanwhile: it finds the old one or the
/// new one, whole.
fn install(directory: &Path) -> Result<String, CniError> {
    let failed = |error| CniError::io(directory.display(), error);
    let own = std::env::current_exe().map_err(failed)?;
    let target = directory.join(PROGRAM);
    let interim = directory.join(format!(".{PROGRAM}.{}", std::process::id()));
    let copy = || -> std::io::Result<()> {
        // With the mode of this one, which can be run.
        fs::copy(&own, &interim)?;
        fs::File::open(&interim)?.sync_all()?;
        fs::rename(&interim, &target)
    };
    let done = copy();
    if done.is_err() {
        let _ = fs::remove_file(&interim);
    }
    done.map_err(failed)?;
    Ok(format!("{}", target.display()))
}

/// Writes a line to standard output; a reader that is gone is no error.
pub fn print(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

//! What can go wrong with an isolated function, each with its remedy.

use crate::exit::Exit;
use crate::sandbox::Measure;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use thruway_exchange::socket::SocketError;
use thruway_exchange::{LinkError, PeerFault};
use thruway_nf_abi::VERSION;

/// Why a function could not be started, or does not run any longer.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// There is no such file.
    #[error("there is no program {}: {source}; give the path of the function's program", path.display())]
    NoProgram {
        /// The path that was given.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The image of a virtual machine lacks a file.
    #[error(
        "the virtual machine's image has no {}: {source}; it is a directory with the files kernel \
         and initramfs, which scripts/guest-image makes, or for Machine a disk", path.display()
    )]
    Image {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file cannot be run as an isolated function.
    #[error("{} cannot be run: {why}", path.display())]
    NotExecutable {
        /// The path that was given.
        path: PathBuf,
        /// Why not, and what to do.
        why: String,
    },
    /// A library that the program needs was not found where libraries may come from.
    #[error(
        "{} needs the library {library}, which is not in {searched}; install it, link the program \
         statically, or name the directory with LIBRARIES",
        path.display()
    )]
    NoLibrary {
        /// The program.
        path: PathBuf,
        /// The library's name in the program.
        library: String,
        /// Where it was looked for.
        searched: String,
    },
    /// An argument of the order cannot be used.
    #[error("{what}: {why}")]
    Argument {
        /// Which argument.
        what: &'static str,
        /// Why, and what to do.
        why: String,
    },
    /// A measure of the sandbox cannot be applied, and isolation is strict.
    #[error(
        "no {measure} (at \"{step}\": {source}): {}; ISOLATION relaxed runs the function without",
        measure.remedy()
    )]
    Sandbox {
        /// The measure.
        measure: Measure,
        /// What was being done.
        step: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The program was not started, though its sandbox was ready.
    #[error("{} cannot be started: {source}; {hint}", path.display())]
    Exec {
        /// The program.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
        /// What to do.
        hint: &'static str,
    },
    /// Setting up the process took too long, or it died while being set up.
    #[error("the process of {} was not set up: {why}", path.display())]
    Setup {
        /// The program.
        path: PathBuf,
        /// What happened.
        why: String,
    },
    /// The function's process ended by itself.
    #[error("the function {exit}{}{}", before_hello(*silent), last_output(output))]
    Exited {
        /// How it ended.
        exit: Exit,
        /// It never said HELLO: perhaps it is no function, or was built for another host.
        silent: bool,
        /// The end of what it wrote.
        output: String,
    },
    /// The function did not attach in time.
    #[error(
        "the function did not attach within {deadline:?}: a function's program calls the library's \
         run() at its start; a slow one needs a longer ATTACH_TIMEOUT{}",
        last_output(output)
    )]
    NeverAttached {
        /// How long it had.
        deadline: Duration,
        /// The end of what it wrote.
        output: String,
    },
    /// The function broke the protocol of the control socket.
    #[error("the function violated the control protocol: {why}{}", last_output(output))]
    Protocol {
        /// What it did.
        why: String,
        /// The end of what it wrote.
        output: String,
    },
    /// The function and the element that it is for do not fit.
    #[error("the function {name:?} does not fit: {why}")]
    Misfit {
        /// The function's name.
        name: String,
        /// Why, and what to do.
        why: String,
    },
    /// The function was built for another function interface than that of this Thruway.
    #[error("the function cannot run under this Thruway: {why}")]
    Interface {
        /// What differs, and what to do.
        why: String,
    },
    /// The function says that it cannot begin.
    #[error("the function cannot begin: {why}")]
    CannotBegin {
        /// What it says.
        why: String,
    },
    /// The function made no progress while packets waited.
    #[error("the function hung: no progress for {hang:?} while packets waited")]
    Hung {
        /// How long.
        hang: Duration,
    },
    /// The function did not end when it was asked to.
    #[error("the function did not end within {drain:?} after it was asked to; it was killed")]
    NotDrained {
        /// How long it had.
        drain: Duration,
    },
    /// A Master saw that the function broke the protocol of the rings.
    #[error("the function broke the exchange: {0}")]
    Fault(#[from] PeerFault),
    /// There is no memory for its regions, or their sizes make no link.
    #[error("the function's regions: {0}")]
    Regions(#[from] LinkError),
    /// A machine with standard drivers ended by itself.
    #[error("the virtual machine {exit}{}", last_output(output))]
    MachineEnded {
        /// How it ended.
        exit: Exit,
        /// The end of its console.
        output: String,
    },
    /// The drivers of a machine did not use its network cards in time.
    #[error(
        "the virtual machine's drivers did not use all of its network cards within {deadline:?}: a \
         slow one needs a longer ATTACH_TIMEOUT, one with fewer cards fewer CARDS{}",
        last_output(output)
    )]
    NeverReady {
        /// How long it had.
        deadline: Duration,
        /// The end of its console.
        output: String,
    },
    /// A machine wrote to the rings of a network card what no driver writes.
    #[error(
        "the virtual machine broke the protocol of a network card: {why}{}",
        last_output(output)
    )]
    Card {
        /// What it did.
        why: String,
        /// The end of its console.
        output: String,
    },
    /// QEMU does not do what its monitor is asked to do.
    #[error("{what}: {why}")]
    Monitor {
        /// What it was asked for.
        what: &'static str,
        /// What it answered.
        why: String,
    },
    /// The function was stopped while it was being started.
    #[error("the function was stopped")]
    Stopped,
    /// It lets its messages pile up, or has closed its end.
    #[error("the function does not listen: {0}")]
    Socket(#[from] SocketError),
    /// A system call of the host failed.
    #[error("{what}: {source}")]
    System {
        /// What was being done.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl HostError {
    /// An error of a system call.
    pub(crate) fn system(what: &'static str, source: impl Into<io::Error>) -> HostError {
        HostError::System { what, source: source.into() }
    }
}

/// What to do about a function that ended before it said anything.
fn before_hello(silent: bool) -> String {
    let remedy = || {
        format!(
            " before it attached: a function is a program that calls run() of the library in nf/sdk; \
             one that was built with that of an older Thruway must be rebuilt (this is version \
             {VERSION} of the function interface)"
        )
    };
    silent.then(remedy).unwrap_or_default()
}

/// The end of a function's output, as the end of an error's sentence.
fn last_output(output: &str) -> String {
    let output = output.trim();
    if output.is_empty() { String::new() } else { format!("; it said: {output}") }
}

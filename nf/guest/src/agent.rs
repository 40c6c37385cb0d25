//! Starts the function; passes messages and wake-ups on.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use thruway_exchange::socket::{Socket, SocketError, head};
use thruway_nf_abi::machine::{Frame, Handed};
use thruway_nf_abi::message::{Head, Kind, SOCKET_FD};
use thruway_nf_abi::{MAGIC, VERSION};

use crate::pci;
use crate::port::{Port, receive};

/// Why there is no function, or none any more.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The host is not there, or says what it should not.
    #[error("the host: {0}")]
    Host(#[from] io::Error),
    /// The system refused.
    #[error("the system: {0}")]
    System(#[from] Errno),
    /// The function's control socket.
    #[error("the function: {0}")]
    Function(#[from] SocketError),
    /// Nothing may be open before the agent starts.
    #[error("the function's control socket got the number {0}, not {SOCKET_FD}")]
    Number(i32),
    /// The program cannot be started.
    #[error("{program} cannot be started: {source}")]
    Program {
        /// Its path in the machine.
        program: String,
        /// What the system said.
        source: io::Error,
    },
}

/// Serves the host until the function has ended; gives how.
///
/// # Errors
/// [`AgentError`].
pub fn serve() -> Result<ExitStatus, AgentError> {
    // First of all, so that the function's end gets its number, which it is started with.
    let (theirs, ours) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::empty(), None)?;
    if theirs.as_raw_fd() != SOCKET_FD {
        return Err(AgentError::Number(theirs.as_raw_fd()));
    }
    fcntl_setfd(&ours, FdFlags::CLOEXEC)?;
    let (port, mut host) = Port::open()?;
    let hello = [&MAGIC.to_le_bytes()[..], &VERSION.to_le_bytes()].concat();
    port.send(Frame::Hello, &hello)?;
    let (frame, body) = receive(&mut host)?;
    if frame != Frame::Start {
        return Err(io::Error::other(format!("it sent {frame:?} before what to start")).into());
    }
    let mut child = start(&body)?;
    drop(theirs);
    let ours = Socket::from(ours);
    let from_function = Socket::from(ours.as_fd().try_clone_to_owned()?);
    let outward = port.clone();
    std::thread::spawn(move || report("the function", to_host(&from_function, &outward)));
    std::thread::spawn(move || report("the host", to_function(&mut host, &ours, &port)));
    Ok(child.wait()?)
}

/// What a thread ended by, on the console.
fn report(who: &str, ended: Result<(), AgentError>) {
    if let Err(error) = ended {
        println!("thruway-guest: from {who}: {error}");
    }
}

/// Starts the function's program: where its libraries are, its path, its arguments.
fn start(body: &[u8]) -> Result<Child, AgentError> {
    let text = String::from_utf8_lossy(body);
    let mut words = text.split_terminator('\0');
    let (libraries, program) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let mut command = Command::new(program);
    if !libraries.is_empty() {
        command.env("LD_LIBRARY_PATH", libraries);
    }
    let child = command.args(words).stdin(Stdio::null()).spawn();
    child.map_err(|source| AgentError::Program { program: program.into(), source })
}

/// Messages of the function, to the host.
fn to_host(function: &Socket, port: &Port) -> Result<(), AgentError> {
    loop {
        let message = match function.receive() {
            Err(SocketError::Closed) => return Ok(()),
            other => other?,
        };
        let bytes = [&message.head.to_bytes()[..], &message.body].concat();
        port.send(Frame::Message, &bytes)?;
    }
}

/// Messages of the host, to the function, with what stands for their descriptors.
fn to_function(host: &mut File, function: &Socket, port: &Port) -> Result<(), AgentError> {
    let mut fds: Vec<OwnedFd> = Vec::new();
    loop {
        let (frame, body) = receive(host)?;
        match frame {
            Frame::Regions => match handed(&body, port) {
                Ok(all) => fds = all,
                Err(why) => {
                    let why = format!("in its virtual machine: {why}");
                    let bytes = [&head(Kind::Failed).to_bytes()[..], why.as_bytes()].concat();
                    port.send(Frame::Message, &bytes)?;
                    return Err(io::Error::other(why).into());
                }
            },
            Frame::Message => {
                let (head, body) = Head::parse(&body).map_err(SocketError::from)?;
                let handed: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
                function.send(head, body, &handed)?;
                fds.clear();
            }
            other => return Err(io::Error::other(format!("it sent {other:?}")).into()),
        }
    }
}

/// What stands for the descriptors of a message.
fn handed(body: &[u8], port: &Port) -> Result<Vec<OwnedFd>, String> {
    let (all, rest) = body.as_chunks::<{ Handed::LEN }>();
    if !rest.is_empty() {
        return Err("the host's list of regions is cut off".into());
    }
    let one = |bytes: &[u8; Handed::LEN]| match Handed::parse(*bytes) {
        Some(Handed::Region { slot, len }) => {
            pci::memory(slot, len)?.file().map_err(|error| error.to_string())
        }
        Some(Handed::Line { link }) => line(link, port).map_err(|error| error.to_string()),
        None => Err("the host's list of regions has one of no known kind".into()),
    };
    all.iter().map(one).collect()
}

/// The function's end of a line that wakes the Master of a link.
fn line(link: u32, port: &Port) -> Result<OwnedFd, AgentError> {
    let flags = SocketFlags::CLOEXEC;
    let (theirs, ours) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    // A function never waits for its host.
    rustix::io::ioctl_fionbio(&theirs, true)?;
    let port = port.clone();
    std::thread::spawn(move || {
        let mut bytes = [0; 8];
        // An end that was closed ends it.
        while rustix::io::read(&ours, &mut bytes).is_ok_and(|count| count > 0) {
            if port.send(Frame::Wake, &link.to_le_bytes()).is_err() {
                return;
            }
        }
    });
    Ok(theirs)
}

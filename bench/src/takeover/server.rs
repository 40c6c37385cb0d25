//! The server of the connections, a process of its own: each end has as many descriptors as one
//! process may have.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use super::watch::{Watch, raise_file_limit};

/// Its address.
pub const SERVER: &str = "203.0.113.1:7000";
/// What it prints when it listens.
pub const READY: &str = "ready";
/// The number of what it listens at.
const LISTENER: usize = usize::MAX;
/// Between two looks.
const LOOK: Duration = Duration::from_secs(1);

/// Arguments of the server.
#[derive(Debug, clap::Args)]
pub struct ServerArgs {
    /// Connections at most
    connections: u32,
}

/// Answers everybody with what came, until it is killed.
///
/// # Errors
/// The address is taken, or the system refuses.
pub fn serve(arguments: &ServerArgs) -> anyhow::Result<()> {
    raise_file_limit(arguments.connections)?;
    let listener = TcpListener::bind(SERVER)?;
    listener.set_nonblocking(true)?;
    let mut watch = Watch::new()?;
    watch.add(&listener, LISTENER)?;
    outln!("{READY}");
    let mut streams: Vec<TcpStream> = Vec::new();
    loop {
        for number in watch.wait(LOOK)? {
            if number != LISTENER {
                answer(&watch, &mut streams[number]);
                continue;
            }
            while let Ok((stream, _)) = listener.accept() {
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                watch.add(&stream, streams.len())?;
                streams.push(stream);
            }
        }
    }
}

fn answer(watch: &Watch, stream: &mut TcpStream) {
    let mut bytes = [0; 256];
    match stream.read(&mut bytes) {
        // A few bytes always find room.
        Ok(len) if len > 0 => drop(stream.write(&bytes[..len])),
        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
        _ => watch.forget(&*stream),
    }
}

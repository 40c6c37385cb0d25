//! Connections to another host: what the end that calls does first.

use std::io::Read as _;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::greeting::{Greeting, keys};
use crate::key::Key;
use crate::stream::{Stream, prepare};

/// Connects and exchanges greetings; this end's own leaves with the first frame.
pub(crate) fn connect(to: SocketAddr, key: &Key, patience: Duration) -> Result<Stream, String> {
    let unreachable = |error: std::io::Error| error.to_string();
    let mut socket = TcpStream::connect_timeout(&to, patience).map_err(unreachable)?;
    prepare(&socket, patience)?;
    let mut theirs = [0; Greeting::LEN];
    socket.read_exact(&mut theirs).map_err(unreachable)?;
    let (theirs, own) = (Greeting::parse(&theirs)?, Greeting::new()?);
    let [to_them, from_them] = keys(key, &theirs, &own);
    Ok(Stream::new(socket, to, [from_them, to_them]).begin_with(&own.bytes()))
}

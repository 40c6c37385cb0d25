//! Finding a running Thruway: by the address that the user gives, or in the run directory.

use std::io::ErrorKind;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail};
use thruway_client::{Client, shown};
use thruway_port::run_directory::{self, Found};

/// Longest wait for an answer: longer than a ControlSocket waits for a handler.
const PATIENCE: Duration = Duration::from_secs(20);
/// Longest time from the creation of a socket's file to its listener.
const STARTING: Duration = Duration::from_millis(500);
/// Names a file with the token of a TCP port that is not in the run directory.
const TOKEN_FILE: &str = "THRUWAY_TOKEN_FILE";
/// Longest file of a token, bytes.
const TOKEN_MAX: u64 = 4096;

/// The address that is meant: the one given, or that of the one instance that runs.
pub fn address(given: Option<&str>) -> anyhow::Result<String> {
    if let Some(given) = given {
        return Ok(given.to_owned());
    }
    let found = run_directory::instances();
    let live: Vec<String> = found
        .iter()
        .filter(|(_, _, found)| *found == Found::Live)
        .map(|(_, path, _)| path.display().to_string())
        .collect();
    match &live[..] {
        [one] => Ok(one.clone()),
        [] => {
            let died = match found.len() {
                0 => String::new(),
                count => format!(" ({count} died and left their sockets)"),
            };
            bail!(
                "nothing runs that left a socket in {}{died}; start 'thruway run', as this user, or \
                 give the ADDRESS of a ControlSocket",
                run_directory::path().display()
            )
        }
        several => bail!(
            "{} instances run; give the ADDRESS of one of them:\n{}",
            several.len(),
            listing().join("\n")
        ),
    }
}

/// An instance that runs.
pub struct Instance {
    pub pid: u32,
    pub path: PathBuf,
    /// How it was started.
    pub command: String,
}

/// The instances of this user that run.
pub fn instances() -> Vec<Instance> {
    let live = run_directory::instances().into_iter().filter(|one| one.2 == Found::Live);
    let instances = live.map(|(pid, path, _)| {
        let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&arguments).replace('\0', " ").trim_end().to_owned();
        Instance { pid, path, command }
    });
    instances.collect()
}

/// The same, a line each: the address and what it runs.
pub fn listing() -> Vec<String> {
    let line = |one: &Instance| format!("  {}  {}", one.path.display(), shown(&one.command));
    instances().iter().map(line).collect()
}

/// Whether a word is an address rather than a handler's name.
pub fn is_address(word: &str) -> bool {
    let path = ["/", "./", "../"].iter().any(|begin| word.starts_with(begin));
    path || word.contains(':') || word.parse::<u16>().is_ok() || Path::new(word).exists()
}

/// Connects to an address as users give it.
///
/// # Errors
/// Nobody is there, or may not be asked, with what to do.
pub fn reach(address: &str) -> anyhow::Result<Client> {
    connect(address).map_err(|error| {
        let io = error.downcast_ref::<std::io::Error>();
        let why = match io.map(std::io::Error::kind) {
            Some(ErrorKind::NotFound) => {
                "there is no such socket; has the configuration one, such as \
                 ControlSocket(UNIX, /tmp/thruway.sock)?"
                    .to_owned()
            }
            Some(ErrorKind::PermissionDenied) => {
                "it is another user's; ask as that user or as root, or give it MODE and GROUP"
                    .to_owned()
            }
            Some(ErrorKind::ConnectionRefused) if is_file(address) => {
                "it is stale: its process died; start it again".to_owned()
            }
            Some(ErrorKind::ConnectionRefused) => "nobody listens there".to_owned(),
            Some(ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                format!("no answer in {} s", PATIENCE.as_secs())
            }
            _ => format!("{error:#}"),
        };
        anyhow!("cannot reach a ControlSocket at '{}': {why}", shown(address))
    })
}

fn is_file(address: &str) -> bool {
    address.contains('/') || Path::new(address).exists()
}

/// Connects to a Unix socket. Its file is there a moment before anybody listens at it, so that one
/// at which nobody does is asked for some time.
fn connect_file(path: &Path) -> std::io::Result<UnixStream> {
    let begin = Instant::now();
    loop {
        match UnixStream::connect(path) {
            Err(error)
                if error.kind() == ErrorKind::ConnectionRefused && begin.elapsed() < STARTING =>
            {
                std::thread::sleep(STARTING / 50);
            }
            connected => return connected,
        }
    }
}

fn connect(address: &str) -> anyhow::Result<Client> {
    if is_file(address) {
        let stream = connect_file(Path::new(address))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        return Client::greet(Box::new(stream), None);
    }
    let whole = match address.parse::<u16>() {
        Ok(port) => format!("127.0.0.1:{port}"),
        Err(_) => address.to_owned(),
    };
    let mut places = whole.to_socket_addrs()?;
    let place = places.next().ok_or_else(|| anyhow!("'{whole}' has no address"))?;
    let stream = TcpStream::connect_timeout(&place, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    // The token of a port of this host is not for other hosts.
    let own = place.ip().is_loopback().then(|| run_directory::token_name(place.port()));
    let token = token(own.map(|name| run_directory::file(&name)))?;
    Client::greet(Box::new(stream), token.as_deref())
}

/// The token that the user names, or that the run directory has.
fn token(own: Option<PathBuf>) -> anyhow::Result<Option<String>> {
    use std::io::Read as _;
    let named = std::env::var_os(TOKEN_FILE).map(PathBuf::from);
    let must = named.is_some();
    let Some(path) = named.or(own) else { return Ok(None) };
    let mut text = String::new();
    let read =
        std::fs::File::open(&path).and_then(|file| file.take(TOKEN_MAX).read_to_string(&mut text));
    match read {
        Ok(_) => Ok(Some(text.trim().to_owned())),
        Err(error) if must => bail!("{TOKEN_FILE}: {}: {error}", path.display()),
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};

    #[test]
    fn a_socket_at_which_nobody_listens_yet_is_not_stale() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("control");
        let own = socket(AddressFamily::UNIX, SocketType::STREAM, None).expect("a socket");
        bind(&own, &SocketAddrUnix::new(&path).expect("a short path")).expect("a new file");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(STARTING / 5);
                listen(&own, 1).expect("it is bound");
            });
            connect_file(&path).expect("a listener soon");
        });
        drop(own);
        let refused = connect_file(&path).expect_err("its process died");
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    }
}

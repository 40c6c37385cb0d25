//! A collector of flow records or samples, which messages go to by UDP.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use thruway_element::{ArgErrors, Args};

/// A message that was not sent.
#[derive(Debug, PartialEq, Eq)]
pub struct Unsent {
    /// Why, at the first time: what fails again and again is only counted.
    pub why: Option<String>,
}

/// The socket to a collector. It never waits.
#[derive(Debug)]
pub struct Collector {
    to: SocketAddr,
    socket: UdpSocket,
    is_reported: bool,
}

impl Collector {
    /// The address that an argument gives, if it is given.
    ///
    /// # Errors
    /// It is no address with a port.
    pub fn address(args: &Args<'_>, name: &str) -> Result<Option<SocketAddr>, ArgErrors> {
        let Some(text) = args.opt::<String>(name)? else { return Ok(None) };
        let message = || format!("'{text}' is no address with a port, as 192.0.2.1:4739");
        match text.parse() {
            Ok(address) => Ok(Some(address)),
            Err(_) => Err(args.error(name, message()).into()),
        }
    }

    /// Opens a socket to a collector; nothing is sent.
    ///
    /// # Errors
    /// The system's error, as a sentence.
    pub fn open(to: SocketAddr) -> Result<Collector, String> {
        let any: SocketAddr = match to {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let open = || -> io::Result<UdpSocket> {
            let socket = UdpSocket::bind(any)?;
            socket.connect(to)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        let socket = open().map_err(|error| failed(to, &error))?;
        Ok(Collector { to, socket, is_reported: false })
    }

    /// The address that messages come from.
    pub fn source(&self) -> IpAddr {
        // A socket that is connected has one.
        self.socket.local_addr().map_or(Ipv4Addr::UNSPECIFIED.into(), |address| address.ip())
    }

    /// Sends a message.
    ///
    /// # Errors
    /// [`Unsent`]; the message is lost.
    pub fn send(&mut self, message: &[u8]) -> Result<(), Unsent> {
        let Err(error) = self.socket.send(message) else { return Ok(()) };
        let is_first = !std::mem::replace(&mut self.is_reported, true);
        Err(Unsent { why: is_first.then(|| failed(self.to, &error)) })
    }
}

fn failed(to: SocketAddr, error: &io::Error) -> String {
    format!("cannot send to collector {to}: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_and_the_first_failure_is_reported() {
        let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let to = receiver.local_addr().unwrap();
        let mut collector = Collector::open(to).unwrap();
        assert_eq!(collector.source(), IpAddr::from(Ipv4Addr::LOCALHOST));
        collector.send(b"one").unwrap();
        let mut bytes = [0; 8];
        assert_eq!((receiver.recv(&mut bytes).unwrap(), &bytes[..3]), (3, &b"one"[..]));
        let failures: Vec<Unsent> =
            (0..2).filter_map(|_| collector.send(&[0; 70_000]).err()).collect();
        let why = failures[0].why.as_ref().expect("the first is reported");
        assert!(why.starts_with(&format!("cannot send to collector {to}: ")), "{why}");
        assert_eq!(failures[1], Unsent { why: None });
    }
}

//! The control socket: messages and descriptors to a function, messages from it.

use crate::error::HostError;
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use thruway_nf_abi::message::{Head, Hello, Kind, LEN_MAX, Malformed};

/// Most descriptors in one message (SCM_MAX_FD of the kernel).
const FDS_MAX: usize = 253;

/// Sends a message, with descriptors.
///
/// # Errors
/// [`HostError::System`]; also when the function has let its messages pile up.
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    head: Head,
    body: &[u8],
    fds: &[BorrowedFd<'_>],
) -> Result<(), HostError> {
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(HostError::system("handing descriptors to a function", Errno::TOOBIG));
    }
    let head = head.to_bytes();
    let parts = [IoSlice::new(&head), IoSlice::new(body)];
    // A function that is gone is an error here, not a signal.
    rustix::io::retry_on_intr(|| {
        rustix::net::sendmsg(socket, &parts, &mut control, SendFlags::NOSIGNAL)
    })
    .map(drop)
    .map_err(|error| HostError::system("sending to a function", error))
}

/// What came on a control socket.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// A message.
    Message(Head, Vec<u8>),
    /// What is no message.
    Malformed(Malformed),
    /// Nothing now.
    Nothing,
    /// The function closed its end.
    Closed,
}

/// Receives a message, if there is one. Descriptors that a function sends are not taken.
pub(crate) fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8; LEN_MAX]) -> Arrival {
    let mut no_control = RecvAncillaryBuffer::default();
    let received = rustix::io::retry_on_intr(|| {
        let mut parts = [IoSliceMut::new(&mut buffer[..])];
        rustix::net::recvmsg(socket, &mut parts, &mut no_control, RecvFlags::DONTWAIT)
    });
    match received {
        // A head is never empty, so nothing is the end.
        Ok(message) if message.bytes == 0 => Arrival::Closed,
        // Longer than any message.
        Ok(message) if message.flags.contains(ReturnFlags::TRUNC) => {
            Arrival::Malformed(Malformed::Value)
        }
        Ok(message) => match Head::parse(buffer.get(..message.bytes).unwrap_or_default()) {
            Ok((head, body)) => Arrival::Message(head, body.to_vec()),
            Err(error) => Arrival::Malformed(error),
        },
        Err(Errno::AGAIN) => Arrival::Nothing,
        Err(_) => Arrival::Closed,
    }
}

/// A stranger's text for people: printable, and not too long.
pub(crate) fn plain(bytes: &[u8]) -> String {
    const KEPT: usize = 16 << 10;
    let text = String::from_utf8_lossy(bytes.get(..KEPT).unwrap_or(bytes));
    let harmless = |c: char| if c.is_control() && !"\n\t".contains(c) { '\u{fffd}' } else { c };
    text.chars().map(harmless).collect()
}

/// Where the handshake stands, and what a message means there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Handshake {
    #[default]
    AwaitsHello,
    AwaitsReady,
    Done,
}

/// What a message means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// It wants to attach: answer with WELCOME or REFUSED.
    Hello(Hello),
    /// It begins.
    Ready,
    /// It cannot begin, and why.
    Failed(String),
    /// An answer to a request.
    Reply { id: u32, answer: Result<String, String> },
}

impl Handshake {
    /// Takes in a message.
    ///
    /// # Errors
    /// Why the function is not to be trusted further, for people.
    pub fn on(&mut self, head: Head, body: &[u8]) -> Result<Meaning, String> {
        match (*self, head.kind) {
            (Handshake::AwaitsHello, Kind::Hello) => {
                let hello = Hello::parse(body).map_err(|error| error.to_string())?;
                *self = Handshake::AwaitsReady;
                Ok(Meaning::Hello(hello))
            }
            (_, Kind::Hello) => {
                Err("it attached twice: a program calls the library's run() once, \
                                     and forks no other that does"
                    .into())
            }
            (Handshake::AwaitsReady, Kind::Ready) => {
                *self = Handshake::Done;
                Ok(Meaning::Ready)
            }
            (Handshake::AwaitsReady, Kind::Failed) => Ok(Meaning::Failed(plain(body))),
            (Handshake::Done, Kind::Reply) => {
                Ok(Meaning::Reply { id: head.id, answer: Ok(plain(body)) })
            }
            (Handshake::Done, Kind::Error) => {
                Ok(Meaning::Reply { id: head.id, answer: Err(plain(body)) })
            }
            (_, kind) => Err(format!("it sent {kind:?} where it does not belong")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rustix::fd::{AsFd, OwnedFd};
    use rustix::net::{AddressFamily, SocketFlags, SocketType};
    use thruway_nf_abi::message::Wake;

    fn pair() -> (OwnedFd, OwnedFd) {
        let (family, sort) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        rustix::net::socketpair(family, sort, SocketFlags::CLOEXEC, None).unwrap()
    }

    fn buffer() -> Box<[u8; LEN_MAX]> {
        Box::new([0; LEN_MAX])
    }

    fn head(kind: Kind) -> Head {
        Head { kind, id: 3 }
    }

    #[test]
    fn messages_arrive_whole_and_the_end_is_told() {
        let (ours, theirs) = pair();
        let mut buffer = buffer();
        assert_eq!(receive(theirs.as_fd(), &mut buffer), Arrival::Nothing);
        send(ours.as_fd(), head(Kind::Read), b"count", &[]).unwrap();
        send(ours.as_fd(), head(Kind::Write), b"", &[theirs.as_fd()]).unwrap();
        let read = Arrival::Message(head(Kind::Read), b"count".to_vec());
        assert_eq!(receive(theirs.as_fd(), &mut buffer), read);
        // Its descriptor is let go.
        let write = Arrival::Message(head(Kind::Write), Vec::new());
        assert_eq!(receive(theirs.as_fd(), &mut buffer), write);
        rustix::io::write(&ours, b"no message").unwrap();
        let short = Arrival::Malformed(Malformed::Short);
        assert_eq!(receive(theirs.as_fd(), &mut buffer), short);
        drop(ours);
        assert_eq!(receive(theirs.as_fd(), &mut buffer), Arrival::Closed);
    }

    #[test]
    fn a_message_that_is_too_long_is_no_message() {
        let (ours, theirs) = pair();
        let mut bytes = head(Kind::Reply).to_bytes().to_vec();
        bytes.resize(LEN_MAX + 1, b'x');
        rustix::io::write(&ours, &bytes).unwrap();
        let told = receive(theirs.as_fd(), &mut buffer());
        assert_eq!(told, Arrival::Malformed(Malformed::Value));
    }

    #[test]
    fn the_handshake_goes_one_way_once() {
        let hello = Hello { wake: Wake::Futex, outputs: 1, scratch_len: 0, name: [0; 32] };
        let mut handshake = Handshake::default();
        assert!(handshake.on(head(Kind::Ready), b"").is_err());
        let bytes = hello.to_bytes();
        assert_eq!(handshake.on(head(Kind::Hello), &bytes), Ok(Meaning::Hello(hello)));
        let twice = handshake.on(head(Kind::Hello), &bytes).unwrap_err();
        assert!(twice.contains("attached twice"), "{twice}");
        assert!(handshake.on(head(Kind::Reply), b"").is_err());
        assert_eq!(handshake.on(head(Kind::Ready), b""), Ok(Meaning::Ready));
        let answer = Meaning::Reply { id: 3, answer: Ok("5\u{fffd}".into()) };
        assert_eq!(handshake.on(head(Kind::Reply), b"5\x1b"), Ok(answer));
        assert!(handshake.on(head(Kind::Welcome), b"").is_err());
    }

    proptest! {
        /// Any bytes from a function are a message or not, and mean something or not.
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200), valid: bool) {
            let mut bytes = bytes;
            if valid && bytes.len() >= Head::LEN {
                let kind = if bytes[23] % 2 == 0 { Kind::Hello } else { Kind::Reply };
                bytes[..Head::LEN].copy_from_slice(&head(kind).to_bytes());
            }
            if let Ok((head, body)) = Head::parse(&bytes) {
                for mut at in [Handshake::AwaitsHello, Handshake::AwaitsReady, Handshake::Done] {
                    let _ = at.on(head, body);
                }
            }
        }
    }
}

//! The control socket: messages with descriptors, one a datagram.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, send,
    sendmsg, socketpair,
};
use thruway_nf_abi::message::{Head, Kind, LEN_MAX, Malformed};

/// Most descriptors of a message: the kernel's limit.
pub const FDS_MAX: usize = 253;

/// Why nothing was sent or received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SocketError {
    /// The other side has closed its end.
    #[error("the other side has closed the control socket")]
    Closed,
    /// What came is not a message.
    #[error("on the control socket: {0}")]
    Malformed(#[from] Malformed),
    /// What is to be sent has too many bytes or descriptors.
    #[error("a message of {len} bytes and {fds} descriptors; at most {LEN_MAX} and {FDS_MAX}")]
    TooLong {
        /// Bytes, head included.
        len: usize,
        /// Descriptors.
        fds: usize,
    },
    /// The system refused.
    #[error("the control socket: {0}")]
    System(#[from] Errno),
}

/// A message that came.
#[derive(Debug)]
pub struct Message {
    /// What it is.
    pub head: Head,
    /// What it says.
    pub body: Vec<u8>,
    /// What came with it.
    pub fds: Vec<OwnedFd>,
}

/// One end of a control socket.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl From<OwnedFd> for Socket {
    fn from(fd: OwnedFd) -> Socket {
        Socket { fd }
    }
}

impl From<Socket> for OwnedFd {
    fn from(socket: Socket) -> OwnedFd {
        socket.fd
    }
}

impl Socket {
    /// Both ends of a new one.
    ///
    /// # Errors
    /// When the system has no descriptors left.
    pub fn pair() -> Result<(Socket, Socket), SocketError> {
        let (a, b) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((a.into(), b.into()))
    }

    /// Sends a message; waits while the other side has too many unread ones.
    ///
    /// # Errors
    /// [`SocketError`].
    pub fn send(&self, head: Head, body: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), SocketError> {
        self.send_with(head, body, fds, SendFlags::empty())
    }

    /// A function's word that it is ready for packets.
    ///
    /// # Errors
    /// [`SocketError`].
    pub fn send_ready(&self) -> Result<(), SocketError> {
        self.send(head(Kind::Ready), &[], &[])
    }

    /// A function's word why it cannot begin; a long one is cut off.
    ///
    /// # Errors
    /// [`SocketError`].
    pub fn send_failed(&self, why: &str) -> Result<(), SocketError> {
        let why = &why.as_bytes()[..why.len().min(LEN_MAX / 2)];
        self.send(head(Kind::Failed), why, &[])
    }

    /// Sends a message without descriptors, or [`Errno::AGAIN`] when it would have to wait.
    ///
    /// # Errors
    /// [`SocketError`].
    pub fn try_send(&self, head: Head, body: &[u8]) -> Result<(), SocketError> {
        self.send_with(head, body, &[], SendFlags::DONTWAIT)
    }

    /// The same with descriptors.
    ///
    /// # Errors
    /// [`SocketError`].
    pub fn try_send_fds(
        &self,
        head: Head,
        body: &[u8],
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), SocketError> {
        self.send_with(head, body, fds, SendFlags::DONTWAIT)
    }

    fn send_with(
        &self,
        head: Head,
        body: &[u8],
        fds: &[BorrowedFd<'_>],
        flags: SendFlags,
    ) -> Result<(), SocketError> {
        let len = Head::LEN + body.len();
        if len > LEN_MAX || fds.len() > FDS_MAX {
            return Err(SocketError::TooLong { len, fds: fds.len() });
        }
        let flags = flags | SendFlags::NOSIGNAL;
        let message = [&head.to_bytes()[..], body].concat();
        let sent = if fds.is_empty() {
            // Not by sendmsg: a function's sandbox has no call that could send descriptors.
            rustix::io::retry_on_intr(|| send(&self.fd, &message, flags))
        } else {
            let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            if !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
                return Err(SocketError::TooLong { len, fds: fds.len() });
            }
            let parts = [IoSlice::new(&message)];
            rustix::io::retry_on_intr(|| sendmsg(&self.fd, &parts, &mut ancillary, flags))
        };
        match sent {
            Ok(_) => Ok(()),
            Err(Errno::PIPE | Errno::CONNRESET) => Err(SocketError::Closed),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Waits for a message.
    ///
    /// # Errors
    /// [`SocketError`].
    pub fn receive(&self) -> Result<Message, SocketError> {
        self.receive_with(RecvFlags::empty())
    }

    /// A message if there is one.
    ///
    /// # Errors
    /// [`SocketError`].
    pub fn try_receive(&self) -> Result<Option<Message>, SocketError> {
        match self.receive_with(RecvFlags::DONTWAIT) {
            Ok(message) => Ok(Some(message)),
            Err(SocketError::System(Errno::AGAIN)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn receive_with(&self, flags: RecvFlags) -> Result<Message, SocketError> {
        let mut bytes = vec![0; LEN_MAX];
        let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = flags | RecvFlags::CMSG_CLOEXEC;
        let received = rustix::io::retry_on_intr(|| {
            recvmsg(&self.fd, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags)
        });
        let received = match received {
            Err(Errno::CONNRESET) => return Err(SocketError::Closed),
            other => other?,
        };
        let mut fds = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                fds.extend(rights);
            }
        }
        // No message is empty: this is the end.
        if received.bytes == 0 {
            return Err(SocketError::Closed);
        }
        if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
            return Err(Malformed::Short.into());
        }
        bytes.truncate(received.bytes);
        let (head, _) = Head::parse(&bytes)?;
        bytes.drain(..Head::LEN);
        Ok(Message { head, body: bytes, fds })
    }
}

impl Message {
    /// The body as text; what is no text is replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// The head of a message that is no reply.
pub fn head(kind: Kind) -> Head {
    Head::new(kind, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_with_their_descriptors_in_order() {
        let (a, b) = Socket::pair().unwrap();
        let (c, d) = Socket::pair().unwrap();
        assert!(b.try_receive().unwrap().is_none());
        a.send(Head::new(Kind::Read, 7), b"text", &[c.as_fd()]).unwrap();
        let message = b.receive().unwrap();
        assert_eq!((message.head.kind, message.head.id), (Kind::Read, 7));
        assert_eq!((message.text().as_str(), message.fds.len()), ("text", 1));
        let c2 = Socket::from(message.fds.into_iter().next().unwrap());
        c2.try_send(head(Kind::Ready), b"").unwrap();
        assert_eq!(d.receive().unwrap().head.kind, Kind::Ready);
    }

    #[test]
    fn an_end_and_nonsense_are_told() {
        let (a, b) = Socket::pair().unwrap();
        assert!(matches!(
            a.try_send(head(Kind::Reply), &vec![0; LEN_MAX]),
            Err(SocketError::TooLong { .. })
        ));
        rustix::net::send(&a, b"what is this?", SendFlags::empty()).unwrap();
        assert_eq!(b.receive().unwrap_err(), SocketError::Malformed(Malformed::Short));
        rustix::net::send(&a, &[7; 40], SendFlags::empty()).unwrap();
        assert_eq!(b.receive().unwrap_err(), SocketError::Malformed(Malformed::Magic));
        drop(a);
        assert_eq!(b.receive().unwrap_err(), SocketError::Closed);
        assert_eq!(b.try_send(head(Kind::Ready), b"").unwrap_err(), SocketError::Closed);
    }
}

//! A connection's socket: messages with descriptors.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendFlags, recvmsg, sendmsg,
};

use crate::memory::PARTS_MAX;
use crate::message::{HEAD_LEN, Head, ProtocolFault};

/// Longest time for the rest of a message to come, and for an answer to be taken.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Most descriptors that are taken with a message; what is more is lost, and with it the message.
const FDS_MAX: usize = PARTS_MAX;

/// A message as it came.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub head: Head,
    pub body: Vec<u8>,
    pub fds: Vec<OwnedFd>,
}

/// One end of the socket that a front-end has the other end of.
#[derive(Debug)]
pub(crate) struct Connection {
    fd: OwnedFd,
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Connection {
    pub fn new(fd: OwnedFd) -> Connection {
        Connection { fd }
    }

    /// The next message; `None` if the front-end has closed its end. To be called when there is
    /// something to read: the rest is waited for, for some time.
    pub fn receive(&self) -> Result<Option<Incoming>, ProtocolFault> {
        let deadline = Instant::now() + TIMEOUT;
        let mut fds = Vec::new();
        let mut head = [0; HEAD_LEN];
        if !self.fill(&mut head, &mut fds, deadline)? {
            return Ok(None);
        }
        let head = Head::parse(&head)?;
        let mut body = vec![0; head.len];
        if !self.fill(&mut body, &mut fds, deadline)? {
            return Ok(None);
        }
        Ok(Some(Incoming { head, body, fds }))
    }

    /// Reads as many bytes as there is room for; false at the end.
    fn fill(
        &self,
        bytes: &mut [u8],
        fds: &mut Vec<OwnedFd>,
        deadline: Instant,
    ) -> Result<bool, ProtocolFault> {
        let mut at = 0;
        while at < bytes.len() {
            match self.receive_some(&mut bytes[at..], fds) {
                Ok(0) | Err(Errno::CONNRESET) => return Ok(false),
                Ok(count) => at += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.wait(PollFlags::IN, deadline)?,
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(true)
    }

    fn receive_some(&self, bytes: &mut [u8], fds: &mut Vec<OwnedFd>) -> Result<usize, Errno> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let received = recvmsg(&self.fd, &mut [IoSliceMut::new(bytes)], &mut ancillary, flags)?;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                fds.extend(rights);
            }
        }
        if received.flags.contains(ReturnFlags::CTRUNC) || fds.len() > FDS_MAX {
            return Err(Errno::TOOMANYREFS);
        }
        Ok(received.bytes)
    }

    /// Sends an answer.
    pub fn send(&self, bytes: &[u8]) -> Result<(), ProtocolFault> {
        let deadline = Instant::now() + TIMEOUT;
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let mut at = 0;
        while at < bytes.len() {
            let parts = [IoSlice::new(&bytes[at..])];
            match sendmsg(&self.fd, &parts, &mut SendAncillaryBuffer::default(), flags) {
                Ok(count) => at += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.wait(PollFlags::OUT, deadline)?,
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    fn wait(&self, wanted: PollFlags, deadline: Instant) -> Result<(), ProtocolFault> {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).unwrap_or_default();
        let mut ready = [PollFd::new(&self.fd, wanted)];
        match poll(&mut ready, Some(&left)) {
            Ok(0) => Err(ProtocolFault::Timeout),
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

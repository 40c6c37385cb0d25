//! Sockets to the kernel. Each request is answered before the next one is sent.

use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::message::{HEADER_LEN, Message, Received, messages};

/// What a request gives: the kernel's error number if it refused it.
pub type Result<T> = std::result::Result<T, Errno>;

/// Flags of requests: that it is one.
pub const REQUEST: u16 = 0x1;
/// It is confirmed.
pub const ACK: u16 = 0x4;
/// It takes the place of what there is.
pub const REPLACE: u16 = 0x100;
/// It is refused if there is one.
pub const EXCLUSIVE: u16 = 0x200;
/// It asks for all there are.
pub const DUMP: u16 = 0x300;
/// It makes what is not there.
pub const CREATE: u16 = 0x400;
/// `NLM_F_DUMP_INTR`: what was listed changed meanwhile.
const INTERRUPTED: u16 = 0x10;
/// Types of messages.
const ERROR: u16 = 2;
const DONE: u16 = 3;

/// The kernel answers at once; a lost answer must not hang who asked.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);
/// More than the longest answer to one request, and than a part of a list.
const ANSWER_LEN_MAX: usize = 1 << 16;
/// Times that a list is read anew because it changed meanwhile.
const LISTINGS_MAX: u32 = 20;

/// A socket of one of netlink's protocols.
#[derive(Debug)]
pub struct Socket {
    socket: OwnedFd,
    /// Number of the last request.
    sequence: u32,
}

impl Socket {
    /// In the network namespace of this thread, where it stays.
    ///
    /// # Errors
    /// The system has no such protocol.
    pub fn open(protocol: Option<Protocol>) -> Result<Socket> {
        let (family, flags) = (AddressFamily::NETLINK, SocketFlags::CLOEXEC);
        let socket = rustix::net::socket_with(family, SocketType::RAW, flags, protocol)?;
        set_socket_timeout(&socket, Timeout::Recv, Some(ANSWER_TIME_MAX))?;
        // The kernel's address: what other processes send is not received.
        rustix::net::connect(&socket, &SocketAddrNetlink::new(0, 0))?;
        Ok(Socket { socket, sequence: 0 })
    }

    /// Sends a request that is confirmed; the bodies of the messages that come before that.
    ///
    /// # Errors
    /// The kernel refused it.
    pub fn ask(&mut self, request: Message) -> Result<Vec<Vec<u8>>> {
        self.sequence = self.sequence.wrapping_add(1);
        let bytes = request.finish(self.sequence);
        self.exchange(&bytes, self.sequence..=self.sequence).map(|(bodies, _)| bodies)
    }

    /// Sends several requests as one datagram, of which the last one is confirmed: all of them are
    /// done, or none.
    ///
    /// # Errors
    /// The kernel refused one.
    pub fn ask_batch(&mut self, (begin, end): (Message, Message), all: Vec<Message>) -> Result<()> {
        let first = self.sequence.wrapping_add(2);
        let mut bytes = begin.finish(first.wrapping_sub(1));
        let mut last = first;
        for (number, one) in all.into_iter().enumerate() {
            last = first.wrapping_add(number as u32);
            bytes.extend(one.finish(last));
        }
        self.sequence = last.wrapping_add(1);
        bytes.extend(end.finish(self.sequence));
        self.exchange(&bytes, first..=last).map(drop)
    }

    /// Asks for a list; the bodies of its messages.
    ///
    /// # Errors
    /// The kernel refused it.
    pub fn list(&mut self, request: impl Fn() -> Message) -> Result<Vec<Vec<u8>>> {
        for _ in 0..LISTINGS_MAX {
            self.sequence = self.sequence.wrapping_add(1);
            let bytes = request().finish(self.sequence);
            let (bodies, whole) = self.exchange(&bytes, self.sequence..=self.sequence)?;
            if whole {
                return Ok(bodies);
            }
        }
        Err(Errno::AGAIN)
    }

    /// Sends, and receives until the last of these requests is confirmed or one is refused; whether
    /// a list is of one moment.
    fn exchange(
        &mut self,
        bytes: &[u8],
        requests: RangeInclusive<u32>,
    ) -> Result<(Vec<Vec<u8>>, bool)> {
        rustix::net::send(&self.socket, bytes, SendFlags::empty())?;
        let (mut bodies, mut whole) = (Vec::new(), true);
        let mut buffer = vec![0; ANSWER_LEN_MAX];
        loop {
            let (len, _) =
                match rustix::net::recv(&self.socket, &mut buffer[..], RecvFlags::empty()) {
                    Err(Errno::INTR) => continue,
                    received => received?,
                };
            for message in messages(&buffer[..len]) {
                let Some(answer) = answer(&message, &requests) else { continue };
                whole &= message.flags & INTERRUPTED == 0;
                match answer {
                    Answer::Body => bodies.push(message.body.to_vec()),
                    Answer::Done(0) if message.sequence == *requests.end() => {
                        return Ok((bodies, whole));
                    }
                    Answer::Done(0) => {}
                    Answer::Done(error) => return Err(Errno::from_raw_os_error(error)),
                }
            }
        }
    }
}

/// What the kernel says to a request.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    /// A part of what was asked for.
    Body,
    /// The end: an error number, 0 for none.
    Done(i32),
}

/// What a message says to one of these requests; none if it is no answer to them.
fn answer(message: &Received<'_>, requests: &RangeInclusive<u32>) -> Option<Answer> {
    if !requests.contains(&message.sequence) {
        return None;
    }
    match message.kind {
        ERROR | DONE => {
            let code = message.body.first_chunk().copied().map(i32::from_ne_bytes)?;
            Some(Answer::Done(code.saturating_neg()))
        }
        _ => Some(Answer::Body),
    }
}

const _: () = assert!(HEADER_LEN < ANSWER_LEN_MAX);

#[cfg(test)]
mod tests {
    use super::*;

    /// What the messages of a datagram say to request 7.
    fn answers(datagram: &[u8]) -> Vec<Option<Answer>> {
        messages(datagram).map(|message| answer(&message, &(7..=7))).collect()
    }

    fn datagram(kind: u16, sequence: u32, error: i32) -> Vec<u8> {
        Message::new(kind, 0, &error.to_ne_bytes()).finish(sequence)
    }

    #[test]
    fn answers_are_read() {
        let of = |kind, sequence, error| answers(&datagram(kind, sequence, error));
        assert_eq!(of(ERROR, 7, -17), [Some(Answer::Done(17))]);
        assert_eq!(of(ERROR, 7, 0), [Some(Answer::Done(0))]);
        assert_eq!(of(DONE, 7, 0), [Some(Answer::Done(0))]);
        assert_eq!(of(ERROR, 7, i32::MIN), [Some(Answer::Done(i32::MAX))]);
        assert_eq!(of(ERROR, 8, 0), [None]);
        // RTM_NEWROUTE.
        assert_eq!(of(24, 7, 0), [Some(Answer::Body)]);
        assert_eq!(answers(&datagram(ERROR, 7, 0)[..19]), []);
        assert_eq!(answers(&Message::new(ERROR, 0, &[]).finish(7)), [None]);
    }
}

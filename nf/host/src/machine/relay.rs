//! Between the keeper of a function and the agent in its machine: a thread that passes messages on.

use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use thruway_exchange::socket::{Message, Socket, SocketError};
use thruway_nf_abi::machine::{FRAME_HEAD_LEN, Frame, Handed};
use thruway_nf_abi::message::{Head, Kind, Welcome};
use thruway_nf_abi::{MAGIC, VERSION};

use super::monitor::Monitor;

/// The slot of the first region's device: behind those that a machine begins with.
const SLOT_FIRST: u32 = 8;

/// Slots of a PCI bus.
const SLOTS: u32 = 32;

/// A machine that has said HELLO and is not answered within this waits for its turn, standing
/// still.
const PAUSE_AFTER: Duration = Duration::from_millis(250);

/// Longest time for the machine to take what is sent: it is a stranger, who may never read.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest wait for the process to end after it has closed its ends.
const ENDS: Duration = Duration::from_secs(5);

/// What passes messages on.
pub(super) struct Relay {
    /// To the keeper.
    pub control: Socket,
    /// To the agent; not blocking.
    pub port: OwnedFd,
    pub monitor: Monitor,
    pub pidfd: OwnedFd,
    /// What the agent starts.
    pub start: Vec<u8>,
    /// What came of a frame that is not whole.
    pub rest: Vec<u8>,
    /// The Worker's ends of the lines that wake Masters.
    pub lines: Vec<OwnedFd>,
    pub pause: Pause,
}

/// Whether the machine stands still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pause {
    /// It does not, nor is it to.
    No,
    /// It has said HELLO: it is to stand still from then on.
    At(Instant),
    Paused,
}

/// Why the relay ends.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    /// The machine is over, or its host wants it no more.
    Over(&'static str),
    /// What went wrong with a machine that goes on.
    Broken(String),
}

impl<T: Into<String>> From<T> for Ended {
    fn from(why: T) -> Ended {
        Ended::Broken(why.into())
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Over(why) => f.write_str(why),
            Ended::Broken(why) => f.write_str(why),
        }
    }
}

impl Relay {
    /// Passes messages on until either side is gone. What went wrong is written where the machine's
    /// console goes, so that whoever looks finds it.
    pub fn run(mut self, console: &OwnedFd) {
        let why = self.serve();
        let line = format!("thruway: {why}\n");
        // A full pipe loses the line.
        let _ = rustix::io::write(console, line.as_bytes());
        if let Ended::Broken(_) = why {
            // The keeper finds its socket closed, and ends the machine.
            return;
        }
        // A process that ends closes its descriptors first: its end is what the keeper is to see,
        // not that nobody is at the socket any more.
        let mut ended = [PollFd::new(&self.pidfd, PollFlags::IN)];
        let _ = poll(&mut ended, Timespec::try_from(ENDS).ok().as_ref());
    }

    fn serve(&mut self) -> Ended {
        loop {
            let left = match self.pause {
                Pause::At(at) => Some(at.saturating_duration_since(Instant::now())),
                _ => None,
            };
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            let mut ready = [
                PollFd::from_borrowed_fd(self.control.as_fd(), PollFlags::IN),
                PollFd::new(&self.port, PollFlags::IN),
            ];
            let _ = poll(&mut ready, left.as_ref());
            let [control, port] = ready.map(|fd| !fd.revents().is_empty());
            let done = self.hear_keeper(control).and_then(|()| self.hear_machine(port));
            if let Err(why) = done.and_then(|()| self.pause_if_due()) {
                return why;
            }
        }
    }

    fn pause_if_due(&mut self) -> Result<(), Ended> {
        match self.pause {
            Pause::At(at) if at <= Instant::now() => {
                self.pause = Pause::Paused;
                Ok(self.monitor.pause()?)
            }
            _ => Ok(()),
        }
    }

    /// A message of the keeper, to the machine.
    fn hear_keeper(&mut self, is_ready: bool) -> Result<(), Ended> {
        if !is_ready {
            return Ok(());
        }
        let message = match self.control.try_receive() {
            Ok(Some(message)) => message,
            Ok(None) => return Ok(()),
            Err(SocketError::Closed) => return Err(Ended::Over("its host has ended it")),
            Err(error) => return Err(error.to_string().into()),
        };
        let was_paused = self.pause == Pause::Paused;
        self.pause = Pause::No;
        if message.head.kind == Kind::Welcome {
            let handed = self.plug(&message)?;
            self.send(Frame::Regions, &handed)?;
        }
        let body = [&message.head.to_bytes()[..], &message.body].concat();
        // Sent first: the port keeps it for the machine.
        self.send(Frame::Message, &body)?;
        if was_paused { Ok(self.monitor.resume()?) } else { Ok(()) }
    }

    /// Plugs in the regions of a WELCOME; what the agent is informed of them.
    fn plug(&mut self, message: &Message) -> Result<Vec<u8>, Ended> {
        let links =
            Welcome::parse(message.head, &message.body).map_err(|error| error.to_string())?.links;
        let links = links as usize;
        // In the order of `nf/abi`: single regions, then for each link its region and its line.
        let firsts = message.fds.len().checked_sub(2 * links).ok_or("too few descriptors")?;
        let regions = firsts + links;
        if regions > (SLOTS - SLOT_FIRST) as usize {
            return Err(format!(
                "a machine has slots for {} regions, and this function has {regions}: let fewer \
                 threads reach it",
                SLOTS - SLOT_FIRST
            )
            .into());
        }
        let mut slot = SLOT_FIRST;
        let mut handed = Vec::new();
        for (at, fd) in message.fds.iter().enumerate() {
            let what = if at >= firsts && (at - firsts) % 2 == 1 {
                let link = self.lines.len() as u32;
                self.lines.push(fd.try_clone().map_err(|error| error.to_string())?);
                Handed::Line { link }
            } else {
                let about = rustix::fs::fstat(fd).map_err(|error| error.to_string())?;
                let len = about.st_size.cast_unsigned();
                self.monitor.plug(fd.as_fd(), slot, len)?;
                slot += 1;
                Handed::Region { slot: slot - 1, len }
            };
            handed.extend_from_slice(&what.to_bytes());
        }
        Ok(handed)
    }

    /// What the machine says, to the keeper. Of a machine that says more than is asked for, the
    /// keeper's socket is full at some time, and what is more is lost.
    fn hear_machine(&mut self, is_ready: bool) -> Result<(), Ended> {
        if !is_ready {
            return Ok(());
        }
        let mut bytes = [0; 4096];
        match rustix::io::read(&self.port, &mut bytes) {
            Ok(0) | Err(Errno::CONNRESET) => return Err(Ended::Over("the machine has ended")),
            Ok(count) => self.rest.extend_from_slice(&bytes[..count]),
            Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
            Err(error) => return Err(format!("the machine's port: {error}").into()),
        }
        while let Some((head, _)) = self.rest.split_first_chunk::<FRAME_HEAD_LEN>() {
            let no_frame = "what the machine sent is no frame of this version's agent";
            let (frame, len) = Frame::parse(*head).ok_or(no_frame)?;
            if self.rest.len() < FRAME_HEAD_LEN + len {
                break;
            }
            let whole: Vec<u8> = self.rest.drain(..FRAME_HEAD_LEN + len).collect();
            self.frame(frame, &whole[FRAME_HEAD_LEN..])?;
        }
        Ok(())
    }

    fn frame(&mut self, frame: Frame, body: &[u8]) -> Result<(), Ended> {
        match frame {
            Frame::Hello if body == hello() => {
                let start = std::mem::take(&mut self.start);
                self.send(Frame::Start, &start)
            }
            Frame::Hello => Err(format!(
                "the image's agent is of another version than {VERSION}, that of this host: make \
                 the image anew with scripts/guest-image"
            )
            .into()),
            Frame::Message => {
                if Head::parse(body).is_ok_and(|(head, _)| head.kind == Kind::Hello) {
                    self.pause = Pause::At(Instant::now() + PAUSE_AFTER);
                }
                // The keeper judges it, as it judges any function's.
                let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                match send(&self.control, body, flags) {
                    Ok(_) | Err(Errno::AGAIN) => Ok(()),
                    Err(error) => Err(format!("its host: {error}").into()),
                }
            }
            Frame::Wake => {
                let number = body.first_chunk().map(|number| u32::from_le_bytes(*number));
                let line = number.and_then(|number| self.lines.get(number as usize));
                if let Some(line) = line {
                    // A Master that was woken already.
                    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                    let _ = send(line, &1_u64.to_ne_bytes(), flags);
                }
                Ok(())
            }
            Frame::Start | Frame::Regions => Err("the machine sent what only a host sends".into()),
        }
    }

    /// Sends a frame; waits a while for a machine that does not take it.
    fn send(&self, frame: Frame, body: &[u8]) -> Result<(), Ended> {
        let bytes = [&frame.head(body.len() as u32)[..], body].concat();
        let deadline = Instant::now() + SEND_TIMEOUT;
        let mut sent = 0;
        while sent < bytes.len() {
            match send(&self.port, &bytes[sent..], SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(count) => sent += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    let left = Timespec::try_from(left).unwrap_or_default();
                    let mut ready = [PollFd::new(&self.port, PollFlags::OUT)];
                    if poll(&mut ready, Some(&left)) == Ok(0) {
                        return Err("the machine does not read what it is sent".into());
                    }
                }
                Err(error) => return Err(format!("the machine's port: {error}").into()),
            }
        }
        Ok(())
    }
}

/// What the agent of this version says first.
fn hello() -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
    bytes[8..].copy_from_slice(&VERSION.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests;

//! QEMU's monitor (QMP, docs/interop/qmp-spec of QEMU): plugs devices in, stops and continues the
//! machine. QEMU is where a machine is that broke out of it: what comes is bounded and parsed.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::{Value, json};

/// Longest time for an answer: plugging a device in takes milliseconds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// Longest line of an answer, bytes.
const LINE_MAX: usize = 64 << 10;

/// The monitor's host's end.
pub(crate) struct Monitor {
    fd: OwnedFd,
    /// What came after the last whole line.
    rest: Vec<u8>,
    is_greeted: bool,
}

impl Monitor {
    pub fn new(fd: OwnedFd) -> Monitor {
        Monitor { fd, rest: Vec::new(), is_greeted: false }
    }

    /// Plugs in a device in this slot of the first PCI bus, whose memory is that of the region.
    pub fn plug(&mut self, region: BorrowedFd<'_>, slot: u32, len: u64) -> Result<(), String> {
        // Behind the region's own descriptor, QEMU opens the file once more, by its number there.
        let added = self.ask("add-fd", json!({ "fdset-id": slot }), Some(region))?;
        let fd = added.get("fd").and_then(Value::as_u64).ok_or("no number of a descriptor")?;
        let (memory, device) = (format!("region{slot}"), format!("device{slot}"));
        let backend = json!({
            "qom-type": "memory-backend-file", "id": memory, "size": len, "share": true,
            "mem-path": format!("/proc/self/fd/{fd}"),
        });
        self.ask("object-add", backend, None)?;
        let plug = json!({
            "driver": "ivshmem-plain", "id": device, "memdev": memory, "bus": "pci.0",
            "addr": format!("{slot:#x}"),
        });
        self.ask("device_add", plug, None).map(drop)
    }

    /// The machine stands still.
    pub fn pause(&mut self) -> Result<(), String> {
        self.ask("stop", json!({}), None).map(drop)
    }

    /// The machine goes on.
    pub fn resume(&mut self) -> Result<(), String> {
        self.ask("cont", json!({}), None).map(drop)
    }

    /// Gives a command, with a descriptor if there is one to go with it; waits for the answer.
    fn ask(
        &mut self,
        command: &str,
        arguments: Value,
        fd: Option<BorrowedFd<'_>>,
    ) -> Result<Value, String> {
        if !self.is_greeted {
            self.is_greeted = true;
            self.exchange(&json!({ "execute": "qmp_capabilities" }), None)?;
        }
        let line = json!({ "execute": command, "arguments": arguments });
        self.exchange(&line, fd).map_err(|why| format!("QEMU's {command}: {why}"))
    }

    fn exchange(&mut self, line: &Value, fd: Option<BorrowedFd<'_>>) -> Result<Value, String> {
        self.send(line.to_string().as_bytes(), fd).map_err(|error| error.to_string())?;
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        loop {
            let mut answer: Value = self.line(deadline)?;
            if let Some(done) = answer.get_mut("return") {
                return Ok(done.take());
            }
            if let Some(error) = answer.get("error") {
                let why = error.get("desc").and_then(Value::as_str).unwrap_or("an error");
                return Err(why.chars().take(300).collect());
            }
            // A greeting or an event.
        }
    }

    fn send(&self, line: &[u8], fd: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let fds = fd.map(|fd| [fd]);
        if let Some(fds) = &fds {
            ancillary.push(SendAncillaryMessage::ScmRights(fds));
        }
        // Shorter than the socket's buffer, and each is answered before the next.
        let sent = sendmsg(&self.fd, &[IoSlice::new(line)], &mut ancillary, SendFlags::NOSIGNAL)?;
        if sent == line.len() { Ok(()) } else { Err(Errno::MSGSIZE) }
    }

    /// The next line that it says.
    fn line(&mut self, deadline: Instant) -> Result<Value, String> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return serde_json::from_slice(&line).map_err(|error| error.to_string());
            }
            if self.rest.len() > LINE_MAX {
                return Err("its answer is too long".into());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).unwrap_or_default();
            let mut ready = [PollFd::from_borrowed_fd(self.fd.as_fd(), PollFlags::IN)];
            if poll(&mut ready, Some(&left)) == Ok(0) {
                return Err("no answer".into());
            }
            let mut bytes = [0; 4096];
            match rustix::io::read(&self.fd, &mut bytes) {
                Ok(0) => return Err("it closed its monitor".into()),
                Ok(count) => self.rest.extend_from_slice(&bytes[..count]),
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    /// A monitor and what plays QEMU.
    fn pair() -> (Monitor, OwnedFd) {
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).expect("sockets");
        (Monitor::new(ours), theirs)
    }

    #[test]
    fn greetings_and_events_are_no_answers() {
        let (mut monitor, qemu) = pair();
        let last_output =
            b"{\"QMP\": {}}\r\n{\"return\": {}}\r\n{\"event\": \"STOP\"}\r\n{\"return\": {}}\n";
        rustix::io::write(&qemu, last_output).expect("sent");
        assert_eq!(monitor.pause(), Ok(()));
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        for (last_output, why) in [
            (&b"{\"return\": {}}\n{\"error\": {\"desc\": \"no slot\"}}\n"[..], "no slot"),
            (b"{\"return\": {}}\nrubbish\n", "expected value"),
            (b"{\"return\": {}}\n", "closed"),
        ] {
            let (mut monitor, qemu) = pair();
            rustix::io::write(&qemu, last_output).expect("sent");
            rustix::net::shutdown(&qemu, rustix::net::Shutdown::Write).expect("shut");
            let error = monitor.resume().expect_err("no answer");
            assert!(error.contains(why), "{error}");
        }
        let (mut monitor, qemu) = pair();
        rustix::io::write(&qemu, &vec![b'x'; LINE_MAX + 8192]).expect("sent");
        assert!(monitor.resume().is_err_and(|why| why.contains("too long")));
    }
}

//! Keys of the live view: `q` ends it, as it ends less and top.

use std::io::{IsTerminal as _, Stdin};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// Ends the view.
const END: [u8; 2] = *b"qQ";

/// The terminal's keys, one by one and unseen; lines again when dropped.
pub struct Keys {
    stdin: Stdin,
    /// How the terminal was, if standard input is one.
    before: Option<Termios>,
}

impl Keys {
    /// Where standard input is no terminal there are none.
    pub fn open() -> Keys {
        let stdin = std::io::stdin();
        let before = if stdin.is_terminal() { tcgetattr(&stdin).ok() } else { None };
        if let Some(before) = &before {
            let mut now = before.clone();
            // Ctrl-C stays a signal.
            now.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
            // A terminal that refuses gives its keys with the next end of line.
            let _ = tcsetattr(&stdin, OptionalActions::Now, &now);
        }
        Keys { stdin, before }
    }

    /// Whether the user has asked for the end. Does not wait.
    pub fn end(&self) -> bool {
        let mut keys = [0; 64];
        let mut fds = [PollFd::new(&self.stdin, PollFlags::IN)];
        let is_ready = self.before.is_some()
            && matches!(poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(1..));
        // The descriptor, past the standard library's buffer: nothing else reads of it.
        let count =
            if is_ready { rustix::io::read(&self.stdin, &mut keys).unwrap_or(0) } else { 0 };
        keys[..count].iter().any(|key| END.contains(key))
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // The terminal may be gone.
            let _ = tcsetattr(&self.stdin, OptionalActions::Now, before);
        }
    }
}

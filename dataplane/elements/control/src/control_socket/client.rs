//! One connection: its input, its pending call, its output.

use std::io::IoSlice;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use thruway_port::socket::Connection;

use super::perform::{Calling, Rules};
use super::protocol::{Command, GREETING, HELP, Input, OK, PERMISSION, Verb, answer};
use crate::acceptor::{Acceptor, TOKEN_TIME, Visitor};
use crate::client_limits::{Claim, Peer};
use crate::desk::Desk;

/// Bytes read from a client at once.
const CHUNK: usize = 16 << 10;
/// How long a command may take to come, and an answer to go out.
const PATIENCE: Duration = Duration::from_secs(30);

/// A client.
pub(super) struct Client {
    connection: Connection,
    peer: Peer,
    input: Input,
    out: Vec<u8>,
    sent: usize,
    /// The client reads no more.
    gone: bool,
    /// The handler call whose answer the client awaits.
    calling: Option<Calling>,
    /// Since when there is half a command, answers that do not go out, or no token.
    since: Instant,
    /// When it last did anything.
    heard: Instant,
    /// Whether a command of it was ever done.
    served: bool,
    /// Whether another command may have come with the last one.
    more: bool,
}

impl Client {
    pub(super) fn new(visitor: Visitor, now: Instant) -> Client {
        let Visitor { connection, peer, trusted, .. } = visitor;
        let out = GREETING.as_bytes().to_vec();
        let input = Input::of(trusted);
        let (since, heard) = (now, now);
        let (gone, served, more) = (false, false, false);
        let (calling, sent) = (None, 0);
        Client { connection, peer, input, out, sent, gone, calling, since, heard, served, more }
    }

    /// The number that messages about it bear.
    pub(super) fn number(&self) -> i32 {
        self.connection.as_fd().as_raw_fd()
    }

    /// What makes its place worth keeping: it is in the midst of something, it was of use before,
    /// it was heard lately.
    pub(super) fn claim(&self) -> Claim<(bool, Instant)> {
        let is_busy = self.calling.is_some() || (self.served && !self.is_idle());
        Claim { peer: self.peer, is_busy, worth: (self.served, self.heard) }
    }

    /// Whether it has no call or output pending.
    fn is_idle(&self) -> bool {
        self.input.trusted
            && !self.input.is_begun()
            && self.out.is_empty()
            && self.calling.is_none()
    }

    /// Answers, reads a little, begins at most one command. False when it is over.
    pub(super) fn serve(&mut self, desk: &Desk, acceptor: &Acceptor, rules: &Rules) -> bool {
        let idle = self.is_idle();
        self.flush();
        if let Some(calling) = &mut self.calling
            && calling.go_on(desk, &mut self.out)
        {
            self.calling = None;
            self.flush();
        }
        if self.is_free() {
            let mut command = self.input.next();
            if command.is_none() && self.receive() {
                self.heard = desk.now;
                command = self.input.next();
            }
            self.more = command.is_some();
            if let Some(command) = command {
                self.since = desk.now;
                self.perform(desk, acceptor, rules, command);
                self.flush();
            }
        }
        if idle || self.calling.is_some() {
            self.since = desk.now;
        }
        !self.is_over(desk.now)
    }

    /// Whether the next command may begin.
    fn is_free(&self) -> bool {
        !self.gone && self.out.is_empty() && self.calling.is_none()
    }

    fn is_over(&self, now: Instant) -> bool {
        let ended = self.input.closed && self.input.is_empty() && self.is_free();
        self.gone || ended || self.deadline().is_some_and(|deadline| now >= deadline)
    }

    /// When its time is up.
    fn deadline(&self) -> Option<Instant> {
        let time = if self.input.trusted { PATIENCE } else { TOKEN_TIME };
        (!self.is_idle() && self.calling.is_none()).then(|| self.since + time)
    }

    /// When to look at it again, if nothing happens; at once where another command waits.
    pub(super) fn next_look(&self, now: Instant) -> Option<Instant> {
        match &self.calling {
            Some(calling) => Some(calling.next_look(now)),
            None if self.is_free() && self.more => Some(now),
            None => self.deadline(),
        }
    }

    /// The descriptors to wait for.
    pub(super) fn watch<'a>(&'a self, fds: &mut Vec<(BorrowedFd<'a>, PollFlags)>) {
        // Do not read from a client that awaits an answer, or does not accept its output.
        let flags = match (self.out.is_empty(), &self.calling, self.input.closed) {
            (false, ..) => PollFlags::OUT,
            (true, None, false) => PollFlags::IN,
            _ => return,
        };
        fds.push((self.connection.as_fd(), flags));
    }

    /// Sends what can be sent.
    pub(super) fn flush(&mut self) {
        while self.sent < self.out.len() && !self.gone {
            match self.connection.send(&[IoSlice::new(&self.out[self.sent..])]) {
                Ok(None) => return,
                Ok(Some(count)) if count > 0 => self.sent += count,
                Ok(Some(_)) | Err(_) => self.gone = true,
            }
        }
        self.out.clear();
        // A long answer's memory is not kept for the next one.
        self.out.shrink_to(CHUNK);
        self.sent = 0;
    }

    /// Gives the answer that is there, before the end.
    pub(super) fn end(&mut self, desk: &Desk) {
        if let Some(calling) = &mut self.calling {
            calling.go_on(desk, &mut self.out);
        }
        self.flush();
    }

    /// Whether anything came, the end included.
    fn receive(&mut self) -> bool {
        if self.input.closed {
            return false;
        }
        let mut buffer = [0; CHUNK];
        match self.connection.receive(&mut buffer) {
            Ok(None) => return false,
            Ok(Some(count)) if count > 0 => self.input.push(&buffer[..count]),
            Ok(Some(_)) | Err(_) => self.input.closed = true,
        }
        true
    }

    fn perform(&mut self, desk: &Desk, acceptor: &Acceptor, rules: &Rules, command: Command) {
        let out = &mut self.out;
        match command {
            Command::Handler(Verb::Llrpc, name, _) => super::perform::refuse_llrpc(out, &name),
            Command::Handler(verb, name, text) => {
                self.served = true;
                self.calling = rules.begin(desk, out, verb, (&name, text));
            }
            Command::Auth(token) if self.input.trusted || acceptor.lets_in(&token) => {
                self.input.trusted = true;
                answer(out, OK, &["Welcome"]);
            }
            Command::Auth(_) => {
                answer(out, PERMISSION, &["Permission denied: that is not the token"]);
                self.input.close();
            }
            Command::Help => answer(out, OK, HELP),
            Command::Quit => {
                answer(out, OK, &["Goodbye!"]);
                self.input.close();
            }
            Command::Invalid(code, message) => answer(out, code, &[&message]),
            Command::Fatal(code, message) => {
                answer(out, code, &[&message]);
                self.input.close();
            }
            Command::Foreign => self.gone = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    use thruway_element::{Outside, Pending, Progress, Ready, Remote, RemoteCall};

    /// A router that never answers.
    struct Silent;

    impl Pending for Silent {
        fn poll(&mut self) -> Progress {
            Progress::Waiting
        }
    }

    impl Remote for Silent {
        fn find(&self, _: &str) -> Option<u32> {
            Some(0)
        }
        fn spec(&self, _: u32) -> Option<&'static thruway_element::Spec> {
            None
        }
        fn describe(&self, _: u32) -> Option<(String, String)> {
            Some(("c".into(), "Counter".into()))
        }
        fn begin(&self, _: &RemoteCall, _: &Ready) -> Box<dyn Pending> {
            Box::new(Silent)
        }
        fn is_running(&self) -> bool {
            true
        }
        fn when_running(&self, _: &Ready) {}
        fn log(&self, _: &str) {}
        fn stop(&self) {}
    }

    /// A client, its other end, and what serves it at a time of the test's choice.
    struct Table {
        client: Client,
        theirs: UnixStream,
        acceptor: Acceptor,
        desk: Desk,
        rules: Rules,
    }

    impl Table {
        fn new() -> Table {
            let dir = tempfile::tempdir().expect("a directory");
            let path = dir.path().join("socket");
            let mut acceptor = Acceptor::own(path.as_os_str().as_bytes().to_vec());
            let now = Instant::now();
            acceptor.open(now).expect("a new file");
            let ready: Ready = Arc::new(|| {});
            let desk = Desk { remote: Arc::new(Silent), ready, now, is_open: true };
            let theirs = UnixStream::connect(&path).expect("it listens");
            theirs.set_read_timeout(Some(PATIENCE)).expect("a time above zero");
            let visitor =
                acceptor.accept(&desk).expect("it waits").unwrap_or_else(|_| panic!("this user"));
            let client = Client::new(visitor, now);
            let rules = Rules { outside: Arc::new(Outside::default()), proxy: None };
            Table { client, theirs, acceptor, desk, rules }
        }

        /// Serves it a while later.
        fn after(&mut self, seconds: u64) -> bool {
            self.desk.now += Duration::from_secs(seconds);
            self.client.serve(&self.desk, &self.acceptor, &self.rules)
        }
    }

    #[test]
    fn slow_senders_are_sent_away_and_idle_clients_are_not() {
        let mut table = Table::new();
        assert!(table.after(0) && table.after(3600), "nothing is pending");
        table.theirs.write_all(b"READ c.").expect("open");
        assert!(table.after(1) && table.after(29));
        // A byte now and then does not buy more time.
        table.theirs.write_all(b"c").expect("open");
        assert!(!table.after(2));
    }

    #[test]
    fn a_client_that_takes_no_answers_is_closed() {
        let mut table = Table::new();
        assert!(table.after(0));
        let many = b"HELP\r\n".repeat(2_000);
        let mut writer = table.theirs.try_clone().expect("a descriptor");
        let sending = std::thread::spawn(move || writer.write_all(&many));
        while table.client.out.is_empty() {
            assert!(table.after(0));
        }
        assert!(table.after(29) && !table.after(2));
        drop(table);
        // Its end may be noticed or not.
        let _ = sending.join().expect("no panic");
    }

    #[test]
    fn a_thread_that_does_not_answer_is_reported() {
        let mut table = Table::new();
        table.theirs.write_all(b"READ c.count\r\n").expect("open");
        assert!(table.after(0) && table.after(9) && table.client.calling.is_some());
        assert!(table.after(2) && table.client.calling.is_none());
        let mut said = [0; 1024];
        let count = table.theirs.read(&mut said).expect("an answer");
        let said = String::from_utf8_lossy(&said[..count]);
        assert!(said.contains("590 no answer in 10 s"), "{said}");
        assert!(table.after(3600), "and the connection goes on");
    }
}

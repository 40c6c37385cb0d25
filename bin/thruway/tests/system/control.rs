//! Control connections by real sockets, and a hot swap over one.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;

use crate::process::{LIMIT, Running, click, wait_for};

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// A client of a control socket.
pub struct Client {
    stream: BufReader<Box<dyn Stream>>,
}

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Longest time that a thread may be away from its round because of somebody, nanoseconds.
pub const AWAY_NS: u64 = 5_000_000;

impl Client {
    /// Connects as soon as somebody listens, and takes the greeting.
    fn tcp(port: u16) -> Client {
        let stream = wait_for("a TCP socket", || TcpStream::connect(("127.0.0.1", port)).ok());
        stream.set_read_timeout(Some(PATIENCE)).expect("a time above zero");
        Client::greeted(Box::new(stream))
    }

    pub fn unix(path: &Path) -> Client {
        let stream = wait_for("a Unix socket", || UnixStream::connect(path).ok());
        stream.set_read_timeout(Some(PATIENCE)).expect("a time above zero");
        Client::greeted(Box::new(stream))
    }

    fn greeted(stream: Box<dyn Stream>) -> Client {
        let mut client = Client { stream: BufReader::new(stream) };
        assert_eq!(client.line(), "Click::ControlSocket/1.3");
        client
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).expect("an answer in time");
        line.trim_end().to_owned()
    }

    fn send(&mut self, text: &str) {
        self.stream.get_mut().write_all(text.as_bytes()).expect("it listens");
    }

    /// The code of the answer to a command, and its last line.
    pub fn ask(&mut self, command: &str) -> (u32, String) {
        self.send(&format!("{command}\r\n"));
        self.answer()
    }

    /// The longest stay of any thread away from its round: nanoseconds of its own, without those in
    /// which it had no processor, and the whole line.
    pub fn worst_gap(&mut self) -> (u64, String) {
        let text = self.read("gaps");
        let lines = text.lines().filter(|line| line.contains("\tworst\t"));
        let own = |line: &str| line.split('\t').nth(3)?.parse::<u64>().ok();
        let found = lines.filter_map(|line| Some((own(line)?, line.replace('\t', " ")))).max();
        found.expect("a line for each thread")
    }

    fn answer(&mut self) -> (u32, String) {
        let mut said = String::new();
        loop {
            let line = self.line();
            said += line.get(4..).unwrap_or_default();
            if line.as_bytes().get(3) != Some(&b'-') {
                let code = line.get(..3).and_then(|code| code.parse().ok());
                return (code.unwrap_or_else(|| panic!("no code: {line}")), said);
            }
            said.push('\n');
        }
    }

    /// The value of a read handler.
    #[track_caller]
    pub fn read(&mut self, handler: &str) -> String {
        self.try_read(handler).unwrap_or_else(|(code, said)| panic!("{handler}: {code} {said}"))
    }

    /// The same of one that may be refused: the code, and why.
    pub fn try_read(&mut self, handler: &str) -> Result<String, (u32, String)> {
        let (code, said) = self.ask(&format!("READ {handler}"));
        if code != 200 {
            return Err((code, said));
        }
        let line = self.line();
        let len = line.strip_prefix("DATA ").and_then(|len| len.parse().ok()).expect("a length");
        let mut bytes = vec![0; len];
        self.stream.read_exact(&mut bytes).expect("the value");
        Ok(String::from_utf8(bytes).expect("text"))
    }

    /// Reads a handler, and takes the value if there is one.
    pub fn ask_and_take(&mut self, handler: &str) -> u32 {
        self.try_read(handler).map_or_else(|(code, _)| code, |_| 200)
    }

    #[track_caller]
    pub fn number(&mut self, handler: &str) -> u64 {
        self.read(handler).trim().parse().expect("a number")
    }

    /// Writes data to a handler.
    pub fn write_data(&mut self, handler: &str, data: &str) -> (u32, String) {
        self.send(&format!("WRITEDATA {handler} {}\r\n{data}", data.len()));
        self.answer()
    }

    fn at_end(&mut self) -> bool {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).is_ok() && rest.is_empty()
    }
}

/// A port that nothing listens at.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it has one").port()
}

/// Reads, writes and mistakes; ends with the stop of the driver.
fn converse(client: &mut Client, other: &mut Client) {
    assert_eq!(client.read("c.config"), "");
    let before = client.number("c.count");
    wait_for("packets", || (other.number("c.count") > before).then_some(()));
    assert_eq!(client.ask("WRITE s.active false").0, 200);
    assert_eq!(client.ask("WRITE c.reset").0, 200);
    assert_eq!(other.number("c.count"), 0);
    assert_eq!(client.ask("READ nosuch.count").0, 510);
    assert_eq!(client.ask("READ c.nosuch").0, 511);
    assert_eq!(client.ask("WRITE s.active maybe").0, 520);
    assert_eq!(client.ask("CHECKWRITE c.reset").0, 200);
    assert_eq!(client.ask("write c.reset").0, 200);
    assert_eq!(client.ask("WRITE hotconfig Idle -> Discard").0, 511, "there is no -R");
    // A command in pieces, and two at once.
    client.send("READ c.");
    std::thread::sleep(Duration::from_millis(20));
    client.send("class\r\nREAD c.name\r\n");
    assert_eq!((client.answer().0, client.line()), (200, "DATA 7".to_owned()));
    let mut value = [0; 7];
    client.stream.read_exact(&mut value).expect("the value");
    assert_eq!(&value, b"Counter");
    assert_eq!((client.answer().0, client.line()), (200, "DATA 1".to_owned()));
    client.stream.read_exact(&mut value[..1]).expect("the value");
    assert_eq!(other.read("c.name"), "c");
    assert_eq!(client.ask("QUIT").0, 200);
    assert!(client.at_end(), "QUIT ends the connection");
    assert_eq!(other.read("c.name"), "c", "and no other");
    other.send("WRITE stop\r\n");
}

const FLOW: &str = "s :: RatedSource(RATE 2000) -> c :: Counter -> Discard";

#[test]
fn tcp_control() {
    let port = free_port();
    let driver = Running::start(&mut click(&["-p", &port.to_string(), "-e", FLOW]));
    let (mut client, mut other) = (Client::tcp(port), Client::tcp(port));
    converse(&mut client, &mut other);
    driver.wait(LIMIT).expect(0);
}

#[test]
fn unix_control() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("control");
    let name = path.to_str().expect("plain text");
    let driver = Running::start(&mut click(&["-u", name, "-e", FLOW]));
    let (mut client, mut other) = (Client::unix(&path), Client::unix(&path));
    converse(&mut client, &mut other);
    driver.wait(LIMIT).expect(0);
    assert!(!path.exists(), "the socket's file goes with the driver");
}

#[test]
fn hostile_clients_do_no_harm() {
    let port = free_port();
    let driver = Running::start(&mut click(&["-p", &port.to_string(), "-e", FLOW]));
    let mut good = Client::tcp(port);
    let endless = vec![b'x'; 1 << 20];
    for bytes in
        [&endless[..], b"WRITEDATA c.reset 99999999999999999999\r\n", b"\0\xff\x80\r\n\r\n"]
    {
        let mut bad = Client::tcp(port);
        // It may be sent away before it has said all.
        let _ = bad.stream.get_mut().write_all(bytes);
    }
    let _silent: Vec<Client> = (0..20).map(|_| Client::tcp(port)).collect();
    assert_eq!(good.read("c.class"), "Counter");
    good.send("WRITE stop\r\n");
    driver.wait(LIMIT).expect(0);
}

#[test]
fn a_hot_swap_keeps_packets_and_counts() {
    let port = free_port();
    let full = "InfiniteSource(LIMIT 5) -> c :: Counter -> q :: Queue(100) -> Idle; Idle -> x :: Null -> Discard";
    let mut driver = Running::start(&mut click(&["-R", "-p", &port.to_string(), "-e", full]));
    let mut client = Client::tcp(port);
    wait_for("five packets", || (client.number("q.length") == 5).then_some(()));

    // Mistakes of both stages leave everything as it was.
    let (code, said) = client.write_data("hotconfig", "Idle -> Nosuch -> Discard");
    assert!(code >= 500 && said.contains("Nosuch"), "{code} {said}");
    let late = "Idle -> c :: Counter -> q :: Queue(100) -> Idle; FromDump(/nofile) -> Discard";
    client.write_data("hotconfig", late);
    wait_for("the refusal", || driver.stderr().contains("/nofile").then_some(()));
    assert_eq!((client.number("c.count"), client.number("q.length")), (5, 5));

    // The queue's packets go on to where the new configuration sends them.
    let next = "Idle -> c :: Counter -> q :: Queue(50) -> Unqueue -> d :: Counter -> Discard";
    assert_eq!(client.write_data("hotconfig", next).0, 200);
    wait_for("the packets behind the queue", || {
        let (code, _) = client.ask("CHECKREAD d.count");
        (code == 200 && client.number("d.count") == 5).then_some(())
    });
    assert_eq!(client.number("c.count"), 5, "the old counts");
    assert_eq!(client.read("q.capacity"), "50", "the new arguments");
    assert_eq!(client.ask("READ x.name").0, 510, "what is gone is gone");
    assert_eq!(Client::tcp(port).read("c.count"), "5", "the socket listens on");
    assert!(!driver.ended());
    let again = "Idle -> c :: Counter -> d :: Counter -> Discard";
    assert_eq!(client.write_data("hotconfig", again).0, 200);
    wait_for("the third configuration", || {
        (client.ask("CHECKREAD q.length").0 != 200).then_some(())
    });
    assert_eq!(client.number("d.count"), 5);
    driver.interrupt().expect(0);
}

#[test]
fn a_swapped_configuration_gets_its_signals() {
    let port = free_port();
    let config = ["-R", "-p", &port.to_string(), "-e", "Idle -> Discard"];
    let driver = Running::start(&mut click(&config));
    let mut client = Client::tcp(port);
    let next = "Script(TYPE SIGNAL USR1, print \"first\"); s :: Script(TYPE SIGNAL INT, print \"second\", stop)";
    assert_eq!(client.write_data("hotconfig", next).0, 200);
    wait_for("the swap", || (client.ask("CHECKREAD s.run").0 == 200).then_some(()));
    driver.signal(Signal::USR1);
    wait_for("the script", || driver.stdout().contains("first").then_some(()));
    assert_eq!(driver.interrupt().expect(0).stdout, "first\nsecond\n");
}

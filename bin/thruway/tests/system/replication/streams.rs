//! TCP streams in which a function replaces words, when a host is lost or makes way.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::Pair;
use super::load::{Between as _, connect};
use crate::process::{privileged, wait_for};

/// Connections that are open when the host is lost: of those that talk, and of silent ones.
const TALKING: usize = 20;
const SILENT: usize = 20;
/// How soon all ends know: those that are silent are asked at once, and again after a second.
const KNOWN_AFTER: Duration = Duration::from_secs(5);
/// What a client sends, and what its server gets, which is longer.
const SENT: &[u8] = b"an attack on the attack. ";
const GOT: &[u8] = b"an embrace on the embrace. ";

/// The pair's configuration with a function that replaces words of IPv4's TCP.
pub fn with_words(text: &str) -> String {
    let through =
        |port| format!("[{port}]tcp[{port}] -> [{port}]words[{port}] -> [{port}]out[{port}]");
    let changes = [
        ("firewall -> nat;", format!("firewall -> {} -> nat;", through(0))),
        ("nat[1] -> [1]firewall;", format!("nat[1] -> {} -> [1]firewall;", through(1))),
        (
            "from_lan :: Flow",
            "tcp :: TCPIn;\nwords :: WordMatcher(attack, MODE REPLACE, WITH embrace);\n\
             out :: TCPOut;\nfrom_lan :: Flow"
                .into(),
        ),
    ];
    changes.into_iter().fold(text.to_owned(), |text, (plain, changed)| {
        assert!(text.contains(plain), "{plain}");
        text.replace(plain, &changed)
    })
}

/// A client's end of a connection, and its server's.
struct Ends {
    client: TcpStream,
    server: TcpStream,
}

impl Ends {
    fn open(pair: &Pair, listener: &TcpListener) -> Ends {
        let client = connect(&pair.ends());
        let (server, _) = listener.accept().expect("a connection");
        server.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
        Ends { client, server }
    }

    /// The client says something, and the server what it got.
    fn talk(&mut self) -> std::io::Result<()> {
        let mut got = vec![0; GOT.len()];
        self.client.write_all(SENT)?;
        self.server.read_exact(&mut got)?;
        assert_eq!(got.escape_ascii().to_string(), GOT.escape_ascii().to_string());
        self.server.write_all(&got)?;
        self.client.read_exact(&mut got)?;
        assert_eq!(got.escape_ascii().to_string(), GOT.escape_ascii().to_string());
        Ok(())
    }

    /// How either end learns that the connection is gone, without a word of its own.
    fn fates(&self) -> [ErrorKind; 2] {
        [&self.client, &self.server].map(|mut end| {
            let mut bytes = [0; 64];
            loop {
                match end.read(&mut bytes) {
                    Ok(0) => return ErrorKind::UnexpectedEof,
                    Ok(_) => {}
                    Err(error) => return error.kind(),
                }
            }
        })
    }
}

fn listen(pair: &Pair) -> TcpListener {
    let address: SocketAddr = pair.ends().address;
    pair.outside.within(|| TcpListener::bind(address)).expect("a listener")
}

/// Connections that have talked, and connections that have said nothing for longer than changes
/// take.
fn open(pair: &Pair, listener: &TcpListener) -> Vec<Ends> {
    let mut all: Vec<Ends> = (0..TALKING + SILENT).map(|_| Ends::open(pair, listener)).collect();
    all.iter_mut().for_each(|ends| ends.talk().expect("the host serves"));
    wait_for("the backup to have all connections", || {
        (pair.count(1, "tcp.connections") >= all.len() as u64).then_some(())
    });
    all
}

/// All connections are reset at both ends, soon, and new ones work.
fn all_are_reset(pair: &Pair, listener: &TcpListener, all: &[Ends], serves: usize) {
    let begun = Instant::now();
    for (number, ends) in all.iter().enumerate() {
        let fates = ends.fates();
        assert_eq!(fates, [ErrorKind::ConnectionReset; 2], "{number}: {}", pair.log(serves));
    }
    println!("{} connections were reset at both ends within {:.0?}", all.len(), begun.elapsed());
    assert!(begun.elapsed() < KNOWN_AFTER, "{:?}", begun.elapsed());
    assert_eq!(pair.count(serves, "tcp.unreplicated"), all.len() as u64);
    let mut fresh = Ends::open(pair, listener);
    fresh.talk().expect("a new connection");
}

#[test]
fn changed_streams_are_reset_at_both_ends_when_a_host_is_lost() {
    if !privileged("changed_streams_are_reset_at_both_ends_when_a_host_is_lost") {
        return;
    }
    let mut pair = Pair::new();
    pair.replaces_words = true;
    pair.start_backup();
    pair.start_active();
    pair.wait_synchronized();
    let listener = listen(&pair);
    let mut all = open(&pair, &listener);
    // The last numbers that the backup knows of these are old.
    for _ in 0..50 {
        all[..TALKING].iter_mut().for_each(|ends| ends.talk().expect("the host serves"));
    }
    pair.kill_active();
    all_are_reset(&pair, &listener, &all, 1);
}

#[test]
fn changed_streams_are_reset_at_both_ends_by_a_switchover() {
    if !privileged("changed_streams_are_reset_at_both_ends_by_a_switchover") {
        return;
    }
    let mut pair = Pair::new();
    pair.replaces_words = true;
    pair.start_backup();
    pair.start_active();
    pair.wait_synchronized();
    let listener = listen(&pair);
    for serves in [1, 0] {
        let mut all: Vec<Ends> = (0..SILENT).map(|_| Ends::open(&pair, &listener)).collect();
        all.iter_mut().for_each(|ends| ends.talk().expect("the host serves"));
        let before = pair.count(serves, "tcp.unreplicated");
        assert_eq!(before, 0, "each host takes over once");
        pair.ctl(1 - serves, &["write", "pair.switchover", "now"]).expect(0);
        pair.wait_role(serves, "active");
        pair.wait_role(1 - serves, "backup");
        for ends in &all {
            assert_eq!(ends.fates(), [ErrorKind::ConnectionReset; 2], "{}", pair.log(serves));
        }
        assert!(pair.count(serves, "tcp.unreplicated") >= SILENT as u64);
        Ends::open(&pair, &listener).talk().expect("a new connection");
        pair.wait_synchronized_at(1 - serves);
    }
}

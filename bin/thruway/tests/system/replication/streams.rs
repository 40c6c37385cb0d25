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
pub fn with_words(text: &str, [streams, with]: [&str; 2]) -> String {
    let through =
        |port| format!("[{port}]tcp[{port}] -> [{port}]words[{port}] -> [{port}]out[{port}]");
    let changes = [
        ("KEY $KEY,", format!("KEY $KEY, STREAMS {streams},")),
        ("firewall -> nat;", format!("firewall -> {} -> nat;", through(0))),
        ("nat[1] -> [1]firewall;", format!("nat[1] -> {} -> [1]firewall;", through(1))),
        (
            "from_lan :: Flow",
            format!(
                "tcp :: TCPIn;\nwords :: WordMatcher(attack, MODE REPLACE, WITH {with});\n\
                 out :: TCPOut;\nfrom_lan :: Flow"
            ),
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

/// A pair with a backup, where a function replaces words in TCP streams.
fn pair_with_streams(
    streams: &'static str,
    commits: Option<&'static str>,
    after: &'static str,
) -> Pair {
    let mut pair = Pair::new();
    (pair.streams, pair.commits, pair.after) = (Some([streams, "embrace"]), commits, after);
    pair.start_backup();
    pair.start_active();
    pair.wait_synchronized();
    pair
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
    let mut pair = pair_with_streams("close", None, "150ms");
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
    let pair = pair_with_streams("close", None, "150ms");
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

/// Connections that are used in both directions while the host is lost, and bytes of each of these.
const TRANSFERS: usize = 10;
const BYTES: usize = 1 << 20;
/// Longest wait for a byte: senders' timers double while hosts change, and count what they waited.
const STALLED_AFTER: Duration = Duration::from_secs(120);
/// Words that are replaced before the host is lost, of some 800,000.
const WORDS_BEFORE: u64 = 200_000;

/// What an end sends: words at all distances, so that packets begin and end within some.
fn text(seed: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(BYTES + 64);
    for line in seed.. {
        text.extend(format!("{line:x} att attack{} ", "ack".repeat(line % 7)).bytes());
        if text.len() > BYTES {
            break;
        }
    }
    text.extend(b"the end");
    text
}

/// What its peer gets.
fn replaced(text: &[u8]) -> Vec<u8> {
    String::from_utf8_lossy(text).replace("attack", "embrace").into_bytes()
}

/// Sends all, slowly enough that the loss of the host comes in its middle.
fn write_slowly(mut end: &TcpStream, text: &[u8]) -> std::io::Result<()> {
    for piece in text.chunks(5000) {
        end.write_all(piece)?;
        std::thread::sleep(Duration::from_millis(20));
    }
    end.shutdown(std::net::Shutdown::Write)
}

/// How a direction of a transfer ended: all its bytes are right, or those that came are.
fn read_all(mut end: &TcpStream, expected: &[u8]) -> Result<(), ErrorKind> {
    let (mut at, mut bytes) = (0, vec![0; 64 << 10]);
    loop {
        match end.read(&mut bytes) {
            Ok(0) if at == expected.len() => return Ok(()),
            // One of an end's threads gets the error of a reset, the other one an end of file.
            Ok(0) if end.peer_addr().is_err() => return Err(ErrorKind::ConnectionReset),
            Ok(0) => return Err(ErrorKind::UnexpectedEof),
            Ok(len) => {
                let right = expected.get(at..at + len);
                assert!(right == Some(&bytes[..len]), "wrong bytes from {at} to {}", at + len);
                at += len;
            }
            Err(error) => return Err(error.kind()),
        }
    }
}

/// Runs transfers, in both directions of each connection, while `meanwhile` runs; how each ended.
fn transfer(pair: &mut Pair, meanwhile: impl FnOnce(&mut Pair)) -> Vec<Result<(), ErrorKind>> {
    let listener = listen(pair);
    let all: Vec<Ends> = (0..TRANSFERS).map(|_| Ends::open(pair, &listener)).collect();
    for end in all.iter().flat_map(|Ends { client, server }| [client, server]) {
        end.set_read_timeout(Some(STALLED_AFTER)).expect("a socket");
        end.set_write_timeout(Some(STALLED_AFTER)).expect("a socket");
    }
    let texts: Vec<[Vec<u8>; 2]> = (0..2 * TRANSFERS)
        .map(|seed| text(seed * 100))
        .map(|text| [replaced(&text), text])
        .collect();
    std::thread::scope(|scope| {
        let mut directions = Vec::new();
        for (Ends { client, server }, texts) in all.iter().zip(texts.chunks(2)) {
            for ((from, to), [expected, text]) in
                [(client, server), (server, client)].into_iter().zip(texts)
            {
                scope.spawn(move || write_slowly(from, text));
                directions.push(scope.spawn(move || read_all(to, expected)));
            }
        }
        wait_for("a part of the words", || {
            (pair.count(0, "words.matches") > WORDS_BEFORE).then_some(())
        });
        meanwhile(pair);
        directions.into_iter().map(|one| one.join().expect("no wrong byte")).collect()
    })
}

#[test]
fn with_output_commit_changed_streams_survive_the_loss_of_a_host() {
    if !privileged("with_output_commit_changed_streams_survive_the_loss_of_a_host") {
        return;
    }
    let mut pair = pair_with_streams("replicate", Some("DROP"), "400ms");
    let ends = transfer(&mut pair, Pair::kill_active);
    assert!(ends.iter().all(Result::is_ok), "{ends:?} {}", pair.log(1));
    assert_eq!(pair.count(1, "tcp.continued"), TRANSFERS as u64);
    assert_eq!(pair.count(1, "tcp.unreplicated"), 0);
    let words = pair.count(1, "words.matches");
    println!("{words} words were replaced at the backup");
    assert!(words > WORDS_BEFORE, "the loss came in the middle");
}

#[test]
fn without_output_commit_no_byte_of_changed_streams_is_wrong() {
    if !privileged("without_output_commit_no_byte_of_changed_streams_is_wrong") {
        return;
    }
    let mut pair = pair_with_streams("replicate", None, "400ms");
    let listener = listen(&pair);
    let mut idle: Vec<Ends> = (0..SILENT).map(|_| Ends::open(&pair, &listener)).collect();
    idle.iter_mut().for_each(|ends| ends.talk().expect("the host serves"));
    drop(listener);
    let ends = transfer(&mut pair, Pair::kill_active);
    let failed = ends.iter().filter_map(|end| end.err());
    assert!(failed.clone().all(|why| why == ErrorKind::ConnectionReset), "{ends:?}");
    println!("{} of {} directions were reset: {ends:?}", failed.count(), ends.len());
    // Of these everything was known.
    idle.iter_mut().for_each(|ends| ends.talk().expect("the backup serves"));
    let (on, off) = (pair.count(1, "tcp.continued"), pair.count(1, "tcp.unreplicated"));
    println!("{on} went on, of which {off} were reset then");
    assert!(on - off >= SILENT as u64);
}

#[test]
fn changed_streams_go_on_by_switchovers_or_are_reset() {
    if !privileged("changed_streams_go_on_by_switchovers_or_are_reset") {
        return;
    }
    for commits in [None, Some("DROP")] {
        let mut pair = pair_with_streams("replicate", commits, "0");
        let ends = transfer(&mut pair, |pair| {
            for from in [0, 1] {
                pair.ctl(from, &["write", "pair.switchover", "now"]).expect(0);
                pair.wait_role(1 - from, "active");
                pair.wait_synchronized_at(from);
                // The new backup can go on when receivers have what was on its way at its first
                // image of them: their senders' timers double meanwhile.
                std::thread::sleep(Duration::from_millis(1500));
            }
        });
        let failed = ends.iter().filter_map(|end| end.err());
        let is_reset = failed.clone().all(|why| why == ErrorKind::ConnectionReset);
        assert!(is_reset, "{ends:?} {} {}", pair.log(0), pair.log(1));
        let (failed, all) = (failed.count(), ends.len());
        println!("{failed} of {all} directions were reset by two switchovers");
        assert!(failed < all / 2, "{ends:?}");
    }
}

/// A function that makes other bytes cannot go on.
#[test]
fn other_words_on_the_other_host_are_refused() {
    if !privileged("other_words_on_the_other_host_are_refused") {
        return;
    }
    let mut pair = Pair::new();
    pair.streams = Some(["replicate", "embrace"]);
    pair.start_backup();
    pair.streams = Some(["replicate", "hug"]);
    pair.start_active();
    pair.wait_log(1, "the chains differ");
    pair.wait_log(0, "the other host refused");
    assert!(pair.log(0).contains("words :: WordMatcher (words "), "{}", pair.log(0));
    assert_eq!(pair.read(0, "pair.synchronized"), "false");
}

//! Output commit: what a client knows to be established survives, without exception.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use thruway_sync::atomic::{AtomicBool, Ordering};

use super::Pair;
use super::load::{Between as _, connect, serve};
use crate::process::{Ending, privileged, wait_for};

/// How long the host serves after its backup was cut off.
const CUT: Duration = Duration::from_millis(100);
/// Clients that connect again and again, and their pause.
const CLIENTS: usize = 6;
const PAUSE: Duration = Duration::from_millis(10);

/// A connection, and how long it took.
type Opened = (TcpStream, Duration);

/// Whether a connection, over which nothing was sent yet, is answered.
fn answers((mut stream, _): Opened) -> Result<(), String> {
    for round in 0..3u8 {
        let question = [b'Q', round, 3, 4, 5, 6, 7, 8];
        let mut answer = [0; 8];
        stream.write_all(&question).map_err(|error| error.to_string())?;
        stream.read_exact(&mut answer).map_err(|error| error.to_string())?;
        if answer != question {
            return Err(format!("{answer:?}"));
        }
    }
    Ok(())
}

/// Opens connections until the serving host is killed, a moment after its backup was cut off; how
/// many there were, and why some ended.
fn lose_amid_handshakes(pair: &Pair) -> (usize, Vec<String>) {
    let address = pair.ends().address;
    let listener = pair.outside.within(|| TcpListener::bind(address)).expect("a listener");
    let (stop, stop_server) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| serve(&listener, &stop_server));
        let ending = (Ending(&[&stop]), Ending(&[&stop_server]));
        let open = || {
            let mut opened: Vec<Opened> = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let begun = Instant::now();
                let stream = connect(&pair.ends());
                opened.push((stream, begun.elapsed()));
                std::thread::sleep(PAUSE);
            }
            opened
        };
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(open)).collect();
        std::thread::sleep(Duration::from_secs(1));
        // What the host does from here on, its backup does not learn.
        pair.middles[0].ip("link set pair0 down");
        std::thread::sleep(CUT);
        pair.a.as_ref().expect("it runs").signal(rustix::process::Signal::KILL);
        pair.wait_log(1, "this host serves the traffic now");
        drop(ending.0);
        let opened = clients.into_iter().flat_map(|client| client.join().expect("connections"));
        let opened: Vec<Opened> = opened.collect();
        let mut times: Vec<Duration> = opened.iter().map(|(_, time)| *time).collect();
        times.sort();
        println!("handshake: p50 {:.1?} of {}", times[times.len() / 2], times.len());
        let count = opened.len();
        let answered: Vec<_> =
            opened.into_iter().map(|opened| scope.spawn(|| answers(opened))).collect();
        let failed = answered.into_iter().filter_map(|one| one.join().expect("no panic").err());
        let failed: Vec<String> = failed.collect();
        drop(ending.1);
        (count, failed)
    })
}

/// Waits until packets wait for the backup.
fn wait_synchronous(pair: &Pair) {
    wait_for("the backup to have all sessions", || {
        (pair.read(0, "pair.synchronous") == "true").then_some(())
    });
}

#[test]
fn every_established_session_survives() {
    if !privileged("every_established_session_survives") {
        return;
    }
    // Without output commit some are lost: else this would show nothing.
    for commits in [Some("DROP"), None] {
        let mut pair = Pair::new();
        pair.commits = commits;
        pair.start_backup();
        pair.start_active();
        pair.wait_synchronized();
        let (count, failed) = lose_amid_handshakes(&pair);
        println!("output commit {commits:?}: {} of {count} ended: {failed:?}", failed.len());
        assert!(count > 20, "{count} connections");
        assert_eq!(failed.is_empty(), commits.is_some(), "{failed:?}");
    }
}

/// Without its backup a host goes on after COMMIT_TIME, says so, and waits again with a new one.
#[test]
fn a_lost_backup_holds_packets_for_a_moment() {
    if !privileged("a_lost_backup_holds_packets_for_a_moment") {
        return;
    }
    let mut pair = Pair::new();
    pair.commits = Some("PASS");
    pair.start_backup();
    pair.start_active();
    wait_synchronous(&pair);
    let address = pair.ends().address;
    let listener = pair.outside.within(|| TcpListener::bind(address)).expect("a listener");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| serve(&listener, &stop));
        let _ending = Ending(&[&stop]);
        let open = |pair: &Pair| {
            let begun = Instant::now();
            let stream = connect(&pair.ends());
            answers((stream, begun.elapsed())).expect("an answer");
            begun.elapsed()
        };
        let before = pair.count(0, "pair.uncommitted");
        open(&pair);
        assert!(pair.count(0, "pair.committed") > 0);
        assert_eq!(pair.count(0, "pair.uncommitted"), before);
        // It is silent, and its host is there.
        let backup = pair.b.take().expect("it runs");
        backup.signal(rustix::process::Signal::STOP);
        let late = open(&pair);
        assert_eq!(pair.count(0, "pair.lapses"), 1);
        assert_eq!(pair.read(0, "pair.synchronous"), "false");
        pair.wait_log(0, "within COMMIT_TIME");
        let then = open(&pair);
        println!("the first connection took {late:.0?}, the next {then:.0?}");
        assert!(pair.count(0, "pair.uncommitted") > before);
        backup.signal(rustix::process::Signal::KILL);
        backup.wait(Duration::from_secs(5));
        pair.start_backup();
        wait_synchronous(&pair);
        let before = pair.count(0, "pair.uncommitted");
        open(&pair);
        assert_eq!(pair.count(0, "pair.uncommitted"), before);
        assert_eq!(pair.count(0, "pair.waiting"), 0);
    });
}

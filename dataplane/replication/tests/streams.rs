//! Both ends of a stream over loopback, and in the middle who loses, repeats and invents frames.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use thruway_replication::{Batch, Key, Link, Peer, Record, Records, SessionKey, Side, Term};
use thruway_sync::atomic::Ordering;

const CHAIN: &str = "a chain";

/// A port of loopback that nobody listens at.
fn free_port() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap()
}

fn key() -> Key {
    Key::of_bytes(b"the secret of both hosts")
}

fn wait_for<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = ready() {
            return found;
        }
        assert!(begin.elapsed() < Duration::from_secs(20), "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits for a line with these words in it.
fn wait_line(link: &Link, words: &str) {
    wait_for(words, || link.line().filter(|line| line.contains(words)));
}

/// Queues a batch with the end of one session; false if there is no room.
fn put(link: &Link, stream: u64, number: u32) -> bool {
    let Some(mut bytes) = link.outgoing.buffer() else { return false };
    assert!(Record::Ended(0, SessionKey::V4([number; 4])).write(&mut bytes));
    link.outgoing.put(Batch { stream, count: 1, bytes, ..Batch::default() }).is_ok()
}

/// The numbers of the batches that came so far; they count as installed.
fn take(link: &Link) -> Vec<u32> {
    let mut numbers = Vec::new();
    while let Some(batch) = link.incoming.take() {
        for record in Records::new(&batch.bytes) {
            let Ok(Record::Ended(0, SessionKey::V4([number, ..]))) = record else {
                panic!("{record:?}")
            };
            numbers.push(number);
        }
        link.add_done(batch.count);
        link.incoming.recycle(batch.bytes);
    }
    numbers
}

/// Both links, with their threads, and what the active host connects to.
struct Ends {
    active: Arc<Link>,
    backup: Arc<Link>,
    _threads: [Peer; 2],
}

impl Ends {
    fn new(through: Option<SocketAddr>, at: SocketAddr) -> Ends {
        let [active, backup] = [Side::Caller, Side::Listener].map(|side| Arc::new(Link::new(side)));
        let listening = Peer::begin(&backup, at, key(), CHAIN.into(), None).unwrap();
        let calling =
            Peer::begin(&active, through.unwrap_or(at), key(), CHAIN.into(), None).unwrap();
        Ends { active, backup, _threads: [calling, listening] }
    }

    fn stream(&self) -> u64 {
        wait_for("a stream", || self.active.stream())
    }
}

#[test]
fn batches_come_in_order_and_are_acknowledged() {
    let ends = Ends::new(None, free_port());
    let stream = ends.stream();
    (0..100).for_each(|number| assert!(put(&ends.active, stream, number)));
    // Of an earlier stream: it is not sent.
    assert!(put(&ends.active, stream - 1, 7777));
    let mut numbers = Vec::new();
    wait_for("all batches", || {
        numbers.extend(take(&ends.backup));
        (numbers.len() == 100).then_some(())
    });
    assert_eq!(numbers, (0..100).collect::<Vec<u32>>());
    let acknowledged = || ends.active.counts.acknowledged.load(Ordering::Relaxed);
    wait_for("the acknowledgement", || (acknowledged() == 100).then_some(()));
}

/// A backup that does not come round to install holds nobody up: the active host finds no room.
#[test]
fn a_full_queue_is_noticed_and_waits_for_nobody() {
    let ends = Ends::new(None, free_port());
    let stream = ends.stream();
    let begin = Instant::now();
    let mut longest = Duration::ZERO;
    let mut sent = 0;
    let found_full = loop {
        let before = Instant::now();
        let is_put = put(&ends.active, stream, sent);
        longest = longest.max(before.elapsed());
        sent += 1;
        if !is_put || begin.elapsed() > Duration::from_secs(20) {
            break !is_put;
        }
    };
    assert!(found_full, "{sent} batches went somewhere");
    println!("no room after {sent} batches; the longest put took {longest:.0?}");
    // What had room comes when the backup is ready, and then there is room again.
    let mut numbers = Vec::new();
    wait_for("all batches", || {
        numbers.extend(take(&ends.backup));
        (numbers.len() as u32 == sent - 1).then_some(())
    });
    assert_eq!(numbers, (0..sent - 1).collect::<Vec<u32>>());
    wait_for("room", || put(&ends.active, stream, 0).then_some(()));
}

/// What stands between both ends does to the frames of the active host.
#[derive(Clone, Copy)]
enum Fault {
    /// One is missing.
    Gap,
    /// One comes twice.
    Repeat,
    /// A bit of one is another.
    Change,
}

/// Reads a frame, its length in front.
fn read_frame(from: &mut TcpStream) -> Option<Vec<u8>> {
    let mut len = [0; 4];
    from.read_exact(&mut len).ok()?;
    let mut frame = vec![0; 4 + u32::from_be_bytes(len) as usize];
    frame[..4].copy_from_slice(&len);
    from.read_exact(&mut frame[4..]).ok()?;
    Some(frame)
}

/// Passes streams on to the backup, the first one with a fault in its fifth frame.
fn pass_on(listener: &TcpListener, backup: SocketAddr, fault: Fault) {
    for number in 0..2 {
        let Ok((mut active, _)) = listener.accept() else { return };
        let Ok(mut to) = TcpStream::connect(backup) else { return };
        let (mut back, mut from) = (active.try_clone().unwrap(), to.try_clone().unwrap());
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut back);
            let _ = back.shutdown(std::net::Shutdown::Both);
        });
        let mut greeting = [0; 42];
        if active.read_exact(&mut greeting).is_err() || to.write_all(&greeting).is_err() {
            return;
        }
        for at in 0.. {
            let Some(mut frame) = read_frame(&mut active) else { break };
            let is_fault = number == 0 && at == 4;
            match fault {
                Fault::Gap if is_fault => continue,
                Fault::Change if is_fault => *frame.last_mut().unwrap() ^= 1,
                _ => {}
            }
            let times = if is_fault && matches!(fault, Fault::Repeat) { 2 } else { 1 };
            if (0..times).any(|_| to.write_all(&frame).is_err()) {
                break;
            }
        }
    }
}

/// A fault ends the stream, is named and counted, and the next stream is whole.
fn suffer(fault: Fault, words: &str) {
    let at = free_port();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let through = listener.local_addr().unwrap();
    std::thread::spawn(move || pass_on(&listener, at, fault));
    let ends = Ends::new(Some(through), at);
    let stream = ends.stream();
    // Heartbeats are frames, too.
    wait_line(&ends.backup, words);
    assert_eq!(ends.backup.counts.refused.load(Ordering::Relaxed), 1);
    let next = wait_for("another stream", || ends.active.stream().filter(|next| *next > stream));
    assert!(put(&ends.active, next, 5));
    wait_for("the batch", || (take(&ends.backup) == [5]).then_some(()));
}

#[test]
fn a_gap_ends_the_stream() {
    suffer(Fault::Gap, "frame 5 came in the place of frame 4");
}

#[test]
fn a_repeated_frame_ends_the_stream() {
    suffer(Fault::Repeat, "frame 4 came in the place of frame 5");
}

#[test]
fn a_changed_frame_ends_the_stream() {
    suffer(Fault::Change, "did not sign");
}

#[test]
fn other_chains_are_refused() {
    let at = free_port();
    let [active, backup] = [Side::Caller, Side::Listener].map(|side| Arc::new(Link::new(side)));
    // It serves all the same, and the other host learns that.
    backup.advance(Term::default().next());
    let _listening = Peer::begin(&backup, at, key(), "another chain".into(), None).unwrap();
    let _calling = Peer::begin(&active, at, key(), CHAIN.into(), None).unwrap();
    wait_line(&active, "the chains differ");
    wait_line(&backup, "the chains differ");
    assert!(active.is_foreign() && backup.is_foreign());
    assert_eq!(active.term(), Term::default().next());
}

/// Whoever takes over says so, and records go the other way from then on, over the same stream.
#[test]
fn a_later_term_turns_the_stream_around() {
    let ends = Ends::new(None, free_port());
    let stream = ends.stream();
    assert!(put(&ends.active, stream, 1));
    wait_for("the record", || (take(&ends.backup) == [1]).then_some(()));
    let term = Term::default().next();
    ends.backup.advance(term);
    wait_for("the word of the backup", || (ends.active.term() == term).then_some(()));
    let theirs = ends.backup.stream().unwrap();
    assert!(put(&ends.backup, theirs, 2));
    wait_for("the record", || (take(&ends.active) == [2]).then_some(()));
    let acknowledged = || ends.backup.counts.acknowledged.load(Ordering::Relaxed);
    wait_for("the acknowledgement", || (acknowledged() == 1).then_some(()));
    assert_eq!(ends.active.stream(), Some(stream), "the stream goes on");
}

/// A batch comes in the term in which it was written, or in a later one.
#[test]
fn the_term_of_a_batch_comes_with_it() {
    let ends = Ends::new(None, free_port());
    ends.stream();
    let mut term = Term::default();
    for number in 0..200 {
        term = term.next();
        let from = if term.server() == Side::Caller { &ends.active } else { &ends.backup };
        let to = if term.server() == Side::Caller { &ends.backup } else { &ends.active };
        let mut bytes = from.outgoing.buffer().unwrap();
        assert!(Record::Ended(0, SessionKey::V4([number; 4])).write(&mut bytes));
        let stream = wait_for("a stream", || from.stream());
        let batch = Batch { stream, term, count: 1, bytes, ..Batch::default() };
        from.outgoing.put(batch).unwrap();
        let came = wait_for("the batch", || to.incoming.take());
        assert_eq!(came.term, term);
        to.add_done(1);
        to.incoming.recycle(came.bytes);
    }
}

/// A host that was started again does not serve if the other one has its sessions.
#[test]
fn a_host_that_begins_anew_leaves_the_sessions_to_the_other() {
    let at = free_port();
    let [active, backup] = [Side::Caller, Side::Listener].map(|side| Arc::new(Link::new(side)));
    backup.set_has_sessions(true);
    let _listening = Peer::begin(&backup, at, key(), CHAIN.into(), None).unwrap();
    let _calling = Peer::begin(&active, at, key(), CHAIN.into(), None).unwrap();
    let term = Term::default().next();
    wait_for("both to agree", || {
        [&active, &backup].iter().all(|link| link.term() == term).then_some(())
    });
}

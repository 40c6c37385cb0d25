//! Hosts that ask a witness for leases, over loopback.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use thruway_replication::{Key, Link, Peer, Side, Term, Witness, WitnessState, WitnessUse};
use thruway_sync::atomic::Ordering;

const LEASE_MS: u32 = 200;

fn free_port() -> SocketAddr {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap()
}

fn key() -> Key {
    Key::of_bytes(b"the secret of both hosts")
}

#[track_caller]
fn wait_for(what: &str, mut ready: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !ready() {
        assert!(begin.elapsed() < Duration::from_secs(20), "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A host of a pair whose other host is never reached.
fn host(side: Side, witness: SocketAddr) -> (Arc<Link>, Peer) {
    let link = Arc::new(Link::new(side));
    let witness = Some(WitnessUse { at: witness, lease_ms: LEASE_MS });
    let peer = Peer::begin(&link, free_port(), key(), "a chain".into(), witness).unwrap();
    (link, peer)
}

#[test]
fn a_later_term_is_granted_when_the_earlier_one_is_not_claimed_any_more() {
    let at = free_port();
    let state = Arc::new(WitnessState::default());
    let witness = Witness::begin(&state, at, key()).unwrap();
    let (active, active_peer) = host(Side::Caller, at);
    let (backup, _backup_peer) = host(Side::Listener, at);
    let (first, second) = (Term::default(), Term::default().next());
    let holds = |link: &Link, term| !link.lease_left(term).is_zero();
    active.claim(Some(first));
    wait_for("the lease", || holds(&active, first));
    backup.claim(Some(second));
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(3 * u64::from(LEASE_MS)) {
        assert!(!holds(&backup, second), "the other one renews its lease");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(holds(&active, first), "it is renewed");
    assert_eq!(state.term(), Some((first, true)));
    // It dies: its lease ends before the other one begins.
    drop(active_peer);
    wait_for("the other lease", || holds(&backup, second));
    assert!(!holds(&active, first));
    // A host that comes back learns of the later term.
    let (back, _back_peer) = host(Side::Caller, at);
    back.claim(Some(first));
    wait_for("the later term", || back.term() == second);
    assert!(!holds(&back, first));
    // Without a witness a lease ends.
    drop(witness);
    wait_for("the end of the lease", || !holds(&backup, second));
}

#[test]
fn strangers_get_no_lease() {
    let at = free_port();
    let state = Arc::new(WitnessState::default());
    let _witness = Witness::begin(&state, at, key()).unwrap();
    let mut stranger = TcpStream::connect(at).unwrap();
    stranger.write_all(&[b'x'; 100]).unwrap();
    let mut bytes = Vec::new();
    // Closed with or without a reset.
    let _ = stranger.read_to_end(&mut bytes);
    assert_eq!(bytes.len(), 42, "a greeting, and nothing else");
    wait_for("the refusal", || state.refused.load(Ordering::Relaxed) == 1);
    // Nor does who speaks of sessions instead.
    let link = Arc::new(Link::new(Side::Caller));
    let _peer = Peer::begin(&link, at, key(), "a chain".into(), None).unwrap();
    wait_for("a refusal", || state.refused.load(Ordering::Relaxed) > 1);
    for words in ["does not speak this protocol", "write WITNESS for this address"] {
        wait_for(words, || state.line().is_some_and(|line| line.contains(words)));
    }
}

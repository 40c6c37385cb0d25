//! Against the standard library's sockets.

use std::io::IoSlice;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use super::{Address, Connection, Datagrams, Listener, Peer, SocketOptions};

const PATIENCE: Duration = Duration::from_secs(5);

fn localhost(port: u16) -> Address {
    Address::Inet(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))
}

fn address_of(address: SocketAddr) -> Address {
    let SocketAddr::V4(address) = address else { panic!("{address} is not IPv4") };
    Address::Inet(address)
}

fn file(path: &Path) -> Address {
    Address::Unix(path.as_os_str().as_encoded_bytes().to_vec())
}

/// Asks until there is an answer.
fn soon<T>(mut ask: impl FnMut() -> std::io::Result<Option<T>>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(answer) = ask().expect("no error") {
            return answer;
        }
        assert!(begin.elapsed() < PATIENCE, "no answer");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Sends and receives over both ends of a connection, and ends it.
fn converse(ours: &Connection, mut theirs: impl std::io::Read + std::io::Write) {
    let mut buffer = [0; 16];
    assert_eq!(ours.receive(&mut buffer).expect("open"), None);
    theirs.write_all(b"to us").expect("open");
    assert_eq!(soon(|| ours.receive(&mut buffer)), 5);
    assert_eq!(&buffer[..5], b"to us");
    let pieces = [IoSlice::new(b"in "), IoSlice::new(b""), IoSlice::new(b"pieces")];
    assert_eq!(ours.send(&pieces).expect("open"), Some(9));
    theirs.read_exact(&mut buffer[..9]).expect("open");
    assert_eq!(&buffer[..9], b"in pieces");
    // No thread waits for a peer that does not read.
    let much = vec![7; 1 << 20];
    while ours.send(&[IoSlice::new(&much)]).expect("open").is_some() {}
    drop(theirs);
    let begin = Instant::now();
    while ours.send(&[IoSlice::new(&much)]).is_ok() {
        assert!(begin.elapsed() < PATIENCE, "the end goes unnoticed");
    }
}

#[test]
fn servers() {
    let options = SocketOptions { no_delay: true, ..SocketOptions::default() };
    let listener = Listener::bind(&localhost(0), &options).expect("a free port");
    assert!(listener.accept().expect("it listens").is_none());
    let Address::Inet(address) = *listener.address() else { panic!("not IPv4") };
    assert_ne!(address.port(), 0);
    let theirs = TcpStream::connect(address).expect("it listens");
    let (ours, peer) = soon(|| listener.accept());
    assert_eq!(peer, theirs.local_addr().ok().map(address_of));
    converse(&ours, theirs);

    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("socket");
    let listener = Listener::bind(&file(&path), &options).expect("a new file");
    let theirs = UnixStream::connect(&path).expect("it listens");
    let (ours, peer) = soon(|| listener.accept());
    assert_eq!(peer, None);
    converse(&ours, theirs);
    let error = Listener::bind(&file(&path), &options).expect_err("it is in use");
    assert!(
        error.to_string().ends_with("; a process listens there, or it is no socket of this user"),
        "{error}"
    );
    assert!(path.exists(), "a failed bind removes nothing");
    listener.close().expect("the file is there");
    assert!(!path.exists());
    drop(Listener::bind(&file(&path), &options).expect("free again"));
    assert!(!path.exists());
}

#[test]
fn clients() {
    let options = SocketOptions::default();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = address_of(listener.local_addr().expect("it has one"));
    let ours = Connection::connect(&address, None, &options, PATIENCE).expect("it listens");
    let (theirs, peer) = listener.accept().expect("it connected");
    assert_eq!(ours.address(), Some(address_of(peer)));
    converse(&ours, theirs);
    drop(listener);
    let error = Connection::connect(&address, None, &options, PATIENCE).expect_err("it is gone");
    assert!(error.to_string().ends_with("; nobody listens there"), "{error}");

    let dir = tempfile::tempdir().expect("a directory");
    let (path, own) = (dir.path().join("socket"), dir.path().join("own"));
    let listener = UnixListener::bind(&path).expect("a new file");
    let ours = Connection::connect(&file(&path), Some(&file(&own)), &options, PATIENCE);
    let ours = ours.expect("it listens");
    let (theirs, peer) = listener.accept().expect("it connected");
    assert_eq!(peer.as_pathname(), Some(own.as_path()));
    converse(&ours, theirs);
    drop(ours);
    assert!(!own.exists());
}

#[test]
fn datagrams() {
    let options = SocketOptions { receive_buffer: Some(1 << 16), ..SocketOptions::default() };
    let any = Address::ANY;
    let server = Datagrams::open(&any, Some(&localhost(0)), &options).expect("a free port");
    let address = server.address().expect("it is bound");
    let theirs = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    theirs.send_to(b"a long one", address.to_string()).expect("it is there");
    let mut buffer = [0; 6];
    let datagram = soon(|| server.receive(&mut buffer));
    assert_eq!((datagram.len, datagram.whole_len, &buffer), (6, 10, b"a long"));
    let peer = datagram.peer.expect("it has a name");
    assert_eq!(peer.address(), theirs.local_addr().ok().map(address_of));
    assert!(server.send(b"back", &peer).expect("it is there"));
    assert_eq!(theirs.recv(&mut buffer).expect("sent"), 4);
    assert!(server.send(&[0; 70_000], &peer).is_err(), "too long for UDP");
    assert!(server.receive(&mut buffer).expect("it works on").is_none());

    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("socket");
    let server = Datagrams::open(&file(&path), Some(&file(&path)), &options).expect("a new file");
    let unnamed = UnixDatagram::unbound().expect("a socket");
    unnamed.send_to(b"x", &path).expect("it is there");
    let datagram = soon(|| server.receive(&mut buffer));
    assert!(datagram.peer.is_none() && datagram.len == 1);
    let theirs = dir.path().join("theirs");
    let named = UnixDatagram::bind(&theirs).expect("a new file");
    assert!(server.send(b"y", &Peer::of(&file(&theirs)).expect("short")).expect("it is there"));
    assert_eq!(named.recv(&mut buffer).expect("sent"), 1);
    drop(server);
    assert!(!path.exists());
}

#[test]
fn names() {
    assert_eq!(localhost(80).to_string(), "127.0.0.1:80");
    let hidden = Address::Unix(format!("\0thruway-test-{}", std::process::id()).into_bytes());
    assert!(hidden.to_string().starts_with("@thruway-test-"));
    let options = SocketOptions::default();
    let listener = Listener::bind(&hidden, &options).expect("a name of our own");
    assert_eq!(listener.address(), &hidden);
    let ours = Connection::connect(&hidden, None, &options, PATIENCE).expect("it listens");
    let (theirs, _) = soon(|| listener.accept());
    assert_eq!(ours.send(&[IoSlice::new(b"hi")]).expect("open"), Some(2));
    assert_eq!(soon(|| theirs.receive(&mut [0; 8])), 2);
    let long = Address::Unix(vec![b'x'; 200]);
    assert!(Listener::bind(&long, &options).is_err());
    assert!(Peer::of(&long).is_err());
}

#[test]
fn what_a_dead_process_left_is_replaced_and_nothing_else() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("socket");
    let bind = |options: &SocketOptions| Listener::bind(&file(&path), options);
    let options = SocketOptions { mode: Some(0o600), ..SocketOptions::default() };
    // The standard library's listener leaves its file, as a process that was killed does.
    drop(UnixListener::bind(&path).expect("a new file"));
    assert!(path.exists());
    let listener = bind(&options).expect("nobody listens there");
    let mode = || std::fs::symlink_metadata(&path).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(), 0o600);
    let _client = UnixStream::connect(&path).expect("it listens");
    let (connection, _) = soon(|| listener.accept());
    let peer = connection.credentials().expect("a Unix socket");
    assert_eq!(peer.uid, rustix::process::geteuid().as_raw());
    assert!(peer.groups.contains(&rustix::process::getegid().as_raw()));

    bind(&options).expect_err("a live one is never replaced");
    assert!(UnixStream::connect(&path).is_ok());
    listener.close().expect("its own file");
    assert!(!path.exists());
    let open = SocketOptions { mode: Some(0o666), ..options };
    drop(bind(&open).map(|_listener| assert_eq!(mode(), 0o666, "the umask does not count")));

    std::fs::write(&path, "no socket").expect("a new file");
    bind(&options).expect_err("a file that is no socket stays");
    assert_eq!(std::fs::read_to_string(&path).expect("there"), "no socket");
    std::fs::remove_file(&path).expect("there");
    let other = dir.path().join("other");
    drop(UnixListener::bind(&other).expect("a new file"));
    std::os::unix::fs::symlink(&other, &path).expect("a new link");
    bind(&options).expect_err("links are not followed");
    assert!(other.exists());
}

#[test]
fn starts_at_the_same_time_do_not_replace_each_other() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("socket");
    for _ in 0..20 {
        drop(UnixListener::bind(&path).expect("a new file"));
        let start = std::sync::Barrier::new(8);
        let bound = std::thread::scope(|scope| {
            let one = || {
                start.wait();
                Listener::bind(&file(&path), &SocketOptions::default()).ok()
            };
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(one)).collect();
            threads.into_iter().filter_map(|one| one.join().expect("no panic")).collect::<Vec<_>>()
        });
        assert_eq!(bound.len(), 1);
        assert!(UnixStream::connect(&path).is_ok(), "the one that was bound is reached");
    }
}

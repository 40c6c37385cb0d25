//! Sockets to other programs: echoes, peers that do not read or do not stop, what elements say to
//! whoever listens; and tcpdump's own words read back.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::control::{Client, free_port};
use crate::process::{Running, click, need, root, run, wait_for};

const PATIENCE: Duration = Duration::from_secs(20);

/// Sends a datagram with a number, and waits for the same back.
pub fn round_trip(socket: &UdpSocket, number: u64) {
    socket.send(&number.to_be_bytes()).expect("it is up");
    let mut bytes = [0; 8];
    let answer = socket.recv(&mut bytes);
    assert!(answer.is_ok(), "datagram {number} was lost: {answer:?}");
    assert_eq!(u64::from_be_bytes(bytes), number);
}

/// Bytes that are not alike wherever one looks.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Starts a configuration with a control socket in `dir`.
fn start(dir: &Path, config: &str) -> (Running, Client) {
    let control = dir.join("control");
    let text = format!("ControlSocket(UNIX, {}); {config}", control.display());
    let driver = Running::start(&mut click(&["-R", "-e", &text]));
    (driver, Client::unix(&control))
}

fn connect(port: u16) -> TcpStream {
    let stream = wait_for("the socket", || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok());
    stream.set_read_timeout(Some(PATIENCE)).expect("a time above zero");
    stream
}

/// Sends bytes and reads as many back, both at once.
fn echo(mut stream: TcpStream, bytes: &[u8]) -> Vec<u8> {
    let mut back = vec![0; bytes.len()];
    let mut writer = stream.try_clone().expect("a descriptor");
    std::thread::scope(|scope| {
        scope.spawn(move || writer.write_all(bytes).expect("it is read"));
        stream.read_exact(&mut back).expect("an echo");
    });
    back
}

#[test]
fn a_stream_server_serves_one_after_the_other() {
    let dir = tempfile::tempdir().expect("a directory");
    let port = free_port();
    // Without losses: nobody sends more than comes back.
    let config = format!("s :: Socket(TCP, 127.0.0.1, {port}, SNAPLEN 1500) -> Queue(10000) -> s");
    let (driver, mut control) = start(dir.path(), &config);
    let first = connect(port);
    let mut second = connect(port);
    let bytes = noise(300_000);
    assert!(echo(first.try_clone().expect("a descriptor"), &bytes) == bytes);
    second.write_all(b"and me?").expect("it waits");
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(control.number("s.byte_count"), 300_000, "one at a time");
    let peer = first.local_addr().expect("it is connected").to_string();
    assert_eq!(control.read("s.peer"), peer);
    drop(first);
    let mut answer = [0; 7];
    second.read_exact(&mut answer).expect("its turn");
    assert_eq!(&answer, b"and me?");
    driver.interrupt().expect(0);
    assert_eq!(second.read(&mut answer).expect("an end, no reset"), 0);
}

#[test]
fn who_does_not_read_and_never_stops_does_no_harm() {
    let dir = tempfile::tempdir().expect("a directory");
    let port = free_port();
    let config = format!(
        "s :: Socket(TCP, 127.0.0.1, {port}, SNDBUF 10000) -> t :: Tee -> s; t[1] -> c :: Counter -> Discard"
    );
    let (driver, mut control) = start(dir.path(), &config);
    let mut greedy = connect(port);
    greedy.set_write_timeout(Some(Duration::from_millis(100))).expect("a time above zero");
    let (begin, chunk) = (Instant::now(), noise(1 << 16));
    while control.read("s.drops").starts_with("0 queue-full") {
        assert!(begin.elapsed() < PATIENCE, "{}", control.read("s.drops"));
        // It sends and sends, and reads nothing of what comes back.
        let _ = greedy.write(&chunk);
    }
    assert!(control.number("c.count") > 1_000, "more than ever waits");
    let status = std::fs::read_to_string(format!("/proc/{}/status", driver.pid()));
    let status = status.expect("it runs");
    let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
    let kib: u64 = rss.trim().trim_end_matches(" kB").parse().expect("a number");
    assert!(kib < 400_000, "{kib} KiB");
    drop(greedy);
    let mut next = connect(port);
    next.write_all(b"hello").expect("its turn");
    let mut answer = [0; 5];
    next.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"hello");
    driver.interrupt().expect(0);
}

#[test]
fn a_client_sends_in_order_and_notices_the_end() {
    let dir = tempfile::tempdir().expect("a directory");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let port = listener.local_addr().expect("it has one").port();
    let config = format!(
        "i :: InfiniteSource(LENGTH 1000, LIMIT 20000, ACTIVE false) -> NumberPacket(OFFSET 0) \
         -> Queue(100) -> s :: Socket(TCP, 127.0.0.1, {port});"
    );
    let (driver, mut control) = start(dir.path(), &config);
    let (mut stream, _) = listener.accept().expect("it connects");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time above zero");
    assert_eq!(control.ask("WRITE i.active true").0, 200);
    let mut packet = [0; 1000];
    for number in 0..20_000u64 {
        // The source waits for the queue, and the queue for us.
        stream.read_exact(&mut packet).expect("a packet");
        assert_eq!(u64::from_le_bytes(packet[..8].try_into().expect("eight")), number);
    }
    assert_eq!(control.number("s.sent"), 20_000);
    drop(stream);
    wait_for("the end", || (control.read("s.peer") == "-").then_some(()));
    driver.interrupt().expect(0);
}

#[test]
fn datagrams_go_back_to_who_sent_last() {
    let dir = tempfile::tempdir().expect("a directory");
    let port = free_port();
    let (file, own) = (dir.path().join("socket"), dir.path().join("own"));
    let config = format!(
        "u :: Socket(UDP, 127.0.0.1, {port}) -> u; x :: Socket(UNIX_DGRAM, {}) -> x;",
        file.display()
    );
    let (driver, mut control) = start(dir.path(), &config);
    let peers: Vec<UdpSocket> =
        (0..3).map(|_| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port")).collect();
    let mut buffer = [0; 100];
    for (number, peer) in peers.iter().cycle().take(30).enumerate() {
        peer.set_read_timeout(Some(PATIENCE)).expect("a time above zero");
        peer.send_to(&[number as u8; 10], (Ipv4Addr::LOCALHOST, port)).expect("it is there");
        assert_eq!(peer.recv(&mut buffer).expect("an answer"), 10);
        assert_eq!(buffer[0], number as u8);
    }
    let unix = UnixDatagram::bind(&own).expect("a new file");
    unix.set_read_timeout(Some(PATIENCE)).expect("a time above zero");
    unix.send_to(b"hello", &file).expect("it is there");
    assert_eq!(unix.recv(&mut buffer).expect("an answer"), 5);
    assert_eq!(control.number("u.sent") + control.number("x.sent"), 31);
    driver.interrupt().expect(0);
    assert!(!file.exists() && !dir.path().join("control").exists());
}

#[test]
fn chatter_goes_to_who_keeps_pace() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("chatter");
    let line = "x".repeat(1000);
    let source = "i :: InfiniteSource(DATA \\<41>, LIMIT 0, ACTIVE false) -> Print(";
    let config = |label: &str| {
        format!("cs :: ChatterSocket(UNIX, {}); {source}{label}) -> Discard;", file.display())
    };
    let (driver, mut control) = start(dir.path(), &config(&line));
    let listen = || {
        let stream = wait_for("the socket", || UnixStream::connect(&file).ok());
        stream.set_read_timeout(Some(PATIENCE)).expect("a time above zero");
        stream
    };
    let (mut good, slow) = (listen(), listen());
    wait_for("both", || (control.number("cs.clients") == 2).then_some(()));
    let mut heard = vec![0; b"Click::ChatterSocket/1.0\r\n".len()];
    good.read_exact(&mut heard).expect("a greeting");
    let expected = format!("{line}:    1 | 41\n").repeat(100);
    for round in 1..=20 {
        assert_eq!(control.ask(&format!("WRITE i.limit {}", 100 * round)).0, 200);
        assert_eq!(control.ask("WRITE i.active true").0, 200);
        let mut heard = vec![0; expected.len()];
        good.read_exact(&mut heard).expect("all lines");
        assert!(heard == expected.as_bytes(), "round {round}");
    }
    // Two megabytes behind, less what the kernel keeps.
    wait_for("the end of the slow one", || (control.number("cs.clients") == 1).then_some(()));
    drop(slow);

    // Another configuration goes on with the socket and the client.
    let text = format!(
        "ControlSocket(UNIX, {}); {} Script(print \"swapped\")",
        dir.path().join("control").display(),
        config("next")
    );
    assert_eq!(control.write_data("hotconfig", &text).0, 200);
    wait_for("the swap", || driver.stdout().contains("swapped").then_some(()));
    assert_eq!(control.ask("WRITE i.limit 1").0, 200);
    assert_eq!(control.ask("WRITE i.active true").0, 200);
    let expected = b"next:    1 | 41\n";
    let mut heard = vec![0; expected.len()];
    good.read_exact(&mut heard).expect("the client is still there");
    assert_eq!(heard, expected);
    driver.interrupt().expect(0);
    assert!(!file.exists());
}

#[test]
fn what_tcpdump_printed_is_the_capture() {
    need("tcpdump", "tcpdump");
    let dir = tempfile::tempdir().expect("a directory");
    let capture = root().join("examples/captures/wan.pcap");
    let fields = "timestamp ip_src sport ip_dst dport ip_proto ip_len ip_tos ip_id ip_ttl \
                  ip_fragoff tcp_flags tcp_seq tcp_ack tcp_window tcp_opt payload_len";
    let summary = |source: &str| {
        let out = dir.path().join("summary");
        let text = format!(
            "{source} -> ToIPSummaryDump({}, FIELDS {fields}, HEADER false)",
            out.display()
        );
        run(&mut click(&["-e", &text])).expect(0);
        std::fs::read_to_string(&out).expect("a summary")
    };
    let wanted = summary(&format!("FromDump({}, STOP true, FORCE_IP true)", capture.display()));
    assert!(wanted.lines().count() > 10_000);
    for absolute in ["", "-S"] {
        let printed = dir.path().join("printed");
        let script = format!(
            "PATH=$PATH:/usr/sbin:/sbin tcpdump -nn -tt -v {absolute} -r {} ip 2>/dev/null >{}",
            capture.display(),
            printed.display()
        );
        run(std::process::Command::new("sh").args(["-c", &script])).expect(0);
        let read = summary(&format!("FromTcpdump({}, STOP true)", printed.display()));
        let differs = wanted.lines().zip(read.lines()).find(|(a, b)| a != b);
        assert_eq!(differs, None);
        assert_eq!(wanted.lines().count(), read.lines().count());
    }
}

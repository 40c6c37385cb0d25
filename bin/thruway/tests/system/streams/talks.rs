//! Many connections at once, served by one thread for both ends.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};

use super::ends::{End, Plan};
use super::path::{Path, SERVERS};

/// Connections whose state is reported when one is stuck.
const SHOWN_MAX: usize = 3;

/// What the two ends of a connection do.
#[derive(Clone, Debug)]
pub struct Talk {
    pub seed: u64,
    pub client: Plan,
    pub server: Plan,
    pub is_ip6: bool,
}

impl Talk {
    /// So many bytes each way, as fast as possible.
    pub fn of(seed: u64, len: u64) -> Talk {
        Talk { seed, client: Plan::of(len), server: Plan::of(len), is_ip6: false }
    }
}

/// A connection under way.
struct Pair {
    talk: Talk,
    /// The client's address.
    from: SocketAddr,
    /// Client and server; none where it is not there yet, or is done.
    ends: [Option<End>; 2],
    /// Whether the server has seen it.
    is_accepted: bool,
    moved: Instant,
}

/// What hosts do with their connections' sockets.
struct Hosts<'a> {
    path: &'a Path,
    listeners: [TcpListener; 2],
    /// Sockets of the client that are not connected, of each family.
    free: [Vec<OwnedFd>; 2],
    /// The server's size of the buffer for what it receives.
    buffer: Option<usize>,
}

/// Does all of these, so many at once. Panics with the state of all that is concerned if an end
/// receives something else than it should, or if a connection is stuck.
#[track_caller]
pub fn hold(path: &Path, talks: Vec<Talk>, at_once: usize) {
    let begin = Instant::now();
    let bytes: u64 = talks.iter().map(|talk| talk.client.len + talk.server.len).sum();
    let count = talks.len();
    let mut hosts = Hosts::new(path, talks.first().and_then(|talk| talk.server.buffer));
    let mut pairs = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    let mut coming = talks.into_iter();
    loop {
        let room = at_once - pairs.len();
        pairs.extend(coming.by_ref().take(room).map(|talk| hosts.connect(talk)));
        if pairs.is_empty() {
            break;
        }
        hosts.accept(&mut pairs);
        let turned =
            turn(&mut pairs, &mut buffer).and_then(|()| look_for_stuck(&pairs, path.patience));
        if let Err((who, what)) = turned {
            fail(path, &pairs, who, &what);
        }
        pairs.retain(|pair| !pair.is_accepted || pair.ends.iter().any(Option::is_some));
    }
    let seconds = begin.elapsed().as_secs_f64();
    println!("  {count} connections, {bytes} bytes sent, {seconds:.2} s");
}

impl Hosts<'_> {
    fn new(path: &Path, buffer: Option<usize>) -> Hosts<'_> {
        let listen = |address: &str| {
            let at: (IpAddr, u16) = (address.parse().expect("an address"), 0);
            let listener = path.server().within(|| TcpListener::bind(at)).expect("a free port");
            listener.set_nonblocking(true).expect("a listener that does not wait");
            if let Some(bytes) = buffer {
                set_receive_buffer(&listener, bytes);
            }
            // More may come at once than std asks for.
            rustix::net::listen(&listener, 4096).expect("a listener");
            listener
        };
        Hosts { path, listeners: SERVERS.map(listen), free: [vec![], vec![]], buffer }
    }

    /// Begins a connection.
    fn connect(&mut self, talk: Talk) -> Pair {
        assert_eq!(talk.server.buffer, self.buffer, "one size for all, as the listener has it");
        let family = usize::from(talk.is_ip6);
        if self.free[family].is_empty() {
            // By the dozen, because entering a namespace takes its time.
            let kind = [AddressFamily::INET, AddressFamily::INET6][family];
            let make = |_| {
                socket_with(
                    kind,
                    SocketType::STREAM,
                    SocketFlags::NONBLOCK | SocketFlags::CLOEXEC,
                    None,
                )
            };
            let made: Result<_, _> = self.path.client().within(|| (0..64).map(make).collect());
            self.free[family] = made.expect("sockets");
        }
        let socket = self.free[family].pop().expect("a socket");
        if let Some(bytes) = talk.client.buffer {
            set_receive_buffer(&socket, bytes);
        }
        let to = self.listeners[family].local_addr().expect("it is bound");
        match connect(&socket, &to) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => panic!("{to}: {error}"),
        }
        let stream = TcpStream::from(socket);
        let from = stream.local_addr().expect("it is bound");
        let client = self.end(stream, &talk, true);
        Pair { talk, from, ends: [Some(client), None], is_accepted: false, moved: Instant::now() }
    }

    /// Takes connections that have come.
    fn accept(&self, pairs: &mut [Pair]) {
        for listener in &self.listeners {
            while let Ok((stream, from)) = listener.accept() {
                let pair = pairs.iter_mut().find(|pair| pair.from == from && !pair.is_accepted);
                let pair = pair.unwrap_or_else(|| panic!("{from} did not connect"));
                stream.set_nonblocking(true).expect("a stream that does not wait");
                pair.ends[1] = Some(self.end(stream, &pair.talk, false));
                (pair.is_accepted, pair.moved) = (true, Instant::now());
            }
        }
    }

    /// One end of a connection.
    fn end(&self, stream: TcpStream, talk: &Talk, is_client: bool) -> End {
        let (mut plans, mut seeds) = ((&talk.client, &talk.server), (talk.seed, !talk.seed));
        if !is_client {
            (plans, seeds) = ((plans.1, plans.0), (seeds.1, seeds.0));
        }
        End::new(stream, plans, seeds, &self.path.edits)
    }
}

/// Gives a socket this buffer for what it receives, whatever this host's limit is.
pub fn set_receive_buffer(socket: impl AsFd, bytes: usize) {
    sockopt::set_socket_recv_buffer_size_force(socket, bytes).expect("root may");
}

/// Which connection is wrong, and how.
type Wrong = (SocketAddr, String);

/// Waits until something can be done, and does it at all ends.
fn turn(pairs: &mut [Pair], buffer: &mut [u8]) -> Result<(), Wrong> {
    let ready = ready(pairs);
    let now = Instant::now();
    for (number, pair) in pairs.iter_mut().enumerate() {
        for (side, end) in pair.ends.iter_mut().enumerate() {
            let (Some(flags), Some(one)) = (ready.get(&(number, side)), end.as_mut()) else {
                continue;
            };
            let (mut writes, mut reads) = one.wants(now);
            // An error is told by whatever is tried.
            let wrong = flags.intersects(PollFlags::ERR | PollFlags::HUP);
            writes &= wrong || flags.contains(PollFlags::OUT);
            reads &= wrong || flags.contains(PollFlags::IN);
            let mut step = || {
                let mut moved = writes && one.write(now)?;
                moved |= reads && !one.is_done() && one.read(now, buffer)?;
                Ok(moved)
            };
            let side = ["client", "server"][side];
            let moved = step().map_err(|why: String| (pair.from, format!("{side}: {why}")))?;
            if moved {
                pair.moved = now;
            }
            // It closes at once, not when the other one does.
            end.take_if(|end| end.is_done());
        }
    }
    Ok(())
}

/// What the kernel says of ends that want something, by number of pair and side.
fn ready(pairs: &[Pair]) -> BTreeMap<(usize, usize), PollFlags> {
    let now = Instant::now();
    let (mut who, mut asked) = (Vec::new(), Vec::new());
    // Connections that wait to be accepted are looked for now and then.
    let all_accepted = pairs.iter().all(|pair| pair.is_accepted);
    let mut wait = Duration::from_millis(if all_accepted { 100 } else { 1 });
    for (number, pair) in pairs.iter().enumerate() {
        for (side, end) in pair.ends.iter().enumerate() {
            let Some(end) = end else { continue };
            if let Some(at) = end.wakes(now) {
                wait = wait.min(at - now);
            }
            let (writes, reads) = end.wants(now);
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::OUT, writes);
            flags.set(PollFlags::IN, reads);
            if !flags.is_empty() {
                who.push((number, side));
                asked.push(PollFd::new(end.socket(), flags));
            }
        }
    }
    let wait = Timespec::try_from(wait).expect("a short time");
    match poll(&mut asked, Some(&wait)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => panic!("poll: {error}"),
    }
    let answers = who.into_iter().zip(asked.iter().map(PollFd::revents));
    answers.filter(|(_, flags)| !flags.is_empty()).collect()
}

fn look_for_stuck(pairs: &[Pair], patience: Duration) -> Result<(), Wrong> {
    let now = Instant::now();
    let sleeps = |pair: &Pair| pair.ends.iter().flatten().any(|end| end.wakes(now).is_some());
    let stuck = pairs.iter().find(|pair| now - pair.moved > patience && !sleeps(pair));
    stuck.map_or(Ok(()), |pair| Err((pair.from, format!("stuck for {patience:?}"))))
}

/// Reports on the connection that is wrong and of some others.
#[track_caller]
fn fail(path: &Path, pairs: &[Pair], who: SocketAddr, what: &str) -> ! {
    let mut state = format!("{who}: {what}\n{} connections are open\n", pairs.len());
    let (first, others): (Vec<&Pair>, Vec<&Pair>) = pairs.iter().partition(|pair| pair.from == who);
    let mut told = Vec::new();
    for pair in first.into_iter().chain(others).take(SHOWN_MAX) {
        let [client, server] = pair.ends.each_ref().map(|end| match end {
            Some(end) => end.progress(),
            None => "not there".into(),
        });
        state += &format!("{}: client {client}\n  server {server}\n", pair.from);
        state += &format!("  {:?}\n", pair.talk);
        told.push(pair.from);
    }
    panic!("{state}{}", path.state(&told));
}

//! The Worker's side, played by the test program itself: a copy of it is the isolated function,
//! and the environment says which part it plays.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recvmsg, send};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::time::Duration;
use thruway_exchange::{Control, Mapped, Pillow, Worker, rest};
use thruway_nf_abi::control::DRAIN;
use thruway_nf_abi::message::{Head, Hello, Kind, LEN_MAX, SOCKET_FD, Wake, Welcome};
use thruway_nf_host::{FunctionSpec, Program};

const ROLE: &str = "THRUWAY_TEST_ROLE";

/// A function that plays a part: this program's test `role`.
pub fn spec(role: &str) -> FunctionSpec {
    let mut program = Program::new(std::env::current_exe().unwrap());
    program.args = ["role", "--exact", "--nocapture", "--test-threads=1"].map(Into::into).into();
    program.env = vec![(ROLE.into(), role.into())];
    FunctionSpec::new(program)
}

/// Plays the part, if this process is to.
pub fn play() {
    let Ok(role) = std::env::var(ROLE) else { return };
    std::process::exit(act(&role));
}

fn act(role: &str) -> i32 {
    let mut head = Head { kind: Kind::Hello, id: 0 }.to_bytes();
    match role {
        "exits" => {
            eprintln!("no such table");
            return 7;
        }
        "mute" => loop {
            std::thread::sleep(Duration::from_secs(1000));
        },
        "version" => head[8] += 1,
        "magic" => head[0] ^= 1,
        _ => {}
    }
    let hello = Hello {
        wake: Wake::Futex,
        outputs: if role == "outputs" { 9 } else { 1 },
        scratch_len: if role == "scratch" { 20 } else { 0 },
        name: Hello::name_from(role),
    };
    let hello = [&head[..], &hello.to_bytes()].concat();
    tell(&hello);
    if role == "twice" {
        tell(&hello);
    }
    let (kind, body, fds) = hear();
    if kind != Kind::Welcome {
        return 1;
    }
    let welcome = Welcome::parse(&body).unwrap();
    let mut fds = fds.into_iter();
    let control = Control::open(fds.next().unwrap()).unwrap();
    if welcome.sessions > 0 {
        remember(fds.next().unwrap(), welcome.restarted);
    }
    let link = Mapped::open(fds.next().unwrap(), None).unwrap();
    let event = fds.next().unwrap();
    if role == "unable" {
        say(Kind::Failed, 0, "no rules");
        return 0;
    }
    say(Kind::Ready, 0, "");
    // JUSTIFICATION: a Worker's end is made from what the host handed over.
    // SAFETY: the storage is handed to this process alone, once.
    let worker = unsafe { Worker::new(link, welcome.worker_threshold) };
    serve(role, &control, worker, &event)
}

/// Counts its starts in its arena, and checks what it was told.
fn remember(arena: OwnedFd, restarted: bool) {
    let region = thruway_region::Region::open(arena).unwrap();
    let mut starts = [0];
    region.copy_out(0, &mut starts).unwrap();
    assert_eq!(starts[0] > 0, restarted, "an arena as announced");
    region.copy_in(0, &[starts[0] + 1]).unwrap();
}

fn serve(role: &str, control: &Control, mut worker: Worker<Mapped>, event: &OwnedFd) -> i32 {
    loop {
        let count = worker.waiting();
        for nth in 0..count {
            let head = worker.head(nth);
            let start = usize::from(head.start);
            let first = worker.frame(nth, &head)[start];
            match (role, first) {
                ("hangs", b'!') => loop {
                    std::thread::sleep(Duration::from_secs(1000));
                },
                (_, b'x') => return 5,
                _ => worker.frame(nth, &head)[start] = first.to_ascii_uppercase(),
            }
        }
        worker.advance(count);
        if worker.flush() {
            rustix::io::write(event, &1_u64.to_ne_bytes()).unwrap();
        }
        if count > 0 {
            control.beat();
            continue;
        }
        if control.command() == DRAIN {
            return 0;
        }
        answer(role);
        rest(&Pillow(control.clone()), Some(Duration::from_millis(2)), || worker.has_work());
    }
}

/// Answers one question, if there is one.
fn answer(role: &str) {
    let mut bytes = [0; 1024];
    let flags = RecvFlags::DONTWAIT;
    let Ok((_, len)) = rustix::net::recv(socket(), &mut bytes[..], flags) else { return };
    let (head, body) = Head::parse(&bytes[..len]).unwrap();
    match (role, head.kind) {
        ("silent", _) => {}
        ("babbles", _) => say(Kind::Reply, head.id + 1, "?"),
        (_, Kind::Read) => say(Kind::Reply, head.id, std::str::from_utf8(body).unwrap()),
        _ => say(Kind::Error, head.id, "read-only"),
    }
}

fn socket() -> BorrowedFd<'static> {
    // JUSTIFICATION: the descriptor's number is the interface.
    // SAFETY: the host put the control socket there for as long as this process lives.
    unsafe { BorrowedFd::borrow_raw(SOCKET_FD) }
}

fn say(kind: Kind, id: u32, text: &str) {
    tell(&[&Head { kind, id }.to_bytes()[..], text.as_bytes()].concat());
}

fn tell(bytes: &[u8]) {
    // The host may be gone already.
    let _ = send(socket(), bytes, SendFlags::NOSIGNAL);
}

fn hear() -> (Kind, Vec<u8>, Vec<OwnedFd>) {
    let mut bytes = vec![0; LEN_MAX];
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let len = recvmsg(socket().as_fd(), &mut parts, &mut control, flags).unwrap().bytes;
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    let (head, body) = Head::parse(&bytes[..len]).unwrap();
    (head.kind, body.to_vec(), fds)
}

//! The Worker's side, played by the test program itself: a copy of it is the isolated function,
//! and the environment says which part it plays.

use rustix::fd::BorrowedFd;
use std::time::Duration;
use thruway_exchange::{Attached, FutexWaiter, attach, rest};
use thruway_nf_abi::control::DRAIN;
use thruway_nf_abi::features::{Features, Offer};
use thruway_nf_abi::message::{Head, Hello, Kind, SOCKET_FD, Wake};
use thruway_nf_abi::stream_need;
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

/// What the part declares of features.
fn offer(role: &str) -> Offer {
    let later = Features::from_bits(0x8000);
    match role {
        // As all functions from before there were features.
        "featureless" => Offer::default(),
        "later" => Offer { known: Features::from_bits(u16::MAX), needed: Features::ROLES },
        "needs-later" => Offer { known: Features::ALL | later, needed: later },
        "needs-unknown" => Offer { needed: later, ..Offer::ALL },
        _ => Offer::ALL,
    }
}

fn act(role: &str) -> i32 {
    let hello = Hello {
        wake: Wake::Futex,
        outputs: if role == "outputs" { 9 } else { 1 },
        scratch_len: if role == "scratch" { 20 } else { 0 },
        stream: if role == "stream" { stream_need::STREAM | 1 } else { 0 },
        offer: offer(role),
        name: Hello::name_from(role),
    };
    match role {
        "exits" => {
            eprintln!("no such table");
            return 7;
        }
        "mute" => sleep(),
        "version" => alone(&hello, |head| head[8] += 1, 1),
        "version-before" => alone(&hello, |head| head[8] -= 1, 1),
        "magic" => alone(&hello, |head| head[0] ^= 1, 1),
        "sendmsg" => return by_sendmsg(&hello),
        "twice" => alone(&hello, |_| {}, 2),
        _ => {}
    }
    let Ok(mut attached) = attach(&hello) else { return 1 };
    if role == "unable" {
        attached.failed("no rules").unwrap();
        return 0;
    }
    let mut starts = 0;
    if let Some(scratch) = attached.arena.as_mut().and_then(|arena| arena.session(9)) {
        assert_eq!(scratch[0] > 0, attached.welcome.restarted, "an arena as announced");
        scratch[0] += 1;
        starts = scratch[0];
    }
    attached.ready().unwrap();
    serve(role, attached, starts)
}

fn sleep() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(1000));
    }
}

/// Says hello as the libraries did up to version 3; the status with which they ended.
fn by_sendmsg(hello: &Hello) -> i32 {
    let head = hello.head().to_bytes();
    let message = [&head[..], &hello.to_bytes()].concat();
    // JUSTIFICATION: the descriptor's number is the interface.
    // SAFETY: the host put the control socket there for as long as this process lives.
    let socket = unsafe { BorrowedFd::borrow_raw(SOCKET_FD) };
    let parts = [std::io::IoSlice::new(&message)];
    let flags = rustix::net::SendFlags::NOSIGNAL;
    match rustix::net::sendmsg(socket, &parts, &mut Default::default(), flags) {
        Ok(_) => 0,
        Err(error) => {
            eprintln!("{error}");
            1
        }
    }
}

/// Says hello as no library does, some times, and waits for what comes.
fn alone(hello: &Hello, spoil: impl FnOnce(&mut [u8]), times: usize) {
    let mut head = hello.head().to_bytes();
    spoil(&mut head);
    let message = [&head[..], &hello.to_bytes()].concat();
    // JUSTIFICATION: the descriptor's number is the interface.
    // SAFETY: the host put the control socket there for as long as this process lives.
    let socket = unsafe { BorrowedFd::borrow_raw(SOCKET_FD) };
    for _ in 0..times {
        rustix::io::write(socket, &message).unwrap();
    }
    sleep();
}

/// Works for so long, in processor time.
fn burn(time: Duration) {
    let now = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    let begin = now();
    while now() - begin < time {}
}

fn serve(role: &str, attached: Attached, starts: u8) -> i32 {
    let Attached { control, mut links, socket, .. } = attached;
    let link = &mut links[0];
    loop {
        let count = link.worker.waiting();
        for nth in 0..count {
            let mut head = link.worker.head(nth);
            let start = usize::from(head.start);
            let packet = &mut link.worker.frame_mut(nth, &mut head)[start..];
            match (role, packet[0]) {
                ("hangs", b'!') => sleep(),
                ("slow", _) => {
                    burn(Duration::from_millis(50));
                    packet[0].make_ascii_uppercase();
                }
                (_, b'x') => return 5,
                _ => packet[0].make_ascii_uppercase(),
            }
        }
        link.worker.advance(count);
        link.flush();
        if count > 0 {
            control.beat();
            continue;
        }
        if control.command() == DRAIN {
            return 0;
        }
        while let Ok(Some(message)) = socket.try_receive() {
            let Head { kind, id, .. } = message.head;
            let (kind, id, text) = match (role, kind) {
                ("silent", _) => continue,
                ("babbles", _) => (Kind::Reply, id + 1, "?".to_owned()),
                ("scratch", _) => (Kind::Reply, id, starts.to_string()),
                (_, Kind::Read) => (Kind::Reply, id, message.text()),
                _ => (Kind::Error, id, "read-only".to_owned()),
            };
            socket.send(Head::new(kind, id), text.as_bytes(), &[]).unwrap();
        }
        let requests = control.requests();
        rest(&FutexWaiter(control.clone()), Some(Duration::from_secs(1)), || {
            link.worker.has_work() || control.command() == DRAIN || control.requests() != requests
        });
    }
}

//! A hostile function: tries to get out of its sandbox and reports how each attempt went.
//!
//! Its control socket first brings a message: the numbers of processes that are none of its
//! business, and descriptors of a region of its own and of one that it may only read. It answers
//! with a message per attempt, `group|name|outcome`.
//!
//! ```text
//! escape             every attempt, in a sandbox
//! escape without ... the same but for some, where they would succeed and end the process
//! escape harmless    outside: those that do no harm there, to see that they are real
//! escape NAME        one of those that may end the process
//! escape role ROLE   a function with packets that attacks its host (`roles`)
//! ```

mod attempts;
mod call;
mod roles;

use attempts::{Attempt, Prey};
use rustix::fd::{AsFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;

fn main() {
    let mut args = std::env::args().skip(1);
    match args.next().as_deref() {
        None => inside(&[]),
        Some("without") => inside(&args.collect::<Vec<_>>()),
        Some("harmless") => outside(),
        Some("role") => {
            if let Err(error) = roles::run(&args.collect::<Vec<_>>()) {
                eprintln!("{error}");
                std::process::exit(1);
            }
        }
        Some(name) => attempts::last(name),
    }
}

fn inside(left_out: &[String]) {
    // JUSTIFICATION: the descriptor's number is the interface.
    // SAFETY: the host put the control socket there, and nothing else here owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(3) };
    let prey = receive(socket.as_fd());
    for attempt in
        attempts::all().filter(|attempt| left_out.iter().all(|name| name != attempt.name))
    {
        let row = row(attempt, &prey);
        rustix::net::send(&socket, row.as_bytes(), SendFlags::NOSIGNAL).expect("the host listens");
    }
}

fn outside() {
    let prey = Prey::own();
    for attempt in attempts::all().filter(|attempt| attempt.harmless) {
        println!("{}", row(attempt, &prey));
    }
}

fn row(attempt: &Attempt, prey: &Prey) -> String {
    let outcome = match (attempt.run)(prey) {
        Ok(()) => "ESCAPED".to_owned(),
        Err(error) => rustix::io::Errno::from_raw_os_error(error).to_string(),
    };
    format!("{}|{}|{outcome}", attempt.group, attempt.name)
}

/// The first message: "HOST-PID NEIGHBOUR-PID OWN-PID" and two descriptors.
fn receive(socket: BorrowedFd<'_>) -> Prey {
    let mut bytes = [0; 256];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let len = rustix::net::recvmsg(socket, &mut parts, &mut control, flags)
        .expect("a message from the host")
        .bytes;
    let mut fds = control.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(rights) => rights.collect(),
        _ => Vec::new(),
    });
    let mut fd = || fds.next().expect("a descriptor").into_raw_fd();
    let text = std::str::from_utf8(&bytes[..len]).expect("text");
    let mut numbers = text.split(' ').map(|word| word.parse().expect("a number"));
    let mut number = || numbers.next().expect("three numbers");
    Prey { host: number(), neighbour: number(), outside: number(), region: fd(), read_only: fd() }
}

//! A relay between what plays the keeper and what plays the machine.

use super::*;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::thread::JoinHandle;

/// What a test holds: the keeper's end, the machine's, and the relay's last words.
struct Played {
    keeper: Socket,
    machine: OwnedFd,
    why: JoinHandle<Ended>,
}

fn play() -> Played {
    let (keeper, control) = Socket::pair().expect("sockets");
    let stream = || {
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .expect("sockets")
    };
    let (port, machine) = stream();
    rustix::io::ioctl_fionbio(&port, true).expect("it takes flags");
    let (monitor, _qemu) = stream();
    let (pidfd, _end) = stream();
    let mut relay = Relay {
        control,
        port,
        monitor: Monitor::new(monitor),
        pidfd,
        start: b"\0program\0".to_vec(),
        rest: Vec::new(),
        lines: Vec::new(),
        pause: Pause::No,
    };
    Played { keeper, machine, why: std::thread::spawn(move || relay.serve()) }
}

fn frame(frame: Frame, body: &[u8]) -> Vec<u8> {
    [&frame.head(body.len() as u32)[..], body].concat()
}

#[test]
fn an_agent_is_told_what_to_start_and_its_messages_are_passed_on() {
    let Played { keeper, machine, why } = play();
    rustix::io::write(&machine, &frame(Frame::Hello, &hello())).expect("sent");
    let mut bytes = [0; 64];
    let count = rustix::io::read(&machine, &mut bytes).expect("an answer");
    assert_eq!(bytes[..count], frame(Frame::Start, b"\0program\0"));
    let head = Head { features: 3 << 16 | 1, ..Head::new(Kind::Reply, 7) };
    let message = [&head.to_bytes()[..], b"text"].concat();
    // In two parts, as a port may have it.
    let sent = frame(Frame::Message, &message);
    rustix::io::write(&machine, &sent[..5]).expect("sent");
    rustix::io::write(&machine, &sent[5..]).expect("sent");
    let got = keeper.receive().expect("a message");
    assert_eq!((got.head, got.body), (head, b"text".to_vec()));
    drop(keeper);
    assert_eq!(why.join().expect("it ends"), Ended::Over("its host has ended it"));
}

/// Every lie ends the machine, and nothing else.
#[test]
fn lies_end_the_relay_with_a_reason() {
    let mut long = Frame::Message.head(u32::MAX).to_vec();
    long.extend([0; 64]);
    for (last_output, part) in [
        (vec![0xff; 64], "no frame"),
        (long, "no frame"),
        (frame(Frame::Hello, b"other"), "another version"),
        (frame(Frame::Start, b""), "only a host"),
        (frame(Frame::Regions, &[1; 16]), "only a host"),
    ] {
        let Played { keeper: _keeper, machine, why } = play();
        rustix::io::write(&machine, &last_output).expect("sent");
        match why.join().expect("it ends") {
            Ended::Broken(why) => assert!(why.contains(part), "{why}"),
            over @ Ended::Over(_) => panic!("{over}"),
        }
    }
}

#[test]
fn lines_that_there_are_not_wake_nobody() {
    let Played { keeper, machine, why } = play();
    for body in [&[0xff; 4][..], &[], &[1, 0, 0, 0]] {
        rustix::io::write(&machine, &frame(Frame::Wake, body)).expect("sent");
    }
    // Nonsense for the keeper to judge.
    rustix::io::write(&machine, &frame(Frame::Message, b"nonsense")).expect("sent");
    assert!(keeper.receive().is_err());
    drop(machine);
    assert_eq!(why.join().expect("it ends"), Ended::Over("the machine has ended"));
}

//! The Worker's end of the handshake, against hosts that are right and wrong.
#![cfg(not(any(loom, miri)))]

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};
use thruway_exchange::socket::{Socket, head};
use thruway_exchange::{
    AttachError, Attached, Control, Doorbell, GroupRegion, Mapped, Master, Pages, SlotTag, Span,
    Tuning, attach, attach_by,
};
use thruway_nf_abi::message::{Hello, Kind, WaitMode, Wake, Welcome};
use thruway_nf_abi::{LinkShape, MAGIC, Token, VERSION};

fn hello() -> Hello {
    Hello {
        wake: Wake::Futex,
        outputs: 1,
        scratch_len: 0,
        stream: 0,
        name: Hello::name_from("test"),
    }
}

const WELCOME: Welcome = Welcome {
    links: 1,
    inputs: 1,
    outputs: 1,
    wait: WaitMode::Block,
    spin_ns: 0,
    worker_threshold: 1,
    sessions: 0,
    has_group: false,
    restarted: false,
};

/// Attaches against a host that answers so.
fn against(hello: Hello, host: impl FnOnce(&Socket)) -> Result<Attached, AttachError> {
    let (ours, theirs) = Socket::pair().unwrap();
    let thread = std::thread::spawn(move || attach_by(theirs, &hello));
    let said = ours.receive().unwrap();
    assert_eq!(Hello::parse(&said.body).unwrap(), hello);
    host(&ours);
    thread.join().unwrap()
}

fn event() -> OwnedFd {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap()
}

#[test]
fn a_program_run_by_hand_is_told_what_it_is() {
    // The number may be open in a test's process, but not as a control socket.
    let error = attach(&hello()).err().unwrap();
    assert!(error.to_string().contains("run it with Nf(EXEC"), "{error}");
}

#[test]
fn refusals_other_versions_and_nonsense_are_told() {
    let refused = against(hello(), |host| host.send(head(Kind::Refused), b"no", &[]).unwrap());
    assert_eq!(refused.err().unwrap().to_string(), "the host refuses this function: no");
    let version = against(hello(), |host| {
        let mut bytes = Vec::from(MAGIC.to_le_bytes());
        bytes
            .extend([VERSION + 1, Kind::Welcome as u32, 0, 0].iter().flat_map(|w| w.to_le_bytes()));
        rustix::net::send(host, &bytes, rustix::net::SendFlags::empty()).unwrap();
    });
    assert!(version.err().unwrap().to_string().contains("rebuild the function with the library"));
    let closed = against(hello(), |host| {
        rustix::net::shutdown(host, rustix::net::Shutdown::Both).unwrap();
    });
    assert!(closed.err().unwrap().to_string().contains("closed"));
    let early = against(hello(), |host| host.send(head(Kind::Read), b"a", &[]).unwrap());
    assert!(matches!(early, Err(AttachError::Unexpected(Kind::Read))));
    let short = against(hello(), |host| host.send(head(Kind::Welcome), b"abc", &[]).unwrap());
    assert!(matches!(short, Err(AttachError::Socket(_))));
}

#[test]
fn descriptors_are_counted_and_checked() {
    let control = Control::create().unwrap();
    let link = Mapped::create(&LinkShape::DEFAULT, None, Pages::Normal).unwrap();
    let event = event();
    let send = |fds: &[BorrowedFd<'_>]| {
        against(hello(), |host| host.send(head(Kind::Welcome), &WELCOME.to_bytes(), fds).unwrap())
    };
    let all = [control.fd(), link.fd(), event.as_fd()];
    assert!(send(&all).is_ok());
    let few = send(&all[..2]);
    assert!(matches!(few, Err(AttachError::Descriptors { got: 2, needed: 3 })));
    let many = send(&[all[0], all[1], all[2], all[2]]);
    assert!(matches!(many, Err(AttachError::Descriptors { got: 4, needed: 3 })));
    assert!(matches!(send(&[all[1], all[0], all[2]]), Err(AttachError::Link(_))));
    assert!(matches!(send(&[all[2], all[1], all[2]]), Err(AttachError::Region(_))));
}

#[test]
fn the_whole_handshake_with_everything() {
    let shape = LinkShape { token: Token::Descriptor, ..LinkShape::DEFAULT };
    let group = GroupRegion::create(&shape, 16, Pages::Normal).unwrap();
    let links = [(); 2].map(|()| Mapped::create(&shape, Some(group.clone()), Pages::Normal));
    let links = links.map(Result::unwrap);
    let control = Control::create().unwrap();
    let arena = thruway_exchange::Arena::create(100, 3).unwrap();
    let [own, a, b] = [(); 3].map(|()| event());
    let hello = Hello { wake: Wake::Eventfd, scratch_len: 100, ..hello() };
    let welcome = Welcome { links: 2, sessions: 3, has_group: true, ..WELCOME };
    let mut fds = vec![control.fd(), own.as_fd(), group.fd(), arena.fd()];
    fds.extend([links[0].fd(), a.as_fd(), links[1].fd(), b.as_fd()]);
    let (ours, theirs) = Socket::pair().unwrap();
    let worker = std::thread::spawn(move || {
        let mut attached = attach_by(theirs, &hello).unwrap();
        assert_eq!(attached.configuration().unwrap(), "graph");
        attached.ready().unwrap();
        attached
    });
    assert_eq!(ours.receive().unwrap().head.kind, Kind::Hello);
    ours.send(head(Kind::Welcome), &welcome.to_bytes(), &fds).unwrap();
    ours.send(head(Kind::Configure), b"graph", &[]).unwrap();
    assert_eq!(ours.receive().unwrap().head.kind, Kind::Ready);
    let mut attached = worker.join().unwrap();
    assert_eq!(attached.welcome, welcome);
    assert_eq!(attached.arena.as_mut().unwrap().session(2).unwrap().len(), 100);
    assert!(attached.eventfd.is_some());

    // A packet of the group goes to the second link's Worker and back; the Master sleeps.
    let [_, link] = links;
    let bell = Doorbell::new(control, None);
    let mut master = Master::new(link, 1, Tuning::DEFAULT);
    group.copy_in(7, 64, b"packet");
    master.put_frame(SlotTag::NONE, 7, Span { start: 64, len: 6 }).unwrap();
    master.publish(&bell, 0);
    assert!(master.rest());
    let link = &mut attached.links[1];
    assert_eq!(link.worker.waiting(), 1);
    let mut current = link.worker.current().unwrap();
    assert_eq!(&current.frame()[64..70], b"packet");
    current.frame_mut()[64] = b'P';
    current.aside.emit(Default::default(), [b"aux", b"iliary"]).unwrap();
    current.close();
    link.worker.advance(1);
    link.flush();
    let mut wakes = [0; 8];
    rustix::io::read(&b, &mut wakes).unwrap();
    assert_eq!(u64::from_ne_bytes(wakes), 1);
    let mut bytes = Vec::new();
    let mut take = |token: thruway_exchange::Token<'_, Mapped>| {
        let mut copy = vec![0; token.len() as usize];
        token.copy_to(&mut copy);
        bytes.push(copy);
    };
    assert_eq!(master.poll(0, 10, &mut take), Ok(1));
    assert_eq!(bytes, [b"Packet".to_vec(), b"auxiliary".to_vec()]);
}

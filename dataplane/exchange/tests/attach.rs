//! The Worker's end of the handshake, against hosts that are right and wrong.
#![cfg(not(any(loom, miri)))]

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};
use thruway_exchange::socket::{Socket, head};
use thruway_exchange::{
    AttachError, Attached, Control, Doorbell, GroupRegion, Mapped, Master, Pages, SlotTag, Span,
    Tuning, attach, attach_by,
};
use thruway_nf_abi::features::{Disagreement, Features, Offer};
use thruway_nf_abi::message::{Head, Hello, Kind, WaitMode, Wake, Welcome};
use thruway_nf_abi::{LinkShape, Token, VERSION};

fn hello() -> Hello {
    Hello {
        wake: Wake::Futex,
        outputs: 1,
        scratch_len: 0,
        stream: 0,
        offer: Offer::ALL,
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
    features: Features::ALL,
    workers: 1,
};

/// Attaches against a host that answers so.
fn against(hello: Hello, host: impl FnOnce(&Socket)) -> Result<Attached, AttachError> {
    let (ours, theirs) = Socket::pair().unwrap();
    let thread = std::thread::spawn(move || attach_by(theirs, &hello));
    let said = ours.receive().unwrap();
    assert_eq!(Hello::parse(said.head, &said.body).unwrap(), hello);
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

/// Sends a message as a host of the next version does.
fn of_next_version(host: &Socket, kind: Kind, body: &[u8]) {
    let mut bytes = Head::new(kind, 0).to_bytes();
    bytes[8..12].copy_from_slice(&(VERSION + 1).to_le_bytes());
    let message = [&bytes[..], body].concat();
    rustix::net::send(host, &message, rustix::net::SendFlags::empty()).unwrap();
}

/// A Worker with this offer, at a host that puts these features into force; and what the Worker
/// says last.
fn with_features(offer: Offer, in_force: u32) -> (Result<Attached, AttachError>, String) {
    let control = Control::create().unwrap();
    let link = Mapped::create(&LinkShape::DEFAULT, None, Pages::Normal).unwrap();
    let event = event();
    let (ours, theirs) = Socket::pair().unwrap();
    let hello = Hello { offer, ..hello() };
    let worker = std::thread::spawn(move || attach_by(theirs, &hello));
    let said = ours.receive().unwrap();
    assert_eq!(Hello::parse(said.head, &said.body).unwrap().offer, offer);
    let head = Head { features: in_force, ..WELCOME.head() };
    ours.send(head, &WELCOME.to_bytes(), &[control.fd(), link.fd(), event.as_fd()]).unwrap();
    let attached = worker.join().unwrap();
    let last = ours.try_receive().ok().flatten().map(|message| {
        assert_eq!(message.head.kind, Kind::Failed);
        message.text()
    });
    (attached, last.unwrap_or_default())
}

#[test]
fn a_worker_takes_the_features_that_it_offered() {
    let new = Features::from_bits(1 << 9);
    let later = Offer { known: Features::ALL | new, needed: Features::NONE };
    // Later functions at this host, this one at hosts from before there were features.
    for (offer, in_force) in [(later, Features::ALL), (Offer::ALL, Features::NONE)] {
        let (attached, last) = with_features(offer, in_force.bits().into());
        assert_eq!((attached.unwrap().welcome.features, last.as_str()), (in_force, ""));
    }
    // One that needs what its host, which did not look, does not have: both learn why.
    let (attached, last) = with_features(Offer { needed: new, ..later }, 0);
    let Err(AttachError::Features(Disagreement::Lacking(lacking))) = attached else {
        panic!("it attached")
    };
    assert_eq!(lacking, new);
    assert!(last.contains("number 9") && last.contains("or a later one"), "{last}");
    // A host that lies.
    let (attached, last) = with_features(Offer::ALL, 1 << 9);
    assert!(matches!(attached, Err(AttachError::Features(Disagreement::NotOffered(_)))));
    assert!(last.contains("did not offer (number 9)"), "{last}");
    assert!(matches!(with_features(Offer::ALL, 1 << 16).0, Err(AttachError::Socket(_))));
}

#[test]
fn refusals_other_versions_and_nonsense_are_told() {
    let refused = against(hello(), |host| host.send(head(Kind::Refused), b"no", &[]).unwrap());
    assert_eq!(refused.err().unwrap().to_string(), "the host refuses this function: no");
    let version = against(hello(), |host| of_next_version(host, Kind::Welcome, b""));
    assert!(version.err().unwrap().to_string().contains("rebuild the function with the library"));
    // Of all versions a function reads why it is refused.
    let refused = against(hello(), |host| of_next_version(host, Kind::Refused, b"too old"));
    assert_eq!(refused.err().unwrap().to_string(), "the host refuses this function: too old");
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
        against(hello(), |host| host.send(WELCOME.head(), &WELCOME.to_bytes(), fds).unwrap())
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

/// What a host of three links that wants two Workers hands over, with `missing` too few control
/// regions.
fn of_two_workers(missing: usize) -> Result<Attached, AttachError> {
    let links = [(); 3].map(|()| Mapped::create(&LinkShape::DEFAULT, None, Pages::Normal).unwrap());
    let controls = [(); 2].map(|()| Control::create().unwrap());
    controls.iter().zip(1..).for_each(|(control, n)| control.set_worker_threshold(n));
    let arena = thruway_exchange::Arena::create(8, 6).unwrap();
    let lines = [(); 3].map(|()| event());
    let welcome = Welcome { links: 3, sessions: 6, workers: 2, ..WELCOME };
    against(Hello { scratch_len: 8, ..hello() }, |host| {
        let mut fds: Vec<_> = controls.iter().skip(missing).map(Control::fd).collect();
        fds.push(arena.fd());
        fds.extend(links.iter().zip(&lines).flat_map(|(link, line)| [link.fd(), line.as_fd()]));
        host.send(welcome.head(), &welcome.to_bytes(), &fds).unwrap();
    })
}

#[test]
fn workers_of_one_process_have_parts_of_their_own() {
    let mut attached = of_two_workers(0).unwrap();
    let [other] = &mut attached.others[..] else { panic!("one more") };
    assert_eq!((attached.links.len(), other.links.len(), other.number), (2, 1, 1));
    let regions = [&attached.control, &other.control].map(|control| control.worker_threshold());
    assert_eq!(regions, [Some(1), Some(2)]);
    let [first, second] = [&mut attached.arena, &mut other.arena].map(|one| one.as_mut().unwrap());
    for session in 0..6 {
        let has = [first.session(session).is_some(), second.session(session).is_some()];
        assert_eq!(has, [session < 4, session >= 4]);
    }
    let short = of_two_workers(1).err().unwrap();
    assert!(matches!(short, AttachError::Descriptors { got: 8, needed: 9 }), "{short}");
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
    ours.send(welcome.head(), &welcome.to_bytes(), &fds).unwrap();
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

use super::*;
use crate::af_packet::{PacketOptions, PacketSocket};
use crate::interface_request::control_socket;
use crate::system::{IfCommand, IfRequest};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::time::{Duration, Instant};

/// In a thread with a network namespace of its own, which goes with it.
fn apart(test: &'static str, job: impl FnOnce(&Interface) + Send + 'static) {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: {test}: needs root");
        return;
    }
    let inside = move || {
        // JUSTIFICATION: a test needs it, and the standard library does not offer it.
        // SAFETY: changes this thread's namespace only.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0, "unshare");
        set_up(true);
        job(&interface::find("lo").expect("there is lo"));
    };
    std::thread::spawn(inside).join().expect("the test is passed");
}

fn change(command: IfCommand, set: impl FnOnce(&mut IfRequest)) {
    let mut request = IfRequest::of("lo").expect("a short name");
    set(&mut request);
    let socket = control_socket("lo").expect("root may");
    request.call(&socket, command).expect("root may");
}

fn set_up(up: bool) {
    let flags = if up { libc::IFF_UP as i16 } else { 0 };
    change(IfCommand::SET_FLAGS, |request| request.set_flags(flags));
}

fn set_mtu(mtu: i32) {
    change(IfCommand::SET_MTU, |request| request.set_mtu(mtu));
}

fn frame(number: u16, len: usize) -> Vec<u8> {
    let mut bytes = vec![number as u8; len];
    bytes[12..14].copy_from_slice(&[0x88, 0xB5]);
    bytes[14..16].copy_from_slice(&number.to_be_bytes());
    bytes
}

fn out(frames: &[Vec<u8>]) -> Vec<OutFrame<'_>> {
    frames.iter().map(|frame| frame.as_slice().into()).collect()
}

/// Our frames that come to `lo`, in order.
fn receive(socket: &mut PacketSocket, count: usize) -> Vec<Vec<u8>> {
    let end = Instant::now() + Duration::from_secs(20);
    let mut frames = Vec::new();
    while frames.len() < count {
        assert!(Instant::now() < end, "{} of {count} came", frames.len());
        let moment = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        let mut ready = socket.sockets().map(|socket| PollFd::new(socket, PollFlags::IN));
        poll(&mut ready, Some(&moment)).expect("poll");
        socket.receive(256, |frame| {
            if frame.bytes[12..14] == [0x88, 0xB5] {
                frames.push(frame.bytes.to_vec());
            }
        });
    }
    frames
}

#[test]
fn frames_go_around_the_ring_unchanged() {
    apart("frames_go_around_the_ring_unchanged", |lo| {
        let mut ring = TransmitRing::open(lo, false).expect("root may");
        let mut socket = PacketSocket::open("lo", &PacketOptions::default()).expect("root may");
        let slots = ring.slots.count();
        assert!(slots > 16);
        // Several times around, in calls of different lengths.
        let frames: Vec<_> =
            (0..3 * slots as u16).map(|n| frame(n, 16 + usize::from(n) * 7 % 3000)).collect();
        let mut left = &frames[..];
        while !left.is_empty() {
            let some = left.len().min(1 + left.len() % 16);
            let sent = ring.send(&out(&left[..some])).expect("lo is up");
            assert_eq!(receive(&mut socket, sent), left[..sent]);
            left = &left[sent..];
        }
    });
}

#[test]
fn what_the_kernel_refuses_is_taken_back() {
    apart("what_the_kernel_refuses_is_taken_back", |lo| {
        let mut ring = TransmitRing::open(lo, false).expect("root may");
        let mut socket = PacketSocket::open("lo", &PacketOptions::default()).expect("root may");
        // Shorter than its header; such ones do not get here otherwise.
        ring.header_len = 0;
        let mut frames: Vec<_> = (0..4).map(|n| frame(n, 60)).collect();
        frames[2].truncate(5);
        assert_eq!(ring.send(&out(&frames)).expect("the first goes"), 2);
        let refused = ring.send(&out(&frames[2..])).expect_err("the third does not");
        assert_eq!(refused.raw_os_error(), Some(libc::EINVAL));
        assert_eq!(ring.send(&out(&frames[3..])).expect("the fourth goes"), 1);
        frames.remove(2);
        assert_eq!(receive(&mut socket, 3), frames);
        set_up(false);
        let down = ring.send(&out(&frames)).expect_err("lo is down");
        assert_eq!(down.raw_os_error(), Some(libc::ENETDOWN));
        set_up(true);
        assert_eq!(ring.send(&out(&frames)).expect("lo is up"), 3);
        assert_eq!(receive(&mut socket, 3), frames);
    });
}

#[test]
fn frames_that_fit_no_slot_or_no_mtu_do_not_suit() {
    apart("frames_that_fit_no_slot_or_no_mtu_do_not_suit", |lo| {
        let mut ring = TransmitRing::open(lo, false).expect("root may");
        let fits = |ring: &TransmitRing, len| ring.fits(&frame(0, len)[..].into());
        // The MTU of lo is 64 kB, the longest slot 16.
        assert!(fits(&ring, 16_000) && !fits(&ring, 16_384));
        assert!(!ring.fits(&[0; 13][..].into()) && ring.fits(&[0; 14][..].into()));
        let whole = frame(0, 9000);
        assert!(!ring.fits(&OutFrame { bytes: &whole, segments: 6 }));
        // The MTU is looked at again before a long frame is sent.
        set_mtu(1500);
        assert_eq!(ring.send(&out(&[whole])).expect("lo is up"), 0);
        assert!(fits(&ring, 1514) && !fits(&ring, 1515));
    });
}

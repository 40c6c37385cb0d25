//! Packet sockets and TAP devices, one thing at a time.

use crate::bridge::wait;
use crate::hosts::{Host, cable, ip, privileged};
use std::net::UdpSocket;
use std::time::{Duration, Instant};
use thruway_port::af_packet::{Fanout, FanoutMode, OutFrame, PacketOptions, PacketSocket};
use thruway_port::tap::{Tap, TapKind, TapOptions};
use thruway_port::{PortError, interface};

/// A host with `eth0` = 10.9.0.1, and one with the other end, `near`.
fn pair() -> (Host, Host) {
    let (far, here) = (Host::new(), Host::new());
    let tid = far.tid;
    here.run(move || cable("near", "eth0", tid));
    far.run(|| {
        ip("addr add 10.9.0.1/24 dev eth0");
        ip("link set eth0 up");
    });
    (far, here)
}

/// Receives until a frame satisfies `wanted`, which gets the number of the frame's socket.
fn receive_until(sockets: &mut [PacketSocket], mut wanted: impl FnMut(usize, &[u8]) -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    let mut found = false;
    while !found {
        assert!(Instant::now() < end, "no such frame came");
        wait(&sockets.iter().collect::<Vec<_>>());
        for (i, socket) in sockets.iter_mut().enumerate() {
            socket.receive(256, |frame| found |= wanted(i, &frame.bytes));
        }
    }
}

#[test]
fn vlan_tags_are_put_back() {
    if !privileged("vlan_tags_are_put_back") {
        return;
    }
    let (far, here) = pair();
    let opened = here.run(|| PacketSocket::open("near", &PacketOptions::default()));
    let mut sockets = [opened.expect("near is up")];
    let opened = far.run(|| PacketSocket::open("eth0", &PacketOptions::default()));
    // The receiving kernel takes the tag out before anybody sees the frame.
    let sent = [&[0xFF; 12][..], &[0x81, 0x00, 0x60, 0x05, 0x88, 0xB5], &[0x55; 60]].concat();
    assert_eq!(opened.expect("eth0 is up").send(&[sent[..].into()]).expect("eth0 is up"), 1);
    receive_until(&mut sockets, |_, frame| frame == sent);
    assert!(sockets[0].statistics().tags_restored > 0);
}

#[test]
fn what_is_sent_arrives_and_too_long_frames_are_refused() {
    if !privileged("what_is_sent_arrives_and_too_long_frames_are_refused") {
        return;
    }
    let (far, here) = pair();
    let opened = here.run(|| PacketSocket::open("near", &PacketOptions::default()));
    let mut near = opened.expect("near is up");
    let opened = far.run(|| PacketSocket::open("eth0", &PacketOptions::default()));
    let mut sockets = [opened.expect("eth0 is up")];
    let frames: Vec<Vec<u8>> =
        (0..150_u8).map(|i| [&[0xFF; 12][..], &[0x88, 0xB5, i], &[i; 60]].concat()).collect();
    let mut slices: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
    let too_long = vec![0xFF; 5000];
    slices.insert(70, &too_long);
    let out: Vec<OutFrame<'_>> = slices.into_iter().map(OutFrame::from).collect();
    assert_eq!(near.send(&out).expect("near is up"), 151);
    let mut expected = frames.iter();
    receive_until(&mut sockets, |_, frame| {
        if frame[12..14] == [0x88, 0xB5] {
            assert_eq!(frame, expected.next().expect("no more were sent"));
        }
        expected.len() == 0
    });
    let statistics = near.statistics();
    assert_eq!((statistics.sent, statistics.dropped_refused), (150, 1));
    assert_eq!(sockets[0].statistics().dropped_ring_full, 0);
}

#[test]
fn a_fanout_group_shares_flows_without_copies() {
    if !privileged("a_fanout_group_shares_flows_without_copies") {
        return;
    }
    const FLOWS: usize = 64;
    let (far, here) = pair();
    let mut sockets = here.run(|| {
        let fanout = Some(Fanout { group: 7, mode: FanoutMode::Hash });
        let options = PacketOptions { fanout, ..PacketOptions::default() };
        [(); 2].map(|()| PacketSocket::open("near", &options).expect("near is up"))
    });
    far.run(|| {
        for _ in 0..FLOWS {
            let socket = UdpSocket::bind("10.9.0.1:0").expect("bind");
            socket.set_broadcast(true).expect("set");
            socket.send_to(b"shared payload", "10.9.0.255:9").expect("send");
        }
    });
    let mut counts = [0; 2];
    receive_until(&mut sockets, |i, frame| {
        counts[i] += usize::from(frame.ends_with(b"shared payload"));
        counts.iter().sum::<usize>() >= FLOWS
    });
    // Any more would be copies.
    wait(&sockets.iter().collect::<Vec<_>>());
    for socket in &mut sockets {
        socket.receive(256, |frame| assert!(!frame.bytes.ends_with(b"shared payload")));
    }
    assert!(counts.iter().all(|&count| count > 0), "{counts:?}");
}

#[test]
fn errors_name_the_interface_and_the_remedy() {
    if !privileged("errors_name_the_interface_and_the_remedy") {
        return;
    }
    let (_far, here) = pair();
    here.run(|| {
        let open = |name: &str| PacketSocket::open(name, &PacketOptions::default());
        let text = open("eth9").err().expect("no eth9").to_string();
        assert!(text.contains("'eth9'") && text.contains("near"), "{text}");
        let socket = open("near").expect("near is up");
        ip("link set near down");
        let text = socket.take_error().expect_err("went down").to_string();
        assert!(text.contains("ip link set near up"), "{text}");
        assert!(matches!(open("near"), Err(PortError::Down { .. })));
        ip("link set near up");
        // JUSTIFICATION: a test needs it, and the standard library does not offer it.
        // SAFETY: the call (not the library's function, which is for all threads) changes the
        // rights of this thread alone, which ends with the test.
        let result = unsafe { libc::syscall(libc::SYS_setresuid, 65_534, 65_534, 65_534) };
        assert_eq!(result, 0);
        let text = open("near").err().expect("no right").to_string();
        assert!(text.contains("'near'") && text.contains("CAP_NET_RAW"), "{text}");
    });
}

#[test]
fn a_tap_device_is_made_configured_read_and_written() {
    if !privileged("a_tap_device_is_made_configured_read_and_written") {
        return;
    }
    Host::new().run(|| {
        let mut tap = Tap::open(&TapOptions {
            name: "tap%d".to_owned(),
            kind: TapKind::Ethernet,
            address: Some(([10, 77, 0, 1].into(), 24)),
            mtu: Some(1400),
        })
        .expect("root may make devices");
        assert_eq!(tap.name(), "tap0");
        let found = interface::find("tap0").expect("made");
        assert!(found.is_up && found.ipv4().eq([([10, 77, 0, 1].into(), 24)]));
        assert_eq!(interface::mtu("tap0").expect("made"), 1400);
        let host_mac = found.mac.expect("Ethernet");
        let socket = UdpSocket::bind("10.77.0.1:7").expect("bind");
        socket.send_to(b"who is there", "10.77.0.2:9").expect("send");
        let request = read_until(&mut tap, |frame| frame[12..14] == [0x08, 0x06]);
        // An answer: the request with its two ends exchanged.
        let our_mac = [2, 0, 0, 0, 0, 9];
        let (sender, target) = (&request[28..32], &request[38..42]);
        let header = [&host_mac[..], &our_mac, &request[12..21], &[2]].concat();
        let reply = [&header[..], &our_mac, target, &host_mac, sender].concat();
        assert!(tap.write(&reply).expect("tap0 is up"));
        let frame = read_until(&mut tap, |frame| frame.ends_with(b"who is there"));
        assert_eq!(frame[..6], our_mac);
        ip("link set tap0 down");
        assert!(matches!(tap.write(&reply), Err(PortError::Down { .. })));
    });
}

fn read_until(tap: &mut Tap, wanted: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let end = Instant::now() + Duration::from_secs(10);
    let mut buffer = [0; 2048];
    loop {
        match tap.read(&mut buffer).expect("tap0 is up") {
            Some(frame) if wanted(frame) => return frame.to_vec(),
            Some(_) => {}
            None => std::thread::sleep(Duration::from_millis(5)),
        }
        assert!(Instant::now() < end, "no such frame came");
    }
}

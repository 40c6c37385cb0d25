//! Packet sockets and TAP devices, one thing at a time.

use crate::bridge::wait;
use crate::hosts::{Host, cable, ip, privileged};
use std::net::UdpSocket;
use std::time::{Duration, Instant};
use thruway_port::af_packet::{OutFrame, PacketOptions, PacketSender, PacketSocket};
use thruway_port::tap::{Tap, TapKind, TapOptions};
use thruway_port::{PortError, interface};

/// A host with `eth0` = 10.9.0.1, and one with the other end, `near`.
pub fn pair() -> (Host, Host) {
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
pub fn receive_until(sockets: &mut [PacketSocket], mut wanted: impl FnMut(usize, &[u8]) -> bool) {
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
    let opened = far.run(|| PacketSender::open("eth0", false));
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
    let mut near = here.run(|| PacketSender::open("near", false)).expect("near is up");
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
    assert_eq!(near.counts(), (150, 1));
    assert_eq!(sockets[0].statistics().dropped_ring_full, 0);
}

/// A UDP datagram between the ports of a flow, in one direction or the other.
fn datagram(flow: u8, back: bool) -> Vec<u8> {
    let mut ends = [[10, 9, flow, 1, 0x40, flow], [198, 51, 100, flow, 0x00, 0x35]];
    if back {
        ends.reverse();
    }
    let [from, to] = ends;
    let head = [0x45, 0, 0, 36, 0, 0, 0, 0, 64, 17, 0, 0];
    let addresses = [&from[..4], &to[..4], &from[4..], &to[4..]].concat();
    let frame = [&[0xFF; 12][..], &[8, 0], &head, &addresses, &[0, 16, 0, 0]].concat();
    [&frame[..], b"shared", &[flow, u8::from(back)]].concat()
}

#[test]
fn a_group_shares_frames_and_keeps_connections_together() {
    if !privileged("a_group_shares_frames_and_keeps_connections_together") {
        return;
    }
    const FLOWS: usize = 100;
    let (far, here) = pair();
    let mut sockets = here.run(|| {
        let group = PacketSocket::open_group("near", &PacketOptions::default(), (3, None));
        group.expect("near is up")
    });
    let mut sender = far.run(|| PacketSender::open("eth0", false).expect("up"));
    let frames: Vec<Vec<u8>> = (0..2 * FLOWS as u8).map(|n| datagram(n / 2, n % 2 == 1)).collect();
    let out: Vec<OutFrame<'_>> = frames.iter().map(|frame| frame.as_slice().into()).collect();
    assert_eq!(sender.send(&out).expect("eth0 is up"), 2 * FLOWS);
    // Which socket had each direction of each flow.
    let mut by = vec![[None; 2]; FLOWS];
    let mut left = 2 * FLOWS;
    receive_until(&mut sockets, |socket, frame| {
        if let [.., b's', b'h', b'a', b'r', b'e', b'd', flow, back] = frame {
            let place = &mut by[usize::from(*flow)][usize::from(*back)];
            assert_eq!(place.replace(socket), None, "it came twice");
            left -= 1;
        }
        left == 0
    });
    // Any more would be copies.
    wait(&sockets.iter().collect::<Vec<_>>());
    for socket in &mut sockets {
        socket.receive(256, |frame| assert!(!frame.bytes[..].windows(6).any(|w| w == b"shared")));
    }
    assert!(by.iter().all(|[there, back]| there == back), "{by:?}");
    for socket in 0..3 {
        assert!(by.iter().any(|[there, _]| *there == Some(socket)), "{by:?}");
    }
}

/// What this host sends itself does not fill the rings of several threads (Linux 6.2).
#[test]
fn what_is_sent_takes_no_room_in_a_group() {
    if !privileged("what_is_sent_takes_no_room_in_a_group") {
        return;
    }
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let version: Vec<u32> = release.split('.').filter_map(|part| part.parse().ok()).collect();
    if version.as_slice() < [6, 2].as_slice() {
        println!("SKIPPED: what_is_sent_takes_no_room_in_a_group: {release} lacks the flag");
        return;
    }
    const SENT: usize = 10_000;
    let (_far, here) = pair();
    // The smallest rings: a few dozen frames.
    let options = PacketOptions { ring_len: 1 << 16, ..PacketOptions::default() };
    let (mut sockets, mut sender) = here.run(move || {
        let group = PacketSocket::open_group("near", &options, (2, None)).expect("near is up");
        (group, PacketSender::open("near", false).expect("near is up"))
    });
    let frames: Vec<Vec<u8>> = (0..200).map(|flow| datagram(flow, false)).collect();
    let out: Vec<OutFrame<'_>> = frames.iter().map(|frame| frame.as_slice().into()).collect();
    for _ in 0..SENT / out.len() {
        assert_eq!(sender.send(&out).expect("near is up"), out.len());
    }
    for socket in &mut sockets {
        socket.receive(256, |frame| assert!(!frame.bytes[..].windows(6).any(|w| w == b"shared")));
        assert_eq!(socket.statistics().dropped_ring_full, 0);
    }
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

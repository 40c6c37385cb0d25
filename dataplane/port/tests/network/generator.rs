//! Generator and sink on a cable between two hosts.

use crate::hosts::{Host, cable, ip, privileged};
use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::time::{Duration, Instant};
use thruway_port::generator::{Generator, Sink, SinkCounts, Stream};
use thruway_port::interface;

/// A host with `out`, and one with the other end, `in`.
fn pair() -> (Host, Host) {
    let (here, far) = (Host::new(), Host::new());
    let tid = far.tid;
    here.run(move || cable("out", "in", tid));
    far.run(|| ip("link set in up"));
    (here, far)
}

fn stream() -> Stream {
    Stream {
        destination_mac: [2, 0, 0, 0, 0, 1],
        source_mac: [2, 0, 0, 0, 0, 2],
        source: Ipv4Addr::new(10, 99, 0, 2),
        destination: Ipv4Addr::new(10, 16, 0, 250),
        source_port: 20_000,
        destination_port: 9,
        flows: 3,
        networks: 1,
        len: 64,
    }
}

/// Sends some frames of a new stream, few enough for the room at a cable's end, and returns how
/// many were made.
fn send(host: &Host, stream: &Stream, counts: &'static [u32]) -> u64 {
    let stream = stream.clone();
    host.run(move || {
        let mut generator = Generator::new("out", &stream).expect("root may");
        counts.iter().for_each(|count| generator.send(*count).expect("it is up"));
        generator.made().expect("it is there")
    })
}

fn wait_for(sink: &Sink, packets: u64) -> SinkCounts {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let counts = sink.counts().expect("it is attached");
        if counts.packets >= packets || Instant::now() > end {
            return counts;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn all_frames_arrive_and_are_counted() {
    if !privileged("all_frames_arrive_and_are_counted") {
        return;
    }
    let (here, far) = pair();
    let sink = far.run(|| Sink::attach("in", 3).expect("root may"));
    assert_eq!(send(&here, &stream(), &[1, 2, 0, 97]), 100);
    let counts = wait_for(&sink, 100);
    assert_eq!((counts.packets, counts.bytes, counts.disordered), (100, 6_400, 0));
    // A second stream begins anew: out of order, but for a flow that is new.
    let longer = Stream { flows: 4, len: 1514, ..stream() };
    assert_eq!(send(&here, &longer, &[40]), 40);
    let counts = wait_for(&sink, 140);
    assert_eq!((counts.packets, counts.bytes), (140, 6_400 + 40 * 1514));
    assert_eq!(counts.disordered, 30, "ten of the fourth flow are not looked at");
    // A refusal, which leaves nothing behind.
    let error = far.run(|| Sink::attach("in", 3).err().expect("there is one already"));
    assert!(error.to_string().contains("'in'"), "{error}");
    drop(sink);
    far.run(|| Sink::attach("in", 3).map(drop).expect("it is gone"));
}

#[test]
fn a_paced_stream_is_not_faster() {
    if !privileged("a_paced_stream_is_not_faster") {
        return;
    }
    let (here, far) = pair();
    let sink = far.run(|| Sink::attach("in", 3).expect("root may"));
    let start = Instant::now();
    let elapsed = here.run(move || {
        let mut generator = Generator::new("out", &stream()).expect("root may");
        let begin = Instant::now();
        generator.send_at(600, 2_000).expect("it is up");
        let elapsed = begin.elapsed();
        // And as fast as it can again.
        generator.send(30).expect("it is up");
        assert_eq!(generator.made().expect("it is there"), 630);
        elapsed
    });
    assert!(elapsed >= Duration::from_millis(299), "{elapsed:?}");
    let counts = wait_for(&sink, 630);
    assert_eq!((counts.packets, counts.disordered), (630, 0));
    // The paced ones say when they were made, the others do not.
    let latencies = sink.take_latencies().expect("it is attached");
    assert_eq!(latencies.count(), 600);
    let found = [0.0, 50.0, 99.0, 100.0].map(|percent| latencies.percentile_ns(percent));
    assert!(found.is_sorted() && found[0] > 0, "{found:?}");
    assert_eq!(found[3], latencies.longest_ns());
    assert!(u128::from(found[3]) < start.elapsed().as_nanos(), "{found:?}");
    assert_eq!(sink.take_latencies().expect("it is attached").count(), 0, "it begins anew");
}

/// The kernel looks for what came by `in` once in 20 ms, as with a card that moderates interrupts.
fn check_every_20_ms() {
    let script = "mount -t sysfs none /sys && cd /sys/class/net/in && \
                  echo 20000000 > gro_flush_timeout && echo 1000 > napi_defer_hard_irqs";
    let done = std::process::Command::new("unshare").args(["--mount", "sh", "-c", script]).status();
    assert!(done.expect("util-linux is installed").success());
}

#[test]
fn latencies_are_those_of_the_way() {
    if !privileged("latencies_are_those_of_the_way") {
        return;
    }
    let (here, far) = pair();
    let sink = far.run(|| Sink::attach("in", 3).expect("root may"));
    far.run(check_every_20_ms);
    here.run(|| {
        let mut generator = Generator::new("out", &stream()).expect("root may");
        generator.send_at(50, 1_000).expect("it is up");
    });
    let counts = wait_for(&sink, 50);
    assert_eq!(counts.packets, 50);
    let latencies = sink.take_latencies().expect("it is attached");
    let longest = latencies.longest_ns();
    assert!(longest > 5_000_000, "{longest}");
    assert!(latencies.percentile_ns(50.0) > 2_000_000, "{latencies:?}");
}

#[test]
fn the_kernel_takes_the_frames_for_what_they_are() {
    if !privileged("the_kernel_takes_the_frames_for_what_they_are") {
        return;
    }
    let (here, far) = pair();
    let socket = far.run(|| {
        ip("address add 10.99.0.1/24 dev in");
        // 1,000 flows over 4 networks go to 250 addresses of each.
        for network in 16..20 {
            ip(&format!("route add local 10.{network}.0.0/16 dev lo"));
        }
        UdpSocket::bind("0.0.0.0:9").expect("it is free")
    });
    far.run(|| {
        // With GRO on, the end takes frames that are redirected to it.
        let done = std::process::Command::new("ethtool").args(["-K", "in", "gro", "on"]).status();
        assert!(done.expect("ethtool is installed").success());
    });
    let destination_mac =
        far.run(|| interface::find("in").expect("it is there").mac.expect("Ethernet"));
    let stream = Stream { destination_mac, flows: 1000, networks: 4, len: 80, ..stream() };
    // Few enough for the socket's buffer.
    assert_eq!(send(&here, &stream, &[40]), 40);
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    let mut seen = HashSet::new();
    for _ in 0..40 {
        let mut bytes = [0; 100];
        let (len, from) = socket.recv_from(&mut bytes).expect("it arrives");
        assert_eq!((len, &bytes[..4], &bytes[8..16]), (38, &b"TWgn"[..], &[0; 8][..]));
        let flow = u32::from_ne_bytes(bytes[4..8].try_into().expect("four"));
        let port = 20_000 + flow as u16;
        let expected = SocketAddrV4::new(Ipv4Addr::new(10, 99, 0, 2), port);
        assert_eq!(from, SocketAddr::V4(expected));
        assert!(flow < 40 && seen.insert(flow), "each once");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    if !privileged("what_cannot_be_is_refused") {
        return;
    }
    let (here, far) = pair();
    let error = |host: &Host, name: &'static str, stream: Stream| {
        let refused = host.run(move || Generator::new(name, &stream).err().expect("it cannot be"));
        refused.to_string()
    };
    let missing = error(&here, "nosuch0", stream());
    assert!(missing.contains("no interface 'nosuch0'"), "{missing}");
    let short = error(&here, "out", Stream { len: 20, ..stream() });
    assert!(short.contains("62 to 1514"), "{short}");
    let missing = far.run(|| Sink::attach("nosuch0", 3).err().expect("there is none"));
    assert!(missing.to_string().contains("no interface 'nosuch0'"), "{missing}");
}

//! Ports under load: order, and what is lost where. The load is made and counted in the kernel
//! (`thruway_port::generator`).

use std::net::Ipv4Addr;

use thruway_port::generator::{Generator, Sink, Stream};

use crate::network::Namespace;
use crate::process::{Running, need, privileged, thruway, wait_for};

const FLOWS: u32 = 64;

/// A program that passes frames from `in0` to `out0`, with a sender and a receiver at the cables'
/// other ends. The fields are in the order of going.
struct Rig {
    middle: Running,
    sink: Sink,
    generator: Generator,
    sender: Namespace,
    between: Namespace,
    _receiver: Namespace,
    dir: tempfile::TempDir,
}

impl Rig {
    fn new(method: &str) -> Rig {
        need("ethtool", "ethtool");
        let (sender, between, receiver) =
            (Namespace::new("sender"), Namespace::new("middle"), Namespace::new("receiver"));
        for space in [&sender, &between, &receiver] {
            // Nobody says anything of their own accord.
            space.set("ipv6/conf/all/disable_ipv6", "1");
            space.set("ipv6/conf/default/disable_ipv6", "1");
        }
        between.cable("in0", (&sender, "eth0"), "");
        between.cable("out0", (&receiver, "eth0"), "");
        sender.ip("link set eth0 up");
        receiver.ip("link set eth0 up");
        // So that it takes redirected frames, also where no XDP program does.
        between.succeed("ethtool -K in0 gro on");
        let dir = tempfile::tempdir().expect("a directory");
        let text = format!(
            "from :: FromDevice(in0, METHOD {method}, PROMISC true)
                 -> to :: ToDevice(out0, METHOD {method});
             ControlSocket(UNIX, {})",
            dir.path().join("sock").display()
        );
        let mut middle = Running::start(between.thruway().args(["run", "-q", "-e", &text]));
        let socket = dir.path().join("sock");
        wait_for("the control socket", || {
            assert!(!middle.ended(), "{}", middle.stderr());
            std::os::unix::net::UnixStream::connect(&socket).ok()
        });
        let sink = receiver.within(|| Sink::attach("eth0", FLOWS)).expect("root may");
        let generator = sender.within(|| Generator::new("eth0", &stream())).expect("root may");
        Rig { middle, sink, generator, sender, between, _receiver: receiver, dir }
    }

    /// What the running program says.
    fn ask(&self, call: &str) -> String {
        let socket = self.dir.path().join("sock");
        let mut command = thruway();
        command.args(["ctl", &socket.display().to_string(), "read", call]);
        crate::process::run(&mut command).expect(0).stdout
    }

    /// Packets that it dropped, for whatever reason.
    fn drops(&self) -> u64 {
        let text = self.ask("statistics");
        let drops = text.lines().filter(|line| line.starts_with("drop\t"));
        // drop, element, reason, packets, fate
        let count = |line: &str| line.split('\t').nth(3)?.parse::<u64>().ok();
        drops.map(|line| count(line).expect("a count")).sum()
    }

    /// Frames for which there was no room at the other end of the cable.
    fn no_room(space: &Namespace, name: &str) -> u64 {
        let text = space.succeed("cat /proc/thread-self/net/dev");
        let line = text.lines().find_map(|line| line.trim().strip_prefix(&format!("{name}:")));
        let mut counts = line.expect("the interface").split_whitespace();
        counts.nth(11).expect("dropped in transmission").parse().expect("a number")
    }

    fn arrived(&self) -> u64 {
        self.sink.counts().expect("it is attached").packets
    }
}

fn stream() -> Stream {
    Stream {
        destination_mac: [2, 0, 0, 0, 0, 1],
        source_mac: [2, 0, 0, 0, 0, 2],
        source: Ipv4Addr::new(10, 9, 0, 2),
        destination: Ipv4Addr::new(10, 0, 0, 1),
        source_port: 1024,
        destination_port: 9,
        flows: FLOWS,
        networks: 4,
        len: 64,
    }
}

#[test]
fn below_capacity_nothing_is_lost_and_flows_keep_their_order() {
    if !privileged("below_capacity_nothing_is_lost_and_flows_keep_their_order") {
        return;
    }
    for method in ["XDP", "LINUX"] {
        let mut rig = Rig::new(method);
        // A stall of 100 ms finds room in every ring.
        let sent = rig.sender.within(|| rig.generator.send_at(20_000, 10_000));
        sent.expect("the cable is there");
        wait_for("all packets", || (rig.arrived() >= 20_000).then_some(()));
        let counts = rig.sink.counts().expect("it is attached");
        assert_eq!((counts.packets, counts.bytes, counts.disordered), (20_000, 1_280_000, 0));
        assert_eq!((rig.drops(), rig.ask("from.kernel_drops").trim()), (0, "0"), "{method}");
        assert_eq!(rig.ask("to.count").trim(), "20000", "{method}");
        rig.middle.interrupt().expect(0);
    }
}

#[test]
fn above_capacity_every_loss_is_counted_and_flows_keep_their_order() {
    if !privileged("above_capacity_every_loss_is_counted_and_flows_keep_their_order") {
        return;
    }
    for method in ["XDP", "LINUX"] {
        let mut rig = Rig::new(method);
        let sent = rig.sender.within(|| rig.generator.send(2_000_000));
        sent.expect("the cable is there");
        let made = rig.generator.made().expect("it is there");
        assert_eq!(made, 2_000_000);
        let mut last = Vec::new();
        let places = wait_for("every packet to be accounted for", || {
            // At the cable before the program, within it, at the cable behind it, at the end. A
            // packet socket is told that there was no room, and the packet is tried again.
            let lost_behind = match method {
                "XDP" => Rig::no_room(&rig.between, "out0"),
                _ => 0,
            };
            let (lost_before, dropped) = (Rig::no_room(&rig.sender, "eth0"), rig.drops());
            let places = vec![lost_before, dropped, lost_behind, rig.arrived()];
            let all = places.iter().sum::<u64>();
            assert!(all <= made, "{method}: {places:?} of {made}");
            if places != last {
                eprintln!("{method}: {places:?}");
            }
            last.clone_from(&places);
            (all == made).then_some(places)
        });
        assert!(places[3] < made && places[3] > 0, "{method}: {places:?}");
        assert_eq!(rig.sink.counts().expect("it is attached").disordered, 0, "{method}");
        rig.middle.interrupt().expect(0);
    }
}

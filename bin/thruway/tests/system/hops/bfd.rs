//! Whether another host is there: against another implementation, and over a cable that is cut.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::control::Client;
use crate::frr::Frr;
use crate::network::Namespace;
use crate::process::{Running, need, privileged, wait_for};

/// Times between packets, milliseconds: three without one end a session.
const INTERVAL_MS: u32 = 20;
/// A session that a thread watches which has to wait for a core may end late; this is far too late.
const DETECTION_MAX: Duration = Duration::from_millis(500);

/// One end: this program in a namespace of its own, with a cable to `port` of another.
struct End {
    running: Running,
    client: Client,
}

impl End {
    fn start(host: &Namespace, dir: &Path, last: u8) -> End {
        let (own, other) = (format!("192.0.2.{last}"), format!("192.0.2.{}", 3 - last));
        let mac = format!("02:00:00:00:00:0{last}");
        let socket = dir.join(format!("end{last}"));
        let text = format!(
            "FromDevice(eth0, PROMISC true) -> k :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
             k[0] -> ARPResponder({own} {mac}) -> q :: Queue -> ToDevice(eth0);
             arp :: ARPQuerier({own}, {mac}) -> q; k[1] -> [1]arp; k[3] -> Discard;
             k[2] -> Strip(14) -> bfd :: BFD({own}, {other}, TX {INTERVAL_MS}ms, RX {INTERVAL_MS}ms,
                 UP turn.switch 1, DOWN turn.switch 0) -> arp;
             Idle -> turn :: Switch(0); turn[0] -> Discard; turn[1] -> Discard;
             ControlSocket(UNIX, {})",
            socket.display()
        );
        let mut running = Running::start(host.thruway().args(["click", "-e", &text]));
        wait_for("the control socket", || {
            assert!(!running.ended(), "{}", running.stderr());
            socket.exists().then_some(())
        });
        let client = Client::unix(&socket);
        End { running, client }
    }

    fn is(&mut self, state: &str) -> bool {
        self.client.read("bfd.state") == state
    }

    #[track_caller]
    fn wait(&mut self, state: &str) {
        wait_for(state, || self.is(state).then_some(()));
    }

    /// The time from now until it is down.
    fn time_to_down(&mut self) -> Duration {
        let start = Instant::now();
        while !self.is("down") {
            assert!(start.elapsed() < Duration::from_secs(10), "it stays up");
            std::thread::sleep(Duration::from_millis(1));
        }
        start.elapsed()
    }
}

/// Sends a BFD packet, made by hand, to the end with this last byte of its address, as if from the
/// other one.
fn forge_bfd(host: &Namespace, last: u8, ttl: u8, discriminator: &str) {
    let (mac, from) = (format!("02:00:00:00:00:0{last}"), 3 - last);
    let text = format!(
        "InfiniteSource(DATA \\<20400318 00000063 {discriminator} 00004e20 00004e20 00000000>, LIMIT 3)
             -> UDPIPEncap(192.0.2.{from}, 49152, 192.0.2.{last}, 3784)
             -> StoreData(8, \\<{ttl:02x}>) -> SetIPChecksum
             -> EtherEncap(0x0800, 02:00:00:00:00:09, {mac}) -> forged"
    );
    super::forge(host, "eth0", &text);
}

#[test]
fn a_cut_cable_is_noticed() {
    if !privileged("a_cut_cable_is_noticed") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let (one, other) = (Namespace::new("one"), Namespace::new("other"));
    one.cable("eth0", (&other, "eth0"), "");
    other.ip("link set eth0 addrgenmode none up");
    let mut first = End::start(&one, dir.path(), 1);
    let mut second = End::start(&other, dir.path(), 2);
    let mut times = Vec::new();
    for _ in 0..5 {
        first.wait("up");
        second.wait("up");
        wait_for("the call", || (first.client.read("turn.switch") == "1").then_some(()));
        // The other end says nothing more, and its link stays up: as if a switch between had died.
        second.running.signal(rustix::process::Signal::STOP);
        times.push(first.time_to_down());
        wait_for("the call", || (first.client.read("turn.switch") == "0").then_some(()));
        second.running.signal(rustix::process::Signal::CONT);
    }
    times.sort();
    println!("detection, of 5: {times:?}");
    assert!(times[2] < DETECTION_MAX, "{times:?}");
    // Forged ones: from further away, and of a session that nobody has.
    first.wait("up");
    let downs = first.client.number("bfd.downs");
    forge_bfd(&other, 1, 254, "00000000");
    forge_bfd(&other, 1, 255, "00000007");
    wait_for("the packets", || {
        let drops = first.client.read("bfd.drops");
        (drops.contains("3 hop-limit") && drops.contains("3 other-session")).then_some(())
    });
    println!("downs meanwhile: {}", first.client.number("bfd.downs") - downs);
    // Held down by the operator: the other end says so.
    assert_eq!(second.client.write_data("bfd.enabled", "false").0, 200);
    first.wait("down");
    assert_eq!(first.client.read("bfd.remote_state"), "admin-down");
    first.running.interrupt().expect(0);
    second.running.interrupt().expect(0);
}

/// What bfdd of FRR is told.
fn bfdd_config() -> String {
    let timers = format!(
        "receive-interval {INTERVAL_MS}\n  transmit-interval {INTERVAL_MS}\n  detect-multiplier 3"
    );
    format!("bfd\n peer 192.0.2.1\n  {timers}\n  no shutdown\n !\n!\n")
}

/// Waits until bfdd shows its session in this state.
#[track_caller]
fn wait_frr(frr: &Frr, status: &str) {
    let wanted = format!("Status: {status}");
    wait_for(&wanted, || frr.show("bfd peers").contains(&wanted).then_some(()));
}

#[test]
fn frr_is_the_other_end() {
    if !privileged("frr_is_the_other_end") {
        return;
    }
    need("vtysh", "frr");
    let dir = tempfile::tempdir().expect("a directory");
    let (one, other) = (Namespace::new("one"), Namespace::new("other"));
    one.cable("eth0", (&other, "eth0"), "");
    other.ip("address add 192.0.2.2/24 dev eth0");
    other.ip("link set eth0 up");
    let frr = Frr::start(&other, &dir.path().join("frr"), &[("bfdd", &bfdd_config())]);
    let mut end = End::start(&one, dir.path(), 1);
    end.wait("up");
    wait_frr(&frr, "up");
    wait_for("its times", || (end.client.read("bfd.detection") == "0.06").then_some(()));
    let peer = frr.show("bfd peers");
    assert!(peer.contains("Transmission interval: 20ms"), "{peer}");
    // What passes is dropped, and the link stays: nftables at the other end.
    need("nft", "nftables");
    other.succeed("nft add table inet cut");
    other.succeed("nft add chain inet cut out { type filter hook output priority 0; }");
    other.succeed("nft add rule inet cut out udp dport 3784 drop");
    println!("detection: {:?}", end.time_to_down());
    wait_frr(&frr, "down");
    other.succeed("nft delete table inet cut");
    end.wait("up");
    wait_frr(&frr, "up");
    // The cable is cut.
    other.ip("link set eth0 down");
    end.wait("down");
    other.ip("link set eth0 up");
    end.wait("up");
    wait_frr(&frr, "up");
    assert_eq!(end.client.write_data("bfd.enabled", "false").0, 200);
    wait_for("its word", || frr.show("bfd peers").contains("neighbor signaled").then_some(()));
    end.running.interrupt().expect(0);
}

//! Virtual machines that know nothing of Thruway: a bridge of Debian's kernel as a function, a
//! machine of somebody else at a port, and guests that lie. The image is made by
//! `scripts/guest-image --standard`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use thruway_vhost::driver::{BUFFER_LEN, Driver, FrontEnd, INDIRECT, NEXT, RawDescriptor, WRITE};

use crate::control::Client;
use crate::network::{HostConfig, Network};
use crate::process::{Running, need, privileged, root, skip, thruway, wait_for};
use crate::traffic::fetch;

/// Two hosts of one network.
const LAN: HostConfig = HostConfig { addresses: &["10.7.0.1/24"], routers: &[] };
const WAN: HostConfig = HostConfig { addresses: &["10.7.0.2/24"], routers: &[] };

/// The image; none, and a word about it, where none was made.
fn image(test: &str) -> Option<PathBuf> {
    let image = root().join("target/guest/standard");
    if !image.join("kernel").is_file() {
        skip(test, "no image of machines; scripts/guest-image --standard makes one");
        return None;
    }
    Some(image.canonicalize().expect("a path"))
}

/// Between the hosts, a function `vm` of two cards in the place of a cable.
fn in_between(vm: &str) -> String {
    format!(
        "vm :: {vm};
         a :: FromDevice(lan0, PROMISC true) -> vm -> ToDevice(lan0);
         b :: FromDevice(wan0, PROMISC true) -> [1] vm [1] -> ToDevice(wan0);"
    )
}

fn start(network: &mut Network, text: &str, socket: &Path) -> Client {
    let mut command = network.middle.thruway();
    command.args(["click", "-R", "-e", text, "-u"]).arg(socket);
    network.start(&mut command);
    Client::unix(socket)
}

fn pings(network: &Network) -> bool {
    network.lan.run("ping -n -c 1 -W 1 10.7.0.2").code() == 0
}

/// What came in is what was given to the guest and what was dropped, each packet once.
fn is_accounted_for(client: &mut Client) -> bool {
    let came = client.number("a.count") + client.number("b.count");
    let drops = client.read("vm.drops");
    let lost: u64 = drops
        .lines()
        .filter(|line| ["no-guest", "no-buffer", "unfit"].iter().any(|why| line.ends_with(why)))
        .filter_map(|line| line.split(' ').next()?.parse::<u64>().ok())
        .sum();
    came == client.number("vm.sent") + lost
}

#[test]
fn a_machine_is_a_cable_and_is_back_after_its_end() {
    let Some((image, mut network, dir)) = prepared("a machine as a cable") else { return };
    let vm = format!("Machine({})", image.display());
    let begun = Instant::now();
    let mut client = start(&mut network, &in_between(&vm), &dir.path().join("control"));
    wait_for("the machine", || (client.read("vm.state") == "running").then_some(()));
    eprintln!("ready after {:?}", begun.elapsed());
    wait_for("a ping", || pings(&network).then_some(()));
    assert!(client.read("vm.console").contains("the function runs"));
    assert!(client.read("vm.sandbox").contains("virtual machine with standard drivers"));
    let cards = client.read("vm.cards");
    assert!(cards.lines().count() == 2 && cards.lines().all(|line| line.contains(" ready ")));
    fetch(&network.lan, &network.wan, "10.7.0.2", 3 << 20);
    fetch(&network.wan, &network.lan, "10.7.0.1", 1 << 20);

    // Another configuration goes on with the machine, and is at once what the first was.
    let pid = client.read("vm.pid");
    let next = in_between(&vm).replace("FromDevice(lan0", "FromDevice(lan0, BURST 16");
    assert_eq!(client.write_data("hotconfig", &next).0, 200);
    assert_eq!((client.read("vm.pid"), client.number("vm.restarts")), (pid, 0));
    assert!(pings(&network));

    kill(&mut client);
    wait_for("the restart", || (client.number("vm.restarts") == 1).then_some(()));
    assert!(!pings(&network), "nobody passes packets while it boots");
    wait_for("a ping after the restart", || pings(&network).then_some(()));
    assert!(client.read("vm.last_error").contains("signal 9"), "{}", client.read("vm.last_error"));
    fetch(&network.lan, &network.wan, "10.7.0.2", 1 << 20);
    assert!(client.read("vm.drops").contains("no-guest"));
    wait_for("an account", || is_accounted_for(&mut client).then_some(()));

    let pid: i32 = client.read("vm.pid").parse().expect("a process");
    let done = network.stop();
    assert_eq!(done.code(), 0, "{done:#?}");
    assert!(!Path::new(&format!("/proc/{pid}")).exists(), "the machine ended with the run");
}

/// The image, two hosts, and a directory for the control socket; none where this cannot run.
fn prepared(test: &str) -> Option<(PathBuf, Network, tempfile::TempDir)> {
    if !privileged(test) {
        return None;
    }
    let dir = tempfile::tempdir().expect("a directory");
    Some((image(test)?, Network::new(&LAN, &WAN), dir))
}

fn kill(client: &mut Client) {
    let pid: i32 = client.read("vm.pid").parse().expect("a process");
    kill_process(Pid::from_raw(pid).expect("a process"), Signal::KILL).expect("it runs");
}

/// Time until the hosts meet again. Pings are sent every 20 ms.
fn back_after(network: &Network) -> Duration {
    let begun = Instant::now();
    wait_for("a ping", || {
        (network.lan.run("ping -n -c 1 -W 0.02 10.7.0.2").code() == 0).then_some(())
    });
    begun.elapsed()
}

#[test]
fn a_machine_that_waits_takes_the_place_at_once() {
    let Some((image, mut network, dir)) = prepared("a machine that waits") else { return };
    let text = |arguments: &str| in_between(&format!("Machine({}{arguments})", image.display()));
    let is_ready = |client: &mut Client| {
        wait_for("the machine that waits", || (client.read("vm.standby") == "ready").then_some(()));
    };

    // Nobody serves, and a machine boots meanwhile.
    let wait = text(", ACTIVE false, STANDBY true");
    let begun = Instant::now();
    let mut client = start(&mut network, &wait, &dir.path().join("control"));
    is_ready(&mut client);
    // Where others use the processors, everything takes longer in proportion.
    let boot = begun.elapsed();
    let soon = (boot / 2).max(Duration::from_secs(2));
    assert_eq!((client.read("vm.state"), client.read("vm.pid")), ("stopped".into(), "0".into()));
    assert!(!pings(&network), "a machine that stands still passes nothing");

    // Called, it is there soon, and another one begins to boot.
    let begun = Instant::now();
    assert_eq!(client.write_data("hotconfig", &text(", STANDBY true")).0, 200);
    back_after(&network);
    let called = begun.elapsed();
    is_ready(&mut client);
    fetch(&network.lan, &network.wan, "10.7.0.2", 1 << 20);

    // It ends, and the other one takes its place; so again, the other way round.
    let mut gaps = Vec::new();
    for round in 1..=2 {
        let pid = client.read("vm.pid");
        kill(&mut client);
        gaps.push(back_after(&network));
        assert_ne!(client.read("vm.pid"), pid);
        assert_eq!(client.number("vm.takeovers"), round);
        is_ready(&mut client);
    }
    eprintln!("booted {boot:?}; first packet {called:?} after the call; after a kill {gaps:?}");
    assert!(gaps.iter().chain([&called]).all(|gap| *gap < soon), "{called:?} {gaps:?} {soon:?}");
    fetch(&network.wan, &network.lan, "10.7.0.1", 1 << 20);
    wait_for("an account", || is_accounted_for(&mut client).then_some(()));

    // The one that waits ends by itself: the other one serves on. And nobody needs to wait.
    let pid = client.read("vm.pid");
    assert_eq!(client.write_data("hotconfig", &text("")).0, 200);
    assert_eq!((client.read("vm.pid"), client.read("vm.standby")), (pid, "none".into()));
    assert!(pings(&network));
    assert_eq!(network.stop().code(), 0);
}

#[test]
fn a_disk_boots_by_itself_and_is_not_written() {
    if !privileged("a machine's disk") {
        return;
    }
    let Some(image) = image("a machine's disk") else { return };
    let disk = image.join("disk.qcow2");
    if !disk.is_file() {
        return skip(
            "a machine's disk",
            "no disk; scripts/guest-image --standard --disk makes one",
        );
    }
    let before = std::fs::read(&disk).expect("it is there");
    let mut network = Network::new(&LAN, &WAN);
    let dir = tempfile::tempdir().expect("a directory");
    let vm = format!("Machine({})", disk.display());
    let mut client = start(&mut network, &in_between(&vm), &dir.path().join("control"));
    wait_for("a ping", || pings(&network).then_some(()));
    fetch(&network.lan, &network.wan, "10.7.0.2", 1 << 20);
    assert!(client.read("vm.console").contains("the function runs"));
    assert_eq!(network.stop().code(), 0);
    assert!(before == std::fs::read(&disk).expect("it is there"));
}

#[test]
fn a_machine_that_does_not_begin_is_told_with_its_console() {
    let Some(image) = image("a machine that does not begin") else { return };
    let refuse = |vm: &str, words: &[&str]| {
        let text = format!("Idle -> vm :: Machine({vm}) -> Discard");
        super::go(&text, &["--duration", "5"]).expect(1).says(&["config:1"]).says(words);
    };
    let vm = image.display();
    refuse(&format!("{vm}, MEMORY 64M"), &["needs 128 MB"]);
    refuse(&format!("{vm}, ATTACH_TIMEOUT 100ms"), &["did not use all of its network cards"]);
    refuse("/no/image", &["has no /no/image"]);
    refuse(
        &format!("{vm}, APPEND \"rdinit=/nothing\""),
        &["the virtual machine exited", "Kernel panic"],
    );
}

/// A machine that somebody else runs, with a card at each of two sockets.
fn foreign_machine(image: &Path, sockets: [&Path; 2]) -> Command {
    need("qemu-system-x86_64", "qemu-system-x86");
    let mut command = Command::new("qemu-system-x86_64");
    let line = "-nodefaults -no-user-config -machine pc,usb=off,memory-backend=m -accel tcg -cpu max \
                -m 128M -object memory-backend-memfd,id=m,size=128M,share=on -display none";
    command.args(line.split_whitespace());
    command.arg("-kernel").arg(image.join("kernel")).arg("-initrd").arg(image.join("initramfs"));
    command.args(["-append", "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check"]);
    command.args(["-serial", "stdio"]);
    for (number, socket) in sockets.iter().enumerate() {
        let path = socket.display();
        command.args(["-chardev", &format!("socket,id=c{number},path={path},reconnect=1")]);
        command.args(["-netdev", &format!("vhost-user,id=n{number},chardev=c{number}")]);
        command.args(["-device", &format!("virtio-net-pci,netdev=n{number},vectors=0,romfile=")]);
    }
    command
}

#[test]
fn a_foreign_machine_goes_on_when_this_program_is_started_anew() {
    let Some((image, mut network, dir)) = prepared("a foreign machine") else { return };
    let at = |name: &str| dir.path().join(name);
    let text = format!(
        "x :: VhostUser({}); y :: VhostUser({});
         FromDevice(lan0, PROMISC true) -> x -> ToDevice(lan0);
         FromDevice(wan0, PROMISC true) -> y -> ToDevice(wan0);",
        at("x").display(),
        at("y").display()
    );
    let mut client = start(&mut network, &text, &at("control"));
    let machine = Running::start(&mut foreign_machine(&image, [&at("x"), &at("y")]));
    wait_for("a ping", || pings(&network).then_some(()));
    fetch(&network.lan, &network.wan, "10.7.0.2", 1 << 20);
    assert_eq!((client.read("x.state"), client.number("x.faults")), ("ready".into(), 0));
    assert_eq!(network.stop().code(), 0);
    assert!(!at("x").exists());
    let mut client = start(&mut network, &text, &at("control"));
    wait_for("the machine's return", || (client.read("x.state") == "ready").then_some(()));
    wait_for("a ping", || pings(&network).then_some(()));
    fetch(&network.wan, &network.lan, "10.7.0.1", 1 << 20);
    drop(machine);
    wait_for("its end", || (client.read("x.state") == "waiting").then_some(()));
    assert_eq!(
        (client.read("x.last_end"), client.number("x.faults")),
        ("the front-end left".into(), 0)
    );
    assert_eq!(network.stop().code(), 0);
}

/// The name of a lie, and what a hostile guest writes.
type Forgery = (&'static str, Box<dyn Fn(&Driver)>);

fn lies() -> Vec<Forgery> {
    let one = |guest, len, flags, next| RawDescriptor { guest, len, flags, next };
    let sends = move |name, all: Vec<RawDescriptor>| -> Forgery {
        let write = move |driver: &Driver| {
            for (index, one) in all.iter().enumerate() {
                driver.describe(1, index as u16, *one);
            }
            driver.offer(1, 0);
        };
        (name, Box::new(write))
    };
    let guest = Driver::new(8).expect("memory").buffer(0);
    vec![
        sends("chain-too-long", vec![one(guest, 20, NEXT, 1), one(guest, 20, NEXT, 0)]),
        sends("outside-memory", vec![one(1 << 60, 100, 0, 0)]),
        sends("outside-memory", vec![one(guest, 60_000, NEXT, 1), one(u64::MAX, 20, 0, 0)]),
        sends("descriptor-index", vec![one(guest, 20, NEXT, 9)]),
        sends("direction", vec![one(guest, 20, WRITE, 0)]),
        sends("indirect-table", vec![one(guest, 17, INDIRECT, 0)]),
        sends("short-header", vec![one(guest, 3, 0, 0)]),
        ("avail-jump", Box::new(|driver: &Driver| driver.set_avail_index(1, 700))),
        ("descriptor-index", Box::new(|driver: &Driver| driver.offer(1, 8))),
    ]
}

#[test]
fn guests_that_lie_end_their_own_device() {
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name);
    let text = format!(
        "bad :: VhostUser({}) -> Discard; left :: VhostUser({}) -> right :: VhostUser({}) -> left",
        at("bad").display(),
        at("left").display(),
        at("right").display()
    );
    let control = at("control");
    let running =
        Running::start(thruway().args(["run", "-q", "-e", &text, "--control"]).arg(&control));
    let mut client = Client::unix(&control);
    let connect = |name: &str, driver: &Driver| {
        let mut front_end = FrontEnd::connect(&at(name)).expect("it listens");
        front_end.begin(driver).expect("it is taken");
        front_end
    };
    let (left, mut right) = (Driver::new(8).expect("memory"), Driver::new(8).expect("memory"));
    let (left_end, _right_end) = (connect("left", &left), connect("right", &right));
    (0..8).for_each(|index| right.offer_buffer(index));
    for (round, (name, write)) in lies().into_iter().enumerate() {
        let driver = Driver::new(8).expect("memory");
        let front_end = connect("bad", &driver);
        driver.send(7, b"an honest packet first");
        write(&driver);
        front_end.kick(1);
        wait_for("the fault", || (client.number("bad.faults") > round as u64).then_some(()));
        let end = client.read("bad.last_end");
        assert!(end.starts_with(&format!("{name}:")), "{name}: {end}");
        // The neighbour does not notice.
        let packet: Vec<u8> = (0..1000).map(|at| (at * 7 + round) as u8).collect();
        left.send(round as u16 % 8, &packet);
        left_end.kick(1);
        let (index, got) = wait_for("the neighbour's packet", || right.receive());
        assert!(got == packet, "{name}");
        assert!(packet.len() < BUFFER_LEN as usize);
        right.offer_buffer(index);
    }
    assert_eq!(client.number("left.faults") + client.number("right.faults"), 0);
    // Where the index itself is a lie, nothing is taken.
    assert!(client.number("bad.count") >= lies().len() as u64 - 1);
    let (gap, line) = client.worst_gap();
    assert!(gap < Duration::from_millis(50).as_nanos() as u64, "{line}");
    running.interrupt().expect(0);
}

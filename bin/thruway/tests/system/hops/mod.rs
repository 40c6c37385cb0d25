//! A chain over two hosts: hops with service headers between them, real clients across.
//!
//! ```text
//! client -- lan0 [first] hop0 -- switch -- hop0 [second] wan0 -- server
//! 10.1.0.7   .1  192.0.2.1                192.0.2.2      .2   203.0.113.1
//! ```

mod bfd;
mod encrypted;
mod kernel;

use std::path::Path;

use crate::control::Client;
use crate::frames::read_capture;
use crate::network::Namespace;
use crate::process::{Running, need, privileged, root, run, wait_for};
use crate::traffic::{fetch, iperf_both_directions};

const SERVER: &str = "203.0.113.1";

struct Hosts {
    // In the order of going: processes before namespaces.
    running: Vec<Running>,
    client: Namespace,
    server: Namespace,
    hosts: [Namespace; 2],
    between: Between,
    files: tempfile::TempDir,
}

/// What is between the hosts: processes, which end first, and namespaces.
type Between = (Vec<Running>, Vec<Namespace>);

/// A switch, where a capture sees all that the hosts send each other, at its port `first`.
fn switch(hosts: &[Namespace; 2]) -> Between {
    let switch = Namespace::new("switch");
    switch.ip("link add switch0 type bridge mcast_snooping 0");
    switch.ip("link set switch0 addrgenmode none up");
    for (host, port) in hosts.iter().zip(["first", "second"]) {
        host.cable("hop0", (&switch, port), "");
        switch.ip(&format!("link set {port} master switch0 addrgenmode none up"));
    }
    (Vec::new(), vec![switch])
}

impl Hosts {
    fn new() -> Hosts {
        Hosts::across(switch)
    }

    /// The same with something else between them.
    fn across(connect: fn(&[Namespace; 2]) -> Between) -> Hosts {
        let (client, server) = (Namespace::new("client"), Namespace::new("server"));
        let hosts = [Namespace::new("first"), Namespace::new("second")];
        hosts[0].cable("lan0", (&client, "eth0"), "");
        hosts[1].cable("wan0", (&server, "eth0"), "");
        let between = connect(&hosts);
        for (host, address, router) in
            [(&client, "10.1.0.7/24", "10.1.0.1"), (&server, "203.0.113.1/24", "203.0.113.2")]
        {
            host.ip(&format!("address add {address} dev eth0"));
            host.ip("link set eth0 up");
            host.ip(&format!("route add default via {router} dev eth0"));
        }
        let files = tempfile::tempdir().expect("a directory");
        Hosts { running: Vec::new(), client, server, hosts, between, files }
    }

    /// Runs both examples with these variables; what controls them.
    fn start(&mut self, variables: &[&str]) -> [Client; 2] {
        let clients = ["first", "second"].map(|name| {
            let file = root().join(format!("examples/hop-{name}.click"));
            let text = std::fs::read_to_string(file).expect("the example");
            let (config, socket) = (self.path(&format!("{name}.click")), self.path(name));
            let control = format!("{text}\nControlSocket(UNIX, {});\n", socket.display());
            std::fs::write(&config, control).expect("room for a file");
            let host = &self.hosts[usize::from(name == "second")];
            let mut command = host.thruway();
            self.running.push(Running::start(command.arg("run").arg(config).args(variables)));
            socket
        });
        wait_for("the first ping over both hosts", || {
            for running in &mut self.running {
                assert!(!running.ended(), "{}{}", running.stdout(), running.stderr());
            }
            (self.client.run(&format!("ping -n -c 1 -W 1 {SERVER}")).code() == 0).then_some(())
        });
        clients.map(|socket| Client::unix(&socket))
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.files.path().join(name)
    }

    #[track_caller]
    fn stop(mut self) {
        for running in self.running.drain(..) {
            running.interrupt().expect(0);
        }
    }
}

/// Sends packets that a configuration makes and gives to `forged`, by a socket of the system.
fn forge(host: &Namespace, interface: &str, text: &str) {
    need("python3", "python3");
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("forged.pcap");
    let dump = format!("forged :: ToDump({}, SNAPLEN 0, ENCAP ETHER)", file.display());
    let text = format!("{dump}; {text}; DriverManager(wait 0.3)");
    run(host.thruway().args(["click", "-e", &text])).expect(0);
    let hex = |frame: &Vec<u8>| frame.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let frames: Vec<String> = read_capture(&file).iter().map(hex).collect();
    let script = "import socket, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind((sys.argv[1], 0))
for frame in sys.argv[2:]: s.send(bytes.fromhex(frame))";
    run(host.command("python3").args(["-c", script, interface]).args(frames)).expect(0);
}

/// Captures what passes an interface until the value goes.
fn capture(host: &Namespace, interface: &str, file: &Path) -> Running {
    need("tcpdump", "tcpdump");
    let mut command = host.command("tcpdump");
    command.args(["-U", "-q", "-Z", "root", "-i", interface, "-w"]).arg(file);
    let running = Running::start(&mut command);
    wait_for("tcpdump", || running.stderr().contains("listening on").then_some(()));
    running
}

/// The fields that tshark reads in the packets of a capture that match a filter, a line each.
fn dissected(file: &Path, filter: &str, fields: &[&str]) -> Vec<String> {
    need("tshark", "tshark");
    let mut command = std::process::Command::new("tshark");
    command.arg("-r").arg(file).args(["-Y", filter, "-T", "fields", "-E", "occurrence=l"]);
    for field in fields {
        command.args(["-e", field]);
    }
    run(&mut command).expect(0).stdout.lines().map(str::to_owned).collect()
}

#[test]
fn a_chain_over_two_hosts() {
    if !privileged("a_chain_over_two_hosts") {
        return;
    }
    need("ping", "iputils-ping");
    for network in ["vxlan-gpe", "geneve"] {
        let mut hosts = Hosts::new();
        let [mut first, mut second] = hosts.start(&[&format!("NETWORK={network}")]);
        // Untagged, and not trusted: the second host classifies all.
        fetch(&hosts.client, &hosts.server, SERVER, 1 << 20);
        assert!(second.number("web.count") > 20);
        assert_eq!(second.number("fc.tagged"), 0);
        // The classes of the second host, and which of them web traffic is.
        let classes = second.read("fc.classes");
        let web = classes.lines().position(|line| line.contains("8080")).expect("a class") + 2;
        assert_eq!(first.write_data("web.tag", &web.to_string()).0, 200);
        let fingerprint = second.read("fc.fingerprint");
        let (answer, text) = second.write_data("fc.tags", &format!("1 {fingerprint}"));
        assert_eq!(answer, 200, "{text}");
        fetch(&hosts.client, &hosts.server, SERVER, 1 << 20);
        assert_eq!(second.number("fc.tagged"), 0, "the tags are of the other generation");
        assert_eq!(second.write_data("fc.tags", &format!("0 {}", 12)).0, 520);
        assert_eq!(second.write_data("fc.tags", &format!("0 {fingerprint}")).0, 200);
        let before = second.number("web.count");
        let file = hosts.path("hop.pcap");
        let capturing = capture(&hosts.between.1[0], "first", &file);
        fetch(&hosts.client, &hosts.server, SERVER, 1 << 20);
        let passed = second.number("web.count") - before;
        assert!(passed > 20 && second.number("fc.tagged") == passed, "{passed} {network}");
        iperf_both_directions(&hosts.client, &hosts.server, SERVER);
        assert!(second.number("others.count") > 1000);
        capturing.interrupt().expect(0);
        read_by_another(&file, network, web);
        for drops in
            [first.read("back.drops"), second.read("come.drops"), second.read("service.drops")]
        {
            assert!(drops.lines().all(|line| line.starts_with("0 ")), "{drops}");
        }
        hosts.stop();
    }
}

/// tshark reads in a capture of the hop what was sent.
fn read_by_another(file: &Path, network: &str, web: usize) {
    let (vni, port) = match network {
        "geneve" => ("geneve.vni", "udp.dstport==6081"),
        _ => ("vxlan.vni", "udp.dstport==4790"),
    };
    let fields = [vni, "nsh.spi", "nsh.si", "nsh.ttl", "nsh.mdtype", "tcp.dstport", "tcp.len"];
    let there = format!("{port} && ip.src==192.0.2.1 && tcp.dstport==8080");
    let lines = dissected(file, &there, &fields);
    assert!(lines.len() > 20, "{} packets to the server", lines.len());
    for line in &lines {
        let words: Vec<&str> = line.split('\t').collect();
        let numbers = words[..6].iter().map(|word| number(word)).collect::<Vec<_>>();
        assert_eq!(numbers, [7, 5, 255, 63, 1, 8080], "{line}");
    }
    let context = format!("54:68:{:02x}:{:02x}", web >> 8, web & 0xff);
    let tagged = format!("{there} && frame contains {context}");
    assert_eq!(dissected(file, &tagged, &[vni]).len(), lines.len(), "the tag is in the metadata");
    let back = format!("{port} && ip.src==192.0.2.2 && tcp.srcport==8080");
    let lines = dissected(file, &back, &["nsh.spi", "nsh.si"]);
    assert!(
        !lines.is_empty()
            && lines.iter().all(|line| line.ends_with("\t0xff") || line.ends_with("\t255"))
    );
    // Flows have ports of their own, and one each.
    let ports = dissected(file, &there, &["udp.srcport", "tcp.srcport"]);
    let of = |line: &str| line.split_once('\t').map(|(a, b)| (b.to_owned(), a.to_owned()));
    let mut flows: Vec<_> = ports.iter().filter_map(|line| of(line)).collect();
    flows.sort();
    flows.dedup();
    let mut inner: Vec<_> = flows.iter().map(|(inner, _)| inner.clone()).collect();
    inner.dedup();
    assert_eq!(flows.len(), inner.len(), "{flows:?}");
    // No fragment, nothing longer than the link takes.
    assert!(dissected(file, "ip.flags.mf==1 || frame.len > 1514", &["ip.src"]).is_empty());
}

/// A number as tshark writes it.
fn number(word: &str) -> u64 {
    let parsed = match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => word.parse(),
    };
    parsed.unwrap_or_else(|_| panic!("'{word}' is no number"))
}

#[test]
fn senders_learn_what_fits_a_hop() {
    if !privileged("senders_learn_what_fits_a_hop") {
        return;
    }
    need("ping", "iputils-ping");
    let mut hosts = Hosts::new();
    // Connections agree on more than fits: only ICMP errors help.
    let [mut first, mut second] = hosts.start(&["SEGMENTS_MTU=9000"]);
    let client = &hosts.client;
    let large = client.run(&format!("ping -n -c 2 -i 0.2 -W 2 -M do -s 1413 {SERVER}"));
    let heard = format!("{}{}", large.stdout, large.stderr);
    assert!(large.code() != 0 && heard.contains("mtu") && heard.contains("1440"), "{heard}");
    client.succeed(&format!("ping -n -c 1 -W 5 -M do -s 1412 {SERVER}"));
    // What may be cut is, and put together again by its receiver.
    client.ip("route flush cache");
    client.succeed(&format!("ping -n -c 2 -i 0.2 -W 5 -M dont -s 4000 {SERVER}"));
    assert!(first.number("fits.fragments") >= 2);
    // Both directions: the server's segments are too long, and the client's, when it sends.
    fetch(client, &hosts.server, SERVER, 2 << 20);
    iperf_both_directions(client, &hosts.server, SERVER);
    let route = hosts.server.succeed("ip route get 10.1.0.7");
    assert!(route.contains("mtu 1440"), "the server has found the path's MTU: {route}");
    assert!(second.number("fits.drops") > 0, "the server's segments were too long at first");
    hosts.stop();

    // With the segments clamped nothing is refused.
    let mut hosts = Hosts::new();
    let [mut first, mut second] = hosts.start(&[]);
    fetch(&hosts.client, &hosts.server, SERVER, 2 << 20);
    assert_eq!((first.number("fits.drops"), second.number("fits.drops")), (0, 0));
    hosts.stop();
}

/// Forged headers and packets of others change nothing, and are counted.
#[test]
fn what_is_no_hop_is_refused() {
    if !privileged("what_is_no_hop_is_refused") {
        return;
    }
    let mut hosts = Hosts::new();
    let [_first, mut second] = hosts.start(&[]);
    let before = second.number("others.count") + second.number("web.count");
    let text = "define($IP 192.0.2.1, $PEER 192.0.2.2);
        InfiniteSource(\\<4500001400000000401177d70100000102000002>, LIMIT 3) -> p :: Tee(4);
        p[0] -> NSHEncap(9, 255) -> HopEncap($IP, $PEER, VNI 7) -> q :: Null;
        p[1] -> NSHEncap(5, 255) -> HopEncap($IP, $PEER, VNI 8) -> q;
        p[2] -> NSHEncap(5, 255) -> HopEncap(192.0.2.9, $PEER, VNI 7) -> q;
        p[3] -> HopEncap($IP, $PEER, VNI 7, PROTOCOL ip) -> q;
        q -> EtherEncap(0x0800, 02:00:00:00:01:02, 02:00:00:00:02:02) -> forged;";
    forge(&hosts.hosts[0], "hop0", text);
    let drops = wait_for("the packets", || {
        let (come, service) = (second.read("come.drops"), second.read("service.drops"));
        (service.contains("3 other-path") && come.contains("3 other-network")).then_some(come)
    });
    assert!(drops.contains("3 other-protocol"), "{drops}");
    assert_eq!(second.number("others.count") + second.number("web.count"), before);
    hosts.stop();
}

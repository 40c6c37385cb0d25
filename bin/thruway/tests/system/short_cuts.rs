//! Sessions that take short cuts in the kernel: what passes there arrives once and is counted, and
//! ends when the session, its rules or the process do.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::control::Client;
use crate::network::{HostConfig, Network};
use crate::process::{need, privileged, wait_for};

const LAN: HostConfig = HostConfig { addresses: &["192.168.1.2/24"], routers: &["192.168.1.1"] };
const WAN: HostConfig = HostConfig { addresses: &["192.0.2.1/24"], routers: &[] };
const SERVER: &str = "192.0.2.1";

/// Lets UDP take short cuts, too: it has none at the defaults.
const ALL: &str = ", SHORT_CUTS ALL";

/// A firewall and a translator between two networks: rules of the firewall, what stands behind it,
/// and more arguments of the ports.
fn chain([socket, stats]: [&Path; 2], rules: &str, behind: &str, more: &str) -> String {
    format!(
        "ControlSocket(UNIX, {});
        elementclass Side {{ $port, $ip, $mac |
            in :: FromDevice($port, PROMISC true, METHOD LINUX{more})
                -> kind :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
            arp :: ARPQuerier($ip, $mac);
            queue :: Queue -> out :: ToDevice($port);
            kind[0] -> ARPResponder($ip $mac) -> queue;
            kind[1] -> [1]arp;
            kind[2] -> Strip(14) -> CheckIPHeader -> output;
            kind[3] -> Discard;
            input -> DecIPTTL -> arp -> queue;
        }}
        lan :: Side(lan0, 192.168.1.1, 02:00:00:00:00:02);
        wan :: Side(wan0, 192.0.2.2, 02:00:00:00:00:01);
        from_lan :: FlowClassifier(INPUT ip, UDP_NEW 3, UDP 3);
        from_wan :: FlowClassifier(INPUT ip, UDP_NEW 3, UDP 3);
        nat :: NAT(SNAT 192.168.1.0/24 -> 192.0.2.2);
        fw :: StatefulFirewall({rules});
        stats :: SessionStats({});
        routes :: StaticIPLookup(192.168.1.0/24 0, 192.0.2.0/24 1);
        lan -> from_lan -> fw -> there :: Counter {behind} -> nat;
        wan -> from_wan -> [1]nat;
        nat[0] -> stats -> routes;
        nat[1] -> back :: Counter -> [1]fw;
        nat[2] -> Discard;
        fw[1] -> stats;
        routes[0] -> lan;
        routes[1] -> wan;",
        socket.display(),
        stats.display()
    )
}

/// The chain runs between two hosts.
struct Lab {
    // In the order of going.
    network: Network,
    client: Client,
    pid: u32,
    dir: tempfile::TempDir,
}

impl Lab {
    fn new(rules: &str, behind: &str, more: &str) -> Lab {
        let dir = tempfile::tempdir().expect("a directory");
        let (socket, stats) = (dir.path().join("control"), dir.path().join("sessions.csv"));
        let mut network = Network::new(&LAN, &WAN);
        let mut command = network.middle.thruway();
        command.args(["run", "-e", &chain([&socket, &stats], rules, behind, more)]);
        let pid = network.route(&mut command, SERVER);
        let client = Client::unix(&socket);
        Lab { network, client, pid, dir }
    }

    /// A number of the handler `short_cuts` of a side.
    fn short_cuts(&mut self, side: &str, field: &str) -> u64 {
        let text = self.client.read(&format!("{side}/in.short_cuts"));
        let line = text.lines().find_map(|line| line.strip_prefix(field));
        line.and_then(|rest| rest.trim().parse().ok()).unwrap_or(0)
    }

    /// A connection between the hosts: the client's end and the server's.
    fn connect(&self) -> (TcpStream, TcpStream) {
        let listener = self.network.wan.within(|| TcpListener::bind("0.0.0.0:0"));
        let listener = listener.expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let client = self.network.lan.within(|| TcpStream::connect((SERVER, port)));
        let server = listener.accept().expect("a client").0;
        let ends = (client.expect("the way is open"), server);
        for end in [&ends.0, &ends.1] {
            end.set_read_timeout(Some(Duration::from_secs(10))).expect("more than zero");
            end.set_nodelay(true).expect("a socket");
        }
        ends
    }

    /// A pair of datagram sockets.
    fn datagrams(&self) -> (UdpSocket, UdpSocket) {
        let server = self.network.wan.within(|| UdpSocket::bind("0.0.0.0:0")).expect("a port");
        let client = self.network.lan.within(|| UdpSocket::bind("0.0.0.0:0")).expect("a port");
        let port = server.local_addr().expect("it is bound").port();
        client.connect((SERVER, port)).expect("an address");
        for socket in [&client, &server] {
            socket.set_read_timeout(Some(Duration::from_millis(300))).expect("more than zero");
        }
        (client, server)
    }

    /// The sums of SessionStats' file once the router has ended: packets and bytes each way.
    fn stop_and_sum(mut self, port: u16) -> [u64; 4] {
        let file = self.dir.path().join("sessions.csv");
        self.network.stop().expect(0);
        let text = std::fs::read_to_string(file).expect("it was written");
        let mut lines = text.lines();
        let names: Vec<&str> = lines.next().expect("a heading").split(',').collect();
        let column = |name: &str| {
            let at = names.iter().position(|column| *column == name);
            at.unwrap_or_else(|| panic!("no column {name}: {names:?}"))
        };
        let columns = ["packets", "bytes", "reply_packets", "reply_bytes"].map(column);
        let dport = column("dst_port");
        let rows = lines.map(|line| line.split(',').collect::<Vec<&str>>());
        let rows = rows.filter(|row| row[dport] == port.to_string());
        rows.fold([0; 4], |sum, row| {
            std::array::from_fn(|at| sum[at] + row[columns[at]].parse::<u64>().expect("a number"))
        })
    }
}

/// Sends bytes one way and sees that they arrive as they are; a few come back now and then.
fn transfer(from: &mut TcpStream, to: &mut TcpStream, bytes: &[u8]) {
    thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let mut came = vec![0; bytes.len()];
            to.read_exact(&mut came).expect("all of it");
            came
        });
        from.write_all(bytes).expect("the way is open");
        assert!(receiver.join().expect("it reads") == bytes, "other bytes came");
    });
}

/// The numbers of the links by which a process keeps programs attached.
fn links_of(pid: u32) -> Vec<String> {
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fdinfo")).expect("it runs");
    let texts = descriptors.flatten().filter_map(|one| std::fs::read_to_string(one.path()).ok());
    let id = |text: String| {
        let line = text.lines().find_map(|line| line.strip_prefix("link_id:"))?;
        Some(line.trim().to_owned())
    };
    texts.filter_map(id).collect()
}

/// Goes on with a connection until it takes short cuts both ways.
fn until_short(lab: &mut Lab, ends: &mut (TcpStream, TcpStream)) {
    let bytes = crate::traffic::random_bytes(200_000);
    wait_for("a short cut each way", || {
        transfer(&mut ends.0, &mut ends.1, &bytes);
        transfer(&mut ends.1, &mut ends.0, &bytes);
        let flows = [lab.short_cuts("lan", "flows"), lab.short_cuts("wan", "flows")];
        (flows == [1, 1]).then_some(())
    });
}

#[test]
fn bytes_arrive_and_counters_add_up() {
    if !privileged("bytes_arrive_and_counters_add_up") {
        return;
    }
    let mut lab = Lab::new("OUT allow all", "", "");
    let mut ends = lab.connect();
    let port = ends.0.peer_addr().expect("connected").port();
    until_short(&mut lab, &mut ends);
    let bytes = crate::traffic::random_bytes(60_000_000);
    transfer(&mut ends.0, &mut ends.1, &bytes);
    transfer(&mut ends.1, &mut ends.0, &bytes);
    let short = lab.short_cuts("lan", "packets") + lab.short_cuts("wan", "packets");
    wait_for("counts of what passed", || {
        let short = lab.short_cuts("lan", "bytes").min(lab.short_cuts("wan", "bytes"));
        (short > 50_000_000).then_some(())
    });
    assert!(short < 1_000_000, "{short}");
    // FIN comes by software, and ends the short cut.
    drop(ends);
    wait_for("the end of short cuts", || {
        let flows = [lab.short_cuts("lan", "flows"), lab.short_cuts("wan", "flows")];
        (flows == [0, 0]).then_some(())
    });
    let flows = lab.client.read("from_lan.flows");
    assert!(flows.contains("tcp closed"), "{flows}");
    // The kernel's own count of what the interfaces received and sent, in bytes of frames.
    let seen = |lab: &Lab, port: &str, way: &str| -> u64 {
        let text = lab.network.middle.succeed(&format!("ip -s -j link show {port}"));
        let (_, rest) = text.split_once(&format!("\"{way}\":{{\"bytes\":")).expect("a count");
        rest.split(',').next().and_then(|n| n.parse().ok()).expect("a number")
    };
    let received = seen(&lab, "lan0", "rx");
    let counted = lab.client.number("lan/in.byte_count");
    // The interface counts a long packet's headers once.
    let near = |a: u64, b: u64| a.abs_diff(b) * 20 < a;
    assert!(near(received, counted), "{received} received, {counted} counted");
    let (sent, counted) = (seen(&lab, "wan0", "tx"), lab.client.number("wan/out.byte_count"));
    assert!(near(sent, counted), "{sent} sent, {counted} counted");
    let (there, back) = (lab.client.number("there.count"), lab.client.number("back.count"));
    let [packets, len, reply_packets, reply_len] = lab.stop_and_sum(port);
    for (what, counter, session) in [("there", there, packets), ("back", back, reply_packets)] {
        assert!(counter.abs_diff(session) < 100, "{what}: {counter}, session {session}");
        // A large packet that came before the short cut counts once.
        assert!(counter > 30_000, "{what}: {counter}");
    }
    assert!(len > 60_000_000 && reply_len > 60_000_000, "{len} {reply_len}");
}

#[test]
fn a_datagram_neither_gets_lost_nor_comes_twice_as_short_cuts_come_and_go() {
    if !privileged("a_datagram_neither_gets_lost_nor_comes_twice_as_short_cuts_come_and_go") {
        return;
    }
    let mut lab = Lab::new("OUT allow all", "", ALL);
    let (client, server) = lab.datagrams();
    let count = 6_000_u32;
    let mut came = vec![0_u8; count as usize];
    let (mut bytes, mut begun) = ([0; 64], 0);
    for number in 0..count {
        client.send(&number.to_be_bytes()).expect("it is up");
        let (_, from) = server.recv_from(&mut bytes).expect("it arrives");
        let got = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        came[got as usize] += 1;
        server.send_to(&bytes[..4], from).expect("the way back");
        client.recv(&mut bytes).expect("the answer arrives");
        if number % 500 == 499 {
            begun = lab.short_cuts("lan", "begun");
            // A handler that is written ends all short cuts.
            lab.client.write_data("there.reset_counts", "");
        }
    }
    assert!(begun >= 5, "{begun} short cuts");
    assert!(came.iter().all(|times| *times == 1), "each once");
    server.set_nonblocking(true).expect("a socket");
    assert!(server.recv_from(&mut bytes).is_err(), "and nothing else: no probe");
    let done = lab.network.stop().expect(0);
    assert!(!done.stdout.contains("kernel-drops"), "{}", done.stdout);
}

#[test]
fn rules_that_change_stop_a_session_at_once_and_its_timeout_lives_on() {
    if !privileged("rules_that_change_stop_a_session_at_once_and_its_timeout_lives_on") {
        return;
    }
    let mut lab = Lab::new("OUT allow all, RECHECK true", "", ALL);
    let (client, server) = lab.datagrams();
    let port = server.local_addr().expect("it is bound").port();
    let mut bytes = [0; 64];
    let exchange = |bytes: &mut [u8; 64]| {
        client.send(b"x").expect("it is up");
        let (_, from) = server.recv_from(bytes).expect("it arrives");
        server.send_to(b"y", from).expect("the way back");
        client.recv(bytes).expect("the answer arrives");
    };
    wait_for("a short cut each way", || {
        (0..50).for_each(|_| exchange(&mut bytes));
        let flows = [lab.short_cuts("lan", "flows"), lab.short_cuts("wan", "flows")];
        (flows == [1, 1]).then_some(())
    });
    // Longer than UDP's timeout here: what takes the short cut keeps the session.
    let created = lab.client.read("from_lan.created");
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(4) {
        exchange(&mut bytes);
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(lab.client.read("from_lan.created"), created, "the same session");
    assert!(lab.short_cuts("lan", "packets") > 100);
    let text = format!("OUT deny udp && dst port {port}, OUT allow all");
    let (code, said) = lab.client.write_data("fw.rules", &text);
    assert_eq!(code, 200, "{said}");
    client.send(b"denied").expect("it is up");
    assert!(server.recv_from(&mut bytes).is_err(), "nothing comes");
    // A silent session ends: nobody renews it.
    wait_for("its end", || {
        let flows = lab.client.read("from_lan.flows");
        (!flows.contains(&format!("dport={port}"))).then_some(())
    });
    assert_eq!(lab.short_cuts("lan", "flows"), 0);
}

#[test]
fn nothing_is_left_of_a_process_that_is_killed() {
    if !privileged("nothing_is_left_of_a_process_that_is_killed") {
        return;
    }
    need("bpftool", "bpftool");
    let mut lab = Lab::new("OUT allow all", "", "");
    let mut ends = lab.connect();
    until_short(&mut lab, &mut ends);
    let links = links_of(lab.pid);
    assert_eq!(links.len(), 2, "a program at each interface");
    let is_there = |lab: &Lab| {
        let all = lab.network.middle.succeed("bpftool -j link show");
        links.iter().any(|id| all.contains(&format!("\"id\":{id},")))
    };
    assert!(is_there(&lab));
    let pid = i32::try_from(lab.pid).ok().and_then(rustix::process::Pid::from_raw);
    rustix::process::kill_process(pid.expect("a process id"), Signal::KILL).expect("it runs");
    ends.0.set_write_timeout(Some(Duration::from_millis(200))).expect("more than zero");
    ends.1.set_read_timeout(Some(Duration::from_millis(500))).expect("more than zero");
    wait_for("the end of the way", || {
        let mut byte = [0; 64];
        ends.0.write_all(b"nobody forwards it").ok()?;
        ends.1.read(&mut byte).is_err().then_some(())
    });
    wait_for("the end of programs", || (!is_there(&lab)).then_some(()));
}

#[test]
fn a_session_that_an_element_must_see_takes_none() {
    if !privileged("a_session_that_an_element_must_see_takes_none") {
        return;
    }
    let mut lab = Lab::new(
        "OUT allow all",
        "-> seen :: IPClassifier(ip ttl > 1, -); seen[1] -> Discard; seen",
        "",
    );
    let mut ends = lab.connect();
    let bytes = crate::traffic::random_bytes(1_000_000);
    wait_for("a try", || {
        transfer(&mut ends.0, &mut ends.1, &bytes);
        (lab.short_cuts("lan", "refused") > 0).then_some(())
    });
    let text = lab.client.read("lan/in.short_cuts");
    assert!(text.contains("flows 0") && text.contains("why 'seen' (IPClassifier)"), "{text}");
}

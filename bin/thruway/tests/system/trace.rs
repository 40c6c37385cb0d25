//! `thruway trace`: over captures, in configurations that run, and where they end meanwhile.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::control::Client;
use crate::network::{HostConfig, Network};
use crate::process::{Done, LIMIT, Running, need, privileged, root, run, thruway, wait_for};

const LAN: HostConfig = HostConfig { addresses: &["192.168.1.2/24"], routers: &["192.168.1.1"] };
const WAN: HostConfig = HostConfig { addresses: &["192.0.2.1/24"], routers: &["192.0.2.2"] };

/// The gateway over its captures, followed by a filter.
fn gateway(dir: &Path, filter: &str, options: &[&str]) -> Done {
    let mut command = thruway();
    command.args(["trace", "--run"]).arg(root().join("examples/gateway.click"));
    command.arg(filter).args(options).args(["LAN_IP=16.0.1.1", "LAN_NET=16.0.0.0/16"]);
    for name in ["lan", "wan"] {
        let from = root().join("examples/captures").join(format!("{name}.pcap"));
        let to = dir.join(format!("{name}-out.pcap"));
        let variable = name.to_uppercase();
        command.arg(format!("{variable}=pcap:{}>{}", from.display(), to.display()));
    }
    run(&mut command).expect(0)
}

/// Without what differs from run to run.
fn masked(text: &str) -> String {
    let times = regex::Regex::new(r"\d+(\.\d)? (ns|us|ms|s)\b").expect("a pattern");
    times.replace_all(text, "T").into_owned()
}

const PATH: &str = "\
packet 1: 60 bytes, TCP 16.0.0.229:1030 > 48.0.9.26:80
  1 lan/in :: FromDevice -> [0]
  2 lan/for_us :: HostEtherFilter [0] -> [0] after T, took T
  3 lan/kind :: Classifier [0] -> [2] after T, took T
  4 lan/Strip@9 :: Strip [0] -> [0] after T, took T: length 60 -> 46, 14 bytes taken off the front
  5 lan/check :: CheckIPHeader [0] -> [0] after T, took T: length 46 -> 44, 2 bytes cut off, \
destination annotation 0.0.0.0 -> 48.0.9.26, IP header marked
  6 outbound :: IPFilter [0] -> [0] after T, took T
  7 whole_out :: IPReassembler [0] -> [0] after T, took T
  8 from_lan :: FlowClassifier [0] -> [0] after T, took T: session or class found
  9 firewall :: StatefulFirewall [0] -> [0] after T, took T
  10 family :: Classifier [0] -> [0] after T, took T
  11 routes :: StaticIPLookup [0] -> [1] after T, took T: destination annotation 48.0.9.26 -> \
192.0.2.1
  12 to_wan/DropBroadcasts@1 :: DropBroadcasts [0] -> [0] after T, took T
  13 to_wan/options :: IPGWOptions [0] -> [0] after T, took T
  14 to_wan/FixIPSrc@3 :: FixIPSrc [0] -> [0] after T, took T
  15 to_wan/ttl :: DecIPTTL [0] -> [0] after T, took T: ttl 128 -> 127, ip checksum
  16 to_wan/mtu :: IPFragmenter [0] -> [0] after T, took T
  17 wan_packets :: Counter [0] -> [0] after T, took T
  18 wan/arp :: ARPQuerier [0] -> [0] after T, took T: length 44 -> 58, 14 bytes put in front, \
now Ethernet 02:00:00:00:00:01 > 02:00:00:00:00:02
  19 wan/queue :: Queue [0] kept after T, took T
  20 wan/queue :: Queue -> [0] after T
  21 wan/out :: ToDevice [0] ended after T, took T

";

#[test]
fn the_way_through_the_gateway() {
    need("tcpdump", "tcpdump");
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("way.pcapng");
    let file = file.to_str().expect("plain text");
    let options = ["--count", "1", "--pcapng", file];
    let done = gateway(dir.path(), "src host 16.0.0.229 and tcp dst port 80", &options);
    assert_eq!(masked(&done.stdout), PATH);
    assert_eq!(done.stderr, "");
    let mut tcpdump = Command::new("/bin/sh");
    let line = format!("PATH=$PATH:/usr/sbin:/sbin tcpdump -n -e -r {file}");
    let read = run(tcpdump.args(["-c", &line])).expect(0).stdout;
    assert_eq!(read.lines().count(), 21, "{read}");
    assert!(read.lines().all(|line| line.contains("16.0.0.229.1030 > 48.0.9.26.80")), "{read}");
    let bytes = std::fs::read(file).expect("a capture");
    let comment = b": DecIPTTL [0] -> [0] after ";
    assert!(bytes.windows(comment.len()).any(|part| part == comment));
}

#[test]
fn drops_and_refusals_in_json() {
    let dir = tempfile::tempdir().expect("a directory");
    let done = gateway(dir.path(), "tcp dst port 25", &["--count", "1", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&done.stdout).expect("JSON");
    let hops = value["packets"][0]["hops"].as_array().expect("hops");
    // Refused, and its sender is told.
    let last = hops.last().expect("one hop at least");
    assert_eq!((&last["element"], &last["outcome"]), (&"refuse_out".into(), &"ended".into()));
    assert_eq!(last["more_sent"], 1, "{value}");
    let bytes = hops[0]["after"]["bytes"].as_str().expect("bytes");
    assert!(bytes.len() >= 108 && bytes.chars().all(|c| c.is_ascii_hexdigit()), "{bytes}");
    let denied = gateway(dir.path(), "udp dst port 1026", &["--count", "2"]);
    denied.prints(&["outbound :: IPFilter [0] dropped: denied after "]);
}

#[test]
fn through_a_process_and_to_another_thread() {
    if !privileged("through_a_process_and_to_another_thread") {
        return;
    }
    let text = "RatedSource(DATA \\<00112233445566778899aabb88b5 00>, RATE 50)
            -> a :: Null -> paint :: Paint(2) -> p :: Pipeliner -> b :: Null -> Discard;
        Isolate(paint, ISOLATION relaxed); StaticThreadSched(p 1)";
    let mut command = thruway();
    command.args(["trace", "-j", "2", "-e", text, "12/88b5", "--count", "2", "--at", "a"]);
    let done = run(&mut command).expect(0);
    let told = masked(&done.stdout);
    let way = "  1 a :: Null [0] -> [0] took T
  2 paint/nf :: Nf [0] kept after T, took T
  3 paint/nf :: Nf -> [0] after T: paint 0 -> 2
  4 p :: Pipeliner [0] kept after T, took T
  5 p :: Pipeliner -> [0] in thread 1 after T
  6 b :: Null [0] -> [0] after T, took T
  7 Discard@6 :: Discard [0] ended after T, took T
";
    assert_eq!(told.matches(way).count(), 2, "{told}{}", done.stderr);
}

/// A configuration with a control socket that runs.
struct Chain {
    running: Running,
    dir: tempfile::TempDir,
}

impl Chain {
    fn start(text: &str, options: &[&str]) -> Chain {
        let dir = tempfile::tempdir().expect("a directory");
        let text = format!("{text}; {}", control(dir.path()));
        let mut command = thruway();
        let running = Running::start(command.args(["run", "--quiet", "-e", &text]).args(options));
        let chain = Chain { running, dir };
        drop(Client::unix(&chain.socket()));
        chain
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("sock")
    }

    fn trace(&self, words: &[&str]) -> Command {
        trace(&self.socket(), words)
    }

    /// Waits until somebody traces.
    fn wait_for_traces(&self, count: usize) {
        let mut client = Client::unix(&self.socket());
        wait_for("a trace", || {
            let said = client.read("trace");
            (said.lines().count() == count).then_some(())
        });
    }
}

fn control(dir: &Path) -> String {
    format!("ControlSocket(UNIX, {})", dir.join("sock").display())
}

fn trace(socket: &Path, words: &[&str]) -> Command {
    let mut command = thruway();
    command.arg("trace").arg(socket).args(words);
    command
}

#[test]
fn a_ping_through_two_threads() {
    if !privileged("a_ping_through_two_threads") {
        return;
    }
    need("ping", "iputils-ping");
    let dir = tempfile::tempdir().expect("a directory");
    let example = std::fs::read_to_string(root().join("examples/gateway.click")).expect("a file");
    let file = dir.path().join("gateway.click");
    let place = "StaticThreadSched(lan/in 0, lan/out 0, wan/in 1, wan/out 1)";
    std::fs::write(&file, format!("{example}\n{place};\n{};\n", control(dir.path())))
        .expect("a file");
    let mut network = Network::new(&LAN, &WAN);
    let mut command = network.middle.thruway();
    command.arg("run").arg(&file).args(["LAN=lan0", "WAN=wan0", "-j", "2"]);
    network.route(&mut command, "192.0.2.1");
    let words = ["icmp type echo and dst host 192.0.2.1", "--count", "1", "--json"];
    let mut running = Running::start(&mut trace(&dir.path().join("sock"), &words));
    wait_for("the end of the trace", || {
        network.lan.run("ping -n -c 1 -W 1 192.0.2.1");
        running.ended().then_some(())
    });
    let done = running.wait(LIMIT).expect(0);
    let value: serde_json::Value = serde_json::from_str(&done.stdout).expect("JSON");
    let hops = value["packets"][0]["hops"].as_array().expect("hops");
    let elements: Vec<&str> = hops.iter().filter_map(|hop| hop["element"].as_str()).collect();
    let passed: Vec<&str> = elements.iter().copied().filter(|name| !name.contains('@')).collect();
    let ports = [elements.first(), elements.last()];
    assert_eq!(ports, [Some(&"lan/in"), Some(&"wan/out")], "{value}");
    for name in ["lan/check", "outbound", "routes", "to_wan/ttl", "wan/arp", "wan/queue"] {
        assert!(passed.contains(&name), "{name}: {passed:?}");
    }
    assert_eq!(hops.first().map(|hop| &hop["thread"]), Some(&0.into()), "{value}");
    assert_eq!(hops.last().map(|hop| &hop["thread"]), Some(&1.into()), "{value}");
    let ttl = hops.iter().find(|hop| hop["element"] == "to_wan/ttl").expect("it passed");
    assert_eq!(ttl["changes"][0], "ttl 64 -> 63");
    network.stop().expect(0);
}

#[test]
fn two_at_once_each_sees_its_packets() {
    let text = "RatedSource(DATA \\<00112233445566778899aabb88b5 00>, RATE 200) -> a :: Counter -> d :: Discard;
        RatedSource(DATA \\<00112233445566778899aabb88b6 00>, RATE 200) -> b :: Counter -> d";
    let chain = Chain::start(text, &[]);
    let one = Running::start(&mut chain.trace(&["12/88b5", "--count", "3"]));
    let two = Running::start(&mut chain.trace(&["12/88b6", "--count", "2", "--at", "b"]));
    let (one, two) = (one.wait(LIMIT).expect(0).stdout, two.wait(LIMIT).expect(0).stdout);
    assert_eq!(one.matches(" a :: Counter [0] -> [0] ").count(), 3, "{one}");
    assert_eq!(two.matches("\n  1 b :: Counter [0] -> [0] took ").count(), 2, "{two}");
    assert!(!one.contains(" b ::") && !two.contains(" a ::"), "{one}{two}");
    chain.wait_for_traces(0);
    chain.running.interrupt().expect(0);
}

#[test]
fn what_ends_meanwhile_is_told() {
    let text = "s :: RatedSource(LENGTH 60, RATE 100) -> Discard";
    let chain = Chain::start(text, &["-R"]);
    let waits = Running::start(&mut chain.trace(&["arp"]));
    chain.wait_for_traces(1);
    let next =
        format!("s :: RatedSource(LENGTH 64, RATE 100) -> Discard; {}", control(chain.dir.path()));
    let mut ctl = thruway();
    run(ctl.arg("ctl").arg(chain.socket()).args(["write", "hotconfig", &next])).expect(0);
    let told = waits.wait(LIMIT).expect(1);
    told.says(&["no packet matched 'arp'", "the configuration was replaced meanwhile"]);
    let waits = Running::start(&mut chain.trace(&["arp"]));
    chain.wait_for_traces(1);
    let Chain { running, dir } = chain;
    running.interrupt().expect(0);
    waits.wait(LIMIT).expect(1).says(&[" ended; this was seen until then"]);
    drop(dir);
}

#[test]
fn a_trace_ends_by_time_or_by_hand_and_leaves_nothing() {
    let chain = Chain::start("RatedSource(LENGTH 60, RATE 100) -> Discard", &[]);
    let done = run(&mut chain.trace(&["arp", "--seconds", "0.2"])).expect(0);
    done.says(&["no packet matched 'arp'"]);
    let waits = Running::start(&mut chain.trace(&["arp"]));
    chain.wait_for_traces(1);
    waits.interrupt().expect(0);
    chain.wait_for_traces(0);
    chain.running.interrupt().expect(0);
}

#[test]
fn mistakes_are_told() {
    let say = |args: &[&str]| run(thruway().arg("trace").args(args)).expect(1);
    let nowhere = tempfile::tempdir().expect("a directory");
    let mut alone = thruway();
    alone.args(["trace", "udp"]).env("THRUWAY_RUN_DIR", nowhere.path());
    run(&mut alone).expect(1).says(&["nothing runs that left a socket"]);
    say(&["a", "b", "c"]).says(&["give ADDRESS FILTER"]);
    say(&["/nonexistent/sock", "-"]).says(&["cannot reach a ControlSocket"]);
    let pointing = say(&["/nonexistent/sock", "udp dst prt 53"]);
    pointing.says(&["the filter: ", "\n  udp dst prt 53\n          ^^^"]);
    say(&["--run", "/nonexistent.click", "udp"]).says(&["/nonexistent.click"]);
    say(&["-e", "Idle -> Discard", "udp", "--at", "x"]).says(&["no element named 'x'"]);
    say(&["-e", "Idle -> Nosuch", "udp"]).says(&["Nosuch"]);
    say(&["-e", "Idle -> Discard", "udp", "--seconds", "0"]).says(&["must be above 0"]);
    say(&["-e", "Idle -> Discard", "a\nb"]).says(&["a filter is one line"]);
}

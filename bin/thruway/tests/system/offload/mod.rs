//! `thruway offload` with the real Open vSwitch: a client, the switch, and a host with a chain,
//! each in a namespace of its own.

mod by_card;
mod in_kernel;
mod switch;

use std::fs::write;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::frames::{handmade, read_capture, write_capture};
use crate::network::Namespace;
use crate::process::{Done, LIMIT, Running, privileged, root, run, thruway, wait_for};
use switch::{Line, Tag};

/// Where packets of a chain may go, by its dispatcher's outputs.
const CLASSES: [&str; 5] =
    ["tcp dst port 80 or tcp src port 80", "udp", "icmp and src net 10.0.0.0/8", "arp", "12/8847"];
/// Longest packet that passes an interface here, with its Ethernet header.
const LEN_MAX: usize = 1514;

/// A configuration that writes the packets of each class to a file.
fn sorting(source: &str, classifier: &str, dir: &Path) -> String {
    let outputs = (0..CLASSES.len()).map(|at| {
        let file = dir.join(format!("{at}.pcap"));
        format!("d[{at}] -> c{at} :: Counter -> ToDump({}, SNAPLEN 0);\n", file.display())
    });
    format!(
        "{source} -> fc :: FlowClassifier({classifier})\n\
         ~> d :: FlowDispatcher({}, SESSION connection);\n{}",
        CLASSES.join(", "),
        outputs.collect::<String>()
    )
}

/// Where the chain's packets come from: a cable to the switch.
const CABLE: &str = "FromDevice(eth0, METHOD LINUX, PROMISC true, SNIFFER false)";
/// The same with a tunnel. The host's kernel answers the switch's ARP requests.
const TUNNEL: &str = "FromDevice(eth0, METHOD LINUX, PROMISC true, SNIFFER true)
    -> c :: Classifier(12/0800 23/11, -); c[1] -> Discard;
c -> Strip(14) -> hop :: HopDecap(NETWORK geneve, VNI 7, PROTOCOL ethernet)";

/// A chain behind a switch, and what keeps the switch's rules.
struct Chain {
    dir: TempDir,
    running: Running,
}

impl Chain {
    /// Starts it, and waits until it takes packets.
    fn start(line: &Line) -> Chain {
        Chain::start_with(line, "")
    }

    /// The same, with more arguments of its classifier.
    fn start_with(line: &Line, more: &str) -> Chain {
        let dir = tempfile::tempdir().expect("a directory");
        let (classifier, source) = match line.tag {
            Tag::Vlan => ("INPUT tagged", CABLE),
            Tag::Mpls => ("INPUT tagged, TAG mpls", CABLE),
            Tag::Geneve => ("TAG_ANNO VLAN_TCI", TUNNEL),
        };
        let text = sorting(source, &format!("{classifier}{more}"), dir.path());
        write(dir.path().join("chain.click"), text).expect("a file");
        let mut command = line.host.thruway();
        command.arg("run").arg("-q").arg("--control").arg(dir.path().join("s"));
        let running = Running::start(command.arg(dir.path().join("chain.click")));
        let chain = Chain { dir, running };
        wait_for("the chain", || chain.running.stderr().contains("AF_PACKET").then_some(()));
        wait_for("its socket", || (chain.ctl(&["version"]).code() == 0).then_some(()));
        chain
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn ctl(&self, words: &[&str]) -> Done {
        run(thruway().arg("ctl").arg(self.path("s")).args(words))
    }

    fn number(&self, handler: &str) -> u64 {
        self.ctl(&[handler]).expect(0).stdout.trim().parse().expect("a number")
    }

    /// How many packets it dropped for a reason.
    fn drops(&self, reason: &str) -> u64 {
        let table = self.ctl(&["fc.drops"]).expect(0).stdout;
        let line = table.lines().find_map(|line| line.strip_suffix(&format!(" {reason}")));
        line.and_then(|count| count.parse().ok()).expect("a count")
    }

    /// Packets whose fate is known.
    fn accounted(&self) -> u64 {
        let counted: u64 = (0..CLASSES.len()).map(|at| self.number(&format!("c{at}.count"))).sum();
        let dropped = ["unwanted", "unwanted-offloaded"].map(|reason| self.drops(reason));
        counted + dropped.iter().sum::<u64>()
    }

    /// `thruway offload` of this configuration.
    fn offload(&self, line: &Line, what: &str) -> Command {
        let mut command = line.host.thruway();
        command.args(["offload", what]).arg(self.path("chain.click"));
        command.arg("--bridge").arg(line.bridge()).args(["--from", "in0"]);
        command.args(["--to", line.tag.port(), "--tag", line.tag.word()]);
        command
    }

    /// Applies the rules, and waits until the chain trusts their tags.
    fn apply(&self, line: &Line) -> Running {
        let mut command = self.offload(line, "apply");
        let mut keeper = Running::start(command.arg("--control").arg(self.path("s")));
        wait_for("the rules", || {
            assert!(!keeper.ended(), "{}", keeper.stderr());
            keeper.stdout().contains("rules for 'fc'").then_some(())
        });
        keeper
    }
}

/// Sends frames from the client.
fn send(client: &Namespace, frames: &[Vec<u8>]) {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("in.pcap");
    write_capture(&file, frames);
    let text = format!(
        "FromDump({}, STOP true) -> Queue(20000) -> BandwidthShaper(2000000) -> ToDevice(eth0, METHOD LINUX)",
        file.display()
    );
    run(client.thruway().args(["run", "-q", "-e", &text])).expect(0);
}

/// Frames of every kind, some with tags like those of the switch.
fn frames() -> Vec<Vec<u8>> {
    let captures = ["wan.pcap", "lan.pcap"].map(|name| root().join("examples/captures").join(name));
    let mut frames: Vec<Vec<u8>> =
        captures.iter().flat_map(|capture| read_capture(capture).into_iter().take(1500)).collect();
    frames.extend(handmade(&root()));
    frames.retain(|frame| (14..=LEN_MAX).contains(&frame.len()));
    let forged = frames.iter().step_by(7).enumerate().map(|(at, frame)| {
        let tag = (at as u16 % 0x1000).to_be_bytes();
        [&frame[..12], &[0x88, 0xa8], &tag, &frame[12..]].concat()
    });
    // With labels that are those of classes, above a packet and above another label.
    let labelled = frames.iter().step_by(11).enumerate().map(|(at, frame)| {
        let entry = 0xc000_0000_u32 | (at as u32) << 12 | (at as u32 % 2) << 8 | 64;
        [&frame[..12], &[0x88, 0x47], &entry.to_be_bytes(), &frame[14..]].concat()
    });
    let forged: Vec<Vec<u8>> =
        forged.chain(labelled).filter(|frame| frame.len() <= LEN_MAX).collect();
    frames.extend(forged);
    // In front of these a switch cannot put a label that can be taken off again.
    frames.retain(|frame| !frame[14..].starts_with(&[0xaa, 0xaa, 3]));
    frames
}

/// What software alone makes of frames: those of each class, and how many it drops.
fn software(frames: &[Vec<u8>]) -> (Vec<Vec<Vec<u8>>>, u64) {
    let dir = tempfile::tempdir().expect("a directory");
    write_capture(&dir.path().join("in.pcap"), frames);
    let source = format!("FromDump({}, STOP true)", dir.path().join("in.pcap").display());
    let text = sorting(&source, "", dir.path());
    run(thruway().args(["run", "-q", "-e", &text])).expect(0);
    let classes = captures(dir.path());
    let kept: usize = classes.iter().map(Vec::len).sum();
    (classes, (frames.len() - kept) as u64)
}

fn captures(dir: &Path) -> Vec<Vec<Vec<u8>>> {
    (0..CLASSES.len()).map(|at| read_capture(&dir.join(format!("{at}.pcap")))).collect()
}

#[test]
fn captures_pass_the_switch_as_they_pass_software() {
    if !privileged("captures_pass_the_switch_as_they_pass_software") {
        return;
    }
    let frames = frames();
    let expected = software(&frames);
    for tag in Tag::ALL {
        pass(tag, &frames, expected.clone());
    }
}

/// Sends frames through a switch with such tags, and compares what comes with what is expected.
fn pass(tag: Tag, frames: &[Vec<u8>], (expected, unwanted): (Vec<Vec<Vec<u8>>>, u64)) {
    let line = Line::new(tag);
    let chain = Chain::start(&line);
    let keeper = chain.apply(&line);
    run(&mut chain.offload(&line, "verify")).expect(0).prints(&["rules of 'fc'"]);
    send(&line.client, frames);
    let all = frames.len() as u64;
    wait_for("all packets", || (chain.accounted() >= all).then_some(()));
    assert_eq!(chain.accounted(), all, "{tag:?}: each packet has one fate");
    let (in_switch, tagged) = (chain.number("fc.offloaded"), chain.number("fc.tagged"));
    assert_eq!(chain.drops("unwanted-offloaded"), in_switch);
    assert_eq!(in_switch + chain.drops("unwanted"), unwanted);
    let counts = format!("{tag:?}: {in_switch} dropped, {tagged} tagged of {all}");
    assert!(in_switch > 100 && tagged > 1000, "{counts}");
    keeper.interrupt().expect(0);
    assert_eq!(line.rules(), [""; 0], "no rule is left");
    assert_eq!(line.options(), [""; 0], "no option is left");
    assert_eq!(chain.ctl(&["fc.tags"]).expect(0).stdout.trim(), "none");
    let dir = chain.dir;
    chain.running.interrupt().expect(0);
    for (class, (came, expected)) in sorted(captures(dir.path())).zip(sorted(expected)).enumerate()
    {
        assert_eq!(came.len(), expected.len(), "{tag:?} {}", CLASSES[class]);
        assert!(came == expected, "{tag:?}: other bytes in {}", CLASSES[class]);
    }
}

/// Of each class its frames in order: packets of a flow stay in theirs, but packets with tags and
/// without come by two rings of the interface.
fn sorted(classes: Vec<Vec<Vec<u8>>>) -> impl Iterator<Item = Vec<Vec<u8>>> {
    classes.into_iter().map(|mut frames| {
        frames.sort();
        frames
    })
}

/// A frame of a class of the chain.
fn udp() -> Vec<u8> {
    [
        &[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 28, 0, 1, 0, 0, 64, 17, 0, 0][..],
        &[10, 0, 0, 1, 10, 0, 0, 2, 4, 0, 0, 53, 0, 8, 0, 0],
        &[0; 18],
    ]
    .concat()
}

/// Ten packets of that class, and the tagged ones among them.
fn ten(line: &Line, chain: &Chain) -> u64 {
    let (before, tagged) = (chain.number("c1.count"), chain.number("fc.tagged"));
    send(&line.client, &vec![udp(); 10]);
    wait_for("ten packets", || (chain.number("c1.count") == before + 10).then_some(()));
    chain.number("fc.tagged") - tagged
}

#[test]
fn rules_are_kept_right_until_the_chain_ends() {
    if !privileged("rules_are_kept_right_until_the_chain_ends") {
        return;
    }
    for tag in Tag::ALL {
        keep(tag);
    }
}

/// What happens to rules with such tags.
fn keep(tag: Tag) {
    let mut line = Line::new(tag);
    let chain = Chain::start(&line);
    // Rules of others: those that come first are in the way, others stay.
    line.ofctl(&["add-flow", "priority=65000,in_port=in0,udp,actions=drop"]).expect(0);
    let mut apply = chain.offload(&line, "apply");
    let refused = run(apply.arg("--control").arg(chain.path("s"))).expect(1);
    refused.says(&["1 rules of others", "'in0' come first", "priority=65000"]);
    assert_eq!(line.rules().len(), 1);
    line.ofctl(&["del-flows"]).expect(0);
    let other = format!("priority=5,in_port=in0,actions=output:{}", tag.port());
    line.ofctl(&["add-flow", &other]).expect(0);
    assert_eq!(ten(&line, &chain), 0, "no switch classifies yet");
    let keeper = chain.apply(&line);
    assert_eq!(ten(&line, &chain), 10);

    // The chain's configuration changes: other rules, with other tags.
    let text = std::fs::read_to_string(chain.path("chain.click")).expect("there");
    write(chain.path("chain.click"), text.replace(", udp,", ", udp dst port 53,")).expect("a file");
    run(thruway().arg("reload").arg("--control").arg(chain.path("s"))).expect(0);
    wait_for("other rules", || {
        (keeper.stdout().matches("rules for 'fc'").count() == 2).then_some(())
    });
    for generation in ["generation 0)", "generation 1)"] {
        assert!(keeper.stdout().contains(generation), "{}", keeper.stdout());
    }
    assert_eq!(ten(&line, &chain), 10);

    // The switch is killed, and has no rules when it is back.
    line.restart();
    wait_for("the rules again", || {
        (keeper.stdout().matches("rules for 'fc'").count() == 3).then_some(())
    });
    assert_eq!(ten(&line, &chain), 10);
    assert!(keeper.stdout().contains("the switch has lost rules"), "{}", keeper.stdout());

    // The chain is killed: its rules go, others stay.
    let back = format!("priority=7,in_port={},actions=output:in0", tag.port());
    line.ofctl(&["add-flow", &back]).expect(0);
    chain.running.signal(Signal::KILL);
    keeper.wait(LIMIT).expect(0).prints(&["the chain has ended"]);
    let left = line.rules();
    assert!(left.len() == 1 && left[0].contains("priority=7"), "{left:?}");
}

/// An action of a switch that puts a tag of no trusted generation in front of a packet of IPv4.
fn forging(tag: Tag) -> &'static str {
    match tag {
        // 4096, and 2 + 2046 in generation 1; 0xc0000, and 2 * (2 + 16384); 2 + 16383, shifted.
        Tag::Vlan => "push_vlan:0x88a8,set_field:6144->vlan_vid",
        Tag::Mpls => "push_mpls:0x8847,set_field:819204->mpls_label",
        Tag::Geneve => "set_field:0x40010000->tun_metadata0",
    }
}

#[test]
fn a_stale_tag_is_not_read() {
    if !privileged("a_stale_tag_is_not_read") {
        return;
    }
    for tag in Tag::ALL {
        for unknown in ["classify", "drop"] {
            let line = Line::new(tag);
            let chain = Chain::start_with(&line, &format!(", UNKNOWN_TAGS {unknown}"));
            let keeper = chain.apply(&line);
            assert!(keeper.stdout().contains("generation 0)"), "{}", keeper.stdout());
            assert_eq!(ten(&line, &chain), 10);
            // As if packets of the next rules, or of the last but one, were in flight.
            let (action, port) = (forging(tag), tag.port());
            let rule = format!("priority=65000,in_port=in0,udp,actions={action},output:{port}");
            line.ofctl(&["add-flow", &rule]).expect(0);
            if unknown == "classify" {
                assert_eq!(ten(&line, &chain), 0, "{tag:?}");
                assert_eq!(chain.drops("unknown-tag"), 0);
            } else {
                send(&line.client, &vec![udp(); 10]);
                let dropped = || (chain.drops("unknown-tag") == 10).then_some(());
                wait_for("ten drops", dropped);
                assert_eq!(chain.number("c1.count"), 10, "{tag:?}");
            }
            keeper.interrupt().expect(0);
            // The field of an option stays as long as rules of others use it.
            assert_eq!(line.options().len(), usize::from(tag == Tag::Geneve));
            assert_eq!(line.rules().len(), 1);
            line.ofctl(&["del-flows"]).expect(0);
            remove(&line, &chain);
            assert_eq!(line.options(), [""; 0]);
        }
    }
}

/// Takes the rules out of the switch, and the chain's trust.
fn remove(line: &Line, chain: &Chain) {
    let mut remove = thruway();
    remove.args(["offload", "remove", "--from", "in0", "--bridge"]).arg(line.bridge());
    run(remove.args(["--element", "fc", "--control"]).arg(chain.path("s"))).expect(0);
}

#[test]
fn what_a_killed_keeper_left_is_found() {
    if !privileged("what_a_killed_keeper_left_is_found") {
        return;
    }
    let line = Line::new(Tag::Vlan);
    let chain = Chain::start(&line);
    let keeper = chain.apply(&line);
    let rules = line.rules().len();
    keeper.signal(Signal::KILL);
    drop(keeper);
    assert_eq!(line.rules().len(), rules, "the chain is served on");
    assert_eq!(ten(&line, &chain), 10);
    let keeper = chain.apply(&line);
    assert_eq!(line.rules().len(), rules, "no rule is there twice");
    assert!(keeper.stdout().contains("generation 1)"), "{}", keeper.stdout());
    assert_eq!(ten(&line, &chain), 10);
    keeper.signal(Signal::KILL);
    drop(keeper);
    line.ofctl(&["del-flows", "udp"]).expect(0);
    run(&mut chain.offload(&line, "verify")).expect(1).says(&["are not those of 'fc'"]);
    remove(&line, &chain);
    assert_eq!(chain.ctl(&["fc.tags"]).expect(0).stdout.trim(), "none");
    assert_eq!(line.rules(), [""; 0]);
}

#[test]
fn what_cannot_be_offloaded_is_said() {
    if !privileged("what_cannot_be_offloaded_is_said") {
        return;
    }
    let line = Line::new(Tag::Vlan);
    let chain = Chain::start(&line);
    let control = chain.path("s");
    let apply = |change: &dyn Fn(&mut Command)| {
        let mut command = chain.offload(&line, "apply");
        change(command.arg("--control").arg(&control));
        run(&mut command).expect(1)
    };
    // Another configuration than the one that runs.
    let text = std::fs::read_to_string(chain.path("chain.click")).expect("there");
    write(chain.path("chain.click"), text.replace("arp", "ip6")).expect("a file");
    apply(&|_| {}).says(&["other classes than this configuration"]);
    write(chain.path("chain.click"), &text).expect("a file");
    let other = |command: &mut Command| {
        command.args(["--element", "d"]);
    };
    apply(&other).says(&["'d' is no FlowClassifier"]);
    let mut command = line.host.thruway();
    let command = command.args(["offload", "apply"]).arg(chain.path("chain.click"));
    let command = command.args(["--from", "in0", "--to", "host0", "--tag", "mpls", "--bridge"]);
    let command = command.arg(line.bridge()).arg("--control").arg(&control);
    run(command).expect(1).says(&["reads tags of kind vlan", "those of kind mpls"]);
    // A name that would be read as more than a name, a switch that is not there.
    let mut command = line.host.thruway();
    let command = command.args(["offload", "apply"]).arg(chain.path("chain.click"));
    let command = command.args(["--from", "in0,actions=drop", "--to", "host0"]);
    let command = command.arg("--control").arg(&control);
    run(command.arg("--bridge").arg("br0")).expect(1).says(&["is no name of a bridge or port"]);
    let mut command = line.host.thruway();
    let command = command.args(["offload", "apply"]).arg(chain.path("chain.click"));
    let command = command.args(["--from", "in0", "--to", "host0", "--bridge", "/nowhere/br0.mgmt"]);
    run(command.arg("--control").arg(&control)).expect(1).says(&["/nowhere/br0.mgmt: "]);
    assert_eq!(line.rules(), [""; 0]);
    // A classifier that trusts no tags.
    chain.ctl(&["write", "fc.tags", "1", "1"]).expect(1).says(&["other classes"]);
    chain.ctl(&["write", "fc.tags", "some"]).expect(1).says(&["neither 'none'"]);
    run(thruway().args(["offload", "plan", "-e", "Idle -> Discard"]))
        .expect(1)
        .says(&["no FlowClassifier"]);
}

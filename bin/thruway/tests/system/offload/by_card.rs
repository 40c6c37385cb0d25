//! Classification by rules of a network card (rte_flow): where the card takes none, the chain goes
//! on in software; a card of the test's own (`card/card.c`), which can do all and refuses what it
//! is told to; and DPDK's driver of TAP devices on a kernel that has the classifier `flower`, in a
//! virtual machine.

use std::fs::{create_dir, write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::LEN_MAX;
use crate::frames::{handmade, read_capture, write_capture};
use crate::process::{Done, Running, need, privileged, root, run, skip, thruway, wait_for};

/// Longest time of the machine, which is emulated.
const MACHINE: Duration = Duration::from_secs(170);
/// Packets of these classes are counted and written; others are dropped.
const CLASSES: [&str; 4] = ["(tcp dst port 80 or tcp src port 80)", "udp", "icmp", "arp"];
/// Type of the frame that is sent last (for experiments: IEEE 802, section 9.2.4).
const LAST: [u8; 2] = [0x88, 0xb5];

/// A chain that drops some packets and those of no class, and writes all others to files.
fn sorting(source: &str, dropped: &str, dir: &str) -> String {
    let outputs = (0..CLASSES.len()).map(|at| {
        format!("d[{}] -> c{at} :: Counter -> ToDump({dir}/{at}.pcap, SNAPLEN 0);\n", at + 1)
    });
    let classes = CLASSES.map(|class| match class {
        "arp" => "arp".to_owned(),
        class => format!("not ({dropped}) and {class}"),
    });
    format!(
        "{source} -> fc :: FlowClassifier\n\
         ~> d :: FlowDispatcher(12/88b5, {});\n\
         d[0] -> last :: Counter -> Discard;\n{}",
        classes.join(", "),
        outputs.collect::<String>()
    )
}

fn captures(dir: &Path) -> Vec<Vec<Vec<u8>>> {
    (0..CLASSES.len()).map(|at| read_capture(&dir.join(format!("{at}.pcap")))).collect()
}

/// What software alone makes of frames: those of each class, and how many it drops.
fn software(frames: &[Vec<u8>], dropped: &str) -> (Vec<Vec<Vec<u8>>>, u64) {
    let dir = tempfile::tempdir().expect("a directory");
    write_capture(&dir.path().join("in.pcap"), frames);
    let source = format!("FromDump({}, STOP true)", dir.path().join("in.pcap").display());
    let text = sorting(&source, dropped, &dir.path().display().to_string());
    run(thruway().args(["run", "-q", "-e", &text])).expect(0);
    let classes = captures(dir.path());
    let kept: usize = classes.iter().map(Vec::len).sum();
    (classes, (frames.len() - kept - 1) as u64)
}

/// A UDP packet from 10.`net`.0.1 to a port; `fragment` is its flags and offset.
fn udp(net: u8, port: u16, fragment: u16) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 28, 0, 1];
    frame.extend(fragment.to_be_bytes());
    frame.extend([64, 17, 0, 0, 10, net, 0, 1, 10, 0, 0, 2, 4, 0]);
    frame.extend(port.to_be_bytes());
    frame.extend([0, 8, 0, 0]);
    frame.extend([0; 18]);
    frame
}

/// Frames of every kind: packets that are dropped by one configuration or the other, their
/// fragments, the same behind tags, and real ones.
fn frames() -> Vec<Vec<u8>> {
    let mut frames: Vec<Vec<u8>> = Vec::new();
    for (net, port) in [(0, 1900), (0, 1901), (9, 53), (0, 53)] {
        for fragment in [0x4000, 0, 0x2000, 3] {
            let plain = udp(net, port, fragment);
            let tagged = [&plain[..12], &[0x81, 0, 0, 7], &plain[12..]].concat();
            frames.extend([plain.clone(), tagged, plain]);
        }
    }
    let captures = ["wan.pcap", "lan.pcap"].map(|name| root().join("examples/captures").join(name));
    frames.extend(captures.iter().flat_map(|capture| read_capture(capture).into_iter().take(60)));
    frames.extend(handmade(&root()));
    frames.retain(|frame| (60..=LEN_MAX).contains(&frame.len()));
    frames.push([&[2; 12][..], &LAST, &[0; 46]].concat());
    frames
}

/// What a chain said of its rules.
fn remarks(done: &Done) -> Vec<&str> {
    done.stderr
        .lines()
        .filter(|line| line.contains("rte_flow") || line.contains("OFFLOAD"))
        .collect()
}

#[test]
fn where_a_card_takes_no_rules_the_chain_goes_on_in_software() {
    let dir = tempfile::tempdir().expect("a directory");
    let input = dir.path().join("in.pcap");
    let frames = frames();
    write_capture(&input, &frames);
    let (expected, _) = software(&frames, "udp dst port 1900");
    let port = format!("net_pcap0,rx_pcap={}", input.display());
    let of = |offload: &str| format!("f :: FromDPDKDevice(\"{port}\", OFFLOAD {offload})");
    let ended = "; Script(label again, wait 20ms, goto again $(lt $(last.count) 1), stop)";
    let text = sorting(&of("FLOW"), "udp dst port 1900", &dir.path().display().to_string());
    let done = run(thruway().args(["run", "-q", "-e", &format!("{text}{ended}")])).expect(0);
    let lines = remarks(&done);
    assert_eq!(lines.len(), 1, "{done:#?}");
    let words = ["OFFLOAD FLOW is not possible, so all is classified here", "net_pcap"];
    assert!(words.iter().all(|word| lines[0].contains(word)), "{lines:?}");
    assert!(captures(dir.path()) == expected, "other packets");

    let rest = "FlowClassifier ~> FlowDispatcher(udp) -> Discard";
    let short = |text: &str| {
        run(thruway().args(["run", "-q", "-e"]).arg(format!("{text}; Script(wait 100ms, stop)")))
    };
    for (text, why) in [
        (format!("{} -> Counter -> {rest}", of("FLOW")), "straight to a FlowClassifier of frames"),
        (
            format!("{} -> FlowClassifier ~> FlowDispatcher(-) -> Discard", of("FLOW")),
            "has no class of packets",
        ),
        (
            format!(
                "FromDPDKDevice(net_null0, 0, OFFLOAD FLOW) -> {rest}; \
                 FromDPDKDevice(net_null0, 1) -> Discard"
            ),
            "more than one FromDPDKDevice reads the port",
        ),
    ] {
        let done = short(&text).expect(0);
        let lines = remarks(&done);
        assert!(lines.len() == 1 && lines[0].contains(why), "{why}: {done:#?}");
    }
    assert_eq!(remarks(&short(&format!("{} -> {rest}", of("NONE"))).expect(0)), [""; 0]);
    short(&format!("{} -> {rest}", of("XDP"))).expect(1).says(&["OFFLOAD"]);
}

#[test]
fn a_plan_for_a_card_is_told_without_one() {
    let text = "Idle -> fc :: FlowClassifier \
                ~> d :: FlowDispatcher(not udp dst port 1900 and udp, tcp dst port 80); \
                d[0] -> c :: Counter -> Discard; d[1] -> c2 :: Counter -> Discard";
    let plan = |options: &[&str]| {
        run(thruway().args(["offload", "plan", "--flow", "-e", text]).args(options)).expect(0)
    };
    plan(&[]).prints(&["fc: ", "rules of rte_flow", "drop packets", "mark packets", "The chain"]);
    plan(&["--rules"]).prints(&[
        "flow create 0 priority 0 ingress pattern eth type spec 0x800 type mask 0xffff / ipv4",
        "udp dst spec 0x76c dst mask 0xffff / end actions count / drop / end",
        "mark id",
    ]);
    let json: serde_json::Value = serde_json::from_str(&plan(&["--json"]).stdout).expect("JSON");
    assert!(json["drop"].as_u64() >= Some(1) && json["mark"].as_u64() >= Some(2), "{json}");
}

/// The test's own card.
struct Card {
    dir: tempfile::TempDir,
}

impl Card {
    fn new() -> Card {
        let dir = tempfile::tempdir().expect("a directory");
        let flags = run(Command::new("pkg-config").args(["--cflags", "libdpdk"])).expect(0).stdout;
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-shared", "-fPIC"]).args(flags.split_whitespace());
        cc.arg("-o").arg(dir.path().join("card.so"));
        cc.arg(root().join("bin/thruway/tests/system/offload/card/card.c")).arg("-ldl");
        run(&mut cc).expect(0);
        Card { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// `thruway run` with this card, which refuses some things.
    fn thruway(&self, refuses: &str) -> Command {
        let mut command = thruway();
        command.env("LD_PRELOAD", self.path("card.so")).env("CARD_REFUSES", refuses);
        command.args(["run", "-q"]);
        command
    }

    /// The element that reads frames of a file by this card.
    fn source(&self, frames: &[Vec<u8>], options: &str) -> String {
        let file = self.path("in.pcap");
        write_capture(&file, frames);
        let port = format!("net_pcap0,rx_pcap={}{options}", file.display());
        format!("f :: FromDPDKDevice(\"{port}\", OFFLOAD FLOW)")
    }
}

/// The count at a reason in what a handler `drops` printed.
fn drops(text: &str, reason: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_suffix(&format!(" {reason}")));
    line.map_or(0, |count| count.trim().parse().expect("a count"))
}

/// What comes of frames by a card that refuses some things: how many it dropped, by its own count,
/// and how many it marked. The chain's packets are those of software alone.
#[track_caller]
fn passes_as_software(card: &Card, refuses: &str) -> (u64, u64, String) {
    let (frames, dropped) = (frames(), "udp dst port 1900 or src net 10.9.0.0/16");
    let (expected, unwanted) = software(&frames, dropped);
    let dir = card.dir.path().display().to_string();
    let text = sorting(&card.source(&frames, ""), dropped, &dir);
    let ended = "; Script(label again, wait 20ms, goto again $(lt $(last.count) 1), wait 1100ms,
        print >FILE $(f.count) $(fc.tagged) $(last.count), stop)";
    let ended = ended.replace("FILE", &card.path("counts").display().to_string());
    let ended = format!("{ended}; DriverManager(wait_stop, print f.drops, print fc.drops)");
    let done = run(card.thruway(refuses).args(["-e", &format!("{text}{ended}")])).expect(0);
    assert!(captures(card.dir.path()) == expected, "'{refuses}' gives other packets: {done:#?}");
    let counts = std::fs::read_to_string(card.path("counts")).expect("a file");
    let counts: Vec<u64> =
        counts.split_whitespace().map(|count| count.parse().expect("a count")).collect();
    let in_front = frames.len() as u64 - counts[0];
    let behind = drops(&done.stdout, "unwanted");
    assert_eq!(in_front + behind, unwanted, "'{refuses}': {done:#?}");
    let counted = drops(&done.stdout, "unwanted-offloaded");
    if refuses.contains("count") {
        assert_eq!(counted, 0);
    } else {
        assert_eq!(counted, in_front, "'{refuses}': {done:#?}");
    }
    let lines = remarks(&done);
    assert_eq!(lines.len(), 1, "'{refuses}': {done:#?}");
    (in_front, counts[1], lines[0].to_owned())
}

#[test]
fn a_card_drops_counts_and_marks_as_far_as_it_can() {
    let card = Card::new();
    let (all, marked, line) = passes_as_software(&card, "");
    assert!(all > 30 && marked > 40, "{all} dropped, {marked} marked: {line}");
    assert!(line.contains("(counted)") && line.contains("note classes"), "{line}");
    let (dropped, none, line) = passes_as_software(&card, "mark");
    assert_eq!((dropped, none), (all, 0), "{line}");
    assert!(line.contains("the card marks no packets"), "{line}");
    let (dropped, same, line) = passes_as_software(&card, "count");
    assert_eq!((dropped, same), (all, marked), "{line}");
    assert!(line.contains("not counted: the card cannot"), "{line}");
    for refuses in ["guards", "tcp", "late", "mark,guards,tcp"] {
        let (dropped, some, line) = passes_as_software(&card, refuses);
        assert!(dropped <= all && some <= marked && dropped + some < all + marked, "{line}");
        assert!(line.contains("the card refuses the rule"), "{line}");
        assert!(line.contains("this card of a test refuses it"), "{line}");
    }
}

/// A chain in which UDP packets to either port have an output of their own, which sees to it that
/// it gets no others; those to a third port are dropped.
fn numbered(source: &str, ports: [u8; 3]) -> String {
    let checked = ports[..2].iter().enumerate().map(|(at, port)| {
        format!(
            "d[{at}] -> p{port} :: Classifier(36/000{port}, -) -> c{port} :: Counter -> Discard; \
             p{port}[1] -> wrong;\n"
        )
    });
    format!(
        "{source} -> fc :: FlowClassifier ~> d :: FlowDispatcher(udp dst port {}, udp dst port {}); \
         wrong :: Counter -> Discard;\n{}",
        ports[0],
        ports[1],
        checked.collect::<String>()
    )
}

#[test]
fn rules_and_marks_go_before_another_configuration_comes() {
    follow_the_configuration(1);
}

#[test]
fn several_threads_read_the_marks_of_their_queues() {
    follow_the_configuration(2);
}

/// Configurations that number classes in other ways, one after the other, while packets come in the
/// queues of so many threads.
fn follow_the_configuration(threads: usize) {
    let card = Card::new();
    let frames: Vec<Vec<u8>> = (0..240).map(|at| udp(0, 1 + at % 3, 0x4000)).collect();
    let more = format!(",rx_pcap={}", card.path("in.pcap").display());
    let source = card.source(&frames, &format!("{},infinite_rx=1", more.repeat(threads - 1)));
    let file = card.path("chain.click");
    write(&file, numbered(&source, [1, 2, 3])).expect("a file");
    let mut command = card.thruway("");
    command.args(["-j", &threads.to_string(), "--control"]).arg(card.path("s")).arg(&file);
    let mut running = Running::start(&mut command);
    let ctl = |words: &[&str]| run(thruway().arg("ctl").arg(card.path("s")).args(words));
    let number = |handler: &str| -> u64 {
        ctl(&[handler]).expect(0).stdout.trim().parse().expect("a number")
    };
    let begins = |running: &mut Running, times: usize| {
        wait_for("the rules", || {
            assert!(!running.ended(), "{}", running.stderr());
            running.stderr().matches("rules of rte_flow").count().eq(&times).then_some(())
        });
    };
    begins(&mut running, 1);
    wait_for("the socket", || (ctl(&["version"]).code() == 0).then_some(()));
    let orders = [[2, 1, 3], [3, 1, 2], [1, 2, 3], [2, 3, 1], [1, 3, 2]];
    for (times, ports) in orders.into_iter().enumerate() {
        write(&file, numbered(&source, ports)).expect("a file");
        run(thruway().arg("reload").arg("--control").arg(card.path("s"))).expect(0);
        begins(&mut running, times + 2);
        let wanted = [ports[0], ports[1]].map(|port| format!("c{port}.count"));
        wait_for("packets", || wanted.iter().all(|name| number(name) > 5000).then_some(()));
        assert_eq!(number("wrong.count"), 0, "a class of another configuration");
        assert!(number("fc.tagged") > 5000);
        wait_for("a count", || {
            (drops(&ctl(&["f.drops"]).stdout, "unwanted-offloaded") > 1000).then_some(())
        });
        // Other threads may receive before the first one has made the rules.
        let unwanted = || drops(&ctl(&["fc.drops"]).stdout, "unwanted");
        let (before, count) = (unwanted(), number("f.count"));
        wait_for("more packets", || (number("f.count") > count + 2000).then_some(()));
        assert_eq!(unwanted(), before, "the card drops them");
    }
    // A configuration that cannot begin leaves the chain as it is, with rules made anew.
    let text = format!("{} FromDevice(nosuch0) -> Discard;", numbered(&source, [1, 2, 3]));
    write(&file, text).expect("a file");
    run(thruway().arg("reload").arg("--control").arg(card.path("s")));
    wait_for("a refusal", || ctl(&["swaps"]).expect(0).stdout.contains("refused 1").then_some(()));
    let before = number("c3.count");
    wait_for("packets", || (number("c3.count") > before + 1000).then_some(()));
    assert_eq!(number("wrong.count"), 0);
    running.interrupt().expect(0);
}

/// What the machine does: a bridge takes the frames of one program to the TAP device of another,
/// whose chain is replaced in between.
const MAIN: &str = r#"
echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6
echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6
cd /run/test
mkdir /tmp/first /tmp/next
numbers() {
    for what in f.count f.drops fc.drops last.count; do
        echo "$1 $what $(thruway ctl /tmp/s $what | tr '\n' ';')"
    done
}
until_there() { n=0; until eval "$1"; do n=$((n + 1)); [ $n -lt 60 ] || give_up "$1"; sleep 0.5; done; }
give_up() { echo "no: $1"; numbers now; sed 's/^/err /' /tmp/err /tmp/in.err; echo "the machine gave up"; poweroff -f; }
thruway run -q --control /tmp/in inject.click 2>/tmp/in.err &
cp first.click chain.click
thruway run -q --control /tmp/s chain.click 2>/tmp/err &
chain=$!
until_there '[ -d /sys/class/net/inj0 ] && [ -d /sys/class/net/dtap0 ] && [ -S /tmp/s ] && [ -S /tmp/in ]'
until_there 'grep -q OFFLOAD /tmp/err || grep -q rte_flow /tmp/err'
brctl addbr br0
echo 0 >/sys/class/net/br0/bridge/multicast_snooping
for port in inj0 dtap0; do
    brctl addif br0 $port
    echo 0 >/sys/class/net/$port/brport/learning
    ip link set $port up
done
ip link set br0 up
thruway ctl /tmp/in write a.active true
until_there '[ "$(thruway ctl /tmp/s last.count)" = 1 ]'
numbers first
cp next.click chain.click
thruway reload --control /tmp/s
until_there '[ $(grep -c rte_flow /tmp/err) -ge 2 ]'
thruway ctl /tmp/in write b.active true
until_there '[ "$(thruway ctl /tmp/s last.count)" = 2 ]'
numbers next
kill -INT $chain
wait $chain
echo "exit $?"
for file in first/0 first/1 first/2 first/3 next/0 next/1 next/2 next/3; do
    echo "file $file $(hexdump -v -e '1/1 "%02x"' /tmp/$file.pcap)"
done
sed 's/^/err /' /tmp/err /tmp/in.err
ls /sys/class/net | grep dtap0
"#;

/// What the machine printed.
struct Report(String);

impl Report {
    fn line(&self, start: &str) -> &str {
        let line = self.0.lines().find_map(|line| line.trim_end().strip_prefix(start));
        line.unwrap_or_else(|| panic!("no line '{start}' in:\n{}", self.head())).trim()
    }

    /// Without the long lines.
    fn head(&self) -> String {
        self.0.lines().map(|line| line.chars().take(300).collect::<String>() + "\n").collect()
    }

    fn number(&self, pass: &str) -> u64 {
        self.line(&format!("{pass} f.count ")).trim_end_matches(';').parse().expect("a number")
    }

    /// The frames of each class.
    fn classes(&self, pass: &str) -> Vec<Vec<Vec<u8>>> {
        let dir = tempfile::tempdir().expect("a directory");
        let of = |at| {
            let digits: Vec<u32> = self
                .line(&format!("file {pass}/{at} "))
                .chars()
                .filter_map(|digit| digit.to_digit(16))
                .collect();
            let bytes: Vec<u8> = digits.chunks(2).map(|two| (two[0] << 4 | two[1]) as u8).collect();
            let file = dir.path().join("class.pcap");
            write(&file, bytes).expect("a file");
            read_capture(&file)
        };
        (0..CLASSES.len()).map(of).collect()
    }
}

/// Runs the machine.
fn machine(run_dir: &Path) -> Option<Report> {
    need("qemu-system-x86_64", "qemu-system-x86");
    let image = tempfile::tempdir().expect("a directory");
    let mut script = Command::new(root().join("scripts/tap-image"));
    script.arg("--program").arg(env!("CARGO_BIN_EXE_thruway"));
    script.arg("--run").arg(run_dir).arg("--output").arg(image.path());
    let made = run(&mut script);
    if made.stderr.contains("scripts/guest-image gets them") {
        skip("rules of a card", "no kernel of Debian; scripts/guest-image gets one");
        return None;
    }
    made.expect(0);
    let mut qemu = Command::new("qemu-system-x86_64");
    qemu.args("-nodefaults -no-user-config -machine pc,usb=off -cpu max -m 1G".split(' '));
    qemu.args("-accel tcg,thread=multi -smp 2 -display none -no-reboot -serial stdio".split(' '));
    qemu.arg("-kernel").arg(image.path().join("kernel"));
    qemu.arg("-initrd").arg(image.path().join("initramfs"));
    let line = "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check rdinit=/init";
    let done = Running::start(qemu.args(["-append", line])).wait(MACHINE);
    assert!(done.stdout.contains("the machine is done"), "{}", done.stdout);
    Some(Report(done.stdout))
}

#[test]
fn a_tap_device_drops_what_the_chain_would_drop() {
    if !privileged("a_tap_device_drops_what_the_chain_would_drop") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let run_dir = dir.path().join("test");
    create_dir(&run_dir).expect("a directory");
    let frames = frames();
    write_capture(&run_dir.join("in.pcap"), &frames);
    let dropped = ["udp dst port 1900 or src net 10.9.0.0/16", "udp dst port 1901"];
    // (The driver would drop packets with wrong checksums, which the chain counts.)
    let source = "f :: FromDPDKDevice(\"net_tap0,iface=dtap0\", OFFLOAD FLOW, CHECKSUM false)";
    for (pass, dropped) in ["first", "next"].into_iter().zip(dropped) {
        let text = sorting(source, dropped, &format!("/tmp/{pass}"));
        let text = format!("{text} Idle -> ToDPDKDevice(net_tap0);");
        write(run_dir.join(format!("{pass}.click")), text).expect("a file");
    }
    let inject = "a :: FromDump(in.pcap, ACTIVE false) -> q :: Queue(2000) -> RatedUnqueue(400)
                  -> KernelTap(NAME inj0); b :: FromDump(in.pcap, ACTIVE false) -> q;";
    write(run_dir.join("inject.click"), inject).expect("a file");
    write(run_dir.join("main"), MAIN).expect("a file");
    let Some(report) = machine(&run_dir) else { return };
    assert_eq!(report.line("exit "), "0", "{}", report.head());
    assert!(report.head().matches("rules of rte_flow").count() == 2, "{}", report.head());
    // (Whole packets and the last fragments of 10.9.0.0/16 in three forms each, two of them without
    // a tag.)
    for (pass, dropped, least) in [("first", dropped[0], 16), ("next", dropped[1], 6)] {
        let (expected, unwanted) = software(&frames, dropped);
        let found = report.classes(pass);
        for (class, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert_eq!(found.len(), expected.len(), "{pass} {class}: {}", report.head());
            assert!(found == expected, "other bytes in {pass} {class}");
        }
        let in_front = frames.len() as u64 - report.number(pass);
        let drops = report.line(&format!("{pass} fc.drops "));
        let behind = drops.split(';').find_map(|line| line.strip_suffix(" unwanted"));
        let behind: u64 = behind.map_or(0, |count| count.parse().expect("a count"));
        assert_eq!(in_front + behind, unwanted, "{}", report.head());
        assert!(in_front >= least, "{in_front} of {unwanted} in front: {}", report.head());
    }
}

//! What cannot be done is refused by name and with the remedy; what was written stays readable.

use std::path::Path;
use std::process::Command;

use crate::frames::{read_capture, write_capture};
use crate::process::{Done, need, privileged, root, run, thruway};

/// Runs a configuration text.
fn go(text: &str) -> Done {
    run(thruway().args(["run", "-q", "-e", text]))
}

fn lan() -> String {
    root().join("examples/captures/lan.pcap").display().to_string()
}

#[test]
fn wrong_texts_say_what_was_perhaps_meant() {
    let check = |text: &str| run(thruway().args(["check", "-e", text])).expect(1);
    check("Idle -> IPFliter(allow all) -> Discard").says(&[
        "no element class 'IPFliter'; did you mean IPFilter?",
        "config:1:9",
        "^^^^^^^^",
    ]);
    check("InfiniteSource(abc, LIMT 5) -> Discard")
        .says(&["LIMIT: 'LIMT 5' is not an integer (no keyword 'LIMT'; did you mean LIMIT?)"]);
    check("Idle -> Queue(5, CAPACTY 5) -> Discard")
        .says(&["unknown keyword 'CAPACTY'; did you mean CAPACITY?"]);
    // A text by its position is no place for what looks like a keyword with its value.
    check("InfiniteSource(LIMT 4) -> Discard")
        .says(&["unknown keyword 'LIMT'; did you mean LIMIT?", "config:1:16"]);
    check("FromDump(CSV sessions.csv) -> Discard").says(&[
        "unknown keyword 'CSV'; FromDump knows FILENAME",
        "a text with blanks is written in quotes: \"CSV sessions.csv\"",
    ]);
    check("Idle -> Queue(5, FROB 5) -> Discard").says(&["unknown keyword 'FROB'; Queue knows"]);
}

#[test]
fn a_file_that_is_not_there_is_named_with_the_remedy() {
    let dir = root().join("examples");
    let go = |name: &str| run(thruway().arg("check").arg(dir.join(name))).expect(1);
    go("gatway.click").says(&["No such file or directory; did you mean", "gateway.click?"]);
    go("qqqqqq").says(&["No such file or directory; name a file with a configuration, or give"]);
    go("").says(&["Is a directory; name a file"]);
    // A name that is right needs no other.
    let name = "x".repeat(300);
    assert_eq!(go(&name).stderr.trim_end().rsplit(": ").next(), Some("File name too long"));
}

#[test]
fn a_variable_that_the_configuration_does_not_know_is_an_error() {
    let text = "define($PORT 1); FromDump(${LAN-a.pcap}) -> Strip($LEN) -> Discard";
    for command in ["run", "check", "graph"] {
        let go = |words: &[&str]| run(thruway().args([command, "-e", text, "LEN=14"]).args(words));
        go(&["LANN=b.pcap"]).expect(1).says(&["unknown variable 'LANN'; did you mean 'LAN'?"]);
        go(&["lan=b.pcap"]).expect(1).says(&["unknown variable 'lan'; did you mean 'LAN'?"]);
        go(&["FROB=1"])
            .expect(1)
            .says(&["unknown variable 'FROB'; the configuration has LAN, LEN, PORT"]);
    }
    // What a value mentions counts, and what is only defined.
    let words = ["LEN=$FROB", "FROB=14", "PORT=2"];
    run(thruway().args(["check", "-e", text]).args(words)).expect(0);
    // Where Click is silent, too.
    let text = "define($LIMIT 1); InfiniteSource(LIMIT $LIMIT, STOP true) -> Discard";
    for tool in ["click", "flatten", "xform"] {
        let go = |word: &str| run(thruway().args([tool, "-e", text, word]));
        go("LIMT=2").expect(1).says(&["unknown variable 'LIMT'; did you mean 'LIMIT'?"]);
        go("LIMIT=2").expect(0);
    }
}

#[test]
fn a_variable_that_a_configuration_of_a_plan_does_not_know_is_an_error() {
    let dir = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| {
        std::fs::write(dir.path().join(name), text).expect("room");
    };
    write("limit.click", "define($LIMIT 1); InfiniteSource(LIMIT $LIMIT) -> Discard");
    let hardware = root().join("examples/plan/edge.toml");
    let plan = |name: &str| {
        let text = format!(
            "[[host]]\nname = \"h\"\nhardware = \"{}\"\n[[chain]]\nname = \"c\"\nrate = 1e3\n\
             packet = 64\nconfiguration = \"limit.click\"\nvariables = {{ {name} = \"2\" }}\n",
            hardware.display()
        );
        write("plan.toml", &text);
        run(thruway().arg("plan").arg(dir.path().join("plan.toml")))
    };
    plan("LIMT").expect(1).says(&["unknown variable 'LIMT'; did you mean 'LIMIT'?"]);
    // The example's hardware is not calibrated: that comes after the configuration was read.
    plan("LIMIT").expect(1).says(&["has no elementary operations"]);
}

#[test]
fn in_clicks_words_the_errors_of_an_element_stand_together() {
    let text = "i :: Idle -> Queue(1, 2, FROB 3) -> Discard(x);";
    let done = run(thruway().args(["click", "-e", text])).expect(1);
    let expected = "config:1: While configuring 'Queue@2 :: Queue':\n\
        \x20 too many arguments; expected Queue(CAPACITY)\n\
        \x20 unknown keyword 'FROB'; Queue knows CAPACITY\n\
        config:1: While configuring 'Discard@3 :: Discard':\n\
        \x20 too many arguments";
    assert!(done.stderr.starts_with(expected), "{done:#?}");
    done.says(&["Router could not be initialized!"]);
}

#[test]
fn missing_interface() {
    if !privileged("missing_interface") {
        return;
    }
    for text in ["FromDevice(nosuch0) -> Discard", "Idle -> Queue -> ToDevice(nosuch0)"] {
        // There is always a loopback.
        go(text).expect(1).says(&["no interface 'nosuch0'", "there are: ", "lo", "config:1:"]);
    }
}

#[test]
fn no_permission() {
    if !privileged("no_permission") {
        return;
    }
    need("setpriv", "util-linux");
    // Nobody may not be allowed to read where the program was built.
    let dir = tempfile::tempdir().expect("a directory");
    let program = dir.path().join("thruway");
    // By a process of its own: one that another test starts meanwhile would have the file open.
    run(Command::new("cp").arg(env!("CARGO_BIN_EXE_thruway")).arg(&program)).expect(0);
    readable_by_all(dir.path());
    for text in ["FromDevice(lo) -> Discard", "Idle -> Queue -> ToDevice(lo)"] {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all"]);
        let done = run(command.arg(&program).args(["run", "-q", "-e", text]));
        done.expect(1).says(&["no permission", "'lo'", "CAP_NET_RAW", "run as root"]);
    }
}

fn readable_by_all(dir: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(dir, mode).expect("it is ours");
}

#[test]
fn captures_that_are_none() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).expect("room for a file");
        path.display().to_string()
    };
    let text = file("notes", b"dear diary");
    let empty = file("empty", b"");
    for element in ["FromDump", "FromDevice"] {
        let port = |name: &str| match element {
            "FromDevice" => format!("FromDevice(\"pcap:{name}\") -> Discard"),
            _ => format!("FromDump(\"{name}\", STOP true) -> Discard"),
        };
        go(&port(&text)).expect(1).says(&[&text, "is not a capture", "pcap and pcapng"]);
        go(&port(&empty)).expect(1).says(&[&empty, "is not a capture"]);
        let missing = dir.path().join("missing").display().to_string();
        go(&port(&missing)).expect(1).says(&[&missing, "No such file"]);
    }
}

#[test]
fn link_types_that_are_unknown_or_not_ethernet() {
    let dir = tempfile::tempdir().expect("a directory");
    // 147 is for private use, 127 is radiotap.
    for (link, name) in [(147_u8, "147"), (127, "RADIOTAP")] {
        let path = dir.path().join(format!("link-{link}.pcap"));
        write_capture(&path, &[vec![0; 64]]);
        let mut bytes = std::fs::read(&path).expect("just written");
        bytes[20] = link;
        std::fs::write(&path, bytes).expect("room for a capture");
        let file = path.display().to_string();
        let as_port = format!("FromDevice(\"pcap:{file}\") -> Discard");
        go(&as_port).expect(1).says(&[&file, name, "ETHERNET (1)"]);
        let as_ip = format!("FromDump(\"{file}\", FORCE_IP true, STOP true) -> Discard");
        go(&as_ip).expect(1).says(&[&file, name, "can be used here"]);
    }
}

#[test]
fn a_cut_off_capture_is_read_up_to_there() {
    let dir = tempfile::tempdir().expect("a directory");
    let (cut, out) = (dir.path().join("cut.pcap"), dir.path().join("out.pcap"));
    let whole = std::fs::read(lan()).expect("a bundled capture");
    std::fs::write(&cut, &whole[..100_000]).expect("room for a capture");
    let (cut, out_file) = (cut.display().to_string(), out.display());
    let text = format!("FromDump(\"{cut}\", STOP true) -> ToDump(\"{out_file}\")");
    let done = go(&text).expect(1).says(&[&cut, "is truncated", "record ", "byte "]);
    let frames = read_capture(&out);
    let said = format!("{} complete records before it", frames.len());
    assert!(frames.len() > 100 && done.stderr.contains(&said), "{done:#?}");
    assert!(read_capture(Path::new(&lan())).starts_with(&frames), "and they are the first ones");
}

#[test]
fn outputs_that_cannot_be_written() {
    let input = lan();
    for out in ["ToDump(/dev/full)", "Queue -> ToDevice(pcap:/dev/full)"] {
        let done = go(&format!("FromDump(\"{input}\", STOP true) -> {out}"));
        done.expect(1).says(&["/dev/full", "No space left on device", "records"]);
    }
    let done = go(&format!("FromDump(\"{input}\", STOP true) -> ToDump(/nodir/out.pcap)"));
    done.expect(1).says(&["cannot create '/nodir/out.pcap'"]);
}

#[test]
fn a_full_disk_leaves_a_readable_capture() {
    if !privileged("a_full_disk_leaves_a_readable_capture") {
        return;
    }
    need("unshare", "util-linux");
    need("tcpdump", "tcpdump");
    // A small file system that only this script sees, and that goes with it.
    let script = "mount -t tmpfs -o size=500k,mode=755 tmpfs \"$1\" && cd \"$1\" || exit 9
        \"$2\" run -e \"FromDump(\\\"$3\\\", STOP true) -> out :: ToDump(full.pcap)\"
        echo \"exit $?\"
        tcpdump -n -r full.pcap 2>tcpdump.err | wc -l
        grep -i trunc tcpdump.err";
    let dir = tempfile::tempdir().expect("a directory");
    readable_by_all(dir.path());
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, "sh"]).arg(dir.path());
    let done = run(command.args([env!("CARGO_BIN_EXE_thruway"), &lan()]));
    let done = done.says(&["full.pcap", "No space left on device", "whole records"]);
    let lines: Vec<&str> = done.stdout.lines().collect();
    assert!(lines.contains(&"exit 1"), "{done:#?}");
    // The remaining packets are counted under their reason, and the file ends with a whole record.
    assert!(done.stdout.contains("not-written"), "{done:#?}");
    let read = lines.last().and_then(|line| line.trim().parse::<u64>().ok());
    let said = done.stderr.split_once(" whole records").expect("it says so").0;
    let said = said.rsplit(['(', ' ']).next().and_then(|word| word.parse::<u64>().ok());
    assert!(read == said && read > Some(500), "{done:#?}");
}

//! Functions in Python, in their sandbox, with the wheel that `scripts/python-wheel` installs.

use std::path::PathBuf;
use std::process::Command;

use thruway_nf::trial::{Arrival, Setup};
use thruway_wire::checksum::checksum;

use super::{Captures, go};
use crate::control::Client;
use crate::process::{Done, Running, root, run, thruway, wait_for};

const TESTS: &str = "bin/thruway/tests/system/functions";
const EXAMPLES: &str = "examples/functions/python";

/// Arguments of an `Nf` that runs a program in Python.
fn python(directory: &str, program: &str) -> String {
    let root = root().canonicalize().expect("the checkout");
    let environment = root.join("target/python/env");
    assert!(environment.join("bin/python").exists(), "run scripts/python-wheel first");
    let directory = root.join(directory);
    let exec = format!("{}/bin/python {}/{program}", environment.display(), directory.display());
    // An interpreter of the system: its library, numpy, ours, and the program.
    let system = "/usr/lib/python3.11 /usr/lib/python3/dist-packages";
    let libraries = "/usr/lib/x86_64-linux-gnu /etc/alternatives";
    let readable =
        format!("{} {} {system} {libraries}", environment.display(), directory.display());
    format!("EXEC \"{exec}\", READABLE \"{readable}\", ATTACH_TIMEOUT 20s")
}

fn examples_capture() -> PathBuf {
    root().join("examples/captures/lan.pcap")
}

fn through(nf: &str, captures: &Captures) -> Done {
    let text = format!(
        "FromDump({}, STOP true) -> nf :: Nf({nf}) -> ToDump({})",
        captures.path("in"),
        captures.path("out")
    );
    go(&text, &[])
}

/// A configuration that runs until it is ended, with its control socket.
fn begin(text: &str) -> (Running, Client, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("control");
    let text = format!("ControlSocket(UNIX, {}); {text}", socket.display());
    let router = Running::start(thruway().args(["run", "-q", "-e", &text]));
    let client = Client::unix(&socket);
    (router, client, dir)
}

#[test]
fn the_shortest_function_drops_and_counts() {
    let frame = |kind: [u8; 2], len| [&[2; 12], &kind[..], &vec![7; len]].concat();
    let frames: Vec<Vec<u8>> =
        (0..600).map(|nth| frame(if nth % 3 == 0 { [8, 6] } else { [8, 0] }, 40 + nth)).collect();
    let captures = Captures::new(&frames);
    let done = through(&python(EXAMPLES, "only_ipv4.py"), &captures);
    let done = done.expect(0);
    let passed: Vec<_> = frames.into_iter().filter(|frame| frame[13] == 0).collect();
    assert!(captures.written("out") == passed);
    done.prints(&["function-dropped", "200"]);
}

#[test]
fn a_batch_is_an_array_of_numpy() {
    let before = crate::frames::read_capture(&examples_capture());
    let captures = Captures::new(&before);
    let nf = python(EXAMPLES, "set_ttl.py");
    through(&nf, &captures).expect(0);
    let after = captures.written("out");
    assert_eq!(before.len(), after.len());
    let mut changed = 0;
    for (before, after) in before.iter().zip(&after) {
        let mut expected = before.clone();
        if before.len() >= 34 && before[12..14] == [8, 0] && before[22] != 64 {
            changed += 1;
            expected[22] = 64;
            expected[24..26].fill(0);
            let header = 14 + 4 * usize::from(before[14] & 15);
            let sum = checksum(&expected[14..header]);
            expected[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        assert_eq!(&expected, after);
    }
    assert!(changed > 100, "{changed} packets had another TTL");
}

#[test]
fn all_that_a_function_can_do() {
    let first = |byte: u8| vec![byte; 20];
    let captures = Captures::new(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 0].map(first));
    let nf = python(TESTS, "everything.py") + ", ROLES \"- other\"";
    let input = captures.path("in");
    let (out, other) = (captures.path("out"), captures.path("other"));
    let text = format!(
        "FromDump({input}, STOP false) -> nf :: Nf({nf}) -> ToDump({out}); nf[1] -> ToDump({other})"
    );
    let (router, mut client, _dir) = begin(&text);
    let client = &mut client;
    wait_for("three ticks", || client.read("nf.counters").contains("ticks 3").then_some(()));
    wait_for("all packets", || (client.read("nf.packets_in").trim() == "10").then_some(()));
    assert_eq!(
        client.read("nf.handler name of"),
        "name of 1 2 False {'other': 1}",
        "{}",
        client.read("nf.last_error")
    );
    let refused = client.ask("WRITE nf.handler size 7").1;
    assert!(refused.contains("ValueError: size is not 7"), "{refused}");
    let counters = client.read("nf.counters");
    assert!(counters.contains("does-not-fit 1") && counters.contains("level 20"), "{counters}");
    router.interrupt();
    let went = captures.written("out");
    let pulled = vec![4; 16];
    let pushed = [&b"front"[..], &first(3)].concat();
    let longer = [&first(5)[..], b"end"].concat();
    let instead = b"instead".to_vec();
    assert_eq!(went, [pushed, pulled, longer, first(6), instead, first(9), first(0)]);
    let mut others = captures.written("other");
    others.sort();
    let child = [&b"child of "[..], &first(6)].concat();
    assert_eq!(others, [first(2), child, b"three ticks".to_vec()]);
}

#[test]
fn it_may_send_last_packets() {
    let root = root().canonicalize().expect("the checkout");
    let mut program = Command::new(root.join("target/python/env/bin/python"));
    program.arg(root.join(TESTS).join("everything.py"));
    let setup = Setup { outputs: 2, ..Setup::DEFAULT };
    let mut trial = setup.program(&program).expect("a function");
    let given = trial.exchange(&[&[0; 60], &[1; 60]]).expect("both back");
    assert_eq!((given[0].bytes.as_slice(), given[1].arrival), (&[0; 60][..], Arrival::Dropped));
    let last = trial.finish().expect("its end");
    assert_eq!(last.last().map(|given| given.bytes.as_slice()), Some(&b"last words"[..]));
}

#[test]
fn an_exception_is_a_crash_and_scratch_survives_it() {
    // Four packets of one session: the third has the function raise an exception.
    let packet = |first: u8| {
        let mut frame = crate::frames::handmade(&root())
            .into_iter()
            .find(|frame| frame.len() > 42 && frame[12..14] == [8, 0] && frame[23] == 17)
            .expect("a packet of UDP");
        frame[0] = first;
        frame
    };
    let captures = Captures::new(&[0, 0, 10, 0, 0].map(packet));
    let nf = python(TESTS, "everything.py");
    let text = format!(
        "FromDump({}, STOP false) -> Queue -> RatedUnqueue(20) -> FlowClassifier
         -> nf :: Nf({nf}, SESSION connection, ON_FAILURE restart) -> c :: Counter
         -> ToDump({}); nf[1] -> Discard",
        captures.path("in"),
        captures.path("out")
    );
    let (router, mut client, _dir) = begin(&text);
    let client = &mut client;
    wait_for("the crash", || (client.read("nf.restarts").trim() == "1").then_some(()));
    let why = client.read("nf.last_error");
    assert!(why.contains("RuntimeError: a packet that it does not like"), "{why}");
    wait_for("what follows", || (client.number("c.count") == 4).then_some(()));
    assert!(client.read("nf.counters").contains("restarted 1"));
    router.interrupt();
    let counts: Vec<u8> =
        captures.written("out").iter().map(|frame| frame[frame.len() - 1]).collect();
    assert_eq!(counts, [1, 2, 3, 4], "the third's own count was not kept");
}

#[test]
fn what_is_wrong_at_the_start_is_said() {
    let folder = tempfile::tempdir().expect("a directory");
    let at = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).expect("room for a file");
        python(folder.path().to_str().expect("plain text"), name)
    };
    let run_nf = |nf: &str| {
        let text = format!("InfiniteSource(LIMIT 1, STOP true) -> Nf({nf}) -> Discard");
        run(thruway().args(["run", "-e", &text])).expect(1).stderr
    };
    let syntax = run_nf(&at("syntax.py", "def f(:\n"));
    assert!(syntax.contains("SyntaxError"), "{syntax}");
    let nothing = run_nf(&at("nothing.py", "import thruway_nf\nthruway_nf.run(7)\n"));
    assert!(nothing.contains("a callable, or an object with a method batch"), "{nothing}");
    let setting = "import thruway_nf\nthruway_nf.run(print, outptus=2)\n";
    let setting = run_nf(&at("setting.py", setting));
    assert!(setting.contains("no setting 'outptus'"), "{setting}");
    let start = "import thruway_nf
class F:
    def batch(self, batch): pass
    def start(self, start): raise ValueError('no licence')
thruway_nf.run(F())
";
    let start = run_nf(&at("start.py", start));
    assert!(start.contains("no licence"), "{start}");
    let absent = run_nf(&python(folder.path().to_str().expect("plain text"), "absent.py"));
    assert!(absent.contains("absent.py"), "{absent}");
}

//! `thruway top` beside a running configuration.

use crate::functions::parts::exec;
use crate::process::{Done, Running, run, thruway, wait_for};

/// A running configuration with a control socket.
struct Chain {
    running: Running,
    dir: tempfile::TempDir,
}

impl Chain {
    fn start(text: impl Fn(&str) -> String, options: &[&str]) -> Chain {
        let dir = tempfile::tempdir().expect("a directory");
        let text = text(dir.path().to_str().expect("plain text"));
        let text = format!("{text}; ControlSocket(UNIX, {})", dir.path().join("sock").display());
        let mut command = thruway();
        let running = Running::start(command.args(["run", "--quiet", "-e", &text]).args(options));
        let chain = Chain { running, dir };
        wait_for("the control socket", || {
            let there = std::os::unix::net::UnixStream::connect(chain.socket()).is_ok();
            assert!(there || chain.running.stderr().is_empty(), "{}", chain.running.stderr());
            there.then_some(())
        });
        chain
    }

    fn socket(&self) -> String {
        self.dir.path().join("sock").to_str().expect("plain text").to_owned()
    }

    fn top(&self, options: &[&str]) -> Done {
        let mut command = thruway();
        run(command.args(["top", &self.socket(), "--interval", "1"]).args(options)).expect(0)
    }
}

/// The words of the row that begins with `name`.
#[track_caller]
fn row<'a>(view: &'a Done, name: &str) -> Vec<&'a str> {
    let mut rows = view.stdout.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let found = rows.find(|words| words.first() == Some(&name));
    found.unwrap_or_else(|| panic!("no row '{name}' in {view:#?}"))
}

#[track_caller]
fn number(word: &str) -> f64 {
    word.replace(',', "").parse().unwrap_or_else(|_| panic!("'{word}' is no number"))
}

#[test]
fn a_view_shows_what_goes_on() {
    let chain = Chain::start(
        |dir| {
            format!(
                "source :: RatedSource(LENGTH 60, RATE 500) -> front :: FlowClassifier
                    -> nf :: Nf({}) -> copies :: Tee -> out :: ToDevice(pcap:>{dir}/out.pcap);
                 copies[1] -> wrong :: CheckIPHeader -> Discard",
                exec("passes")
            )
        },
        &[],
    );
    wait_for("the function", || chain.top(&["--once"]).stdout.contains("running").then_some(()));
    let view = chain.top(&["--once"]);
    let near = |word: &str, expected: f64| {
        let found = number(word);
        assert!((found - expected).abs() < 0.3 * expected, "{word} is not {expected}: {view:#?}");
    };
    // RatedSource's default data is no IP packet.
    let wrong = row(&view, "wrong");
    assert_eq!(wrong[1], "CheckIPHeader");
    near(wrong[4], 500.0);
    near(wrong[7], 500.0);
    let nf: Vec<Vec<&str>> = view
        .stdout
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|words| words.first() == Some(&"nf"))
        .collect();
    let function = nf.iter().find(|words| words[1] == "running").expect("the function's row");
    near(function[4], 500.0);
    near(function[5], 500.0);
    let out = row(&view, "out");
    assert!(out[1].ends_with("/out.pcap)") && out[2] == "out", "{out:?}");
    near(out[3], 500.0);
    near(out[4], 500.0 * 60.0 * 8e-6);
    // All packets are of one session, if of any.
    let sessions = view.stdout.split("\nSessions\n").nth(1).expect("a table of sessions");
    assert!(sessions.lines().nth(1).is_some_and(|row| row.trim().starts_with(['0', '1'])));
    let thread = row(&view, "0");
    near(thread[3], 500.0);
    assert!(number(thread[1]) < 60.0, "500 packets a second keep nobody busy: {view:#?}");
    chain.running.interrupt().expect(0);
}

#[test]
fn threads_are_busy_when_they_have_work() {
    let text = |_: &str| {
        "InfiniteSource(LENGTH 60) -> Discard; RatedSource(RATE 10) -> b :: Queue -> Discard; \
         StaticThreadSched(b 1)"
            .to_owned()
    };
    let chain = Chain::start(text, &["-j", "2"]);
    // Without --once, too: standard output is no terminal.
    let view = chain.top(&[]);
    assert!(number(row(&view, "0")[1]) > 90.0, "{view:#?}");
    assert!(number(row(&view, "1")[1]) < 60.0, "{view:#?}");
    chain.running.interrupt().expect(0);
}

#[test]
fn what_cannot_be_watched_is_told() {
    let say = |args: &[&str]| run(thruway().arg("top").args(args)).expect(1);
    say(&["/nonexistent/sock"]).says(&["cannot reach a ControlSocket at '/nonexistent/sock'"]);
    say(&["/nonexistent/sock", "--interval", "0"]).says(&["--interval 0: give 0.05 to 3600"]);
}

#[test]
fn a_long_stay_away_from_the_round_is_shown_with_its_cause() {
    // An instruction is short; a script that does not wait is not.
    let text = |_: &str| {
        "RatedSource(RATE 1000) -> Discard;
         burns :: Script(TYPE ACTIVE, set x 0, label l, set x $(add $x 1), goto l $(lt $x 100000))"
            .to_owned()
    };
    let chain = Chain::start(text, &[]);
    wait_for("the script", || {
        let view = chain.top(&["--once"]);
        let gaps = view.stdout.split("\nGaps\n").nth(1)?;
        let row: Vec<&str> = gaps.lines().nth(1)?.split_whitespace().collect();
        let [thread, when, own, _, whole, _, cause @ ..] = &row[..] else { return None };
        assert_eq!((*thread, *when, &cause[..2]), ("0", "worst", &["timer", "burns"][..]));
        assert!(number(own) >= 5.0 && number(whole) >= number(own), "{view:#?}");
        Some(())
    });
    chain.running.interrupt().expect(0);
}

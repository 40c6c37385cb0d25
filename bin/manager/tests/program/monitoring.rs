//! The alert rules and the dashboard: promtool takes them, and a manager has their metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{DEADLINE, DataPlane, Manager, fresh, pid_of, thruway, until};

const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/monitoring");
const RULES: &str = "thruway-rules.yml";
const TESTS: &str = "thruway-rules.test.yml";

/// Sessions, a queue that overflows, a reason of drops, and a function.
const CHAIN: &str = "
chains:
  web:
    configuration: |
      RatedSource(RATE 1000) -> CheckIPHeader(VERBOSE false) -> Discard;
      RatedSource(RATE 1000) -> p :: Paint(1) -> FlowClassifier(SESSIONS_MAX 1000)
        ~> FlowDispatcher(-, SESSION connection) -> q :: Queue(10);
      q -> RatedUnqueue(RATE 10) -> Discard;
      Isolate(p, ISOLATION relaxed, HANG 1min)
  idle: {configuration: Idle -> Discard;, stopped: true}
";

fn file(name: &str) -> String {
    fs::read_to_string(Path::new(FILES).join(name)).expect("a file")
}

fn promtool(dir: &Path, args: &[&str], input: &str) -> Output {
    let mut command = Command::new("promtool");
    command.args(args).current_dir(dir).stdin(Stdio::piped());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child =
        child.expect("promtool is there: install the package prometheus (./check does)");
    let mut writer = child.stdin.take().expect("a pipe");
    // It may end before it has read all.
    let _ = writer.write_all(input.as_bytes());
    drop(writer);
    child.wait_with_output().expect("ended")
}

#[track_caller]
fn passes(args: &[&str], input: &str) {
    let output = promtool(Path::new(FILES), args, input);
    let printed = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "promtool {args:?}: {printed}");
}

#[test]
fn promtool_takes_the_rules_and_their_tests() {
    passes(&["check", "rules", RULES], "");
    passes(&["test", "rules", TESTS], "");
    passes(&["check", "config", "--syntax-only", "prometheus.yml"], "");
}

/// The text of each rule, from its name to the next one's.
fn rules(text: &str) -> BTreeMap<String, String> {
    let of = |rule: &str| (rule.lines().next().expect("a name").to_owned(), rule.to_owned());
    text.split("      - alert: ").skip(1).map(of).collect()
}

/// A rule whose expression is another one.
fn with_expression(rule: &str, expression: &str) -> String {
    let (before, after) = rule.split_once("        expr: ").expect("an expression");
    let end =
        ["\n        for: ", "\n        labels: "].into_iter().filter_map(|key| after.find(key));
    let end = end.min().expect("more keys");
    format!("{before}        expr: {expression}{}", &after[end..])
}

/// The tests of the rules see each alert that does not fire when it should, and each that always
/// does.
#[test]
fn a_rule_that_is_broken_fails_its_test() {
    let text = file(RULES);
    let rules = rules(&text);
    assert!(rules.len() >= 15, "{}", rules.len());
    let dir = fresh();
    let tests = file(TESTS);
    let (head, _) = tests.split_once("  - interval: ").expect("a test");
    for (name, rule) in &rules {
        // Its own tests alone: all of them take a second or more.
        let own = ["fires", "does not fire"].map(|kind| {
            let name = format!("    name: {name} {kind}\n");
            let mut tests = tests.split("  - interval: ").skip(1);
            let test =
                tests.find(|test| test.contains(&name)).unwrap_or_else(|| panic!("no {name}"));
            format!("  - interval: {test}")
        });
        fs::write(dir.path().join(TESTS), head.to_owned() + &own.concat()).expect("written");
        for (expression, kind) in [("vector(1) > 1", "does not fire"), ("vector(1)", "fires")] {
            let broken = text.replace(rule.as_str(), &with_expression(rule, expression));
            assert_ne!(broken, text, "{name}");
            fs::write(dir.path().join(RULES), broken).expect("written");
            let output = promtool(dir.path(), &["test", "rules", TESTS], "");
            assert!(!output.status.success(), "{name} always {kind}, and no test fails");
        }
    }
}

/// What a manager answers to who asks for its metrics.
fn scrape(manager: &Manager) -> String {
    let socket = manager.dir.join("run/manager/api.sock");
    let output = Command::new("curl")
        .args(["--silent", "--fail", "--unix-socket"])
        .arg(socket)
        .arg("localhost/metrics")
        .output()
        .expect("curl is there: install it (./check does)");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// Names by which a query finds the families of a scrape.
fn families(scrape: &str) -> BTreeSet<String> {
    let types = scrape.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let of = |(name, kind): (&str, &str)| match kind {
        "counter" => format!("{name}_total"),
        _ => name.to_owned(),
    };
    types.map(of).collect()
}

/// Names of the families that have a sample.
fn sampled(scrape: &str) -> BTreeSet<String> {
    let lines = scrape.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| Some(line.split(['{', ' ']).next()?.to_owned())).collect()
}

/// Metrics that a text names.
fn named(text: &str) -> BTreeSet<String> {
    let is_part = |byte: char| byte.is_ascii_alphanumeric() || byte == '_';
    let words = text.split(|byte| !is_part(byte));
    words.filter(|word| word.starts_with("thruway_")).map(str::to_owned).collect()
}

/// The value of a sample, by the beginning of its line.
fn value(scrape: &str, series: &str) -> Option<f64> {
    let line = scrape.lines().find(|line| line.starts_with(series))?;
    line.rsplit_once(' ')?.1.parse().ok()
}

/// As Prometheus' older text format has it, the only one that promtool checks: a counter's name
/// ends in `_total` in its description, too. Families without samples are not described.
fn older_format(scrape: &str) -> String {
    let sampled = sampled(scrape);
    let counters: Vec<&str> = scrape
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
        .collect();
    let mut text = String::new();
    for line in scrape.lines().filter(|line| *line != "# EOF") {
        let mut words: Vec<String> = line.splitn(4, ' ').map(str::to_owned).collect();
        if line.starts_with('#') {
            if counters.contains(&&*words[2]) {
                words[2] += "_total";
            }
            if !sampled.contains(&words[2]) {
                continue;
            }
        }
        text += &(words.join(" ") + "\n");
    }
    text
}

#[test]
fn a_scrape_has_every_metric_that_rules_and_dashboard_name() {
    let Some(thruway) = thruway() else { return };
    let dir = fresh();
    let manager = Manager::start_with(dir.path(), &thruway);
    fs::write(dir.path().join("web.yaml"), CHAIN).expect("written");
    manager.run(&["apply", "web.yaml"]);
    until(&manager, &["get"], "  yes  ");
    let plane = DataPlane(pid_of(&manager.run(&["get", "web", "-o", "json"])));
    let dropped = r#"thruway_chain_drops_total{chain="web",class="Queue","#;
    let text = wait_for_metric(&manager, dropped, |count| count > 0.0);
    assert_eq!(value(&text, r#"thruway_chain_answers{chain="web"}"#), Some(1.0), "{text}");
    assert_eq!(value(&text, r#"thruway_chain_answers{chain="idle"}"#), None, "{text}");
    let stopped = |chain: &str| format!("thruway_manager_chain_stopped{{chain=\"{chain}\"}}");
    assert_eq!(value(&text, &stopped("idle")), Some(1.0));
    assert_eq!(value(&text, &stopped("web")), Some(0.0));
    assert_eq!(value(&text, r#"thruway_chain_sessions_capacity{chain="web"}"#), Some(1000.0));
    let running = r#"thruway_chain_function_running{chain="web","#;
    wait_for_metric(&manager, running, |state| state == 1.0);

    passes(&["check", "metrics"], &older_format(&text));
    let families = families(&text);
    assert_eq!(families.difference(&sampled(&text)).collect::<Vec<_>>(), Vec::<&String>::new());
    for name in [RULES, TESTS, "thruway-dashboard.json"] {
        let named = named(&file(name));
        assert!(named.len() > 15, "{name}: {named:?}");
        let missing: Vec<_> = named.difference(&families).collect();
        assert!(missing.is_empty(), "{name} names {missing:?}, which no scrape has");
    }
    // Each metric is on the dashboard.
    let dashboard = named(&file("thruway-dashboard.json"));
    let absent: Vec<_> = families.difference(&dashboard).collect();
    assert!(absent.is_empty(), "the dashboard has no {absent:?}");

    // One that is stopped, by a debugger say, answers nothing, and holds up the scrape a while.
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(plane.0).expect("a process"),
        rustix::process::Signal::STOP,
    )
    .expect("sent");
    let begun = Instant::now();
    let mute = r#"thruway_chain_answers{chain="web"}"#;
    wait_for_metric(&manager, mute, |answers| answers == 0.0);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

/// Queues of [`many_queues`]: with what is around them, four times as many elements.
const QUEUES: usize = 250;

/// A chain of a thousand elements that rest.
fn many_queues() -> String {
    let mut text = String::from("chains:\n  many:\n    configuration: |\n");
    for number in 0..QUEUES {
        text += &format!("      Idle -> q{number} :: Queue(10) -> Unqueue -> Discard;\n");
    }
    text
}

/// How often a data plane's threads were woken by others.
fn wake_ups(manager: &Manager, thruway: &Path) -> u64 {
    let socket = manager.dir.join("state/chains/many/control.sock");
    let mut command = Command::new(thruway);
    let output = command.arg("ctl").arg(socket).args(["read", "statistics"]).output();
    let printed = String::from_utf8(output.expect("run").stdout).expect("text");
    let of = |line: &str| line.strip_prefix("sleep\t")?.split('\t').nth(2)?.parse::<u64>().ok();
    let counts: Vec<u64> = printed.lines().filter_map(of).collect();
    assert!(!counts.is_empty(), "{printed}");
    counts.iter().sum()
}

/// Most time that a scrape of a thousand elements may take here: a build without optimisation, on
/// a host that does other things, takes many times the 20 ms of one that is optimised.
const SCRAPE_MAX: Duration = Duration::from_millis(500);

#[test]
fn a_scrape_of_a_thousand_elements_is_short_and_wakes_no_packet_thread() {
    let Some(thruway) = thruway() else { return };
    let dir = fresh();
    let manager = Manager::start_with(dir.path(), &thruway);
    fs::write(dir.path().join("many.yaml"), many_queues()).expect("written");
    manager.run(&["apply", "many.yaml"]);
    until(&manager, &["get"], "  yes  ");
    let _plane = DataPlane(pid_of(&manager.run(&["get", "many", "-o", "json"])));
    wait_for_metric(&manager, r#"thruway_chain_answers{chain="many"}"#, |answers| answers == 1.0);
    let before = wake_ups(&manager, &thruway);
    let mut shortest = Duration::MAX;
    for _ in 0..3 {
        // Older than what the manager gives again.
        std::thread::sleep(Duration::from_secs(1));
        let begun = Instant::now();
        let text = scrape(&manager);
        shortest = shortest.min(begun.elapsed());
        let queues = text.lines().filter(|line| line.starts_with("thruway_chain_queue_packets{"));
        assert_eq!(queues.count(), QUEUES, "{text}");
        let capacity = r#"thruway_chain_queue_capacity{chain="many",element="q0"}"#;
        assert_eq!(value(&text, capacity), Some(10.0));
    }
    println!("the shortest of three scrapes took {shortest:?}");
    assert!(shortest < SCRAPE_MAX, "{shortest:?}");
    assert_eq!(wake_ups(&manager, &thruway), before, "no thread was asked");
    manager.run(&["delete", "many"]);
}

/// Scrapes until a sample is as it should be.
fn wait_for_metric(manager: &Manager, series: &str, is_right: impl Fn(f64) -> bool) -> String {
    let begun = Instant::now();
    loop {
        let text = scrape(manager);
        if value(&text, series).is_some_and(&is_right) {
            return text;
        }
        assert!(begun.elapsed() < DEADLINE, "{series}: {text}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A panel's own queries.
fn queries(panel: &Value) -> Vec<&Value> {
    panel["targets"].as_array().map(|targets| targets.iter().collect()).unwrap_or_default()
}

#[test]
fn the_dashboard_is_whole() {
    let dashboard: Value = serde_json::from_str(&file("thruway-dashboard.json")).expect("JSON");
    let list = |value: &Value| value.as_array().expect("a list").clone();
    let variables = list(&dashboard["templating"]["list"]);
    let names: Vec<&Value> = variables.iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["datasource", "instance", "chain"]);
    assert_eq!(variables[0]["type"], "datasource");
    let panels = list(&dashboard["panels"]);
    let ids: BTreeSet<u64> = panels.iter().map(|one| one["id"].as_u64().expect("an id")).collect();
    assert_eq!(ids.len(), panels.len(), "ids are unique");
    // Where each panel is, in the columns and lines of the grid.
    let mut taken = BTreeSet::new();
    for panel in &panels {
        let place = |key: &str| panel["gridPos"][key].as_u64().expect("a place");
        for column in place("x")..place("x") + place("w") {
            assert!(column < 24, "{panel}");
            for line in place("y")..place("y") + place("h") {
                assert!(taken.insert((column, line)), "{} is on another panel", panel["title"]);
            }
        }
        if panel["type"] == "row" {
            continue;
        }
        assert!(!panel["description"].as_str().expect("text").is_empty(), "{panel}");
        assert!(!queries(panel).is_empty(), "{panel}");
        for source in queries(panel).into_iter().chain([panel]) {
            assert_eq!(source["datasource"]["uid"], "${datasource}", "{panel}");
        }
    }
    // Prometheus understands each query.
    let of = |panel: &Value| -> Vec<String> {
        let text = |query: &Value| query["expr"].as_str().expect("text").to_owned();
        queries(panel).into_iter().map(text).collect()
    };
    let mut groups = String::from("groups:\n- name: dashboard\n  rules:\n");
    for (at, query) in panels.iter().flat_map(of).enumerate() {
        let query = query.replace("$__rate_interval", "1m");
        groups += &format!("  - {{record: 'q{at}', expr: '{query}'}}\n");
    }
    let dir = fresh();
    fs::write(dir.path().join("queries.yml"), groups).expect("written");
    let output = promtool(dir.path(), &["check", "rules", "queries.yml"], "");
    assert!(output.status.success(), "{output:?}");
}

//! Ways to get a word past functions that guard, as data (`cases/`), against functions at their
//! defaults. The judge is what the kernel's own stack of the server hands to an application, and
//! what curl makes of answers. The same cases without functions let the word through, so that each
//! is known to work.

use std::path::PathBuf;
use std::time::Duration;

use crate::network::{HostConfig, Namespace, Network};
use crate::process::{Running, need, privileged, root, wait_for};

const CLIENT: HostConfig = HostConfig { addresses: &["10.0.0.1/24", "fd00::1/64"], routers: &[] };
const SERVER: HostConfig = HostConfig { addresses: &["10.0.0.2/24", "fd00::2/64"], routers: &[] };
const SERVER_ADDRESS: &str = "10.0.0.2";

/// What must not arrive.
const WORD: &str = "forbidden";

/// Longest time of all cases of a play: they run at once, and the longest waits for seconds.
const LIMIT: Duration = Duration::from_secs(240);

/// Cases that are played alike.
struct Play {
    name: &'static str,
    files: &'static [&'static str],
    /// Around the functions.
    context: [&'static str; 2],
    /// What the rule of intrusion prevention says.
    rule: &'static str,
    /// Cases at least, so that none gets lost.
    least: usize,
}

const PACKETS: Play = Play {
    name: "packets",
    files: &["fragments", "tcp", "timing"],
    context: ["[0, 1]", "=> [0, 1]"],
    rule: "content:\"forbidden\"",
    least: 80,
};
const REQUESTS: Play = Play {
    name: "request",
    files: &["requests"],
    context: ["[0, 1]HTTPIn => [0, 1]", "=> [0, 1]HTTPOut => [0, 1]"],
    rule: PACKETS.rule,
    least: 100,
};
const RESPONSES: Play = Play { name: "response", files: &["responses"], least: 52, ..REQUESTS };
/// What rules alone look at.
const URIS: Play =
    Play { files: &["uris"], rule: "http.uri; content:\"/forbidden\"", least: 20, ..REQUESTS };

/// Functions at their defaults, by name.
const FUNCTIONS: [(&str, &str); 4] = [
    ("CLOSE", "WordMatcher(forbidden, MODE CLOSE)"),
    ("MASK", "WordMatcher(forbidden, MODE MASK)"),
    ("REPLACE", "WordMatcher(forbidden, MODE REPLACE, WITH allowed)"),
    ("rules", "IntrusionPrevention(RULES)"),
];

fn dir() -> PathBuf {
    root().join("bin/thruway/tests/system/evasion")
}

impl Play {
    fn paths(&self) -> impl Iterator<Item = PathBuf> {
        self.files.iter().map(|file| dir().join("cases").join(file).with_extension("txt"))
    }

    /// What stands in the middle; without functions, a cable.
    fn configuration(&self, functions: Option<&str>) -> String {
        let ports = "lan :: FromDevice(lan0, PROMISC true); wan :: FromDevice(wan0, PROMISC true);
            to_lan :: ToDevice(lan0); to_wan :: ToDevice(wan0);";
        let Some(functions) = functions else {
            return format!("{ports} lan -> to_wan; wan -> to_lan;");
        };
        let [before, behind] = self.context;
        format!(
            "{ports} lan -> FlowClassifier -> [0]tcp :: TCPIn; wan -> FlowClassifier -> [1]tcp;
            tcp => {before}{functions} {behind}out :: TCPOut;
            out[0] -> to_wan; out[1] -> to_lan;"
        )
    }

    /// What each case brought to the server or to curl.
    fn results(&self, functions: Option<&str>) -> Vec<(String, String)> {
        let mut network = Network::new(&CLIENT, &SERVER);
        let text = self.configuration(functions);
        let mut command = network.middle.thruway();
        network.route(command.args(["run", "-R", "-e", &text]), SERVER_ADDRESS);
        prepare(&network);
        let sockets = tempfile::tempdir().expect("a directory");
        let socket = sockets.path().join("judge");
        let mut judge = network.wan.command("python3");
        let judge = judge.arg(dir().join("judge.py")).arg(&socket).args(self.paths());
        let judge = Running::start(judge);
        wait_for("the judge", || judge.stdout().contains("ready").then_some(()));
        let mut attacker = network.lan.command("python3");
        attacker.arg(dir().join("attacker.py")).args([self.name, "eth0", &mac(&network.wan)]);
        attacker.arg(&socket).args(self.paths());
        let done = Running::start(&mut attacker).wait(LIMIT).expect(0);
        network.stop().expect(0);
        let pair = |line: &str| line.split_once('\t').map(|(a, b)| (a.to_owned(), b.to_owned()));
        done.stdout.lines().filter_map(pair).collect()
    }

    /// No case brings the word through any functions, though each does through a cable.
    fn play(&self, test: &str, functions: &[(&str, &str)]) {
        if !privileged(test) {
            return;
        }
        need("python3", "python3");
        need("curl", "curl");
        let arrives = |results: &[(String, String)]| -> Vec<String> {
            let arrived = results.iter().filter(|(_, got)| got.contains(WORD));
            arrived.map(|(name, got)| format!("{name}: {}", cut(got))).collect()
        };
        let control = self.results(None);
        assert!(control.len() >= self.least, "{} cases", control.len());
        let lost: Vec<&(String, String)> =
            control.iter().filter(|(_, got)| !got.contains(WORD)).collect();
        assert!(lost.is_empty(), "without functions these do not bring the word: {lost:#?}");
        let rules = tempfile::NamedTempFile::new().expect("a file");
        let rule = format!("drop tcp any any -> any any (msg:\"word\"; {}; sid:1;)", self.rule);
        std::fs::write(rules.path(), rule).expect("a file");
        let mut passed = Vec::new();
        for (name, functions) in functions {
            let functions = functions.replace("RULES", &rules.path().display().to_string());
            let results = self.results(Some(&functions));
            assert_eq!(results.len(), control.len());
            let found = arrives(&results);
            println!("{test} {name}: {} of {} pass", found.len(), results.len());
            passed.extend(found.into_iter().map(|case| format!("{name}: {case}")));
            if *name == "MASK" {
                check_honest(&results);
            }
        }
        assert!(passed.is_empty(), "the word arrives: {passed:#?}");
    }
}

/// What is no evasion, or fools nobody: beginnings of cases' names.
const HONEST: [&str; 29] = [
    "plain",
    "bytes one by one",
    "last first",
    "every other first",
    "a long segment",
    "split at the segment size",
    "wrong checksum before",
    "wrong checksum in",
    "timestamps",
    "beyond the window",
    "reset at a wrong place",
    "reset with",
    "end with the last bytes",
    "numbers",
    "push or not",
    "unknown options",
    "a hole for a while",
    "pause",
    "extension headers eight",
    "two writes",
    "chunks within",
    "gzip in",
    "deflate without a header",
    "brotli",
    "zstd until",
    "zstd in several",
    "zstd in chunks",
    "zstd in capitals",
    "zstd in two frames",
];

/// That arrives, with the word masked: what stops everything stops no evasion.
fn check_honest(results: &[(String, String)]) {
    let is_honest = |name: &str| {
        let name = name.replace('-', " ");
        !name.contains("over plain text") && HONEST.iter().any(|begin| name.starts_with(begin))
    };
    for (name, got) in results.iter().filter(|(name, _)| is_honest(name)) {
        assert!(got.contains("*********"), "{name}: {got}");
    }
}

fn cut(text: &str) -> String {
    text.chars().take(200).collect()
}

/// Hosts know the address that the attacker takes, and the server is one hop further away.
fn prepare(network: &Network) {
    let lan = mac(&network.lan);
    network.wan.ip(&format!("neigh add 10.0.0.77 lladdr {lan} dev eth0 nud permanent"));
    network.wan.ip(&format!("neigh add fd00::77 lladdr {lan} dev eth0 nud permanent"));
    need("nft", "nftables");
    for line in [
        "add table inet hop",
        "add chain inet hop in { type filter hook prerouting priority -500 ; }",
        "add rule inet hop in ip ttl < 2 drop",
        "add rule inet hop in ip6 hoplimit < 2 drop",
    ] {
        network.wan.succeed(&format!("nft {line}"));
    }
}

/// The address of a host's interface.
fn mac(host: &Namespace) -> String {
    let text = host.succeed("ip -o link show eth0");
    let address = text.split_whitespace().skip_while(|word| *word != "link/ether").nth(1);
    address.expect("an address").to_owned()
}

#[test]
fn evasion_by_packets() {
    PACKETS.play("evasion_by_packets", &FUNCTIONS);
}

#[test]
fn evasion_by_requests() {
    REQUESTS.play("evasion_by_requests", &FUNCTIONS);
}

#[test]
fn evasion_by_responses() {
    RESPONSES.play("evasion_by_responses", &FUNCTIONS);
}

#[test]
fn evasion_by_uris() {
    URIS.play("evasion_by_uris", &FUNCTIONS[3..]);
}

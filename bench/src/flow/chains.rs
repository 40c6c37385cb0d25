//! The configurations: functions behind one classifier, or each behind one of its own.

use super::subject::Setting;
use super::traffic;

const SEED: u64 = 20_260_717;

/// A function with state per session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// Nothing.
    Pass,
    /// A counter.
    Count,
    /// StatefulFirewall with 1,000 rules that do not match, and "allow all".
    Firewall,
    /// StatefulFirewall with one rule.
    Gate,
    /// SessionStats without export.
    Stats,
    /// NAT: 64 outside addresses, endpoint-independent mapping.
    Nat,
    /// LoadBalancer with four servers, round robin.
    Balancer,
    /// `flowcount` of the examples, a process of its own: counts packets and bytes.
    Isolated,
}

impl Function {
    /// The chain that grows. Only one function in it translates: behind a second one, a classifier
    /// of its own would not find the session again.
    pub const CHAIN: [Function; 10] = [
        Function::Firewall,
        Function::Stats,
        Function::Nat,
        Function::Count,
        Function::Gate,
        Function::Stats,
        Function::Count,
        Function::Gate,
        Function::Stats,
        Function::Count,
    ];

    /// An element named `name`, and further connections beside the packets' path.
    fn element(self, name: &str, sessions: u32) -> (String, String) {
        let none = String::new();
        match self {
            Function::Pass => (format!("{name} :: SessionPass;"), none),
            Function::Count => (format!("{name} :: SessionCount;"), none),
            Function::Firewall => {
                let rules = traffic::filter(1000, SEED).text;
                (format!("{name} :: StatefulFirewall({rules}, allow all);"), none)
            }
            Function::Gate => (format!("{name} :: StatefulFirewall(allow udp);"), none),
            Function::Stats => (format!("{name} :: SessionStats(SESSIONS_MAX {sessions});"), none),
            Function::Nat => (
                format!(
                    "{name} :: NAT(SNAT 10.0.0.0/8 -> 203.0.113.0-203.0.113.63, MAPPINGS {sessions});"
                ),
                format!("Idle -> [1]{name}; {name}[1] -> Discard;"),
            ),
            Function::Isolated => (
                format!("{name} :: Nf({}, SESSION connection, SESSIONS {sessions});", flowcount()),
                none,
            ),
            Function::Balancer => (
                format!(
                    "{name} :: LoadBalancer(VIP 198.51.100.1:443/udp, 10.99.0.1:443, \
                     10.99.0.2:443, 10.99.0.3:443, 10.99.0.4:443);"
                ),
                none,
            ),
        }
    }
}

/// Room for all sessions, which do not end while they are measured.
fn classifier(name: &str, sessions: u32) -> String {
    format!(
        "{name} :: FlowClassifier(SESSIONS_MAX {sessions}, EMBRYONIC_MAX {sessions}, \
         UDP_NEW 10d, UDP 10d);"
    )
}

/// Functions behind one classifier: found once for all.
pub fn together(functions: &[Function], sessions: u32) -> Setting {
    chain(functions, sessions, false)
}

/// Each function behind a classifier of its own, which classifies and looks the session up again;
/// the table is the same, so all but the first find it in the cache.
pub fn apart(functions: &[Function], sessions: u32) -> Setting {
    chain(functions, sessions, true)
}

/// A rewriter of Click's alone, which finds mappings by itself: 64 outside addresses.
pub fn rewriter(sessions: u32) -> Setting {
    let pattern = |last| format!("203.0.113.{last} 1024-65535# - - 0 0");
    let patterns: Vec<String> = (0..64).map(pattern).collect();
    let beside = format!(
        "addresses :: RoundRobinIPMapper({});
         rw :: IPRewriter(addresses, MAPPING_CAPACITY {sessions}, UDP_TIMEOUT 10d, REAP_INTERVAL 0);",
        patterns.join(", ")
    );
    let middle = "MarkIPHeader(14) -> rw".to_owned();
    Setting { middle, beside, sessions, is_isolated: false }
}

fn chain(functions: &[Function], sessions: u32, is_apart: bool) -> Setting {
    let mut beside = vec![classifier("fc", sessions)];
    let mut middle = "fc".to_owned();
    for (at, function) in functions.iter().enumerate() {
        let (element, connections) = function.element(&format!("f{at}"), sessions);
        beside.extend([element, connections]);
        if is_apart && at > 0 {
            beside.push(classifier(&format!("fc{at}"), sessions));
            middle += &format!(" -> fc{at}");
        }
        middle += &format!(" -> f{at}");
    }
    let is_isolated = functions.contains(&Function::Isolated);
    Setting { middle, beside: beside.join("\n"), sessions, is_isolated }
}

/// The function of the examples that counts the packets of each session, where it was built.
fn flowcount() -> String {
    let beside = std::env::current_exe().map(|exe| exe.with_file_name("flowcount"));
    beside.map_or_else(|_| "flowcount".into(), |path| path.display().to_string())
}

//! The configurations: every size of table, length of chain and size of packet that other benches
//! have, and some more.

use thruway_lang::Source;

use crate::case::Workspace;
use crate::path;

use super::{isolated, switches};

/// A configuration that runs from memory, and what is known of its traffic.
pub struct Model {
    /// Unique; `/` between parts.
    pub name: String,
    /// Its text.
    pub text: Source,
    /// Threads that it runs on.
    pub threads: usize,
}

/// A source of short packets of one flow, marked as packets of a port.
const SHORT: &str = "source :: InfiniteSource(DATA \\<02000000000202000000000108004500003200000000\
                     40110000c0a80101c0a802040001 0035001e0000>, LENGTH 64, LIMIT -1, BURST 64)";
/// Names of configurations on two threads begin so.
const TWO_THREADS: &str = "threads/two/";
const MADE: &str = "InfiniteSource(LENGTH 64, LIMIT -1, BURST 64)";

/// A gateway, a packet of its subscriber again and again, and what comes from the core: nothing.
const GATEWAY: &str = "gw :: BNG(ACCESS_MAC 02:00:00:00:00:01, CORE_MAC 02:00:00:00:00:02, \
    IP 192.0.2.1, TUNNEL 0 192.0.2.9 02:00:00:00:00:09 1 1000, ROUTE 0.0.0.0/0 0, \
    SUBSCRIBER 100 7 42 10.0.0.7);";
const SUBSCRIBED: &str = "source :: InfiniteSource(\\<020000000001 020000000007 88a8 0064 8100 \
    0007 0800 4500001400000000401160c30a00000708080808>, LIMIT -1, BURST 64)";
const FROM_CORE: &str = "Idle -> [1] gw; gw[1] -> out :: Discard;";

/// Elements of a chain.
const LENGTHS: [usize; 3] = [1, 4, 16];
const SIZES: [usize; 3] = [64, 512, 1514];
const SESSIONS: [usize; 3] = [1_000, 10_000, 300_000];

/// All of them; files go to `workspace`.
pub fn all(workspace: &Workspace, is_quick: bool) -> anyhow::Result<Vec<Model>> {
    let mut models = Vec::new();
    for (name, text) in path::sources(workspace, is_quick)? {
        models.push(Model { name: format!("path/{name}"), text, threads: 1 });
    }
    let mut add = |name: String, text: String| {
        let text = Source::new(name.clone(), text);
        let threads = if name.starts_with(TWO_THREADS) { 2 } else { 1 };
        models.push(Model { name, text, threads });
    };
    for (name, text) in switches::all(workspace)? {
        add(name, text);
    }
    for (name, text) in others() {
        add(name, text);
    }
    for length in LENGTHS {
        for (class, front) in [
            ("Null", ""),
            ("Counter", ""),
            ("Paint(1)", ""),
            ("DecIPTTL", "-> Strip(14) -> MarkIPHeader "),
        ] {
            let chain = vec![class; length].join(" -> ");
            let short = class.split('(').next().unwrap_or(class);
            add(
                format!("chain/{short}/{length}"),
                format!("{SHORT} {front}-> {chain} -> out :: Discard;"),
            );
        }
    }
    for size in SIZES {
        let flows = udp(size, 1_000);
        add(
            format!("size/{size}/checksum"),
            format!(
                "{flows} -> Strip(14) -> CheckIPHeader -> CheckUDPHeader -> Unstrip(14) -> \
                 out :: Discard;"
            ),
        );
        add(
            format!("size/{size}/queue"),
            format!("{flows} -> Queue(1024) -> Unqueue(64) -> Discard;"),
        );
    }
    for sessions in SESSIONS {
        if is_quick && sessions > 10_000 {
            continue;
        }
        for (name, function) in FUNCTIONS {
            let room = sessions * 2;
            let text = function.replace("$N", &room.to_string());
            add(
                format!("sessions/{sessions}/{name}"),
                format!(
                    "{} -> fc :: FlowClassifier(SESSIONS_MAX {room}, EMBRYONIC_MAX {room}, UDP_NEW \
                     10d, UDP 10d) {text} -> out :: Discard;",
                    udp(64, sessions)
                ),
            );
        }
    }
    Ok(models)
}

/// Two threads, a gateway, and sessions that begin.
fn others() -> Vec<(String, String)> {
    let mut texts = Vec::new();
    for (function, text) in [("counter", "Counter"), ("queue", "Queue(1024) -> Unqueue(64)")] {
        let one = |nth: usize| format!("source{nth} :: {MADE} -> {text} -> out{nth} :: Discard;\n");
        texts.push((format!("{TWO_THREADS}{function}"), one(0) + &one(1)));
    }
    let gateway = format!("{GATEWAY} {SUBSCRIBED} -> gw -> Discard; {FROM_CORE}");
    texts.push(("bng/up".to_owned(), gateway));
    // Room for few of the sessions: each packet opens one and ends another.
    let opened = format!(
        "{} -> fc :: FlowClassifier(SESSIONS_MAX 128, EMBRYONIC_MAX 128) -> SessionStats \
         -> out :: Discard;",
        udp(64, 4_000)
    );
    texts.push(("sessions/opened".to_owned(), opened));
    texts
}

/// Those with isolated functions: they start programs that lie beside this one. `cores`: those that
/// the bench may use, of which the thread has the last.
pub fn isolated(cores: &[usize]) -> anyhow::Result<Vec<Model>> {
    let models = isolated::all(cores)?.into_iter().map(|(name, text)| {
        let text = Source::new(name.clone(), text);
        Model { name, text, threads: 1 }
    });
    Ok(models.collect())
}

/// Functions with state for each session.
const FUNCTIONS: &[(&str, &str)] = &[
    ("lookup", ""),
    ("firewall", "-> StatefulFirewall(allow udp)"),
    ("stats", "-> SessionStats(SESSIONS_MAX $N)"),
];

/// A source of packets of so many flows, at random, from memory.
fn udp(size: usize, flows: usize) -> String {
    let packets = (flows * 2).max(4096);
    format!(
        "FastUDPFlows(0, {packets}, {size}, 02:00:00:00:00:01, 10.0.0.1, 02:00:00:00:00:02, \
         192.0.2.9, {flows}, 1000000000) -> source :: ReplayUnqueue(STOP -1, BURST 64)"
    )
}

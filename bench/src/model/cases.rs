//! The configurations: every size of table, length of chain and size of packet that other benches
//! have, and some more.

use thruway_lang::Source;

use crate::case::Workspace;
use crate::path;

use super::switches;

/// A configuration that runs from memory, and what is known of its traffic.
pub struct Model {
    /// Unique; `/` between parts.
    pub name: String,
    /// Its text.
    pub text: Source,
}

/// A source of short packets of one flow, marked as packets of a port.
const SHORT: &str = "source :: InfiniteSource(DATA \\<02000000000202000000000108004500003200000000\
                     40110000c0a80101c0a802040001 0035001e0000>, LENGTH 64, LIMIT -1, BURST 64)";
/// Elements of a chain.
const LENGTHS: [usize; 3] = [1, 4, 16];
const SIZES: [usize; 3] = [64, 512, 1514];
const SESSIONS: [usize; 3] = [1_000, 10_000, 300_000];

/// All of them; files go to `workspace`.
pub fn all(workspace: &Workspace, is_quick: bool) -> anyhow::Result<Vec<Model>> {
    let mut models = Vec::new();
    for (name, text) in path::sources(workspace, is_quick)? {
        models.push(Model { name: format!("path/{name}"), text });
    }
    let mut add = |name: String, text: String| {
        let text = Source::new(name.clone(), text);
        models.push(Model { name, text });
    };
    for (name, text) in switches::all(workspace)? {
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

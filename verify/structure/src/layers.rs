//! Layers: dependencies point down one list of rooms.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Crate, Problem};

/// The crates from the ground up; each may depend on those before it. A directory that ends in `/`
/// stands for every crate in it, and these may depend on one another.
pub const ROOMS: &[&str] = &[
    "base/sync",
    "base/clock",
    "base/random",
    "base/netlink",
    "base/wire",
    "base/region",
    "base/lpm",
    "base/table",
    "base/payload",
    "nf/abi",
    "dataplane/exchange",
    // The agent in a function's virtual machine.
    "nf/guest",
    "nf/sdk",
    "nf/sdk-c",
    "nf/sdk-py",
    "nf/host",
    "examples/functions",
    "dataplane/packet",
    "dataplane/port",
    // Devices of virtual machines, which other programs run.
    "dataplane/vhost",
    // Streams of sessions to another host; it knows no session.
    "dataplane/replication",
    "dataplane/flow",
    "dataplane/stream",
    "dataplane/inspect",
    // Knows no element: it makes code for them.
    "dataplane/macros",
    "dataplane/element",
    // What the crates of elements share, those that others stand on, the others, the list of all.
    "dataplane/elements/support",
    "dataplane/elements/rig",
    "dataplane/elements/captures",
    "dataplane/elements/ip",
    "dataplane/elements/",
    "dataplane/elements",
    "dataplane/lang",
    "dataplane/engine",
    // System tests play its modes.
    "verify/hostile",
    "control/",
    "bin/",
    // What its bench measures the exchange against.
    "bench/baseline",
    "bench",
    "verify/",
];

/// Pairs of crates that must not depend on each other, directly or indirectly, although the order
/// permits it: dependent, dependency, reason.
pub const APART: &[(&str, &str, &str)] = &[
    ("thruway-lang", "thruway-elements", "the language knows specs, not implementations"),
    ("thruway-lang", "thruway-port", "the language is pure"),
    ("thruway-engine", "thruway-elements", "the engine runs any Element and knows none"),
    ("thruway-flow", "thruway-port", "classification is pure"),
    ("thruway-stream", "thruway-flow", "streams are notified of sessions, they do not find them"),
    ("thruway-inspect", "thruway-packet", "what is looked for does not depend on how bytes travel"),
    ("thruway-exchange", "thruway-element", "a function's library uses it and never sees elements"),
    ("thruway-nf", "thruway-packet", "a function sees packets in its slots, and no engine"),
];

fn rank(directory: &str) -> Option<usize> {
    ROOMS
        .iter()
        .position(|room| *room == directory || (room.ends_with('/') && directory.starts_with(room)))
}

/// Dependencies that do not point down [`ROOMS`], and crates that are not in it.
pub fn upward(crates: &[Crate]) -> Vec<Problem> {
    let ranks: BTreeMap<&str, Option<usize>> =
        crates.iter().map(|one| (one.name.as_str(), rank(&one.directory))).collect();
    let mut problems = Vec::new();
    for one in crates {
        let Some(own) = ranks[one.name.as_str()] else {
            let remedy = "give it its place in ROOMS (verify/structure/src/layers.rs)";
            problems.push(Problem::new(
                &one.directory,
                "a crate outside the list of rooms",
                remedy,
            ));
            continue;
        };
        for dependency in &one.dependencies {
            let below = ranks.get(dependency.as_str()).copied().flatten();
            let shared = ROOMS[own].ends_with('/') && below == Some(own);
            if below.is_some_and(|below| below >= own) && !shared {
                problems.push(Problem::new(
                    format!("{}/Cargo.toml", one.directory),
                    format!("depends on {dependency}, which is not below it"),
                    "move what is needed down, or pass it in from above (ARCHITECTURE.md, layers)",
                ));
            }
        }
    }
    problems
}

/// Crates of [`APART`] that meet.
pub fn forbidden_contacts(crates: &[Crate]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (from, what, why) in APART {
        if reached(crates, from).contains(what) {
            let remedy = format!("cut the dependency: {why}");
            problems.push(Problem::new(*from, format!("reaches {what}"), remedy));
        }
    }
    problems
}

/// All crates that `name` depends on, through others too.
fn reached<'a>(crates: &'a [Crate], name: &'a str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open = vec![name];
    while let Some(name) = open.pop() {
        let Some(one) = crates.iter().find(|one| one.name == name) else { continue };
        for dependency in &one.dependencies {
            if found.insert(dependency.as_str()) {
                open.push(dependency);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn krate(directory: &str, name: &str, dependencies: &[&str]) -> Crate {
        Crate {
            directory: directory.into(),
            name: name.into(),
            dependencies: dependencies.iter().map(|name| (*name).into()).collect(),
        }
    }

    #[test]
    fn down_is_fine_up_is_not() {
        let wire = |on: &[&str]| krate("base/wire", "thruway-wire", on);
        let packet = krate("dataplane/packet", "thruway-packet", &["thruway-wire"]);
        assert_eq!(upward(&[wire(&[]), packet.clone()]), []);
        let problems = upward(&[wire(&["thruway-packet"]), packet]);
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].location, "base/wire/Cargo.toml");
    }

    #[test]
    fn an_unknown_room_is_told() {
        assert_eq!(upward(&[krate("base/new", "thruway-new", &[])]).len(), 1);
    }

    #[test]
    fn crates_that_must_not_meet_are_found_through_others() {
        let lang = krate("dataplane/lang", "thruway-lang", &["thruway-x"]);
        let between = krate("base/x", "thruway-x", &["thruway-elements"]);
        assert_eq!(forbidden_contacts(&[lang, between]).len(), 1);
    }
}

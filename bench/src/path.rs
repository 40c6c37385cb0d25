//! `bench path`: what the packet path costs, one configuration a case.
//!
//! Each configuration runs over two traces: one that stays in the cache and one that does not. A
//! measurement is a run of the engine over so many loops of the trace, all packets accounted for;
//! the trace was loaded, and passed once, before.

use thruway::replay::Replay;
use thruway_lang::Source;

use super::case::{Case, Goal, Subject, Suite, Workspace};
use super::measure::Meter;
use super::report::write;
use super::traffic::{self, Flow};

/// `thruway-bench path`.
pub const SUITE: Suite = Suite {
    name: "path",
    about: "the packet path: replay from memory, header checks, routers, filters",
    cases,
    reports: &[],
};

/// What a configuration is run with.
#[derive(Clone, Copy)]
enum Input {
    /// Traffic between a few networks.
    Small,
    /// Traffic to destinations of a table of so many routes, in the file `$ROUTES`.
    Internet(usize),
    /// Traffic for so many rules, `$RULES`.
    Filter(usize),
}

/// One line of the table of goals.
struct Work {
    name: &'static str,
    config: &'static str,
    input: Input,
    /// What we want to reach, if anything.
    goal_ns: Option<f64>,
}

macro_rules! config {
    ($name:literal) => {
        include_str!(concat!("../path/", $name, ".click"))
    };
}

const WORKS: &[Work] = &[
    Work { name: "replay", config: config!("replay"), input: Input::Small, goal_ns: Some(4.0) },
    Work { name: "check", config: config!("check"), input: Input::Small, goal_ns: Some(8.0) },
    // 60 ns for the hop, over "check".
    Work { name: "hop", config: config!("hop"), input: Input::Small, goal_ns: Some(68.0) },
    Work {
        name: "router-5",
        config: config!("router-5"),
        input: Input::Small,
        goal_ns: Some(15.0),
    },
    // What a queue in the middle adds to router-5 (figure 3.11 of the FastClick thesis).
    Work {
        name: "router-queue",
        config: config!("router-queue"),
        input: Input::Small,
        goal_ns: None,
    },
    Work {
        name: "router-100k",
        config: config!("router-bgp"),
        input: Input::Internet(100_000),
        goal_ns: Some(25.0),
    },
    Work {
        name: "router-500k",
        config: config!("router-bgp"),
        input: Input::Internet(500_000),
        goal_ns: Some(40.0),
    },
    Work {
        name: "router-standard",
        config: config!("router-standard"),
        input: Input::Small,
        goal_ns: Some(35.0),
    },
    Work {
        name: "filter-20",
        config: config!("filter"),
        input: Input::Filter(20),
        goal_ns: Some(25.0),
    },
    Work {
        name: "filter-1000",
        config: config!("filter"),
        input: Input::Filter(1000),
        goal_ns: Some(60.0),
    },
];

/// The traces: name and packets. 256 kB stay in a second-level cache; 64 MB exceed a core's share
/// of any last-level cache.
const TRACES: &[(&str, usize)] = &[("fits", 4096), ("large", 1_000_000)];

const SEED: u64 = 20_260_717;

fn cases() -> Vec<Case> {
    let with = |work: &'static Work| {
        TRACES.iter().map(move |&(trace, packets)| Case {
            name: format!("{}/{trace}", work.name),
            goal: work.goal_ns.map(Goal::Ns),
            baseline: (work.name != "replay").then(|| format!("replay/{trace}")),
            steps: 1,
            payload: None,
            is_long: false,
            set_up: Box::new(move |workspace| {
                let source = configuration(work, packets, workspace)?;
                Ok(Box::new(Replay::new(source, packets as u64)?))
            }),
        })
    };
    WORKS.iter().flat_map(with).collect()
}

/// The text of a case, complete but for `$LOOPS`; its inputs are written.
fn configuration(
    work: &Work,
    trace_packets: usize,
    workspace: &Workspace,
) -> anyhow::Result<Source> {
    let name = format!("{}-{trace_packets}", work.name);
    let file = |suffix: &str| workspace.dir.join(format!("{name}{suffix}"));
    let mut text = work.config.to_owned();
    let flows: Vec<Flow> = match work.input {
        Input::Small => traffic::small_network(SEED),
        Input::Internet(count) => {
            let table = traffic::internet(count, SEED);
            write(&file(".routes"), &table.text)?;
            text = text.replace("$ROUTES", &file(".routes").to_string_lossy());
            table.flows
        }
        Input::Filter(count) => {
            let rules = traffic::filter(count, SEED);
            text = text.replace("$RULES", &rules.text);
            rules.flows
        }
    };
    let trace = file(".pcap").to_string_lossy().into_owned();
    traffic::write_trace(&trace, &flows, trace_packets, SEED)?;
    let text = text.replace("$TRACE", &trace);
    // To repeat the run with `thruway click FILE LOOPS=10`.
    write(&file(".click"), &text)?;
    Ok(Source::new(name, text))
}

/// Every configuration over every trace, to run without end.
pub fn sources(workspace: &Workspace, is_quick: bool) -> anyhow::Result<Vec<(String, Source)>> {
    let mut all = Vec::new();
    for work in WORKS {
        for (trace, packets) in TRACES.iter().take(if is_quick { 1 } else { TRACES.len() }) {
            let source = configuration(work, *packets, workspace)?;
            let text = source.text.replace("$LOOPS", "-1");
            let name = format!("{}/{trace}", work.name);
            all.push((name, Source::new(source.name, text)));
        }
    }
    Ok(all)
}

impl Subject for Replay {
    fn run(&mut self, packets: u64, meter: &mut Meter) -> anyhow::Result<u64> {
        self.replay(packets, |router| {
            meter.time(|| router.run_threads());
        })
    }
}

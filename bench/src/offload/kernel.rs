//! What an XDP program in front of a chain costs.
//!
//! - `decision/RULES`: the class of frames with parsed headers, found by the host; one
//!   class is dropped, of those that none of so many rules allows;
//! - `xdp/RULES`: the XDP program of the same chain, run by the kernel on the same frames, one
//!   after the other; `xdp-classes` is the one that also notes the class of what it passes;
//!   `xdp-none` passes each frame without a test, and its row is what a run costs besides.
//! - `flood-xdp`: frames that come by a virtual link, of which 99 of 100 are dropped by the program
//!   of a chain; `flood-drop` drops each frame without a test. One core makes, sends, receives and
//!   drops them, and all of that is in its time.

use std::time::Duration;

use anyhow::Context as _;
use thruway_flow::chain::{Chain, Changes, Demand, Node, Role};
use thruway_flow::drop_table::{DEPTH_MAX, DROP, DropTable, SOFTWARE, TESTS_MAX};
use thruway_flow::plan::Plan;
use thruway_flow::{NoNames, PacketView, Rule, consolidate, parse_class};
use thruway_port::drop_stage::{DropProgram, DropStage, DropTests};
use thruway_port::generator::{Generator, Stream};

use crate::case::{Case, SetUp, Subject};
use crate::measure::Meter;
use crate::namespace::Namespace;
use crate::traffic::{self, Rules};

/// Packets of the trace.
const PACKETS: usize = 4096;
pub(super) const SEED: u64 = 20_261_127;
/// Rules of a firewall.
const RULES: [usize; 4] = [10, 100, 1000, 10_000];
/// Flows of a flood, of which one is wanted.
const FLOWS: u32 = 100;
/// Its source port, which is that of the first flow.
const WANTED: u16 = 1024;
/// Shortest frames that the generator makes.
const LEN: usize = 64;

/// What looks at frames.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Program {
    /// Passes all.
    Nothing,
    /// Drops all.
    Everything,
    /// Drops what a chain would drop.
    Drops,
    /// Also notes the classes of what it passes.
    Classes,
}

pub(super) fn cases() -> Vec<Case> {
    let case = |name: String, baseline: Option<String>, set_up| Case {
        name,
        goal: None,
        baseline,
        steps: 1,
        payload: None,
        is_long: false,
        set_up,
    };
    let mut cases = Vec::new();
    for count in RULES {
        let of = move |program| -> SetUp {
            Box::new(move |_| Ok(Box::new(Frames::new(count, program)?)))
        };
        let decision: SetUp = Box::new(move |_| Ok(Box::new(Decision::new(count)?)));
        cases.push(case(format!("decision/{count}"), None, decision));
        let none = format!("xdp-none/{count}");
        cases.push(case(none.clone(), None, of(Program::Nothing)));
        cases.push(case(format!("xdp/{count}"), Some(none.clone()), of(Program::Drops)));
        cases.push(case(format!("xdp-classes/{count}"), Some(none), of(Program::Classes)));
    }
    let flood = |program| -> SetUp { Box::new(move |_| Ok(Box::new(Flood::new(program)?))) };
    cases.push(case("flood-drop".to_owned(), None, flood(Program::Everything)));
    let baseline = Some("flood-drop".to_owned());
    cases.push(case("flood-xdp".to_owned(), baseline, flood(Program::Drops)));
    cases
}

/// A chain that counts packets for which one of these expressions holds, with sessions perhaps, and
/// drops all others.
pub(super) fn plan(rules: &str, sessions: Option<Demand>) -> anyhow::Result<Plan> {
    let rules = rules.split(",\n").map(|rule| {
        let rule = rule.trim().trim_start_matches("allow ");
        let expr = parse_class(rule, &NoNames);
        expr.map(|expr| Rule::new(expr, 0)).map_err(|error| anyhow::anyhow!("{rule}: {error:?}"))
    });
    let node = |name: &str, role, to: Option<usize>| Node {
        name: name.to_owned(),
        role,
        outputs: to.map(|to| Some((to, 0))).into_iter().collect(),
        passes: vec![to.map(|_| 0).into_iter().collect()],
        changes: Changes::Nothing,
        demand: None,
        counts: to.is_none(),
    };
    let end = Node { demand: sessions, ..node("end", Role::Function, None) };
    let nodes = vec![
        node("fc", Role::Entry, Some(1)),
        node("d", Role::Dispatcher(rules.collect::<anyhow::Result<_>>()?), Some(2)),
        end,
    ];
    consolidate(&Chain { nodes, early_drop: true }).map_err(|error| anyhow::anyhow!("{error:?}"))
}

/// The table of a plan's only classifier, as the kernel takes it.
pub(super) fn tests(plan: &Plan, program: Program) -> anyhow::Result<DropTests> {
    let end = match program {
        Program::Nothing => SOFTWARE,
        Program::Everything => DROP,
        Program::Drops | Program::Classes => {
            let table = match program {
                Program::Classes => DropTable::with_classes(plan, 0, TESTS_MAX),
                _ => DropTable::of(plan, 0, TESTS_MAX),
            };
            let table = table.context("the chain has a classifier")?;
            anyhow::ensure!(table.excluded.is_empty(), "not all is in the table");
            return Ok(DropTests {
                tests: table.tests.iter().map(|test| test.words()).collect(),
                starts: table.starts,
                leaves_errors: table.leaves_errors,
                depth: table.depth.min(DEPTH_MAX),
            });
        }
    };
    Ok(DropTests { tests: Vec::new(), starts: [end; 3], leaves_errors: false, depth: 0 })
}

/// Two namespaces, and a virtual link from `out0` in the first to `in0` in the second one.
pub(super) fn virtual_link() -> anyhow::Result<(Namespace, Namespace)> {
    let [near, far] = ["near", "far"].map(|role| Namespace::new("thruway-bench", role));
    let (near, far) = (near?, far?);
    for space in [&near, &far] {
        space.set("ipv6/conf/default/disable_ipv6", "1")?;
    }
    far.cable("in0", (&near, "out0"), "")?;
    near.ip("link set out0 up")?;
    Ok((near, far))
}

fn trace(count: usize) -> (Rules, Vec<Vec<u8>>) {
    let rules = traffic::filter(count, SEED);
    let frames = traffic::drawn(&rules.flows, PACKETS, SEED).map(traffic::packet);
    let frames = frames.map(|frame| frame.to_vec()).collect();
    (rules, frames)
}

/// The host's decision.
struct Decision {
    plan: Plan,
    frames: Vec<Vec<u8>>,
}

impl Decision {
    fn new(count: usize) -> anyhow::Result<Decision> {
        let (rules, frames) = trace(count);
        Ok(Decision { plan: plan(&rules.text, None)?, frames })
    }
}

impl Subject for Decision {
    fn run(&mut self, packets: u64, meter: &mut Meter) -> anyhow::Result<u64> {
        let rounds = packets.div_ceil(PACKETS as u64);
        let mut dropped = 0;
        meter.time(|| {
            for frame in (0..rounds).flat_map(|_| &self.frames) {
                // Ethernet, and IPv4 without options.
                let view = PacketView { frame, network: &frame[14..], transport: &frame[34..] };
                let leaf = self.plan.classify(0, &view);
                dropped += u64::from(self.plan.leaves[usize::from(leaf)].early_drop);
            }
        });
        anyhow::ensure!(dropped > 0, "none was dropped");
        Ok(rounds * PACKETS as u64)
    }
}

/// A program that the kernel runs on the frames of a trace.
struct Frames {
    program: DropProgram,
    frames: Vec<Vec<u8>>,
}

impl Frames {
    fn new(count: usize, program: Program) -> anyhow::Result<Frames> {
        let (rules, frames) = trace(count);
        let program = DropProgram::load(&tests(&plan(&rules.text, None)?, program)?)?;
        Ok(Frames { program, frames })
    }
}

impl Subject for Frames {
    fn run(&mut self, packets: u64, meter: &mut Meter) -> anyhow::Result<u64> {
        let mut took = Duration::ZERO;
        for frame in self.frames.iter().cycle().take(packets as usize) {
            // The call itself is no part of it.
            took += self.program.run(frame)?.1;
        }
        meter.add_cpu(took.as_nanos() as u64);
        Ok(packets)
    }
}

/// A virtual link with a program at its far end.
struct Flood {
    generator: Generator,
    stage: DropStage,
    near: Namespace,
    // Goes last.
    _far: Namespace,
}

impl Flood {
    fn new(program: Program) -> anyhow::Result<Flood> {
        let (near, far) = virtual_link()?;
        let tags_stay = far.command("ethtool").args(["-K", "in0", "rxvlan", "off"]).status()?;
        anyhow::ensure!(tags_stay.success(), "ethtool -K in0 rxvlan off");
        let tests = tests(&plan(&format!("udp src port {WANTED}"), None)?, program)?;
        let stage = far.within(|| DropStage::install("in0", &tests))??;
        let stream = Stream {
            destination_mac: [2, 0, 0, 0, 0, 1],
            source_mac: [2, 0, 0, 0, 0, 2],
            source: [10, 9, 0, 2].into(),
            destination: [10, 0, 0, 1].into(),
            source_port: WANTED,
            destination_port: 9,
            flows: FLOWS,
            networks: 1,
            len: LEN,
        };
        let generator = near.within(|| Generator::new("out0", &stream))??;
        Ok(Flood { generator, stage, near, _far: far })
    }
}

impl Subject for Flood {
    fn run(&mut self, packets: u64, meter: &mut Meter) -> anyhow::Result<u64> {
        let before = self.stage.dropped();
        let Flood { generator, near, .. } = self;
        let packets = packets.min(u64::from(u32::MAX)) as u32;
        near.within(|| meter.time(|| generator.send(packets)))??;
        let dropped = self.stage.dropped() - before;
        let least = u64::from(packets) / 100 * 98;
        anyhow::ensure!(dropped >= least, "{dropped} of {packets} frames were dropped");
        Ok(dropped)
    }
}

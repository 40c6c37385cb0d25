//! `thruway-bench offload`: what a switch, or the kernel, in front saves the host.
//!
//! A chain sorts packets by so many rules, over a trace that stays in the cache: once it classifies
//! each packet, once it reads the tag that a switch put before it. The tags are those of
//! `thruway offload`; the switch itself is not measured. The source alone is the baseline of
//! both, so a row's step is what finding a class costs.

mod kernel;
mod wire;

use thruway::replay::Replay;
use thruway_flow::PacketView;
use thruway_flow::plan::Plan;
use thruway_flow::tags::{Generation, TagKind, VLAN};
use thruway_lang::Source;

use super::case::{Case, Subject, Suite, Workspace};
use super::traffic::{self, Rules};

/// `thruway-bench offload`.
pub const SUITE: Suite = Suite {
    name: "offload",
    about: "classes by the tags of a switch, by an XDP program that drops and notes, by the host",
    cases,
    reports: &[],
};

/// Rules of a chain; each is a class.
const RULES: [usize; 3] = [10, 100, 1000];
/// Packets of the trace.
const PACKETS: usize = 4096;
const SEED: u64 = 20_261_126;

/// The place of the classification.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// None: only the source runs.
    Nobody,
    Host,
    Switch,
}

fn cases() -> Vec<Case> {
    let with = |count: usize| {
        let of = move |name: &str, by: By| Case {
            name: format!("{name}/{count}"),
            goal: None,
            baseline: (by != By::Nobody).then(|| format!("source/{count}")),
            steps: 1,
            payload: None,
            is_long: false,
            set_up: Box::new(move |workspace| subject(workspace, count, by)),
        };
        [of("source", By::Nobody), of("host", By::Host), of("switch", By::Switch)]
    };
    RULES.into_iter().flat_map(with).chain(kernel::cases()).chain(wire::cases()).collect()
}

fn subject(workspace: &Workspace, count: usize, by: By) -> anyhow::Result<Box<dyn Subject>> {
    let rules = traffic::filter(count, SEED);
    let frames: Vec<_> = traffic::drawn(&rules.flows, PACKETS, SEED).map(traffic::packet).collect();
    let plain = trace(workspace, &format!("offload-{count}.pcap"), frames.iter())?;
    let mut replay = replayed(&plain, &middle(&rules, by))?;
    if by != By::Switch {
        return Ok(Box::new(replay));
    }
    let plan = &replay.router().flows().plan;
    let fingerprint = plan.fingerprint();
    let tagged: Vec<Vec<u8>> = frames.iter().map(|frame| tagged(plan, frame)).collect();
    let tagged = trace(workspace, &format!("offload-{count}-tagged.pcap"), tagged.iter())?;
    replay = replayed(&tagged, &middle(&rules, by))?;
    replay.router().write("fc.tags", &format!("{} {fingerprint}", Generation::default()))?;
    replay.replay(PACKETS as u64, |router| {
        router.run_threads();
    })?;
    let trusted: usize = replay.router().read("fc.tagged")?.trim().parse()?;
    anyhow::ensure!(trusted == PACKETS, "{trusted} of {PACKETS} tags were trusted");
    Ok(Box::new(replay))
}

fn trace(
    workspace: &Workspace,
    name: &str,
    frames: impl Iterator<Item = impl AsRef<[u8]>>,
) -> anyhow::Result<String> {
    let path = workspace.dir.join(name).to_string_lossy().into_owned();
    traffic::write_frames(&path, frames)?;
    Ok(path)
}

/// What stands between the source and the end.
fn middle(rules: &Rules, by: By) -> String {
    let input = match by {
        By::Nobody => return "source -> out :: Discard;".to_owned(),
        By::Host => "ethernet",
        By::Switch => "tagged",
    };
    let classes = rules.text.replace("allow ", "");
    let count = classes.lines().count();
    let links = (0..=count).map(|output| format!("d[{output}] -> out;\n")).collect::<String>();
    format!(
        "source -> fc :: FlowClassifier(INPUT {input})\n\
         ~> d :: FlowDispatcher({classes}, -);\nout :: Discard;\n{links}"
    )
}

fn replayed(trace: &str, middle: &str) -> anyhow::Result<Replay> {
    let text =
        format!("FromDump({trace}) -> source :: ReplayUnqueue(STOP $LOOPS, BURST 128);\n{middle}");
    Replay::new(Source::new("offload", text), PACKETS as u64)
}

/// A frame as a switch sends it.
fn tagged(plan: &Plan, frame: &[u8]) -> Vec<u8> {
    // Ethernet, and IPv4 without options.
    let view = PacketView { frame, network: &frame[14..], transport: &frame[34..] };
    let number = TagKind::Vlan.number(Generation::default(), plan.classify(0, &view));
    let tag = |number: u32| [VLAN.to_be_bytes(), (number as u16).to_be_bytes()].concat();
    let tag = number.map(tag).unwrap_or_default();
    [&frame[..12], &tag, &frame[12..]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Meter;

    #[test]
    fn the_host_and_the_tags_of_a_switch_are_measured() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace { dir: dir.path().to_owned(), words: None, cores: vec![0] };
        for by in [By::Nobody, By::Host, By::Switch] {
            // Setting it up sees to it that the tags are trusted.
            let mut subject = subject(&workspace, 10, by).unwrap();
            assert_eq!(subject.run(PACKETS as u64, &mut Meter::new()).unwrap(), PACKETS as u64);
        }
    }
}

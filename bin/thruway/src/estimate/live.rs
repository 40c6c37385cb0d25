//! Compares the cost of a running configuration with an estimate for its current packets:
//! the estimate uses the observed paths and batches, so a remaining difference is due to the costs,
//! and a difference from a rehearsal is due to the assumptions.

use std::time::Duration;

use serde_json::{Value, json};
use thruway_elements::CATALOG;
use thruway_engine::Options;
use thruway_lang::{NoLibraries, Source, Variables};
use thruway_model::Hardware;
use thruway_model::estimate::{Assumed, Estimate};
use thruway_model::observed::ObservedCost;
use thruway_model::rehearsal::{Captures, Counts, Rehearsal, Trace};

use crate::load;
use crate::reach::reach;
use crate::table::Table;
use crate::top::Sample;

/// Nothing: ports are not rehearsed here.
const NO_PACKETS: &str = "!data ip_src\n";
/// Packets in a batch below which what is paid per batch prevails.
const FEW: f64 = 8.0;
/// Packets of an element from which on its cycles say something: they are samples.
const ENOUGH: u64 = 2000;

/// What `thruway estimate --live` has found.
pub struct Comparison {
    lines: Vec<Line>,
    /// Cycles per packet of the elements together.
    predicted: f64,
    observed: f64,
    packets: u64,
    /// Which assumption is behind the largest difference.
    remark: Option<String>,
    /// Operations that the host's description lacks.
    unknown: Vec<&'static str>,
}

/// An element's cycles per packet.
struct Line {
    element: String,
    class: String,
    arguments: String,
    /// Of this, packets that were seen.
    packets: u64,
    /// Part of the packets that come to it.
    share: f64,
    /// Packets in a batch.
    batch: f64,
    /// By the operations alone, and with what was observed before.
    declared: f64,
    predicted: f64,
    /// None where too few packets came.
    observed: Option<f64>,
}

/// Watches a running configuration for so many seconds and compares.
pub fn compare(
    address: &str,
    seconds: f64,
    assumed: &Assumed,
    hardware: &Hardware,
) -> anyhow::Result<Comparison> {
    anyhow::ensure!(
        (0.05..=3600.0).contains(&seconds),
        "--interval {seconds}: give 0.05 to 3600 seconds"
    );
    let mut client = reach(address)?;
    let text = client.read("config")?;
    let before = Sample::take(&mut client)?;
    std::thread::sleep(Duration::from_secs_f64(seconds));
    let after = Sample::take(&mut client)?;
    let answer = |failure: load::Failure| anyhow::anyhow!("{}", failure.pretty.render(false));
    let (graph, _) = load::graph(Source::new("config", text), &Variables::new(), &NoLibraries)
        .map_err(answer)?;
    let nothing = Trace::Lines(NO_PACKETS.to_owned());
    let captures = Captures { all: Some(nothing), ..Captures::default() };
    let rehearsal = Rehearsal::new(graph, &CATALOG, &captures, &Options::default())?;
    let counts = observed(&rehearsal, &before, &after);
    let sessions = assumed.sessions.or(after.sessions.as_ref().map(|it| it.now as f64));
    let estimate =
        rehearsal.estimate(&counts, hardware, &Assumed { sessions, ..*assumed }, true)?;
    Ok(Comparison::of(&estimate, &counts))
}

/// What elements did between two samples, by their names.
fn observed(rehearsal: &Rehearsal, before: &Sample, after: &Sample) -> Counts {
    let of = |sample: &Sample, name: &str| {
        sample.elements.iter().find(|it| it.name == name).map(|it| it.work).unwrap_or_default()
    };
    let mut counts = rehearsal.counts();
    for (at, decl) in rehearsal.router.layout().graph.elements.iter().enumerate() {
        let (then, now) = (of(before, &decl.name), of(after, &decl.name));
        counts.packets[at] = now.packets.saturating_sub(then.packets);
        counts.batches[at] = now.batches.saturating_sub(then.batches);
        counts.cycles[at] = now.cycles.saturating_sub(then.cycles);
    }
    counts.by_thread = vec![counts.packets.clone()];
    counts
}

impl Comparison {
    /// Predicted beside observed.
    fn of(estimate: &Estimate, counts: &Counts) -> Comparison {
        let mut lines = Vec::new();
        let mut worst: Option<(f64, String)> = None;
        for line in &estimate.lines {
            let (packets, predicted) = (counts.packets[line.element], line.bill.cycles());
            let seen = counts.cycles[line.element] as f64 / packets.max(1) as f64;
            let observed = (packets >= ENOUGH && seen > 0.0).then_some(seen);
            let station = &line.station;
            let off = (seen - predicted) * station.visits;
            let is_worst = worst.as_ref().is_none_or(|(most, _)| off.abs() > most.abs());
            if observed.is_some() && is_worst {
                worst = Some((off, why(station.batch, off, &station.name)));
            }
            lines.push(Line {
                element: station.name.clone(),
                class: station.class.clone(),
                arguments: station.arguments.clone(),
                packets,
                share: station.visits,
                batch: station.batch,
                declared: line.bill.declared_cycles(),
                predicted,
                observed,
            });
        }
        let packets = counts.packets.iter().copied().max().unwrap_or_default();
        let cycles: u64 = counts.cycles.iter().sum();
        Comparison {
            lines,
            predicted: estimate.thread_cycles(),
            observed: cycles as f64 / packets.max(1) as f64,
            packets,
            remark: worst.map(|(_, why)| why),
            unknown: estimate.unknown.iter().map(|it| it.name()).collect(),
        }
    }

    /// What the elements took, for later estimates.
    pub fn costs(&self) -> Vec<ObservedCost> {
        let cost = |line: &Line| {
            Some(ObservedCost {
                class: line.class.clone(),
                arguments: line.arguments.clone(),
                declared: line.declared,
                observed: line.observed?,
                packets: line.packets,
            })
        };
        self.lines.iter().filter_map(cost).collect()
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut table = Table::new(&[
            "element",
            "class",
            "share",
            "batch",
            "predicted",
            "observed",
            "off by",
            "declared",
        ]);
        for line in &self.lines {
            let off = line.observed.map(|observed| observed - line.predicted);
            let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
            table.row(vec![
                line.element.clone(),
                line.class.clone(),
                format!("{:.3}", line.share),
                format!("{:.1}", line.batch),
                format!("{:.1}", line.predicted),
                or_dash(line.observed.map(|cycles| format!("{cycles:.1}"))),
                or_dash(off.map(|cycles| format!("{cycles:+.1}"))),
                format!("{:.1}", line.declared),
            ]);
        }
        let mut out = format!("Cycles per packet, predicted and observed\n\n{}", table.render());
        out += &format!(
            "\n{:.1} cycles a packet predicted, {:.1} observed in elements ({} packets)\n",
            self.predicted, self.observed, self.packets
        );
        if let Some(remark) = &self.remark {
            out += &format!("{remark}\n");
        }
        if !self.unknown.is_empty() {
            let unknown = self.unknown.join(", ");
            out += &format!("Predicted without {unknown}: the description lacks them.\n");
        }
        out
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let element = |line: &Line| {
            json!({
                "element": line.element,
                "class": line.class,
                "share": line.share,
                "batch": line.batch,
                "predicted_cycles": line.predicted,
                "declared_cycles": line.declared,
                "observed_cycles": line.observed,
            })
        };
        json!({
            "elements": self.lines.iter().map(element).collect::<Vec<Value>>(),
            "predicted_cycles": self.predicted,
            "observed_cycles": self.observed,
            "packets": self.packets,
            "remark": self.remark,
            "unknown": self.unknown,
        })
    }
}

/// Which assumption is behind the largest difference.
fn why(batch: f64, off: f64, name: &str) -> String {
    let direction = if off > 0.0 { "more" } else { "less" };
    let cause = if batch < FEW {
        format!(
            "its batches are short ({batch:.1} packets): what is paid per batch counts, and waits for \
             lines do not overlap"
        )
    } else if off > 0.0 {
        "its tables or packets are further away than assumed, or its operations do more: look at \
         sessions (--sessions) and sizes (--packet-bytes), then at thruway calibrate"
            .to_owned()
    } else {
        "its packets are more alike than assumed, or its tables smaller".to_owned()
    };
    format!("Most of the difference is at {name}, {:.1} cycles {direction}: {cause}.", off.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_batches_are_blamed_first() {
        assert!(
            why(1.5, 30.0, "nat").contains("nat, 30.0 cycles more: its batches are short (1.5")
        );
        assert!(why(64.0, 30.0, "nat").contains("further away than assumed"));
        assert!(why(64.0, -30.0, "nat").contains("30.0 cycles less: its packets are more alike"));
    }
}

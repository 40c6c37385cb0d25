//! What a run came to: ports, elements, packets that were lost and that were not, rates; as tables
//! or as JSON.

use std::sync::Arc;

use serde_json::{Value, json};
use thruway_element::{NodeStats, Purpose, Stats};
use thruway_engine::{Layout, Outcome, Router};

use crate::table::{Table, thousands};

/// The counters of a run.
pub struct Summary {
    ports: Vec<Port>,
    elements: Vec<Element>,
    reasons: Vec<Counted>,
    packets: u64,
    seconds: f64,
    ns_per_packet: f64,
}

/// A port: packets and bytes, where it counts them.
struct Port {
    element: String,
    class: String,
    argument: String,
    direction: &'static str,
    packets: Option<u64>,
    bytes: Option<u64>,
}

/// An element that did something.
struct Element {
    name: String,
    class: String,
    packets: u64,
    /// Packets of its own making.
    made: u64,
    batches: u64,
    ns: f64,
    lost: u64,
}

/// What became of packets that did not go on by the first output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Dropped for a reason that the element names.
    Lost,
    /// They left by another output.
    Diverted,
    /// They did what they came for.
    Consumed,
    /// The configuration sent them to a Discard.
    Discarded,
}

impl Fate {
    fn name(self) -> &'static str {
        match self {
            Fate::Lost => "lost",
            Fate::Diverted => "diverted",
            Fate::Consumed => "consumed",
            Fate::Discarded => "discarded",
        }
    }
}

/// Packets of one element, by reason and fate.
struct Counted {
    element: String,
    reason: &'static str,
    meaning: &'static str,
    fate: Fate,
    packets: u64,
}

/// Packets that sources made or took.
pub fn packets_in(layout: &Layout, stats: &[Arc<Stats>]) -> u64 {
    let sources = |node: &usize| layout.checked.ninputs(*node) == 0;
    let nodes = (0..layout.graph.elements.len()).filter(sources);
    nodes.map(|node| total(stats, node, |stats| stats.packets.get())).sum()
}

/// A counter of one element, over all threads.
fn total(stats: &[Arc<Stats>], node: usize, pick: impl Fn(&NodeStats) -> u64) -> u64 {
    stats.iter().filter_map(|stats| stats.get(node)).map(pick).sum()
}

impl Summary {
    /// That of a run which is over.
    pub fn of(router: &mut Router, outcome: &Outcome) -> Summary {
        let reasons = reasons(router);
        let elements = elements(router, outcome, &reasons);
        let packets = packets_in(router.layout(), router.stats());
        let busy_ns: f64 = elements.iter().map(|element| element.ns).sum();
        let ns_per_packet = if packets == 0 { 0.0 } else { busy_ns / packets as f64 };
        let seconds = outcome.elapsed.as_secs_f64();
        Summary { ports: ports(router), elements, reasons, packets, seconds, ns_per_packet }
    }

    /// Tables for people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (title, table, is_wanted) in [
            ("Ports", self.port_table(), true),
            ("Elements", self.element_table(), true),
            ("Drops", self.lost_table(), true),
            ("Not lost", self.kept_table(), false),
        ] {
            if is_wanted || !table.is_empty() {
                text += &format!("\n{title}\n\n");
                text += &if table.is_empty() { "  none\n".to_owned() } else { table.render() };
            }
        }
        let (packets, rate) = (thousands(self.packets), thousands(self.rate() as u64));
        let (seconds, each) = (self.seconds, self.ns_per_packet);
        text += &format!(
            "\n{packets} packets in {seconds:.3} s: {rate} packets/s, {each:.1} ns/packet in \
             elements\n"
        );
        text
    }

    /// The same for programs: every count, as a number.
    pub fn json(&self) -> Value {
        let ports = self.ports.iter().map(|port| {
            json!({
                "element": port.element, "class": port.class, "port": port.argument,
                "direction": port.direction, "packets": port.packets, "bytes": port.bytes,
            })
        });
        let elements = self.elements.iter().map(|one| {
            json!({
                "element": one.name, "class": one.class, "packets": one.packets,
                "made": one.made, "batches": one.batches, "nanoseconds": one.ns, "lost": one.lost,
            })
        });
        let reasons = self.reasons.iter().map(|one| {
            json!({
                "element": one.element, "reason": one.reason, "meaning": one.meaning,
                "fate": one.fate.name(), "packets": one.packets,
            })
        });
        json!({
            "ports": ports.collect::<Vec<_>>(),
            "elements": elements.collect::<Vec<_>>(),
            "reasons": reasons.collect::<Vec<_>>(),
            "packets": self.packets,
            "seconds": self.seconds,
            "packets_per_second": self.rate(),
            "nanoseconds_per_packet": self.ns_per_packet,
        })
    }

    fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.packets as f64 / self.seconds } else { 0.0 }
    }

    fn port_table(&self) -> Table {
        let mut table = Table::new(&["port", "class", "dir", "packets", "bytes"]);
        let number = |count: Option<u64>| count.map_or("-".to_owned(), thousands);
        for port in &self.ports {
            table.row(vec![
                format!("{} ({})", port.element, port.argument),
                port.class.clone(),
                port.direction.into(),
                number(port.packets),
                number(port.bytes),
            ]);
        }
        table
    }

    fn element_table(&self) -> Table {
        let head = ["element", "class", "packets", "made", "per batch", "ns/packet", "drops"];
        let mut table = Table::new(&head);
        let per = |what: f64, of: u64| match of {
            0 => "-".to_owned(),
            of => format!("{:.1}", what / of as f64),
        };
        for one in &self.elements {
            table.row(vec![
                one.name.clone(),
                one.class.clone(),
                thousands(one.packets),
                thousands(one.made),
                per(one.packets as f64, one.batches),
                per(one.ns, one.packets),
                thousands(one.lost),
            ]);
        }
        table
    }

    fn lost_table(&self) -> Table {
        let mut table = Table::new(&["element", "reason", "packets", "meaning"]);
        for one in self.reasons.iter().filter(|one| one.fate == Fate::Lost) {
            table.row(vec![
                one.element.clone(),
                one.reason.into(),
                thousands(one.packets),
                one.meaning.into(),
            ]);
        }
        table
    }

    fn kept_table(&self) -> Table {
        let mut table = Table::new(&["element", "fate", "reason", "packets", "meaning"]);
        for one in self.reasons.iter().filter(|one| one.fate != Fate::Lost) {
            table.row(vec![
                one.element.clone(),
                one.fate.name().into(),
                one.reason.into(),
                thousands(one.packets),
                one.meaning.into(),
            ]);
        }
        table
    }
}

/// Packets and bytes in and out of every port.
fn ports(router: &mut Router) -> Vec<Port> {
    let layout = Arc::clone(router.layout());
    let mut all = Vec::new();
    for (node, decl) in layout.graph.elements.iter().enumerate() {
        if !decl.spec.topic.is_port() || decl.spec.handler("byte_count").is_none() {
            continue;
        }
        let direction = match (layout.checked.ninputs(node), layout.checked.noutputs(node)) {
            (0, _) => "in",
            (_, 0) => "out",
            _ => "both",
        };
        let mut ask = |handler: &str| {
            let answer = router.read(&format!("{}.{handler}", decl.name)).ok();
            answer.and_then(|text| text.trim().parse().ok())
        };
        all.push(Port {
            element: decl.name.clone(),
            class: decl.class.clone(),
            argument: decl.args.first().map_or(String::new(), |arg| arg.text.clone()),
            direction,
            packets: ask("count"),
            bytes: ask("byte_count"),
        });
    }
    all
}

/// The elements that did something.
fn elements(router: &Router, outcome: &Outcome, reasons: &[Counted]) -> Vec<Element> {
    let (layout, stats) = (router.layout(), router.stats());
    let ns_per_cycle = outcome.elapsed.as_nanos() as f64 / outcome.cycles.max(1) as f64;
    let all = layout.graph.elements.iter().enumerate().map(|(node, decl)| {
        let of = |pick: fn(&NodeStats) -> u64| total(stats, node, pick);
        let lost = reasons.iter().filter(|it| it.fate == Fate::Lost && it.element == decl.name);
        Element {
            name: decl.name.clone(),
            class: decl.class.clone(),
            packets: of(|stats| stats.packets.get()),
            made: of(|stats| stats.made.get()),
            batches: of(|stats| stats.batches.get()),
            ns: of(|stats| stats.cycles.get()) as f64 * ns_per_cycle,
            lost: lost.map(|it| it.packets).sum(),
        }
    });
    all.filter(|one| one.packets > 0 || one.lost > 0).collect()
}

/// What became of packets, by element and reason.
fn reasons(router: &Router) -> Vec<Counted> {
    let (layout, stats) = (router.layout(), router.stats());
    let mut all = Vec::new();
    for (node, decl) in layout.graph.elements.iter().enumerate() {
        let mut add = |reason, meaning, fate, packets| {
            if packets > 0 {
                all.push(Counted { element: decl.name.clone(), reason, meaning, fate, packets });
            }
        };
        for (at, drop) in decl.spec.reasons().enumerate() {
            let diverted = total(stats, node, |stats| stats.diverted[at].get());
            let dropped = total(stats, node, |stats| stats.drops[at].get());
            let fate = if drop.is_consumed { Fate::Consumed } else { Fate::Lost };
            add(drop.name, drop.doc, fate, dropped.saturating_sub(diverted));
            add(drop.name, drop.doc, Fate::Diverted, diverted);
        }
        if decl.spec.purpose == Purpose::Discard {
            let packets = total(stats, node, |stats| stats.packets.get());
            add("-", "the configuration sends them here", Fate::Discarded, packets);
        }
    }
    all
}

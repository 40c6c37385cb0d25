//! Handlers that the engine itself answers, and how replicas' answers become one.

use std::fmt::Write as _;
use std::time::Duration;

use thruway_element::{Access, Answer, Handler, HandlerError, Merge, Outbox};
use thruway_lang::{EdgeKind, PortRef, Processing};

use crate::call::Call;
use crate::control::Control;
use crate::layout::Layout;
use crate::paths::passing;
use crate::ranges::ranges;

/// Longest wait for a delayed answer, by a thread that processes no packets. The answering element
/// has limits of its own; this one covers calls that end without an answer.
const LATER_MAX: Duration = Duration::from_secs(10);

/// The answer, waited for where it comes later: not for threads that move packets.
pub(crate) fn awaited(answer: Answer) -> Answer {
    match answer {
        Err(HandlerError::Later(later)) => later.wait(LATER_MAX).unwrap_or_else(|| {
            Err(HandlerError::refused(format!("no answer came within {LATER_MAX:?}")))
        }),
        other => other,
    }
}

/// Handlers of the router itself.
const GLOBAL: &[(&str, Access)] = &[
    ("classes", Access::Read),
    ("config", Access::Read),
    ("figures", Access::Read),
    ("flatconfig", Access::Read),
    ("gaps", Access::Read),
    ("graph", Access::Read),
    ("handlers", Access::Read),
    ("list", Access::Read),
    ("packages", Access::Read),
    ("requirements", Access::Read),
    ("statistics", Access::Read),
    ("stop", Access::Write),
    ("swaps", Access::Read),
    ("threads", Access::Read),
    ("trace", Access::ReadWrite),
    ("version", Access::Read),
];

pub(crate) fn read_global(
    layout: &Layout,
    control: &Control,
    name: &str,
) -> Result<String, HandlerError> {
    let lines = |items: &mut dyn Iterator<Item = String>| {
        items.fold(String::new(), |text, item| text + &item + "\n")
    };
    Ok(match name {
        "version" => env!("CARGO_PKG_VERSION").to_owned(),
        "list" => {
            let mut names = layout.graph.elements.iter().map(|decl| decl.name.clone());
            format!("{}\n{}", layout.graph.elements.len(), lines(&mut names))
        }
        "classes" => {
            let mut classes: Vec<String> =
                layout.graph.elements.iter().map(|decl| decl.class.clone()).collect();
            classes.sort_unstable();
            classes.dedup();
            lines(&mut classes.into_iter())
        }
        // A compact configuration is kept flat, as in Click.
        "config" if !compact(layout) => {
            layout.graph.sources.source(0).map_or(String::new(), |s| s.text.clone())
        }
        "config" => thruway_lang::unparse(&layout.graph),
        "flatconfig" => thruway_lang::unparse(&layout.graph),
        "handlers" => lines(&mut GLOBAL.iter().map(|(name, access)| describe(name, *access))),
        "requirements" => lines(&mut layout.graph.requirements.iter().map(ToString::to_string)),
        "packages" => String::new(),
        "figures" => crate::figures::lines(layout, control.figures(), control.facts()),
        "gaps" => crate::statistics::gaps(layout, control),
        "graph" => graph(layout),
        "statistics" => crate::statistics::lines(layout, control),
        "swaps" => control.hot_swaps(),
        "threads" => control.stats().len().to_string(),
        _ => return Err(HandlerError::no_read(name)),
    })
}

/// Whether the configuration has `require(compact_config)`.
fn compact(layout: &Layout) -> bool {
    layout.graph.requirements.iter().any(|requirement| requirement.kind == "compact_config")
}

pub(crate) fn write_global(control: &Control, name: &str, value: &str) -> Result<(), HandlerError> {
    match name {
        "hotconfig" => control.reconfigure(value),
        "reload" => control.reload(value),
        "stop" => {
            control.stop();
            Ok(())
        }
        _ => Err(HandlerError::no_write(name)),
    }
}

/// Whether a read of one of the router's own handlers has an effect: that of a trace takes the
/// events.
pub(crate) fn global_has_effect(call: &Call<'_>) -> bool {
    call.name == "trace" && !call.param.trim().is_empty()
}

fn describe(name: &str, access: Access) -> String {
    let rights = match access {
        Access::Read => "r",
        Access::Write => "w",
        Access::ReadWrite => "rw",
    };
    format!("{name}\t{rights}")
}

/// Answers the handlers that every element has.
pub(crate) fn read_default(
    layout: &Layout,
    out: &Outbox,
    node: usize,
    name: &str,
) -> Option<String> {
    let decl = &layout.graph.elements[node];
    let stats = out.counters(node as u32);
    Some(match name {
        "name" => decl.name.clone(),
        "class" => decl.class.clone(),
        "config" => decl.config.clone(),
        "ports" => ports(layout, node),
        "handlers" => {
            let own = decl.spec.handlers;
            let others =
                Handler::OF_ALL.iter().filter(|all| own.iter().all(|h| h.name != all.name));
            let all = own.iter().chain(others);
            all.fold(String::new(), |text, h| text + &describe(h.name, h.access) + "\n")
        }
        "home_thread" => layout.home[node].to_string(),
        "passing_threads" => ranges(&passing(layout, node)),
        "packets" => stats.packets.get().to_string(),
        "made" => stats.made.get().to_string(),
        "batches" => stats.batches.get().to_string(),
        "cycles" => stats.cycles.get().to_string(),
        "drops" | "drop_reasons" => drops(decl.spec, stats),
        _ => return None,
    })
}

/// A line per drop reason: count and name.
fn drops(spec: &thruway_element::Spec, stats: &thruway_element::NodeStats) -> String {
    let mut text = String::new();
    for (drop, count) in spec.reasons().zip(&stats.drops) {
        let _ = writeln!(text, "{} {}", count.get(), drop.name);
    }
    text
}

/// The `graph` handler: the connections, for programs that draw the graph. A line each, its words
/// separated by tabs:
///
/// - `element NAME CLASS THREADS HANDLERS`: threads that have a replica (`0,2-3`), and names of the
///   class's own handlers that can be read without an effect, separated by commas; `-` for none;
/// - `edge FROM OUTPUT TO INPUT MODE KIND`: elements by their place among the elements, from 0;
///   MODE is push or pull, KIND is packet or context.
fn graph(layout: &Layout) -> String {
    let or_none = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    let mut text = String::new();
    for (decl, threads) in layout.graph.elements.iter().zip(&layout.threads) {
        let shown = |one: &&Handler| one.access.readable() && !one.private && !one.effect;
        let names: Vec<&str> = decl.spec.handlers.iter().filter(shown).map(|h| h.name).collect();
        let (threads, names) = (or_none(ranges(threads)), or_none(names.join(",")));
        let _ = writeln!(text, "element\t{}\t{}\t{threads}\t{names}", decl.name, decl.class);
    }
    for edge in &layout.graph.edges {
        let output = layout.checked.elements[edge.from.element].outputs.get(edge.from.port);
        let is_pull = output.is_some_and(|port| port.processing == Processing::Pull);
        let mode = if is_pull { "pull" } else { "push" };
        let kind = match edge.kind {
            EdgeKind::Packet => "packet",
            EdgeKind::Context => "context",
        };
        let (from, to) = (edge.from, edge.to);
        let _ = write!(text, "edge\t{}\t{}\t{}\t{}", from.element, from.port, to.element, to.port);
        let _ = writeln!(text, "\t{mode}\t{kind}");
    }
    text
}

/// The `ports` handler, as Click prints it.
fn ports(layout: &Layout, node: usize) -> String {
    let ports = &layout.checked.elements[node];
    let mut text = String::new();
    for (list, word) in [(&ports.inputs, "input"), (&ports.outputs, "output")] {
        let plural = if list.len() == 1 { "" } else { "s" };
        let _ = writeln!(text, "{} {word}{plural}", list.len());
        for port in list {
            let processing = if port.processing == Processing::Push { "push" } else { "pull" };
            let agnostic = if port.agnostic { "~" } else { "" };
            let peers: Vec<String> = port
                .edges
                .iter()
                .map(|edge| {
                    peer(
                        layout,
                        if word == "input" {
                            layout.graph.edges[*edge].from
                        } else {
                            layout.graph.edges[*edge].to
                        },
                        word == "input",
                    )
                })
                .collect();
            let _ = writeln!(text, "{processing}{agnostic}\t-\t{}", peers.join(", "));
        }
    }
    text
}

fn peer(layout: &Layout, port: PortRef, is_source: bool) -> String {
    let name = &layout.graph.elements[port.element].name;
    if is_source { format!("{name} [{}]", port.port) } else { format!("[{}] {name}", port.port) }
}

/// How the answers of `name`'s replicas become one.
pub(crate) fn merge_of(layout: &Layout, node: usize, name: &str) -> Merge {
    layout.graph.elements[node].spec.handler(name).map_or(Merge::First, |handler| handler.merge)
}

/// Makes one answer out of several.
pub(crate) fn merge(
    merge: Merge,
    answers: Vec<Result<String, HandlerError>>,
) -> Result<String, HandlerError> {
    let answers: Vec<String> = answers.into_iter().collect::<Result<_, _>>()?;
    Ok(match merge {
        Merge::Concat => answers.concat(),
        Merge::Lines => answers.join("\n"),
        Merge::Sum if answers.len() > 1 => sum(&answers),
        _ => answers.into_iter().next().unwrap_or_default(),
    })
}

/// Adds numbers that stand at the same place; other text is taken from the first.
fn sum(answers: &[String]) -> String {
    let Some((first, others)) = answers.split_first() else { return String::new() };
    others.iter().fold(first.clone(), |total, other| {
        let mut theirs = other.split(' ').flat_map(|w| w.split_inclusive('\n'));
        let mut out = String::with_capacity(total.len());
        for (at, word) in total.split(' ').enumerate() {
            if at > 0 {
                out.push(' ');
            }
            for piece in word.split_inclusive('\n') {
                out.push_str(&add(piece, theirs.next().unwrap_or("")));
            }
        }
        out
    })
}

fn add(a: &str, b: &str) -> String {
    let (number, end) = a.strip_suffix('\n').map_or((a, ""), |number| (number, "\n"));
    let other = b.trim_end();
    if let (Ok(x), Ok(y)) = (number.parse::<i128>(), other.parse::<i128>()) {
        return format!("{}{end}", x.saturating_add(y));
    }
    match (number.parse::<f64>(), other.parse::<f64>()) {
        (Ok(x), Ok(y)) => format!("{}{end}", x + y),
        _ => a.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_replicas_add_up_where_they_stand() {
        let of = |texts: &[&str]| {
            let answers = texts.iter().map(|text| Ok((*text).to_owned())).collect();
            merge(Merge::Sum, answers).unwrap()
        };
        assert_eq!(of(&["3", "4"]), "7");
        assert_eq!(
            of(&["3 bad-length\n1 other\n", "4 bad-length\n0 other\n"]),
            "7 bad-length\n1 other\n"
        );
        assert_eq!(of(&["1.5", "2"]), "3.5");
        assert_eq!(of(&["name", "name"]), "name");
    }
}

//! What a data plane reports, as a graph.

use std::collections::HashMap;

use super::view::{
    ChainGraph, GraphDrop, GraphEdge, GraphElement, GraphFunction, GraphQueue, GraphSessions,
    GraphThread,
};

/// Elements of which more than their counters is reported, at most: metrics name them by a label.
const ASKED_MAX: usize = 256;

/// Handlers by which an element is known to store packets.
const QUEUE: [&str; 3] = ["length", "capacity", "highwater_length"];
/// Handlers by which an element is known to be a function.
const FUNCTION: [&str; 7] =
    ["state", "pid", "restarts", "packets_in", "packets_out", "occupancy", "last_error"];
/// What data planes of earlier versions do not report of a function, or report otherwise.
const FUNCTION_MORE: [&str; 5] = ["slots", "hangs", "timed_batches", "late_batches", "latency"];
/// Handlers of a FlowClassifier.
const SESSIONS: [&str; 5] = ["sessions", "created", "expired", "closed", "refused"];
/// What data planes of earlier versions may not report of sessions.
const SESSIONS_MORE: [&str; 2] = ["total_capacity", "count_fids"];

/// A batch that was with a function for so many nanoseconds is late: the lower limit of a bucket
/// of its handler `latency`, about a millisecond.
const LATE_NS: u64 = 1 << 20;

/// What an element is asked for besides its counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Queue,
    Function,
    Sessions,
}

impl Kind {
    /// By the handlers that an element has.
    fn of(class: &str, handlers: &[&str]) -> Option<Kind> {
        let has = |names: &[&str]| names.iter().all(|name| handlers.contains(name));
        if has(&FUNCTION) {
            Some(Kind::Function)
        } else if class == "FlowClassifier" && has(&SESSIONS) {
            Some(Kind::Sessions)
        } else if has(&QUEUE) {
            Some(Kind::Queue)
        } else {
            None
        }
    }

    fn handlers(self) -> Vec<&'static str> {
        match self {
            Kind::Queue => QUEUE.to_vec(),
            Kind::Function => FUNCTION.into_iter().chain(FUNCTION_MORE).collect(),
            Kind::Sessions => SESSIONS.into_iter().chain(SESSIONS_MORE).collect(),
        }
    }
}

/// A graph, and which of its elements are to be asked for more.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// The graph.
    pub(super) graph: ChainGraph,
    asked: Vec<(usize, Kind)>,
}

impl Report {
    /// Reads the handlers `graph` and `statistics`.
    ///
    /// # Errors
    /// The line that cannot be read.
    pub(super) fn parse(graph: &str, statistics: &str) -> Result<Report, String> {
        let mut report = Report::default();
        for line in graph.lines() {
            let words: Vec<&str> = line.split('\t').collect();
            report.graph_line(&words).ok_or_else(|| odd("graph", line))?;
        }
        let count = report.graph.elements.len();
        if report.graph.edges.iter().any(|edge| edge.from >= count || edge.to >= count) {
            return Err("an edge of its graph is of no element".to_owned());
        }
        let names = report.graph.elements.iter().enumerate();
        let at: HashMap<String, usize> = names.map(|(at, one)| (one.name.clone(), at)).collect();
        for line in statistics.lines() {
            let words: Vec<&str> = line.split('\t').collect();
            let read = report.statistics_line(&words, &at);
            read.ok_or_else(|| odd("statistics", line))?;
        }
        Ok(report)
    }

    fn graph_line(&mut self, words: &[&str]) -> Option<()> {
        match *words {
            ["element", name, class, threads, handlers, ..] => {
                let handlers: Vec<&str> = handlers.split(',').collect();
                let kind = Kind::of(class, &handlers).filter(|_| self.asked.len() < ASKED_MAX);
                // All FlowClassifiers share one table.
                let is_second =
                    |kind| kind == Kind::Sessions && self.asked.iter().any(|(_, one)| *one == kind);
                if let Some(kind) = kind.filter(|kind| !is_second(*kind)) {
                    self.asked.push((self.graph.elements.len(), kind));
                }
                let [name, class, threads] = [name, class, threads].map(str::to_owned);
                let element = GraphElement { name, class, threads, ..GraphElement::default() };
                self.graph.elements.push(element);
            }
            ["element", ..] => return None,
            ["edge", from, output, to, input, mode, kind, ..] => {
                let edge = GraphEdge {
                    from: from.parse().ok()?,
                    output: output.parse().ok()?,
                    to: to.parse().ok()?,
                    input: input.parse().ok()?,
                    is_pull: mode == "pull",
                    is_context: kind == "context",
                    packets: None,
                };
                self.graph.edges.push(edge);
            }
            ["edge", ..] => return None,
            // Of a later version.
            _ => {}
        }
        Some(())
    }

    /// Lines of elements that the graph does not have are of another configuration, which took over
    /// meanwhile.
    fn statistics_line(&mut self, words: &[&str], at: &HashMap<String, usize>) -> Option<()> {
        let number = |at: usize| words.get(at)?.parse::<u64>().ok();
        let element = || at.get(*words.get(1)?).copied();
        match *words.first()? {
            "time" => {
                self.graph.cycles = number(1)?;
                self.graph.time_us = number(2)? / 1000;
            }
            "thread" => {
                let (idle_cycles, packets) = (number(2)?, number(3)?);
                self.graph.threads.push(GraphThread { idle_cycles, packets });
            }
            "element" => {
                let (packets, cycles) = (number(3)?, number(5)?);
                if let Some(at) = element() {
                    let element = &mut self.graph.elements[at];
                    (element.packets, element.cycles) = (packets, cycles);
                    element.made = number(6).unwrap_or_default();
                }
            }
            "drop" => {
                let (reason, packets) = ((*words.get(2)?).to_owned(), number(3)?);
                let fate = words.get(4).copied().unwrap_or("lost").to_owned();
                if let Some(at) = element() {
                    self.graph.elements[at].drops.push(GraphDrop { reason, packets, fate });
                }
            }
            _ => {}
        }
        Some(())
    }

    /// The handlers that are to be read, in order.
    pub(super) fn calls(&self) -> Vec<String> {
        let of = |(at, kind): &(usize, Kind)| {
            let name = self.graph.elements[*at].name.clone();
            kind.handlers().into_iter().map(move |handler| format!("{name}.{handler}"))
        };
        self.asked.iter().flat_map(of).collect()
    }

    /// What the handler `figures` has of [`Report::calls`], in the same order: data planes publish
    /// it, and no thread of theirs need be asked.
    ///
    /// # Errors
    /// The line that cannot be read.
    pub(super) fn published(&self, figures: &str) -> Result<Vec<Option<String>>, String> {
        let mut known = HashMap::new();
        for line in figures.lines() {
            let mut words = line.splitn(4, '\t');
            let (kind, name) = (words.next(), words.next());
            // Others are of a later version.
            if matches!(kind, Some("figure" | "fact")) {
                let (Some(name), Some(what), Some(value)) = (name, words.next(), words.next())
                else {
                    return Err(odd("figures", line));
                };
                known.insert((name, what), value);
            }
        }
        let of = |call: String| {
            let (name, what) = call.rsplit_once('.')?;
            known.get(&(name, what)).map(|value| (*value).to_owned())
        };
        Ok(self.calls().into_iter().map(of).collect())
    }

    /// Takes what [`Report::calls`] asked for; `None` where a handler was refused.
    pub(super) fn answers(&mut self, values: &[Option<String>]) {
        let mut values = values.iter().map(|value| value.as_deref().map(str::trim));
        for (element, kind) in std::mem::take(&mut self.asked) {
            let count = kind.handlers().len();
            let answers: Vec<Option<&str>> = values.by_ref().take(count).collect();
            self.answer(element, kind, &answers);
        }
    }

    fn answer(&mut self, element: usize, kind: Kind, answers: &[Option<&str>]) {
        let text = |at: usize| answers.get(at).copied().flatten().unwrap_or_default().to_owned();
        let number = |at: usize| answers.get(at).copied().flatten()?.parse::<u64>().ok();
        let count = |at: usize| number(at).unwrap_or_default();
        match kind {
            Kind::Queue => {
                // Without both it says nothing.
                let (Some(length), Some(capacity)) = (number(0), number(1)) else { return };
                let highwater = number(2);
                self.graph.queues.push(GraphQueue { element, length, capacity, highwater });
            }
            Kind::Function => {
                let timed = match (number(9), number(10)) {
                    (Some(all), Some(late)) => Some((all, late)),
                    _ => answers.get(11).copied().flatten().and_then(latency),
                };
                self.graph.functions.push(GraphFunction {
                    element,
                    state: text(0),
                    pid: count(1),
                    restarts: count(2),
                    packets_in: count(3),
                    packets_out: count(4),
                    occupancy: count(5),
                    last_error: text(6),
                    slots: number(7),
                    hangs: number(8),
                    batches: timed.map(|(all, _)| all),
                    late_batches: timed.map(|(_, late)| late),
                });
            }
            Kind::Sessions => {
                let sessions = GraphSessions {
                    element,
                    now: count(0),
                    created: count(1),
                    expired: count(2),
                    closed: count(3),
                    refused: count(4),
                    capacity: number(5),
                    free: number(6),
                };
                self.graph.sessions = Some(sessions);
            }
        }
    }
}

/// Batches of a function that were timed, and those of them that took [`LATE_NS`] or longer, by
/// its handler `latency`: a line `<LIMITns COUNT` for each bucket, in order, and a last one
/// `>= COUNT`.
fn latency(text: &str) -> Option<(u64, u64)> {
    let (mut all, mut late) = (0u64, 0u64);
    for line in text.lines() {
        let (limit, count) = line.split_once(' ')?;
        let count: u64 = count.trim().parse().ok()?;
        let limit = match limit.strip_prefix('<') {
            Some(limit) => limit.strip_suffix("ns")?.parse().ok()?,
            None => u64::MAX,
        };
        all = all.saturating_add(count);
        if limit > LATE_NS {
            late = late.saturating_add(count);
        }
    }
    Some((all, late))
}

fn odd(handler: &str, line: &str) -> String {
    format!("its handler {handler} has a line '{}'", line.escape_debug())
}

/// Configurations that took over, by the handler `swaps`.
pub(super) fn swaps(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("taken ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRAPH: &str = "element\ts\tFromDevice\t0\tcount,method\n\
                         element\tq\tQueue\t0-1\tlength,highwater_length,capacity\n\
                         element\tnf\tNf\t0\tpackets_in,packets_out,occupancy,restarts,state,pid,last_error\n\
                         element\tfc\tFlowClassifier\t-\tsessions,created,expired,closed,refused\n\
                         edge\t0\t0\t1\t0\tpush\tpacket\nedge\t1\t0\t2\t0\tpull\tcontext\nfuture\tline\n";

    #[test]
    fn handlers_are_read_line_by_line() {
        let statistics = "time\t100\t2500\nthread\t0\t7\t9\t1\t1\t1\nclock\t0\trunning\n\
                          element\ts\tFromDevice\t9\t3\t50\t2\n\
                          drop\tq\tqueue-full\t4\tlost\nelement\told\tNull\t1\t1\t1\t0\n";
        let mut report = Report::parse(GRAPH, statistics).expect("read");
        assert_eq!((report.graph.time_us, report.graph.cycles), (2, 100));
        assert_eq!(report.graph.threads, [GraphThread { idle_cycles: 7, packets: 9 }]);
        let [s, q, ..] = &report.graph.elements[..] else { panic!("four elements") };
        assert_eq!((s.packets, s.cycles, s.made, s.threads.as_str()), (9, 50, 2, "0"));
        let full = GraphDrop { reason: "queue-full".into(), packets: 4, fate: "lost".into() };
        assert_eq!(q.drops, [full]);
        let edge = report.graph.edges[1];
        assert_eq!((edge.from, edge.to, edge.is_pull, edge.is_context), (1, 2, true, true));
        let calls = report.calls();
        assert_eq!(calls[..3], ["q.length", "q.capacity", "q.highwater_length"]);
        assert_eq!(calls.len(), 3 + 12 + 7);
        let values = calls.iter().enumerate().map(|(at, call)| match call.as_str() {
            "nf.state" => Some("running\n".to_owned()),
            "nf.slots" | "nf.timed_batches" => None,
            "nf.latency" => Some("<1048576ns 7\n<2097152ns 2\n>= 1\n".to_owned()),
            _ => Some(at.to_string()),
        });
        report.answers(&values.collect::<Vec<_>>());
        let queue = GraphQueue { element: 1, length: 0, capacity: 1, highwater: Some(2) };
        assert_eq!(report.graph.queues, [queue]);
        let function = &report.graph.functions[0];
        assert_eq!((function.state.as_str(), function.pid, function.slots), ("running", 4, None));
        assert_eq!((function.occupancy, function.last_error.as_str()), (8, "9"));
        let of_batches = (function.hangs, function.batches, function.late_batches);
        assert_eq!(of_batches, (Some(11), Some(10), Some(3)));
        let sessions = report.graph.sessions.expect("some");
        assert_eq!((sessions.element, sessions.now, sessions.refused), (3, 15, 19));
        assert_eq!((sessions.capacity, sessions.free), (Some(20), Some(21)));
    }

    #[test]
    fn published_figures_take_the_place_of_answers() {
        let mut report = Report::parse(GRAPH, "").expect("read");
        let figures = "figure\tq\tlength\t3\nfigure\tq\tcapacity\t9\nfigure\tgone\tlength\t1\n\
                       figure\tnf\tpackets_in\t7\nfigure\tnf\ttimed_batches\t6\n\
                       figure\tnf\tlate_batches\t2\nfact\tnf\tstate\trestarting\n\
                       fact\tnf\tlast_error\tsignal 9; it said: a\tb\nfuture\n";
        let values = report.published(figures).expect("read");
        report.answers(&values);
        let queue = GraphQueue { element: 1, length: 3, capacity: 9, highwater: None };
        assert_eq!(report.graph.queues, [queue]);
        let function = &report.graph.functions[0];
        assert_eq!((&*function.state, function.packets_in, function.pid), ("restarting", 7, 0));
        assert_eq!(function.last_error, "signal 9; it said: a\tb");
        assert_eq!((function.batches, function.late_batches), (Some(6), Some(2)));
        let report = Report::parse(GRAPH, "").expect("read");
        for line in ["figure", "figure\tq", "fact\tq\tlength", "figure\tq\tlength"] {
            assert!(report.published(line).is_err(), "{line:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for (graph, statistics) in [
            ("edge\t0\t0\t1\t0\tpush\tpacket\n", ""),
            ("element\ta\tNull\n", ""),
            ("edge\t0\tx\n", ""),
            (GRAPH, "time\t1\n"),
            (GRAPH, "drop\tq\n"),
            (GRAPH, "thread\t0\tx\ty\n"),
        ] {
            assert!(Report::parse(graph, statistics).is_err(), "{graph:?} {statistics:?}");
        }
        assert_eq!(swaps("refused 1\ntaken 3\n"), Some(3));
        assert_eq!(swaps("taken x"), None);
        for text in ["<9 1", "<xns 1", "<9ns", "<9ns x"] {
            assert_eq!(latency(text), None, "{text}");
        }
        assert_eq!(latency("<1048576ns 3\n>= 0"), Some((3, 0)));
    }
}

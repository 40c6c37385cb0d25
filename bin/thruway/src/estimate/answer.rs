//! Estimates of configurations, printed as tables, JSON and a page.

use std::fmt::Write as _;

use serde_json::{Value, json};
use thruway_element::Operation;
use thruway_model::Hardware;
use thruway_model::estimate::{Estimate, Limit, Line, Truth, error_percent};

use crate::draw::{self, Curve, Lines, Marks, Stack, escape, stacks};
use crate::table::{Table, thousands};

/// Terms that cost less than this share of all are not reported one by one.
const LITTLE: f64 = 0.02;

/// What is known of a configuration.
pub struct Answer {
    /// The host.
    pub hardware: Hardware,
    /// What the configuration comes to.
    pub estimate: Estimate,
    /// What was measured.
    pub truth: Option<Truth>,
    /// Rates by size of frame.
    pub sizes: Vec<(u32, Estimate)>,
    /// Bits a second of the link.
    pub link: Option<f64>,
    /// Elements that no packet came to.
    pub unvisited: Vec<String>,
}

/// What an estimate stands on, in a line.
fn traffic(answer: &Answer) -> String {
    let load = &answer.estimate.load;
    format!(
        "{}; packets of {:.0} bytes, {} sessions",
        answer.hardware.name,
        load.packet_bytes,
        thousands(load.sessions as u64)
    )
}

/// Tables for people.
pub fn text(answer: &Answer) -> String {
    let mut out = caveat(answer);
    let _ = write!(out, "Estimate for {}\n\n", traffic(answer));
    out += &elements(answer);
    out += "\n";
    out += &operations(&answer.estimate);
    out += "\n";
    out += &sum(answer);
    out += "\n";
    out += &rates(answer);
    out += &remarks(answer);
    out
}

/// A row per element.
fn elements(answer: &Answer) -> String {
    let has_processes = answer.estimate.lines.iter().any(|line| line.station.apart.is_some());
    let mut head = vec!["element", "class", "share", "batch", "cycles", "of memory"];
    if has_processes {
        head.push("process");
    }
    let is_refined = answer.estimate.lines.iter().any(|line| line.bill.ratio.is_some());
    if is_refined {
        head.push("declared");
    }
    if answer.truth.is_some() {
        head.extend(["measured", "error %"]);
    }
    let mut table = Table::new(&head);
    for (at, line) in answer.estimate.lines.iter().enumerate() {
        let station = &line.station;
        let mut row = vec![
            station.name.clone(),
            station.class.clone(),
            format!("{:.3}", station.visits),
            format!("{:.1}", station.batch),
            format!("{:.1}", line.bill.cycles()),
            format!("{:.1}", line.bill.memory()),
        ];
        if has_processes {
            let cycles = line.station.apart.as_ref().map(|_| line.bill.process_cycles());
            row.push(cycles.map_or("-".into(), |cycles| format!("{cycles:.1}")));
        }
        if is_refined {
            row.push(format!("{:.1}", line.bill.declared_cycles()));
        }
        if let Some(truth) = &answer.truth {
            let measured = truth.elements.get(at).copied().unwrap_or_default();
            // Elements are sampled: of some that take little no sample was taken.
            let known = error_percent(line.bill.cycles(), measured);
            row.push(known.map_or("-".into(), |_| format!("{measured:.1}")));
            row.push(known.map_or("-".into(), |error| format!("{error:.0}")));
        }
        table.row(row);
    }
    format!("Elements, cycles per packet that visits them\n\n{}", table.render())
}

/// The operations that cost most, over all elements.
fn operations(estimate: &Estimate) -> String {
    let all = estimate.cycles().max(f64::MIN_POSITIVE);
    let mut table = Table::new(&["operation", "times", "cycles", "share %", "what it is"]);
    for (operation, times, cycles) in by_operation(&estimate.lines) {
        if cycles >= all * LITTLE {
            table.row(vec![
                operation.name().to_owned(),
                format!("{times:.2}"),
                format!("{cycles:.1}"),
                format!("{:.0}", cycles / all * 100.0),
                operation.about().to_owned(),
            ]);
        }
    }
    format!("Elementary operations, per packet of the sources\n\n{}", table.render())
}

/// Operations with times and cycles per packet, the dearest first.
fn by_operation(lines: &[Line]) -> Vec<(Operation, f64, f64)> {
    let mut sums: Vec<(Operation, f64, f64)> = Vec::new();
    for line in lines {
        let of_thread = line.bill.terms.iter().map(|term| (term, line.bill.ratio));
        let of_process = line.bill.process.iter().map(|term| (term, None));
        for (term, ratio) in of_thread.chain(of_process) {
            let times = term.count * line.station.visits;
            let ratio = ratio.unwrap_or(1.0);
            let cycles = (term.work + term.memory) * ratio * line.station.visits;
            match sums.iter_mut().find(|(operation, ..)| *operation == term.operation) {
                Some(sum) => (sum.1, sum.2) = (sum.1 + times, sum.2 + cycles),
                None => sums.push((term.operation, times, cycles)),
            }
        }
    }
    sums.sort_by(|a, b| b.2.total_cmp(&a.2));
    sums
}

/// What all comes to.
fn sum(answer: &Answer) -> String {
    let estimate = &answer.estimate;
    let (rate, limit) = estimate.rate(&answer.hardware, answer.link);
    let limited = limit_of(limit, estimate);
    let mut out = format!(
        "{:.1} cycles a packet, {:.1} of them waiting for memory: {:.2} Mpps, {:.2} Gbit/s, \
         limited by {limited}\n",
        estimate.cycles(),
        estimate.memory(),
        rate / 1e6,
        gbits(rate, estimate.load.packet_bytes)
    );
    if estimate.process_cycles() > 0.0 {
        let _ = writeln!(
            out,
            "Of these, {:.1} cycles in threads and {:.1} in processes of isolated functions, without \
             what their programs do themselves.",
            estimate.thread_cycles(),
            estimate.process_cycles()
        );
    }
    if let Some(truth) = &answer.truth {
        out += &measured(estimate, truth);
    }
    out
}

fn measured(estimate: &Estimate, truth: &Truth) -> String {
    let (median, spread) = truth.cycles;
    let estimated = estimate.threads.first().copied().unwrap_or_default();
    let mut out = format!(
        "Measured from memory: {median:.1} cycles a packet on the first thread (spread \
         {spread:.1}); estimated {estimated:.1}: error {:+.1} %\n",
        error_percent(estimated, median).unwrap_or_default()
    );
    let (processes, spread) = truth.processes;
    if let Some(error) = error_percent(estimate.process_cycles(), processes) {
        let _ = writeln!(
            out,
            "Measured in processes of isolated functions: {processes:.1} cycles a packet (spread \
             {spread:.1}); estimated {:.1}: error {error:+.1} %",
            estimate.process_cycles()
        );
    }
    out
}

fn limit_of(limit: Limit, estimate: &Estimate) -> String {
    match limit {
        Limit::Link => "the link".to_owned(),
        Limit::Core(thread) if estimate.threads.len() > 1 => format!("the core of thread {thread}"),
        Limit::Core(_) if estimate.memory() * 2.0 > estimate.cycles() => {
            "the core, which mostly waits for memory".to_owned()
        }
        Limit::Core(_) => "the core".to_owned(),
        Limit::Process(line) => {
            let name = estimate.lines.get(line).map_or("", |line| line.station.name.as_str());
            format!("the core of the process of {name}")
        }
    }
}

fn gbits(rate: f64, bytes: f64) -> f64 {
    rate * bytes * 8.0 / 1e9
}

fn rates(answer: &Answer) -> String {
    let mut table = Table::new(&["bytes", "cycles", "Mpps", "Gbit/s", "limit"]);
    for (size, estimate) in &answer.sizes {
        let (rate, limit) = estimate.rate(&answer.hardware, answer.link);
        table.row(vec![
            size.to_string(),
            format!("{:.1}", estimate.cycles()),
            format!("{:.2}", rate / 1e6),
            format!("{:.2}", gbits(rate, f64::from(*size))),
            limit_of(limit, estimate),
        ]);
    }
    format!("By size of packet\n\n{}", table.render())
}

/// What is not in the numbers.
fn remarks(answer: &Answer) -> String {
    unknown(answer) + &refined(answer)
}

/// What was observed on the host, and what of that is used.
fn refined(answer: &Answer) -> String {
    let host = &answer.hardware.name;
    if answer.hardware.observed.is_of_another {
        return format!(
            "\nWhat was observed on {host} belongs to another calibration and is not used: observe \
             again (`thruway estimate --live ADDRESS --refine`), or `thruway estimate --forget`.\n"
        );
    }
    let lines = answer.estimate.lines.iter().filter(|line| line.bill.ratio.is_some());
    let names: Vec<&str> = lines.map(|line| line.station.name.as_str()).collect();
    if names.is_empty() {
        return String::new();
    }
    format!(
        "\nCycles of {} as observed on {host}, beside what they declare; `thruway estimate \
         --forget` drops what was observed.\n",
        names.join(", ")
    )
}

fn unknown(answer: &Answer) -> String {
    let names = names(answer.estimate.unknown.iter().filter(|it| !it.is_of_isolation()));
    if names.is_empty() {
        return String::new();
    }
    format!("\nNot in the host's description, counted as nothing: {names}.\n")
}

fn names<'a>(operations: impl Iterator<Item = &'a Operation>) -> String {
    operations.map(|operation| operation.name()).collect::<Vec<_>>().join(", ")
}

/// What makes the numbers those of another configuration: it comes first.
fn caveat(answer: &Answer) -> String {
    let mut out = String::new();
    if !answer.unvisited.is_empty() {
        let names = answer.unvisited.join(", ");
        let _ = write!(
            out,
            "Caution: no packet of this traffic came to {names}, so the estimate is without them; \
             if it should, describe other traffic (--traffic).\n\n"
        );
    }
    if let Some(lacks) = lacks_isolation(&answer.estimate, &answer.hardware) {
        let _ = write!(out, "Caution: {lacks}\n\n");
    }
    out
}

/// What a description lacks that was written before isolated functions were calibrated, or where
/// there was one core; and what to do.
pub fn lacks_isolation(estimate: &Estimate, hardware: &Hardware) -> Option<String> {
    let names = names(estimate.unknown.iter().filter(|it| it.is_of_isolation()));
    let host = &hardware.name;
    (!names.is_empty()).then(|| {
        format!(
            "the description of {host} does not say what isolated functions cost where these run \
             ({names}), so the estimate is without it and too low; run `thruway calibrate` on {host} \
             again."
        )
    })
}

/// The same as JSON.
pub fn json(answer: &Answer) -> Value {
    let estimate = &answer.estimate;
    let (rate, limit) = estimate.rate(&answer.hardware, answer.link);
    let lines = estimate.lines.iter().enumerate().map(|(at, line)| {
        json!({
            "element": line.station.name,
            "class": line.station.class,
            "visits": line.station.visits,
            "batch": line.station.batch,
            "cycles": line.bill.cycles(),
            "declared_cycles": line.bill.declared_cycles(),
            "is_observed": line.bill.ratio.is_some(),
            "memory_cycles": line.bill.memory(),
            "process_cycles": line.station.apart.as_ref().map(|_| line.bill.process_cycles()),
            "measured_cycles": answer.truth.as_ref().and_then(|truth| truth.elements.get(at)),
        })
    });
    let sizes = answer.sizes.iter().map(|(size, estimate)| {
        let (rate, limit) = estimate.rate(&answer.hardware, answer.link);
        json!({
            "bytes": size,
            "cycles": estimate.cycles(),
            "packets_per_second": rate,
            "bits_per_second": gbits(rate, f64::from(*size)) * 1e9,
            "limit": limit_of(limit, estimate),
        })
    });
    json!({
        "host": answer.hardware.name,
        "packet_bytes": estimate.load.packet_bytes,
        "sessions": estimate.load.sessions,
        "cycles": estimate.cycles(),
        "memory_cycles": estimate.memory(),
        "process_cycles": estimate.process_cycles(),
        "threads": estimate.threads,
        "packets_per_second": rate,
        "limit": limit_of(limit, estimate),
        "measured": answer.truth.as_ref().map(|truth| json!({
            "cycles": truth.cycles.0,
            "spread": truth.cycles.1,
            "process_cycles": truth.processes.0,
            "process_spread": truth.processes.1,
            "error_percent":
                error_percent(estimate.threads.first().copied().unwrap_or_default(), truth.cycles.0),
        })),
        "elements": lines.collect::<Vec<_>>(),
        "sizes": sizes.collect::<Vec<_>>(),
        "unknown_operations":
            estimate.unknown.iter().map(|it| it.name()).collect::<Vec<_>>(),
        "remedy": lacks_isolation(estimate, &answer.hardware),
        "unvisited": answer.unvisited,
    })
}

/// A page that needs nothing beside itself.
pub fn page(answer: &Answer) -> String {
    let lines = &answer.estimate.lines;
    let bars: Vec<Stack> = lines.iter().map(stack).collect();
    let mut body = format!("<p>{}.</p>\n", escape(&traffic(answer)));
    body += &stacks("Cycles by element and operation", "cycles per packet of the sources", &bars);
    body += &stacks("By resource", "cycles per packet of the sources", &resources(answer));
    let points = |rate: &dyn Fn(&Estimate, u32) -> f64| {
        answer.sizes.iter().map(|(size, it)| (f64::from(*size), rate(it, *size))).collect()
    };
    let packets = |it: &Estimate, _| it.rate(&answer.hardware, answer.link).0 / 1e6;
    let curves = [Curve { name: "estimate".into(), points: points(&packets), marks: Marks::Line }];
    let title = "Rate by size of packet";
    body += &Lines { title, across: "bytes of a packet", up: "Mpps", curves: &curves }.svg();
    body += &format!("<pre>{}</pre>\n", escape(&text(answer)));
    draw::page("An estimate of a configuration", &body)
}

fn stack(line: &Line) -> Stack {
    let visits = line.station.visits;
    let ratio = line.bill.ratio.unwrap_or(1.0);
    let part = |name: &str, cycles: f64| (name.to_owned(), cycles * visits);
    let mut parts: Vec<(String, f64)> =
        line.bill.terms.iter().map(|term| part(term.operation.name(), term.work * ratio)).collect();
    let process = line.bill.process.iter();
    parts.extend(process.map(|term| part(term.operation.name(), term.work)));
    parts.push(part("memory", line.bill.memory()));
    Stack { name: line.station.name.clone(), parts }
}

/// The estimate by resource, and beside it what was measured.
fn resources(answer: &Answer) -> Vec<Stack> {
    let memory = answer.estimate.memory();
    let parts =
        vec![("core".to_owned(), answer.estimate.cycles() - memory), ("memory".to_owned(), memory)];
    let mut bars = vec![Stack { name: "estimated".into(), parts }];
    if let Some(truth) = &answer.truth {
        let parts = vec![("measured".to_owned(), truth.cycles.0 + truth.processes.0)];
        bars.push(Stack { name: "measured".into(), parts });
    }
    bars
}

//! A configuration run from memory, for what its packets do: which elements they visit, in what
//! batches; and, when it is to be known, in what time.

mod error;
mod parts;
mod stand_in;

use std::sync::Arc;
use std::time::Duration;

use thruway_element::{Apart, Cost, CostModel, Load, Made, Operation, Purpose, Registry, Spec};
use thruway_engine::{Options, Router};
use thruway_lang::{Checked, Graph};

pub use error::RehearsalError;
pub use stand_in::{Captures, Replaced, Trace};

use crate::estimate::placement::Placement;
use crate::estimate::price::Station;
use parts::Parts;

/// Length of a trace with paths that branch predictors learn. (Measured: they learn 4,096, and not
/// of a million.)
const FORESEEN: f64 = 20_000.0;

/// What a run counted, or the difference between two.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counts {
    /// Per element: packets that entered, or were made.
    pub packets: Vec<u64>,
    /// Per element: batches.
    pub batches: Vec<u64>,
    /// Per element: cycles of the time stamp counter, sampled.
    pub cycles: Vec<u64>,
    /// Per element: packets that ended in it for a reason of its own.
    pub drops: Vec<u64>,
    /// Per thread, per element: packets.
    pub by_thread: Vec<Vec<u64>>,
    /// Cycles of the whole run.
    pub elapsed: u64,
    /// CPU time of its first thread, nanoseconds.
    pub cpu_ns: u64,
    /// Sessions that began.
    pub opened: u64,
}

/// A configuration that is run from memory.
pub struct Rehearsal {
    /// It, with stand-ins.
    pub router: Router,
    /// What stands in for what.
    pub replaced: Vec<Replaced>,
    /// Elements of the configuration as written; those of higher numbers only help.
    pub written: usize,
    /// What runs in processes of isolated elements.
    parts: Parts,
}

impl Rehearsal {
    /// Builds a configuration with stand-ins for what touches the world.
    ///
    /// # Errors
    /// When it cannot be built so, or receives what nobody described.
    pub fn new(
        mut graph: Graph,
        registry: &Registry,
        captures: &Captures,
        options: &Options,
    ) -> Result<Rehearsal, RehearsalError> {
        let batch = options.burst;
        let written = graph.elements.len();
        let replaced = stand_in::stand_in(&mut graph, registry, captures, batch)
            .map_err(|element| RehearsalError::NoTraffic { element })?;
        let (checked, found) = thruway_lang::resolve(&graph);
        if found.has_errors() {
            return Err(RehearsalError::Ports(Box::new(found)));
        }
        let parts = Parts::of(&graph, registry, options)?;
        let router = open(graph, checked, registry, options)?;
        Ok(Rehearsal { router, replaced, written, parts })
    }

    /// What has been counted so far.
    pub fn counts(&self) -> Counts {
        let elements = self.router.layout().graph.elements.len();
        let mut sum = Counts {
            packets: vec![0; elements],
            batches: vec![0; elements],
            cycles: vec![0; elements],
            drops: vec![0; elements],
            ..Counts::default()
        };
        for stats in self.router.stats() {
            sum.by_thread.push(stats.iter().map(|node| node.packets.get()).collect());
            for (at, node) in stats.iter().enumerate() {
                sum.packets[at] += node.packets.get();
                sum.batches[at] += node.batches.get();
                sum.cycles[at] += node.cycles.get();
                sum.drops[at] += node.drops.iter().map(|drops| drops.get()).sum::<u64>();
            }
        }
        sum
    }

    /// Runs for so long, or until it ends by itself; what that added to the counts.
    pub fn run(&mut self, time: Duration) -> Counts {
        let before = self.counts();
        let opened = self.sessions_begun();
        let control = Arc::clone(self.router.control());
        // Of this run alone: the timer may be earlier than its beginning, or later than its end.
        let run = control.run();
        let (done, stop) = std::sync::mpsc::channel::<()>();
        let timer = std::thread::spawn(move || {
            // Whichever comes first: the time, or the end of the run.
            if stop.recv_timeout(time).is_err() {
                control.halt_run(run);
            }
        });
        let cpu = cpu_time();
        let outcome = self.router.run_threads();
        let cpu_ns = cpu_time().saturating_sub(cpu);
        // It may have gone already.
        let _ = done.send(());
        let _ = timer.join();
        let opened = self.sessions_begun().saturating_sub(opened);
        Counts { elapsed: outcome.cycles, cpu_ns, opened, ..self.counts().since(&before) }
    }

    /// Sessions that have begun since the start, where the configuration has any.
    fn sessions_begun(&mut self) -> u64 {
        let elements = &self.router.layout().graph.elements;
        let classifiers = elements.iter().filter(|it| it.spec.name == "FlowClassifier");
        let names: Vec<String> = classifiers.map(|it| it.name.clone()).collect();
        let begun = names.iter().filter_map(|name| {
            self.router.read(&format!("{name}.created")).ok()?.trim().parse::<u64>().ok()
        });
        begun.sum()
    }

    /// Per element: what has replaced it, if anything has.
    fn original(&self, element: usize) -> Option<&'static Spec> {
        self.replaced.iter().find(|replaced| replaced.element == element).map(|it| it.spec)
    }

    /// Whether packets were still being read into memory for replay.
    pub fn is_loading(&self, counts: &Counts) -> bool {
        let graph = &self.router.layout().graph;
        let into = |edge: &&thruway_lang::Edge| {
            graph.elements[edge.to.element].spec.name == "ReplayUnqueue"
        };
        graph.edges.iter().filter(into).any(|edge| counts.packets[edge.from.element] > 0)
    }

    /// Elements with packets from no other element that had any.
    fn sources(&self, counts: &Counts) -> Vec<usize> {
        let edges = &self.router.layout().graph.edges;
        let fed = |element: usize| {
            let mut into = edges.iter().filter(|edge| edge.to.element == element);
            into.any(|edge| edge.from.element != element && counts.packets[edge.from.element] > 0)
        };
        (0..counts.packets.len()).filter(|at| counts.packets[*at] > 0 && !fed(*at)).collect()
    }

    /// Packets that the sources made.
    pub fn made_packets(&self, counts: &Counts) -> u64 {
        self.sources(counts).iter().map(|source| counts.packets[*source]).sum()
    }

    /// Whether each source that had packets has been through all of its trace: what comes last in
    /// it counts as much as what comes first, however slow the host.
    pub fn has_shown_all(&self, counts: &Counts) -> bool {
        let period =
            |source| Some(self.router.cost_model(source).and_then(CostModel::makes)?.period);
        self.sources(counts).into_iter().all(|source| {
            period(source).is_none_or(|period| {
                period.is_infinite() || counts.packets[source] as f64 >= period
            })
        })
    }

    /// What the sources make, together.
    pub fn made(&self, counts: &Counts) -> Option<Made> {
        let mut sum = Made { packet_bytes: 0.0, sessions: 0.0, period: 0.0 };
        let mut packets = 0.0;
        for source in self.sources(counts) {
            let made = self.router.cost_model(source).and_then(CostModel::makes)?;
            let weight = counts.packets[source] as f64;
            sum.packet_bytes += made.packet_bytes * weight;
            sum.sessions += made.sessions;
            sum.period = sum.period.max(made.period);
            packets += weight;
        }
        (packets > 0.0).then(|| Made { packet_bytes: sum.packet_bytes / packets, ..sum })
    }

    /// The elements that packets visited, in their order; `as_written` with what the replaced ones
    /// cost, else with what their stand-ins do.
    ///
    /// # Errors
    /// When no packet moved.
    pub fn stations(
        &self,
        counts: &Counts,
        load: &Load,
        as_written: bool,
    ) -> Result<Vec<(usize, Station)>, RehearsalError> {
        let made = self.made_packets(counts);
        if made == 0 {
            let why = "no source made a packet (is the capture empty, or ACTIVE false?)".into();
            return Err(RehearsalError::Still { why });
        }
        // What comes again soon is foreseen.
        let is_new = self.made(counts).is_none_or(|made| made.period > FORESEEN);
        let layout = self.router.layout();
        let visited = layout.checked.order.iter().filter(|element| counts.packets[**element] > 0);
        let station = |element: usize| {
            let decl = &layout.graph.elements[element];
            let packets = counts.packets[element] as f64;
            let original = self.original(element).filter(|_| as_written);
            let mut costs = match original {
                Some(spec) => spec.cost.to_vec(),
                None => self.costs(element, load),
            };
            let is_reported = costs.iter().any(|cost| cost.operation == Operation::Surprise);
            if is_new && !is_reported {
                costs.push(Operation::Surprise.times(self.surprises(element, counts)));
            }
            let station = Station {
                name: decl.name.clone(),
                class: original.map_or_else(|| decl.class.clone(), |spec| spec.name.to_owned()),
                arguments: self.arguments(element),
                visits: packets / made as f64,
                batch: packets / (counts.batches[element].max(1) as f64),
                costs,
                apart: self.apart(element, load),
                placement: Placement::default(),
            };
            (element, station)
        };
        Ok(visited.map(|element| station(*element)).collect())
    }

    /// Share of an element's packets that leave by another output than one would guess who knows
    /// how many leave by each: one less the sum of the shares' squares.
    fn surprises(&self, element: usize, counts: &Counts) -> f64 {
        let graph = &self.router.layout().graph;
        let all = counts.packets[element].max(1) as f64;
        let into = |target: usize| graph.edges.iter().filter(move |it| it.to.element == target);
        let (mut known, mut squares, mut unknown) = (0.0, 0.0, 0.0);
        let edges = || graph.edges.iter().filter(|edge| edge.from.element == element);
        if edges().count() < 2 {
            return 0.0;
        }
        for edge in edges() {
            let target = edge.to.element;
            if into(target).count() == 1 {
                let share = counts.packets[target] as f64 / all;
                known += share;
                squares += share * share;
            } else {
                unknown += 1.0;
            }
        }
        if unknown > 0.0 {
            squares += (1.0 - known).max(0.0).powi(2) / unknown;
        }
        // Copies, which are no surprise, make it less than nothing.
        (1.0 - squares).clamp(0.0, 1.0)
    }

    /// An element's arguments as they were written; none of one that was replaced.
    fn arguments(&self, element: usize) -> String {
        let decl = &self.router.layout().graph.elements[element];
        let is_own = self.original(element).is_none();
        let texts = decl.args.iter().filter(|_| is_own).map(|arg| arg.text.as_str());
        texts.collect::<Vec<_>>().join(", ")
    }

    /// What an element's process does, if it has one: the way there and back, and the elements that
    /// run in it. What a program does by itself nobody declares.
    fn apart(&self, element: usize, load: &Load) -> Option<Apart> {
        let mut apart = self.router.cost_model(element)?.apart(load)?;
        apart.costs.extend(self.parts.costs(element, load));
        Some(apart)
    }

    /// Processor time that the processes of isolated functions have had since they began, seconds.
    ///
    /// # Errors
    /// When one cannot be asked.
    pub fn process_seconds(&mut self) -> Result<f64, RehearsalError> {
        let elements = &self.router.layout().graph.elements;
        let functions = elements.iter().filter(|it| it.spec.purpose == Purpose::RunProcess);
        let names: Vec<String> = functions.map(|it| it.name.clone()).collect();
        let mut sum = 0.0;
        for function in names {
            let text = self.router.read(&format!("{function}.cpu_time"));
            let seconds = text.map_err(|error| error.to_string()).and_then(|text| {
                text.trim().parse::<f64>().map_err(|error| format!("{text}: {error}"))
            });
            sum += seconds.map_err(|why| RehearsalError::Function { function, why })?;
        }
        Ok(sum)
    }

    fn costs(&self, element: usize, load: &Load) -> Vec<Cost> {
        let decl = &self.router.layout().graph.elements[element];
        let said = self.router.cost_model(element).and_then(|model| model.cost(load));
        said.unwrap_or_else(|| decl.spec.cost.to_vec())
    }
}

/// Builds and initialises.
pub(crate) fn open(
    graph: Graph,
    checked: Checked,
    registry: &Registry,
    options: &Options,
) -> Result<Router, RehearsalError> {
    let copy = graph.clone();
    let options = Options { log: Arc::new(|_| ()), ..options.clone() };
    let mut router = Router::new(graph, checked, registry, &options)
        .map_err(|errors| RehearsalError::Build(Box::new(copy.clone()), errors))?;
    router.initialize().map_err(|errors| RehearsalError::Build(Box::new(copy), errors))?;
    Ok(router)
}

/// CPU time of the calling thread, nanoseconds.
fn cpu_time() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    // It counts up from zero.
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl Counts {
    /// What was added to `before`; no times.
    fn since(&self, before: &Counts) -> Counts {
        self.with(before, u64::saturating_sub)
    }

    /// Adds what a further run counted.
    pub fn add(&mut self, more: &Counts) {
        let times = (self.elapsed + more.elapsed, self.cpu_ns + more.cpu_ns);
        let opened = self.opened + more.opened;
        *self = self.with(more, u64::saturating_add);
        (self.elapsed, self.cpu_ns) = times;
        self.opened = opened;
    }

    /// Each count with the other's of the same kind; no times.
    fn with(&self, other: &Counts, of: fn(u64, u64) -> u64) -> Counts {
        let each = |one: &[u64], other: &[u64]| -> Vec<u64> {
            one.iter().zip(other).map(|(one, other)| of(*one, *other)).collect()
        };
        Counts {
            packets: each(&self.packets, &other.packets),
            batches: each(&self.batches, &other.batches),
            cycles: each(&self.cycles, &other.cycles),
            drops: each(&self.drops, &other.drops),
            by_thread: (self.by_thread.iter().zip(&other.by_thread))
                .map(|(one, other)| each(one, other))
                .collect(),
            ..Counts::default()
        }
    }
}

#[cfg(test)]
mod tests;

//! A router: a configuration, instantiated, with its threads.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Instant;

use thruway_element::{CostModel, HandlerError, Registry, Remote, Shared, Stats};
use thruway_lang::{Checked, Graph};

use crate::assign;
use crate::build;
use crate::call::Call;
use crate::clock::{ClockKind, Time};
use crate::control::{Control, LogSink};
use crate::core::Core;
use crate::engine::Engine;
use crate::error::{BuildError, Stage};
use crate::figures::NodeFacts;
use crate::flows::{self, Flows};
use crate::handlers;
use crate::handoff;
use crate::layout::Layout;
use crate::packet_threads;
use crate::patience::Idle;
use crate::remote;
use crate::spread::{Placement, Spread};
use crate::streams::{self, Streams};
use crate::topology::Topology;
use crate::trace::{Event, Order, Scope};

/// See [`Options::provide`].
pub type Provide = Arc<dyn Fn(&Shared) + Send + Sync>;

/// How a configuration is to be run.
#[derive(Clone)]
pub struct Options {
    /// Threads, at least 1.
    pub threads: usize,
    /// Whether unplaced tasks are spread over the threads (else all are in the first, as in Click).
    pub spread: bool,
    /// Where they are spread: how threads share the inputs.
    pub placement: Placement,
    /// The core of each thread; empty: chosen, where there are several threads and enough cores.
    pub cores: Vec<usize>,
    /// Packets that sources make per run when the user did not say.
    pub burst: usize,
    /// Whether a stop that an element asks for lets queued packets reach their end first, for a
    /// second at most; Click stops at once.
    pub drain: bool,
    /// Which time elements see.
    pub clock: ClockKind,
    /// Behaviour of idle threads.
    pub idle: Idle,
    /// Where elements' lines for the user go.
    pub log: LogSink,
    /// Adds the driver's objects to the state that elements share, under names that no element has.
    /// Called for each configuration before its elements are built.
    pub provide: Option<Provide>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            threads: 1,
            spread: false,
            placement: Placement::Balanced,
            cores: Vec::new(),
            burst: 1,
            drain: false,
            clock: ClockKind::System,
            idle: Idle::Sleep,
            log: Arc::new(|line| drop(writeln!(std::io::stderr(), "{line}"))),
            provide: None,
        }
    }
}

/// The result of a run.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Wall-clock time from the first to the last round.
    pub elapsed: std::time::Duration,
    /// Cycles of the time stamp counter in the same time.
    pub cycles: u64,
    /// Whether only [`Control::pause`] ended it: there was no stop.
    pub paused: bool,
    /// Threads that died, and unfinished work: files not written to the end.
    pub errors: Vec<BuildError>,
}

/// A configuration, instantiated.
pub struct Router {
    pub(crate) layout: Arc<Layout>,
    control: Arc<Control>,
    pub(crate) engines: Vec<Engine>,
    pub(crate) flows: Flows,
    streams: Streams,
    /// The core of each thread, if it is to have one.
    cores: Vec<Option<usize>>,
}

impl Router {
    /// Builds all elements; opens nothing yet.
    ///
    /// # Errors
    /// Every wrong argument of every element.
    pub fn new(
        graph: Graph,
        checked: Checked,
        registry: &Registry,
        options: &Options,
    ) -> Result<Router, Vec<BuildError>> {
        let threads = options.threads.max(1);
        let addresses = build::declare(&graph, registry)?;
        let shares = build::shares(&graph, &checked, registry, &addresses)?;
        let topology = Topology::of_this_machine();
        let devices: Vec<usize> = shares.iter().flatten().filter_map(|share| share.node).collect();
        let cores = topology.choose(threads, &options.cores, &devices);
        let spread = Spread {
            threads,
            around: options.spread,
            placement: options.placement,
            nodes: cores.iter().map(|core| topology.node((*core)?)).collect(),
        };
        let assigned = assign::assign(&graph, &checked, &spread, &shares)?;
        let layout = Arc::new(Layout::new(graph, checked, registry, assigned));
        let control =
            Control::new(threads, options.drain, Arc::clone(&options.log)).map_err(|error| {
                let message =
                    format!("cannot make a mailbox: {error}; raise the limit of open files");
                vec![BuildError::of_run(Stage::Initialize, message)]
            })?;
        let control = Arc::new(control);
        let shared = Shared::default();
        if let Some(provide) = &options.provide {
            provide(&shared);
        }
        let built = |thread| build::elements(&layout, registry, &addresses, &shared, thread);
        let mut replicas = (0..threads).map(built).collect::<Result<Vec<_>, _>>()?;
        let streams = streams::plan(&layout, registry, &mut replicas)?;
        let flows = flows::plan(&layout, &mut replicas, &addresses)?;
        let mut engines = Vec::new();
        let reference = Arc::default();
        for (thread, elements) in replicas.into_iter().enumerate() {
            let mut time = Time::new(options.clock, &reference);
            let (wires, out) = build::wires(&layout, time.start());
            let core = Core::new(
                Arc::clone(&layout),
                Arc::clone(&control),
                thread,
                (elements, wires),
                options.burst,
            );
            engines.push(Engine::new(out, core, time, options.idle));
        }
        flows::install(&flows, &mut engines)?;
        handoff::install(&flows, &mut engines);
        control.set_layout(Arc::clone(&layout));
        control.set_stats(engines.iter().map(|engine| Arc::clone(engine.out.stats())).collect());
        let figures = engines.iter().map(|engine| Arc::clone(&engine.core.figures));
        control.set_figures(figures.collect());
        Ok(Router { layout, control, engines, flows, streams, cores })
    }

    /// The contexts of streams.
    pub fn streams(&self) -> &Streams {
        &self.streams
    }

    /// The flow manager's view of the configuration.
    pub fn flows(&self) -> &Flows {
        &self.flows
    }

    /// The checked graph and the assignment to threads.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// An element, while nothing runs: its first replica.
    pub fn cost_model(&self, node: usize) -> Option<&dyn CostModel> {
        let thread = *self.layout.threads.get(node)?.first()?;
        let element = self.engines.get(thread)?.core.elements.get(node)?.as_deref()?;
        self.layout.entries[node]?.cost_model(element)
    }

    /// The handle for stopping and asking.
    pub fn control(&self) -> &Arc<Control> {
        &self.control
    }

    /// The handlers, for threads that run no elements.
    pub fn remote(&self) -> Arc<dyn Remote> {
        remote::of(&self.layout, &self.control, 0)
    }

    /// Every thread's counters.
    pub fn stats(&self) -> &[Arc<Stats>] {
        self.control.stats()
    }

    /// Opens files and devices, starts timers.
    ///
    /// # Errors
    /// Everything that could not be opened, with the remedy.
    pub fn initialize(&mut self) -> Result<(), Vec<BuildError>> {
        let mut errors = Vec::new();
        for engine in &mut self.engines {
            for node in 0..self.layout.graph.elements.len() {
                let Engine { out, core, .. } = engine;
                let done = core.with(out, node as u32, |element, cx| element.initialize(cx));
                if let Some(Err(message)) = done {
                    errors.push(BuildError::at(Stage::Initialize, node, message));
                }
            }
        }
        if errors.is_empty() {
            // Packets emitted during initialisation (a Script's handlers may do that) go first.
            self.engines.iter_mut().for_each(Engine::drain);
            // Figures are there from the first read on.
            self.engines.iter_mut().for_each(Engine::publish);
            self.control.set_facts(self.facts());
            Ok(())
        } else {
            Err(errors)
        }
    }

    /// The facts about elements: of the first replica of each.
    fn facts(&self) -> NodeFacts {
        let mut facts: NodeFacts = Vec::new();
        for (node, one) in self.engines.iter().flat_map(|engine| engine.core.facts()) {
            if facts.iter().all(|(known, _)| *known != node) {
                facts.push((node, one));
            }
        }
        facts
    }

    /// Runs until a stop and finishes: files are flushed and closed.
    pub fn run(&mut self) -> Outcome {
        let mut outcome = self.run_threads();
        outcome.errors.extend(self.finish());
        outcome
    }

    /// Runs until a stop; the first engine in the calling thread, the others in threads of their
    /// own, each on a core of its own where there are enough. A thread that dies (an element's
    /// panic) ends the run of all. After a stop or pause the router can run again; after
    /// [`Control::end`] a run ends at once.
    pub fn run_threads(&mut self) -> Outcome {
        let begin = Instant::now();
        let cycles = thruway_packet::cycles();
        self.control.set_running(true);
        let engines = std::mem::take(&mut self.engines);
        let (engines, errors) = packet_threads::run(engines, &self.control, &self.cores);
        self.engines = engines;
        self.control.set_running(false);
        let paused = self.control.finish_run();
        Outcome {
            paused,
            elapsed: begin.elapsed(),
            cycles: thruway_packet::cycles().wrapping_sub(cycles),
            errors,
        }
    }

    /// Lets every element flush and close; returns the failures.
    pub fn finish(&mut self) -> Vec<BuildError> {
        let mut errors = Vec::new();
        for engine in &mut self.engines {
            engine.finish(&mut errors);
        }
        errors
    }

    /// Reads a handler of a router that is not running: `element.handler param`.
    ///
    /// # Errors
    /// As the handler's.
    pub fn read(&mut self, call: &str) -> Result<String, HandlerError> {
        let layout = Arc::clone(&self.layout);
        let call = Call::parse(&layout, 0, call)?;
        let Some(node) = call.node else {
            if call.name == "trace" {
                let Router { control, engines, .. } = self;
                let scope = Scope { layout: &layout, control };
                return scope.read(&mut |thread, order| obey(engines, thread, order), call.param);
            }
            return handlers::read_global(&layout, &self.control, call.name);
        };
        let merge = handlers::merge_of(&layout, node, call.name);
        let mut answers = Vec::new();
        for thread in &layout.threads[node] {
            if let Some(engine) = self.engines.get_mut(*thread) {
                let Engine { out, core, .. } = engine;
                let answer = core.read_local(out, node, call.name, call.param);
                answers.push(handlers::awaited(answer));
            }
            if merge.one_speaks() && !answers.is_empty() {
                break;
            }
        }
        handlers::merge(merge, answers)
    }

    /// Writes a handler of a router that is not running.
    ///
    /// # Errors
    /// As the handler's.
    pub fn write(&mut self, call: &str, value: &str) -> Result<(), HandlerError> {
        let layout = Arc::clone(&self.layout);
        let call = Call::parse(&layout, 0, call)?;
        let Some(node) = call.node else {
            if call.name == "trace" {
                let Router { control, engines, .. } = self;
                let scope = Scope { layout: &layout, control };
                return scope.write(&mut |thread, order| obey(engines, thread, order), value);
            }
            return handlers::write_global(&self.control, call.name, value);
        };
        let merge = handlers::merge_of(&layout, node, call.name);
        for thread in &layout.threads[node] {
            if let Some(engine) = self.engines.get_mut(*thread) {
                let Engine { out, core, .. } = engine;
                let done = core.write_local(out, node, call.name, value);
                handlers::awaited(done.map(|()| String::new()))?;
                engine.drain();
            }
            if merge.one_is_written() {
                break;
            }
        }
        Ok(())
    }
}

/// Has a thread that is not running do something about traces.
fn obey(engines: &mut [Engine], thread: usize, order: Order) -> Result<Vec<Event>, HandlerError> {
    let Some(Engine { out, core, .. }) = engines.get_mut(thread) else {
        return Err(HandlerError::refused(format!("thread {thread} did not start")));
    };
    Ok(core.change_trace(out, order))
}

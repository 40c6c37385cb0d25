//! What a configuration costs on a host.

pub mod placement;
pub mod price;
pub mod residency;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use thruway_element::{Load, Made, Operation};

use crate::calibrate::allowed;
use crate::calibrate::statistics::Summary;
use crate::hardware::Hardware;
use crate::rehearsal::{Counts, Rehearsal, RehearsalError};
use placement::{Assignment, assign};
use price::{Bill, Station, price};

/// How long a configuration runs until its tables and batches are as they will be.
const WARM: Duration = Duration::from_millis(20);
/// How often that is tried again while traces are loaded, which the user waits for.
const LOADS: usize = 1500;
/// Time for which packets' paths are counted, repeated until all of a trace was shown.
const WATCH: Duration = Duration::from_millis(20);
/// How often at most: a second of a trace is enough of it.
const LOOKS: usize = 50;
/// The same where no packet moved: its sources have ended, or a busy machine gave it no time.
const STILL_LOOKS: usize = 10;
/// Packets that were too few to say anything about time.
const FEW: u64 = 10_000;

/// Properties of the traffic that override the rehearsal's.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Assumed {
    /// Bytes of a packet.
    pub packet_bytes: Option<f64>,
    /// Sessions.
    pub sessions: Option<f64>,
}

/// One element of an estimate.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Its index in the graph.
    pub element: usize,
    /// Its place in the chain.
    pub station: Station,
    /// What it comes to.
    pub bill: Bill,
}

impl Line {
    /// Cycles of threads per packet of the sources.
    pub fn cycles(&self) -> f64 {
        self.bill.cycles() * self.station.visits
    }

    /// Cycles of its process per packet of the sources.
    pub fn process_cycles(&self) -> f64 {
        self.bill.process_cycles() * self.station.visits
    }
}

/// What a configuration comes to.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// Elements that packets visit, in the order of their paths.
    pub lines: Vec<Line>,
    /// Operations that the host's description lacks; counted as nothing.
    pub unknown: BTreeSet<Operation>,
    /// The traffic that it is about.
    pub load: Load,
    /// Cycles of each thread per packet of the sources.
    pub threads: Vec<f64>,
    /// What each core has to do. Threads have cores of their own where there are no processes.
    pub cores: Vec<CoreLoad>,
}

/// What one core has to do.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CoreLoad {
    /// Its threads.
    pub threads: Vec<usize>,
    /// The processes of isolated functions on it: their lines in the estimate.
    pub processes: Vec<usize>,
    /// Cycles per packet of the sources.
    pub cycles: f64,
}

/// What limits a rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// This thread's core.
    Core(usize),
    /// The core of an isolated function's process: that of this line.
    Process(usize),
    /// The link.
    Link,
}

impl Estimate {
    /// Cycles per packet of the sources, of all threads and processes.
    pub fn cycles(&self) -> f64 {
        self.thread_cycles() + self.process_cycles()
    }

    /// Of these, cycles of threads.
    pub fn thread_cycles(&self) -> f64 {
        self.lines.iter().map(Line::cycles).sum()
    }

    /// Of these, cycles of the processes of isolated functions.
    pub fn process_cycles(&self) -> f64 {
        self.lines.iter().map(Line::process_cycles).sum()
    }

    /// Cycles per packet that pass until lines are there.
    pub fn memory(&self) -> f64 {
        self.lines.iter().map(|line| line.bill.memory() * line.station.visits).sum()
    }

    /// What has the most to do, and its cycles per packet.
    fn busiest(&self) -> (Limit, f64) {
        let Some(most) = self.cores.iter().max_by(|a, b| a.cycles.total_cmp(&b.cycles)) else {
            return (Limit::Core(0), 0.0);
        };
        let limit = match (most.threads.first(), most.processes.first()) {
            (None, Some(line)) => Limit::Process(*line),
            (thread, _) => Limit::Core(thread.copied().unwrap_or(0)),
        };
        (limit, most.cycles)
    }

    /// Packets a second, and what keeps them from being more. `link`: bits a second on the wire,
    /// where frames of [`Load::packet_bytes`] take 24 bytes more (preamble, check sequence, gap).
    pub fn rate(&self, hardware: &Hardware, link: Option<f64>) -> (f64, Limit) {
        let (limit, cycles) = self.busiest();
        let core = hardware.clock_hz.value / cycles.max(f64::MIN_POSITIVE);
        let wire = link.map(|bits| bits / ((self.load.packet_bytes.max(60.0) + 24.0) * 8.0));
        match wire {
            Some(wire) if wire < core => (wire, Limit::Link),
            _ => (core, limit),
        }
    }
}

/// How far an estimate lies from the truth, in percent of it; none where nothing was measured.
pub fn error_percent(estimate: f64, truth: f64) -> Option<f64> {
    (truth > 0.0).then(|| (estimate / truth - 1.0) * 100.0)
}

/// What was measured of a rehearsal, beside its estimate.
#[derive(Debug, Clone, PartialEq)]
pub struct Truth {
    /// Cycles of the first thread per packet of the sources: the median, and half of the distance
    /// of the quartiles.
    pub cycles: (f64, f64),
    /// The same of the processes of isolated functions, together.
    pub processes: (f64, f64),
    /// Per line of the estimate: cycles per visit.
    pub elements: Vec<f64>,
}

impl Rehearsal {
    /// Runs until the steady state, and counts packets' paths.
    pub fn watch(&mut self) -> Counts {
        let mut first = self.run(WARM);
        for _ in 0..LOADS {
            if !self.is_loading(&first) {
                break;
            }
            first = self.run(WARM);
        }
        let mut seen = self.run(WATCH);
        for look in 1..LOOKS {
            let has_moved = self.made_packets(&seen) > 0;
            if if has_moved { self.has_shown_all(&seen) } else { look >= STILL_LOOKS } {
                break;
            }
            seen.add(&self.run(WATCH));
        }
        // What has come to its end has shown all that it does.
        if self.made_packets(&seen) == 0 {
            return first;
        }
        // Traffic that comes again opens its sessions the first time only.
        if seen.opened > 0 {
            let again = self.run(WATCH);
            let share = again.opened as f64 / self.made_packets(&again).max(1) as f64;
            seen.opened = (share * self.made_packets(&seen) as f64).round() as u64;
        }
        seen
    }

    /// The estimate of what was watched; `as_written` with what ports cost, else with what stands
    /// in for them.
    ///
    /// # Errors
    /// When no packet moved.
    pub fn estimate(
        &self,
        counts: &Counts,
        hardware: &Hardware,
        assumed: &Assumed,
        as_written: bool,
    ) -> Result<Estimate, RehearsalError> {
        let load = self.load(counts, assumed);
        let stations = self.stations(counts, &load, as_written)?;
        let (elements, mut stations): (Vec<usize>, Vec<Station>) = stations.into_iter().unzip();
        let cores = if as_written { placement::cores(hardware) } else { allowed() };
        let assigned = assign_cores(&mut stations, counts.by_thread.len(), &cores);
        let bills = price(&stations, hardware);
        let lines = elements.into_iter().zip(stations).zip(bills.bills);
        let lines = lines.map(|((element, station), bill)| Line { element, station, bill });
        let lines: Vec<Line> = lines.collect();
        let threads: Vec<f64> = (counts.by_thread.iter().map(|packets| {
            let of = |line: &Line| {
                let all = counts.packets[line.element].max(1) as f64;
                line.cycles() * packets[line.element] as f64 / all
            };
            lines.iter().map(of).sum()
        }))
        .collect();
        let cores = core_loads(&threads, &lines, &assigned);
        Ok(Estimate { threads, cores, unknown: bills.unknown, load, lines })
    }

    fn load(&self, counts: &Counts, assumed: &Assumed) -> Load {
        let made =
            self.made(counts).unwrap_or(Made { packet_bytes: 64.0, sessions: 1.0, period: 1.0 });
        let packet_bytes = assumed.packet_bytes.unwrap_or(made.packet_bytes);
        Load {
            packet_bytes,
            // Behind Ethernet, IPv4 and the mean of UDP's and TCP's headers.
            payload_bytes: (packet_bytes - 48.0).max(0.0),
            sessions: assumed.sessions.unwrap_or(made.sessions).max(1.0),
            opening: (counts.opened as f64 / self.made_packets(counts).max(1) as f64).min(1.0),
        }
    }

    /// Runs for so long, and again while packets come and are too few: a machine is busy, or a
    /// configuration slow.
    fn run_enough(&mut self, time: Duration) -> Counts {
        let mut counts = self.run(time);
        let mut still_runs = 0;
        for _ in 1..LOOKS {
            // A busy machine may give a function no time for some runs.
            if self.made_packets(&counts) >= FEW || still_runs >= STILL_LOOKS {
                break;
            }
            let more = self.run(time);
            still_runs = if self.made_packets(&more) == 0 { still_runs + 1 } else { 0 };
            counts.add(&more);
        }
        counts
    }

    /// Measures it: runs of `time` each, after a first one that does not count.
    ///
    /// # Errors
    /// When it ends before enough packets have passed.
    pub fn measure(
        &mut self,
        estimate: &Estimate,
        hardware: &Hardware,
        (runs, time): (usize, Duration),
    ) -> Result<Truth, RehearsalError> {
        self.run(time / 4);
        let (mut cycles, mut processes) = (Vec::new(), Vec::new());
        let mut elements = vec![Vec::new(); estimate.lines.len()];
        for _ in 0..runs.max(1) {
            let before = self.process_seconds()?;
            let counts = self.run_enough(time);
            let process_seconds = self.process_seconds()? - before;
            let made = self.made_packets(&counts);
            if made < FEW {
                let why = format!(
                    "only {made} packets in {} ms: its sources end, or wait",
                    time.as_millis()
                );
                return Err(RehearsalError::Still { why });
            }
            // The first thread's time; the others run beside it.
            let ticks = counts.cpu_ns as f64 * hardware.clock_hz.value / 1e9;
            cycles.push(ticks / made as f64);
            processes.push(process_seconds * hardware.clock_hz.value / made as f64);
            let seen: u64 = counts.cycles.iter().sum();
            // The counters of elements are samples, and time in them is not all CPU time.
            let scale = ticks / seen.max(1) as f64;
            for (line, times) in estimate.lines.iter().zip(&mut elements) {
                let packets = counts.packets[line.element].max(1) as f64;
                times.push(counts.cycles[line.element] as f64 * scale / packets);
            }
        }
        let [cycles, processes] = [cycles, processes].map(|values| {
            let summary = Summary::of(&values);
            (summary.value, summary.spread)
        });
        let medians = elements.iter().map(|times| Summary::of(times).value);
        Ok(Truth { cycles, processes, elements: medians.collect() })
    }
}

/// Assigns cores to the processes of stations.
fn assign_cores(stations: &mut [Station], threads: usize, cores: &[usize]) -> Assignment {
    let cpus = stations.iter().filter_map(|station| Some(station.apart.as_ref()?.cpus.clone()));
    let cpus: Vec<Vec<usize>> = cpus.collect();
    if cpus.is_empty() {
        return Assignment { threads: (0..threads).collect(), processes: Vec::new() };
    }
    let assigned = assign(cores, threads, &cpus);
    let apart = stations.iter_mut().filter(|station| station.apart.is_some());
    for (station, placement) in apart.zip(&assigned.processes) {
        station.placement = *placement;
    }
    assigned
}

/// What the cores have to do.
fn core_loads(threads: &[f64], lines: &[Line], assigned: &Assignment) -> Vec<CoreLoad> {
    let mut cores: BTreeMap<usize, CoreLoad> = BTreeMap::new();
    for (thread, (core, cycles)) in assigned.threads.iter().zip(threads).enumerate() {
        let load = cores.entry(*core).or_default();
        load.threads.push(thread);
        load.cycles += cycles;
    }
    let apart = lines.iter().enumerate().filter(|(_, line)| line.station.apart.is_some());
    for (at, line) in apart {
        let load = cores.entry(line.station.placement.core).or_default();
        load.processes.push(at);
        load.cycles += line.process_cycles();
    }
    cores.into_values().collect()
}

//! A small configuration, built once and run from memory from time to time.

use thruway_elements::CATALOG;
use thruway_engine::{Options, Router};
use thruway_lang::{NoLibraries, Source, Variables};
use thruway_packet::cycles;

use super::error::CalibrateError;

/// Packets that queues may hold when a run ends.
const WAITING: u64 = 2048;

/// How often each operation is done.
#[cfg(test)]
pub type Counts = std::collections::BTreeMap<thruway_element::Operation, f64>;

/// A configuration with a source called `source`.
pub struct Workload {
    router: Router,
    /// Packets of a round of the trace.
    trace: u64,
    /// What errors call it.
    name: String,
}

impl Workload {
    /// Builds a configuration and has it load its trace.
    ///
    /// # Errors
    /// When the text is no correct configuration, or no packet moves.
    pub fn new(name: &str, text: &str) -> Result<Workload, CalibrateError> {
        let wrong = |why: String| CalibrateError::Carrier { name: name.to_owned(), why };
        let source = Source::new(name, text);
        let loaded = thruway_lang::load(source, &CATALOG, &Variables::new(), &NoLibraries)
            .map_err(|found| wrong(found.render(false)))?;
        let options = Options { burst: super::traffic::PACKETS, ..Options::default() };
        let mut router = crate::rehearsal::open(loaded.graph, loaded.checked, &CATALOG, &options)
            .map_err(|error| wrong(error.details()))?;
        router.run_threads();
        let mut workload = Workload { router, trace: 0, name: name.to_owned() };
        workload.trace = workload.read("source.loaded")?;
        if workload.trace == 0 { Err(wrong("it has no packets".to_owned())) } else { Ok(workload) }
    }

    /// Runs for about so many cycles, after a round that is not counted; gives cycles per packet.
    ///
    /// # Errors
    /// When not all packets came through.
    pub fn run(&mut self, cycles: f64) -> Result<f64, CalibrateError> {
        let round = self.rounds(1)?;
        let rounds = (cycles / round.max(1) as f64).clamp(1.0, 256.0) as u64;
        let before = self.read("source.count")?;
        let cycles = self.rounds(rounds)?;
        let made = self.read("source.count")? - before;
        self.check()?;
        Ok(cycles as f64 / made.max(1) as f64)
    }

    /// What the elements say that a packet costs, summed over all that it visits: how often, by
    /// operation, the engine's dispatch among them.
    ///
    /// # Errors
    /// As [`Workload::run`].
    #[cfg(test)]
    pub fn declared(&mut self, load: &thruway_element::Load) -> Result<Counts, CalibrateError> {
        use thruway_element::Operation;
        let before = self.visits();
        self.run(0.0)?;
        let elements = &self.router.layout().graph.elements;
        let visits: Vec<f64> =
            self.visits().iter().zip(before).map(|(now, then)| (now - then) as f64).collect();
        let source = elements.iter().position(|element| element.name == "source");
        let made = source.map_or(1.0, |source| visits[source].max(1.0));
        let mut sum = Counts::new();
        for (at, visits) in visits.iter().enumerate().filter(|(_, visits)| **visits > 0.0) {
            let said = self.router.cost_model(at).and_then(|model| model.cost(load));
            let costs = said.unwrap_or_else(|| elements[at].spec.cost.to_vec());
            for cost in costs.iter().chain([&Operation::Dispatch.once()]) {
                *sum.entry(cost.operation).or_default() += cost.count * visits / made;
            }
        }
        Ok(sum)
    }

    /// Packets by element.
    #[cfg(test)]
    fn visits(&self) -> Vec<u64> {
        let mut visits = vec![0; self.router.layout().graph.elements.len()];
        for stats in self.router.stats() {
            for (visits, node) in visits.iter_mut().zip(stats.iter()) {
                *visits += node.packets.get();
            }
        }
        visits
    }

    /// Sees that nothing drops packets: what was measured would not be what was meant.
    fn check(&mut self) -> Result<(), CalibrateError> {
        let (arrived, made) = (self.read("out.packets")?, self.read("source.count")?);
        if arrived + WAITING < made {
            return Err(self.wrong(format!("only {arrived} of {made} packets came through")));
        }
        Ok(())
    }

    fn rounds(&mut self, rounds: u64) -> Result<u64, CalibrateError> {
        self.write("source.stop", &rounds.to_string())?;
        self.write("source.active", "true")?;
        let begin = cycles();
        self.router.run_threads();
        Ok(cycles().wrapping_sub(begin))
    }

    fn read(&mut self, handler: &str) -> Result<u64, CalibrateError> {
        let text = self.router.read(handler).map_err(|error| self.wrong(error.to_string()))?;
        text.trim().parse().map_err(|_| self.wrong(format!("{handler} is {text}")))
    }

    fn write(&mut self, handler: &str, value: &str) -> Result<(), CalibrateError> {
        self.router.write(handler, value).map_err(|error| self.wrong(error.to_string()))
    }

    fn wrong(&self, why: String) -> CalibrateError {
        CalibrateError::Carrier { name: self.name.clone(), why }
    }
}

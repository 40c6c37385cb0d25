//! A chain that runs from time to time, and what it took of all processes.

use thruway_engine::{Options, Router};

use super::chain::{Chain, Where};
use crate::case::Subject;
use crate::machine;
use crate::measure::Meter;
use crate::registry;

/// Fewest packets of a run: it begins and ends with sleeps, which do not belong to the path.
const LEAST: u64 = 100_000;

/// What functions took and did since they were started.
#[derive(Debug, Clone, Copy, Default)]
pub struct Taken {
    /// Their processor time, nanoseconds.
    pub cpu_ns: u64,
    /// Times that they were woken, and that they went to sleep.
    pub wake_ups: u64,
    pub sleeps: u64,
    /// Packets that went from slot to slot.
    pub slot_to_slot: u64,
}

/// A chain, ready.
pub struct Running {
    router: Router,
    functions: Vec<String>,
    /// What the last run took.
    pub last: Taken,
    /// The cores of the host's thread, and those that it has afterwards.
    cores: (Vec<usize>, Vec<usize>),
}

impl Running {
    /// Starts the functions; no packet is sent yet. `cores`: those that the program may use.
    pub fn start(chain: Chain, cores: &[usize]) -> anyhow::Result<Running> {
        let options = Options { drain: true, ..Options::default() };
        let router = registry::router("isolated", chain.text(cores)?, &options)?;
        let before = machine::allowed();
        let own = match chain.placement {
            Where::Anywhere => cores.to_vec(),
            Where::Apart | Where::Together => before.clone(),
        };
        let functions = chain.functions();
        Ok(Running { router, functions, last: Taken::default(), cores: (own, before) })
    }

    /// A number that a handler reports.
    fn number<T: std::str::FromStr>(&mut self, handler: &str) -> anyhow::Result<T>
    where
        T::Err: std::error::Error + Send + Sync + 'static,
    {
        Ok(self.router.read(handler)?.trim().parse()?)
    }

    fn taken(&mut self) -> anyhow::Result<Taken> {
        let mut all = Taken::default();
        for name in self.functions.clone() {
            let seconds: f64 = self.number(&format!("{name}.cpu_time"))?;
            all.cpu_ns += (seconds * 1e9) as u64;
            all.wake_ups += self.number::<u64>(&format!("{name}.wake_ups"))?;
            all.sleeps += self.number::<u64>(&format!("{name}.sleeps"))?;
            all.slot_to_slot += self.number::<u64>(&format!("{name}.slot_to_slot"))?;
        }
        Ok(all)
    }
}

impl Subject for Running {
    fn run(&mut self, packets: u64, meter: &mut Meter) -> anyhow::Result<u64> {
        let packets = packets.max(LEAST);
        self.router.write("d.reset", "")?;
        self.router.write("s.limit", &packets.to_string())?;
        self.router.write("s.reset", "")?;
        let before = self.taken()?;
        machine::bind_to(&self.cores.0);
        meter.time(|| self.router.run_threads());
        machine::bind_to(&self.cores.1);
        let after = self.taken()?;
        let arrived: u64 = self.number("d.count")?;
        anyhow::ensure!(arrived == packets, "{arrived} of {packets} packets arrived");
        self.last = Taken {
            cpu_ns: after.cpu_ns - before.cpu_ns,
            wake_ups: after.wake_ups - before.wake_ups,
            sleeps: after.sleeps - before.sleeps,
            slot_to_slot: after.slot_to_slot - before.slot_to_slot,
        };
        meter.add_cpu(self.last.cpu_ns);
        Ok(packets)
    }
}

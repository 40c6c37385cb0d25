//! Configurations of `bench/path`: they replay a trace from memory as often as they are asked to.
//! `thruway bench` and the benches of the packet path measure them.

use thruway_engine::{Options, Router};
use thruway_lang::{Source, Variables};

use crate::load::{self, Libraries};

/// A configuration that is built and has its trace in memory. Its source of packets is a
/// ReplayUnqueue named `source`; all packets end in a Discard named `out`.
pub struct Replay {
    router: Router,
    trace_packets: u64,
}

impl Replay {
    /// Builds a configuration over a trace of so many packets, and replays it once.
    ///
    /// # Errors
    /// The configuration is wrong, or one of its files cannot be read.
    pub fn new(source: Source, trace_packets: u64) -> anyhow::Result<Replay> {
        let mut variables = Variables::new();
        variables.set("LOOPS", "1");
        let explained =
            |failure: load::Failure| anyhow::anyhow!("{}", failure.pretty.render(false));
        let (mut router, _) =
            load::build(source, &variables, &Libraries::new(""), &Options::default())
                .map_err(explained)?;
        load::initialize(&mut router).map_err(explained)?;
        router.run_threads();
        Ok(Replay { router, trace_packets })
    }

    /// The router, which does not run now.
    pub fn router(&mut self) -> &mut Router {
        &mut self.router
    }

    /// Packets that an element has seen.
    fn count(&mut self, element: &str) -> anyhow::Result<u64> {
        Ok(self.router.read(&format!("{element}.packets"))?.trim().parse()?)
    }

    /// Packets replayed and packets that arrived.
    fn counts(&mut self) -> anyhow::Result<(u64, u64)> {
        let replayed = self.router.read("source.count")?.trim().parse()?;
        Ok((replayed, self.count("out")?))
    }

    /// Replays whole traces, at least so many packets, by `run`, which runs the router to its end
    /// and may measure that. Returns the number of packets.
    ///
    /// # Errors
    /// Packets were lost on their path.
    pub fn replay(&mut self, packets: u64, run: impl FnOnce(&mut Router)) -> anyhow::Result<u64> {
        let loops = packets.div_ceil(self.trace_packets).max(1);
        let before = self.counts()?;
        self.router.write("source.stop", &loops.to_string())?;
        self.router.write("source.active", "true")?;
        run(&mut self.router);
        let after = self.counts()?;
        let (made, arrived) = (after.0 - before.0, after.1 - before.1);
        let expected = loops * self.trace_packets;
        anyhow::ensure!(made == expected, "{made} packets were replayed, not {expected}");
        anyhow::ensure!(arrived == made, "{arrived} of {made} packets arrived");
        Ok(made)
    }
}

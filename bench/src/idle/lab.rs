//! A router between a generator and a sink.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use thruway_port::generator::{Generator, GeneratorCount, Histogram, Sink, Stream};

use super::capacity::Outcome;
use crate::child::{Running, cpu_ns, wait_for};
use crate::io::site::{
    APART_PRIORITY, GENERATOR_PRIORITY, PROCESS_PRIORITY, Testbed, first, first_thread,
};
use crate::machine;

/// Bytes of a frame, without its check sequence.
const LEN: usize = 64;
/// Until the router's clock has settled.
const STEADY_AFTER: Duration = Duration::from_millis(700);
/// Packets in flight have arrived if none came for this time.
const QUIET: Duration = Duration::from_millis(50);
/// How long a rate is tried for the capacity.
const TRY: Duration = Duration::from_millis(400);
/// A load lasts so long before it is measured, and at least so long after that.
const MARGIN: Duration = Duration::from_millis(100);
/// Priority of the thread that reads counters under load, which must not wait for the load.
const WATCH_PRIORITY: u32 = 30;
/// A load that is less than this part of what it was to be was not offered. (On a machine that does
/// something else, too, the kernel gives that 5 % of a core, whatever the priority.)
const OFFERED: f64 = 0.9;

/// The core of each task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorePlan {
    /// The generator.
    pub load: usize,
    /// Reception for the router, as a card would do it, and at the far end.
    pub receiver: usize,
    /// The router's threads, one each.
    pub router: Vec<usize>,
}

impl CorePlan {
    /// The last of the cores that may be used for a router of so many threads, the others for the
    /// load.
    pub fn choose(allowed: &[usize], threads: usize) -> anyhow::Result<CorePlan> {
        let others = allowed.len().saturating_sub(threads);
        let (others, router) = allowed.split_at(others);
        let (Some(load), Some(receiver)) = (others.first(), others.last()) else {
            anyhow::bail!(
                "a router of {threads} threads needs {} cores, one of them for the load, and {} may \
                 be used",
                threads + 1,
                allowed.len()
            );
        };
        Ok(CorePlan { load: *load, receiver: *receiver, router: router.to_vec() })
    }
}

/// What came of a load.
#[derive(Debug, Clone)]
pub struct Load {
    /// Packets a second that were offered, in the middle of it.
    pub offered: f64,
    /// Percent of a processor that the router took then.
    pub cpu: f64,
    /// Of all: made, lost, and those of them that were lost before they came to the router.
    pub made: u64,
    pub lost: u64,
    pub lost_before: u64,
    /// Latencies of packets.
    pub latencies: Histogram,
}

impl Load {
    /// Whether the router held that rate.
    pub fn outcome(&self, rate: f64) -> Outcome {
        if self.lost == 0 && self.offered >= rate * OFFERED {
            Outcome::Held
        } else if self.lost_before * 2 > self.lost || self.offered < rate * OFFERED {
            Outcome::NotOffered
        } else {
            Outcome::Lost
        }
    }
}

/// See the module.
pub struct Lab {
    router: Running,
    generator: Generator,
    count: GeneratorCount,
    sink: Sink,
    core_plan: CorePlan,
    // In the order of going: the router ends before its interfaces.
    _dir: tempfile::TempDir,
    site: Testbed,
}

impl Lab {
    /// A router that draws so many numbers for each packet, and does `idle` when there is nothing
    /// to do. Where it has several threads, packets go from the first to the last by a Queue.
    pub fn new(idle: &str, work: u32, core_plan: &CorePlan) -> anyhow::Result<Lab> {
        let site = Testbed::new(0)?;
        let threads = core_plan.router.len();
        let text = router(&site, work, threads);
        let program = std::env::current_exe().context("cannot find this program")?;
        let cores: Vec<String> = core_plan.router.iter().map(usize::to_string).collect();
        let mut command = site.middle.command("taskset");
        command.args(["--cpu-list", &cores.join(",")]).arg(program);
        command.args(["run", "-q", "-j", &threads.to_string(), "--idle", idle, "-e", &text]);
        let dir = tempfile::tempdir()?;
        let sink = site.receiver.within(|| Sink::attach(&site.far.name, 1))??;
        let router = Running::start(&mut command, "router", dir.path())?;
        let generator = site.sender.within(|| Generator::new(Testbed::OUT, &stream(&site)))??;
        let count = generator.count();
        let core_plan = core_plan.clone();
        let mut lab = Lab { router, generator, count, sink, core_plan, _dir: dir, site };
        wait_for("the first packet through the router", || {
            lab.router.check()?;
            // An interface without a receiver accepts no frame yet.
            let _ = lab.generator.send(1);
            Ok(lab.sink.counts()?.packets > 0)
        })?;
        // Receivers are separate threads, not work of the sender.
        first(lab.site.pin_wan(lab.core_plan.receiver)?, APART_PRIORITY)?;
        lab.site.pin_far_at_once(lab.core_plan.receiver)?;
        first(lab.router.pid(), PROCESS_PRIORITY)?;
        std::thread::sleep(STEADY_AFTER);
        Ok(lab)
    }

    /// Fails if the router ended.
    pub fn check(&mut self) -> anyhow::Result<()> {
        self.router.check()
    }

    /// Percent of a processor that the router takes when nothing comes.
    pub fn rest(&self, time: Duration) -> f64 {
        let (begin, cpu) = (Instant::now(), cpu_ns(self.router.pid()));
        std::thread::sleep(time);
        percent(cpu_ns(self.router.pid()) - cpu, begin.elapsed())
    }

    /// Whether the router holds so many packets a second.
    pub fn holds(&mut self, rate: f64) -> anyhow::Result<Outcome> {
        Ok(self.load(rate, TRY)?.outcome(rate))
    }

    /// Offers so many packets a second and measures for so long in the middle of it.
    pub fn load(&mut self, rate: f64, time: Duration) -> anyhow::Result<Load> {
        let before = self.settled()?;
        self.sink.take_latencies()?;
        let per_second = rate.round().max(1.0) as u32;
        let frames = (rate * (MARGIN + time + MARGIN).as_secs_f64()).ceil() as u32;
        let (core, generator, site) = (self.core_plan.load, &mut self.generator, &self.site);
        let (count, pid) = (&self.count, self.router.pid());
        let watch = || -> anyhow::Result<(f64, f64)> {
            machine::bind(core);
            first_thread(WATCH_PRIORITY)?;
            std::thread::sleep(MARGIN);
            let (begin, made, cpu) = (Instant::now(), count.made()?, cpu_ns(pid));
            std::thread::sleep(time);
            let (took, all_made) = (begin.elapsed(), count.made()?);
            let cpu = percent(cpu_ns(pid) - cpu, took);
            Ok(((all_made - made) as f64 / took.as_secs_f64(), cpu))
        };
        let (offered, cpu) = std::thread::scope(|scope| -> anyhow::Result<_> {
            let watching = scope.spawn(watch);
            site.sender.within(|| -> anyhow::Result<()> {
                machine::bind(core);
                first_thread(GENERATOR_PRIORITY)?;
                Ok(generator.send_at(frames, per_second)?)
            })??;
            watching.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        let after = self.settled()?;
        self.router.check()?;
        let [made, arrived, lost_before] = std::array::from_fn(|at| after[at] - before[at]);
        let latencies = self.sink.take_latencies()?;
        Ok(Load { offered, cpu, made, lost: made.saturating_sub(arrived), lost_before, latencies })
    }

    /// Packets made, arrived, and lost before the router, once none is in flight.
    fn settled(&self) -> anyhow::Result<[u64; 3]> {
        let mut arrived = None;
        loop {
            let now = self.sink.counts()?.packets;
            if arrived.replace(now) == Some(now) {
                let [before, _] = self.site.no_room()?;
                return Ok([self.count.made()?, now, before]);
            }
            std::thread::sleep(QUIET);
        }
    }
}

/// Nanoseconds of a processor in a time, in percent of one processor.
fn percent(cpu_ns: u64, time: Duration) -> f64 {
    cpu_ns as f64 / time.as_nanos() as f64 * 100.0
}

/// From one interface to the other, with some work.
fn router(site: &Testbed, work: u32, threads: usize) -> String {
    let (wan, lan) = (&site.wan.name, &site.lan.name);
    let work = if work == 0 {
        String::new()
    } else {
        // The array is not read.
        format!("-> WorkPackage(0, 0, 0, false, W {work}) ")
    };
    if threads == 1 {
        return format!("FromDevice({wan}) {work}-> ToDevice({lan})");
    }
    let last = threads - 1;
    format!(
        "from :: FromDevice({wan}) {work}-> Queue(4096) -> to :: ToDevice({lan});
         StaticThreadSched(from 0, to {last})"
    )
}

/// What the generator makes: one flow.
fn stream(site: &Testbed) -> Stream {
    Stream {
        destination_mac: site.wan.mac,
        source_mac: [2, 0, 0, 0, 0, 2],
        source: [10, 9, 0, 2].into(),
        destination: [10, 0, 0, 1].into(),
        source_port: 1024,
        destination_port: 9,
        flows: 1,
        networks: 1,
        len: LEN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_has_a_core_of_its_own() {
        let core_plan = |allowed: &[usize], threads| {
            let core_plan = CorePlan::choose(allowed, threads).ok()?;
            Some((core_plan.load, core_plan.receiver, core_plan.router))
        };
        assert_eq!(core_plan(&[1, 3], 1), Some((1, 1, vec![3])));
        assert_eq!(core_plan(&[0, 1, 2, 3], 1), Some((0, 2, vec![3])));
        assert_eq!(core_plan(&[0, 1, 2, 3], 3), Some((0, 0, vec![1, 2, 3])));
        assert_eq!((core_plan(&[0, 1], 2), core_plan(&[0], 1)), (None, None));
    }

    #[test]
    fn who_lost_is_told() {
        let load = |offered, lost, lost_before| {
            let latencies = Histogram::default();
            Load { offered, cpu: 0.0, made: 1000, lost, lost_before, latencies }.outcome(100.0)
        };
        assert_eq!(load(99.0, 0, 0), Outcome::Held);
        assert_eq!(load(89.0, 0, 0), Outcome::NotOffered);
        assert_eq!(load(99.0, 10, 0), Outcome::Lost);
        assert_eq!(load(99.0, 10, 6), Outcome::NotOffered);
    }

    #[test]
    fn processor_time_is_a_part_of_time() {
        assert_eq!(percent(5_000_000, Duration::from_millis(20)), 25.0);
    }
}

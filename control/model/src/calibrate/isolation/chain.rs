//! Chains of functions in processes of their own, which run from time to time.

use std::fmt::Write as _;

use rustix::time::{ClockId, clock_gettime};
use thruway_elements::CATALOG;
use thruway_engine::{Options, Router};
use thruway_lang::{NoLibraries, Source, Variables};

use super::super::error::CalibrateError;

/// Programs that calibration starts as functions: each is a line as EXEC of `Nf` takes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Programs {
    /// A function of the library that lets packets pass: unchanged, or, configured with `change`,
    /// with another first byte.
    pub function: String,
    /// The process of isolated elements (`thruway worker`).
    pub worker: String,
}

/// Bytes of short packets, which take one line, and of long ones.
pub const SHORT: usize = 60;
pub const LONG: usize = 1400;
/// Lines that a long packet has more.
pub const LINES_MORE: f64 = 21.0;
/// Packets of a batch: what is done once a batch comes apart by them.
pub const BURSTS: [usize; 2] = [4, 32];

/// Every chain that is measured.
pub fn chains() -> impl Iterator<Item = Chain> {
    let [few, usual] = BURSTS;
    let of = |mode, count, len, burst| Chain { mode, count, len, burst };
    let all = [
        of(Mode::Inside, 1, SHORT, usual),
        of(Mode::Inside, 1, SHORT, few),
        of(Mode::Inside, 1, LONG, usual),
        of(Mode::Inside, 3, SHORT, usual),
        of(Mode::Ring, 1, SHORT, usual),
        of(Mode::Ring, 1, SHORT, few),
        of(Mode::Ring, 1, LONG, usual),
        of(Mode::Ring, 3, SHORT, usual),
        of(Mode::Eager, 1, SHORT, usual),
        of(Mode::Changing, 1, SHORT, usual),
        of(Mode::Part, 1, SHORT, usual),
        of(Mode::Part, 1, LONG, usual),
        of(Mode::Group, 1, SHORT, usual),
        of(Mode::Group, 3, SHORT, usual),
    ];
    all.into_iter()
}

/// What the functions of a chain are, and how packets go there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Elements of the same process: the base.
    Inside,
    /// Programs.
    Ring,
    /// Programs that change each packet.
    Changing,
    /// Programs that are woken for whatever waits.
    Eager,
    /// Isolated elements.
    Part,
    /// Programs of a trust group.
    Group,
}

/// A chain of functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Chain {
    /// See [`Mode`].
    pub mode: Mode,
    /// Functions.
    pub count: usize,
    /// Bytes of a packet.
    pub len: usize,
    /// Packets that the source makes at a time.
    pub burst: usize,
}

impl Chain {
    /// The configuration, with the functions on this CPU.
    pub fn text(&self, programs: &Programs, cpu: usize) -> String {
        let mut text = format!(
            "s :: InfiniteSource(LENGTH {}, BURST {}, LIMIT 0, STOP true); d :: Counter;\n",
            self.len, self.burst
        );
        if self.mode == Mode::Group {
            text += "TrustGroup(calibration, FRAMES 8192);\n";
        }
        for nth in 1..=self.count {
            let _ = writeln!(text, "c{nth} :: {};", self.function(programs, cpu));
        }
        let chain: String = (1..=self.count).map(|nth| format!(" -> c{nth}")).collect();
        text + &format!("s{chain} -> d -> Discard;\n")
    }

    fn function(&self, programs: &Programs, cpu: usize) -> String {
        let quoted = |text: &str| thruway_element::text::quote(text.as_bytes());
        let own = match self.mode {
            Mode::Inside => return "Null".to_owned(),
            Mode::Ring => ", CONFIG keep".to_owned(),
            Mode::Changing => ", CONFIG change".to_owned(),
            Mode::Eager => ", CONFIG keep, MASTER_THRESHOLD 0".to_owned(),
            Mode::Part => format!(", CARRY true, CONFIG {}", quoted(PART)),
            Mode::Group => ", CONFIG keep, MODE group, GROUP calibration".to_owned(),
        };
        let is_part = self.mode == Mode::Part;
        let program = if is_part { &programs.worker } else { &programs.function };
        let exec = quoted(program);
        // Between two runs of a chain others run, for seconds: nobody is to be blamed for that.
        let rest = "HANG 0, ISOLATION relaxed, STANDBY false";
        format!("Nf(EXEC {exec}{own}, CPUS \"{cpu}\", {rest})")
    }
}

/// An isolated part as Isolate writes it: one element that costs no more than its dispatch.
const PART: &str = "p :: IsolatedPorts(BATCH 31); p -> Null -> p;";

/// What one run took, per packet.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sample {
    /// Cycles of the thread.
    pub thread: f64,
    /// Cycles of the functions' processes.
    pub process: f64,
    /// Times that functions were woken.
    pub woken: f64,
}

/// What has been counted since the start.
#[derive(Debug, Clone, Copy)]
struct Counted {
    thread_ns: u64,
    process_ns: u64,
    woken: u64,
}

/// A chain with functions that have started.
pub struct Running {
    router: Router,
    chain: Chain,
    clock_hz: f64,
}

impl Running {
    /// Starts the functions on a CPU.
    ///
    /// # Errors
    /// When a function cannot be started.
    pub fn start(
        chain: Chain,
        (programs, cpu): (&Programs, usize),
        clock_hz: f64,
    ) -> Result<Running, CalibrateError> {
        let source = Source::new("calibration", chain.text(programs, cpu));
        let loaded = thruway_lang::load(source, &CATALOG, &Variables::new(), &NoLibraries)
            .map_err(|found| wrong(found.render(false)))?;
        let options = Options { burst: chain.burst, drain: true, ..Options::default() };
        let router = crate::rehearsal::open(loaded.graph, loaded.checked, &CATALOG, &options)
            .map_err(|error| wrong(error.details()))?;
        Ok(Running { router, chain, clock_hz })
    }

    /// Sends so many packets; all have to arrive.
    ///
    /// # Errors
    /// When some did not.
    pub fn run(&mut self, packets: u64) -> Result<Sample, CalibrateError> {
        for (handler, value) in
            [("d.reset", String::new()), ("s.limit", packets.to_string()), ("s.reset", "".into())]
        {
            self.router.write(handler, &value).map_err(|error| wrong(error.to_string()))?;
        }
        let before = self.counted()?;
        self.router.run_threads();
        let after = self.counted()?;
        let arrived: u64 = self.number("d.count")?;
        if arrived != packets {
            let ends = (1..=self.chain.count).map(|nth| self.end(nth)).collect::<String>();
            return Err(wrong(format!("{arrived} of {packets} packets came through{ends}")));
        }
        let cycles = |now: u64, then: u64| {
            now.saturating_sub(then) as f64 * self.clock_hz / 1e9 / packets as f64
        };
        Ok(Sample {
            thread: cycles(after.thread_ns, before.thread_ns),
            process: cycles(after.process_ns, before.process_ns),
            woken: after.woken.saturating_sub(before.woken) as f64 / packets as f64,
        })
    }

    /// How the process of a function ended, if one did.
    fn end(&mut self, nth: usize) -> String {
        let said = self.router.read(&format!("c{nth}.last_error")).unwrap_or_default();
        if said.trim().is_empty() { String::new() } else { format!("; c{nth}: {}", said.trim()) }
    }

    fn counted(&mut self) -> Result<Counted, CalibrateError> {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        // It counts up from zero.
        let thread_ns = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
        let mut counted = Counted { thread_ns, process_ns: 0, woken: 0 };
        if self.chain.mode == Mode::Inside {
            return Ok(counted);
        }
        for nth in 1..=self.chain.count {
            let seconds: f64 = self.number(&format!("c{nth}.cpu_time"))?;
            counted.process_ns += (seconds.max(0.0) * 1e9) as u64;
            counted.woken += self.number::<u64>(&format!("c{nth}.wake_ups"))?;
        }
        Ok(counted)
    }

    fn number<T: std::str::FromStr>(&mut self, handler: &str) -> Result<T, CalibrateError> {
        let text = self.router.read(handler).map_err(|error| wrong(error.to_string()))?;
        text.trim().parse().map_err(|_| wrong(format!("{handler} is {text}")))
    }
}

fn wrong(why: String) -> CalibrateError {
    CalibrateError::Carrier { name: "isolated functions".to_owned(), why }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_where_and_what_they_should_be() {
        let programs = Programs { function: "/bin/f echo".into(), worker: "/bin/f worker".into() };
        let chain = Chain { mode: Mode::Part, count: 2, len: 60, burst: 4 };
        let text = chain.text(&programs, 3);
        assert!(text.starts_with("s :: InfiniteSource(LENGTH 60, BURST 4,"), "{text}");
        assert_eq!(text.matches("EXEC \"/bin/f worker\"").count(), 2, "{text}");
        assert!(text.contains("CPUS \"3\"") && text.contains("s -> c1 -> c2 -> d"), "{text}");
        let inside = Chain { mode: Mode::Inside, ..chain }.text(&programs, 3);
        assert!(inside.contains("c2 :: Null;") && !inside.contains("Nf("), "{inside}");
        let group = Chain { mode: Mode::Group, ..chain }.text(&programs, 3);
        assert!(group.contains("TrustGroup(") && group.contains("EXEC \"/bin/f echo\""), "{group}");
    }
}

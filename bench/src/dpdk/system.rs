//! The forwarders, each a process of its own that is measured from outside.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use crate::schedstat::Schedstat;

/// The package that has testpmd.
pub const PACKAGE: &str = "dpdk-dev";
/// Longest wait for a reaction of a process.
const PATIENCE: Duration = Duration::from_secs(30);

/// A forwarder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum System {
    /// DPDK's own forwarder, in forward mode macswap.
    Testpmd,
    /// One element between FromDPDKDevice and ToDPDKDevice.
    Engine,
    /// The same with the element in a process of its own.
    Isolated,
}

/// What one measurement came to.
#[derive(Debug, Clone, Copy)]
pub struct Done {
    packets: u64,
    cpu_ns: u64,
    wall_ns: u64,
}

impl Done {
    /// Millions of packets in a second of the forwarding thread's processor time.
    pub fn mpps(&self) -> f64 {
        self.packets as f64 * 1e3 / self.cpu_ns.max(1) as f64
    }

    /// The same in a second of the clock.
    pub fn wall_mpps(&self) -> f64 {
        self.packets as f64 * 1e3 / self.wall_ns.max(1) as f64
    }
}

impl System {
    /// All, the one that others are compared with first.
    pub const ALL: &[System] = &[System::Testpmd, System::Engine, System::Isolated];

    /// Its name in rows.
    pub fn name(self) -> &'static str {
        match self {
            System::Testpmd => "testpmd",
            System::Engine => "engine",
            System::Isolated => "isolated",
        }
    }

    /// Lets it forward for some time.
    pub fn run(self, burst: u32, time: Duration) -> anyhow::Result<Done> {
        match self {
            System::Testpmd => testpmd(burst, time),
            System::Engine => engine(burst, time, ""),
            System::Isolated => engine(burst, time, "Isolate(m);"),
        }
        .with_context(|| self.name())
    }
}

/// A process with output that is read line by line; it ends with this value at the latest.
struct Process {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl Process {
    fn start(command: &mut Command) -> anyhow::Result<Process> {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let input = child.stdin.take().context("no standard input")?;
        let output = BufReader::new(child.stdout.take().context("no standard output")?);
        let (say, lines) = mpsc::channel();
        std::thread::spawn(move || {
            // The end of either side ends it.
            output.lines().map_while(Result::ok).try_for_each(|line| say.send(line))
        });
        Ok(Process { child, input, lines })
    }

    /// The first line from now on of which `find` makes something.
    fn wait<T>(&self, what: &str, find: impl Fn(&str) -> Option<T>) -> anyhow::Result<T> {
        let until = Instant::now() + PATIENCE;
        let mut last = String::new();
        while let Ok(line) =
            self.lines.recv_timeout(until.saturating_duration_since(Instant::now()))
        {
            if let Some(found) = find(&line) {
                return Ok(found);
            }
            last = line;
        }
        bail!("it ended, or waited too long, before {what}; it said last: {last}")
    }

    fn send(&mut self, line: &str) -> anyhow::Result<()> {
        writeln!(self.input, "{line}").context("it ended")
    }

    /// Processor time of each thread by its number, nanoseconds.
    fn threads_ns(&self) -> BTreeMap<OsString, u64> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id()));
        let of =
            |task: std::fs::DirEntry| Some((task.file_name(), Schedstat::of(&task.path())?.ran_ns));
        tasks.into_iter().flatten().flatten().filter_map(of).collect()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only for a process that ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What passed between two moments at which `count` reports how much did.
fn between(
    process: &mut Process,
    time: Duration,
    count: impl Fn(&mut Process) -> anyhow::Result<u64>,
) -> anyhow::Result<Done> {
    let before = (count(process)?, process.threads_ns(), Instant::now());
    std::thread::sleep(time);
    let after = (count(process)?, process.threads_ns(), Instant::now());
    let used = after
        .1
        .iter()
        .map(|(thread, ns)| ns.saturating_sub(before.1.get(thread).copied().unwrap_or(0)));
    Ok(Done {
        packets: after.0.saturating_sub(before.0),
        // The thread that forwards is the one that is busiest.
        cpu_ns: used.max().unwrap_or(0),
        wall_ns: u64::try_from((after.2 - before.2).as_nanos()).unwrap_or(u64::MAX),
    })
}

fn testpmd(burst: u32, time: Duration) -> anyhow::Result<Done> {
    // Otherwise what it says stays with it while its output is a pipe.
    let mut command = Command::new("stdbuf");
    command.args(["-oL", "dpdk-testpmd"]);
    command.args(["--no-huge", "--no-shconf", "--no-telemetry", "--no-pci", "-m", "512"]);
    command.args(["--vdev=net_null0", "--", "-i", "--forward-mode=macswap"]);
    command.args(["--total-num-mbufs=65536", &format!("--burst={burst}")]);
    let started = Process::start(&mut command);
    let mut process = started.with_context(|| format!("apt-get install {PACKAGE}"))?;
    process.send("start")?;
    // Past its beginning, when memory is touched for the first time.
    process.wait("it forwards", |line| line.contains("packet forwarding").then_some(()))?;
    std::thread::sleep(Duration::from_millis(200));
    let done = between(&mut process, time, |process| {
        process.send("show port stats 0")?;
        process.wait("its counts", |line| {
            line.trim_start().strip_prefix("TX-packets:")?.split_whitespace().next()?.parse().ok()
        })
    })?;
    process.send("stop\nquit")?;
    Ok(done)
}

fn engine(burst: u32, time: Duration, more: &str) -> anyhow::Result<Done> {
    let text = format!(
        "f :: FromDPDKDevice(net_null0, BURST {burst}) -> m :: EtherMirror
             -> t :: ToDPDKDevice(net_null0); {more}
         Script(label again, wait 10ms, print t.hw_count, goto again)"
    );
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["click", "-e", &text]);
    let mut process = Process::start(&mut command)?;
    let number = |line: &str| line.trim().parse::<u64>().ok().filter(|count| *count > 0);
    process.wait("packets flow", number)?;
    std::thread::sleep(Duration::from_millis(200));
    between(&mut process, time, |process| {
        // What was said meanwhile is old.
        while process.lines.try_recv().is_ok() {}
        process.wait("its counts", number)
    })
}

//! Placements of processing stages on cores, as configurations.

use std::fmt::Write as _;

/// Maximum number of packets in flight, for each source: as descriptors in an input queue.
const WINDOW: usize = 512;
/// Packets of a Pipeliner's ring: all packets in flight fit.
const RING: usize = 1024;
const _: () = assert!(RING >= WINDOW);
/// Packets at a time, where they go in batches.
const BATCH: usize = 32;

/// Which core does what (thesis, figures 4.1, 4.3 and 4.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Approach {
    /// Each core has an input queue and runs all stages.
    Parallel,
    /// Stages are spread over the cores; the first receives, the last sends.
    Pipeline,
    /// The same, and packets go back to the first core, which sends them.
    Returning,
    /// The first core receives and sends, and runs no stage.
    OneForIo,
    /// The first core receives, the last sends; neither runs a stage.
    TwoForIo,
}

impl Approach {
    /// As in the tables.
    pub fn name(self) -> &'static str {
        match self {
            Approach::Parallel => "parallel",
            Approach::Pipeline => "pipeline",
            Approach::Returning => "returning",
            Approach::OneForIo => "one-for-io",
            Approach::TwoForIo => "two-for-io",
        }
    }

    /// The core of each stage.
    fn cores(self, stages: usize, cores: usize) -> Vec<usize> {
        let (first, workers) = match self {
            Approach::Parallel => return vec![0; stages],
            Approach::Pipeline | Approach::Returning => (0, cores),
            Approach::OneForIo => (1, cores - 1),
            Approach::TwoForIo => (1, cores - 2),
        };
        // Neighbours stay together, and no core has two stages more than another.
        (0..stages).map(|stage| first + stage * workers.min(stages) / stages).collect()
    }

    /// The core that sends.
    fn sender(self, stages: &[usize], cores: usize) -> usize {
        match self {
            Approach::Pipeline => stages.last().copied().unwrap_or(0),
            Approach::TwoForIo => cores - 1,
            Approach::Parallel | Approach::Returning | Approach::OneForIo => 0,
        }
    }
}

/// What each stage does to a packet: arguments of WorkPackage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Work {
    /// Random numbers drawn.
    pub draws: u32,
    /// Reads, and percent of them that go to the packet.
    pub reads: u32,
    pub of_packet: u32,
    /// Megabytes that the others go to.
    pub array: f64,
}

/// A configuration to be measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Placement {
    pub approach: Approach,
    pub stages: usize,
    pub cores: usize,
    /// Whether packets go in batches, or one by one.
    pub is_batched: bool,
    pub work: Work,
}

impl Placement {
    /// Its name among others of the same work.
    pub fn name(&self) -> String {
        let single = if self.is_batched { "" } else { ", one by one" };
        format!("{}{single}", self.approach.name())
    }

    /// Whether it is a pipeline of as many stages as cores, and `beside` does the same in parallel:
    /// by how much a core is longer at a packet here is what a handoff costs.
    pub fn hands_as(&self, beside: &Placement) -> bool {
        let parallel = Placement { approach: Approach::Parallel, ..*self };
        let is_even = self.stages == self.cores;
        self.approach == Approach::Pipeline && is_even && parallel == *beside
    }

    /// The configuration: sources `q0`..., Pipeliners `p1`..., a sink.
    pub fn text(&self) -> String {
        let burst = if self.is_batched { BATCH } else { 1 };
        let queues = if self.approach == Approach::Parallel { self.cores } else { 1 };
        let Work { draws, reads, of_packet, array } = self.work;
        let (mut text, mut places) = ("work :: Null;\n".to_owned(), Vec::new());
        for queue in 0..queues {
            let lane = if queues > 1 { queue as i64 } else { -1 };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "q{queue} :: BenchQueue({burst}, {WINDOW}, {lane}) -> work;");
            places.push(format!("q{queue} {queue}"));
        }
        text += "work";
        let stages = self.approach.cores(self.stages, self.cores);
        let sender = self.approach.sender(&stages, self.cores);
        let mut core = 0;
        for (nth, next) in stages.iter().chain([&sender]).enumerate() {
            if *next != core {
                let _ = write!(text, "\n    -> p{nth} :: Pipeliner({RING}, {burst})");
                places.push(format!("p{nth} {next}"));
                core = *next;
            }
            if nth < self.stages {
                let _ = write!(
                    text,
                    "\n    -> WorkPackage({array}, {reads}, {of_packet}, false, W {draws})"
                );
            }
        }
        text += "\n    -> EtherRewrite(00:00:5e:00:53:01, 00:00:5e:00:53:02) -> end :: BenchEnd;\n";
        let _ = writeln!(text, "StaticThreadSched({})", places.join(", "));
        text
    }
}

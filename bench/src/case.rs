//! What a bench consists of: suites of cases.

use std::path::PathBuf;

use super::measure::Meter;

/// A bench: `thruway-bench NAME`.
pub struct Suite {
    /// NAME.
    pub name: &'static str,
    /// One line.
    pub about: &'static str,
    /// The cases in the order of the report.
    pub cases: fn() -> Vec<Case>,
    /// What is reported besides rows, each under a name that is chosen as cases are.
    pub reports: &'static [(&'static str, Report)],
}

/// Measures something and returns a text; the argument selects a quick run.
pub type Report = fn(&Workspace, bool) -> anyhow::Result<String>;

/// What we want to reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    /// At most so many ns/packet of CPU time.
    Ns(f64),
    /// At most so many ns/packet for each step from the baseline.
    StepNs(f64),
    /// At least so many times the baseline's time.
    Ratio(f64),
}

/// One row of a bench.
pub struct Case {
    /// Unique in the suite; `/` between parts by custom.
    pub name: String,
    /// What we want to reach.
    pub goal: Option<Goal>,
    /// Name of the suite's case that is 1 in this row's ratio. It is measured again,
    /// turn by turn with this one, so that both see the same machine.
    pub baseline: Option<String>,
    /// How many steps, alike, lie between the baseline and this.
    pub steps: u32,
    /// Bytes of payload in a packet, on average, where bits per second are reported.
    pub payload: Option<f64>,
    /// Whether setting it up takes long.
    pub is_long: bool,
    /// Makes what is measured; not measured itself.
    pub set_up: SetUp,
}

/// Makes what is measured.
pub type SetUp = Box<dyn Fn(&Workspace) -> anyhow::Result<Box<dyn Subject>>>;

/// Where set-up may put files; they outlive the measurement.
pub struct Workspace {
    /// An existing directory.
    pub dir: PathBuf,
    /// Words to look for that the user gave.
    pub words: Option<PathBuf>,
    /// The cores that the program may use; the bench itself is bound to the last.
    pub cores: Vec<usize>,
}

/// What is measured.
pub trait Subject {
    /// Handles about `packets` packets inside of [`Meter::time`] and says how many they were.
    ///
    /// # Errors
    /// Why the work could not be done.
    fn run(&mut self, packets: u64, meter: &mut Meter) -> anyhow::Result<u64>;
}

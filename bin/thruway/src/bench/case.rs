//! What a bench consists of: suites of cases.

use std::path::PathBuf;

use super::measure::Meter;

/// A bench: `thruway bench NAME`.
pub struct Suite {
    /// NAME.
    pub name: &'static str,
    /// One line.
    pub about: &'static str,
    /// The cases in the order of the report.
    pub cases: fn() -> Vec<Case>,
}

/// One row of a bench.
pub struct Case {
    /// Unique in the suite; `/` between parts by custom.
    pub name: String,
    /// ns/packet of CPU time that we want to stay below.
    pub goal_ns: Option<f64>,
    /// Name of the case in the suite whose time is 1 in this row's ratio. It is measured again,
    /// turn by turn with this one, so that both see the same machine.
    pub baseline: Option<String>,
    /// Makes what is measured; not measured itself.
    pub set_up: SetUp,
}

/// Makes what is measured.
pub type SetUp = Box<dyn Fn(&Place) -> anyhow::Result<Box<dyn Subject>>>;

/// Where set-up may put files; they outlive the measurement.
pub struct Place {
    /// An existing directory.
    pub dir: PathBuf,
}

/// What is measured.
pub trait Subject {
    /// Handles about `packets` packets inside of [`Meter::time`] and says how many they were.
    ///
    /// # Errors
    /// Why the work could not be done.
    fn run(&mut self, packets: u64, meter: &mut Meter) -> anyhow::Result<u64>;
}

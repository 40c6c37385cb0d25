//! The settings of a Worker, passed as arguments of a hidden command.

use std::fmt;
use std::os::fd::OwnedFd;

use clap::ValueEnum;

/// How packets reach a Worker and come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Transport {
    /// The exchange: slots go to the Worker and back in place
    Exchange,
    /// Baseline: a ring of frames in each direction, and a copy in the Worker
    Pair,
    /// Baseline: a ring of frame numbers in each direction, frames in memory that all share
    Pointers,
}

/// What a Worker does when it has no packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Wait {
    /// Sleeps on a futex (the paper's)
    Block,
    /// Looks again and again
    Poll,
    /// Looks again for --spin microseconds, then sleeps
    Hybrid,
}

/// What a Worker does to a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Work {
    /// Nothing: does not touch it
    Dummy,
    /// A signature over its first 64 bytes (the paper's real Worker)
    Real,
    /// Runs its bytes through an automaton of 32 MB
    Automaton,
}

/// The settings of a Worker.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct Duty {
    #[arg(long)]
    pub transport: Transport,
    #[arg(long)]
    pub wait: Wait,
    #[arg(long)]
    pub work: Work,
    /// WORKER_PKT_THRESHOLD
    #[arg(long)]
    pub threshold: u32,
    /// Microseconds that a hybrid Worker looks again before it sleeps
    #[arg(long)]
    pub spin: u32,
    /// Reads M.prod for each packet
    #[arg(long)]
    pub shared_indices: bool,
    /// Shared indices stand side by side
    #[arg(long)]
    pub packed_indices: bool,
    /// Slots of a ring
    #[arg(long)]
    pub slots: u32,
    /// Bytes of a packet
    #[arg(long)]
    pub packet_len: u32,
    /// Core to run on
    #[arg(long)]
    pub core: Option<usize>,
}

impl Duty {
    /// The arguments that say the same.
    pub fn to_args(&self) -> Vec<String> {
        let name = |value: &dyn fmt::Display| value.to_string();
        let mut args = vec![
            "--transport".into(),
            name(&Shown(self.transport)),
            "--wait".into(),
            name(&Shown(self.wait)),
            "--work".into(),
            name(&Shown(self.work)),
            "--threshold".into(),
            self.threshold.to_string(),
            "--spin".into(),
            self.spin.to_string(),
            "--slots".into(),
            self.slots.to_string(),
            "--packet-len".into(),
            self.packet_len.to_string(),
        ];
        args.extend(self.shared_indices.then(|| "--shared-indices".into()));
        args.extend(self.packed_indices.then(|| "--packed-indices".into()));
        if let Some(core) = self.core {
            args.extend(["--core".into(), core.to_string()]);
        }
        args
    }
}

/// A value of an argument, as it is written.
pub struct Shown<T>(pub T);

impl<T: ValueEnum> fmt::Display for Shown<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.0.to_possible_value();
        f.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}

/// Arguments of the hidden command.
#[derive(Debug, clap::Args)]
pub struct WorkerArgs {
    #[command(flatten)]
    pub duty: Duty,
    /// Control region, then the regions of the transport, each as a path
    #[arg(long, value_delimiter = ',')]
    pub regions: Vec<String>,
}

impl WorkerArgs {
    /// Opens the regions.
    pub fn open(&self) -> anyhow::Result<Vec<OwnedFd>> {
        let open = |path: &String| {
            let file = std::fs::OpenOptions::new().read(true).write(true).open(path);
            file.map(OwnedFd::from).map_err(|error| anyhow::anyhow!("{path}: {error}"))
        };
        self.regions.iter().map(open).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        duty: Duty,
    }

    #[test]
    fn a_duty_survives_its_arguments() {
        for core in [None, Some(3)] {
            let duty = Duty {
                transport: Transport::Pair,
                wait: Wait::Hybrid,
                work: Work::Automaton,
                threshold: 7,
                spin: 9,
                shared_indices: core.is_some(),
                packed_indices: core.is_none(),
                slots: 16,
                packet_len: 700,
                core,
            };
            let args = std::iter::once("x".to_owned()).chain(duty.to_args());
            assert_eq!(Line::try_parse_from(args).expect("arguments").duty, duty);
        }
    }
}

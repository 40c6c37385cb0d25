//! What a box costs: processor time per request.
//!
//! Three answers, because on a virtual link the receiver's work is done in the sender's name:
//!
//! - *process*: the time of the box's process, as `ps` shows it. It contains what the hosts'
//!   kernels do with what the box sent, and not what the box's kernel does with what comes.
//! - *added*: the time of everything (client, server, box, the kernel's thread for what is left
//!   over) less the same of the same round without a box. It needs no attribution; but
//!   where a box lets requests come in bunches the hosts wake up less often, which it is credited.
//! - *own*: the box's process without reception, and reception in the names of the hosts,
//!   by samples of the core's stack. It is what a box of its own would use, its kernel included. Of
//!   the kernel's routing, which belongs to no process, it is reported as the additional reception
//!   over the run without a box.

use std::path::{Path, PathBuf};

use super::lab::Lab;
use super::load::Load;
use super::samples::{Sampling, Shares};
use super::systems::System;
use crate::child::{cpu_ns, ended_children_ns, has, softirq_thread};

/// One measurement, times in microseconds per request.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// Requests per second.
    pub rate: f64,
    /// The box's process.
    pub process: f64,
    /// All processes together.
    pub total: f64,
    /// Reception, if there are samples.
    pub reception: Option<Reception>,
}

/// Time of reception by the process charged for it, microseconds per request.
#[derive(Debug, Clone, Copy)]
pub struct Reception {
    hosts: f64,
    process: f64,
}

impl Cost {
    /// See the module: `added`.
    pub fn added(&self, direct: &Cost) -> f64 {
        self.total - direct.total
    }

    /// See the module: `own`; of a box that has a process or has none.
    pub fn own(&self, direct: &Cost, has_process: bool) -> Option<f64> {
        let reception = self.reception?;
        Some(match has_process {
            true => self.process - reception.process + reception.hosts,
            false => reception.hosts - direct.reception?.hosts,
        })
    }
}

/// Measures on one core.
pub struct Account {
    core: usize,
    seconds: u32,
    softirq: Option<u32>,
    dir: PathBuf,
    samples: bool,
}

impl Account {
    /// For measurements of so many seconds.
    pub fn new(core: usize, seconds: u32, dir: &Path) -> Account {
        let softirq = softirq_thread(core);
        Account { core, seconds, softirq, dir: dir.to_owned(), samples: has("perf") }
    }

    /// Whether reception can be distinguished.
    pub fn samples(&self) -> bool {
        self.samples
    }

    /// A contestant's turn.
    pub fn measure(&self, load: &Load, system: &mut System, lab: &Lab) -> anyhow::Result<Cost> {
        let process = system.process.as_ref();
        let pids = [Some(lab.web.pid()), process.map(|process| process.pid()), self.softirq];
        let used = || pids.map(|pid| pid.map_or(0, cpu_ns));
        let before = used();
        let sampling = match self.samples {
            true => Some(Sampling::start(self.core, self.seconds, &self.dir)?),
            false => None,
        };
        let clients = ended_children_ns();
        let answered = load.run(&lab.client, &system.host, self.seconds)?;
        let client = ended_children_ns() - clients;
        let after = used();
        let shares = sampling.map(Sampling::finish).transpose()?;
        system.process.as_mut().map_or(Ok(()), |process| process.check())?;
        let per_request = |ns: f64| ns / 1000.0 / answered.requests as f64;
        let [web, own, softirq] = [0, 1, 2].map(|at| after[at] - before[at]);
        let reception = shares.map(|shares: Shares| {
            let part =
                |pid: Option<u32>, ns: u64| pid.map_or(0.0, |pid| shares.of(pid)) * ns as f64;
            let hosts = part(pids[0], web) + part(Some(answered.pid), client);
            Reception { hosts: per_request(hosts), process: per_request(part(pids[1], own)) }
        });
        Ok(Cost {
            rate: answered.requests as f64 / answered.seconds,
            process: per_request(own as f64),
            total: per_request((client + web + own + softirq) as f64),
            reception,
        })
    }
}

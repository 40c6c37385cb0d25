//! What an isolated function costs, in elementary operations: what the thread does, and what the
//! function's process does beside its own work.
//!
//! How often a function is woken, which packets it changes and which go on to another function
//! without a way over the packet memory is known of the packets that flowed. Where none did, a
//! function is taken to change nothing and to be woken as under saturation.

use thruway_element::{Apart, Cost, CostModel, Load, Operation};
use thruway_nf_abi::message::WaitMode;

use super::carried::PREFIX_LEN;
use super::replica::Nf;

/// Fewer packets than this say nothing of how often something happens.
const FEW: u64 = 1000;

/// Parts of the packets with which something happens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Shares {
    /// For which the function is woken.
    pub woken: f64,
    /// That the function changes.
    pub changed: f64,
    /// That it changes and that enter the next function from here.
    pub hopped: f64,
    /// That entered from another function's slot or with its frame.
    pub tokens: f64,
}

/// How a function's packets go there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Path {
    /// By the slots of a ring.
    Ring,
    /// By those, with what is known of each: isolated elements.
    Part,
    /// In frames that the functions of a group share.
    Group,
}

/// What one function's packets cost.
#[derive(Debug, Clone, Copy)]
pub(super) struct Work {
    pub path: Path,
    /// Whether the process runs isolated elements, whose engine copies.
    pub is_part: bool,
    pub shares: Shares,
}

impl Work {
    /// By the thread.
    pub fn of_thread(&self, load: &Load) -> Vec<Cost> {
        use Operation as Op;
        let Shares { woken, changed, hopped, tokens } = self.shares;
        let lines = self.lines(load);
        let returned = (changed - hopped).max(0.0);
        let mut costs = match self.path {
            Path::Ring => vec![Op::RingHop.once(), Op::RingCopy.times(lines)],
            Path::Part => vec![Op::PartHop.once(), Op::RingCopy.times(lines)],
            Path::Group => vec![
                Op::GroupHop.times(1.0 - tokens),
                Op::GroupPass.times(tokens),
                Op::RingCopy.times((1.0 - tokens) * lines),
            ],
        };
        if returned > 0.0 {
            costs.extend([Op::RingReturn.times(returned), Op::RingCopy.times(returned * lines)]);
        }
        costs.push(Op::WorkerWake.times(woken));
        costs
    }

    /// By the function's process.
    pub fn of_process(&self, load: &Load) -> Vec<Cost> {
        use Operation as Op;
        let serve = match self.path {
            _ if self.is_part => Op::PartServe,
            Path::Group => Op::GroupServe,
            _ => Op::RingServe,
        };
        let mut costs = vec![serve.once(), Op::WorkerSleep.times(self.shares.woken)];
        if self.is_part {
            let times = 1.0 + self.shares.changed;
            costs.push(Op::PartCopy.times(times * self.lines(load)));
        }
        costs
    }

    /// Lines of a packet, with what goes with it.
    fn lines(&self, load: &Load) -> f64 {
        let prefix = if self.is_part { PREFIX_LEN as f64 } else { 0.0 };
        Load::lines(load.packet_bytes + prefix)
    }
}

impl Nf {
    fn work(&self) -> Work {
        let path = match (&self.settings.group, self.settings.carry) {
            (Some(_), _) => Path::Group,
            (None, true) => Path::Part,
            (None, false) => Path::Ring,
        };
        Work { path, is_part: self.settings.carry, shares: self.shares() }
    }

    fn shares(&self) -> Shares {
        let slots = f64::from(self.settings.shape.slots.max(2));
        let none = Shares {
            woken: if self.settings.wait == WaitMode::Poll { 0.0 } else { 2.0 / slots },
            changed: 0.0,
            hopped: 0.0,
            tokens: 0.0,
        };
        let Some(state) = &self.running else { return none };
        let figures = state.figures();
        if figures.put < FEW {
            return none;
        }
        let of_put = |count: u64| (count as f64 / figures.put as f64).min(1.0);
        let changed = of_put(state.outlet.changed_count);
        Shares {
            woken: of_put(figures.wake_ups),
            changed,
            // In a group frames go on that were not changed, too.
            hopped: of_put(state.outlet.hopped_count).min(changed),
            tokens: of_put(state.token_count),
        }
    }
}

impl CostModel for Nf {
    fn cost(&self, load: &Load) -> Option<Vec<Cost>> {
        Some(self.work().of_thread(load))
    }

    fn apart(&self, load: &Load) -> Option<Apart> {
        let cpus = self.settings.cpus.clone();
        Some(Apart { cpus, costs: self.work().of_process(load) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOAD: Load =
        Load { packet_bytes: 60.0, payload_bytes: 18.0, sessions: 1.0, opening: 0.0 };
    const NOTHING: Shares = Shares { woken: 0.0, changed: 0.0, hopped: 0.0, tokens: 0.0 };

    fn count(costs: &[Cost], operation: Operation) -> f64 {
        costs.iter().filter(|cost| cost.operation == operation).map(|cost| cost.count).sum()
    }

    #[test]
    fn a_packet_is_copied_once_and_twice_if_it_is_changed() {
        let ring = Work { path: Path::Ring, is_part: false, shares: NOTHING };
        let long = Load { packet_bytes: 1400.0, ..LOAD };
        assert_eq!(count(&ring.of_thread(&LOAD), Operation::RingCopy), 1.0);
        assert_eq!(count(&ring.of_thread(&long), Operation::RingCopy), 22.0);
        let half = Shares { changed: 0.5, ..NOTHING };
        let changing = Work { shares: half, ..ring };
        assert_eq!(count(&changing.of_thread(&LOAD), Operation::RingCopy), 1.5);
        assert_eq!(count(&changing.of_thread(&LOAD), Operation::RingReturn), 0.5);
        // What enters the next function from its slot is not taken back.
        let hopping = Work { shares: Shares { hopped: 0.5, ..half }, ..ring };
        assert_eq!(count(&hopping.of_thread(&LOAD), Operation::RingReturn), 0.0);
    }

    #[test]
    fn isolated_elements_copy_what_is_known_of_a_packet_too() {
        let part = Work { path: Path::Part, is_part: true, shares: NOTHING };
        assert_eq!(count(&part.of_thread(&LOAD), Operation::RingCopy), 3.0);
        assert_eq!(count(&part.of_process(&LOAD), Operation::PartCopy), 3.0);
        assert_eq!(count(&part.of_process(&LOAD), Operation::PartServe), 1.0);
        assert_eq!(count(&part.of_process(&LOAD), Operation::RingServe), 0.0);
    }

    #[test]
    fn within_a_group_nothing_is_copied() {
        let woken = Shares { tokens: 1.0, woken: 0.25, ..NOTHING };
        let inner = Work { path: Path::Group, is_part: false, shares: woken };
        let (thread, process) = (inner.of_thread(&LOAD), inner.of_process(&LOAD));
        assert_eq!(count(&thread, Operation::RingCopy), 0.0);
        assert_eq!(count(&thread, Operation::GroupPass), 1.0);
        assert_eq!(count(&process, Operation::GroupServe), 1.0);
        for (costs, operation) in
            [(&thread, Operation::WorkerWake), (&process, Operation::WorkerSleep)]
        {
            assert_eq!(count(costs, operation), 0.25);
        }
        let first = Work { shares: NOTHING, ..inner };
        assert_eq!(count(&first.of_thread(&LOAD), Operation::RingCopy), 1.0);
    }
}

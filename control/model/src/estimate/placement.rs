//! Which cores the threads and the processes of isolated functions run on: what is bound stays
//! where it is bound; the rest goes where the least is, as the system's scheduler has it in time.

use crate::Hardware;
use crate::calibrate::allowed;

/// Where a function's process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Placement {
    /// Number of its core.
    pub core: usize,
    /// Whether a thread of the engine has that core as well.
    pub is_with_thread: bool,
    /// Whether other functions' processes have it, too.
    pub is_in_turn: bool,
}

/// Cores of all threads and processes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Assignment {
    /// By thread: its core.
    pub threads: Vec<usize>,
    /// By process, in the order that was given.
    pub processes: Vec<Placement>,
}

/// The cores of a host: those that this process may use, where they are as many as the
/// description's; else so many, numbered.
pub fn cores(hardware: &Hardware) -> Vec<usize> {
    let own = allowed();
    if own.len() == hardware.cores as usize { own } else { (0..hardware.cores as usize).collect() }
}

/// Assigns cores to `threads`, which may run on all of them, and to processes, each with those that
/// it may run on (empty: all; a core that the host does not have counts as one more).
pub fn assign(cores: &[usize], threads: usize, processes: &[Vec<usize>]) -> Assignment {
    let bound = processes.iter().flatten().copied();
    let mut free: Vec<(usize, usize)> = cores.iter().copied().map(|core| (core, 0)).collect();
    for core in bound {
        if free.iter().all(|(known, _)| *known != core) {
            free.push((core, 0));
        }
    }
    let mut take = |may: &[usize]| {
        let is_open = |core: usize| may.is_empty() || may.contains(&core);
        let all = free.iter_mut().filter(|(core, _)| is_open(*core));
        let (core, count) = all.min_by_key(|(_, count)| *count)?;
        *count += 1;
        Some(*core)
    };
    let mut of_process = vec![None; processes.len()];
    for (core, may) in of_process.iter_mut().zip(processes).filter(|(_, may)| may.len() == 1) {
        *core = take(may);
    }
    let of_thread: Vec<usize> = (0..threads).map(|_| take(cores).unwrap_or(0)).collect();
    for (core, may) in of_process.iter_mut().zip(processes).filter(|(_, may)| may.len() != 1) {
        *core = take(may);
    }
    let of_process: Vec<usize> = of_process.into_iter().map(Option::unwrap_or_default).collect();
    let placement = |core: &usize| Placement {
        core: *core,
        is_with_thread: of_thread.contains(core),
        is_in_turn: of_process.iter().filter(|other| *other == core).count() > 1,
    };
    Assignment { processes: of_process.iter().map(placement).collect(), threads: of_thread }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(cores: &[usize], threads: usize, processes: &[&[usize]]) -> Assignment {
        let processes: Vec<Vec<usize>> = processes.iter().map(|may| may.to_vec()).collect();
        assign(cores, threads, &processes)
    }

    fn is_shared(assigned: &Assignment) -> Vec<(bool, bool)> {
        assigned.processes.iter().map(|it| (it.is_with_thread, it.is_in_turn)).collect()
    }

    #[test]
    fn a_process_has_a_core_of_its_own_while_there_is_one() {
        let two = placed(&[0, 1], 1, &[&[]]);
        assert_eq!(is_shared(&two), [(false, false)], "{two:?}");
        let one = placed(&[5], 1, &[&[]]);
        assert_eq!(is_shared(&one), [(true, false)], "{one:?}");
        let full = placed(&[0, 1], 1, &[&[], &[]]);
        assert_eq!(is_shared(&full), [(false, false), (true, false)], "{full:?}");
    }

    #[test]
    fn what_is_bound_stays_and_threads_make_room() {
        // Bound to what would have been the thread's core.
        let assigned = placed(&[0, 1], 1, &[&[0]]);
        assert_eq!((assigned.threads, assigned.processes[0].core), (vec![1], 0));
        let turns = placed(&[0, 1], 1, &[&[0], &[0], &[0]]);
        assert_eq!(is_shared(&turns), [(false, true); 3], "{turns:?}");
        let all = placed(&[0], 1, &[&[0], &[0]]);
        assert_eq!(is_shared(&all), [(true, true); 2], "{all:?}");
        // A core that the description does not have.
        let elsewhere = placed(&[0], 1, &[&[7]]);
        assert_eq!(is_shared(&elsewhere), [(false, false)], "{elsewhere:?}");
    }
}

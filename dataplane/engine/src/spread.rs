//! How unplaced tasks are assigned to threads. Pure.

use thruway_element::{Share, Spec, Threading};

/// How the threads of a run share its inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Placement {
    /// Every thread serves every input that can be shared: as many threads as its device has
    /// queues.
    #[default]
    Balanced,
    /// The threads are divided among the inputs that can be shared: each has its own.
    Dedicated,
    /// As balanced, and packets stay in the thread that received them: elements that would hand
    /// them off to another one (Pipeliner) let them pass.
    Parallel,
    /// Each input is served by one thread, each Pipeliner by another one: stages.
    Pipeline,
}

/// The threads to assign, and the policy.
#[derive(Debug, Clone, Default)]
pub(crate) struct Spread {
    /// Threads.
    pub threads: usize,
    /// Whether tasks are spread at all; else all are in thread 0, as in Click.
    pub around: bool,
    pub placement: Placement,
    /// The NUMA node of each thread's core, as far as they are known.
    pub nodes: Vec<Option<usize>>,
}

impl Spread {
    /// Whether an element hands packets to no other thread, though it would.
    pub fn lets_pass(&self, spec: &Spec) -> bool {
        self.placement == Placement::Parallel && spec.threading == Threading::Pipeline
    }
}

/// An unplaced task.
pub(crate) struct Task {
    pub node: usize,
    /// Of an input that several threads can serve.
    pub share: Option<Share>,
    pub is_source: bool,
}

/// The threads that the user named, taken around where they are too high.
pub(crate) fn named(share: &Share, threads: usize) -> Vec<usize> {
    let mut named: Vec<usize> = share.threads.iter().map(|thread| thread % threads).collect();
    named.sort_unstable();
    named.dedup();
    named
}

/// Adds the threads of each unplaced task to `tasks`, which holds those of the placed ones.
///
/// Sources come first, and each takes the threads with the fewest tasks so far: so a device with
/// few queues leaves threads for the other inputs.
pub(crate) fn give_out(spread: &Spread, mut free: Vec<Task>, tasks: &mut [Vec<usize>]) {
    let mut load = vec![0; spread.threads];
    for thread in tasks.iter().flatten() {
        load[*thread] += 1;
    }
    free.sort_by_key(|task| !task.is_source);
    let own = match spread.placement {
        Placement::Dedicated => divided(spread, &free),
        _ => vec![None; free.len()],
    };
    for (task, own) in free.into_iter().zip(own) {
        let share = task.share.unwrap_or_else(Share::one);
        let mut threads = match own {
            _ if !share.threads.is_empty() => named(&share, spread.threads),
            Some(own) => own,
            None => near(spread, &share),
        };
        threads.sort_by_key(|thread| (load[*thread], *thread));
        let most = match spread.placement {
            Placement::Pipeline if share.threads.is_empty() => 1,
            _ => share.most.unwrap_or(usize::MAX).max(1),
        };
        threads.truncate(most);
        threads.sort_unstable();
        for thread in &threads {
            load[*thread] += 1;
        }
        tasks[task.node] = threads;
    }
}

/// The threads that an input may use without an assignment by the user: those on cores of its NUMA
/// node; all, if the node has none.
fn near(spread: &Spread, share: &Share) -> Vec<usize> {
    let all: Vec<usize> = (0..spread.threads).filter(|thread| *thread >= share.first).collect();
    // More are left to others than there are: then they are shared after all.
    let all = if all.is_empty() { (0..spread.threads).collect() } else { all };
    let node_of = |thread: &usize| spread.nodes.get(*thread).copied().flatten();
    let is_near = |thread: &usize| share.node.is_some() && node_of(thread) == share.node;
    let near: Vec<usize> = all.iter().copied().filter(is_near).collect();
    if near.is_empty() { all } else { near }
}

/// Of each task that several threads can serve: its part of the threads near its device, where
/// other inputs have the other parts.
fn divided(spread: &Spread, free: &[Task]) -> Vec<Option<Vec<usize>>> {
    let divides = |task: &Task| {
        let share = task.share.as_ref()?;
        let is_free = share.threads.is_empty() && share.most != Some(1);
        is_free.then(|| near(spread, share))
    };
    let all: Vec<Option<Vec<usize>>> = free.iter().map(divides).collect();
    let part = |(at, own): (usize, &Option<Vec<usize>>)| {
        let threads = own.as_ref()?;
        let before = all[..at].iter().filter(|other| *other == own).count();
        let inputs = all.iter().filter(|other| *other == own).count();
        let cut = |nth: usize| threads.len() * nth / inputs;
        let (from, to) = (cut(before), cut(before + 1).max(cut(before) + 1));
        Some(threads[from..to.min(threads.len())].to_vec())
    };
    all.iter().enumerate().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Inputs of devices with so many queues.
    fn devices(queues: &[Option<usize>]) -> Vec<Share> {
        queues.iter().map(|most| Share { most: *most, ..Share::default() }).collect()
    }

    fn spread(threads: usize, placement: Placement) -> Spread {
        Spread { threads, around: true, placement, nodes: Vec::new() }
    }

    /// The threads of these inputs, and of as many other tasks.
    fn given(spread: &Spread, inputs: &[Share], others: usize) -> Vec<Vec<usize>> {
        let input = |(node, share): (usize, &Share)| Task {
            node,
            share: Some(share.clone()),
            is_source: true,
        };
        let mut free: Vec<Task> = inputs.iter().enumerate().map(input).collect();
        let nodes = inputs.len()..inputs.len() + others;
        free.extend(nodes.map(|node| Task { node, share: None, is_source: false }));
        // Whatever order they come in.
        free.rotate_left(inputs.len());
        let mut tasks = vec![Vec::new(); free.len()];
        give_out(spread, free, &mut tasks);
        tasks
    }

    #[test]
    fn balanced_threads_serve_every_input() {
        let spread = spread(3, Placement::Balanced);
        let all = [0, 1, 2].to_vec();
        assert_eq!(given(&spread, &devices(&[None, Some(8)]), 0), [all.clone(), all]);
        // Threads left by two queues are for the device with one, and then for other tasks.
        let tasks = given(&spread, &devices(&[Some(2), Some(1)]), 3);
        assert_eq!(tasks, [vec![0, 1], vec![2], vec![0], vec![1], vec![2]]);
    }

    #[test]
    fn tasks_go_around_as_ever() {
        let spread = spread(2, Placement::Balanced);
        assert_eq!(given(&spread, &[], 3), [[0], [1], [0]]);
        // A thread that has a placed task comes later.
        let mut tasks = vec![vec![0], Vec::new()];
        let free = vec![Task { node: 1, share: None, is_source: true }];
        give_out(&spread, free, &mut tasks);
        assert_eq!(tasks[1], [1]);
    }

    #[test]
    fn dedicated_threads_serve_one_input() {
        let inputs = devices(&[None, None]);
        let halves = given(&spread(5, Placement::Dedicated), &inputs, 0);
        assert_eq!(halves, [vec![0, 1], vec![2, 3, 4]]);
        // More inputs than threads, and a device with one queue.
        let inputs = devices(&[None, Some(4), Some(1), None]);
        let few = given(&spread(2, Placement::Dedicated), &inputs, 0);
        assert_eq!(few, [[0], [0], [1], [1]]);
    }

    #[test]
    fn stages_have_a_thread_each() {
        let inputs = devices(&[None]);
        let tasks = given(&spread(3, Placement::Pipeline), &inputs, 3);
        assert_eq!(tasks, [[0], [1], [2], [0]]);
        let tasks = given(&spread(3, Placement::Parallel), &inputs, 0);
        assert_eq!(tasks, [[0, 1, 2]]);
    }

    #[test]
    fn the_user_has_the_last_word() {
        let named = Share { threads: vec![1, 5, 1], ..Share::default() };
        let from = |first| Share { first, ..Share::default() };
        let tasks = given(&spread(4, Placement::Balanced), &[named, from(2), from(9)], 0);
        assert_eq!(tasks, [vec![1], vec![2, 3], vec![0, 1, 2, 3]]);
    }

    #[test]
    fn threads_near_a_device_serve_it() {
        for (placement, second) in
            [(Placement::Balanced, vec![2, 3]), (Placement::Dedicated, vec![2])]
        {
            let nodes = vec![Some(0), Some(0), Some(1), Some(1)];
            let spread = Spread { nodes, ..spread(4, placement) };
            let at = |node| Share { node, ..Share::default() };
            let tasks = given(&spread, &[at(Some(0)), at(Some(1)), at(Some(1)), at(Some(7))], 0);
            assert_eq!(tasks[..2], [vec![0, 1], second]);
            // No core is near the last one.
            assert_eq!(tasks[3], [0, 1, 2, 3]);
        }
    }
}

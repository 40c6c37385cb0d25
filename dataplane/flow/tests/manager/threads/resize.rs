//! Sessions go on where there are more or fewer threads.

use thruway_flow::manager::{Heirs, Taken};

use super::*;

const CONNECTIONS: u32 = 6;

/// A town whose threads have begun sessions, each with replies in another thread and packets that
/// came to a third one.
fn busy(threads: usize, demand: &Demand) -> Town {
    let mut town = town_of(threads, demand, None);
    for connection in 0..CONNECTIONS {
        for (step, reply) in [(0, false), (0, false), (1, true), (2, false), (2, true)] {
            let thread = (connection as usize + step) % threads;
            let packet = town.packet(Came { thread, connection, reply });
            town.take(thread, vec![packet]);
            town.drain();
        }
    }
    town
}

/// Has a packet of each connection and direction come to each thread.
fn go_on(town: &mut Town) {
    for thread in 0..town.managers.len() {
        for connection in 0..CONNECTIONS {
            for reply in [true, false] {
                let packet = town.packet(Came { thread, connection, reply });
                town.take(thread, vec![packet]);
            }
        }
    }
    town.drain();
    town.check_order();
}

/// The heirs of so many threads among so many.
fn heirs(old: usize, new: usize) -> Vec<u16> {
    (0..old).map(|thread| (thread % new) as u16).collect()
}

fn inherit(new: &mut Town, old: &mut Town, threads: &[u16]) {
    for taken in [Taken::Main, Taken::Rest] {
        for (thread, before) in old.managers.iter_mut().enumerate() {
            let heirs = Heirs::new(threads, thread).unwrap();
            let heir = &mut new.managers[usize::from(threads[thread])];
            heir.inherit(before, Some, (&heirs, taken));
        }
    }
    new.managers.iter_mut().for_each(Manager::rejoin);
}

/// By connection and direction: the thread that served it, and how many packets its state had seen.
fn servers(served: &[Served], came: &[Came]) -> HashMap<(u32, bool), (usize, u32)> {
    let last = served.iter().map(|served| {
        let Came { connection, reply, .. } = came[served.number];
        ((connection, reply), (served.thread, served.before + 1))
    });
    last.collect()
}

#[test]
fn sessions_go_on_in_more_and_in_fewer_threads() {
    for (translates, whole) in [(false, false), (true, false), (false, true), (true, true)] {
        for (before, after) in [(1, 2), (1, 3), (2, 3), (3, 2), (3, 1), (2, 1)] {
            let about = format!("{before} to {after} threads, {translates} {whole}");
            let demand = counting(translates, whole);
            let mut old = busy(before, &demand);
            let open: u32 = old.managers.iter().map(|manager| manager.counts(0).0).sum();
            let created: u64 = old.managers.iter().map(|one| one.counts(0).2.created).sum();
            let known = servers(&old.served, &old.came);
            let threads = heirs(before, after);
            let mut new = town_of(after, &demand, None);
            inherit(&mut new, &mut old, &threads);
            (new.came, new.served) = (std::mem::take(&mut old.came), old.served.clone());
            let from = new.served.len();
            let heir = |key: &(u32, bool)| usize::from(threads[known[key].0]);
            // Halves that come together are one session.
            let joined = |connection| {
                let [forward, reply] = [(connection, false), (connection, true)];
                known[&forward].0 != known[&reply].0 && heir(&forward) == heir(&reply)
            };
            let count = (0..CONNECTIONS).filter(|connection| joined(*connection)).count() as u32;
            let now: u32 = new.managers.iter().map(|manager| manager.counts(0).0).sum();
            assert_eq!(now, open - count, "{about}");
            let still: u64 = new.managers.iter().map(|one| one.counts(0).2.created).sum();
            assert_eq!(still, created, "{about}");
            go_on(&mut new);
            let mut first: HashMap<(u32, bool), u32> = HashMap::new();
            for Served { number, thread, before } in &new.served[from..] {
                let Came { connection, reply, .. } = new.came[*number];
                let key = (connection, reply);
                assert_eq!(*thread, heir(&key), "{about}: {key:?}");
                let start = if reply && joined(connection) { 0 } else { known[&key].1 };
                let seen = first.entry(key).or_insert(start);
                assert_eq!(*before, *seen, "{about}: {key:?}");
                *seen += 1;
            }
            assert_eq!(first.len(), CONNECTIONS as usize * 2, "{about}");
            // What did not go over is a half each, of which functions hear once.
            let mut ended = 0;
            for manager in &mut old.managers {
                while manager.end_some(Ended::Removed) {
                    let reports = release(manager);
                    ended += reports.iter().map(|(_, states)| states.len()).sum::<usize>();
                }
            }
            assert_eq!(ended, count as usize, "{about}");
        }
    }
}

#[test]
fn threads_that_do_not_begin_give_all_back() {
    for (translates, whole) in [(false, false), (true, false), (false, true), (true, true)] {
        for (before, after) in [(1, 3), (2, 3), (3, 2), (3, 1)] {
            let demand = counting(translates, whole);
            let mut old = busy(before, &demand);
            let threads = heirs(before, after);
            let mut new = town_of(after, &demand, None);
            inherit(&mut new, &mut old, &threads);
            for taken in [Taken::Main, Taken::Rest] {
                for (thread, manager) in old.managers.iter_mut().enumerate() {
                    let from = &mut new.managers[usize::from(threads[thread])];
                    manager.take_back(from, Some, taken);
                }
            }
            go_on(&mut old);
            old.check_one_server(whole);
        }
    }
}

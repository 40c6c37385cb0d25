//! Entries against a plain list of sessions.

use std::collections::{HashMap, HashSet, VecDeque};

use proptest::prelude::*;

use super::*;

/// What goes to the function.
#[derive(Debug, Clone, Copy)]
enum Slot {
    Packet { session: u64, mark: SlotTag },
    Released(u32),
}

/// The element's side, with sessions by numbers of their own; and the function as it knows
/// them: by index, of which session the scratch is.
struct Game {
    entries: Entries,
    arena: Arc<Arena>,
    open: HashMap<u64, SessionEntry>,
    ring: VecDeque<Slot>,
    function: HashMap<u32, u64>,
    begun: HashSet<u64>,
    released: HashSet<u64>,
    next: u64,
}

const COUNT: u32 = 5;

impl Game {
    fn new() -> Game {
        let arena = Arc::new(Arena::create(8, 3 * COUNT).unwrap());
        let mut entries = Entries::new(COUNT, COUNT, 3);
        entries.set_arena(Some(Arc::clone(&arena)));
        Game {
            entries,
            arena,
            open: HashMap::new(),
            ring: VecDeque::new(),
            function: HashMap::new(),
            begun: HashSet::new(),
            released: HashSet::new(),
            next: 0,
        }
    }

    fn begin(&mut self) {
        let in_use: HashSet<u32> = self.open.values().map(|entry| entry.entry).collect();
        let ending = self.entries_ending();
        match self.entries.take() {
            Some(entry) => {
                assert!(entry.entry < COUNT && !in_use.contains(&entry.entry));
                assert!(!ending.contains(&(COUNT + entry.entry)));
                self.open.insert(self.next, entry);
                self.next += 1;
            }
            None => assert_eq!(in_use.len() + ending.len(), COUNT as usize),
        }
    }

    /// Indices whose end is still to be told or being told.
    fn entries_ending(&self) -> HashSet<u32> {
        let mut found = HashSet::new();
        let mut at = self.entries.ended.first;
        while let Some(entry) = at.checked_sub(1) {
            found.insert(COUNT + entry);
            at = self.entries.next[entry as usize];
        }
        found.extend(self.ring.iter().filter_map(|slot| match slot {
            Slot::Released(fcb) => Some(*fcb),
            Slot::Packet { .. } => None,
        }));
        found
    }

    fn packet(&mut self, nth: usize) {
        let mut sessions: Vec<u64> = self.open.keys().copied().collect();
        sessions.sort_unstable();
        let Some(&session) = sessions.get(nth % sessions.len().max(1)) else { return };
        let entry = self.open[&session];
        let mark = self.entries.ready(SlotTag::of(0, 0, COUNT + entry.entry));
        self.entries.put(mark);
        self.ring.push_back(Slot::Packet { session, mark });
    }

    fn end(&mut self, nth: usize) {
        let mut sessions: Vec<u64> = self.open.keys().copied().collect();
        sessions.sort_unstable();
        let Some(session) = sessions.get(nth % sessions.len().max(1)) else { return };
        let entry = self.open.remove(session).unwrap();
        self.entries.end(&SessionEntry { epoch: 2, ..entry });
        self.entries.end(&entry);
    }

    fn notify_ended(&mut self) {
        while let Some(fcb) = self.entries.next_ended() {
            if self.entries.knows(fcb) {
                self.ring.push_back(Slot::Released(fcb));
            } else {
                self.entries.release(fcb);
            }
        }
    }

    /// The function treats some slots, and gives them back.
    fn works(&mut self, count: usize) {
        for _ in 0..count {
            match self.ring.pop_front() {
                Some(Slot::Packet { session, mark }) => {
                    if mark.flags != 0 {
                        assert!(self.begun.insert(session), "told twice");
                        self.function.insert(mark.fcb, session);
                    }
                    assert_eq!(self.function.get(&mark.fcb), Some(&session));
                }
                Some(Slot::Released(fcb)) => {
                    let session = self.function.remove(&fcb).expect("one that it knows");
                    assert!(self.released.insert(session) && !self.open.contains_key(&session));
                    self.entries.release(fcb);
                }
                None => break,
            }
        }
    }

    /// The process is gone, and what was in the ring with it.
    fn dies(&mut self) {
        for slot in std::mem::take(&mut self.ring) {
            match slot {
                Slot::Packet { mark, .. } if mark.flags != 0 => self.entries.forget(mark.fcb),
                Slot::Packet { .. } => {}
                Slot::Released(fcb) => self.entries.end_again(fcb),
            }
        }
        self.entries.set_arena(Some(Arc::clone(&self.arena)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn an_entry_has_one_session_until_the_function_is_done_with_it(
        steps in prop::collection::vec((0u8..16, 0usize..8), 0..300)
    ) {
        let mut game = Game::new();
        for (what, nth) in steps {
            match what {
                0..4 => game.begin(),
                4..9 => game.packet(nth),
                9..11 => game.end(nth),
                11..13 => game.notify_ended(),
                13..15 => game.works(nth),
                _ => game.dies(),
            }
        }
        // In the end all are free again, and the function was told of each that it knew.
        for _ in 0..game.open.len() {
            game.end(0);
        }
        game.notify_ended();
        game.works(usize::MAX);
        prop_assert_eq!(&game.begun, &game.released);
        let mut free = HashSet::new();
        while let Some(entry) = game.entries.take() {
            prop_assert!(free.insert(entry.entry));
        }
        prop_assert_eq!(free.len(), COUNT as usize);
    }
}

#[test]
fn a_session_from_its_beginning_to_its_end_allocates_nothing() {
    let Game { mut entries, .. } = Game::new();
    let counted = allocation_counter::measure(|| {
        for _ in 0..100 {
            let entry = entries.take().expect("a free entry");
            for _ in 0..3 {
                let mark = entries.ready(SlotTag::of(0, 0, COUNT + entry.entry));
                entries.put(mark);
            }
            entries.end(&entry);
            let fcb = entries.next_ended().expect("one that has ended");
            entries.end_first(fcb);
            assert_eq!(entries.next_ended(), Some(fcb));
            entries.release(fcb);
        }
    });
    assert_eq!(counted.count_total, 0);
}

#[test]
fn a_new_session_has_scratch_of_zeros() {
    let mut game = Game::new();
    game.begin();
    let mut worker =
        Arena::open(game.arena.fd().try_clone_to_owned().unwrap(), 8, 3 * COUNT).unwrap();
    worker.session(COUNT).unwrap().fill(7);
    game.packet(0);
    assert_eq!(worker.session(COUNT).unwrap(), [0; 8]);
    worker.session(COUNT).unwrap().fill(7);
    game.packet(0);
    assert_eq!(worker.session(COUNT).unwrap(), [7; 8]);
    // A packet of no session, and one for a function that keeps nothing.
    assert_eq!(game.entries.ready(SlotTag::NONE), SlotTag::NONE);
    game.entries.set_arena(None);
    assert_eq!(game.entries.ready(SlotTag::of(1, 1, COUNT)), SlotTag::of(1, 1, u32::MAX));
    // Another memory: all are new to it.
    game.entries.set_arena(Some(Arc::new(Arena::create(8, 3 * COUNT).unwrap())));
    assert_eq!(
        game.entries.ready(SlotTag::of(0, 0, COUNT)).flags,
        SlotTag::NONE.new_session().flags
    );
}

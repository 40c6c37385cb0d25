//! The table of sessions against a `HashMap`, and what it promises of memory and of work.

use std::collections::HashMap;

use proptest::prelude::*;
use thruway_flow::Hasher;
use thruway_flow::table::{Found, Pool, Refused, Shape};

fn shape(alias: bool, sessions_max: u32) -> Shape {
    Shape {
        key_words: 4,
        alias,
        extra_words: 0,
        scratch_len: 0,
        scratch_align: 8,
        initial: Box::default(),
        sessions_max,
    }
}

fn pool(shape: Shape) -> Pool {
    Pool::new(shape, Hasher::new([1, 2]))
}

fn key(n: u32) -> [u32; 4] {
    [0x0a00_0000 | n & 0xffff, 0xc0a8_0001, n >> 16 << 16 | 443, 6]
}

/// What happens to a table. Numbers choose among sessions or keys.
#[derive(Clone, Debug)]
enum Step {
    Insert(u32),
    Alias(usize, u32),
    Unlink(usize),
    Free(usize),
    Find(u32),
    Write(usize, u8),
    /// Many at once, so that the index grows.
    Fill(u32, u32),
    /// Many at once, so that lines of overflow are given back.
    Drain(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..300u32;
    prop_oneof![
        6 => key.clone().prop_map(Step::Insert),
        4 => (any::<usize>(), key.clone()).prop_map(|(n, key)| Step::Alias(n, key)),
        2 => any::<usize>().prop_map(Step::Unlink),
        4 => any::<usize>().prop_map(Step::Free),
        4 => key.prop_map(Step::Find),
        4 => (any::<usize>(), any::<u8>()).prop_map(|(n, value)| Step::Write(n, value)),
        1 => (1000..60_000u32, 0..2_000u32).prop_map(|(from, n)| Step::Fill(from, n)),
        1 => (0..2_000u32).prop_map(Step::Drain),
    ]
}

/// What a session ought to be.
#[derive(Clone, Debug, PartialEq)]
struct Session {
    index: u32,
    key: Vec<u32>,
    alias: Option<Vec<u32>>,
    linked: bool,
    scratch: Vec<u8>,
    seen: u32,
}

/// A pool with what it ought to hold.
struct Compared {
    shape: Shape,
    pool: Pool,
    sessions: Vec<Session>,
    /// Session and whether it is its second key.
    keys: HashMap<Vec<u32>, (u32, bool)>,
}

impl Compared {
    fn new(shape: Shape) -> Compared {
        let pool = pool(shape.clone());
        Compared { shape, pool, sessions: Vec::new(), keys: HashMap::new() }
    }

    /// The `n`th key of this length: some differ in one word only, the last has few values.
    fn key(&self, n: u32) -> Vec<u32> {
        let mut key = vec![0; self.shape.key_words];
        key[0] = n / 3;
        *key.last_mut().unwrap() = n % 3;
        key
    }

    fn insert(&mut self, key: Vec<u32>) {
        if self.keys.contains_key(&key) {
            return;
        }
        let full = self.sessions.len() == self.shape.sessions_max as usize;
        match self.pool.insert(&key) {
            Ok(index) => {
                assert!(!full && !self.sessions.iter().any(|session| session.index == index));
                let mut scratch = self.shape.initial.to_vec();
                scratch.resize(self.shape.scratch_len, 0);
                self.keys.insert(key.clone(), (index, false));
                let (alias, linked, seen) = (None, true, 0);
                self.sessions.push(Session { index, key, alias, linked, scratch, seen });
            }
            Err(refused) => assert!(full && refused == Refused::Full, "{refused}"),
        }
    }

    fn alias(&mut self, n: usize, key: Vec<u32>) {
        let count = self.sessions.len();
        let Some(session) = self.sessions.get_mut(n % count.max(1)) else { return };
        let result = self.pool.alias(session.index, &key);
        let open = self.shape.alias && session.linked && session.alias.is_none();
        if !open || session.key.last() != key.last() {
            assert_eq!(result, Err(Refused::NoRoom));
        } else if self.keys.contains_key(&key) {
            assert_eq!(result, Err(Refused::Taken));
        } else {
            assert_eq!(result, Ok(()));
            self.keys.insert(key.clone(), (session.index, true));
            session.alias = Some(key);
        }
    }

    fn unlink(&mut self, n: usize) {
        let count = self.sessions.len();
        let Some(session) = self.sessions.get_mut(n % count.max(1)) else { return };
        self.pool.unlink(session.index);
        if std::mem::replace(&mut session.linked, false) {
            self.keys.remove(&session.key);
            session.alias.as_ref().map(|alias| self.keys.remove(alias));
        }
    }

    fn free(&mut self, n: usize) {
        self.unlink(n);
        if !self.sessions.is_empty() {
            let session = self.sessions.swap_remove(n % self.sessions.len());
            self.pool.free(session.index);
            assert!(!self.pool.is_live(session.index));
        }
    }

    fn write(&mut self, n: usize, value: u8) {
        let count = self.sessions.len();
        let Some(session) = self.sessions.get_mut(n % count.max(1)) else { return };
        session.seen = u32::from(value);
        self.pool.head_mut(session.index).seen = u32::from(value);
        session.scratch.fill(value);
        self.pool.scratch_mut(session.index).fill(value);
        for number in 0..self.shape.extra_words {
            *self.pool.extra_mut(session.index, number) = u32::from(value);
        }
    }

    fn expected(&self, key: &[u32]) -> Option<(u32, bool)> {
        self.keys.get(key).copied()
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Insert(n) => self.insert(self.key(n)),
            Step::Alias(n, key) => self.alias(n, self.key(key)),
            Step::Unlink(n) => self.unlink(n),
            Step::Free(n) => self.free(n),
            Step::Write(n, value) => self.write(n, value),
            Step::Fill(from, n) => (from..from + n).for_each(|n| self.insert(self.key(n))),
            Step::Drain(n) => (0..n).for_each(|n| self.free(n as usize * 7)),
            Step::Find(n) => {
                let key = self.key(n);
                assert_eq!(result(self.pool.find(&key)), self.expected(&key));
            }
        }
        assert_eq!(self.pool.len() as usize, self.sessions.len());
        assert_eq!(self.pool.load().slots_used as usize, self.keys.len());
        assert!(self.pool.memory_bytes() <= self.pool.memory_max_bytes());
    }

    /// Everything, in both directions.
    fn compare(&self) {
        for session in &self.sessions {
            let index = session.index;
            assert_eq!(self.pool.key(index), session.key);
            assert_eq!(self.pool.scratch(index), session.scratch);
            assert_eq!(self.pool.head(index).seen, session.seen);
            assert_eq!((self.pool.head(index).opened, self.pool.head(index).leaf), (0, 0));
            assert_eq!(self.pool.is_linked(index), session.linked);
            let alias = session.alias.as_ref().map(|key| &key[..key.len() - 1]);
            assert_eq!(self.pool.alias_key(index), alias);
            let extra = (0..self.shape.extra_words).map(|number| self.pool.extra(index, number));
            assert!(extra.into_iter().all(|word| word == session.seen));
            let address = self.pool.scratch(index).as_ptr() as usize;
            assert!(address.is_multiple_of(self.shape.scratch_align) || session.scratch.is_empty());
        }
        let (mut from, mut live) = (0, Vec::new());
        loop {
            let (some, next) = self.pool.live(from, 100);
            live.extend(some);
            from = next;
            if next == 0 {
                break;
            }
        }
        let mut expected: Vec<u32> = self.sessions.iter().map(|session| session.index).collect();
        expected.sort_unstable();
        assert_eq!(live, expected);
    }

    /// All keys there are and as many that there are not, looked up in batches.
    fn compare_batch<const W: usize>(&self) {
        let absent = (0..self.keys.len() as u32).map(|n| self.key(100_000 + n));
        let keys: Vec<[u32; W]> =
            self.keys.keys().cloned().chain(absent).map(|key| key.try_into().unwrap()).collect();
        let mut found = vec![Found::NONE; keys.len()];
        self.pool.find_batch(&keys, &mut found);
        for (key, found) in keys.iter().zip(found) {
            assert_eq!(result(found), self.expected(key));
            assert_eq!(found, self.pool.find(key));
        }
    }
}

fn result(found: Found) -> Option<(u32, bool)> {
    found.index().map(|index| (index, found.is_alias()))
}

/// Shapes of all sorts: keys narrow and wide, scratch aligned and not.
fn shapes() -> impl Strategy<Value = Shape> {
    let scratch = prop_oneof![Just((0, 8)), Just((12, 8)), Just((3000, 8)), Just((100, 64))];
    (prop::bool::ANY, prop::bool::ANY, 0..3usize, scratch, prop::bool::ANY, 1..5_000u32).prop_map(
        |(wide, alias, extra_words, (scratch_len, scratch_align), initial, sessions_max)| Shape {
            key_words: if wide { 12 } else { 4 },
            alias,
            extra_words,
            scratch_len,
            scratch_align,
            initial: if initial { vec![7; scratch_len / 2].into() } else { Box::default() },
            sessions_max,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn a_pool_is_a_map(shape in shapes(), steps in prop::collection::vec(step(), 1..120)) {
        let mut compared = Compared::new(shape);
        for step in &steps {
            compared.step(step);
        }
        compared.compare();
        match compared.shape.key_words {
            4 => compared.compare_batch::<4>(),
            _ => compared.compare_batch::<12>(),
        }
    }
}

#[test]
fn growth_moves_few_entries_per_insertion() {
    let mut pool = pool(shape(false, 1 << 20));
    let (mut before, mut worst) = (pool.load(), 0);
    for n in 0..1 << 20 {
        pool.insert(&key(n)).unwrap();
        let load = pool.load();
        // Two buckets more at most, each with entries of one chain.
        assert!(load.buckets - before.buckets <= 2);
        worst = worst.max(load.moved - before.moved);
        before = load;
    }
    assert!(worst <= 2 * 48, "{worst} entries moved by one insertion");
    assert!(before.moved < 2 << 20, "{} moved in all", before.moved);
    assert_eq!((before.slots_used, before.refused_full), (1 << 20, 0));
    assert!(before.chain_max <= 4, "a chain of {} lines", before.chain_max);
    assert_eq!(pool.insert(&key(1 << 20)), Err(Refused::Full));
    for n in (0..1 << 20).step_by(7) {
        assert!(pool.find(&key(n)).index().is_some_and(|index| pool.key(index) == key(n)));
    }
}

#[test]
fn a_session_takes_at_most_64_bytes() {
    const SESSIONS: u32 = 300_000;
    for alias in [false, true] {
        let mut pool = pool(shape(alias, SESSIONS));
        assert!(pool.memory_bytes() < 20_000);
        for n in 0..SESSIONS {
            let index = pool.insert(&key(n)).unwrap();
            if alias {
                let [source, _, ports, protocol] = key(n);
                pool.alias(index, &[0xc0a8_0001, source, ports, protocol]).unwrap();
            }
        }
        let bytes = pool.memory_max_bytes() - 35_000;
        assert!(bytes / SESSIONS as usize <= 64, "{bytes} bytes");
        assert!(pool.memory_bytes() <= pool.memory_max_bytes());
        // The index has the lines it needs, not more.
        assert!(pool.memory_bytes() > pool.memory_max_bytes() / 10 * 9);
    }
}

/// Sessions come and go at the bound: the index neither grows nor refuses.
#[test]
fn a_full_table_stays_as_it_is() {
    const SESSIONS: u32 = 50_000;
    let mut pool = pool(shape(false, SESSIONS));
    let mut indices: Vec<u32> = (0..SESSIONS).map(|n| pool.insert(&key(n)).unwrap()).collect();
    for n in SESSIONS..20 * SESSIONS {
        let place = (n.wrapping_mul(0x9e37_79b9) >> 8) as usize % indices.len();
        pool.free(indices[place]);
        indices[place] = pool.insert(&key(n)).unwrap();
    }
    assert_eq!(pool.load().refused_full, 0);
    assert!(pool.memory_bytes() <= pool.memory_max_bytes());
}

#[test]
fn lookups_do_not_allocate_and_insertions_rarely_do() {
    let mut pool = pool(shape(false, 100_000));
    let inserted = allocation_counter::measure(|| {
        (0..100_000).for_each(|n| _ = pool.insert(&key(n)).unwrap());
    });
    // Segments of 1 MB, of records and of two kinds of lines, and their lists.
    assert!((4..16).contains(&inserted.count_total), "{} allocations", inserted.count_total);
    let keys: Vec<[u32; 4]> = (0..256).map(|n| key(n * 500)).collect();
    let mut found = [Found::NONE; 256];
    let rest = allocation_counter::measure(|| {
        pool.find_batch(&keys, &mut found);
        (0..50_000).for_each(|index| pool.free(index));
        (200_000..250_000).for_each(|n| _ = pool.insert(&key(n)).unwrap());
    });
    assert_eq!(found.iter().filter(|found| !found.is_none()).count(), 200);
    assert_eq!(rest.count_total, 0);
}

#[test]
fn numbers_without_a_record_are_not_live() {
    let mut pool = pool(shape(false, 10));
    let index = pool.insert(&key(1)).unwrap();
    for other in [1, 9, 10, 1 << 30, u32::MAX] {
        assert!(!pool.is_live(other));
        pool.prefetch(other);
    }
    pool.unlink(index);
    assert!(pool.is_live(index) && !pool.is_linked(index) && pool.find(&key(1)).is_none());
    assert_eq!(pool.alias(index, &key(2)), Err(Refused::NoRoom));
    pool.free(index);
    pool.free(index);
    assert!(pool.is_empty() && !pool.is_live(index));
}

/// Slots hold hashes of 32 bits: among so many keys some are equal, and only the keys differ.
#[test]
fn keys_of_equal_hashes_are_distinguished() {
    const SESSIONS: u32 = 300_000;
    let hasher = Hasher::new([1, 2]);
    let mut hashes: Vec<u32> = (0..SESSIONS * 2).map(|n| hasher.hash(&key(n)) as u32).collect();
    hashes.sort_unstable();
    let equal = hashes.windows(2).filter(|pair| pair[0] == pair[1]).count();
    assert!(equal > 10, "{equal} pairs");
    // Every other key is absent.
    let mut pool = pool(shape(false, SESSIONS));
    let indices: Vec<u32> = (0..SESSIONS).map(|n| pool.insert(&key(n * 2)).unwrap()).collect();
    let keys: Vec<[u32; 4]> = (0..SESSIONS * 2).map(key).collect();
    let mut found = vec![Found::NONE; keys.len()];
    pool.find_batch(&keys, &mut found);
    for (n, found) in found.iter().enumerate() {
        let expected = n.is_multiple_of(2).then(|| indices[n / 2]);
        assert_eq!(found.index(), expected, "key {n}");
    }
}

/// An attacker that knows the seed can fill a bucket: its keys are refused, and the others'
/// sessions stay.
#[test]
fn a_full_bucket_refuses() {
    let hasher = Hasher::new([1, 2]);
    let mut pool = pool(shape(false, 1000));
    let chosen: Vec<[u32; 4]> =
        (0..).map(key).filter(|key| hasher.hash(key) & 0xff == 7).take(60).collect();
    let (kept, refused) = chosen.split_at(48);
    let indices: Vec<u32> = kept.iter().map(|key| pool.insert(key).unwrap()).collect();
    assert!(refused.iter().all(|key| pool.insert(key) == Err(Refused::IndexFull)));
    assert_eq!((pool.len(), pool.load().refused_full, pool.load().chain_max), (48, 12, 6));
    let found = |pool: &Pool, key: &[u32; 4]| pool.find(key).index();
    assert!(kept.iter().zip(&indices).all(|(key, index)| found(&pool, key) == Some(*index)));
    assert!(refused.iter().all(|key| found(&pool, key).is_none()));
    // There is room elsewhere, and here after a removal.
    let other = (0..).map(key).find(|key| hasher.hash(key) & 0xff == 8).unwrap();
    pool.insert(&other).unwrap();
    pool.free(indices[0]);
    pool.insert(&refused[0]).unwrap();
    assert!(kept[1..].iter().zip(&indices[1..]).all(|(key, at)| found(&pool, key) == Some(*at)));
    indices[1..].iter().for_each(|index| pool.free(*index));
    assert_eq!(pool.load().overflow_free, pool.load().overflow);
}

//! What sums are kept in.

use std::sync::Arc;

use anyhow::Context as _;
use thruway_sync::{CachePadded, Consistency, Counter, Structure, Tallies, Tally};

/// Words of a structure that is to be large: 4 kB.
pub const LARGE: usize = 512;

/// A structure, or what to compare it with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Subject {
    /// Nothing is added to anything: what the rest of a turn costs.
    Nothing,
    /// Two words that all threads load and store, without any care: what is lost is reported.
    Careless,
    /// One of the structures.
    Of(Structure),
}

/// Makes each thread's part.
pub type Join = Box<dyn Fn() -> anyhow::Result<Box<dyn Tally>>>;

impl Subject {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Subject> {
        let structures = Structure::ALL.iter().copied().map(Subject::Of);
        [Subject::Nothing, Subject::Careless].into_iter().chain(structures)
    }

    /// Name, as in the element Counter's argument.
    pub fn name(self) -> &'static str {
        let at = |structure| Structure::ALL.iter().position(|one| *one == structure);
        match self {
            Subject::Nothing => "nothing",
            Subject::Careless => "careless",
            Subject::Of(structure) => at(structure).map_or("", |at| Structure::NAMES[at]),
        }
    }

    /// What a reader may rely on.
    pub fn consistency(self) -> &'static str {
        match self {
            Subject::Nothing | Subject::Careless => "none",
            Subject::Of(structure) => match structure.consistency() {
                Consistency::Word => "word",
                Consistency::Thread => "thread",
                Consistency::Moment => "moment",
            },
        }
    }

    /// Zeros for so many threads, in a structure of 2 words or of [`LARGE`].
    pub fn make(self, threads: usize, is_large: bool) -> Join {
        match self {
            Subject::Nothing => Box::new(|| Ok(Box::new(Nothing))),
            Subject::Careless => {
                let shared = Careless::default();
                Box::new(move || Ok(Box::new(shared.clone())))
            }
            Subject::Of(structure) if is_large => join::<LARGE>(structure, threads),
            Subject::Of(structure) => join::<2>(structure, threads),
        }
    }
}

fn join<const N: usize>(structure: Structure, threads: usize) -> Join {
    let tallies = Tallies::<N>::new(structure, threads);
    Box::new(move || tallies.join().context("more threads than places"))
}

struct Nothing;

impl Tally for Nothing {
    fn add(&mut self, _by: [u64; 2]) {}

    fn totals(&mut self) -> [u64; 2] {
        [0; 2]
    }
}

/// The counters are for one writer each; here all threads write them.
#[derive(Clone, Default)]
struct Careless(Arc<CachePadded<[Counter; 2]>>);

impl Tally for Careless {
    fn add(&mut self, by: [u64; 2]) {
        self.0.0[0].add(by[0]);
        self.0.0[1].add(by[1]);
    }

    fn totals(&mut self) -> [u64; 2] {
        [self.0.0[0].get(), self.0.0[1].get()]
    }
}

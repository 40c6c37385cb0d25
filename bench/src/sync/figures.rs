//! The figures of the thesis (section 4.3, appendix B.1): which points each has.

use thruway_sync::Structure;

use super::race::Role;
use super::subject::Subject;

/// A figure.
pub struct Figure {
    /// As on the command line.
    pub name: &'static str,
    pub title: &'static str,
    points: fn(threads: usize) -> Vec<Shape>,
    /// Whether it is about this structure.
    has: fn(Subject) -> bool,
}

/// What threads do at a point, whatever they share.
#[derive(Clone)]
pub struct Shape {
    /// The point's place on the axis.
    pub x: i64,
    /// One for each thread.
    pub roles: Vec<Role>,
    pub is_large: bool,
}

/// A point: what is done, with what.
pub struct Point {
    pub subject: Subject,
    pub shape: Shape,
}

/// Reads for each write; negative: writes for each read. Those of figure 4.25, fewer.
const MIXES: [i64; 11] = [-65_536, -4_096, -256, -16, -4, 1, 4, 16, 256, 4_096, 65_536];

/// Multiplications between two batches: some 100 ns, as 32 packets of 3 ns take.
const BATCH_WORK: u32 = 200;

/// Multiplications before an operation that is timed: somewhat less than a microsecond.
const SELDOM_WORK: u32 = 1_500;

/// Every figure.
pub const FIGURES: &[Figure] = &[
    Figure {
        name: "4.19",
        title: "only adds, by x threads, one straight after the other",
        points: |threads| write_mostly(threads, 0),
        has: |_| true,
    },
    Figure {
        name: "4.19-work",
        title: "only adds, by x threads, with some 100 ns of a batch's work between",
        points: |threads| write_mostly(threads, BATCH_WORK),
        has: |_| true,
    },
    Figure {
        name: "4.25",
        title: "x reads for an add (-x: adds for a read), by all threads; 4.24 is its right half",
        points: |threads| MIXES.iter().map(|x| mix(*x, threads, false)).collect(),
        has: |_| true,
    },
    Figure {
        name: "large",
        title: "the same with 4 kB of words, of which two are used (table 4.1's last row)",
        points: |threads| [-256, 1, 256].map(|x| mix(x, threads, true)).to_vec(),
        has: is_of_a_moment,
    },
    Figure {
        name: "B.4",
        title: "readers or writers, neither or one side preferred: as 4.25",
        points: |threads| MIXES.iter().map(|x| mix(*x, threads, false)).collect(),
        has: |subject| matches!(subject, Subject::Of(Structure::RxW(_))),
    },
    Figure {
        name: "read-waits",
        title: "a thread reads now and then, the others add all the time: how long reads take",
        points: |threads| vec![duel(threads, true)],
        has: is_structure,
    },
    Figure {
        name: "add-waits",
        title: "a thread adds now and then, the others read all the time: how long adds take",
        points: |threads| vec![duel(threads, false)],
        has: is_structure,
    },
];

fn is_structure(subject: Subject) -> bool {
    matches!(subject, Subject::Of(_))
}

fn is_of_a_moment(subject: Subject) -> bool {
    subject.consistency() == "moment"
}

/// What busy threads have in common: neither pauses nor times.
const BUSY: Role = Role { writes: 0, reads: 0, work: 0, is_timed: false };

fn write_mostly(threads: usize, work: u32) -> Vec<Shape> {
    let shape = |count: usize| Shape {
        x: count as i64,
        roles: vec![Role { writes: 1, work, ..BUSY }; count],
        is_large: false,
    };
    (1..=threads).map(shape).collect()
}

fn mix(x: i64, threads: usize, is_large: bool) -> Shape {
    // At most 65,536.
    let many = x.unsigned_abs() as u32;
    let (writes, reads) = if x < 0 { (many, 1) } else { (1, many) };
    Shape { x, roles: vec![Role { writes, reads, ..BUSY }; threads], is_large }
}

/// One thread seldom does the one, and its operations are timed; the others always do the other.
fn duel(threads: usize, is_read: bool) -> Shape {
    let (reads, writes) = (Role { reads: 1, ..BUSY }, Role { writes: 1, ..BUSY });
    let (seldom, busy) = if is_read { (reads, writes) } else { (writes, reads) };
    let seldom = Role { work: SELDOM_WORK, is_timed: true, ..seldom };
    let mut roles = vec![busy; threads];
    if let Some(first) = roles.first_mut() {
        *first = seldom;
    }
    Shape { x: threads as i64, roles, is_large: false }
}

impl Figure {
    /// Its points, for so many threads at most and structures that are wanted.
    pub fn points(&self, threads: usize, wanted: impl Fn(&str) -> bool) -> Vec<Point> {
        let some: Vec<Subject> =
            Subject::all().filter(|one| (self.has)(*one) && wanted(one.name())).collect();
        let shapes = (self.points)(threads);
        shapes
            .iter()
            .flat_map(|shape| some.iter().map(|one| Point { subject: *one, shape: shape.clone() }))
            .collect()
    }
}

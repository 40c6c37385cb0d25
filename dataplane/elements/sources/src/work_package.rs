//! WorkPackage: work of a given size on each packet.

mod mersenne;

use std::hint::black_box;
use std::sync::{Arc, OnceLock};

use thruway_element::cost::Access;
use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cost, CostModel, Cx, Element, Entry, HandlerError, Handlers,
    Load, Operation, Replicas, Spec, Topic, Ty,
};
use thruway_packet::{Batch, Packet, cycles, fallible};

use mersenne::Mersenne;
use thruway_elements_support::random::{self, Random, fresh_seed};

/// See the spec.
pub static ENTRY: Entry = Entry::built::<WorkPackage>(
    Spec {
        name: "WorkPackage",
        topic: Topic::Sources,
        summary: "loads processor and memory for each packet",
        docs: "A stage of processing of a known cost, to measure how stages are best placed. \
               For each packet it draws W numbers from a Mersenne Twister, then reads N words of \
               32 bits, each from where the last number and the last word say: from an array of S \
               megabytes, or R percent of them from the packet, of which PAYLOAD shows all, else \
               its first 54 bytes. Numbers do not depend on each other; each read waits for the \
               one before it. All threads read the one array of the element. Packets are not \
               changed.",
        example: "InfiniteSource(LIMIT 1000, STOP true) -> WorkPackage(1, 20, 50, false, W 4) \
                  -> Discard",
        ports: "1-/=",
        processing: "h/h",
        straight: true,
        args: &[
            Arg::required("S", Ty::Float, "megabytes of the array (of 2^20 bytes)"),
            Arg::required("N", Ty::UInt, "reads per packet"),
            Arg::required("R", Ty::UInt, "percent of the reads that go to the packet"),
            Arg::required("PAYLOAD", Ty::Bool, "whether they go beyond its headers"),
            Arg::keyword("W", Ty::UInt, "numbers drawn per packet").or("1"),
            Arg::keyword(
                "ANALYSIS",
                Ty::Bool,
                "whether cycles_work and cycles_per_work are reported",
            )
            .or("false"),
        ],
        changes: Changes::Nothing,
        cost: &[Operation::Random.once()],
        replicas: Replicas::Sharing("the array"),
        ..Spec::DEFAULT
    },
    build,
)
.with_cost_model::<WorkPackage>();

/// Largest array, megabytes.
const S_MAX: f64 = 1024.0;
/// Most numbers and reads per packet: some milliseconds.
const WORK_MAX: u32 = 100_000;
/// Bytes of headers that reads stay in without PAYLOAD: Ethernet, IP and TCP without options.
const HEADERS: usize = 54;
/// Bytes of a word.
const WORD: usize = 4;

/// Filled by the first thread that is initialised.
type Array = Arc<OnceLock<Result<Vec<u32>, String>>>;

#[derive(Handlers)]
#[handler(sum, field = draws, name = "cycles_work", "numbers drawn, with ANALYSIS")]
#[handler(
    read, name = "cycles_per_work", "clock cycles for each, reads included (one thread)",
    read = self.read_cycles_per_work()
)]
struct WorkPackage {
    work: Work,
    random: Mersenne,
    array: Array,
    array_words: usize,
    seed: u64,
    /// Whether cycles and draws are counted, and how many there were.
    analysis: bool,
    cycles: u64,
    draws: u64,
}

/// How much is done for each packet.
#[derive(Clone, Copy)]
struct Work {
    draws: u32,
    reads: u32,
    percent: u32,
    payload: bool,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let size: f64 = args.get("S")?;
    if !(0.0..=S_MAX).contains(&size) {
        return Err(args.error("S", format!("must be from 0 to {S_MAX} megabytes")).into());
    }
    let bounded = |name: &str, most: u32| match args.get::<u32>(name)? {
        number if number <= most => Ok(number),
        _ => Err(ArgErrors::from(args.error(name, format!("must be at most {most}")))),
    };
    let work = Work {
        draws: bounded("W", WORK_MAX)?,
        reads: bounded("N", WORK_MAX)?,
        percent: bounded("R", 100)?,
        payload: args.get("PAYLOAD")?,
    };
    let seed = random::of_element(args, fresh_seed()).next_u64();
    Ok(Box::new(WorkPackage {
        work,
        random: Mersenne::from_seed(seed as u32),
        array: args.shared("array", OnceLock::new),
        // Below 2^28.
        array_words: ((size * f64::from(1 << 20)) as usize / WORD).max(1),
        seed,
        analysis: args.get("ANALYSIS")?,
        cycles: 0,
        draws: 0,
    }))
}

/// An array of so many random words.
fn filled(words: usize, seed: u64) -> Result<Vec<u32>, String> {
    let mut array: Vec<u32> = Vec::new();
    let lacking = |_| format!("no memory for an array of {} bytes: lower S", words * WORD);
    fallible(|| array.try_reserve_exact(words)).map_err(lacking)?;
    let mut random = Random::from_seed(seed);
    array.extend((0..words).map(|_| random.next_u64() as u32));
    Ok(array)
}

/// The place below `n` that a number means: spread evenly. `n` is at most 2^32.
#[inline]
fn index_of(number: u32, n: usize) -> usize {
    ((u64::from(number) * n as u64) >> 32) as usize
}

impl Work {
    /// Does it, and returns what depends on all of it.
    #[inline]
    fn on(self, packet: &Packet, random: &mut Mersenne, array: &[u32]) -> u32 {
        let mut number = 0;
        for _ in 0..self.draws {
            number = random.next();
        }
        let visible = if self.payload { packet.len() } else { packet.len().min(HEADERS) };
        for _ in 0..self.reads {
            // Other bits than those that say which word.
            let is_packet = index_of(number.rotate_left(16), 100) < self.percent as usize;
            let word = if is_packet {
                read(&packet.data()[..visible], number)
            } else {
                array[index_of(number, array.len())]
            };
            // Multiplied, or few words of a packet would soon lead in circles.
            number = (number ^ word).wrapping_mul(0x9e37_79b1).wrapping_add(1);
        }
        number
    }
}

/// The word of a packet that a number means; of one that has none, zero.
#[inline]
fn read(bytes: &[u8], number: u32) -> u32 {
    let places = (bytes.len() + 1).saturating_sub(WORD);
    let word = bytes.get(index_of(number, places)..).and_then(<[u8]>::first_chunk);
    word.map_or(0, |word| u32::from_ne_bytes(*word))
}

impl WorkPackage {
    fn read_cycles_per_work(&mut self) -> Result<String, HandlerError> {
        Ok(format!("{:.1}", self.cycles as f64 / self.draws.max(1) as f64))
    }
}

impl Element for WorkPackage {
    fn initialize(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        let array = self.array.get_or_init(|| filled(self.array_words, self.seed));
        array.as_ref().map(|_| ()).map_err(String::clone)
    }

    fn process(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) {
        // Initialised, or it would not run.
        let Some(Ok(array)) = self.array.get() else { return };
        let begin = if self.analysis { cycles() } else { 0 };
        for packet in &*batch {
            black_box(self.work.on(packet, &mut self.random, array));
        }
        if self.analysis {
            self.cycles += cycles().wrapping_sub(begin);
            self.draws += u64::from(self.work.draws) * batch.len() as u64;
        }
        cx.pass_on(port, batch);
    }
}

impl CostModel for WorkPackage {
    fn cost(&self, _load: &Load) -> Option<Vec<Cost>> {
        let Work { draws, reads, percent, .. } = self.work;
        let of_packet = f64::from(reads) * f64::from(percent) / 100.0;
        let of_array = Operation::ArrayLookup.times(f64::from(reads) - of_packet);
        let bytes = (self.array_words * WORD) as f64;
        Some(vec![
            Operation::Random.times(f64::from(draws)),
            of_array.reaching(bytes, 1.0, Access::Dependent),
            Operation::ArrayLookup.times(of_packet),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The results of many packets with these bytes.
    fn outcome(work: Work, bytes: &[u8], array: &[u32]) -> Vec<u32> {
        let packet = Packet::new(bytes).unwrap();
        let mut random = Mersenne::from_seed(1);
        (0..50).map(|_| work.on(&packet, &mut random, array)).collect()
    }

    #[test]
    fn reads_go_where_they_are_to_go() {
        let (packet, array) = ([7; 64], [3; 100]);
        let (mut other_header, mut other_payload) = (packet, packet);
        other_header[20..50].fill(9);
        other_payload[54..].fill(9);
        let depends = |percent, payload| {
            let work = Work { draws: 1, reads: 20, percent, payload };
            let usual = outcome(work, &packet, &array);
            [
                outcome(work, &other_header, &array) != usual,
                outcome(work, &other_payload, &array) != usual,
                outcome(work, &packet, &[4; 100]) != usual,
            ]
        };
        assert_eq!(depends(0, true), [false, false, true]);
        assert_eq!(depends(50, false), [true, false, true]);
        assert_eq!(depends(100, false), [true, false, false]);
        assert_eq!(depends(100, true), [true, true, false]);
    }

    #[test]
    fn as_many_numbers_are_drawn_as_asked_for() {
        let packet = Packet::new(&[0; 64]).unwrap();
        let work = Work { draws: 5, reads: 0, percent: 0, payload: false };
        let (mut random, mut same) = (Mersenne::from_seed(1), Mersenne::from_seed(1));
        let drawn: Vec<u32> = (0..15).map(|_| same.next()).collect();
        let last = (0..3).map(|_| work.on(&packet, &mut random, &[0])).collect::<Vec<_>>();
        assert_eq!(last, [drawn[4], drawn[9], drawn[14]]);
    }

    proptest! {
        #[test]
        fn no_read_goes_astray(
            bytes in prop::collection::vec(any::<u8>(), 0..70),
            array in prop::collection::vec(any::<u32>(), 1..20),
            percent in 0_u32..101,
            payload: bool,
        ) {
            let work = Work { draws: 1, reads: 10, percent, payload };
            prop_assert_eq!(outcome(work, &bytes, &array).len(), 50);
        }
    }
}

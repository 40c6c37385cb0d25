//! The levels of the memory hierarchy, each measured over a field that fits it and none below.

use std::cell::RefCell;

use thruway_region::HUGE_PAGE_LEN;

use super::cores;
use super::effort::{Effort, Notes};
use super::error::CalibrateError;
use super::machine::{Cache, Machine};
use super::memory::{Field, Lines};
use super::statistics::{Probe, Summary, interleave};
use crate::Constant;
use crate::hardware::CacheLevel;

/// A level and how it is measured.
#[derive(Debug, Clone, PartialEq)]
struct Plan {
    name: String,
    /// What it holds for a core.
    bytes: u64,
    /// Bytes of the field that is walked through.
    field: usize,
    /// Whether the field is read once before each measurement, to be there.
    is_warmed: bool,
}

/// Bytes of the field for memory: several times the last cache, and no more than memory gives.
const MEMORY: std::ops::RangeInclusive<u64> = 64 << 20..=512 << 20;

/// Which levels there are and how each is measured.
fn plans(caches: &[Cache], memory: (u64, u64)) -> Vec<Plan> {
    let mut before = 0;
    let mut plans = Vec::new();
    for (nth, cache) in caches.iter().enumerate() {
        let bytes = cache.share();
        // Half, so that all fits whatever else is about; of a last level some multiple of the
        // level before it, so that others of the same cache have little say.
        let half = bytes / 2;
        let field = if nth >= 2 { half.min(4 * before).max(2 * before) } else { half };
        let name = format!("L{}", cache.level);
        plans.push(Plan { name, bytes, field: field as usize, is_warmed: true });
        before = bytes;
    }
    let largest = caches.last().map_or(0, |cache| cache.bytes);
    let field = (8 * largest).clamp(*MEMORY.start(), *MEMORY.end()).min(memory.1 / 8);
    plans.push(Plan {
        name: "DRAM".to_owned(),
        bytes: memory.0.max(field).max(before + 1),
        field: field as usize,
        is_warmed: false,
    });
    plans
}

/// The access patterns measured over a level.
#[derive(Debug, Clone, Copy)]
enum AccessPattern {
    Dependent,
    Prefetched,
    Stream,
}

const PATTERNS: [AccessPattern; 3] =
    [AccessPattern::Dependent, AccessPattern::Prefetched, AccessPattern::Stream];

impl AccessPattern {
    fn walk<L: Lines>(self, field: &mut Field<L>, lines: usize) -> f64 {
        match self {
            AccessPattern::Dependent => field.dependent(lines),
            AccessPattern::Prefetched => field.prefetched(lines),
            AccessPattern::Stream => field.stream(lines),
        }
    }
}

/// Lines of a first walk, by which it is seen how long one takes.
const PILOT: usize = 2048;

/// A walk that takes as long as wanted: a stretch short enough that mostly nobody disturbs it, and
/// long enough that its ends do not count.
struct Stretch {
    /// Lines, once that is known.
    lines: Option<usize>,
    cycles: f64,
}

impl Stretch {
    fn walk(&mut self, mut walk: impl FnMut(usize) -> f64) -> f64 {
        let cycles = self.cycles;
        let lines = *self.lines.get_or_insert_with(|| {
            let pilot = walk(PILOT).max(0.01);
            ((cycles / pilot) as usize).clamp(PILOT / 2, 1 << 20)
        });
        walk(lines)
    }
}

fn probe<'a, L: Lines>(
    (pattern, field): (AccessPattern, &'a RefCell<Field<L>>),
    plan: &'a Plan,
    effort: &Effort,
) -> Probe<'a> {
    let mut stretch = Stretch { lines: None, cycles: effort.cycles };
    Probe::new(move || {
        let mut field = field.borrow_mut();
        if plan.is_warmed {
            field.warm();
        }
        Ok(stretch.walk(|lines| pattern.walk(&mut field, lines)))
    })
}

/// What was measured of a level.
struct Walked {
    normal: [Summary; 3],
    copy: Summary,
    huge: Option<[Summary; 3]>,
}

fn walk(plan: &Plan, effort: &Effort, notes: &mut Notes) -> Result<Walked, CalibrateError> {
    let normal = RefCell::new(Field::heap(plan.field));
    let copied = &mut Field::heap(plan.field);
    // What is smaller than a page does not depend on its size.
    let is_large = plan.field >= HUGE_PAGE_LEN;
    let huge = is_large.then(|| Field::huge(plan.field)).transpose()?;
    if let Some(Err(why)) = &huge {
        notes.add(format!("{}: not measured over huge pages: {why}", plan.name));
    }
    let huge = huge.and_then(Result::ok).map(RefCell::new);
    let mut probes: Vec<Probe<'_>> =
        PATTERNS.iter().map(|pattern| probe((*pattern, &normal), plan, effort)).collect();
    if let Some(field) = &huge {
        probes.extend(PATTERNS.iter().map(|pattern| probe((*pattern, field), plan, effort)));
    }
    let mut stretch = Stretch { lines: None, cycles: effort.cycles };
    probes.push(Probe::new(move || {
        if plan.is_warmed {
            copied.warm();
        }
        Ok(stretch.walk(|lines| copied.copy(lines)))
    }));
    let steadiness = interleave(&mut probes, effort.rounds, effort.tries)?;
    notes.notes.extend(steadiness.note(&plan.name));
    let of = |at: usize| probes.get(at).map_or_else(|| Summary::of(&[]), Probe::summary);
    Ok(Walked {
        normal: [0, 1, 2].map(of),
        copy: of(probes.len() - 1),
        huge: (probes.len() > 4).then(|| [3, 4, 5].map(of)),
    })
}

/// Measures every level.
///
/// # Errors
/// When there is no memory.
pub fn measure(
    machine: &Machine,
    effort: &Effort,
    notes: &mut Notes,
) -> Result<Vec<CacheLevel>, CalibrateError> {
    let mut levels = Vec::new();
    let plans = plans(&machine.caches, machine.memory);
    for plan in &plans {
        notes.progress(&format!("{}: {} kB", plan.name, plan.field >> 10));
        let walked = walk(plan, effort, notes)?;
        levels.push(level(plan, &walked, &notes.day));
    }
    share(&plans, &mut levels, effort, notes);
    if let Some(last) = levels.last_mut() {
        notes.progress("bandwidth of memory");
        last.bandwidth = Some(bandwidth(machine, effort).constant(&notes.day));
    }
    Ok(levels)
}

/// Sees whether the last cache holds for this core what its share is; others that no system reports
/// of may be using it, as other machines of the same host do.
fn share(plans: &[Plan], levels: &mut [CacheLevel], effort: &Effort, notes: &mut Notes) {
    let [.., cache, memory] = levels else { return };
    let Some(plan) = plans.iter().rev().nth(1) else { return };
    let between = f64::midpoint(cache.dependent.value, memory.dependent.value);
    let mut bytes = plan.bytes;
    // Down to what it was measured over.
    while bytes / 2 >= plan.field as u64 {
        notes.progress(&format!("{}: whether it holds {} kB", plan.name, bytes >> 10));
        // A little less, for whatever else is there.
        let whole = Plan { field: bytes as usize / 8 * 7, ..plan.clone() };
        let field = RefCell::new(Field::heap(whole.field));
        let mut probes = [probe((AccessPattern::Dependent, &field), &whole, effort)];
        let held = interleave(&mut probes, effort.rounds.min(5), effort.tries);
        if held.is_ok() && probes[0].summary().value <= between {
            break;
        }
        bytes /= 2;
    }
    if bytes < plan.bytes {
        notes.add(format!(
            "{}: of a core's share of {} kB only some {} kB were found to hold what was read",
            plan.name,
            plan.bytes >> 10,
            bytes >> 10
        ));
    }
    cache.bytes = bytes as f64;
}

fn level(plan: &Plan, walked: &Walked, day: &str) -> CacheLevel {
    let constant = |summary: Summary| -> Constant {
        let mut constant = summary.constant(day);
        constant.source += &format!(", over {} kB", plan.field >> 10);
        constant
    };
    let [dependent, prefetched, stream] = walked.normal.map(constant);
    let [dependent_huge, prefetched_huge, stream_huge] =
        [0, 1, 2].map(|at| walked.huge.map(|huge| constant(huge[at])));
    CacheLevel {
        name: plan.name.clone(),
        bytes: plan.bytes as f64,
        dependent,
        prefetched,
        stream,
        copy: Some(constant(walked.copy)),
        dependent_huge,
        prefetched_huge,
        stream_huge,
        bandwidth: None,
    }
}

/// All cores read memory at once.
fn bandwidth(machine: &Machine, effort: &Effort) -> Summary {
    let shared = machine.caches.last().map_or(8 << 20, |cache| cache.bytes);
    let cores = machine.cores.len().max(1) as u64;
    // Together several times the last cache, and together no more than memory gives.
    let bytes = (4 * shared / cores).clamp(16 << 20, 256 << 20).min(machine.memory.1 / 8 / cores);
    let rounds = effort.rounds.min(5);
    let once = || cores::bandwidth(&machine.cores, bytes as usize, effort.stretch);
    let rates: Vec<f64> =
        (0..rounds).map(|_| (0..effort.tries).map(|_| once()).fold(0.0, f64::max)).collect();
    Summary::of(&rates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_fits_its_level_and_no_level_below() {
        let cache = |level, bytes, cores| Cache { level, bytes, cores };
        let caches = [cache(1, 48 << 10, 1), cache(2, 1 << 20, 1), cache(3, 32 << 20, 2)];
        let plans = plans(&caches, (24 << 30, 20 << 30));
        let fields: Vec<usize> = plans.iter().map(|plan| plan.field).collect();
        assert_eq!(fields, [24 << 10, 512 << 10, 4 << 20, 256 << 20]);
        assert_eq!(plans[2].bytes, 16 << 20, "half of it is the other core's");
        assert_eq!((plans[3].name.as_str(), plans[3].bytes), ("DRAM", 24 << 30));
        for pair in plans.windows(2) {
            assert!(pair[1].field as u64 > pair[0].bytes, "{pair:?}");
        }
    }

    #[test]
    fn little_memory_bounds_the_field() {
        let plans = plans(&[Cache { level: 1, bytes: 32 << 10, cores: 1 }], (512 << 20, 80 << 20));
        assert_eq!(plans[1].field, 10 << 20);
    }
}

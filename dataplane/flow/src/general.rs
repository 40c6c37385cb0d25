//! Expressions flattened to a jump program: exact for every expression and any packet length.

use crate::ast::{Expr, Word};
use crate::common::Common;
use crate::key::PacketView;
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt::Write;

/// A target: an instruction's index, or (top bit set) a verdict.
pub type Target = u32;
const VERDICT: u32 = 1 << 31;

/// The target that ends with a verdict (31 bits).
pub fn verdict(value: u32) -> Target {
    VERDICT | value
}

/// The verdict of a target that is one.
pub(crate) fn verdict_of(target: Target) -> u32 {
    target & !VERDICT
}

/// A test and where to go after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Insn {
    /// The test.
    pub word: Word,
    /// Next when it holds.
    pub yes: Target,
    /// Next when it does not.
    pub no: Target,
}

/// A program: instructions in a graph without cycles, since jumps as emitted only go back to
/// instructions emitted before.
#[derive(Clone, Debug, Default)]
pub struct Program {
    insns: Vec<Insn>,
}

impl Program {
    /// Appends the code of an expression that goes on to `yes` or `no`; returns its entry.
    pub fn add(&mut self, expr: &Expr, yes: Target, no: Target) -> Target {
        match expr {
            Expr::Const(b) => {
                if *b {
                    yes
                } else {
                    no
                }
            }
            Expr::Test(word) => {
                self.insns.push(Insn { word: *word, yes, no });
                (self.insns.len() - 1) as u32
            }
            Expr::Not(e) => self.add(e, no, yes),
            Expr::All(list) => list.iter().rev().fold(yes, |next, e| self.add(e, next, no)),
            Expr::Any(list) => list.iter().rev().fold(no, |next, e| self.add(e, yes, next)),
            Expr::Choice(cases, otherwise) => {
                let last = self.add(otherwise, yes, no);
                cases.iter().rev().fold(last, |next, (condition, then)| {
                    let then = self.add(then, yes, no);
                    self.add(condition, then, next)
                })
            }
        }
    }

    /// Number of instructions.
    pub fn len(&self) -> usize {
        self.insns.len()
    }

    /// Whether there are no instructions.
    pub fn is_empty(&self) -> bool {
        self.insns.is_empty()
    }

    /// Runs from an entry to a verdict.
    #[inline]
    pub fn run(&self, entry: Target, view: &PacketView<'_>) -> u32 {
        let mut at = entry;
        while at & VERDICT == 0 {
            let insn = &self.insns[at as usize];
            at = if view.passes(&insn.word) { insn.yes } else { insn.no };
        }
        at & !VERDICT
    }

    /// As [`run`](Self::run); `met` gets each test on the path, and its answer.
    pub(crate) fn follow(
        &self,
        entry: Target,
        view: &PacketView<'_>,
        mut met: impl FnMut(&Word, bool),
    ) -> u32 {
        let mut at = entry;
        while let Some(insn) = self.insn(at) {
            let answer = view.passes(&insn.word);
            met(&insn.word, answer);
            at = if answer { insn.yes } else { insn.no };
        }
        at & !VERDICT
    }

    /// Whether the tests on the path of a packet read only bytes that its session's packets have in
    /// common.
    pub(crate) fn is_common(&self, entry: Target, view: &PacketView<'_>, common: Common) -> bool {
        let mut is_common = true;
        self.follow(entry, view, |word, _| is_common &= common.has(word));
        is_common
    }

    /// The verdicts that `entry` leads to, and the fewest tests on the path to each, in that order.
    pub fn steps(&self, entry: Target) -> Vec<(u32, u32)> {
        let mut steps = Vec::new();
        let mut seen = HashSet::from([entry]);
        let mut next = VecDeque::from([(entry, 0)]);
        while let Some((target, tests)) = next.pop_front() {
            let Some(insn) = self.insn(target) else {
                steps.push((target & !VERDICT, tests));
                continue;
            };
            let answers = [insn.yes, insn.no].into_iter().filter(|answer| seen.insert(*answer));
            next.extend(answers.map(|answer| (answer, tests + 1)));
        }
        steps
    }

    /// The same function from `entry`, without tests that earlier tests decide. Gives up (returns
    /// `None`) beyond `insns_max` instructions: then the original serves.
    pub fn specialised(&self, entry: Target, insns_max: usize) -> Option<(Program, Target)> {
        let mut work = Specialiser { from: self, to: Vec::new(), seen: HashMap::new() };
        let entry = work.reach(entry, &[]);
        let mut done = 0;
        while done < work.to.len() {
            if work.to.len() > insns_max {
                return None;
            }
            let (word, facts) = (work.to[done].0.word, work.to[done].1.clone());
            let (yes, no) = (work.to[done].0.yes, work.to[done].0.no);
            work.to[done].0.yes = work.reach(yes, &with_fact(&facts, word, true));
            work.to[done].0.no = work.reach(no, &with_fact(&facts, word, false));
            done += 1;
        }
        let insns = work.to.into_iter().map(|(insn, _)| insn).collect();
        Some((Program { insns }, entry))
    }

    /// The instruction at a target, if that is one.
    pub(crate) fn insn(&self, target: Target) -> Option<&Insn> {
        self.insns.get(target as usize).filter(|_| target & VERDICT == 0)
    }

    /// The instructions that `entry` reaches, each before what its answers lead to for the first
    /// time: "yes" first, then "no".
    pub(crate) fn in_order(&self, entry: Target) -> Vec<Target> {
        let mut order = Vec::new();
        let mut seen = HashSet::new();
        let mut next = vec![entry];
        while let Some(target) = next.pop() {
            if let Some(insn) = self.insn(target)
                && seen.insert(target)
            {
                order.push(target);
                next.extend([insn.no, insn.yes]);
            }
        }
        order
    }

    /// Writes the instructions, one a line: number, test, and where each answer leads.
    pub fn describe(&self, out: &mut String) {
        for (i, insn) in self.insns.iter().enumerate() {
            let (yes, no) = (describe_target(insn.yes), describe_target(insn.no));
            let _ = writeln!(out, "{i:4}  {}  yes->{yes}  no->{no}", insn.word);
        }
    }
}

pub(crate) fn describe_target(target: Target) -> String {
    match target & !VERDICT {
        step if target & VERDICT == 0 => format!("step {step}"),
        crate::NO_MATCH | crate::DROP => "[X]".to_owned(),
        value => format!("[{value}]"),
    }
}

/// The facts of a path; only the newest are kept, which bounds the work.
type Facts = Vec<(Word, bool)>;
const FACTS_MAX: usize = 8;

fn with_fact(facts: &Facts, word: Word, holds: bool) -> Facts {
    let mut facts = facts.clone();
    facts.push((word, holds));
    if facts.len() > FACTS_MAX {
        facts.remove(0);
    }
    facts
}

struct Specialiser<'a> {
    from: &'a Program,
    to: Vec<(Insn, Facts)>,
    seen: HashMap<(Target, Facts), Target>,
}

impl Specialiser<'_> {
    /// Where to go for `target` when `facts` are known.
    fn reach(&mut self, mut target: Target, facts: &[(Word, bool)]) -> Target {
        while target & VERDICT == 0 {
            let insn = self.from.insns[target as usize];
            match facts.iter().find_map(|(word, holds)| decided(&insn.word, word, *holds)) {
                Some(true) => target = insn.yes,
                Some(false) => target = insn.no,
                None => {
                    let next = self.to.len() as u32;
                    let entry = self.seen.entry((target, facts.to_vec())).or_insert(next);
                    if *entry == next {
                        self.to.push((insn, facts.to_vec()));
                    }
                    return *entry;
                }
            }
        }
        target
    }
}

/// What `test` must give after `known` has given `holds`, if that decides it.
fn decided(test: &Word, known: &Word, holds: bool) -> Option<bool> {
    if test.base != known.base || test.at != known.at || known.lo != known.hi {
        return None;
    }
    let single = test.lo == test.hi;
    if holds {
        let shared = known.mask & test.mask;
        if shared == test.mask {
            return Some(test.holds(known.lo));
        }
        return (single && (known.lo ^ test.lo) & shared != 0).then_some(false);
    }
    // A value that would pass the test would have passed the known one.
    let implies = single && shared_mask(known, test) && test.lo & known.mask == known.lo;
    implies.then_some(false)
}

fn shared_mask(known: &Word, test: &Word) -> bool {
    known.mask & test.mask == known.mask
}

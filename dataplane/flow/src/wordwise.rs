//! A list of rules as one decision program in Click's notation: a line for each test of a word,
//! with the steps or outputs that its answers lead to.

use std::collections::HashMap;
use std::fmt;

use crate::NO_MATCH;
use crate::ast::{Base, Word};
use crate::general::{Program, Target, describe_target, verdict};

/// Rules compiled into one program, earliest first.
pub(crate) struct Rules<'a> {
    pub program: &'a Program,
    /// Where each rule's code begins; it ends with 1 (matches) or 0.
    pub entries: &'a [Target],
    /// Each rule's verdict.
    pub outputs: &'a [u32],
}

/// A place in the code of one rule.
type RulePoint = (usize, Target);

impl Rules<'_> {
    /// Where a place leads: an instruction, or an end with a verdict of the whole list.
    fn resolve(&self, (mut rule, mut target): RulePoint) -> Result<RulePoint, u32> {
        loop {
            if self.program.insn(target).is_some() {
                return Ok((rule, target));
            }
            if target == verdict(1) {
                return Err(self.outputs[rule]);
            }
            rule += 1;
            match self.entries.get(rule) {
                Some(entry) => target = *entry,
                None => return Err(NO_MATCH),
            }
        }
    }

    /// The instructions that packets can reach, each before what it leads to for the first time,
    /// with the number of its first line.
    fn in_order(&self, begin: RulePoint) -> (Vec<RulePoint>, HashMap<Target, usize>) {
        let (mut order, mut numbers, mut line) = (Vec::new(), HashMap::new(), 0);
        let mut next = vec![begin];
        while let Some(point) = next.pop() {
            let Ok((rule, target)) = self.resolve(point) else { continue };
            let Some(insn) = self.program.insn(target) else { continue };
            if numbers.contains_key(&target) {
                continue;
            }
            numbers.insert(target, line);
            line += equalities(&insn.word).len();
            order.push((rule, target));
            next.extend([(rule, insn.no), (rule, insn.yes)]);
        }
        (order, numbers)
    }
}

impl fmt::Display for Rules<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let begin = (0, self.entries.first().copied().unwrap_or(verdict(0)));
        let begin = if self.entries.is_empty() { Err(NO_MATCH) } else { self.resolve(begin) };
        let (order, numbers) = begin.map(|begin| self.in_order(begin)).unwrap_or_default();
        let lead = |point: RulePoint| match self.resolve(point) {
            Ok((_, target)) => format!("step {}", numbers.get(&target).unwrap_or(&0)),
            Err(output) => describe_target(verdict(output)),
        };
        let (mut line, mut safe_len) = (0, 0);
        for (rule, target) in order {
            let Some(insn) = self.program.insn(target) else { continue };
            let (yes, no) = (lead((rule, insn.yes)), lead((rule, insn.no)));
            let at = offset(&insn.word);
            safe_len = safe_len.max(at + insn.word.needed_bytes());
            let tests = equalities(&insn.word);
            let last = tests.len() - 1;
            for (number, (value, mask)) in tests.into_iter().enumerate() {
                write!(f, "{line:2} {at:3}/{value:08x}%{mask:08x}  yes->{yes}  no->")?;
                line += 1;
                if number == last { writeln!(f, "{no}")? } else { writeln!(f, "step {line}")? }
            }
        }
        if let Err(output) = begin {
            writeln!(f, "all->{}", describe_target(verdict(output)))?;
        }
        writeln!(f, "safe length {safe_len}")?;
        writeln!(f, "alignment offset 0")
    }
}

/// Click's offset of a word: those of the frame are below 256, of the IP header from there on, of
/// the transport header from 512 on.
fn offset(word: &Word) -> usize {
    usize::from(word.at)
        + match word.base {
            Base::Frame => 0,
            Base::Network => 256,
            Base::Transport => 512,
        }
}

/// Values and masks of which one is equal to the word just where it passes the test. All need as
/// many bytes of the packet as the test.
fn equalities(word: &Word) -> Vec<(u32, u32)> {
    let lowest = word.mask & word.mask.wrapping_neg();
    let mut found = Vec::new();
    // Values that agree with `value` in the bits of `fixed`.
    let mut open = vec![(0_u32, 0_u32)];
    while let Some((value, fixed)) = open.pop() {
        let free = word.mask & !fixed;
        if value > word.hi || value | free < word.lo {
            continue;
        }
        if free == 0 || word.lo <= value && value | free <= word.hi {
            // With its last bit the test asks for the last byte, too.
            if free == 0 {
                found.push((value, fixed));
            } else {
                let fixed = fixed | lowest;
                found.extend([(value, fixed), (value | lowest, fixed)]);
            }
            continue;
        }
        let bit = 1 << (31 - free.leading_zeros());
        open.extend([(value | bit, fixed | bit), (value, fixed | bit)]);
    }
    if found.is_empty() {
        // No value is between the bounds: a test that no word passes.
        found.push((u32::MAX, 0));
    }
    found
}

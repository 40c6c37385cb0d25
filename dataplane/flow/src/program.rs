//! A list of IP rules, compiled: the tree of boxes for speed, the jump program for the rest.

use crate::ast::Rule;
use crate::common::{Common, is_plain};
use crate::error::CompileError;
use crate::five_tuple::Finder;
use crate::general::{Program, Target, verdict};
use crate::key::{Key, PacketView};
use crate::normal::{KeyBox, boxes};
use crate::tree_build::Placed;
use crate::wordwise::Rules;
use crate::{DROP, NO_MATCH, OUTPUT_MAX};
use std::fmt;

/// Most rules in one program.
pub const RULES_MAX: usize = 262_144;
/// Most tests in one program.
pub const TESTS_MAX: usize = 4_000_000;
/// Boxes allowed for each rule on average before rules get one wide box instead of several.
const BOXES_PER_RULE: usize = 4;
const BOXES_SPARE: usize = 4096;
/// Most packets in one batch.
pub const BATCH_MAX: usize = 256;

/// Compiled rules of IPClassifier or IPFilter: the first that matches decides.
///
/// Memory is bounded: at most 4 tree entries and 64 child slots for each box, 4 boxes for each
/// rule (plus a constant), and the rules' own tests.
#[derive(Clone, Debug)]
pub struct IpProgram {
    finder: Finder,
    program: Program,
    /// Where each rule's code begins, by its place.
    entries: Vec<Target>,
    /// Each rule's verdict, by its place.
    outputs: Vec<u32>,
    /// The verdict when no box holds: that of a rule that matches everything, or none.
    otherwise: u32,
    unreachable: Vec<usize>,
}

impl IpProgram {
    /// Compiles rules, earliest first.
    ///
    /// # Errors
    /// Too many rules or tests, or an output number out of range.
    pub fn compile(rules: &[Rule]) -> Result<IpProgram, CompileError> {
        check(rules)?;
        let mut placed = Vec::new();
        let mut unreachable = Vec::new();
        let mut otherwise = None;
        for (i, rule) in rules.iter().enumerate() {
            let mut found = boxes(&rule.expr);
            if otherwise.is_some() || found.is_empty() {
                unreachable.push(i);
            } else if found[0].exact && found[0].is_everything() {
                otherwise = Some(rule.output);
            } else {
                if placed.len() + found.len() > (i + 1) * BOXES_PER_RULE + BOXES_SPARE {
                    found = hull(&found);
                }
                let order = i as u32;
                placed.extend(found.into_iter().map(|bounds| Placed { bounds, order }));
            }
        }
        let (program, entries) = flatten(rules)?;
        Ok(IpProgram {
            finder: Finder::build(&placed),
            program,
            entries,
            outputs: rules.iter().map(|r| r.output).collect(),
            otherwise: otherwise.unwrap_or(NO_MATCH),
            unreachable,
        })
    }

    /// The verdict for a packet: an output, [`DROP`] or [`NO_MATCH`].
    #[inline]
    pub fn classify(&self, view: &PacketView<'_>) -> u32 {
        self.classify_key(&Key::from_view(view), view)
    }

    /// The verdict for a packet; `key` must be the view's own key.
    #[inline]
    pub fn classify_key(&self, key: &Key, view: &PacketView<'_>) -> u32 {
        if !key.whole {
            return self.classify_linear(view);
        }
        self.output_of(self.finder.find(key, |entry| self.confirms(entry, view)))
    }

    /// The verdict of the rule at a place, or that for none.
    #[inline]
    fn output_of(&self, entry: u32) -> u32 {
        // A choice between two places to read from, so that there is no branch to mispredict.
        *self.outputs.get(entry as usize).unwrap_or(&self.otherwise)
    }

    /// Whether the verdict for a packet is that for all packets of its direction of a session.
    pub fn is_common(&self, view: &PacketView<'_>, common: Common) -> bool {
        let key = Key::from_view(view);
        if !is_plain(&key, view) {
            return false;
        }
        let mut is_common = true;
        self.finder.find(&key, |entry| {
            let code = self.entries[entry as usize];
            is_common &= self.program.is_common(code, view, common);
            self.confirms(entry, view)
        });
        is_common
    }

    /// Verdicts for a batch: `view` returns the i-th packet, and is called only for packets with a
    /// rule that looks at more than the key. Handles as many packets as the shorter of `keys` and
    /// `verdicts` has.
    pub fn classify_batch<'a>(
        &self,
        keys: &[Key],
        view: impl Fn(usize) -> PacketView<'a>,
        verdicts: &mut [u32],
    ) {
        for (i, (key, verdict)) in keys.iter().zip(verdicts).enumerate() {
            if !key.whole {
                *verdict = self.classify_linear(&view(i));
                continue;
            }
            let entry = self.finder.find(key, |entry| self.confirms(entry, &view(i)));
            *verdict = self.output_of(entry);
        }
    }

    /// The boxes, and their search structure.
    pub(crate) fn finder(&self) -> &Finder {
        &self.finder
    }

    /// The rules' tests; from [`IpProgram::rule`] on verdict 1 is that a rule holds.
    pub(crate) fn tests(&self) -> &Program {
        &self.program
    }

    /// Where the tests of a rule begin, and its verdict.
    pub(crate) fn rule(&self, order: u32) -> Option<(Target, u32)> {
        let entry = self.entries.get(order as usize)?;
        Some((*entry, *self.outputs.get(order as usize)?))
    }

    /// How many rules there are, and the verdict where no box holds.
    pub(crate) fn rules(&self) -> (u32, u32) {
        (self.entries.len() as u32, self.otherwise)
    }

    /// Rules (by index) that no packet with a whole IP header can reach: contradictory, or after
    /// a rule that matches everything. Worth a warning.
    pub fn unreachable(&self) -> &[usize] {
        &self.unreachable
    }

    /// Steps of the decision for a packet with a whole IP header, on average: those in which a box
    /// is found, and the tests of its rule, if the box is only its bound. Boxes are taken to be
    /// found equally often, and rules to be fulfilled.
    pub fn steps(&self) -> f64 {
        let tests = |entry: u32| {
            let steps = self.program.steps(self.entries[entry as usize]);
            steps
                .iter()
                .find(|(verdict, _)| *verdict == 1)
                .map_or(0.0, |(_, tests)| f64::from(*tests))
        };
        self.finder.steps(tests)
    }

    /// Bytes of memory held, about.
    pub fn memory_bytes(&self) -> usize {
        self.finder.memory_bytes()
            + self.program.len() * size_of::<crate::general::Insn>()
            + self.outputs.len() * 8
    }

    #[cold]
    fn confirms(&self, entry: u32, view: &PacketView<'_>) -> bool {
        self.program.run(self.entries[entry as usize], view) == 1
    }

    /// Packets without a whole IP header: every rule in turn.
    #[cold]
    fn classify_linear(&self, view: &PacketView<'_>) -> u32 {
        let found = self.entries.iter().position(|e| self.program.run(*e, view) == 1);
        found.map_or(NO_MATCH, |entry| self.outputs[entry])
    }
}

fn check(rules: &[Rule]) -> Result<(), CompileError> {
    if rules.len() > RULES_MAX {
        return Err(CompileError::TooManyRules { count: rules.len(), max: RULES_MAX });
    }
    let wrong = rules.iter().position(|r| r.output > OUTPUT_MAX && r.output != DROP);
    wrong.map_or(Ok(()), |rule| Err(CompileError::Output { rule, output: rules[rule].output }))
}

fn flatten(rules: &[Rule]) -> Result<(Program, Vec<Target>), CompileError> {
    let mut program = Program::default();
    let mut entries = Vec::with_capacity(rules.len());
    for rule in rules {
        entries.push(program.add(&rule.expr, verdict(1), verdict(0)));
        if program.len() > TESTS_MAX {
            return Err(CompileError::TooManyTests { max: TESTS_MAX });
        }
    }
    Ok((program, entries))
}

/// One box around several.
fn hull(boxes: &[KeyBox]) -> Vec<KeyBox> {
    let joined = boxes.iter().copied().reduce(|a, b| KeyBox {
        lo: std::array::from_fn(|f| a.lo[f].min(b.lo[f])),
        hi: std::array::from_fn(|f| a.hi[f].max(b.hi[f])),
        protos: std::array::from_fn(|f| a.protos[f] | b.protos[f]),
        fragments: a.fragments | b.fragments,
        exact: false,
    });
    let exact = boxes.len() == 1 && boxes[0].exact;
    joined.map(|b| KeyBox { exact, ..b }).into_iter().collect()
}

/// The `program` handler's text: one decision program for all rules in Click's notation. It is the
/// rules in their order, which decide as the tree of boxes does.
impl fmt::Display for IpProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let IpProgram { program, entries, outputs, .. } = self;
        Rules { program, entries, outputs }.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::NoNames;
    use crate::rules::parse_classifier_rules;

    fn steps(rules: &[&str]) -> f64 {
        let rules = parse_classifier_rules(rules, &NoNames).expect("rules");
        IpProgram::compile(&rules).expect("few rules").steps()
    }

    #[test]
    fn steps_are_those_to_a_box_and_the_tests_of_its_rule() {
        assert_eq!(steps(&["udp", "-"]), 4.0);
        // Boxes that no packet can be in at once.
        assert_eq!(steps(&["dst net 10.0.0.0/8", "dst net 11.0.0.0/8"]), 4.0);
        // Of these the second is tested after the first, which is tested twice.
        assert_eq!(steps(&["tcp", "udp", "-"]), (4.0 + 7.0) / 2.0);
        // The time to live is not in the box.
        assert!(steps(&["udp and ip ttl > 10", "-"]) >= 6.0);
        // A hundred networks are found by a tree.
        let rules: Vec<String> = (0..100).map(|net| format!("dst net 10.{net}.0.0/16")).collect();
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        let many = steps(&rules);
        assert!((2.0..20.0).contains(&many), "{many}");
    }
}

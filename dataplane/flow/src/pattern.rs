//! Click's `Classifier` patterns: `OFFSET/VALUE[%MASK]` clauses on the frame's bytes.

use crate::ast::{Base, Expr, Rule, Word};
use crate::common::Common;
use crate::error::{CompileError, RuleError};
use crate::general::{Program, Target, describe_target, verdict};
use crate::key::PacketView;
use crate::lexer::{Token, clauses};
use crate::program::{RULES_MAX, TESTS_MAX};
use crate::rules::RULE_BYTES_MAX;
use crate::{DROP, NO_MATCH, OUTPUT_MAX};
use std::collections::{BTreeMap, HashMap};
use std::fmt;

/// Specialised code may have this many instructions beyond eight times the plain code.
const SPECIALISED_MAX: usize = 2048;

/// Parses one pattern, such as `12/0806 20/0001`, `!0/ff%01`, or `-`.
///
/// # Errors
/// The first mistake, with the bytes it is about.
pub fn parse_pattern(text: &str) -> Result<Expr, RuleError> {
    if text.len() > RULE_BYTES_MAX {
        let message = format!("a pattern may have {RULE_BYTES_MAX} bytes: split it");
        return Err(RuleError::new(0..text.len(), message));
    }
    if text.trim() == "-" {
        return Ok(Expr::Const(true));
    }
    let words = clauses(text);
    if words.is_empty() {
        let message = "expected OFFSET/VALUE clauses, found nothing; '-' matches every packet";
        return Err(RuleError::new(0..text.len(), message));
    }
    let mut list = Vec::new();
    let mut negated = false;
    for word in &words {
        let turned = word.text.strip_prefix('!');
        negated ^= turned.is_some();
        match turned.unwrap_or(word.text) {
            "" => {}
            body => {
                let start = word.span.end - body.len();
                let clause = Token { text: body, span: start..word.span.end };
                list.push(parse_clause(&clause)?.negated_if(negated));
                negated = false;
            }
        }
    }
    if negated {
        return Err(RuleError::new(text.len()..text.len(), "expected a clause after '!'"));
    }
    Ok(Expr::all(list))
}

fn parse_clause(clause: &Token<'_>) -> Result<Expr, RuleError> {
    let wrong = |message: String| RuleError::new(clause.span.clone(), message);
    let (offset, rest) = clause.text.split_once('/').ok_or_else(|| {
        wrong(format!("expected OFFSET/VALUE, found '{}' without '/'", clause.text))
    })?;
    let digits = !offset.is_empty() && offset.bytes().all(|b| b.is_ascii_digit());
    let offset: u16 = offset.parse().ok().filter(|o| digits && *o <= 60_000).ok_or_else(|| {
        wrong(format!("expected a decimal offset of at most 60000 before '/', found '{offset}'"))
    })?;
    let (value, mask) = match rest.split_once('%') {
        Some((value, mask)) => (value, Some(mask)),
        None => (rest, None),
    };
    let nibbles = hex(value)
        .ok_or_else(|| wrong(format!("expected hexadecimal digits or '?', found '{value}'")))?;
    if nibbles.is_empty() || nibbles.len() % 2 != 0 {
        let message = format!("value '{value}' needs a positive, even number of digits");
        return Err(wrong(message));
    }
    let masks = match mask {
        None => vec![Some(15); nibbles.len()],
        Some(mask) => hex(mask).filter(|m| m.len() == nibbles.len()).ok_or_else(|| {
            wrong(format!("mask '{mask}' needs as many hexadecimal digits as value '{value}'"))
        })?,
    };
    Ok(Expr::all(word_tests(offset, &nibbles, &masks)))
}

/// Digits of hexadecimal text, `None` for '?'.
fn hex(text: &str) -> Option<Vec<Option<u8>>> {
    let digit = |c: char| match c {
        '?' => Some(None),
        c => c.to_digit(16).map(|d| Some(d as u8)),
    };
    text.chars().map(digit).collect()
}

/// Tests of the aligned words that the nibbles from `offset` on fall into.
fn word_tests(offset: u16, values: &[Option<u8>], masks: &[Option<u8>]) -> Vec<Expr> {
    let mut words: BTreeMap<u16, (u32, u32)> = BTreeMap::new();
    for (i, (value, mask)) in values.iter().zip(masks).enumerate() {
        let (Some(value), Some(mask)) = (value, mask) else { continue };
        let Ok(byte) = u16::try_from(usize::from(offset) + i / 2) else { continue };
        let shift = 28 - u32::from(byte % 4) * 8 - (i as u32 % 2) * 4;
        let word = words.entry(byte - byte % 4).or_default();
        word.0 |= u32::from(*mask) << shift;
        word.1 |= u32::from(value & mask) << shift;
    }
    words
        .into_iter()
        .filter(|(_, (mask, _))| *mask != 0)
        .map(|(at, (mask, value))| Expr::Test(Word::equal(Base::Frame, at, mask, value)))
        .collect()
}

/// Compiled patterns of a Classifier: the first that matches decides. One walk over a decision
/// graph in which no path repeats a decided test.
#[derive(Clone, Debug)]
pub struct PatternProgram {
    program: Program,
    entry: Target,
}

impl PatternProgram {
    /// Parses and compiles patterns; the i-th one's verdict is output i.
    ///
    /// # Errors
    /// The first mistake of every wrong pattern.
    pub fn parse<S: AsRef<str>>(texts: &[S]) -> Result<Vec<Rule>, Vec<RuleError>> {
        let (mut rules, mut errors) = (Vec::new(), Vec::new());
        for (i, text) in texts.iter().enumerate() {
            match parse_pattern(text.as_ref()) {
                Ok(expr) => rules.push(Rule::new(expr, i as u32)),
                Err(e) => errors.push(e.of_rule(i)),
            }
        }
        if errors.is_empty() { Ok(rules) } else { Err(errors) }
    }

    /// Compiles rules, earliest first.
    ///
    /// # Errors
    /// Too many rules or tests, or an output number out of range.
    pub fn compile(rules: &[Rule]) -> Result<PatternProgram, CompileError> {
        if rules.len() > RULES_MAX {
            return Err(CompileError::TooManyRules { count: rules.len(), max: RULES_MAX });
        }
        let mut plain = Program::default();
        let mut entry = verdict(NO_MATCH);
        for (i, rule) in rules.iter().enumerate().rev() {
            if rule.output > OUTPUT_MAX && rule.output != DROP {
                return Err(CompileError::Output { rule: i, output: rule.output });
            }
            entry = plain.add(&rule.expr, verdict(rule.output), entry);
            if plain.len() > TESTS_MAX {
                return Err(CompileError::TooManyTests { max: TESTS_MAX });
            }
        }
        let limit = SPECIALISED_MAX.min(plain.len() * 8 + 8);
        let (program, entry) = plain.specialised(entry, limit).unwrap_or((plain, entry));
        Ok(PatternProgram { program, entry })
    }

    /// The verdict for a frame: an output, [`DROP`] or [`NO_MATCH`].
    #[inline]
    pub fn classify(&self, frame: &[u8]) -> u32 {
        self.classify_view(&PacketView::from_frame(frame))
    }

    /// The verdict for a frame; `met` gets each test that leads to it, and its answer.
    pub(crate) fn follow(&self, frame: &[u8], met: impl FnMut(&Word, bool)) -> u32 {
        self.program.follow(self.entry, &PacketView::from_frame(frame), met)
    }

    /// Verdicts, and the fewest steps of the decision that lead to each.
    pub fn steps(&self) -> Vec<(u32, u32)> {
        self.program.steps(self.entry)
    }

    /// The tests, and where they begin.
    pub(crate) fn tests(&self) -> (&Program, Target) {
        (&self.program, self.entry)
    }

    /// Whether the verdict for a packet is that for all packets of its direction of a session.
    pub fn is_common(&self, view: &PacketView<'_>, common: Common) -> bool {
        self.program.is_common(self.entry, view, common)
    }

    /// The verdict for a packet that is read from several bases.
    #[inline]
    pub fn classify_view(&self, view: &PacketView<'_>) -> u32 {
        self.program.run(self.entry, view)
    }
}

/// The `program` handler's text, as Click writes it: one instruction a line, numbered in the order
/// of first use, with offset, value and mask of the word and where each answer leads (`[X]`: no
/// output), then how long a packet must be for every test to find its bytes.
impl fmt::Display for PatternProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = self.program.in_order(self.entry);
        let number: HashMap<Target, usize> =
            order.iter().enumerate().map(|(i, target)| (*target, i)).collect();
        let lead = |target: Target| match number.get(&target) {
            Some(step) => format!("step {step}"),
            None => describe_target(target),
        };
        let mut safe_len = 0;
        for (i, target) in order.iter().enumerate() {
            let Some(insn) = self.program.insn(*target) else { continue };
            let Word { at, lo: value, mask, .. } = insn.word;
            let (yes, no) = (lead(insn.yes), lead(insn.no));
            writeln!(f, "{i:2} {at:3}/{value:08x}%{mask:08x}  yes->{yes}  no->{no}")?;
            safe_len = safe_len.max(usize::from(at) + insn.word.needed_bytes());
        }
        if order.is_empty() {
            writeln!(f, "all->{}", describe_target(self.entry))?;
        }
        writeln!(f, "safe length {safe_len}")?;
        writeln!(f, "alignment offset 0")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(patterns: &[&str]) -> String {
        PatternProgram::compile(&PatternProgram::parse(patterns).unwrap()).unwrap().to_string()
    }

    #[test]
    fn program_text() {
        assert_eq!(
            text(&["12/0806 20/0001", "12/0806 20/0002", "12/0800", "-"]),
            " 0  12/08060000%ffff0000  yes->step 1  no->step 3\n \
             1  20/00010000%ffff0000  yes->[0]  no->step 2\n \
             2  20/00020000%ffff0000  yes->[1]  no->[3]\n \
             3  12/08000000%ffff0000  yes->[2]  no->[3]\n\
             safe length 22\nalignment offset 0\n"
        );
        assert_eq!(
            text(&["1/01", "-"]),
            " 0   0/00010000%00ff0000  yes->[0]  no->[1]\nsafe length 2\nalignment offset 0\n"
        );
        assert_eq!(text(&["-"]), "all->[0]\nsafe length 0\nalignment offset 0\n");
        assert_eq!(text(&[]), "all->[X]\nsafe length 0\nalignment offset 0\n");
    }
}

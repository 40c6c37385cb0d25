//! A set of rules, ready to be used.

use std::collections::HashMap;

use crate::rules::areas::{Area, Areas, Traffic};
use crate::rules::ast::Rule;
use crate::rules::bits::BitNames;
use crate::rules::buffer::Buffer;
use crate::rules::by_address::ByAddress;
use crate::rules::compiled::{Compiled, Compiler, ends};
use crate::rules::error::{Reason, RuleError};
use crate::rules::fast::{self, FastPattern};
use crate::rules::file::{RULES_MAX, entries};
use crate::rules::order;
use crate::rules::variables::Variables;

/// Rules that are looked for together.
#[derive(Debug, Default)]
pub struct RuleSet {
    rules: Vec<Compiled>,
    fast: Vec<FastPattern>,
    without: Vec<u32>,
    always: Vec<u32>,
    by_address: ByAddress,
    areas: Areas,
    ranks: Vec<u32>,
}

/// A set, and the rules refused while it was loaded.
#[derive(Debug, Default)]
pub struct Loaded {
    /// The rules that are good.
    pub set: RuleSet,
    /// What is wrong with the others, in the order of lines; several for one rule where several
    /// things are wrong.
    pub errors: Vec<RuleError>,
    /// How many rules are refused.
    pub refused: usize,
}

impl RuleSet {
    /// Reads the rules of a file: all of them, or none where any is refused.
    ///
    /// # Errors
    /// Everything that is wrong in it.
    pub fn load(file: &[u8], variables: &Variables) -> Result<RuleSet, Vec<RuleError>> {
        let loaded = RuleSet::load_lenient(file, variables);
        if loaded.errors.is_empty() { Ok(loaded.set) } else { Err(loaded.errors) }
    }

    /// Reads the rules of a file and leaves out what is refused.
    pub fn load_lenient(file: &[u8], variables: &Variables) -> Loaded {
        let mut compiler =
            Compiler { variables, bits: BitNames::default(), heads: ends::Pool::default() };
        let (mut loaded, mut chosen, mut lines) = (Loaded::default(), Vec::new(), HashMap::new());
        for entry in entries(file) {
            let rules = loaded.set.rules.len();
            match one(&entry.text, &mut compiler, &mut lines, (entry.line, rules)) {
                Ok((compiled, fast)) => {
                    loaded.set.rules.push(compiled);
                    chosen.push(fast);
                }
                Err((sid, reasons)) => {
                    let line = entry.line;
                    loaded.refused += 1;
                    loaded.errors.extend(reasons.into_iter().map(|reason| RuleError {
                        line,
                        sid,
                        reason,
                    }));
                }
            }
        }
        let set = &mut loaded.set;
        (set.fast, set.without) = fast::gather(chosen);
        set.ranks = order::ranks(&set.rules);
        let without = set.without.clone();
        (set.by_address, set.always) = ByAddress::new(&set.rules, without);
        match Areas::new(&set.fast, &set.rules) {
            Ok(areas) => set.areas = areas,
            Err(reason) => {
                loaded.refused += set.rules.len();
                loaded.errors.push(RuleError { line: 1, sid: None, reason });
                loaded.set = RuleSet::default();
            }
        }
        loaded
    }

    /// Bytes of the patterns that are looked for in one buffer: of those that take most.
    pub fn patterns_bytes(&self) -> usize {
        self.areas.memory_max()
    }

    /// The rules, by index.
    pub fn rules(&self) -> &[Compiled] {
        &self.rules
    }

    /// What to look for, to know which rules are worth a look.
    pub fn fast_patterns(&self) -> &[FastPattern] {
        &self.fast
    }

    /// The patterns that are looked for in a buffer.
    pub(super) fn area(&self, traffic: Traffic, buffer: Buffer) -> Option<&Area> {
        self.areas.get(traffic, buffer)
    }

    /// Rules without content that are evaluated for all endpoints.
    pub(super) fn always(&self) -> &[u32] {
        &self.always
    }

    /// The other rules without content, by endpoint.
    pub(super) fn by_address(&self) -> &ByAddress {
        &self.by_address
    }

    /// A rule's place in the order in which they are obeyed.
    pub(super) fn rank(&self, rule: u32) -> u32 {
        self.ranks[rule as usize]
    }

    /// Indexes of the rules that have nothing to look for: they are worth a
    /// look always, or by who speaks.
    pub fn without_pattern(&self) -> &[u32] {
        &self.without
    }
}

type Refused = (Option<u32>, Vec<Reason>);

/// One rule of a file. `place` is its line, and how many rules there are before it.
fn one(
    text: &[u8],
    compiler: &mut Compiler<'_>,
    lines: &mut HashMap<(u32, u32), usize>,
    (line, rules): (usize, usize),
) -> Result<(Compiled, Option<fast::Choice>), Refused> {
    let text = std::str::from_utf8(text)
        .map_err(|_| (None, vec![Reason::wrong("is not UTF-8; write other bytes as hex")]))?;
    let rule = Rule::parse(text)?;
    let sid = rule.about.sid;
    let refuse = |reason| (Some(sid), vec![reason]);
    if rules >= RULES_MAX {
        return Err(refuse(Reason::TooLarge(format!("more than {RULES_MAX} rules"))));
    }
    if let Some(&first) = lines.get(&(rule.about.gid, sid)) {
        return Err(refuse(Reason::Duplicate { sid, first }));
    }
    lines.insert((rule.about.gid, sid), line);
    let fast = fast::choose(&rule);
    let compiled = compiler.compile(rule).map_err(|reasons| (Some(sid), reasons))?;
    Ok((compiled, fast))
}

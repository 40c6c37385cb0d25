//! From the decision of a plan to tests.
//!
//! Each test is made once its index is known, and refers to its targets by indices of tests still
//! to be made. So nothing here recurses along the decision, however long that is.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use crate::ast::{Base, Word};
use crate::decision::{self, Goto, RuleProgram, Step};
use crate::general::{Program, Target};
use crate::plan::Plan;
use crate::program::IpProgram;

use super::facts::Facts;
use super::search::{Search, Split};
use super::simplify::{depth, simplified};
use super::table::class_end;
use super::{
    DEPTH_MAX, DROP, DropTable, ETHERNET_LEN, Excluded, Next, REACH, SOFTWARE, Start, Test,
};

/// A step that runs a rule list: the program, and where each verdict leads.
type Run = (u32, (u32, u32));

/// The few rules that may hold, of a list; the first that does decides.
struct Shortlist<'a> {
    /// Distinguishes it from others.
    id: u32,
    facts: Facts,
    program: &'a IpProgram,
    /// Where each verdict leads.
    verdicts: (u32, u32),
    /// The rules.
    orders: Vec<u32>,
    /// The verdict where none holds.
    otherwise: u32,
}

/// The decision left at a test.
enum Pending<'a> {
    Step(Start, u32),
    /// Which of these values a word has, in order.
    Branches {
        start: Start,
        word: Word,
        values: Rc<[(u32, Goto)]>,
        from: usize,
        to: usize,
        otherwise: Goto,
    },
    Pattern(Start, Run, Target),
    Search(Box<Search<'a>>),
    /// A rule's tests from a target on: the rule's index among those of the list.
    Rule(Rc<Shortlist<'a>>, usize, Target),
}

/// Identity of a test that may be needed again.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    Step(Start, u32),
    Pattern(Start, u32, Target),
    Rule(u32, usize, Target),
}

struct Builder<'a> {
    plan: &'a Plan,
    tests_max: usize,
    facts: [Facts; 3],
    tests: Vec<Test>,
    pending: Vec<(Next, Pending<'a>)>,
    known: HashMap<Key, Next>,
    shortlists: u32,
    excluded: BTreeMap<Excluded, usize>,
    /// Whether other ends than those of packets that are dropped are wanted.
    has_classes: bool,
}

impl DropTable {
    /// The table of the classifier with index `entry` among the plan's entries, with at most
    /// `tests_max` tests; `None` if there is no such entry.
    pub fn of(plan: &Plan, entry: usize, tests_max: usize) -> Option<DropTable> {
        let start = plan.entries.get(entry)?.start;
        Some(table(plan, start, (tests_max, false)))
    }

    /// The same with the classes of packets that are not dropped; it has more tests.
    pub fn with_classes(plan: &Plan, entry: usize, tests_max: usize) -> Option<DropTable> {
        let start = plan.entries.get(entry)?.start;
        Some(table(plan, start, (tests_max, true)))
    }
}

/// The table of the packets that begin at `start`.
fn table(plan: &Plan, start: Goto, (tests_max, has_classes): (usize, bool)) -> DropTable {
    let facts = Start::ALL.map(Facts::of);
    let mut builder = Builder {
        plan,
        tests_max: tests_max.min(SOFTWARE as usize),
        facts,
        tests: Vec::new(),
        pending: Vec::new(),
        known: HashMap::new(),
        shortlists: 0,
        excluded: BTreeMap::new(),
        has_classes,
    };
    let starts = Start::ALL.map(|of| builder.goto(of, start));
    while let Some((at, pending)) = builder.pending.pop() {
        builder.tests[at as usize] = builder.test(pending);
    }
    let (tests, starts) = simplified(&builder.tests, starts);
    let mut excluded = builder.excluded;
    let depth = depth(&tests, starts);
    if depth > DEPTH_MAX {
        excluded.insert(Excluded::Depth, 1);
    }
    DropTable { tests, starts, depth, leaves_errors: !plan.levels.is_empty(), excluded }
}

impl<'a> Builder<'a> {
    fn exclude(&mut self, why: Excluded) -> Next {
        *self.excluded.entry(why).or_default() += 1;
        SOFTWARE
    }

    /// Reserves a test for a pending decision.
    fn add(&mut self, pending: Pending<'a>) -> Next {
        if self.tests.len() >= self.tests_max {
            return self.exclude(Excluded::Limit);
        }
        let at = self.tests.len() as Next;
        // Until it is made.
        let nothing = Test {
            at: 0,
            from_transport: 0,
            mask: 0,
            lo: 0,
            span: 0,
            yes: SOFTWARE,
            no: SOFTWARE,
            short: SOFTWARE,
        };
        self.tests.push(nothing);
        self.pending.push((at, pending));
        at
    }

    /// The same, but reuses existing ones.
    fn add_once(&mut self, key: Key, pending: Pending<'a>) -> Next {
        if let Some(at) = self.known.get(&key) {
            return *at;
        }
        let at = self.add(pending);
        self.known.insert(key, at);
        at
    }

    /// The target of packets.
    fn goto(&mut self, start: Start, mut at: Goto) -> Next {
        let plan = self.plan;
        loop {
            let step = match decision::next(at) {
                decision::Next::Leaf(leaf) => return self.end(leaf),
                decision::Next::Step(step) => step,
            };
            let facts = &self.facts[start as usize];
            match &plan.decision.steps()[step as usize] {
                Step::Test { word, yes, no } => match facts.decides(word) {
                    Some(holds) => at = if holds { *yes } else { *no },
                    None => {
                        return self.add_once(Key::Step(start, step), Pending::Step(start, step));
                    }
                },
                Step::Switch(switch) if facts.is_missing(&switch.word) => {
                    at = plan.decision.branches(switch).1;
                }
                Step::Switch(_) => {
                    return self.add_once(Key::Step(start, step), Pending::Step(start, step));
                }
                Step::Run { program, first, len } => {
                    let run = (*program, (*first, *len));
                    match plan.decision.program(*program) {
                        RuleProgram::Pattern(pattern) => {
                            return self.pattern(start, run, pattern.tests().1);
                        }
                        RuleProgram::Ip(program) => return self.rules(start, program, run.1),
                    }
                }
            }
        }
    }

    /// The end of packets of a class. One that finds sessions is not dropped.
    fn end(&self, class: decision::LeafId) -> Next {
        match self.plan.leaves.get(usize::from(class)) {
            Some(leaf) if leaf.early_drop && leaf.keys.iter().all(Option::is_none) => DROP,
            Some(_) if self.has_classes => class_end(class),
            _ => SOFTWARE,
        }
    }

    /// Where a verdict of a rule list leads.
    fn verdict(&mut self, start: Start, (first, len): (u32, u32), verdict: u32) -> Next {
        let gotos = self.plan.decision.verdicts(first, len);
        let goto = gotos[verdict.min(len - 1) as usize];
        self.goto(start, goto)
    }

    fn pattern(&mut self, start: Start, run: Run, mut target: Target) -> Next {
        let RuleProgram::Pattern(pattern) = self.plan.decision.program(run.0) else {
            return SOFTWARE;
        };
        let facts = self.facts[start as usize].clone();
        let (at, verdict) = follow(pattern.tests().0, &facts, target);
        target = at;
        match verdict {
            Some(verdict) => self.verdict(start, run.1, verdict),
            None => {
                let key = Key::Pattern(start, run.1.0, target);
                self.add_once(key, Pending::Pattern(start, run, target))
            }
        }
    }

    /// The first rule of a list that holds.
    fn rules(&mut self, start: Start, program: &'a IpProgram, verdicts: (u32, u32)) -> Next {
        let (count, otherwise) = program.rules();
        if start == Start::V4 {
            let facts = self.facts[start as usize].clone();
            return self.search(Search::new(program, verdicts, facts));
        }
        // Without an IPv4 header the rules are run in turn; most hold for no such packet.
        let otherwise = if start == Start::Other { crate::NO_MATCH } else { otherwise };
        let facts = self.facts[start as usize].clone();
        let orders = (0..count).collect();
        self.shortlist(Shortlist { id: 0, facts, program, verdicts, orders, otherwise })
    }

    fn search(&mut self, search: Search<'a>) -> Next {
        if search.is_done() {
            let (orders, otherwise) = (search.orders(), search.program.rules().1);
            let Search { program, verdicts, facts, .. } = search;
            let list = Shortlist { id: 0, facts, program, verdicts, orders, otherwise };
            return self.shortlist(list);
        }
        self.add(Pending::Search(Box::new(search)))
    }

    fn shortlist(&mut self, list: Shortlist<'a>) -> Next {
        self.shortlists += 1;
        let list = Rc::new(Shortlist { id: self.shortlists, ..list });
        self.rule(&list, 0, None)
    }

    /// The tests of the rules from one on; of that, from a target on, if one is given.
    fn rule(&mut self, list: &Rc<Shortlist<'a>>, mut at: usize, from: Option<Target>) -> Next {
        let start = list.facts.start();
        let mut from = from;
        loop {
            let rule = list.orders.get(at).and_then(|order| list.program.rule(*order));
            let Some((entry, output)) = rule else {
                return self.verdict(start, list.verdicts, list.otherwise);
            };
            let target = from.take().unwrap_or(entry);
            let (target, holds) = follow(list.program.tests(), &list.facts, target);
            match holds {
                None => {
                    let key = Key::Rule(list.id, at, target);
                    return self.add_once(key, Pending::Rule(Rc::clone(list), at, target));
                }
                Some(1) => return self.verdict(start, list.verdicts, output),
                Some(_) => at += 1,
            }
        }
    }

    /// Makes a test.
    fn test(&mut self, pending: Pending<'a>) -> Test {
        let plan = self.plan;
        match pending {
            Pending::Step(start, step) => match &plan.decision.steps()[step as usize] {
                Step::Test { word, yes, no } => {
                    let (yes, no) = (self.goto(start, *yes), self.goto(start, *no));
                    self.of_word(word, yes, no)
                }
                Step::Switch(switch) => {
                    let (values, otherwise) = plan.decision.branches(switch);
                    let (values, to) = (Rc::from(values.as_slice()), values.len());
                    let word = switch.word;
                    let all = Pending::Branches { start, word, values, from: 0, to, otherwise };
                    self.test(all)
                }
                // `goto` gives none of these.
                Step::Run { .. } => self.of_word(&ANY, SOFTWARE, SOFTWARE),
            },
            Pending::Branches { start, word, values, from, to, otherwise } => {
                self.branches((start, word, otherwise), &values, (from, to))
            }
            Pending::Pattern(start, run, target) => {
                let RuleProgram::Pattern(pattern) = plan.decision.program(run.0) else {
                    return self.of_word(&ANY, SOFTWARE, SOFTWARE);
                };
                match pattern.tests().0.insn(target).copied() {
                    Some(insn) => {
                        let yes = self.pattern(start, run, insn.yes);
                        let no = self.pattern(start, run, insn.no);
                        self.of_word(&insn.word, yes, no)
                    }
                    None => self.of_word(&ANY, SOFTWARE, SOFTWARE),
                }
            }
            Pending::Search(search) => self.split(&search),
            Pending::Rule(list, at, target) => match list.program.tests().insn(target).copied() {
                Some(insn) => {
                    let yes = self.rule(&list, at, Some(insn.yes));
                    let no = self.rule(&list, at, Some(insn.no));
                    self.of_word(&insn.word, yes, no)
                }
                None => self.of_word(&ANY, SOFTWARE, SOFTWARE),
            },
        }
    }

    /// Halves the values that are left.
    fn branches(
        &mut self,
        (start, word, otherwise): (Start, Word, Goto),
        values: &Rc<[(u32, Goto)]>,
        (from, to): (usize, usize),
    ) -> Test {
        if to <= from {
            let goto = self.goto(start, otherwise);
            return self.of_word(&ANY, goto, goto);
        }
        if to - from == 1 {
            let (value, goto) = values[from];
            let (yes, no) = (self.goto(start, goto), self.goto(start, otherwise));
            return self.of_word(&Word::equal(word.base, word.at, word.mask, value), yes, no);
        }
        let middle = from + (to - from) / 2;
        let mut half = |from, to| {
            let values = Rc::clone(values);
            self.add(Pending::Branches { start, word, values, from, to, otherwise })
        };
        let (lower, upper) = (half(from, middle), half(middle, to));
        let word = Word { lo: 0, hi: values[middle].0 - 1, ..word };
        let no_word = self.goto(start, otherwise);
        // Packets without the word are none of either half.
        Test { short: self.short(&word, no_word), ..self.of_word(&word, lower, upper) }
    }

    fn split(&mut self, search: &Search<'a>) -> Test {
        let Some(Split { word, yes, no }) = search.split() else {
            return self.of_word(&ANY, SOFTWARE, SOFTWARE);
        };
        let (yes, no) = (self.search(yes), self.search(no));
        // Rules may distinguish packets that lack the word.
        Test { short: SOFTWARE, ..self.of_word(&word, yes, no) }
    }

    /// The test of a word.
    fn of_word(&mut self, word: &Word, yes: Next, no: Next) -> Test {
        let (base, from_transport) = match word.base {
            Base::Frame => (0, 0),
            Base::Network => (ETHERNET_LEN, 0),
            Base::Transport => (0, u32::MAX),
        };
        let at = base + usize::from(word.at);
        let Word { mask, lo, hi, .. } = *word;
        if at > REACH {
            let end = self.exclude(Excluded::Far);
            return Test {
                at: 0,
                from_transport: 0,
                mask,
                lo: 0,
                span: 0,
                yes: end,
                no: end,
                short: end,
            };
        }
        // With bounds in the wrong order none passes.
        let (yes, span) = if lo <= hi { (yes, hi - lo) } else { (no, 0) };
        let short = self.short(word, no);
        Test { at: at as u32, from_transport, mask, lo, span, yes, no, short }
    }

    /// The target of packets that end before all four bytes of a word: they do not pass, unless
    /// they have the tested bytes.
    fn short(&self, word: &Word, no: Next) -> Next {
        if word.needed_bytes() == 4 { no } else { SOFTWARE }
    }
}

/// The test of no bytes.
const ANY: Word = Word { base: Base::Frame, at: 0, mask: 0, lo: 0, hi: 0 };

/// Follows tests that are decided: to one that is not, or to a verdict.
fn follow(program: &Program, facts: &Facts, mut target: Target) -> (Target, Option<u32>) {
    while let Some(insn) = program.insn(target) {
        match facts.decides(&insn.word) {
            Some(holds) => target = if holds { insn.yes } else { insn.no },
            None => return (target, None),
        }
    }
    (target, Some(crate::general::verdict_of(target)))
}

//! The firewall's rules: one list for each side that a session may begin at.

use thruway_element::Names;
use thruway_flow::{DROP, IpProgram, NO_MATCH, PacketView, Rule, parse_filter_rules};

use thruway_elements_ip::rule_texts::{Mistake, mistake_of, warnings};

/// Where a session begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Input 0.
    Inside = 0,
    /// Input 1.
    Outside = 1,
}

/// The parsed rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    /// This rule allows it.
    Allowed(u32),
    /// This rule denies it.
    Denied(u32),
    /// No rule matches.
    NoMatch,
}

/// Rules as written, and compiled.
pub(super) struct Policy {
    texts: Vec<String>,
    /// By side; a verdict is the rule's place in `texts`.
    lists: [IpProgram; 2],
    /// By place.
    allows: Vec<bool>,
    warnings: Vec<String>,
}

/// The side of a rule, and the rule without the word for it.
fn side_of(text: &str) -> (Side, &str) {
    let text = text.trim();
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    match word {
        "IN" => (Side::Outside, rest),
        "OUT" => (Side::Inside, rest),
        _ => (Side::Inside, text),
    }
}

/// The rules of one side.
struct List<'a> {
    texts: Vec<&'a str>,
    /// Their places among all.
    positions: Vec<usize>,
    rules: Vec<Rule>,
}

impl List<'_> {
    fn parse<'a>(texts: &'a [String], side: Side, names: &Names) -> Result<List<'a>, Vec<Mistake>> {
        let of_side = |(place, text): (usize, &'a String)| {
            let (its, rule) = side_of(text);
            (its == side).then_some((place, rule))
        };
        let (positions, texts): (Vec<usize>, Vec<&str>) =
            texts.iter().enumerate().filter_map(of_side).unzip();
        let placed = |(at, message): Mistake| (at.map(|at| positions[at]), message);
        let rules = parse_filter_rules(&texts, 1, names).map_err(|errors| {
            errors.iter().map(|error| placed(mistake_of(error))).collect::<Vec<_>>()
        })?;
        Ok(List { texts, positions, rules })
    }

    /// The program; its verdicts are places.
    fn program(&mut self, allows: &mut [bool]) -> Result<IpProgram, Vec<Mistake>> {
        for (rule, place) in self.rules.iter_mut().zip(&self.positions) {
            allows[*place] = rule.output != DROP;
            rule.output = *place as u32;
        }
        IpProgram::compile(&self.rules).map_err(|error| vec![(None, error.to_string())])
    }
}

impl Policy {
    /// Compiles rules, `[IN|OUT] ACTION PATTERN` each, of an element.
    ///
    /// # Errors
    /// Every rule's first mistake; an error about all of them has no index.
    pub(super) fn compile(
        texts: Vec<String>,
        element: &str,
        names: &Names,
    ) -> Result<Policy, Vec<Mistake>> {
        let inside = List::parse(&texts, Side::Inside, names);
        let outside = List::parse(&texts, Side::Outside, names);
        let (mut inside, mut outside) = match (inside, outside) {
            (Ok(inside), Ok(outside)) => (inside, outside),
            (inside, outside) => {
                let mut mistakes = inside.err().unwrap_or_default();
                mistakes.extend(outside.err().unwrap_or_default());
                mistakes.sort_by_key(|(rule, _)| *rule);
                return Err(mistakes);
            }
        };
        let mut allows = vec![false; texts.len()];
        let lists = [inside.program(&mut allows)?, outside.program(&mut allows)?];
        let doubts = [&inside, &outside].into_iter().zip(&lists).flat_map(|(list, program)| {
            warnings(element, &list.texts, &list.positions, (&list.rules, program))
        });
        let warnings = doubts.collect();
        Ok(Policy { warnings, lists, allows, texts })
    }

    /// The rules, as written.
    pub(super) fn texts(&self) -> &[String] {
        &self.texts
    }

    /// Warnings about them.
    pub(super) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The verdict of a side's rules on an IPv4 packet.
    #[inline]
    pub(super) fn judge(&self, side: Side, view: &PacketView<'_>) -> Judgement {
        match self.lists[side as usize].classify(view) {
            NO_MATCH => Judgement::NoMatch,
            place if self.allows[place as usize] => Judgement::Allowed(place),
            place => Judgement::Denied(place),
        }
    }

    /// The compiled rules, for people.
    pub(super) fn explained(&self) -> String {
        let [inside, outside] = &self.lists;
        format!(
            "Sessions from input 0; a verdict is the rule's number:\n{inside}\n\
             Sessions from input 1:\n{outside}"
        )
    }
}

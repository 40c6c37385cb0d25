//! Input specifications: what a rewriter does with a packet that no mapping knows.

use thruway_element::text::split_words;
use thruway_wire::flow::FiveTuple;

use crate::rewriters::context::{Context, Outputs};
use crate::rewriters::mapper::Mapper;
use crate::rewriters::pattern::Pattern;
use thruway_elements_support::random::Secret;

/// The treatment of an input's packets.
#[derive(Clone, Debug)]
pub(super) enum Rule {
    /// The packet is dropped.
    Drop,
    /// It leaves by this output as it is.
    Pass(usize),
    /// A mapping is made that changes nothing.
    Keep(Outputs),
    /// A mapping is made by a pattern.
    Pattern(Pattern, Outputs),
    /// A mapping is made as another element says.
    Mapper(Mapper),
}

/// The treatment of a packet that begins a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Drop,
    Pass(usize),
    /// It becomes this.
    Map(FiveTuple<u32>, Outputs),
    /// There should be a mapping, and no value is free.
    Fail,
}

impl Rule {
    /// Reads a specification.
    ///
    /// # Errors
    /// The error in it.
    pub(super) fn parse(text: &str, context: &Context<'_>) -> Result<Rule, String> {
        let words = split_words(text);
        let Some((word, rest)) = words.split_first() else {
            return Err("empty argument".to_owned());
        };
        let rule = match *word {
            "drop" | "discard" if rest.is_empty() => Rule::Drop,
            "drop" | "discard" => return Err(format!("syntax error, expected '{word}'")),
            "pass" | "passthrough" | "nochange" => {
                let output = match rest {
                    [] => Ok(0),
                    [output] => context.names.parse(output),
                    _ => Err(String::new()),
                };
                Rule::Pass(output.map_err(|_| format!("syntax error, expected '{word} [OUTPUT]'"))?)
            }
            "keep" => Rule::Keep(Outputs::parse(rest, context.names)?),
            "pattern" | "xpattern" => {
                let (pattern, outputs) = context.pattern_and_outputs(rest)?;
                Rule::Pattern(pattern, outputs)
            }
            name => Rule::Mapper(match context.names.mapper(name) {
                Some(_) if !rest.is_empty() => {
                    return Err("syntax error, expected an element's name alone".to_owned());
                }
                Some(declared) => Mapper::parse(&declared, context)?,
                None => {
                    return Err(format!(
                        "unknown specification '{name}': expected drop, pass, keep, pattern or the \
                         name of a mapper such as RoundRobinIPMapper"
                    ));
                }
            }),
        };
        if !rule.outputs().all(|outputs| outputs.are_there(context.outputs)) {
            return Err(format!(
                "output port out of range: there are {}, counted from 0",
                context.outputs
            ));
        }
        Ok(rule)
    }

    /// The outputs by which packets may leave.
    fn outputs(&self) -> impl Iterator<Item = Outputs> + '_ {
        let (own, others): (_, &[(Pattern, Outputs)]) = match self {
            Rule::Drop => (None, &[]),
            Rule::Pass(output) => {
                let output = u16::try_from(*output).unwrap_or(u16::MAX);
                (Some(Outputs { forward: output, reply: output }), &[])
            }
            Rule::Keep(outputs) | Rule::Pattern(_, outputs) => (Some(*outputs), &[]),
            Rule::Mapper(mapper) => (None, mapper.choices()),
        };
        own.into_iter().chain(others.iter().map(|(_, outputs)| *outputs))
    }

    /// The patterns by which mappings are made.
    pub(super) fn patterns(&self) -> impl Iterator<Item = &Pattern> {
        let (own, others): (_, &[(Pattern, Outputs)]) = match self {
            Rule::Pattern(pattern, _) => (Some(pattern), &[]),
            Rule::Mapper(mapper) => (None, mapper.choices()),
            _ => (None, &[]),
        };
        own.into_iter().chain(others.iter().map(|(pattern, _)| pattern))
    }

    /// What becomes of a packet of a flow that is not known; `is_taken` says whether the replies of
    /// what it might become belong to another mapping.
    pub(super) fn decide(
        &self,
        flow: &FiveTuple<u32>,
        random: &mut Secret,
        is_taken: impl FnMut(&FiveTuple<u32>) -> bool,
    ) -> Decision {
        let found = match self {
            Rule::Drop => return Decision::Drop,
            Rule::Pass(output) => return Decision::Pass(*output),
            Rule::Keep(outputs) => Some((*flow, *outputs)),
            Rule::Pattern(pattern, outputs) => {
                pattern.choose(flow, random, is_taken).map(|to| (to, *outputs))
            }
            Rule::Mapper(mapper) => mapper.choose(flow, random, is_taken),
        };
        found.map_or(Decision::Fail, |(to, outputs)| Decision::Map(to, outputs))
    }
}

impl std::fmt::Display for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Rule::Drop => f.write_str("<drop>"),
            Rule::Pass(_) => f.write_str("<nochange>"),
            Rule::Keep(_) => f.write_str("<keep>"),
            Rule::Pattern(pattern, _) => pattern.fmt(f),
            Rule::Mapper(_) => f.write_str("<mapper>"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thruway_element::{Names, Shared};

    #[test]
    fn specifications_are_read_and_shown() {
        let (names, shared) = (Names::default(), Shared::default());
        let counter_scope = "rw#0".to_owned();
        let context =
            Context { names: &names, shared: &shared, outputs: 2, counter_scope, rank: 0 };
        let parse = |text: &str| Rule::parse(text, &context);
        for (text, shown) in [
            ("drop", "<drop>"),
            ("discard", "<drop>"),
            ("pass 1", "<nochange>"),
            ("nochange", "<nochange>"),
            ("passthrough 0", "<nochange>"),
            ("keep 0 1", "<keep>"),
            ("pattern 1.0.0.1 1-9# - - 0 1", "1.0.0.1 1-9 - -"),
            ("xpattern - 2.0.0.2 1 1", "- 2.0.0.2"),
        ] {
            assert_eq!(parse(text).unwrap().to_string(), shown, "{text}");
        }
        for (text, wrong) in [
            ("", "empty"),
            ("drop 1", "expected 'drop'"),
            ("pass x", "expected 'pass [OUTPUT]'"),
            ("pass 2", "output port out of range: there are 2"),
            ("keep 0", "bad reply port"),
            ("keep 0 2", "out of range"),
            ("keep 0 1 1", "two outputs"),
            ("pattern 0 1", "syntax error"),
            ("pattern nobody 0 1", "no such pattern 'nobody'"),
            ("pattern - - - - 0 2", "out of range"),
            ("pattern - - - - x 1", "bad forward port"),
            ("nobody", "unknown specification"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(wrong), "{text}: {error}");
        }
    }
}

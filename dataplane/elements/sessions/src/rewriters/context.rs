//! What input specifications and mappers are read with: patterns, and where packets leave.

use thruway_element::{Args, Names, Shared};

use crate::rewriters::pattern::Pattern;

/// Where the packets of a mapping leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outputs {
    pub forward: u16,
    pub reply: u16,
}

impl Outputs {
    /// Reads the two last words of a specification.
    ///
    /// # Errors
    /// Which of them is none.
    pub(super) fn parse(words: &[&str], names: &Names) -> Result<Outputs, String> {
        let number = |at: usize, what: &str| {
            let word = words.get(at).ok_or_else(|| format!("bad {what}: there is none"))?;
            names.parse(word).map_err(|why| format!("bad {what}: {why}"))
        };
        if words.len() > 2 {
            return Err("syntax error: expected two outputs at the end".to_owned());
        }
        Ok(Outputs { forward: number(0, "forward port")?, reply: number(1, "reply port")? })
    }

    /// Whether a rewriter with this many outputs has both.
    pub(super) fn are_there(&self, outputs: usize) -> bool {
        usize::from(self.forward.max(self.reply)) < outputs
    }
}

/// What is read with the texts of a rewriter.
pub(super) struct Context<'a> {
    /// Names of addresses, patterns and mappers.
    pub names: &'a Names,
    /// Where counters of patterns with a name are.
    pub shared: &'a Shared,
    /// Outputs of the rewriter.
    pub outputs: usize,
    /// Under what name counters of patterns without one are shared by replicas.
    pub counter_scope: String,
    /// Number of the thread among those that reach the rewriter.
    pub rank: usize,
}

impl<'a> Context<'a> {
    /// That of an input of an element which is being built.
    pub(super) fn of(args: &Args<'a>, names: &'a Names, input: usize) -> Context<'a> {
        let counter_scope = format!("{}#{input}", args.name());
        let env = args.env();
        Context { names, shared: env.shared, outputs: env.outputs, counter_scope, rank: env.rank }
    }

    /// The same for the patterns of a mapper.
    pub(super) fn within(&self, owner: &str, at: usize) -> Context<'a> {
        let Context { names, shared, outputs, rank, .. } = *self;
        Context { names, shared, outputs, counter_scope: format!("{owner}#{at}"), rank }
    }

    /// A pattern of one word (its name) or several.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn pattern(&self, words: &[&str]) -> Result<Pattern, String> {
        let [name] = words else {
            let next = self.shared.get(&self.counter_scope, "pattern", Default::default);
            return Pattern::parse(words, self.names, next.unwrap_or_default());
        };
        let declared = self.names.pattern(name);
        let declared = declared.ok_or_else(|| format!("no such pattern '{name}'"))?;
        let next = self.shared.get(&declared.owner, "pattern", Default::default);
        let words: Vec<&str> = declared.texts.iter().map(String::as_str).collect();
        Pattern::parse(&words, self.names, next.unwrap_or_default())
    }

    /// A pattern and two outputs behind it.
    ///
    /// # Errors
    /// As above.
    pub(super) fn pattern_and_outputs(&self, words: &[&str]) -> Result<(Pattern, Outputs), String> {
        if words.len() <= 2 {
            return Err("syntax error: expected a pattern and two outputs".to_owned());
        }
        let (pattern, outputs) = words.split_at(words.len() - 2);
        Ok((self.pattern(pattern)?, Outputs::parse(outputs, self.names)?))
    }
}

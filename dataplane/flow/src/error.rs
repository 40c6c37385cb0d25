//! Errors in a rule, and their position.

use std::ops::Range;
use thiserror::Error;

/// A mistake in the text of one rule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("rule {rule}: {message}{}", hint(.suggestion))]
pub struct RuleError {
    /// Index of the rule in the list given (0 for a single rule).
    pub rule: usize,
    /// Bytes of the rule's text that the message is about.
    pub span: Range<usize>,
    /// What was found, and what was expected instead.
    pub message: String,
    /// A correction that may have been meant.
    pub suggestion: Option<String>,
}

fn hint(suggestion: &Option<String>) -> String {
    suggestion.as_ref().map_or_else(String::new, |s| format!("; did you mean '{s}'?"))
}

impl RuleError {
    pub(crate) fn new(span: Range<usize>, message: impl Into<String>) -> RuleError {
        RuleError { rule: 0, span, message: message.into(), suggestion: None }
    }

    pub(crate) fn suggest(mut self, suggestion: Option<String>) -> RuleError {
        self.suggestion = suggestion;
        self
    }

    pub(crate) fn of_rule(mut self, rule: usize) -> RuleError {
        self.rule = rule;
        self
    }
}

/// Why a list of correct rules was not compiled.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CompileError {
    /// More rules than the compiler takes.
    #[error("{count} rules are more than {max}: split the list over several elements")]
    TooManyRules {
        /// How many there were.
        count: usize,
        /// How many are allowed.
        max: usize,
    },
    /// More word tests than the compiler takes.
    #[error("the rules need more than {max} tests: shorten them or split the list")]
    TooManyTests {
        /// How many are allowed.
        max: usize,
    },
    /// An output number above [`crate::OUTPUT_MAX`] that is not [`crate::DROP`].
    #[error("rule {rule} names output {output}, which is out of range")]
    Output {
        /// The rule's index.
        rule: usize,
        /// The number.
        output: u32,
    },
}

//! From the arguments of IPClassifier and IPFilter to rules.

use crate::ast::{Expr, Rule};
use crate::error::RuleError;
use crate::lexer::{Token, tokens};
use crate::names::{Names, suggestion};
pub use crate::parser::DEPTH_MAX;
use crate::parser::Parser;
use crate::{DROP, OUTPUT_MAX};

/// Longest rule, in bytes.
pub const RULE_BYTES_MAX: usize = 65_536;

fn parse_tokens(
    text: &str,
    words: &[Token<'_>],
    names: &dyn Names,
) -> Result<(Expr, Vec<String>), RuleError> {
    let end = text.len();
    match words {
        [] => Err(RuleError::new(0..end, "expected a pattern, found nothing; '-' matches all")),
        [one] if matches!(one.text, "-" | "any" | "all") => Ok((Expr::Const(true), Vec::new())),
        _ => Parser::new(words, end, names).parse(),
    }
}

fn check_len(text: &str) -> Result<(), RuleError> {
    if text.len() <= RULE_BYTES_MAX {
        return Ok(());
    }
    let message = format!("a rule may have {RULE_BYTES_MAX} bytes: split it");
    Err(RuleError::new(0..text.len(), message))
}

/// Parses one expression, such as `src net 10.0.0.0/8 and tcp dst port 80`.
///
/// # Errors
/// The first mistake, with the bytes it is about.
pub fn parse_expression(text: &str, names: &dyn Names) -> Result<Expr, RuleError> {
    check_len(text)?;
    parse_tokens(text, &tokens(text), names).map(|(expr, _)| expr)
}

/// Gathers results of all rules: every rule's first error, or all the rules.
fn collect<S: AsRef<str>>(
    texts: &[S],
    parse: impl Fn(usize, &str) -> Result<Rule, RuleError>,
) -> Result<Vec<Rule>, Vec<RuleError>> {
    let (mut rules, mut errors) = (Vec::new(), Vec::new());
    for (i, text) in texts.iter().enumerate() {
        match check_len(text.as_ref()).and_then(|()| parse(i, text.as_ref())) {
            Ok(rule) => rules.push(rule),
            Err(e) => errors.push(e.of_rule(i)),
        }
    }
    if errors.is_empty() { Ok(rules) } else { Err(errors) }
}

/// Parses IPClassifier's arguments: the i-th pattern's verdict is output i.
///
/// # Errors
/// The first mistake of every wrong rule.
pub fn parse_classifier_rules<S: AsRef<str>>(
    texts: &[S],
    names: &dyn Names,
) -> Result<Vec<Rule>, Vec<RuleError>> {
    collect(texts, |i, text| {
        let (expr, warnings) = parse_tokens(text, &tokens(text), names)?;
        Ok(Rule { expr, output: i as u32, warnings })
    })
}

/// Parses IPFilter's arguments: each is an action (`allow`, `deny`, `drop`, or a number below
/// `outputs`) and a pattern; an action alone applies to every packet.
///
/// # Errors
/// The first mistake of every wrong rule.
pub fn parse_filter_rules<S: AsRef<str>>(
    texts: &[S],
    outputs: u32,
    names: &dyn Names,
) -> Result<Vec<Rule>, Vec<RuleError>> {
    collect(texts, |_, text| {
        let words = tokens(text);
        let (action, pattern) = words.split_first().ok_or_else(|| {
            RuleError::new(0..text.len(), "expected an action and a pattern, found nothing")
        })?;
        let output = parse_action(action, outputs)?;
        if pattern.is_empty() {
            return Ok(Rule::new(Expr::Const(true), output));
        }
        let (expr, warnings) = parse_tokens(text, pattern, names)?;
        Ok(Rule { expr, output, warnings })
    })
}

fn parse_action(action: &Token<'_>, outputs: u32) -> Result<u32, RuleError> {
    let output = match action.text {
        "deny" | "drop" => return Ok(DROP),
        "allow" => 0,
        word => word.parse::<u32>().map_err(|_| {
            let message =
                format!("'{word}' is no action; expected allow, deny, drop or an output number");
            RuleError::new(action.span.clone(), message).suggest(suggestion(word))
        })?,
    };
    if output < outputs && output <= OUTPUT_MAX {
        return Ok(output);
    }
    let message = format!("output {output} does not exist: {outputs} outputs are connected");
    Err(RuleError::new(action.span.clone(), message))
}

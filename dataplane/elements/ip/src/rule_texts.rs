//! Error and warning texts shared by elements with rules as arguments.

use thruway_flow::{IpProgram, Rule, RuleError};

/// A mistake: which rule it is about, or all of them, and what it is.
pub type Mistake = (Option<usize>, String);

/// A parser's error.
pub fn mistake_of(error: &RuleError) -> Mistake {
    let hint =
        error.suggestion.as_ref().map_or(String::new(), |s| format!("; did you mean '{s}'?"));
    (Some(error.rule), format!("{}{hint}", error.message))
}

/// Mistakes in what a handler was given, a line each.
pub fn listed(mistakes: &[Mistake]) -> String {
    let line = |(rule, message): &Mistake| match rule {
        Some(rule) => format!("pattern {rule}: {message}"),
        None => message.clone(),
    };
    mistakes.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Warnings about valid but suspicious rules, reported to the user when the element starts.
/// `places` are the rules' numbers for the user.
pub fn warnings<S: AsRef<str>>(
    element: &str,
    texts: &[S],
    places: &[usize],
    (rules, program): (&[Rule], &IpProgram),
) -> Vec<String> {
    let place = |at: usize| places.get(at).copied().unwrap_or(at);
    let parsed = rules.iter().enumerate().flat_map(|(at, rule)| {
        let line = move |warning| format!("{element}: pattern {}: {warning}", place(at));
        rule.warnings.iter().map(line)
    });
    let silent = program.unreachable().iter().map(|at| {
        let text = texts.get(*at).map_or("", AsRef::as_ref);
        format!("{element}: warning: pattern {} matches no packets: {text}", place(*at))
    });
    parsed.chain(silent).collect()
}

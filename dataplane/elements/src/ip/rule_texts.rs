//! What elements whose arguments are rules have in common: the names that a configuration gives to
//! addresses, and how mistakes and doubts are told.

use thruway_element::Addresses;
use thruway_flow::{IpProgram, Names, Rule, RuleError};

/// A mistake: which rule it is about, or all of them, and what it is.
pub(crate) type Mistake = (Option<usize>, String);

/// The names that one element's rules may use.
pub(crate) struct RuleNames {
    /// The element.
    pub(crate) element: String,
    /// What the configuration declares.
    pub(crate) addresses: Addresses,
}

impl Names for RuleNames {
    fn address(&self, name: &str) -> Option<u32> {
        self.addresses.look_up(&self.element, name, |named| named.ip).map(u32::from)
    }

    fn prefix(&self, name: &str) -> Option<(u32, u32)> {
        let prefix = self.addresses.look_up(&self.element, name, |named| named.prefix)?;
        Some((u32::from(prefix.addr), u32::from(prefix.mask)))
    }

    fn ether(&self, name: &str) -> Option<[u8; 6]> {
        self.addresses.look_up(&self.element, name, |named| named.ether).map(|mac| mac.0)
    }

    fn port(&self, name: &str) -> Option<u16> {
        self.addresses.look_up(&self.element, name, |named| named.tcp.or(named.udp))
    }
}

/// A parser's error.
pub(crate) fn told(error: &RuleError) -> Mistake {
    let hint =
        error.suggestion.as_ref().map_or(String::new(), |s| format!("; did you mean '{s}'?"));
    (Some(error.rule), format!("{}{hint}", error.message))
}

/// Mistakes in what a handler was given, a line each.
pub(crate) fn listed(mistakes: &[Mistake]) -> String {
    let line = |(rule, message): &Mistake| match rule {
        Some(rule) => format!("pattern {rule}: {message}"),
        None => message.clone(),
    };
    mistakes.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// What is odd about correct rules: told to the user when the element starts. `places` are the
/// rules' numbers for the user.
pub(crate) fn warnings<S: AsRef<str>>(
    element: &str,
    texts: &[S],
    places: &[usize],
    (rules, program): (&[Rule], &IpProgram),
) -> Vec<String> {
    let place = |at: usize| places.get(at).copied().unwrap_or(at);
    let parsed = rules.iter().enumerate().flat_map(|(at, rule)| {
        let told = move |warning| format!("{element}: pattern {}: {warning}", place(at));
        rule.warnings.iter().map(told)
    });
    let silent = program.unreachable().iter().map(|at| {
        let text = texts.get(*at).map_or("", AsRef::as_ref);
        format!("{element}: warning: pattern {} matches no packets: {text}", place(*at))
    });
    parsed.chain(silent).collect()
}

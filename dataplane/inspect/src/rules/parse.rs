//! From a rule's text to the rule.

use crate::rules::ast::{About, Action, Arrow, End, Protocol, Rule};
use crate::rules::ends::Spec;
use crate::rules::error::{Reason, shown};
use crate::rules::limits::{OPTIONS_MAX, RULE_BYTES_MAX};
use crate::rules::options;
use crate::rules::options::Builder;
use crate::rules::session::Flow;

impl Rule {
    /// Reads one rule.
    ///
    /// # Errors
    /// All reasons why it is refused, and its `sid` where that could be read.
    pub fn parse(text: &str) -> Result<Rule, (Option<u32>, Vec<Reason>)> {
        if text.len() > RULE_BYTES_MAX {
            let reason = format!("a rule of more than {RULE_BYTES_MAX} bytes");
            return Err((None, vec![Reason::TooLarge(reason)]));
        }
        let (head, body) = halves(text).map_err(|reason| (None, vec![reason]))?;
        let mut errors = Vec::new();
        let head = parse_head(head).unwrap_or_else(|reason| {
            errors.push(reason);
            empty()
        });
        let mut builder = Builder::new(head);
        match split_options(body) {
            Ok(options) => {
                for option in options {
                    options::read(&mut builder, option);
                }
            }
            Err(reason) => errors.push(reason),
        }
        let sid = builder.sid();
        match builder.finish() {
            Ok(rule) if errors.is_empty() => Ok(rule),
            Ok(_) => Err((sid, errors)),
            Err(more) => {
                errors.extend(more);
                Err((sid, errors))
            }
        }
    }
}

/// A head that stands for one that could not be read, so that the options are looked at too.
fn empty() -> Rule {
    let any = || End { addresses: Spec::Any, ports: Spec::Any };
    Rule {
        action: Action::Alert,
        protocol: Protocol::Ip,
        source: any(),
        arrow: Arrow::Forth,
        destination: any(),
        about: About { gid: 1, ..About::default() },
        flow: Flow::default(),
        flow_bits: Vec::new(),
        quiet: false,
        threshold: None,
        conditions: Vec::new(),
        parts: Vec::new(),
    }
}

/// What stands before the options, and the options.
fn halves(text: &str) -> Result<(&str, &str), Reason> {
    let text = text.trim();
    let open = text.find('(').ok_or_else(|| Reason::wrong("no options: '(' is missing"))?;
    let inner =
        text[open + 1..].strip_suffix(')').ok_or_else(|| Reason::wrong("does not end with ')'"))?;
    Ok((&text[..open], inner))
}

fn parse_head(text: &str) -> Result<Rule, Reason> {
    let words = split_head(text);
    let [action, protocol, source, source_ports, arrow, destination, destination_ports] = words[..]
    else {
        return Err(Reason::wrong(format!(
            "{} words before the options; action, protocol, address, port, '->', address and port \
             are seven",
            words.len()
        )));
    };
    let end = |addresses: &str, ports: &str| {
        Ok(End {
            addresses: Spec::parse(addresses).map_err(Reason::Wrong)?,
            ports: Spec::parse(ports).map_err(Reason::Wrong)?,
        })
    };
    Ok(Rule {
        action: Action::ALL
            .into_iter()
            .find(|known| known.name() == action)
            .ok_or_else(|| Reason::unsupported(action, "actions are alert, drop, reject, pass"))?,
        protocol: Protocol::NAMES
            .into_iter()
            .find(|(name, _)| *name == protocol)
            .map(|(_, protocol)| protocol)
            .ok_or_else(|| Reason::unsupported(protocol, "no such protocol is served"))?,
        arrow: match arrow {
            "->" => Arrow::Forth,
            "<>" => Arrow::Both,
            other => return Err(Reason::wrong(format!("'{other}' is neither '->' nor '<>'"))),
        },
        source: end(source, source_ports)?,
        destination: end(destination, destination_ports)?,
        ..empty()
    })
}

/// Words outside of brackets.
fn split_head(text: &str) -> Vec<&str> {
    let (mut depth, mut from, mut words) = (0i32, 0, Vec::new());
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'[' => depth += 1,
            b']' => depth -= 1,
            byte if byte.is_ascii_whitespace() && depth == 0 => {
                words.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    words.push(&text[from..]);
    words.retain(|word| !word.trim().is_empty());
    words
}

/// What stands between the semicolons outside of quotes that are not escaped.
fn split_options(body: &str) -> Result<Vec<&str>, Reason> {
    let (mut quoted, mut escaped, mut from, mut options) = (false, false, 0, Vec::new());
    for (at, byte) in body.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => quoted = !quoted,
            b';' if !quoted => {
                options.push(body[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    if quoted {
        return Err(Reason::wrong("a quote is not closed"));
    }
    if !body[from..].trim().is_empty() {
        return Err(Reason::wrong(format!("no ';' behind '{}'", shown(body[from..].trim()))));
    }
    if options.len() > OPTIONS_MAX {
        return Err(Reason::TooLarge(format!("more than {OPTIONS_MAX} options")));
    }
    options.retain(|option| !option.is_empty());
    Ok(options)
}

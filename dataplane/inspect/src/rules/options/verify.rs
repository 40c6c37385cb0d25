//! What is wrong with a rule as a whole.

use crate::rules::ast::{Protocol, Rule};
use crate::rules::buffer::{Buffer, Side};
use crate::rules::error::Reason;
use crate::rules::matches::{Content, Fast, Match, Part};

/// All mistakes.
pub(super) fn mistakes(rule: &Rule) -> Vec<Reason> {
    let mut found = Vec::new();
    if rule.about.sid == 0 {
        found.push(Reason::wrong("has no sid"));
    }
    for part in &rule.parts {
        if let Match::Content(content) = &part.matches {
            found.extend(position_defect(content).map(|text| {
                let shown = content.bytes.escape_ascii().to_string();
                Reason::wrong(format!("content \"{}\": {text}", crate::rules::error::shown(&shown)))
            }));
        }
    }
    found.extend(fast(rule));
    found.extend(sides(rule));
    found.extend(protocol(rule));
    found
}

/// What is wrong with where a content may be.
fn position_defect(content: &Content) -> Option<&'static str> {
    let len = content.bytes.len() as u64;
    let absolute = content.offset.is_some() || content.depth.is_some();
    match content.fast {
        _ if content.is_relative() && absolute => {
            Some("offset and depth contradict distance and within")
        }
        _ if content.depth.is_some_and(|depth| u64::from(depth) < len) => {
            Some("depth is less than its length")
        }
        _ if content.within.is_some_and(|within| u64::from(within) < len) => {
            Some("within is less than its length")
        }
        Fast::Cut { offset, len: cut } if u64::from(offset) + u64::from(cut) > len => {
            Some("fast_pattern takes more than there is")
        }
        // To be found is all that is asked of it, so there can be no other wishes.
        Fast::Only if content.negated || content.is_relative() || absolute => {
            Some("fast_pattern:only contradicts '!' and places")
        }
        _ => None,
    }
}

/// At most one content is the fast one.
fn fast(rule: &Rule) -> Option<Reason> {
    let is_fast = |part: &&Part| match &part.matches {
        Match::Content(content) => content.fast != Fast::Unsaid,
        _ => false,
    };
    (rule.parts.iter().filter(is_fast).count() > 1)
        .then(|| Reason::wrong("fast_pattern stands behind several contents"))
}

/// A rule looks at one side's messages.
fn sides(rule: &Rule) -> Option<Reason> {
    let mut side: Option<(Side, &str)> = rule.flow.side.map(|side| (side, "flow"));
    for part in &rule.parts {
        let Some(wanted) = part.buffer.side() else { continue };
        match side {
            Some((other, name)) if other != wanted => {
                let text = format!("{} is of the other side than {name}", part.buffer.name());
                return Some(Reason::unsupported("both sides in one rule", text));
            }
            _ => side = Some((wanted, part.buffer.name())),
        }
    }
    None
}

/// Buffers of HTTP are there in HTTP.
fn protocol(rule: &Rule) -> Option<Reason> {
    let has_messages = matches!(rule.protocol, Protocol::Tcp | Protocol::Http);
    let part = rule.parts.iter().find(|part| part.buffer != Buffer::Payload)?;
    (!has_messages).then(|| {
        let name = format!("{} with {}", part.buffer.name(), rule.protocol.name());
        Reason::unsupported(name, "it is served for http and tcp")
    })
}

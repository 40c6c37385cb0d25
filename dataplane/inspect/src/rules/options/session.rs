//! What a rule wants of the session, and what is counted.

use super::builder::{Builder, Result, nothing, number};
use crate::rules::buffer::Side;
use crate::rules::error::{Reason, shown};
use crate::rules::limits::FLOW_BITS_A_RULE_MAX;
use crate::rules::session::{FlowBit, FlowBitOp, Threshold, ThresholdKind, Track, View};

pub(super) fn flow(builder: &mut Builder, value: &str) -> Result {
    let flow = &mut builder.rule.flow;
    for word in value.split(',').map(str::trim) {
        let good = match word {
            "to_server" | "from_client" => set(&mut flow.side, Side::ToServer),
            "to_client" | "from_server" => set(&mut flow.side, Side::ToClient),
            "established" => set(&mut flow.established, true),
            "not_established" => set(&mut flow.established, false),
            "stateless" => true,
            "only_stream" => set(&mut flow.view, View::Stream),
            "no_stream" => set(&mut flow.view, View::Packet),
            other => return Err(Reason::unsupported(format!("flow:{}", shown(other)), "")),
        };
        if !good {
            return Err(Reason::wrong(format!("'{word}' contradicts what stands before")));
        }
    }
    Ok(())
}

/// Whether nothing else was said before.
fn set<T: PartialEq>(slot: &mut Option<T>, value: T) -> bool {
    let good = slot.as_ref().is_none_or(|before| *before == value);
    *slot = Some(value);
    good
}

pub(super) fn noalert(builder: &mut Builder, value: &str) -> Result {
    nothing(value)?;
    builder.rule.quiet = true;
    Ok(())
}

pub(super) fn flowbits(builder: &mut Builder, value: &str) -> Result {
    let (op, names) = value.split_once(',').unwrap_or((value, ""));
    let op = op.trim();
    if op == "noalert" {
        return noalert(builder, names);
    }
    let (_, op) = FlowBitOp::NAMES
        .into_iter()
        .find(|(name, _)| *name == op)
        .ok_or_else(|| Reason::unsupported(format!("flowbits:{}", shown(op)), ""))?;
    let names: Vec<String> = names.split('|').map(|name| name.trim().to_owned()).collect();
    let good = |b: u8| b.is_ascii_graphic() && !b",;|\"\\()".contains(&b);
    if names.iter().any(|name| name.is_empty() || !name.bytes().all(good)) {
        return Err(Reason::wrong("names a bit by nothing or odd letters"));
    }
    if names.len() > 1 && !op.is_test() {
        return Err(Reason::wrong("several bits stand behind isset and isnotset only"));
    }
    let before: usize = builder.rule.flow_bits.iter().map(|bit| bit.names.len()).sum();
    if before + names.len() > FLOW_BITS_A_RULE_MAX {
        return Err(Reason::TooLarge(format!("more than {FLOW_BITS_A_RULE_MAX} in one rule")));
    }
    builder.rule.flow_bits.push(FlowBit { op, names });
    Ok(())
}

pub(super) fn threshold(builder: &mut Builder, value: &str) -> Result {
    let kind = words(value)?
        .into_iter()
        .find(|(name, _)| *name == "type")
        .map(|(_, kind)| match kind {
            "limit" => Ok(ThresholdKind::Limit),
            "threshold" => Ok(ThresholdKind::Every),
            "both" => Ok(ThresholdKind::Both),
            other => Err(Reason::unsupported(format!("threshold:type {}", shown(other)), "")),
        })
        .ok_or_else(|| Reason::wrong("has no type"))??;
    count(builder, value, kind)
}

pub(super) fn detection_filter(builder: &mut Builder, value: &str) -> Result {
    if words(value)?.iter().any(|(name, _)| *name == "type") {
        return Err(Reason::wrong("has no type"));
    }
    count(builder, value, ThresholdKind::Filter)
}

/// Pairs of a name and a value, between commas.
fn words(value: &str) -> Result<Vec<(&str, &str)>> {
    let pair = |part: &str| {
        part.trim()
            .split_once(char::is_whitespace)
            .is_none()
            .then(|| Reason::wrong(format!("'{}' is no name and value", shown(part))))
    };
    if let Some(reason) = value.split(',').find_map(pair) {
        return Err(reason);
    }
    let parts = value.split(',').filter_map(|part| part.trim().split_once(char::is_whitespace));
    Ok(parts.map(|(name, value)| (name, value.trim())).collect())
}

fn count(builder: &mut Builder, value: &str, kind: ThresholdKind) -> Result {
    let (mut track, mut count, mut seconds) = (None, None, None);
    for (name, value) in words(value)? {
        match name {
            "type" => {}
            "track" => {
                track = Some(match value {
                    "by_src" => Track::BySource,
                    "by_dst" => Track::ByDestination,
                    "by_rule" => Track::ByRule,
                    other => {
                        let name = format!("track {}", shown(other));
                        return Err(Reason::unsupported(name, ""));
                    }
                });
            }
            "count" => count = Some(number(value, 1, u32::MAX)?),
            "seconds" => seconds = Some(number(value, 1, u32::MAX)?),
            other => return Err(Reason::unsupported(format!("threshold:{}", shown(other)), "")),
        }
    }
    if builder.rule.threshold.is_some() {
        return Err(Reason::wrong("a rule has one threshold or detection_filter"));
    }
    let (Some(track), Some(count), Some(seconds)) = (track, count, seconds) else {
        return Err(Reason::wrong("wants track, count and seconds"));
    };
    builder.rule.threshold = Some(Threshold { kind, track, count, seconds });
    Ok(())
}

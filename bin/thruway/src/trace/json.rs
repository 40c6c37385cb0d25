//! Ways of packets as JSON.

use serde_json::{Value, json};

use super::change;
use super::journey::{Hop, Outcome, Way};
use super::record::{Counts, Shot};
use super::text::{Clock, earlier, told};

/// All ways, and what is missing.
pub fn value(ways: &[Way], clock: &Clock, counts: &Counts) -> Value {
    let packets: Vec<Value> = ways.iter().map(|way| packet(ways, way, clock)).collect();
    json!({
        "packets": packets,
        "chosen": counts.chosen,
        "not_followed": counts.unmarked,
        "copies_not_followed": counts.unmarked_copies,
        "events_lost": counts.lost,
    })
}

fn packet(ways: &[Way], way: &Way, clock: &Clock) -> Value {
    let hops = way.hops.iter().enumerate();
    let hops: Vec<Value> = hops.map(|(at, one)| hop(one, earlier(ways, way, at), clock)).collect();
    json!({ "name": way.name, "copy_of": way.copy_of, "is_over": way.is_over(), "hops": hops })
}

fn hop(hop: &Hop, earlier: Option<u64>, clock: &Clock) -> Value {
    let (outcome, output, reason) = match &hop.outcome {
        Outcome::Left(port) => ("left", Some(*port), None),
        Outcome::Dropped(reason) => ("dropped", None, Some(reason)),
        Outcome::PerhapsDropped(reason) => ("perhaps dropped", None, Some(reason)),
        Outcome::Ended => ("ended", None, None),
        Outcome::Kept => ("kept", None, None),
        Outcome::Open => ("not seen", None, None),
    };
    let from = hop.came.unwrap_or(hop.left);
    json!({
        "element": hop.element,
        "class": hop.class,
        "thread": hop.thread,
        "input": hop.input,
        "outcome": outcome,
        "output": output,
        "reason": reason,
        "counted": hop.counted,
        "more_sent": hop.others,
        "time_ns": clock.at(from),
        "after_ns": earlier.map(|earlier| clock.ns(earlier, from)),
        "took_ns": hop.came.map(|came| clock.ns(came, hop.left)),
        "changes": told(hop),
        "before": hop.before.as_ref().map(shot),
        "after": hop.after.as_ref().map(shot),
    })
}

fn shot(shot: &Shot) -> Value {
    let bytes: String = shot.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    json!({ "length": shot.len, "summary": change::describe(shot), "bytes": bytes })
}

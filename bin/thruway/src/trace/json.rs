//! Paths of packets as JSON.

use serde_json::{Value, json};
use thruway_client::trace::{self, Counts, Shot};

use super::journey::{Outcome, PacketPath};
use super::text::{At, Clock};

/// All paths, and lost events.
pub fn value(paths: &[PacketPath], clock: &Clock, counts: &Counts) -> Value {
    let packets: Vec<Value> = paths.iter().map(|path| packet(paths, path, clock)).collect();
    json!({
        "packets": packets,
        "chosen": counts.chosen,
        "not_followed": counts.unmarked,
        "copies_not_followed": counts.unmarked_copies,
        "events_lost": counts.lost,
    })
}

fn packet(paths: &[PacketPath], path: &PacketPath, clock: &Clock) -> Value {
    let hops: Vec<Value> = At::all(paths, path).map(|at| hop(&at, clock)).collect();
    json!({ "name": path.name, "copy_of": path.copy_of, "is_over": path.is_over(), "hops": hops })
}

fn hop(at: &At<'_>, clock: &Clock) -> Value {
    let (hop, from) = (at.hop, at.begin());
    let (outcome, output, reason) = match &hop.outcome {
        Outcome::Left(port) => ("left", Some(*port), None),
        Outcome::Dropped(reason) => ("dropped", None, Some(reason)),
        Outcome::PerhapsDropped(reason) => ("perhaps dropped", None, Some(reason)),
        Outcome::Ended => ("ended", None, None),
        Outcome::Kept => ("kept", None, None),
        Outcome::Open => ("not seen", None, None),
    };
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
        "after_ns": at.earlier().map(|earlier| clock.ns(earlier, from)),
        "took_ns": hop.came.map(|came| clock.ns(came, hop.left)),
        "changes": at.phrases(),
        "before": hop.before.as_ref().map(shot),
        "after": hop.after.as_ref().map(shot),
    })
}

fn shot(shot: &Shot) -> Value {
    let bytes: String = shot.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    json!({ "length": shot.len, "summary": trace::describe(shot), "bytes": bytes })
}

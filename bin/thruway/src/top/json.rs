//! A sample as JSON.

use serde_json::{Value, json};

use super::sample::{Element, Sample, Work};

fn work(work: &Work) -> Value {
    json!({ "packets": work.packets, "batches": work.batches, "cycles": work.cycles })
}

fn element(one: &Element) -> Value {
    let reasons = |all: &[(String, u64)]| -> Value {
        let all = all.iter().map(|(reason, n)| json!({ "reason": reason, "packets": n }));
        all.collect()
    };
    json!({
        "element": one.name, "class": one.class, "work": work(&one.work),
        "lost": reasons(&one.drops), "not_lost": reasons(&one.kept),
    })
}

impl Sample {
    /// All counts, as numbers, since the start of the configuration.
    pub fn json(&self) -> Value {
        let threads = self.threads.iter().map(|thread| {
            json!({
                "idle_cycles": thread.idle_cycles, "made": thread.made,
                "work": work(&thread.work),
            })
        });
        let ports = self.ports.iter().map(|port| {
            json!({
                "element": port.name, "port": port.what, "direction": port.direction,
                "packets": port.packets, "bytes": port.bytes,
            })
        });
        let functions = self.functions.iter().map(|one| {
            json!({
                "element": one.name, "state": one.state, "pid": one.pid,
                "restarts": one.restarts, "packets_in": one.packets_in,
                "packets_out": one.packets_out, "wake_ups": one.wake_ups,
                "occupancy": one.occupancy, "cpu_seconds": one.cpu_seconds,
            })
        });
        let sessions = self.sessions.as_ref().map(|all| {
            json!({
                "now": all.now, "created": all.created, "expired": all.expired,
                "closed": all.closed, "refused": all.refused,
            })
        });
        json!({
            "nanoseconds": self.nanoseconds,
            "cycles": self.cycles,
            "threads": threads.collect::<Vec<_>>(),
            "elements": self.elements.iter().map(element).collect::<Vec<_>>(),
            "ports": ports.collect::<Vec<_>>(),
            "functions": functions.collect::<Vec<_>>(),
            "sessions": sessions,
        })
    }
}

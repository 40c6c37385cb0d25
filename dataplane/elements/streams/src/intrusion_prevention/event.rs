//! The report on a rule that matched, kept until it is written.

use std::sync::Arc;

use thruway_inspect::events::{Alert, flow_id};
use thruway_inspect::rules::{App, Buffer, Facts, HeadParts, Side};

use super::loading::Loaded;

/// As much is kept of the head of a message in which a rule matched, bytes.
const HEAD_BYTES_MAX: usize = 512;

/// A match.
pub(super) struct Event {
    /// When, nanoseconds since the Unix epoch.
    pub(super) now: i64,
    /// The rules that it is one of, and its index.
    pub(super) rules: Arc<Loaded>,
    pub(super) rule: u32,
    /// Of the packet that it was found in.
    pub(super) facts: Facts,
    pub(super) app: App,
    /// The session ends because of it.
    pub(super) is_blocked: bool,
    /// Of the current message.
    pub(super) head: Option<Head>,
}

/// The beginning of a message head.
#[derive(Clone, Copy)]
pub(super) struct Head {
    bytes: [u8; HEAD_BYTES_MAX],
    len: usize,
}

impl Head {
    /// Of a head that was taken apart.
    pub(super) fn of(parts: &HeadParts, side: Side) -> Head {
        let mut head = Head { bytes: [0; HEAD_BYTES_MAX], len: 0 };
        let first = match side {
            Side::ToServer => Buffer::HttpRequestLine,
            Side::ToClient => Buffer::HttpResponseLine,
        };
        head.add(parts.get(first).unwrap_or_default());
        head.add(b"\r\n");
        head.add(parts.get(Buffer::HttpRawHeader).unwrap_or_default());
        head
    }

    fn add(&mut self, bytes: &[u8]) {
        let room = &mut self.bytes[self.len..];
        let n = bytes.len().min(room.len());
        room[..n].copy_from_slice(&bytes[..n]);
        self.len += n;
    }
}

/// Appends the line of an event.
pub(super) fn line(event: &Event, out: &mut String) {
    let Event { now, rules, rule, facts, app, is_blocked, head } = event;
    let Some(rule) = rules.set.rules().get(*rule as usize) else { return };
    let class = rules.variables.class(&rule.about.classtype);
    let mut parts = HeadParts::default();
    if let Some(head) = head {
        parts.read(facts.side, &head.bytes[..head.len]);
    }
    let alert = Alert {
        now: *now,
        flow_id: flow_id(facts),
        facts,
        app: *app,
        rule,
        category: class.map_or("", |class| &class.description),
        is_blocked: *is_blocked,
        http: head.as_ref().map(|_| &parts),
    };
    alert.write(out);
}

//! Events, the last ones: those who read can take up where they broke off.

use std::collections::VecDeque;
use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::Event;

/// Events that are kept.
pub const EVENTS_KEPT: usize = 1024;

/// Longest message that is kept, in bytes.
const MESSAGE_LEN_MAX: usize = 2048;

/// Names an event across restarts of the manager: `1767225600000-17`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventId {
    /// Which log: when it began, in milliseconds since 1970.
    pub log: u64,
    /// Which event of it, from 1.
    pub number: u64,
}

impl EventId {
    /// Reads what [`fmt::Display`] wrote.
    pub fn parse(text: &str) -> Option<EventId> {
        let (log, number) = text.split_once('-')?;
        Some(EventId { log: log.parse().ok()?, number: number.parse().ok()? })
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.log, self.number)
    }
}

/// Events behind one that a reader has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Following {
    /// Whether events between are not kept any more.
    pub missed: bool,
    /// What is kept, in order.
    pub events: Vec<(EventId, Event)>,
    /// The last event that there was: what a reader has seen then.
    pub last: EventId,
}

/// The last [`EVENTS_KEPT`] events.
#[derive(Debug)]
pub struct EventLog {
    log: u64,
    ring: Mutex<Ring>,
    last: watch::Sender<u64>,
}

#[derive(Debug)]
struct Ring {
    /// Number of the last event; 0 before the first.
    last: u64,
    events: VecDeque<Event>,
}

impl Default for EventLog {
    fn default() -> EventLog {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let ring = Ring { last: 0, events: VecDeque::new() };
        EventLog {
            log: u64::try_from(since.as_millis()).unwrap_or(0),
            ring: Mutex::new(ring),
            last: watch::Sender::new(0),
        }
    }
}

impl EventLog {
    /// Adds an event, and wakes those who wait for one.
    pub fn emit(&self, mut event: Event) {
        if event.message.len() > MESSAGE_LEN_MAX {
            let end = event.message.floor_char_boundary(MESSAGE_LEN_MAX);
            event.message.truncate(end);
            event.message += "...";
        }
        let mut ring = self.ring.lock();
        if ring.events.len() == EVENTS_KEPT {
            ring.events.pop_front();
        }
        ring.events.push_back(event);
        ring.last += 1;
        // Under the lock, so that the numbers that are seen only grow.
        self.last.send_replace(ring.last);
    }

    /// The event that a reader has who has seen nothing.
    pub fn beginning(&self) -> EventId {
        EventId { log: self.log, number: 0 }
    }

    /// The events behind `seen`. One of another log was emitted before the manager was started
    /// again: then all that is kept follows, and something may be missed.
    pub fn following(&self, seen: EventId) -> Following {
        let ring = self.ring.lock();
        let first = ring.last + 1 - ring.events.len() as u64;
        let known = seen.log == self.log && seen.number <= ring.last;
        let from = if known { (seen.number + 1).max(first) } else { first };
        let events = ring.events.iter().zip(first..).filter(|(_, number)| *number >= from);
        let id = |number| EventId { log: self.log, number };
        Following {
            missed: !known || seen.number + 1 < first,
            events: events.map(|(event, number)| (id(number), event.clone())).collect(),
            last: id(ring.last),
        }
    }

    /// Tells the number of the last event, and each change of it.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.last.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(number: u64) -> Event {
        let chain = format!("c{number}");
        Event { time: UNIX_EPOCH, chain, reason: "Started".into(), message: String::new() }
    }

    fn chains(following: &Following) -> Vec<(u64, &str)> {
        let events = following.events.iter();
        events.map(|(id, event)| (id.number, event.chain.as_str())).collect()
    }

    #[test]
    fn a_reader_goes_on_where_it_broke_off() {
        let log = EventLog::default();
        let last = log.beginning();
        assert_eq!(log.following(last), Following { missed: false, events: vec![], last });
        (1..=3).for_each(|number| log.emit(event(number)));
        let seen = EventId { number: 1, ..log.beginning() };
        let following = log.following(seen);
        assert_eq!((following.missed, chains(&following)), (false, vec![(2, "c2"), (3, "c3")]));
        let text = following.events[1].0.to_string();
        let last = EventId::parse(&text).expect("an id");
        assert_eq!(log.following(last), Following { missed: false, events: vec![], last });
    }

    #[test]
    fn what_is_not_kept_any_more_is_told() {
        let log = EventLog::default();
        let count = EVENTS_KEPT as u64 + 5;
        (1..=count).for_each(|number| log.emit(event(number)));
        let following = log.following(log.beginning());
        assert_eq!((following.missed, following.events.len()), (true, EVENTS_KEPT));
        assert_eq!(chains(&following)[0], (6, "c6"));
        let kept = EventId { number: 5, ..log.beginning() };
        assert!(!log.following(kept).missed);
    }

    #[test]
    fn an_event_of_another_log_is_unknown() {
        let log = EventLog::default();
        log.emit(event(1));
        for seen in [
            EventId { log: 1, number: 1 },
            EventId { number: 2, ..log.beginning() },
            EventId { number: u64::MAX, ..log.beginning() },
        ] {
            let following = log.following(seen);
            assert_eq!((following.missed, chains(&following)), (true, vec![(1, "c1")]));
        }
        for text in ["", "-", "1", "1-", "-1", "a-b", "1-2-3", "99999999999999999999-1"] {
            assert_eq!(EventId::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_long_message_is_cut_between_letters() {
        let log = EventLog::default();
        log.emit(Event { message: "ü".repeat(MESSAGE_LEN_MAX), ..event(1) });
        let message = &log.following(log.beginning()).events[0].1.message;
        assert!(message.len() <= MESSAGE_LEN_MAX + 3 && message.ends_with("ü..."));
    }
}

//! Blocks given and freed, until they are written.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::net::Ipv4Addr;

/// A block of ports was given to a host, or taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event {
    /// When, nanoseconds since the Unix epoch.
    pub ns: i64,
    /// Given, or taken back.
    pub is_given: bool,
    /// Inside address.
    pub host: u32,
    /// Outside address.
    pub addr: u32,
    /// First and last port.
    pub ports: (u16, u16),
}

/// A bounded line of events.
pub(super) struct Log {
    waiting: VecDeque<Event>,
    room: usize,
    /// Events for which there was no room.
    pub lost: u64,
}

impl Log {
    /// With room for this many; 0 if none are written.
    pub(super) fn new(room: usize) -> Log {
        Log { waiting: VecDeque::with_capacity(room), room, lost: 0 }
    }

    /// Keeps an event.
    pub(super) fn push(&mut self, event: Event) {
        if self.waiting.len() < self.room {
            self.waiting.push_back(event);
        } else if self.room > 0 {
            self.lost += 1;
        }
    }

    /// Appends all that waits to `text`, a line each.
    pub(super) fn drain(&mut self, text: &mut String) {
        for event in self.waiting.drain(..) {
            let Event { ns, is_given, host, addr, ports } = event;
            let (seconds, micros) = (ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000));
            let what = if is_given { "given" } else { "freed" };
            let (host, addr) = (Ipv4Addr::from_bits(host), Ipv4Addr::from_bits(addr));
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{seconds}.{:06} {what} {host} {addr} {}-{}",
                micros / 1000,
                ports.0,
                ports.1
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_counted() {
        let event =
            Event { ns: 1_500_000_000, is_given: true, host: 1, addr: 2, ports: (1024, 1087) };
        let mut log = Log::new(2);
        (0..3).for_each(|_| log.push(event));
        let mut text = String::new();
        log.drain(&mut text);
        assert_eq!(log.lost, 1);
        assert_eq!(text, "1.500000 given 0.0.0.1 0.0.0.2 1024-1087\n".repeat(2));
        log.push(Event { is_given: false, ns: -1, ..event });
        text.clear();
        log.drain(&mut text);
        assert_eq!(text, "-1.999999 freed 0.0.0.1 0.0.0.2 1024-1087\n");
        let mut disabled = Log::new(0);
        disabled.push(event);
        assert_eq!(disabled.lost, 0);
    }
}

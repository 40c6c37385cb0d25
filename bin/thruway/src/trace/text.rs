//! Paths of packets as text.

use std::fmt::Write as _;

use thruway_client::trace;

use super::journey::{Hop, Outcome, PacketPath};

/// How long a cycle takes.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    /// Cycles and nanoseconds since 1970, of one moment.
    pub begin: (u64, i64),
    pub ns_per_cycle: f64,
}

impl Clock {
    /// From two moments, some time apart.
    pub fn between(begin: (u64, i64), end: (u64, i64)) -> Clock {
        let cycles = end.0.saturating_sub(begin.0);
        let ns = end.1.saturating_sub(begin.1).max(0);
        let ns_per_cycle = if cycles == 0 { 0.0 } else { ns as f64 / cycles as f64 };
        Clock { begin, ns_per_cycle }
    }

    /// Nanoseconds between two readings of the cycle counter.
    pub fn ns(&self, from: u64, to: u64) -> u64 {
        (to.saturating_sub(from) as f64 * self.ns_per_cycle).round() as u64
    }

    /// Nanoseconds since 1970.
    pub fn at(&self, cycles: u64) -> u64 {
        let since = (cycles as f64 - self.begin.0 as f64) * self.ns_per_cycle;
        u64::try_from(self.begin.1.saturating_add(since as i64)).unwrap_or(0)
    }
}

/// A time as people read it.
pub fn span(ns: u64) -> String {
    match ns {
        0..10_000 => format!("{ns} ns"),
        10_000..10_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.1} s", ns as f64 / 1e9),
    }
}

/// A hop of one of the paths.
#[derive(Clone, Copy)]
pub struct At<'a> {
    pub paths: &'a [PacketPath],
    pub path: &'a PacketPath,
    pub number: usize,
    pub hop: &'a Hop,
}

impl<'a> At<'a> {
    /// All hops of a path.
    pub fn all(paths: &'a [PacketPath], path: &'a PacketPath) -> impl Iterator<Item = At<'a>> {
        let hops = path.hops.iter().enumerate();
        hops.map(move |(number, hop)| At { paths, path, number, hop })
    }

    fn previous(&self) -> Option<&'a Hop> {
        self.path.hops.get(self.number.checked_sub(1)?)
    }

    /// When it came, or did something where that was not seen.
    pub fn begin(&self) -> u64 {
        self.hop.came.unwrap_or(self.hop.left)
    }

    /// The time at which the packet left the element before; of a copy, the time at which its
    /// original reached the element that made it.
    pub fn earlier(&self) -> Option<u64> {
        if self.number > 0 {
            return self.previous().map(|hop| hop.left);
        }
        let mut others = self.paths.iter();
        let parent = others.find(|other| Some(&other.name) == self.path.copy_of.as_ref())?;
        let mut came = parent.hops.iter().rev().filter_map(|hop| hop.came);
        came.find(|came| *came <= self.hop.left)
    }

    /// The thread, where it is another than before.
    fn other_thread(&self) -> Option<usize> {
        let before = self.previous()?.thread;
        (before != self.hop.thread).then_some(self.hop.thread)
    }

    /// What happened to the packet, a phrase each.
    pub fn phrases(&self) -> Vec<String> {
        let hop = self.hop;
        let mut phrases: Vec<String> =
            hop.counted.iter().map(|reason| format!("counted as {reason}")).collect();
        // An element that kept it had it as it was when it came.
        let kept = || self.previous().filter(|_| hop.input.is_none());
        let before = hop.before.as_ref().or_else(|| kept()?.before.as_ref());
        if let (Some(before), Some(after)) = (before, &hop.after) {
            phrases.extend(trace::changes(before, after));
        }
        if hop.others > 0 {
            phrases.push(format!("{} more sent because of it", hop.others));
        }
        phrases
    }
}

/// All paths.
pub fn text(paths: &[PacketPath], clock: &Clock) -> String {
    let mut text = String::new();
    for path in paths {
        let first = path.hops.first();
        let shot = first.and_then(|hop| hop.before.as_ref().or(hop.after.as_ref()));
        let what = shot.map_or("not seen".to_owned(), trace::describe);
        let copy = path.copy_of.as_ref().map_or(String::new(), |of| format!(", a copy of {of}"));
        let _ = writeln!(text, "packet {}: {what}{copy}", path.name);
        for at in At::all(paths, path) {
            let _ = writeln!(text, "  {}", line(&at, clock));
        }
        if !path.is_over() {
            text += "  (no more was seen)\n";
        }
        text.push('\n');
    }
    text
}

/// One hop: `3 rt :: StaticIPLookup [0] -> [2] after 180 ns, took 95 ns: ttl 64 -> 63`.
pub fn line(at: &At<'_>, clock: &Clock) -> String {
    let (hop, earlier) = (at.hop, at.earlier());
    let mut text = format!("{} {} :: {}", at.number + 1, hop.element, hop.class);
    if let Some(port) = hop.input {
        let _ = write!(text, " [{port}]");
    }
    let _ = match &hop.outcome {
        Outcome::Left(port) => write!(text, " -> [{port}]"),
        Outcome::Dropped(reason) => write!(text, " dropped: {reason}"),
        Outcome::PerhapsDropped(reason) => {
            write!(text, " ended, or dropped as others at that moment: {reason}")
        }
        Outcome::Ended => write!(text, " ended"),
        Outcome::Kept => write!(text, " kept"),
        Outcome::Open => write!(text, " ..."),
    };
    if let Some(thread) = at.other_thread() {
        let _ = write!(text, " in thread {thread}");
    }
    if let Some(earlier) = earlier {
        let _ = write!(text, " after {}", span(clock.ns(earlier, at.begin())));
    }
    if let Some(came) = hop.came.filter(|_| hop.outcome != Outcome::Open) {
        let comma = if earlier.is_some() { "," } else { "" };
        let _ = write!(text, "{comma} took {}", span(clock.ns(came, hop.left)));
    }
    let phrases = at.phrases();
    if !phrases.is_empty() {
        let _ = write!(text, ": {}", phrases.join(", "));
    }
    text
}

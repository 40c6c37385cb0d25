//! What was seen so far, and whether that is all.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use thruway_client::trace::{Answer, Counts, Record, What};

use super::text::Clock;

/// Most events of one trace: some 600 bytes each.
const RECORDS_MAX: usize = 250_000;
/// Once all packets were chosen, the longest wait for packets that elements keep.
const QUIET: Duration = Duration::from_secs(1);
/// Least time between two moments by which the length of a cycle is found.
const SPAN: Duration = Duration::from_millis(20);

/// Everything that the handler said.
#[derive(Default)]
pub struct Collected {
    pub records: Vec<Record>,
    pub counts: Counts,
    begin: Option<(u64, i64)>,
    end: (u64, i64),
    /// When each packet was seen last, and whether that was its end.
    last: HashMap<u64, (u64, bool)>,
    /// When something was seen last.
    seen: Option<Instant>,
    /// Events that were thrown away here.
    beyond: usize,
}

impl Collected {
    /// Takes an answer.
    pub fn take(&mut self, answer: &str) -> anyhow::Result<()> {
        let mut answer = Answer::read(answer)?;
        self.begin.get_or_insert(answer.time);
        (self.end, self.counts) = (answer.time, answer.counts);
        if !answer.records.is_empty() {
            self.seen = Some(Instant::now());
        }
        for record in &answer.records {
            let (last, is_over) = self.last.entry(record.packet).or_default();
            // What threads saw comes thread by thread; what is said of a hop beside comes last.
            if record.cycles >= *last && !matches!(record.what, What::Counted(_) | What::Others(_))
            {
                (*last, *is_over) = (record.cycles, record.what.is_end());
            }
        }
        let room = RECORDS_MAX - self.records.len();
        self.beyond += answer.records.len().saturating_sub(room);
        answer.records.truncate(room);
        self.records.append(&mut answer.records);
        Ok(())
    }

    /// Whether all packets were chosen and came to their end, as far as they do.
    pub fn is_done(&self) -> bool {
        if self.counts.left > 0 {
            return self.beyond > 0;
        }
        let quiet = self.seen.is_none_or(|seen| seen.elapsed() >= QUIET);
        quiet || self.last.values().all(|(_, is_over)| *is_over)
    }

    /// Whether the time between the first answer and the last reports how long a cycle is.
    pub fn knows_time(&self) -> bool {
        let ns = self.begin.map_or(0, |begin| self.end.1.saturating_sub(begin.1));
        u128::try_from(ns).is_ok_and(|ns| ns >= SPAN.as_nanos())
    }

    /// How long a cycle is.
    pub fn clock(&self) -> Clock {
        Clock::between(self.begin.unwrap_or(self.end), self.end)
    }

    /// What the user should know about what is missing.
    pub fn notes(&self, filter: &str) -> Vec<String> {
        let counts = &self.counts;
        let mut notes = Vec::new();
        if counts.chosen == 0 {
            notes.push(format!("no packet matched '{filter}'"));
        }
        if counts.unmarked > 0 {
            notes.push(format!(
                "{} packets fitted and were not followed: {} are followed at once at most",
                counts.unmarked,
                thruway_packet::MARKS_MAX
            ));
        }
        if counts.unmarked_copies > 0 {
            notes.push(format!(
                "{} copies were not followed: {} packets are followed at once at most",
                counts.unmarked_copies,
                thruway_packet::MARKS_MAX
            ));
        }
        let lost = counts.lost + self.beyond as u64;
        if lost > 0 {
            notes.push(format!(
                "{lost} events did not fit into memory, so paths have gaps: choose fewer packets"
            ));
        }
        notes
    }
}

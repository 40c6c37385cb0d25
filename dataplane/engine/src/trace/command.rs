//! The `trace` handler: parses commands from tracing clients.
//!
//! - write `start NAME COUNT ELEMENT FILTER`: choose COUNT packets for which FILTER holds, where
//!   they come to ELEMENT (`-`: where they enter); NAME is of the asker's choice;
//! - read `trace NAME`: what was seen since the last reading; `trace` alone: which traces there
//!   are;
//! - write `stop NAME`.

use std::fmt::Write as _;
use std::sync::Arc;

use thruway_element::HandlerError;
use thruway_packet::{cycles, unmarked_copies};
use thruway_sync::atomic::Ordering;

use super::filter::Filter;
use super::tracer::Watch;
use super::{Event, Order, Shared, TRACES_MAX};
use crate::clock::real_now;
use crate::control::Control;
use crate::layout::Layout;

/// Events that all threads of a router can keep for one trace until they are asked for: some 400
/// bytes each.
const EVENTS_MAX: usize = 32_768;
/// Events that each thread can keep, at least and at most.
const EVENTS: std::ops::RangeInclusive<usize> = 128..=8192;
/// Longest name of a trace, and most packets it can choose.
const NAME_MAX: usize = 64;
const COUNT_MAX: u64 = 1_000_000;

/// Has a thread do something about traces.
pub(crate) type Each<'a> = dyn FnMut(usize, Order) -> Result<Vec<Event>, HandlerError> + 'a;

/// The parts of a router that commands use.
pub(crate) struct Scope<'a> {
    pub layout: &'a Layout,
    pub control: &'a Control,
}

impl Scope<'_> {
    fn threads(&self) -> usize {
        self.control.stats().len().max(1)
    }

    fn room(&self) -> usize {
        (EVENTS_MAX / self.threads()).clamp(*EVENTS.start(), *EVENTS.end())
    }

    fn everywhere(
        &self,
        each: &mut Each<'_>,
        order: impl Fn() -> Order,
    ) -> Result<Vec<Vec<Event>>, HandlerError> {
        (0..self.threads()).map(|thread| each(thread, order())).collect()
    }

    /// Writes the handler.
    pub fn write(&self, each: &mut Each<'_>, value: &str) -> Result<(), HandlerError> {
        let (word, rest) = next_word(value);
        match word {
            "start" => self.start(each, rest),
            "stop" => self.stop(each, rest.trim()),
            _ => {
                let message =
                    format!("'{word}': write 'start NAME COUNT ELEMENT FILTER' or 'stop NAME'");
                Err(HandlerError::refused(message))
            }
        }
    }

    fn start(&self, each: &mut Each<'_>, rest: &str) -> Result<(), HandlerError> {
        let (name, rest) = next_word(rest);
        let (count, rest) = next_word(rest);
        let (at, text) = next_word(rest);
        let refused = |message: String| Err(HandlerError::refused(message));
        if name.is_empty() || name.len() > NAME_MAX {
            return refused(format!("a trace has a name of 1 to {NAME_MAX} bytes"));
        }
        let Some(count) = count.parse().ok().filter(|count| (1..=COUNT_MAX).contains(count)) else {
            return refused(format!("'{count}': a trace chooses 1 to {COUNT_MAX} packets"));
        };
        let at = match at {
            "-" => None,
            at => match self.layout.find(at) {
                Some(node) => Some(node as u32),
                None => return Err(HandlerError::NoElement(at.to_owned())),
            },
        };
        let filter = Filter::parse(text).map_err(HandlerError::Refused)?;
        let shared = self.register(name, count)?;
        let begin = || {
            let (shared, filter) = (Arc::clone(&shared), filter.clone());
            let events = Vec::with_capacity(self.room());
            Order::Begin(Box::new(Watch { shared, filter, at, events }))
        };
        self.everywhere(each, begin).map(drop)
    }

    /// Finds a bit for a new trace. Forgets the traces that no client reads any more.
    fn register(&self, name: &str, count: u64) -> Result<Arc<Shared>, HandlerError> {
        let mut traces = self.control.traces();
        traces.retain(|trace| !trace.is_over());
        if traces.iter().any(|trace| trace.name == name) {
            return Err(HandlerError::refused(format!("there is a trace '{name}' already")));
        }
        if traces.len() >= TRACES_MAX {
            let message = format!("{TRACES_MAX} traces run already: end one of them");
            return Err(HandlerError::refused(message));
        }
        let used: u64 = traces.iter().map(|trace| trace.bit).sum();
        // Bits take turns, so that a packet that someone followed before is not taken for one of
        // the new trace.
        let turn = self.control.next_trace();
        let bit = (0..64).map(|at| 1u64.rotate_left(turn.wrapping_add(at))).find(|b| used & b == 0);
        let shared = Arc::new(Shared::new(name.to_owned(), bit.unwrap_or(1), count));
        traces.push(Arc::clone(&shared));
        Ok(shared)
    }

    fn find(&self, name: &str) -> Result<Arc<Shared>, HandlerError> {
        let mut traces = self.control.traces();
        let Some(at) = traces.iter().position(|trace| trace.name == name) else {
            let message = format!(
                "there is no trace '{name}' here: it was not begun, or ended, or the configuration \
                 was replaced"
            );
            return Err(HandlerError::refused(message));
        };
        if traces[at].is_over() {
            traces.remove(at);
            let message = format!(
                "the trace '{name}' is over: no client read it for {} s",
                super::PATIENCE.as_secs()
            );
            return Err(HandlerError::refused(message));
        }
        Ok(Arc::clone(&traces[at]))
    }

    fn stop(&self, each: &mut Each<'_>, name: &str) -> Result<(), HandlerError> {
        let shared = self.find(name)?;
        self.control.traces().retain(|trace| trace.name != name);
        self.everywhere(each, || Order::End(shared.bit)).map(drop)
    }

    /// Reads the handler: `time CYCLES NANOSECONDS`, `trace LEFT CHOSEN UNMARKED UNMARKED_COPIES
    /// LOST`, and an `event` each.
    pub fn read(&self, each: &mut Each<'_>, name: &str) -> Result<String, HandlerError> {
        let name = name.trim();
        if name.is_empty() {
            let mut traces = self.control.traces();
            traces.retain(|trace| !trace.is_over());
            return Ok(traces.iter().map(|trace| format!("{}\n", trace.name)).collect());
        }
        let shared = self.find(name)?;
        shared.ask();
        let take = || Order::Take(shared.bit, Vec::with_capacity(self.room()));
        let events = self.everywhere(each, take)?;
        let count = |of: &thruway_sync::atomic::AtomicU64| of.load(Ordering::Relaxed);
        let mut text = format!("time\t{}\t{}\n", cycles(), real_now());
        let copies = unmarked_copies().saturating_sub(shared.unmarked_copies_before);
        let _ = writeln!(
            text,
            "trace\t{}\t{}\t{}\t{copies}\t{}",
            count(&shared.left),
            count(&shared.chosen),
            count(&shared.unmarked),
            count(&shared.lost)
        );
        for (thread, events) in events.iter().enumerate() {
            events.iter().for_each(|event| event.write(self.layout, thread, &mut text));
        }
        Ok(text)
    }
}

/// The first word of a text, and the rest.
fn next_word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    text.split_once(char::is_whitespace).unwrap_or((text, ""))
}

//! TimestampDiff: how long packets took from a RecordTimestamp.

use std::sync::Arc;

use thruway_element::{
    Arg, ArgErrors, Args, Changes, Cx, Element, Entry, Handler, HandlerError, Handlers, Merge,
    Operation, Replicas, Spec, Topic, Ty, Verdict, handler_value, reasons,
};
use thruway_packet::Batch;

use super::number_packet::{self, NumberField};
use super::record_timestamp::Record;
use thruway_elements_support::text::general;

/// See the spec.
pub static ENTRY: Entry = Entry::new(
    Spec {
        name: "TimestampDiff",
        topic: Topic::Counters,
        summary: "measures how long numbered packets took",
        docs: "Reads the number that NumberPacket wrote at OFFSET and notes how long ago \
               RecordTimestamp RECORDER saw that packet, in microseconds: of the first N packets (0 \
               for 65536). Times of more than MAXDELAY milliseconds are reported, unless VERBOSE \
               is false, and not noted. Packets that are too short, or of which RECORDER knows nothing (any \
               more), leave by output 1, or are dropped where there is none. The present is read \
               once a round, not for each packet. Handlers that take a number, as in \
               \"max 100\", leave out so many of the first times; perc takes the percentage \
               first.",
        example: "InfiniteSource(LIMIT 3, STOP true) -> NumberPacket -> r :: RecordTimestamp(OFFSET 40) \
                  -> TimestampDiff(r) -> Discard",
        ports: "1/1-2",
        processing: "h/h",
        args: &[
            Arg::required("RECORDER", Ty::Element, "name of a RecordTimestamp"),
            number_packet::OFFSET,
            Arg::keyword("N", Ty::UInt, "times to note, at most 16777216; 0 for 65536").or("0"),
            Arg::keyword("MAXDELAY", Ty::UInt, "longest time to note, milliseconds").or("1000"),
            Arg::keyword("VERBOSE", Ty::Bool, "whether longer times are reported").or("true"),
        ],
        drops: Unknown::DROPS,
        handlers: &[
            Handler::read("average", "average, microseconds"),
            Handler::read("avg", "the same"),
            Handler::read("min", "shortest, microseconds"),
            Handler::read("max", "longest, microseconds"),
            Handler::read("stddev", "standard deviation, microseconds"),
            Handler::read("perc00", "the same as min"),
            Handler::read("perc01", "1st percentile"),
            Handler::read("perc05", "5th percentile"),
            Handler::read("perc10", "10th percentile"),
            Handler::read("perc25", "25th percentile"),
            Handler::read("median", "50th percentile"),
            Handler::read("perc75", "75th percentile"),
            Handler::read("perc90", "90th percentile"),
            Handler::read("perc95", "95th percentile"),
            Handler::read("perc99", "99th percentile"),
            Handler::read("perc100", "the same as max"),
            Handler::read("perc", "any percentile: perc 99.9"),
            Handler::read("index", "how many were noted, less one"),
            Handler::read("last", "the last, microseconds"),
            Handler { merge: Merge::Concat, ..Handler::read("dump", "all, a line each") },
        ],
        changes: Changes::Nothing,
        cost: &[Operation::Clock.once()],
        replicas: Replicas::OneThread("its percentiles are of all packets"),
        ..Spec::DEFAULT
    },
    build,
)
.with_handlers::<TimestampDiff>();

reasons! {
    /// Why a packet leaves by output 1.
    enum Unknown {
        TooShort = "too-short": "it ends before its number",
        Unrecorded = "unrecorded": "RECORDER does not know its number, or was asked before",
    }
}

const N_USUAL: usize = 1 << 16;
const N_MAX: usize = 1 << 24;

struct TimestampDiff {
    /// Records of that name, the innermost compound's first; one when it is known which there is.
    records: Vec<Arc<Record>>,
    recorder: String,
    field: NumberField,
    delays: Vec<u32>,
    n: usize,
    /// Nanoseconds.
    max: i64,
    verbose: bool,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let recorder: String = args.get("RECORDER")?;
    let n = match args.get("N")? {
        0 => N_USUAL,
        n @ 1..=N_MAX => n,
        _ => return Err(args.error("N", format!("at most {N_MAX}")).into()),
    };
    let names = args.meanings(&recorder);
    Ok(Box::new(TimestampDiff {
        records: names.iter().filter_map(|name| Record::of(args, name)).collect(),
        recorder,
        field: NumberField::new(args, false)?,
        delays: Vec::with_capacity(n),
        n,
        max: i64::from(args.get::<u32>("MAXDELAY")?) * 1_000_000,
        verbose: args.get("VERBOSE")?,
    }))
}

/// Nanoseconds in whole microseconds.
fn micros(ns: i64) -> u32 {
    u32::try_from(ns.max(0) / 1_000).unwrap_or(u32::MAX)
}

fn average(delays: &[u32]) -> f64 {
    let sum: u64 = delays.iter().map(|delay| u64::from(*delay)).sum();
    if delays.is_empty() { 0.0 } else { sum as f64 / delays.len() as f64 }
}

fn deviation(delays: &[u32]) -> f64 {
    let mean = average(delays);
    let squares: f64 = delays.iter().map(|delay| (f64::from(*delay) - mean).powi(2)).sum();
    if delays.is_empty() { 0.0 } else { (squares / delays.len() as f64).sqrt() }
}

fn percentile(delays: &[u32], percent: f64) -> u32 {
    let at = (percent * delays.len() as f64 / 100.0) as usize;
    let mut sorted = delays.to_vec();
    sorted.sort_unstable();
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or(0)
}

impl TimestampDiff {
    /// The times without as many of the first as `param` says.
    fn part(&self, name: &str, param: &str) -> Result<&[u32], HandlerError> {
        let skip: usize = if param.trim().is_empty() { 0 } else { handler_value(name, param)? };
        Ok(self.delays.get(skip..).unwrap_or(&[]))
    }

    fn statistic(&self, name: &str, param: &str) -> Result<String, HandlerError> {
        let fixed = match name {
            "median" => Some(50.0),
            _ => name.strip_prefix("perc").and_then(|percent| percent.parse().ok()),
        };
        if name == "perc" {
            let (percent, rest) = param.trim().split_once(' ').unwrap_or((param.trim(), ""));
            let percent: f64 = handler_value(name, percent)?;
            return Ok(percentile(self.part(name, rest)?, percent.clamp(0.0, 100.0)).to_string());
        }
        let part = self.part(name, param)?;
        Ok(match name {
            "average" | "avg" => general(average(part), 12),
            "stddev" => general(deviation(part), 12),
            "min" => part.iter().min().unwrap_or(&0).to_string(),
            "max" => part.iter().max().unwrap_or(&0).to_string(),
            _ => {
                let percent = fixed.ok_or_else(|| HandlerError::no_read(name))?;
                percentile(part, percent).to_string()
            }
        })
    }
}

impl Element for TimestampDiff {
    fn initialize(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        self.records.retain(|record| record.net_order().is_some());
        self.records.truncate(1);
        match self.records.first().and_then(|record| record.net_order()) {
            Some(net_order) => self.field = self.field.in_order(net_order),
            None => return Err(format!("RECORDER: no RecordTimestamp named '{}'", self.recorder)),
        }
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let (now, field, n, max) = (cx.now(), self.field, self.n, self.max);
        let Some(record) = self.records.first() else { return };
        let (delays, mut late) = (&mut self.delays, None);
        cx.filter(batch, |packet| {
            let Some(number) = field.read(packet.data()) else {
                return Verdict::reject(1, Unknown::TooShort);
            };
            let Some(then) = record.take(number) else {
                return Verdict::reject(1, Unknown::Unrecorded);
            };
            let delay = now.saturating_sub(then);
            if delay > max {
                late = Some((number, delay));
            } else if delays.len() < n {
                delays.push(micros(delay));
            }
            Verdict::Pass
        });
        if let (Some((number, delay)), true) = (late, self.verbose) {
            let (delay, max) = (delay / 1_000_000, max / 1_000_000);
            cx.log(&format!("Packet {number} experienced delay {delay} ms > {max} ms"));
        }
    }
}

impl Handlers for TimestampDiff {
    fn read_handler(
        &mut self,
        _cx: &mut Cx<'_>,
        name: &str,
        param: &str,
    ) -> Result<String, HandlerError> {
        match name {
            "index" => Ok((self.delays.len() as i64 - 1).to_string()),
            "last" => Ok(self.delays.last().unwrap_or(&0).to_string()),
            "dump" => {
                let lines = self.delays.iter().enumerate();
                Ok(lines.map(|(number, delay)| format!("{number}: {delay}\n")).collect())
            }
            _ => self.statistic(name, param),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics() {
        let delays: Vec<u32> = (1..=100).rev().collect();
        assert_eq!((average(&delays), average(&[])), (50.5, 0.0));
        let percentiles = [0.0, 50.0, 99.0, 100.0].map(|percent| percentile(&delays, percent));
        assert_eq!((percentiles, percentile(&[], 50.0)), ([1, 51, 100, 100], 0));
        assert_eq!((deviation(&[2, 4, 4, 4, 5, 5, 7, 9]), deviation(&[])), (2.0, 0.0));
        assert_eq!((micros(-5), micros(1_999), micros(i64::MAX)), (0, 1, u32::MAX));
    }
}

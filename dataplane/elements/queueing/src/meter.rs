//! Meter: sends the stream where its rate says.

use thruway_element::{
    ArgErrors, Args, Arguments, Changes, Cx, Element, Entry, FromArg, Handlers, Operation,
    Replicas, Spec, Topic,
};
use thruway_packet::Batch;
use thruway_sync::{PerThread, ThreadSlot};

use thruway_elements_support::ewma::Rate;
use thruway_elements_support::rate::RateArg;

/// See the spec.
pub static ENTRY: Entry = Entry::of::<Meter<false>>(Spec {
    name: "Meter",
    topic: Topic::Queueing,
    summary: "sends packets to outputs by the rate at which they come",
    docs: "Measures the rate of packets, an exponentially weighted moving average as Counter's, \
           and sends all packets to one output: to output 0 while the rate is below the first \
           RATE, to output 1 while it is below the second, and so on; to the last output while it \
           has reached the last RATE. RATEs must grow, and there is one output more than RATEs. \
           Where several threads bring packets the rate is that of all of them; each reads the \
           others' counts once a millisecond.",
    example: "InfiniteSource(LIMIT 3, STOP true) -> m :: Meter(10000) -> Discard;\n\
              m[1] -> Print(fast) -> Discard",
    ports: "1/2-",
    processing: "h/h",
    straight: true,
    changes: Changes::Nothing,
    cost: &[Operation::Count.once(), Operation::Sort.once()],
    replicas: Replicas::Sharing("their counts: the rate is that of all threads"),
    ..Spec::DEFAULT
});

/// See the spec.
pub static BANDWIDTH: Entry = Entry::of::<Meter<true>>(Spec {
    name: "BandwidthMeter",
    summary: "sends packets to outputs by the rate at which their bytes come",
    docs: "A Meter that measures bytes a second: packets go to output 0 while the rate is below \
           the first RATE, to output 1 while it is below the second, and so on. RATEs must \
           grow, and there is one output more than RATEs.",
    example: "InfiniteSource(LIMIT 3, STOP true) -> m :: BandwidthMeter(20kBps) -> Discard;\n\
              m[1] -> Print(fast) -> Discard",
    straight: true,
    ..ENTRY.spec
});

/// Bits of fraction of the rate.
const SCALE: u32 = 10;
/// Highest bound: what the average, 64 bits with its fraction, can show.
const RATE_MAX: u64 = 1 << 42;

/// The measured unit.
enum Measured {
    /// The packets of one thread.
    Own(Rate),
    /// What all threads see: each counts in a place of its own, and looks at those of the others
    /// when a millisecond has gone by.
    Common { rate: Rate, counts: ThreadSlot<PerThread<1>>, seen: u64 },
}

impl Measured {
    fn build(args: &Args<'_>) -> Result<Measured, ArgErrors> {
        let (rate, threads) = (Rate::new(SCALE), args.env().threads);
        if threads < 2 {
            return Ok(Measured::Own(rate));
        }
        let counts = args.shared("counts", || PerThread::new(threads));
        let seat = ThreadSlot::take(&counts);
        let counts = seat.ok_or_else(|| ArgErrors::whole("more threads than there are"))?;
        Ok(Measured::Common { rate, counts, seen: 0 })
    }

    #[inline]
    fn update(&mut self, now: i64, events: u64) -> &Rate {
        match self {
            Measured::Own(rate) => {
                rate.update(now, events);
                rate
            }
            Measured::Common { rate, counts, seen } => {
                if rate.is_over(now) {
                    let total =
                        counts.of().fold(0_u64, |sum, words| sum.wrapping_add(words.get(0)));
                    rate.spread(now, total.wrapping_sub(std::mem::replace(seen, total)));
                }
                counts.write(|words| words.add(0, events));
                rate
            }
        }
    }
}

#[derive(Arguments, Handlers)]
struct Meter<const BYTES: bool> {
    #[new(Measured::build(args)?)]
    #[handler(
        read, doc = if BYTES { "bytes a second, lately" } else { "packets a second, lately" },
        get = self.rate.update(cx.now(), 0).text()
    )]
    rate: Measured,
    #[arg(
        rest, name = "RATE", ty = RateArg::<BYTES>::TY,
        doc = if BYTES {
            "bytes a second, one argument for each bound"
        } else {
            "packets a second, one argument for each bound"
        }
    )]
    #[new(bounds::<BYTES>(args)?)]
    #[handler(
        read, name = "meters", "the bounds, a line each",
        get = self.bounds.iter().map(|bound| format!("{bound}\n")).collect::<String>()
    )]
    bounds: Vec<u64>,
}

fn bounds<const BYTES: bool>(args: &Args<'_>) -> Result<Vec<u64>, ArgErrors> {
    let (rates, outputs) = (args.rest().len(), args.env().outputs);
    if rates == 0 {
        return Err(ArgErrors::whole("missing argument RATE: give a rate for each bound"));
    }
    if outputs != rates + 1 {
        let message = format!("{rates} rates need {} outputs, {outputs} are used", rates + 1);
        return Err(ArgErrors::whole(message));
    }
    let mut bounds: Vec<u64> = Vec::with_capacity(rates);
    for (index, text) in args.rest() {
        let wrong = |why: String| args.rest_error(index, format!("RATE: {why}"));
        let RateArg::<BYTES>(rate) = args.parse(text).map_err(wrong)?;
        if rate > RATE_MAX {
            return Err(wrong(format!("{text} is too large; at most {RATE_MAX} a second")).into());
        }
        if bounds.last().is_some_and(|last| *last >= rate) {
            return Err(wrong(format!("{text} is not above the rate before it")).into());
        }
        bounds.push(rate);
    }
    Ok(bounds)
}

impl<const BYTES: bool> Element for Meter<BYTES> {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if let Measured::Common { .. } = self.rate {
            // A thread that gets its first packet late must know what the others counted.
            self.rate.update(cx.now(), 0);
        }
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) {
        let events = if BYTES { batch.bytes() } else { batch.len() as u64 };
        let rate = self.rate.update(cx.now(), events);
        // The average moves between milliseconds only: it is the same for the whole batch.
        let output = self.bounds.iter().filter(|bound| rate.reaches(**bound)).count();
        if output > 0 {
            cx.emit_all(output, batch);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use thruway_packet::Packet;

    use super::*;
    use thruway_elements_rig::Rig;

    const MS: i64 = 1_000_000;

    proptest! {
        /// If a steady stream is spread over threads, they forward the packets that a single thread
        /// would, within the tolerance of one millisecond.
        #[test]
        fn replicas_measure_one_rate(
            threads in 2usize..5,
            per_ms in 1usize..40,
            bound in 1u32..40_000,
            seats in prop::collection::vec(0usize..5, 300..400),
        ) {
            let texts = [bound.to_string()];
            let mut all = Rig::replicas(&ENTRY, &texts, 2, threads).unwrap();
            for seat in &seats {
                for _ in 0..per_ms {
                    all[seat % threads].push([Packet::zeroed(60).unwrap()]);
                }
                all.iter_mut().for_each(|replica| replica.pass(MS));
            }
            let rate = per_ms as f64 * 1000.0;
            // A sixteenth of what may be of the present millisecond.
            let slack = rate / 100.0 + (per_ms + threads) as f64 * 1000.0 / 16.0;
            for replica in &mut all {
                let text = replica.read("rate", "").unwrap();
                let shown: f64 = text.parse().unwrap();
                prop_assert!((shown - rate).abs() <= slack, "{shown} {rate}");
                let out = replica.push([Packet::zeroed(60).unwrap()]);
                let is_close = (rate - f64::from(bound)).abs() <= slack;
                let reached = out[1].len() == 1;
                prop_assert!(is_close || reached == (rate >= f64::from(bound)));
            }
        }
    }
}

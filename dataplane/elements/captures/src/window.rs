//! Which part of a trace is wanted: from when, until when, and what share of it.

use thruway_element::{ArgErrors, Args, FromArg, Nanos, Ty};
use thruway_elements_support::random::Random;

/// The moment that `text` names in seconds since 1970 with up to nine decimals, in nanoseconds.
/// (A floating-point number of seconds would be some hundred nanoseconds off.)
pub(super) fn parse_instant(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() && fraction.is_empty() || !digits(whole) || !digits(fraction) {
        return None;
    }
    // Click's summaries have times such as .5 too.
    let whole = if whole.is_empty() { "0" } else { whole };
    let nanos = fraction.bytes().chain(std::iter::repeat(b'0')).take(9);
    let nanos = nanos.fold(0, |sum, byte| sum * 10 + i64::from(byte - b'0'));
    whole.parse::<i64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanos)
}

/// A moment, as START and END take it.
struct Instant(i64);

impl FromArg for Instant {
    const TY: Ty = Ty::Time;

    fn from_arg(text: &str, env: &thruway_element::Env<'_>) -> Result<Instant, String> {
        let exact = parse_instant(text).map(Instant);
        exact.map_or_else(|| Nanos::from_arg(text, env).map(|time| Instant(time.0)), Ok)
    }
}

/// One end of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bound {
    Open,
    /// At this time.
    At(i64),
    /// So long after the trace's first packet.
    AfterFirst(i64),
    /// So long after the first packet that was wanted.
    AfterStart(i64),
}

/// Where a packet lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Position {
    Before,
    Within,
    Past,
}

/// The span of time that is wanted.
pub(super) struct Window {
    start: Bound,
    end: Bound,
}

impl Window {
    /// Of START, START_AFTER, END, END_AFTER and INTERVAL.
    pub(super) fn of(args: &Args<'_>) -> Result<Window, ArgErrors> {
        let at = |name| args.opt::<Instant>(name).map(|time| time.map(|time| time.0));
        let span = |name| args.opt::<Nanos>(name).map(|time| time.map(|time| time.0));
        let starts = [at("START")?.map(Bound::At), span("START_AFTER")?.map(Bound::AfterFirst)];
        let ends = [
            at("END")?.map(Bound::At),
            span("END_AFTER")?.map(Bound::AfterFirst),
            span("INTERVAL")?.map(Bound::AfterStart),
        ];
        let one = |bounds: &[Option<Bound>], names: &str| {
            let mut given = bounds.iter().flatten();
            let first = given.next().copied().unwrap_or(Bound::Open);
            match given.next() {
                None => Ok(first),
                Some(_) => Err(ArgErrors::whole(format!("give at most one of {names}"))),
            }
        };
        Ok(Window {
            start: one(&starts, "START and START_AFTER")?,
            end: one(&ends, "END, END_AFTER and INTERVAL")?,
        })
    }

    /// Where a packet of this time lies. Packets come in the order of the trace.
    #[inline]
    pub(super) fn position(&mut self, time: i64) -> Position {
        if self.start == Bound::Open && self.end == Bound::Open {
            return Position::Within;
        }
        self.compare(time)
    }

    fn compare(&mut self, time: i64) -> Position {
        for bound in [&mut self.start, &mut self.end] {
            if let Bound::AfterFirst(span) = *bound {
                *bound = Bound::At(time.saturating_add(span));
            }
        }
        if matches!(self.start, Bound::At(start) if time < start) {
            return Position::Before;
        }
        // From the first wanted packet on, earlier times are only disorder.
        self.start = Bound::Open;
        if let Bound::AfterStart(span) = self.end {
            self.end = Bound::At(time.saturating_add(span));
        }
        match self.end {
            Bound::At(end) if time >= end => Position::Past,
            _ => Position::Within,
        }
    }

    /// Puts the end off.
    pub(super) fn extend(&mut self, span: i64) {
        match &mut self.end {
            Bound::Open => {}
            Bound::At(time) | Bound::AfterFirst(time) | Bound::AfterStart(time) => {
                *time = time.saturating_add(span);
            }
        }
    }
}

/// Bits behind the point of a sampling probability.
const SHIFT: u32 = 28;
/// Probability 1.
const ALL: u32 = 1 << SHIFT;

/// Draws packets with a probability. The same draws in every run.
pub(super) struct Sampler {
    probability: u32,
    random: Random,
}

impl Sampler {
    /// Of SAMPLE.
    pub(super) fn of(args: &Args<'_>) -> Result<Sampler, ArgErrors> {
        let sample: f64 = args.get("SAMPLE")?;
        if !(0.0..=1.0).contains(&sample) {
            return Err(args.error("SAMPLE", "a probability is from 0 to 1").into());
        }
        let probability = (sample * f64::from(ALL)).round() as u32;
        Ok(Sampler { probability, random: Random::from_seed(0) })
    }

    /// Whether the next packet is wanted.
    #[inline]
    pub(super) fn draw(&mut self) -> bool {
        self.probability == ALL
            || self.random.next_u64() >> (u64::BITS - SHIFT) < u64::from(self.probability)
    }

    /// The probability as it is, in the fewest digits that distinguish it from its neighbours.
    pub(super) fn text(&self) -> String {
        let exact = f64::from(self.probability) / f64::from(ALL);
        let same = |text: &String| {
            let back = text.parse::<f64>().map(|value| (value * f64::from(ALL)).round() as u32);
            back == Ok(self.probability)
        };
        let shortest = (0..10).map(|digits| format!("{exact:.digits$}")).find(same);
        shortest.unwrap_or_else(|| exact.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    fn positions(start: Bound, end: Bound, times: &[i64]) -> Vec<Position> {
        let mut window = Window { start, end };
        times.iter().map(|time| window.position(*time)).collect()
    }

    #[test]
    fn instants_are_exact() {
        assert_eq!(parse_instant("996033261.451094"), Some(996_033_261_451_094_000));
        assert_eq!(parse_instant("1.000000001"), Some(S + 1));
        assert_eq!(parse_instant("7"), Some(7 * S));
        assert_eq!(parse_instant(".5"), Some(S / 2));
        for wrong in ["", ".", "-1", "1.x", "1e9", "99999999999999"] {
            assert_eq!(parse_instant(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn bounds_count_from_what_they_name() {
        use Position::{Before, Past, Within};
        let times = [10, 11, 12, 13, 14];
        assert_eq!(
            positions(Bound::At(12), Bound::At(13), &times),
            [Before, Before, Within, Past, Past]
        );
        assert_eq!(
            positions(Bound::AfterFirst(1), Bound::AfterFirst(3), &times),
            [Before, Within, Within, Past, Past]
        );
        assert_eq!(
            positions(Bound::AfterFirst(1), Bound::AfterStart(1), &times),
            [Before, Within, Past, Past, Past]
        );
        assert_eq!(positions(Bound::Open, Bound::Open, &times), [Within; 5]);
    }

    #[test]
    fn samples_come_near_the_probability_which_prints_short() {
        let mut sampler = Sampler { probability: ALL / 4, random: Random::from_seed(1) };
        let drawn = (0..100_000).filter(|_| sampler.draw()).count();
        assert!((24_000..26_000).contains(&drawn), "{drawn}");
        assert_eq!(sampler.text(), "0.25");
        assert_eq!(Sampler { probability: ALL, random: Random::from_seed(1) }.text(), "1");
        let tenth = (0.1 * f64::from(ALL)).round() as u32;
        assert_eq!(Sampler { probability: tenth, random: Random::from_seed(1) }.text(), "0.1");
    }
}
